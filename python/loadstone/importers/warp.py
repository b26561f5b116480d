"""warp: one line per request, tab separated, compressed with zstd; the command line at its end.

Columns are read by name, as warp's own reader does, since releases have added some. From 1.1 on
warp writes JSON by default, and the lines only with `--full`. The JSON has totals per operation and
latencies per segment of ten seconds. Means, minima and maxima are combined over segments;
percentiles cannot be, and are left out.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from loadstone import regular_file
from loadstone.errors import InputError
from loadstone.formats import reading
from loadstone.formats.imported import (
    MILLISECOND_NS,
    SECOND_NS,
    Hints,
    ImportedFile,
    ImportedTrial,
    Stated,
    load_parameters,
)
from loadstone.formats.json_document import JsonNode, parse_document
from loadstone.formats.reading import FileLine
from loadstone.importers.completions import Completions
from loadstone.importers.totals import Work, trial_of_works

OPERATIONS = {"DELETE": "delete", "STAT": "head", "LIST": "list", "PUT": "put", "GET": "get"}
_LIMIT = re.compile(r"--rps-limit[= ]+(\d+(?:\.\d+)?)")
QUANTILES = {0.5: "dur_median_millis", 0.9: "dur_90_millis", 0.99: "dur_99_millis"}

LINE_MAX = 1 << 20
NEEDED = ("thread", "op", "n_objects", "bytes", "error", "start", "end")
DURATION_SLACK_NS = 100_000_000
DURATION_SLACK = 0.1
"""Timestamps use the wall clock and durations a monotonic one; they diverge when clocks are
corrected.
"""

ZSTD = b"\x28\xb5\x2f\xfd"
"""Magic number of a zstd file."""

_STATUS = re.compile(r"\b([45]\d\d)\b")


@dataclass(slots=True)
class _Group:
    """The requests of one operation, with everything that a trial needs."""

    completions: Completions
    threads: set[tuple[str, str]] = field(default_factory=set)
    sizes: set[int] = field(default_factory=set)


def read_file(path: Path, workload: str, hints: Hints) -> ImportedFile:
    """Read benchmarks; consecutive operations are trials, concurrent ones a mix.

    Files of several clients at the same time are parts of one load.
    """
    text = _json_text(path)
    if text is not None:
        return _read_totals(path, text, workload, hints)
    return _read_requests(path, workload, hints)


def _read_requests(path: Path, workload: str, hints: Hints) -> ImportedFile:
    groups: dict[str, _Group] = {}
    command = None
    origin_ns: int | None = None
    for place, row in _rows(path):
        if isinstance(row, str):
            command = command or row
            continue
        start_ns, end_ns = _times(place, row)
        origin_ns = start_ns - SECOND_NS if origin_ns is None else origin_ns
        _add(groups, place, row, start_ns, end_ns, origin_ns)
    if not groups:
        FileLine(path).refuse("has no requests", reading.TRUNCATED)
    windows = {name: group.completions.window_ns for name, group in groups.items()}
    trials = [
        _trial(names, groups, workload, path, command, is_measured=is_measured, hints=hints)
        for names, is_measured in _stretches(windows, command)
    ]
    return ImportedFile(trials=trials, command=command)


def _add(
    groups: dict[str, _Group],
    place: FileLine,
    row: Mapping[str, str],
    start_ns: int,
    end_ns: int,
    origin_ns: int,
) -> None:
    operation = OPERATIONS.get(row["op"], row["op"].lower())
    group = groups.setdefault(operation, _Group(Completions(origin_ns=origin_ns)))
    size = reading.whole(place, "bytes", row["bytes"])
    first = row.get("first_byte")
    first_byte = reading.time_of(place, "first_byte", first) if first else None
    group.completions.add(
        operation,
        _outcome(row["error"]),
        end_ns=end_ns,
        elapsed_ns=end_ns - start_ns,
        first_byte_ns=None if first_byte is None else first_byte - start_ns,
        bytes_moved=size if operation in ("put", "get") else 0,
        objects=reading.whole(place, "n_objects", row["n_objects"]),
    )
    group.threads.add((row.get("client_id", ""), row["thread"]))
    group.sizes.add(size)


def _rows(path: Path) -> Iterator[tuple[FileLine, Mapping[str, str] | str]]:
    """Yield the requests, and the command line that warp appends as a comment."""
    expected = 0
    columns, lines = table_of(path)
    for place, line in lines:
        if line.startswith("#"):
            yield place, line.lstrip("# ").rstrip("\n")
            continue
        rows = reading.read_csv(path, [line], columns, delimiter="\t", first_line=place.line or 0)
        for _, row in rows:
            if reading.whole(place, "idx", row.get("idx", str(expected))) != expected:
                place.refuse(f"found {row['idx']}, expected {expected}", reading.EDITED, "idx")
            expected += 1
            yield place, row


def table_of(path: Path) -> tuple[Sequence[str], Iterator[tuple[FileLine, str]]]:
    """Return the columns of a file, and its data lines with their places."""
    lines = _lines(path)
    head = next(lines, "")
    columns = head.rstrip("\r\n").removeprefix("\ufeff").split("\t")
    reading.check_columns(FileLine(path, 1), columns, NEEDED, "give the .csv.zst that warp wrote")
    return columns, _whole_lines(path, lines)


def _whole_lines(path: Path, lines: Iterator[str]) -> Iterator[tuple[FileLine, str]]:
    """Yield lines, joining those of a quoted error with line breaks."""
    number = 1
    for line in lines:
        number += 1
        begin = number
        while '"' in line and line.count('"') % 2 and not line.startswith("#"):
            more = next(lines, None)
            if more is None or len(line) > LINE_MAX:
                FileLine(path, begin).refuse("has an unclosed quote", reading.TRUNCATED)
            line += more
            number += 1
        if line.strip():
            yield FileLine(path, begin), line


def _json_text(path: Path) -> str | None:
    """Return the text of a JSON file, compressed or not; None if it is another format."""
    try:
        regular_file.check(path)
        with path.open("rb") as file:
            is_compressed = file.read(len(ZSTD)) == ZSTD
        if not is_compressed:
            text = regular_file.read(path, reading.BYTES_MAX)
            return reading.read_text(path) if text.lstrip()[:1] == b"{" else None
        with (
            _arrow().OSFile(str(path)) as raw,
            _arrow().CompressedInputStream(raw, "zstd") as stream,
        ):
            first = stream.read(1 << 16)
            if first.lstrip()[:1] != b"{":
                return None
            rest = stream.read(reading.BYTES_MAX)
            if stream.read(1):
                most = reading.BYTES_MAX // regular_file.MIB
                raise InputError(f'"{path}" unpacks to more than {most} MiB', reading.EDITED)
            return bytes(first + rest).decode("utf-8", "replace")
    except OSError:
        # The reader of the lines reports the error.
        return None


def _lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file, compressed or not."""
    try:
        regular_file.check(path)
        with ExitStack() as opened:
            file: Any = opened.enter_context(_arrow().OSFile(str(path)))
            if file.read(len(ZSTD)) == ZSTD:
                file.seek(0)
                file = opened.enter_context(_arrow().CompressedInputStream(file, "zstd"))
            else:
                file.seek(0)
            rest = b""
            while chunk := file.read(1 << 20):
                *whole, rest = (rest + chunk).split(b"\n")
                if len(rest) > LINE_MAX:
                    raise InputError(
                        f'"{path}" has a line of more than {LINE_MAX} characters', reading.EDITED
                    )
                yield from (line.decode("utf-8", "replace") + "\n" for line in whole)
    except OSError as error:
        hint = "give the .csv.zst that warp wrote" if "zstd" not in str(error).lower() else None
        raise InputError(f'cannot read "{path}": {error}', hint or reading.TRUNCATED) from error
    if rest:
        raise InputError(f'"{path}" ends in the middle of a line', reading.TRUNCATED)


