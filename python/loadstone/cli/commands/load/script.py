"""Make, show, check and convert scripts: tables of actions that depend on each other.

\b
  make GENERATOR        generate a script from settings and a seed
  convert FORMAT FILE   make a script from a trace of another program
  show FILE             summarise a script
  check FILE            list all mistakes of a script, with row and column

A file is Parquet, or CSV if its name ends in .csv. Columns: docs/reference/script.md.

\b
Examples:
  loadstone script make users -o users.parquet --set copies=4 --set size=100KiB
  loadstone script show users.parquet
  loadstone script check mine.csv
  loadstone script convert s3-log access.log -o trace.parquet --size 64KiB
  loadstone script convert warp warp-get.csv.zst -o trace.csv --malformed skip
"""

import itertools
import json
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loadstone import units
from loadstone.cli.flags import Overwrite, parse_settings
from loadstone.errors import InputError, shown

if TYPE_CHECKING:
    from loadstone.documents.manifest import ScriptOrigin
    from loadstone.script.compiled import Checked
    from loadstone.script.summary import ScriptSummary
    from loadstone.script.trace import Losses

SIZE = "4KiB"


class Verb(StrEnum):
    """Actions on a script."""

    MAKE = "make"
    CONVERT = "convert"
    SHOW = "show"
    CHECK = "check"


class SessionsBy(StrEnum):
    """Grouping of the requests of a trace into sessions."""

    KEY = "key"
    CLIENT = "client"


class Malformed(StrEnum):
    """Treatment of lines that cannot be read."""

    REFUSE = "refuse"
    SKIP = "skip"


def command(
    verb: Annotated[Verb, typer.Argument(help="The action.", show_default=False)],
    names: Annotated[
        list[str],
        typer.Argument(help="A generator; a format and its files; or a script.", metavar="NAME..."),
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="make, convert: the file to write.")
    ] = None,
    overwrite: Overwrite = False,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="make: one setting of the generator.", metavar="KEY=VALUE"),
    ] = None,
    seed: Annotated[int, typer.Option(help="make: seed of all random choices.")] = 1,
    size: Annotated[
        str | None, typer.Option(help="Size of objects whose size is not stated.")
    ] = None,
    sessions_by: Annotated[
        SessionsBy,
        typer.Option(help="convert: sessions keep the order of each key, or of each client."),
    ] = SessionsBy.KEY,
    sessions: Annotated[int, typer.Option(help="convert: number of sessions.", min=1)] = 64,
    anonymise: Annotated[
        str | None,
        typer.Option(
            help="convert: hash the segments of keys with this salt; equal keys stay equal.",
            metavar="SALT",
        ),
    ] = None,
    copies: Annotated[
        int, typer.Option(help="convert: copies of a script's sequence, one session each.", min=1)
    ] = 1,
    no_times: Annotated[
        bool, typer.Option("--no-times", help="convert: keep the order only, not the times.")
    ] = False,
    malformed: Annotated[
        Malformed, typer.Option(help="convert: refuse or skip lines that cannot be read.")
    ] = Malformed.REFUSE,
    rows: Annotated[int, typer.Option(help="show: also this many of its actions.", min=0)] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="show, check: print JSON.")] = False,
) -> int:
    match verb:
        case Verb.MAKE:
            return _make(names, _needed(output, verb), overwrite, settings or (), seed, size)
        case Verb.CONVERT:
            from loadstone.script.trace import TraceOptions

            options = TraceOptions(
                sessions_by=sessions_by.value,
                sessions=sessions,
                size_bytes=None if size is None else units.parse_size(size),
                salt=anonymise,
                has_times=not no_times,
                copies=copies,
            )
            may_skip = malformed is Malformed.SKIP
            return _convert(names, _needed(output, verb), overwrite, options, may_skip=may_skip)
        case Verb.SHOW | Verb.CHECK:
            return _show(names, rows, as_json=as_json, is_check=verb is Verb.CHECK)


def _needed(output: Path | None, verb: Verb) -> Path:
    if output is None:
        raise InputError(f"{verb} needs a file to write", f"loadstone script {verb} ... -o FILE")
    return output


def _make(
    names: Sequence[str],
    output: Path,
    may_overwrite: bool,
    settings: Sequence[str],
    seed: int,
    size: str | None,
) -> int:
    from loadstone.script.generators import find_generator, read_settings
    from loadstone.script.table import writing

    if len(names) != 1:
        raise InputError("script make takes one generator", "loadstone script make users -o FILE")
    generator = find_generator(names[0])
    given = {"size": size or SIZE, "copies": 1, **parse_settings(settings)}
    read = read_settings(generator, given)
    with writing(output, may_overwrite=may_overwrite) as writer:
        for action in generator.make(read, seed):
            writer.add(action)
    print(f"{output}: {units.counted(writer.count, 'action')} by {generator.name}, seed {seed}")
    print(f"see: loadstone script show {output}")
    return 0


