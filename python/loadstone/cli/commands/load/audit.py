"""Read back what a run kept, against the ledger of what was acknowledged; or try a store.

\b
  RUN               read back what a run wrote, whose data and ledger were kept
  bestiary TARGET   try published sequences of requests by which stores lost data
  durability TARGET write at load, kill the store, start it, and read back

RUN needs: loadstone bench ... --audit --keep-data. All buckets are listed, and each object is
read, or as many as --sample says. Nothing is written to the target. The answer is added to the run
folder.

The bestiary writes into buckets of its own, and removes them. Sequences that take the store down,
or that need its maintenance, are tried where you give the commands. A command is split into words
as a shell does, but no shell reads it. If --start stays in the foreground, it is the server: it is
started at once if nothing answers, killed where --kill is missing, and ended with loadstone.

Durability needs --start, and --kill or --power-cut. Each comes about --times, in the last second
of a load of -d on new objects. "0 of 51,204 lost" comes with the share that it excludes.

Exit codes: 0, nothing is wrong; 1, an object is not as it was acknowledged, a sequence failed, or a
target could not be reached; 6, a sequence was undecided; 5, something is left in a store.

\b
Examples:
  loadstone audit runs/first --sample 100000
  loadstone audit bestiary http://127.0.0.1:9000
  loadstone audit bestiary http://127.0.0.1:9000 -o bestiary.html
  loadstone audit durability http://127.0.0.1:9000
      --kill "systemctl kill -s KILL store" --start "systemctl start store"
"""

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loadstone.cli import exit_code, plain
from loadstone.cli.flags import (
    AllowCommands,
    Overwrite,
    TargetSettings,
    TerminalOrJson,
    parse_settings,
)
from loadstone.cli.messages import say, tell
from loadstone.cli.running import consent
from loadstone.cli.screen.output import print_table, print_words, write_files
from loadstone.errors import InputError, LoadstoneError

if TYPE_CHECKING:
    from loadstone.campaign.quick import Flags
    from loadstone.documents.card import Bestiary

BESTIARY, DURABILITY = "bestiary", "durability"


def command(
    context: typer.Context,
    subject: Annotated[
        str,
        typer.Argument(
            help="A run folder; or, of a store, bestiary or durability.",
            metavar="RUN|bestiary|durability",
        ),
    ],
    target: Annotated[
        str | None, typer.Argument(help="The store's address.", metavar="TARGET")
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(min=1, help="RUN: number of objects to read back, chosen at random."),
    ] = None,
    kill: Annotated[
        str | None, typer.Option(help="Command that kills the store.", metavar="COMMAND")
    ] = None,
    power_cut: Annotated[
        str | None, typer.Option(help="Command that cuts its power.", metavar="COMMAND")
    ] = None,
    start: Annotated[
        str | None, typer.Option(help="Command that starts it again.", metavar="COMMAND")
    ] = None,
    maintain: Annotated[
        str | None,
        typer.Option(help="Command that runs its garbage collection or vacuum.", metavar="COMMAND"),
    ] = None,
    degrade: Annotated[
        str | None,
        typer.Option(help="Command that takes disks away, or stalls them.", metavar="COMMAND"),
    ] = None,
    restore: Annotated[
        str | None, typer.Option(help="Command that undoes --degrade.", metavar="COMMAND")
    ] = None,
    ready: Annotated[
        str | None,
        typer.Option(
            help="URL that answers once the store runs; default: TARGET's.", metavar="URL"
        ),
    ] = None,
    count: Annotated[
        int,
        typer.Option("--count", "-n", min=1, help="durability: number of objects in each load."),
    ] = 100_000,
    duration: Annotated[
        str, typer.Option("--duration", "-d", help="durability: how long each load lasts.")
    ] = "10s",
    threads: Annotated[
        int, typer.Option("--threads", "-t", min=1, help="durability: requests in flight.")
    ] = 16,
    size: Annotated[
        str, typer.Option("--size", "-s", help="durability: size of each object.")
    ] = "4KiB",
    times: Annotated[
        int, typer.Option(min=1, help="durability: number of times that each fault is injected.")
    ] = 5,
    settings: TargetSettings = None,
    form: TerminalOrJson = "terminal",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="File for a page (.html) or document (.json); for durability, the run folder.",
        ),
    ] = None,
    overwrite: Overwrite = False,
    allow_commands: AllowCommands = False,
) -> int:
    if subject not in (BESTIARY, DURABILITY):
        if target is not None:
            raise InputError.of_value(subject, f"{BESTIARY} or {DURABILITY}, before an address")
        return _read_back(Path(subject), sample, allow_commands=allow_commands)
    if target is None:
        raise InputError(f"{subject} needs a store", f"loadstone audit {subject} TARGET")
    commands = {
        "kill": kill, "power_cut": power_cut, "start": start, "maintain": maintain,
        "degrade": degrade, "restore": restore,
    }  # fmt: skip
    given = {name: text for name, text in commands.items() if text is not None}
    if ready is not None:
        from loadstone.campaign.schema.target import http_url

        http_url(ready)
    if subject == DURABILITY:
        load: Flags = {
            "count": str(count), "duration": duration, "threads": str(threads), "size": size,
            "audit": True,
        }  # fmt: skip
        words = shlex.join(["loadstone", *context.obj])
        return _measure(
            target, settings or (), given, ready, load, times, output, form=form, typed=words
        )
    if output is not None and output.suffix not in (".html", ".json"):
        raise InputError.of_value(str(output), "a file whose name ends in .html or .json")
    bestiary, code = _try(target, settings or (), given, ready)
    text = json.dumps(bestiary, indent=2, ensure_ascii=False)
    if output is not None:
        from loadstone.report.formats.card_page import render_bestiary

        page = render_bestiary(bestiary) if output.suffix == ".html" else f"{text}\n".encode()
        write_files({output: page}, may_overwrite=overwrite)
        print(plain(f"written: {output}"), file=sys.stderr)
    if form == "json":
        print(text)
    elif output is None:
        _print(bestiary)
    return code


