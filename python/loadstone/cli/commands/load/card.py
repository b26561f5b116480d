"""Try what a store honours: conditional requests, listings, ranges, versions, parts, checksums,
keys, signatures and connections.

Each question is tried in a bucket that the card makes and removes again, or below a prefix of its
own in a bucket that you name (--bucket, with --allow-foreign if loadstone did not make it). An
answer is yes, no, differs (it does something else), refused (the store denied the question) or
undecided (no answer came in time). The terminal shows the rows that are not as documented; --full
shows all.

With --retention it also asks whether locked objects stay: it makes a bucket that can lock, and
locks two objects in it for two seconds each. Without it, all that is made can be removed at once.

TARGET is an address as for loadstone bench; several are shown side by side. Exit codes: 5,
something is left in a store; 1, a target could not be asked.

\b
Examples:
  loadstone card http://127.0.0.1:9000
  loadstone card http://127.0.0.1:9000 http://127.0.0.1:7480 -o card.html
  loadstone card http://127.0.0.1:9000 -f json
  loadstone card http://127.0.0.1:9000 --bucket mine --allow-foreign
"""

import json
import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loadstone.cli import exit_code, plain
from loadstone.cli.flags import (
    AllowForeign,
    Overwrite,
    TargetSettings,
    TerminalOrJson,
    parse_settings,
)
from loadstone.cli.messages import say, tell
from loadstone.cli.screen.output import print_table, print_words, write_files
from loadstone.errors import InputError, LoadstoneError
from loadstone.units import counted

if TYPE_CHECKING:
    from loadstone.documents.card import Card, CardRow
    from loadstone.documents.trial import TargetDocument

AS_DOCUMENTED = "as documented"


def command(
    targets: Annotated[
        list[str], typer.Argument(help="Addresses of the stores.", metavar="TARGET...")
    ],
    bucket: Annotated[
        str | None,
        typer.Option("--bucket", "-b", help="Bucket for the tests; default: a new one."),
    ] = None,
    allow_foreign: AllowForeign = False,
    with_retention: Annotated[
        bool,
        typer.Option(
            "--retention", help="Also lock two objects for some seconds, in a separate bucket."
        ),
    ] = False,
    settings: TargetSettings = None,
    form: TerminalOrJson = "terminal",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A page (.html) or a document (.json).")
    ] = None,
    overwrite: Overwrite = False,
    in_full: Annotated[
        bool, typer.Option("--full", help="On a terminal: also the rows that are as documented.")
    ] = False,
) -> int:
    from loadstone.card.questions.retention import RETENTION_S

    if output is not None and output.suffix not in (".html", ".json"):
        raise InputError.of_value(str(output), "a file whose name ends in .html or .json")
    if len(set(targets)) < len(targets):
        raise InputError("a target is named twice", "name each store once")
    documents = [target_of(text, parse_settings(settings or ()), bucket) for text in targets]
    if with_retention:
        say(
            f"note: --retention locks two objects for {RETENTION_S} s each, in a bucket of its own;"
            " a store that retains them longer keeps that bucket until then"
        )
    cards, code = _cards(
        documents, bucket, allow_foreign=allow_foreign, with_retention=with_retention
    )
    if not cards:
        return code
    if output is not None:
        write_files({output: _file(cards, output)}, may_overwrite=overwrite)
        print(plain(f"written: {output}"), file=sys.stderr)
    if form == "json":
        print(_json(cards))
    elif output is None:
        _print(cards, in_full=in_full)
    return code


def target_of(text: str, settings: dict[str, Any], bucket: str | None) -> "TargetDocument":
    """Return the target that an argument names, completed from the environment."""
    from loadstone.campaign.planning.plan import make_plan
    from loadstone.campaign.quick import campaign_from_flags

    campaign = campaign_from_flags("put", text, settings=settings, prefix=bucket, count=1)
    return {**make_plan(campaign).trials[0].document["target"], "name": text}


def _cards(
    documents: Sequence["TargetDocument"],
    bucket: str | None,
    *,
    allow_foreign: bool,
    with_retention: bool,
) -> tuple[list["Card"], int]:
    """Make the cards of all targets that respond; return them and the exit code."""
    from loadstone.card.making import make_card

    cards, code = [], 0
    for document in documents:
        left: list[str] = []
        freed: list[str] = []
        try:
            card = make_card(
                document, bucket=bucket, allow_foreign=allow_foreign,
                with_retention=with_retention, say_left=left.append, say_freed=freed.append,
            )  # fmt: skip
            cards.append(card)
        except LoadstoneError as error:
            tell(error)
            code = exit_code.FAILED
        for line in freed:
            say(f"note: {document['name']}: {line}")
        for line in left:
            code = code or exit_code.LEFT
            say(f"error: {document['name']}: left behind: {line}")
    return cards, code


def _file(cards: Sequence["Card"], path: Path) -> bytes:
    if path.suffix == ".json":
        return f"{_json(cards)}\n".encode()
    from loadstone.report.formats.card_page import render_cards

    return render_cards(cards)


def _json(cards: Sequence["Card"]) -> str:
    """Return one card as an object, and several as a list of them."""
    return json.dumps(cards[0] if len(cards) == 1 else cards, indent=2, ensure_ascii=False)


def _print(cards: Sequence["Card"], *, in_full: bool) -> None:
    """Print a table of rows, then the summary of each card.

    Unless in full, rows as documented are counted, and rows of the same answers are one.
    """
    from loadstone.report.card_words import summary_of
    from loadstone.report.formats.card_page import LEGEND, side_by_side

    is_only = len(cards) == 1
    heads = ("answer", "seen") if is_only else [str(number + 1) for number in range(len(cards))]
    table: list[tuple[str, ...]] = []
    reasons: dict[tuple[int, str], list[str]] = {}
    for group, rows in groupby(side_by_side(cards), key=lambda row: row.group):
        alike: dict[Any, list[str]] = {}
        for row in rows:
            if not in_full and not row.is_surprising:
                alike.setdefault(AS_DOCUMENTED, []).append(row.question)
                continue
            answers = tuple(cell["answer"] if cell else "–" for cell in row.cells)
            if is_only:
                answers = (*answers, _words(row.cells[0]))
            else:
                for number, cell in enumerate(row.cells, 1):
                    if cell and not cell["usual"] and (words := _words(cell)):
                        reasons.setdefault((number, words), []).append(row.question)
            alike.setdefault((answers, in_full and row.question), []).append(row.question)
        for key, questions in alike.items():
            if key is AS_DOCUMENTED:
                blanks = ("",) * (len(heads) - 1)
                table.append((group, counted(len(questions), "question"), key, *blanks))
            else:
                table.append((group, _first_of(questions), *key[0]))
    print_table(("about", "question", *heads), table)
    print()
    for (number, words), questions in reasons.items():
        print_words(plain(f"{number}, {_first_of(questions)}: {words}"), below="  ")
    print_words(LEGEND if in_full else f"{LEGEND} --full shows each row.")
    for number, card in enumerate(cards, 1):
        before = "" if is_only else f"{number}: "
        print_words(plain(f"{before}{card['target']}: {summary_of(card)}"))


def _first_of(questions: Sequence[str]) -> str:
    first, *others = questions
    return f"{first}, and {len(others)} more" if others else first


def _words(cell: "CardRow | None") -> str:
    return "; ".join(text for text in (cell["detail"], cell["means"]) if text) if cell else ""