def _convert(
    names: Sequence[str], output: Path, may_overwrite: bool, options: Any, *, may_skip: bool
) -> int:
    from loadstone.script.converters import find_converter
    from loadstone.script.table import writing
    from loadstone.script.trace import Losses, Written, origin_of

    converter = find_converter(names[0])
    if len(names) < 2:
        raise InputError(
            "convert needs a file", f"loadstone script convert {names[0]} FILE -o SCRIPT"
        )
    losses = Losses(may_skip=may_skip)
    paths = [Path(name) for name in names[1:]]
    with writing(output, may_overwrite=may_overwrite) as writer:
        written = Written()
        for action in converter.script(paths, options, losses):
            writer.add(action)
            written.span_ns = action.due_ns or written.span_ns
            written.has_times |= action.due_ns is not None
        written.actions = writer.count
        files = [path.name for path in paths]
        writer.describe(origin_of(converter.name, files, options, losses, written))
    print(f"{output}: {units.counted(writer.count, 'action')} from {converter.name}")
    _print_losses(losses)
    print(f"see: loadstone script show {output}")
    return 0


def _print_losses(losses: "Losses") -> None:
    for why, count in losses.left_out.most_common():
        print(f"left out: {count:,} × {why}")
    if losses.malformed:
        print(f"malformed lines skipped: {losses.malformed:,}")
        for line in losses.examples:
            print(f"  {line}")
        if losses.malformed > len(losses.examples):
            print(f"  and {losses.malformed - len(losses.examples):,} more")


def _show(names: Sequence[str], rows: int, *, as_json: bool, is_check: bool) -> int:
    from loadstone.script.mistakes import ScriptError
    from loadstone.script.summary import summarise
    from loadstone.script.table import read_origin

    for name in names:
        try:
            checked = check_file(Path(name))
        except ScriptError as error:
            if as_json:
                print(json.dumps(error.document(), indent=2, ensure_ascii=False))
            raise
        summary = summarise(checked)
        if as_json:
            print(json.dumps({**summary.document(), "origin": read_origin(Path(name))}, indent=2))
        elif is_check:
            actions = units.counted(checked.requests.action_count, "action")
            sessions = units.counted(summary.sessions, "session")
            print(f"{name}: {actions} in {sessions}, no mistakes")
        else:
            _print_summary(name, summary)
            _print_origin(read_origin(Path(name)))
            _print_rows(Path(name), rows)
    return 0


def check_file(path: Path) -> "Checked":
    """Return the script in a file; raise an error with all of its mistakes."""
    from loadstone.script.compiled import check
    from loadstone.script.mistakes import Mistakes
    from loadstone.script.table import read_actions

    mistakes = Mistakes(str(path))
    return check(read_actions(path, mistakes), str(path), mistakes)


def _print_summary(name: str, summary: "ScriptSummary") -> None:
    from loadstone.cli.screen.output import print_table

    total = sum(action.actions for action in summary.actions)
    print(f"{name}: {total:,} actions in {units.counted(summary.sessions, 'session')}\n")
    types = any(action.user_type for action in summary.actions)
    print_table(
        ("action", *(["user type"] if types else []), "actions", "share", "requests", "bytes put"),
        [
            (
                action.action,
                *([action.user_type or "–"] if types else []),
                f"{action.actions:,}",
                f"{100 * action.actions / total:.1f} %",
                f"{action.requests:,}",
                units.format_bytes(action.bytes_put) if action.bytes_put else "–",
            )
            for action in summary.actions
        ],
        numbers={column + types for column in (1, 2, 3, 4)},
    )
    print()
    for line in _facts(summary):
        print(line)


def _facts(summary: "ScriptSummary") -> Iterator[str]:
    yield (
        f"sessions: {summary.first_sessions} first, {summary.last_sessions} last,"
        f" the longest has {units.counted(summary.longest_session, 'action')}"
    )
    yield (
        f"objects: {summary.objects:,}, of {units.counted(summary.users, 'user')} in"
        f" {units.counted(summary.places, 'place')}; {summary.overwrites:,} are overwritten"
    )
    if summary.prepared:
        size = units.format_bytes(summary.prepared_bytes)
        yield (
            f"present before the script begins: {units.counted(summary.prepared, 'object')}, {size}"
        )
    if summary.lists:
        yield f"listings: {summary.lists:,}, the exact set is known for {summary.lists_checked:,}"
    if summary.span_ns is not None:
        yield f"times: recorded, over {units.format_duration(summary.span_ns)}"
    else:
        yield "times: none; each action follows the one before in its session"


def _print_origin(origin: "ScriptOrigin | None") -> None:
    if origin is None:
        return
    from loadstone.documents.manifest import rows_kept

    files = ", ".join(origin["files"])
    rows_taken, read = rows_kept(origin), origin["rows_read"]
    print(f"from: {origin['format']} {files}, {rows_taken:,} of {read:,} rows")
    for why, count in origin["left_out"].items():
        print(f"left out: {count:,} × {why}")
    if origin["malformed"]:
        print(f"malformed lines skipped: {origin['malformed']:,}")
        for line in origin["malformed_examples"]:
            print(f"  {line}")


def _print_rows(path: Path, rows: int) -> None:
    if not rows:
        return
    from loadstone.cli.screen.output import print_table
    from loadstone.script.mistakes import Mistakes
    from loadstone.script.table import COLUMNS, read_actions

    taken = list(itertools.islice(read_actions(path, Mistakes(str(path))), rows))
    used = [
        name for name in COLUMNS.names if any(getattr(action, name) is not None for action in taken)
    ]
    print()
    print_table(
        ("row", *used),
        [(str(action.row), *(_cell(getattr(action, name)) for name in used)) for action in taken],
    )


def _cell(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ";".join(value)
    return "" if value is None else shown(value).strip('"')