def _try(
    target: str, settings: Sequence[str], given: Mapping[str, str], ready: str | None
) -> tuple["Bestiary", int]:
    """Run the bestiary against a target; return the result and the exit code."""
    from loadstone.card.bestiary import try_bestiary
    from loadstone.cli.commands.load.ab import split_command, url_of
    from loadstone.cli.commands.load.card import target_of
    from loadstone.execution.faults import FaultCommands
    from loadstone.execution.interrupt import Interrupt

    document = target_of(target, parse_settings(settings), None)
    commands = {name: split_command(text) for name, text in given.items()}
    url = (ready or url_of(target)) if commands else ""
    left: list[str] = []
    with FaultCommands(commands, url, Interrupt()) as faults:
        try:
            bestiary = try_bestiary(
                document, faults.actions, say_left=left.append,
                say_freed=lambda line: say(f"note: {target}: {line}"),
            )  # fmt: skip
        finally:
            for line in left:
                say(f"error: {target}: left behind: {line}")
    answers = {row["answer"] for row in bestiary["rows"]}
    if "failed" in answers:
        return bestiary, exit_code.FAILED
    if left:
        return bestiary, exit_code.LEFT
    return bestiary, exit_code.UNDECIDED if "undecided" in answers else 0


def _measure(
    target: str,
    settings: Sequence[str],
    given: Mapping[str, str],
    ready: str | None,
    load: "Flags",
    times: int,
    output: Path | None,
    *,
    form: str,
    typed: str,
) -> int:
    """Write at load, cause each fault `times` times, and read back."""
    from loadstone import units
    from loadstone.analysis.audits import FAULT_NOUNS
    from loadstone.campaign.quick import campaign_from_flags
    from loadstone.cli.commands.load.ab import split_command, url_of
    from loadstone.cli.running import session
    from loadstone.cli.running.durability import DurabilityKeeper
    from loadstone.execution.faults import START, FaultCommands
    from loadstone.execution.interrupt import Interrupt

    commands = {name: split_command(text) for name, text in given.items()}
    if START not in commands:
        raise InputError("durability needs the command that starts the store again", "pass --start")
    folder = output or session.default_folder(DURABILITY)
    with FaultCommands(commands, ready or url_of(target), Interrupt()) as faults:
        names = [name for name in FAULT_NOUNS if name in faults.actions]
        if not names:
            raise InputError("durability needs a fault", "pass --kill or --power-cut")
        load["blocks"] = times * len(names)
        campaign = campaign_from_flags(
            "put", target, settings=parse_settings(settings),
            overrides=["expect.failures=true", "on_error=continue"], **load,
        )  # fmt: skip
        load_s = units.parse_duration_ns(load["duration"] or "") / 1e9
        keeper = DurabilityKeeper(faults, names, folder, load_s, form)
        return session.measure(campaign, folder, command=typed, gate=keeper, allow_commands=True)


def _print(bestiary: "Bestiary") -> None:
    from loadstone.report.card_words import by_answer, summary_of_bestiary, thread_of

    rows = []
    # The end of the output stays visible in a terminal: the worst rows, then the summary.
    for row in by_answer(bestiary, worst_last=True):
        sighting = ": ".join(filter(None, (row["finding"], row["detail"])))
        text = f"{row['sequence']} – {sighting}" if sighting else row["sequence"]
        rows.append((row["number"], row["answer"], thread_of(row["reference"]), text))
    print_table(("", "answer", "thread", "sequence – observation"), rows)
    for row in bestiary["rows"]:
        if row["answer"] == "failed":
            print_words(plain(f"{row['number']}: {row['reference']}"))
    print()
    print_words(plain(f"{bestiary['target']}: {summary_of_bestiary(bestiary)}"))


def _read_back(run: Path, sample: int | None, *, allow_commands: bool) -> int:
    from loadstone.analysis.audits import Audited, describe
    from loadstone.execution.auditing import audit, audits_of
    from loadstone.execution.interrupt import Interrupt
    from loadstone.results.writer import RunWriter

    with RunWriter.lock(run):
        documents = audits_of(run, sample)
        if not documents:
            raise InputError(
                f'run "{run}" has nothing to audit: it kept no ledger, or its data was deleted',
                "write it anew with: loadstone bench put TARGET --audit --keep-data",
            )
        consent.ask_for(
            list(consent.of_profiles(documents)), who="this run", is_allowed=allow_commands
        )
        interrupt, code = Interrupt(), 0
        with interrupt.watching():
            for document in documents:
                if interrupt.is_asked:
                    break
                try:
                    summary = audit(document, run, interrupt)
                except LoadstoneError as error:
                    tell(error)
                    code = exit_code.FAILED
                    continue
                audited = Audited.of(document, summary)
                for line in describe(audited):
                    # The keys come from the run folder and are not trusted.
                    print(plain(line).replace("\n", " "))
                if audited.findings or not audited.has_read:
                    code = exit_code.FAILED
        if interrupt.is_asked:
            say("the audit was stopped; its result is not kept")
            return exit_code.INTERRUPTED
    return code
