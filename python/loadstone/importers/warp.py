"""warp: one line per request, tab separated, compressed with zstd; the command line at its end.

Newer ones write JSON instead: totals of each operation, and percentiles of stretches of ten
seconds, which cannot be added up and are left where they are.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from loadstone import regular_file
from loadstone.errors import InputError
from loadstone.formats import reading
from loadstone.formats.imported import SECOND_NS, Hints, Imported, ImportedTrial, Row
from loadstone.formats.json_document import JsonNode, parse_document
from loadstone.formats.reading import FileLine
from loadstone.importers.completions import Completions

LINE_MAX = 1 << 20
LINE_COLUMNS = (
    "idx", "thread", "op", "client_id", "n_objects", "bytes", "endpoint", "file", "error",
    "start", "first_byte", "last_byte", "end", "duration_ns", "cat",
)  # fmt: skip
OPERATIONS = {"DELETE": "delete", "STAT": "head", "LIST": "list", "PUT": "put", "GET": "get"}
DURATION_SLACK_NS = 100_000_000
DURATION_SLACK = 0.1
"""Times are of the wall clock and durations of a steady one: clocks that are corrected part a
little.
"""

ZSTD = b"\x28\xb5\x2f\xfd"
"""How every file that zstd compressed begins."""

_STATUS = re.compile(r"\b([45]\d\d)\b")


@dataclass(slots=True)
class _Group:
    """The requests of one operation, with all that a trial needs to know of them."""

    completions: Completions
    threads: set[tuple[str, str]] = field(default_factory=set)
    sizes: set[int] = field(default_factory=set)


def read(paths: Sequence[Path], hints: Hints) -> Imported:
    """Read one benchmark; operations that followed each other are trials, others are one mix."""
    if len(paths) != 1:
        raise InputError("one warp file is read at a time", "import each into a folder of its own")
    (path,) = paths
    text = _json_text(path)
    if text is not None:
        return _from_json(path, text, hints)
    groups: dict[str, _Group] = {}
    command = None
    origin_ns: int | None = None
    for place, row in _rows(path):
        if isinstance(row, str):
            command = row
            continue
        start_ns, end_ns = _times(place, row)
        origin_ns = start_ns - SECOND_NS if origin_ns is None else origin_ns
        _add(groups, place, row, start_ns, end_ns, origin_ns)
    if not groups:
        FileLine(path).refuse("has no requests", reading.TRUNCATED)
    trials = tuple(_trials(groups, path, command, hints))
    return Imported(tool="warp", name=path.name.partition(".")[0], trials=trials, command=command)


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
    first_byte = time_of(place, "first_byte", row["first_byte"]) if row["first_byte"] else None
    group.completions.add(
        operation,
        _outcome(row["error"]),
        end_ns=end_ns,
        elapsed_ns=end_ns - start_ns,
        first_byte_ns=None if first_byte is None else first_byte - start_ns,
        bytes_moved=size if operation in ("put", "get") else 0,
        objects=reading.whole(place, "n_objects", row["n_objects"]),
    )
    group.threads.add((row["client_id"], row["thread"]))
    group.sizes.add(size)


def _rows(path: Path) -> Iterator[tuple[FileLine, Mapping[str, str] | str]]:
    """Yield the requests, and the command line that warp appends as a comment."""
    expected = 0
    for place, line in lines_of(path, with_comments=True):
        if line.startswith("#"):
            yield place, line.lstrip("# ").rstrip("\n")
            continue
        rows = reading.read_csv(
            path, [line], LINE_COLUMNS, delimiter="\t", first_line=place.line or 0
        )
        for _, row in rows:
            if reading.whole(place, "idx", row["idx"]) != expected:
                place.refuse(f"found {row['idx']}, expected {expected}", reading.EDITED, "idx")
            expected += 1
            yield place, row


def lines_of(path: Path, *, with_comments: bool = False) -> Iterator[tuple[FileLine, str]]:
    """Yield the lines under the head, each with its place."""
    lines = _lines(path)
    head = next(lines, "")
    if head.rstrip("\n").split("\t") != list(LINE_COLUMNS):
        FileLine(path, 1).refuse(
            f'has the unknown head "{head[:60].rstrip()}"', "give the .csv.zst that warp wrote"
        )
    for number, line in enumerate(lines, start=2):
        if with_comments or not line.startswith("#"):
            yield FileLine(path, number), line


def _json_text(path: Path) -> str | None:
    """Return what a file holds if that is JSON, compressed or not; None where it is not."""
    try:
        regular_file.check(path)
        with path.open("rb") as file:
            is_compressed = file.read(len(ZSTD)) == ZSTD
        if not is_compressed:
            text = regular_file.read(path, reading.BYTES_MAX)
            return reading.read_text(path) if text.lstrip()[:1] == b"{" else None
        with (
            pa.OSFile(str(path)) as raw,
            pa.CompressedInputStream(raw, "zstd") as stream,
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
        # The reader of the lines says what is wrong.
        return None


def _from_json(path: Path, text: str, hints: Hints) -> Imported:
    document = parse_document(FileLine(path), text)
    command = document.find("commandline")
    words = str(command.value).split() if command is not None else []
    operations = dict(document.at("by_op_type").entries())
    if not operations:
        document.place.refuse("has no requests", reading.TRUNCATED)
    if document.at("final").value is not True:
        document.place.refuse("holds the state of a benchmark that goes on", reading.TRUNCATED)
    totals = [_of_totals(document.place, name, node) for name, node in operations.items()]
    stretches: list[list[_Totals]] = []
    for one in sorted(totals, key=lambda one: one.start_ns):
        if stretches and one.start_ns < max(other.end_ns for other in stretches[-1]):
            stretches[-1].append(one)
        else:
            stretches.append([one])
    asked = words[1] if len(words) > 1 else None
    known = {one.operation for one in totals}
    version = document.find("warp_version")
    return Imported(
        tool="warp",
        name=_name(path),
        trials=tuple(
            _trial_of_totals(
                path,
                own,
                is_measured=asked not in known or asked in {one.operation for one in own},
                hints=hints,
            )
            for own in stretches
        ),
        tool_version=str(version.value) if version is not None else None,
        command=str(command.value) if command is not None else None,
        notes=("warp's JSON keeps no requests: rates are over the whole time of each operation",),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Totals:
    """All requests of one operation, as warp adds them up."""

    operation: str
    requests: int
    failed: int
    objects: int
    bytes: int
    threads: int
    start_ns: int
    end_ns: int


def _of_totals(place: FileLine, name: str, node: JsonNode) -> _Totals:
    requests, failed = node.at("total_requests").whole(smallest=1), node.at("total_errors").whole()
    if failed > requests:
        place.refuse(f"{name}: {failed} of {requests} requests failed", reading.EDITED)
    start_ns, end_ns = (
        time_of(place, key, str(node.at(key).value)) for key in ("start_time", "end_time")
    )
    if end_ns <= start_ns:
        place.refuse(f"{name}: ends before it starts", reading.EDITED)
    operation = OPERATIONS.get(name, name.lower())
    return _Totals(
        operation=operation,
        requests=requests,
        failed=failed,
        objects=node.at("total_objects").whole(),
        bytes=node.at("total_bytes").whole() if operation in ("put", "get") else 0,
        threads=node.at("concurrency").whole(),
        start_ns=start_ns,
        end_ns=end_ns,
    )


def _trial_of_totals(
    path: Path, own: Sequence[_Totals], *, is_measured: bool, hints: Hints
) -> ImportedTrial:
    start_ns, end_ns = min(one.start_ns for one in own), max(one.end_ns for one in own)
    threads = max(1, *(one.threads for one in own)) if len(own) > 1 else max(1, own[0].threads)
    sizes = {one.bytes // one.objects for one in own if one.bytes and one.objects}
    exact = all(one.bytes % one.objects == 0 for one in own if one.bytes and one.objects)
    size = sizes.pop() if len(sizes) == 1 and exact else hints.size_bytes
    parameters: dict[str, str | int | float] = {"threads": threads}
    parameters |= {"size": size} if size else {}
    rows = [
        Row(
            operation=one.operation,
            outcome=outcome,
            # At the end: no second of the window claims all requests as its own.
            second=(end_ns - start_ns) // SECOND_NS,
            requests=requests,
            objects=one.objects if outcome == "ok" else 0,
            bytes=one.bytes if outcome == "ok" else 0,
        )
        for one in own
        for outcome, requests in (("ok", one.requests - one.failed), ("unknown", one.failed))
        if requests
    ]
    return ImportedTrial(
        target=hints.target or "warp",
        workload=_name(path),
        phase=own[0].operation if len(own) == 1 else "mixed",
        parameters=parameters,
        clients=threads,
        rows=tuple(rows),
        window_ns=(0, end_ns - start_ns),
        started_unix_ns=start_ns,
        is_measured=is_measured,
        size_bytes=size,
        source={"file": path.name},
    )


def _name(path: Path) -> str:
    return path.name.partition(".")[0]


def _lines(path: Path) -> Iterator[str]:
    try:
        regular_file.check(path)
        with (
            pa.OSFile(str(path)) as file,
            pa.CompressedInputStream(file, "zstd") as stream,
        ):
            rest = b""
            while chunk := stream.read(1 << 20):
                *whole, rest = (rest + chunk).split(b"\n")
                if len(rest) > LINE_MAX:
                    raise InputError(f'"{path}" has a line without end', reading.EDITED)
                yield from (line.decode("utf-8", "replace") + "\n" for line in whole)
    except OSError as error:
        hint = "give the .csv.zst that warp wrote" if "zstd" not in str(error).lower() else None
        raise InputError(f'cannot read "{path}": {error}', hint or reading.TRUNCATED) from error
    if rest:
        raise InputError(f'"{path}" ends without the end of a line', reading.TRUNCATED)


def _times(place: FileLine, row: Mapping[str, str]) -> tuple[int, int]:
    start_ns = time_of(place, "start", row["start"])
    end_ns = time_of(place, "end", row["end"])
    duration_ns = reading.whole(place, "duration_ns", row["duration_ns"])
    slack_ns = max(DURATION_SLACK_NS, DURATION_SLACK * duration_ns)
    if abs(end_ns - start_ns - duration_ns) > slack_ns:
        place.refuse(
            f"found {duration_ns}, but end - start is {end_ns - start_ns}",
            reading.EDITED,
            "duration_ns",
        )
    return end_ns - duration_ns, end_ns


def time_of(place: FileLine, column: str, text: str) -> int:
    """Return RFC 3339 with up to nine decimals in nanoseconds, which datetime cannot hold."""
    match = re.fullmatch(r"(.{19})(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)", text)
    try:
        if match is None:
            raise ValueError
        zone = "+00:00" if match[3] == "Z" else match[3]
        whole = datetime.fromisoformat(match[1] + zone).astimezone(UTC)
    except ValueError:
        place.refuse(f'found "{text}", expected a time', reading.EDITED, column)
    return int(whole.timestamp()) * SECOND_NS + int((match[2] or "0").ljust(9, "0"))


def _outcome(error: str) -> str:
    if not error:
        return "ok"
    status = _STATUS.search(error)
    return f"http_{status[1]}" if status else "unknown"


def _trials(
    groups: Mapping[str, _Group], path: Path, command: str | None, hints: Hints
) -> Iterator[ImportedTrial]:
    """Yield a trial for each stretch of time; what came before the benchmarked operation prepared
    it.
    """
    stretches: list[list[str]] = []
    ordered = sorted(groups, key=lambda name: groups[name].completions.window_ns[0])
    for name in ordered:
        start, _ = groups[name].completions.window_ns
        last = (
            max((groups[one].completions.window_ns[1] for one in stretches[-1]), default=0)
            if stretches
            else -1
        )
        if stretches and start < last:
            stretches[-1].append(name)
        else:
            stretches.append([name])
    words = (command or "").split()
    asked = words[1] if len(words) > 1 else None
    for names in stretches:
        is_measured = asked not in groups or asked in names
        yield _trial(names, groups, path, is_measured=is_measured, hints=hints)


def _trial(
    names: Sequence[str],
    groups: Mapping[str, _Group],
    path: Path,
    *,
    is_measured: bool,
    hints: Hints,
) -> ImportedTrial:
    own = [groups[name] for name in names]
    windows = [group.completions.window_ns for group in own]
    sizes = set().union(*(group.sizes for group in own))
    threads = len(set().union(*(group.threads for group in own)))
    size = sizes.pop() if len(sizes) == 1 else None
    parameters: dict[str, str | int | float] = {"threads": threads}
    if size:
        parameters["size"] = size
    rows = tuple(row for group in own for row in group.completions.close())
    return ImportedTrial(
        target=hints.target or "warp",
        workload=path.name.partition(".")[0],
        phase=names[0] if len(names) == 1 else "mixed",
        parameters=parameters,
        clients=threads,
        rows=rows,
        window_ns=(min(start for start, _ in windows), max(end for _, end in windows)),
        started_unix_ns=own[0].completions.origin_ns,
        is_measured=is_measured,
        size_bytes=size,
        source={"file": path.name},
    )
