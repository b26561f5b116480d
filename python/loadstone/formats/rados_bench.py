"""rados bench: a line per second and totals at the end, as text or JSON.

Its "MB" are 2^20 bytes. It states the mean and the extremes of its latency, but no percentile;
concurrency only for writes; and no start in text. Lines of other programs, such as logs of the
client, are skipped: a file is complete if its totals are.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from loadstone.formats import reading
from loadstone.formats.imported import (
    LONGEST_S,
    MEBIBYTE,
    SECOND_NS,
    Hints,
    Imported,
    ImportedFile,
    ImportedTrial,
    Row,
    Stated,
    import_files,
    load_parameters,
)
from loadstone.formats.json_document import read_document
from loadstone.formats.reading import FileLine

ROLLBACKS = ("is of rollbacks, which move no objects", "import what write, seq or rand printed")
TOLERANCE = 0.01

_CLOCK = re.compile(r"\s*\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?(?:[+-]\d{4}|Z)?\s(?=[\s\w])")
"""The prefix that `--show-time` adds to each line."""

_LOAD = re.compile(r"\s*Maintaining (\d+) concurrent (\w+) of (\d+) bytes")
_HEAD = re.compile(r"\s*sec\s+Cur ops\s+started\s+finished")
_ROW = re.compile(r"\s*(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s+([\d.]+)\s+([\d.]+)\s+(\S+)\s+(\S+)\s*")
_SUMMARY = re.compile(
    r"\s*((?:Total|Average|Stddev|Max|Min|Read|Write|Object|Bandwidth)[\w ]*?(?:\([\w/]+\))?)"
    r"(?::\s*|\s{2,})([\d.e+-]+|-?nan|-?inf)\s*"
)
"""Between Luminous and Mimic the average of a read's IOPS has no colon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """The totals at the end; `clients` is None if not printed.

    The printed `bandwidth` is checked against the others; `place` is its place.
    """

    place: FileLine
    bandwidth: float
    made: int
    size: int
    length_s: float
    clients: int | None
    is_read: bool
    times: Stated | None


@dataclass(frozen=True, slots=True)
class Second:
    """One line: the second, operations in flight, and the number finished since the start."""

    second: int
    in_flight: int
    finished: int


def read(paths: Sequence[Path], hints: Hints) -> Imported:
    """Read outputs of rados bench; each is a trial."""
    return import_files("rados bench", paths, hints, _read_file)


def _read_file(path: Path, workload: str, hints: Hints) -> ImportedFile:
    is_json = re.search(r"^\s*\{", reading.read_text(path), re.MULTILINE) is not None
    trial = (_from_json if is_json else _from_text)(path, hints)
    return ImportedFile(trials=(replace(trial, workload=workload),))


def _from_text(path: Path, hints: Hints) -> ImportedTrial:
    lines = reading.read_text(path).splitlines()
    seconds: list[Second] = []
    totals: dict[str, tuple[FileLine, float]] = {}
    clients = None
    has_head = False
    for number, line in enumerate(lines, start=1):
        place = FileLine(path, number)
        line = _CLOCK.sub("", line)
        if match := _LOAD.match(line):
            clients = reading.whole(place, "operations", match[1])
        elif _HEAD.match(line):
            has_head = True
        elif match := _ROW.fullmatch(line):
            names = ("sec", "Cur ops", "finished")
            cells = [
                reading.whole(place, name, match[column])
                for name, column in zip(names, (1, 2, 4), strict=True)
            ]
            seconds.append(Second(*cells))
            _check_order(place, seconds)
        elif match := _SUMMARY.fullmatch(line):
            name = match[1].strip()
            totals[name] = (place, _printed(place, name, match[2]))
    if not has_head:
        FileLine(path, 1).refuse(
            "is not the output of rados bench", "it has a line of sec, Cur ops ..."
        )
    plain = {name: value for name, (_, value) in totals.items()}
    end = FileLine(path, len(lines))
    if "Total rollbacks made" in plain:
        end.refuse(*ROLLBACKS)
    is_read = "Total reads made" in plain
    made = _total(end, totals, "Total reads made" if is_read else "Total writes made")
    size = _total(end, totals, "Read size" if is_read else "Write size")
    length_s = _total(end, totals, "Total time run")
    numbers = {name.partition("(")[0].lower(): value for name, value in plain.items()}
    bandwidth = _total(end, totals, "Bandwidth (MB/sec)")
    totals_of_run = Totals(
        place=totals["Bandwidth (MB/sec)"][0],
        bandwidth=bandwidth,
        made=int(made),
        size=int(size),
        length_s=length_s,
        clients=clients,
        is_read=is_read,
        times=_times(numbers, made),
    )
    return _trial(path, seconds, totals_of_run, plain, hints)


def _from_json(path: Path, hints: Hints) -> ImportedTrial:
    document = read_document(path)
    if "total_rollbacks_made" in document.mapping():
        document.place.refuse(*ROLLBACKS)
    seconds: list[Second] = []
    for row in document.at("datas").items():
        # The fraction is that of the time of printing, not of counting.
        second = round(row.at("sec").number())
        in_flight, finished = row.at("cur_ops").whole(), row.at("finished").whole()
        seconds.append(Second(second, in_flight, finished))
        _check_order(document.place, seconds)
    is_read = "total_reads_made" in document.mapping()
    made = document.at("total_reads_made" if is_read else "total_writes_made").whole()
    size = document.at("read_size" if is_read else "write_size").whole(smallest=1)
    length_s = document.at("total_time_run").positive()
    bandwidth = document.at("bandwidth").number()
    stated = document.find("concurrent_ios")
    clients = stated.whole() if stated is not None else None
    if clients is None:
        match = _LOAD.search(reading.read_text(path))
        clients = int(match[1]) if match is not None else None
    plain = {key: value for key, value in document.mapping().items() if key != "datas"}
    numbers = {
        # The longest latency of a write is named "max_latency:".
        key.replace("_", " ").rstrip(":"): node.number()
        for key, node in document.entries()
        if "latency" in key
    }
    totals = Totals(
        place=document.place,
        bandwidth=bandwidth,
        made=made,
        size=size,
        length_s=length_s,
        clients=clients,
        is_read=is_read,
        times=_times(numbers, made),
    )
    return _trial(path, seconds, totals, plain, hints)


def _trial(
    path: Path, seconds: Sequence[Second], totals: Totals, source: Mapping[str, Any], hints: Hints
) -> ImportedTrial:
    expected = totals.made * totals.size / MEBIBYTE / totals.length_s
    what = "bandwidth against operations, their size and the time"
    reading.agree(totals.place, what, totals.bandwidth, expected, TOLERANCE)
    # The maximum number of requests is in flight except at the end.
    in_flight = max((second.in_flight for second in seconds), default=None)
    threads = totals.clients or hints.threads or in_flight or None
    operation = "get" if totals.is_read else "put"
    rows = tuple(_rows(FileLine(path), seconds, totals, operation))
    length_ns = round(totals.length_s * SECOND_NS)
    return ImportedTrial(
        target=hints.target or "RADOS",
        workload=path.stem,
        phase=operation,
        parameters=load_parameters(threads, totals.size),
        clients=threads,
        rows=rows,
        window_ns=(0, length_ns),
        started_unix_ns=None,
        # The first failed request ends it; wrong data in reads is only reported on standard error.
        counts_failures=not totals.is_read,
        size_bytes=totals.size,
        stated={operation: totals.times} if totals.times is not None else {},
        source=dict(source),
    )


def _rows(
    place: FileLine, seconds: Sequence[Second], totals: Totals, operation: str
) -> Iterator[Row]:
    """Yield the operations finished between two lines; line n has the total until second n."""
    before, last = 0, 0
    made, size = totals.made, totals.size
    for second in seconds:
        if second.finished > before:
            yield _row(operation, max(0, second.second - 1), second.finished - before, size)
        before, last = second.finished, second.second
    if made < before:
        place.refuse(
            f"{made} operations in all are fewer than the {before} of its last second",
            reading.EDITED,
        )
    if made > before:
        yield _row(operation, last, made - before, size)


def _row(operation: str, second: int, count: int, size: int) -> Row:
    return Row(
        operation=operation,
        outcome="ok",
        second=second,
        requests=count,
        objects=count,
        bytes=count * size,
    )


def _check_order(place: FileLine, seconds: Sequence[Second]) -> None:
    if len(seconds) > 1 and (
        seconds[-1].second <= seconds[-2].second or seconds[-1].finished < seconds[-2].finished
    ):
        place.refuse("goes back behind the line before it", reading.EDITED)


def _printed(place: FileLine, name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        place.refuse(f"found {text}, expected a number", reading.EDITED, name)
    return value


def _total(end: FileLine, totals: Mapping[str, tuple[FileLine, float]], name: str) -> float:
    if name not in totals:
        end.refuse(f'ends without "{name}"', reading.TRUNCATED)
    place, value = totals[name]
    if value <= 0 or value > reading.LARGEST:
        place.refuse(f"found {value:g}, expected a number above 0", reading.EDITED, name)
    return value


def _times(numbers: Mapping[str, float], made: float) -> Stated | None:
    """Return mean, minimum and maximum latency, which are given in seconds."""
    names = ("average latency", "min latency", "max latency")
    if not all(0 <= numbers.get(name, -1) <= LONGEST_S for name in names):
        return None
    mean, least, most = (numbers[name] * SECOND_NS for name in names)
    return Stated(count=int(made), mean_ns=mean, min_ns=round(least), max_ns=round(most))
