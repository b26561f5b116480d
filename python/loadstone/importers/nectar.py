"""nectar: one line per request in the file of -csv; the console has operation, size and threads.

nectar divides by whole seconds and counts failed requests in its rates. Here rates come from the
requests' own times, and the rates that nectar printed are stored next to them.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from loadstone import regular_file, units
from loadstone.errors import InputError
from loadstone.formats import reading
from loadstone.formats.imported import (
    SECOND_NS,
    Hints,
    Imported,
    ImportedTrial,
    settle,
    workloads_of,
)
from loadstone.formats.reading import FileLine
from loadstone.importers.completions import Completions

COMPLETION = "completion_time_unix_nano"
NEEDED = (COMPLETION, "object_name", "status", "elapsed_nanoseconds")
KINDS = {"headers_elapsed_nanoseconds": "reading", "method": "mixed"}
"""The benchmark that wrote a table, by a column that is specific to it."""

LINE_MAX = 1 << 16
OVER_TIME = ("time_unix_nano,count_since_last_time", "time_unix_nano,DELETE,GET,HEAD,POST,PUT")
OPERATION_OF_STATUS = {"201": "put", "204": "delete", "202": "post"}
PRINTED_DIFFERS = 0.01
READING = ("get", "head")
MOVING = ("put", "get")
"""Operations that transfer the object's bytes."""

_BENCH = re.compile(
    r"Bench-(?P<operation>\w+) (?:of (?P<count>\d+)|for \S+).*? at (?P<threads>\d+) concurrency"
)
_SIZE = re.compile(r"each(?: object is)? (\d+) bytes")
_END = re.compile(r"([\d.]+)s (?:total time, |for (\d+) requests, )([\d.]+) (\w+) per second")


@dataclass(frozen=True, slots=True, kw_only=True)
class Console:
    """Output of nectar: the load before, and the rate after."""

    path: Path
    operation: str
    requests: int | None
    size_bytes: int | None
    threads: int
    printed_rate: float | None
    printed_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NectarTable:
    """The trial of a -csv file, its rate as printed, and the number of missing rows."""

    trial: ImportedTrial
    printed_rate: float | None
    missing: int


def read(paths: Sequence[Path], hints: Hints) -> Imported:
    """Read one or several -csv files, and the console output of each if it is given."""
    tables = [path for path in paths if _is_table(path)]
    consoles = [read_console(path) for path in paths if path not in tables]
    if not tables:
        raise InputError(
            f'"{paths[0]}" is not a -csv file of nectar: {_first_line(paths[0])!r}',
            "its first line begins with completion_time_unix_nano",
        )
    paired = zip(tables, _pair(tables, consoles), strict=True)
    read_tables = [_table(path, console, hints) for path, console in paired]
    named = zip(read_tables, workloads_of(tables), strict=True)
    trials = settle([[replace(table.trial, workload=name)] for table, name in named], hints)
    names = [path.name for path in tables]
    return Imported(
        tool="nectar",
        name=trials[0].workload.rpartition("/")[2],
        trials=trials,
        notes=tuple(
            note
            for path, table in zip(tables, read_tables, strict=True)
            # Folders distinguish tables of the same name.
            for note in _notes(table, path.name if names.count(path.name) == 1 else str(path))
        ),
    )


def read_console(path: Path) -> Console:
    """Read nectar's console output."""
    text = reading.read_text(path)
    begun = _BENCH.search(text)
    if begun is None:
        raise InputError(
            f'"{path}" is neither a -csv file nor the output of a nectar bench command',
            'the output has a line "Bench-PUT of ... at 250 concurrency..."',
        )
    size = _SIZE.search(text)
    ended = _END.search(text)
    place = FileLine(path)
    return Console(
        path=path,
        operation=begun["operation"].lower(),
        requests=reading.whole(place, "count", begun["count"]) if begun["count"] else None,
        size_bytes=reading.whole(place, "bytes", size[1]) if size else None,
        threads=reading.whole(place, "concurrency", begun["threads"]),
        printed_rate=reading.number(place, "rate", ended[3]) if ended else None,
        printed_s=reading.number(place, "time", ended[1]) if ended else None,
    )


def _is_table(path: Path) -> bool:
    first = _first_line(path)
    if first in OVER_TIME:
        raise InputError(
            f'"{path}" is a -csvot file, which counts requests over time without their times',
            "give the file of -csv",
        )
    return COMPLETION in first


def _first_line(path: Path) -> str:
    try:
        regular_file.check(path)
        with path.open(encoding="utf-8-sig", errors="replace") as file:
            return file.readline(LINE_MAX).rstrip("\r\n")
    except OSError as error:
        raise InputError(f'cannot read "{path}": {error.strerror}') from error


def _pair(tables: Sequence[Path], consoles: Sequence[Console]) -> list[Console | None]:
    """Return the console output that belongs to each table; each belongs to one.

    It has the same name, and the same folder if several have that name; otherwise the same position
    in the order of the arguments.
    """
    if not consoles:
        return [None] * len(tables)
    for key in (_stem, lambda path: (path.resolve().parent, _stem(path))):
        of_key: dict[object, list[Console]] = {}
        for console in consoles:
            of_key.setdefault(key(console.path), []).append(console)
        keys = [key(path) for path in tables]
        are_alone = all(len(of_key.get(key, ())) == 1 for key in keys)
        if are_alone and len(set(keys)) == len(keys) == len(consoles):
            return [of_key[key][0] for key in keys]
    if len(consoles) == len(tables):
        return list(consoles)
    raise InputError(
        f"{units.counted(len(consoles), 'console output')} cannot be matched with "
        f"{units.counted(len(tables), 'table')}",
        "give one output for each -csv file, in the same order",
    )