def _times(place: FileLine, row: Mapping[str, str]) -> tuple[int, int]:
    start_ns = reading.time_of(place, "start", row["start"])
    end_ns = reading.time_of(place, "end", row["end"])
    stated = row.get("duration_ns")
    duration_ns = (
        reading.whole(place, "duration_ns", stated) if stated else max(0, end_ns - start_ns)
    )
    slack_ns = max(DURATION_SLACK_NS, DURATION_SLACK * duration_ns)
    if abs(end_ns - start_ns - duration_ns) > slack_ns:
        place.refuse(
            f"found {duration_ns}, but end - start is {end_ns - start_ns}",
            reading.EDITED,
            "duration_ns",
        )
    return end_ns - duration_ns, end_ns


def _outcome(error: str) -> str:
    if not error:
        return "ok"
    status = _STATUS.search(error)
    return f"http_{status[1]}" if status else "unknown"


def _trial(
    names: Sequence[str],
    groups: Mapping[str, _Group],
    workload: str,
    path: Path,
    command: str | None,
    *,
    is_measured: bool,
    hints: Hints,
) -> ImportedTrial:
    members = [groups[name] for name in names]
    windows = [group.completions.window_ns for group in members]
    sizes = set().union(*(group.sizes for group in members))
    threads = set().union(*(group.threads for group in members))
    size = sizes.pop() if len(sizes) == 1 else None
    rows = tuple(row for group in members for row in group.completions.close())
    return ImportedTrial(
        target=hints.target or "warp",
        workload=workload,
        phase=names[0] if len(names) == 1 else "mixed",
        parameters=load_parameters(len(threads), size),
        clients=len(threads),
        rows=rows,
        window_ns=(min(start for start, _ in windows), max(end for _, end in windows)),
        started_unix_ns=members[0].completions.origin_ns,
        counts_failures=True,
        is_measured=is_measured,
        size_bytes=size,
        source={"file": path.name},
        **_pace(command, len({client for client, _ in threads})),
    )