def _stem(path: Path) -> str:
    return path.name.partition(".")[0]


def _table(path: Path, console: Console | None, hints: Hints) -> NectarTable:
    head = head_of(path)
    kind = next((kind for column, kind in KINDS.items() if column in head), "simple")
    size = (console.size_bytes if console else None) or hints.size_bytes
    threads = (console.threads if console else None) or hints.threads
    completions: Completions | None = None
    count = 0
    operation = (console.operation if console else None) or hints.operation
    for place, row in rows_of(path, head):
        end_ns = reading.whole(place, COMPLETION, row[COMPLETION], smallest=1)
        elapsed_ns = reading.whole(place, "elapsed_nanoseconds", row["elapsed_nanoseconds"])
        if elapsed_ns >= end_ns:
            place.refuse("takes longer than the time since 1970", reading.EDITED)
        if completions is None:
            completions = Completions(origin_ns=end_ns - elapsed_ns - SECOND_NS)
        if kind == "mixed":
            operation = row["method"].lower()
        operation = operation or _guessed(place, row, kind)
        is_good = _is_good(place, row["status"])
        completions.add(
            operation,
            "ok" if is_good else f"http_{row['status']}",
            end_ns=end_ns,
            elapsed_ns=elapsed_ns,
            first_byte_ns=_first_byte(place, row) if operation == "get" else None,
            bytes_moved=size or 0 if operation in MOVING else 0,
        )
        count += 1
    if completions is None:
        FileLine(path).refuse("has no rows", reading.TRUNCATED)
    assert operation is not None, "every row has settled it"
    missing = _missing(path, count, console)
    return _made(path, completions, kind, operation, size, threads, console, missing, hints)


def _made(
    path: Path,
    completions: Completions,
    kind: str,
    operation: str,
    size: int | None,
    threads: int | None,
    console: Console | None,
    missing: int,
    hints: Hints,
) -> NectarTable:
    phase = "mixed" if kind == "mixed" else operation
    parameters: dict[str, str | int | float] = {}
    # nectar's mixed benchmark has this many workers for each of its five operations.
    clients = (threads or 0) * (5 if kind == "mixed" else 1)
    if clients:
        parameters["threads"] = clients
    if size is not None:
        parameters["size"] = size
    printed_rate = console.printed_rate if console else None
    source = {
        "file": path.name,
        "printed_requests_per_s": printed_rate,
        "printed_s": console.printed_s if console else None,
        "not_in_the_file": missing,
    }
    rows = completions.close()
    trial = ImportedTrial(
        target=hints.target or "nectar",
        workload=path.stem,
        phase=phase,
        parameters=parameters,
        clients=clients or None,
        rows=rows,
        window_ns=completions.window_ns,
        started_unix_ns=completions.origin_ns,
        # The file lacks failed reads, whose number follows from the console's count.
        counts_failures=operation not in READING or (console is not None and not missing),
        size_bytes=size,
        labels=("INCOMPLETE",) if missing else (),
        source=source,
    )
    return NectarTable(trial=trial, printed_rate=printed_rate, missing=missing)


def _notes(table: NectarTable, name: str) -> Iterator[str]:
    """Yield a note if nectar's rate, over whole seconds, differs from that of its requests."""
    printed = table.printed_rate
    start_ns, end_ns = table.trial.window_ns
    rate = sum(row.requests for row in table.trial.rows) / (end_ns - start_ns) * SECOND_NS
    if printed and abs(printed / rate - 1) > PRINTED_DIFFERS:
        yield (
            f"{name}: nectar printed {printed:.1f}/s, which counts whole seconds;"
            f" over the requests' own time it is {rate:.1f}/s"
        )
    if table.missing:
        yield (
            f"{name}: {table.missing} requests are not in the"
            " file; nectar leaves out reads that failed"
        )


def head_of(path: Path) -> Sequence[str]:
    """Return the names of the columns of a -csv file."""
    head = _first_line(path).split(",")
    reading.check_columns(FileLine(path, 1), head, NEEDED, reading.EDITED)
    return head


def rows_of(path: Path, head: Sequence[str]) -> Iterator[tuple[FileLine, Mapping[str, str]]]:
    """Yield the rows of a -csv file with their places."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        file.readline()
        yield from reading.read_csv(path, file, head)


def _guessed(place: FileLine, row: Mapping[str, str], kind: str) -> str:
    guess = OPERATION_OF_STATUS.get(row["status"])
    if guess is None or kind == "reading":
        place.refuse(
            f"does not state its operation (status {row['status']})",
            "give the console's output too, or --operation get",
        )
    return guess


def _is_good(place: FileLine, status: str) -> bool:
    if not status.removeprefix("-").isdigit() or len(status) > 3:
        place.refuse(f'found "{status}", expected an HTTP status', reading.EDITED, "status")
    return status[0] == "2"


def _first_byte(place: FileLine, row: Mapping[str, str]) -> int | None:
    text = row.get("headers_elapsed_nanoseconds")
    return None if text is None else reading.whole(place, "headers_elapsed_nanoseconds", text)


def _missing(path: Path, count: int, console: Console | None) -> int:
    """Return how many requests the file lacks; nectar leaves out failed reads, and no others."""
    if console is None or console.requests is None or console.requests == count:
        return 0
    if count > console.requests:
        FileLine(path).refuse(
            f"has {count} requests, its console printed {console.requests}",
            "the two do not belong together",
        )
    if console.operation not in ("get", "head"):
        FileLine(path, count + 1).refuse(
            f"ends after {count} requests, its console printed {console.requests}",
            reading.TRUNCATED,
        )
    return console.requests - count