def _arrow() -> Any:
    """Return pyarrow, which decompresses warp's files; other importers do not need it."""
    import pyarrow as pa

    return pa


def _read_totals(path: Path, text: str, workload: str, hints: Hints) -> ImportedFile:
    """Read the JSON of one benchmark."""
    document = parse_document(FileLine(path), text)
    operations = dict(document.at("by_op_type").entries())
    if not operations:
        document.place.refuse("has no requests", reading.TRUNCATED)
    if document.at("final").value is not True:
        document.place.refuse("is of a benchmark that is still running", reading.TRUNCATED)
    totals = {
        total.work.operation: total
        for total in (_of_totals(document.place, *operation) for operation in operations.items())
    }
    windows = {name: (total.start_ns, total.end_ns) for name, total in totals.items()}
    command, version = (
        None if node is None else str(node.value)
        for node in map(document.find, ("commandline", "warp_version"))
    )
    return ImportedFile(
        trials=[
            _trial_of_totals(
                [totals[name] for name in names], path, workload, command, is_measured, hints
            )
            for names, is_measured in _stretches(windows, command)
        ],
        tool_version=version,
        command=command,
        notes=("warp's JSON keeps no requests: rates are over the whole time of each operation",),
    )


def _stretches(
    windows: Mapping[str, tuple[int, int]], command: str | None
) -> Iterator[tuple[Sequence[str], bool]]:
    """Yield operations that overlapped in time, in order, and whether they were measured.

    `windows` are the beginning and end of each operation. Operations that do not overlap the
    benchmarked one are its preparation.
    """
    groups: list[list[str]] = []
    for name in sorted(windows, key=lambda name: windows[name][0]):
        if groups and windows[name][0] < max(windows[other][1] for other in groups[-1]):
            groups[-1].append(name)
        else:
            groups.append([name])
    benchmarked = [*(command or "").split(), "", ""][1]
    for names in groups:
        yield names, benchmarked not in windows or benchmarked in names


@dataclass(frozen=True, slots=True, kw_only=True)
class _Totals:
    """All requests of one operation, as totalled by warp."""

    work: Work
    threads: int
    clients: int
    start_ns: int
    end_ns: int


def _of_totals(place: FileLine, name: str, node: JsonNode) -> _Totals:
    requests, failed = node.at("total_requests").whole(smallest=1), node.at("total_errors").whole()
    if failed > requests:
        place.refuse(f"{name}: {failed} of {requests} requests failed", reading.EDITED)
    start_ns, end_ns = (
        reading.time_of(place, key, str(node.at(key).value)) for key in ("start_time", "end_time")
    )
    if end_ns <= start_ns:
        place.refuse(f"{name}: ends before it starts", reading.EDITED)
    operation = OPERATIONS.get(name, name.lower())
    return _Totals(
        work=Work(
            operation=operation,
            requests=requests - failed,
            failed=failed,
            objects=node.at("total_objects").whole(),
            bytes=node.at("total_bytes").whole() if operation in ("put", "get") else 0,
            # Times include failed requests, so they are used only if there are none.
            stated=_times_of_stretches(node, requests) if not failed else None,
        ),
        threads=node.at("concurrency").whole(),
        clients=_count_clients(node),
        start_ns=start_ns,
        end_ns=end_ns,
    )


def _times_of_stretches(node: JsonNode, requests: int) -> Stated | None:
    """Combine the times of all clients' segments; None unless they cover all requests."""
    by_client = node.find("requests_by_client")
    stretches = [
        sized
        for _, client in (by_client.entries() if by_client is not None else ())
        for stretch in (client.items() if client.value is not None else ())
        if (sized := stretch.find("single_sized_requests")) is not None and not _is_skipped(sized)
    ]
    counts = [stretch.at("requests").whole() for stretch in stretches]
    if not stretches or sum(counts) != requests:
        return None

    def ns(node: JsonNode, name: str) -> float:
        return node.at(name).number() * MILLISECOND_NS

    means = [ns(stretch, "dur_avg_millis") for stretch in stretches]
    shares = QUANTILES.items() if len(stretches) == 1 else ()
    return Stated(
        count=requests,
        mean_ns=sum(n * mean for n, mean in zip(counts, means, strict=True)) / requests,
        min_ns=round(min(ns(stretch, "fastest_millis") for stretch in stretches)),
        max_ns=round(max(ns(stretch, "slowest_millis") for stretch in stretches)),
        quantiles_ns={share: round(ns(stretches[0], name)) for share, name in shares},
    )


def _count_clients(node: JsonNode) -> int:
    """Return how many clients took part; 0 if it is not stated."""
    clients = node.find("clients")
    if clients is None:
        return 0
    return len(clients.value) if isinstance(clients.value, (list, dict)) else 0


def _pace(command: str | None, clients: int) -> dict[str, Any]:
    """Return the requested rate limit, which warp applies to each of its clients."""
    match = _LIMIT.search(command or "")
    if match is None or not float(match[1]):
        return {}
    limit = float(match[1]) * clients if clients else None
    return {"paced_by": f"--rps-limit={match[1]}", "rate_limit_per_s": limit}


def _is_skipped(node: JsonNode) -> bool:
    skipped = node.find("skipped")
    return skipped is not None and bool(skipped.value)


def _trial_of_totals(
    totals: Sequence[_Totals],
    path: Path,
    workload: str,
    command: str | None,
    is_measured: bool,
    hints: Hints,
) -> ImportedTrial:
    start_ns = min(total.start_ns for total in totals)
    moving = [total.work for total in totals if total.work.bytes and total.work.objects]
    sizes = {work.bytes / work.objects for work in moving}
    size = sizes.pop() if len(sizes) == 1 else None
    trial = trial_of_works(
        [total.work for total in totals],
        tool="warp",
        workload=workload,
        length_ns=max(total.end_ns for total in totals) - start_ns,
        threads=max(total.threads for total in totals),
        size_bytes=int(size) if size is not None and size.is_integer() else None,
        started_unix_ns=start_ns,
        source={"file": path.name},
        hints=hints,
        is_measured=is_measured,
    )
    return replace(trial, **_pace(command, max(total.clients for total in totals)))
