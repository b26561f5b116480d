"""elbencho: a line of CSV or JSON for each phase of a benchmark, with totals of its last thread."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from loadstone.formats import reading
from loadstone.formats.imported import (
    SECOND_NS,
    Hints,
    Imported,
    ImportedTrial,
    Row,
    Stated,
    repetitions,
)
from loadstone.formats.json_document import JsonNode, parse_document
from loadstone.formats.reading import FileLine

OPERATIONS = {
    "WRITE": "write",
    "READ": "read",
    "RMFILES": "delete",
    "RMOBJECTS": "delete",
    "STAT": "head",
    "HEADOBJ": "head",
    "LISTOBJ": "list",
    "LISTOBJ_P": "list",
    "MKBUCKETS": "create_bucket",
    "RMBUCKETS": "delete_bucket",
    "SYNC": "sync",
    "DROPCACHE": "drop_caches",
    "MKDIRS": "create_directory",
    "RMDIRS": "delete_directory",
}
UNMEASURED = ("SYNC", "DROPCACHE")
MEBIBYTE = 2**20
NEEDED = ("ISO date", "operation", "threads", "time ms [last]", "MiB [last]", "version")


def read(paths: Sequence[Path], hints: Hints) -> Imported:
    """Read files of --csvfile or --jsonfile; each line is a trial."""
    trials: list[ImportedTrial] = []
    version = command = None
    for path, (workload, block) in zip(paths, repetitions(paths), strict=True):
        for place, row in _rows(path):
            version, command = row["version"], row.get("command")
            trials.append(_trial(place, row, workload, block, hints))
    return Imported(
        tool="elbencho",
        name=paths[0].stem,
        trials=tuple(trials),
        tool_version=version,
        command=command,
    )


def _rows(path: Path) -> Iterator[tuple[FileLine, Mapping[str, str]]]:
    text = reading.read_text(path)
    if text.lstrip().startswith("{"):
        yield from _json_rows(path, text)
        return
    head, _, body = text.partition("\n")
    columns = reading.split_cells(FileLine(path, 1), head.rstrip("\r"))
    missing = [name for name in NEEDED if name not in columns]
    if missing:
        FileLine(path, 1).refuse(
            f'has no column "{missing[0]}"', "give the file of elbencho's --csvfile"
        )
    if not body.strip():
        FileLine(path, 1).refuse("has a head and no rows", reading.TRUNCATED)
    # The last column holds the command in quotes that CSV would take for its own.
    plain = columns[:-1] if columns[-1] == "command" else columns
    for number, line in enumerate(body.splitlines(), start=2):
        place = FileLine(path, number)
        cells = line.split(",", len(plain))
        if len(cells) != len(columns):
            place.refuse(f"has {len(cells)} fields, the head has {len(columns)}", reading.TRUNCATED)
        yield place, dict(zip(columns, cells, strict=True))
    if not text.endswith("\n"):
        FileLine(path, number).refuse("ends without the end of a line", reading.TRUNCATED)


JSON_FACTS = {
    "path type": "path_type", "hosts": "hosts", "threads": "threads", "file size": "file_size",
    "block size": "block_size", "IO depth": "io_depth", "label": "label", "version": "version",
    "command": "command",
}  # fmt: skip


def _json_rows(path: Path, text: str) -> Iterator[tuple[FileLine, Mapping[str, str]]]:
    """Yield the lines of --jsonfile under the names that --csvfile has for the same numbers."""
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        document = parse_document(FileLine(path, number), line)
        config, last = document.at("config"), document.at("last_done")
        row = {
            "ISO date": _text(document.at("iso_start_date")),
            "operation": _text(document.at("phase_type")),
            "time ms [last]": _text(last.at("elapsed_time_ms")),
        }
        found = [(name, config.find(key)) for name, key in JSON_FACTS.items()]
        found += [("IOPS [last]", last.find("iops")), ("entries [last]", last.find("entries"))]
        row |= {name: _text(node) for name, node in found if node is not None}
        moved = last.find("bytes")
        row["MiB [last]"] = repr(moved.whole() / MEBIBYTE) if moved is not None else ""
        times = last.find("latency")
        of_blocks = times.find("IO") if times is not None else None
        for name in ("min", "avg", "max") if of_blocks is not None else ():
            node = of_blocks.find(f"{name}_us") if of_blocks is not None else None
            row |= {f"IO lat us [{name}]": _text(node)} if node is not None else {}
        for name in ("threads", "version"):
            config.at(JSON_FACTS[name])
        yield FileLine(path, number), row


def _text(node: JsonNode) -> str:
    return str(node.value)


def _stated(place: FileLine, row: Mapping[str, str], requests: int) -> Stated | None:
    """Return the times of blocks, which elbencho states in microseconds."""
    names = [f"IO lat us [{name}]" for name in ("min", "avg", "max")]
    if not all(row.get(name) for name in names):
        return None
    least, mean, most = (1000 * reading.number(place, name, row[name]) for name in names)
    return Stated(count=requests, mean_ns=mean, min_ns=round(least), max_ns=round(most))


def _trial(
    place: FileLine, row: Mapping[str, str], workload: str, block: int, hints: Hints
) -> ImportedTrial:
    phase = row["operation"]
    operation = OPERATIONS.get(phase, phase.lower())
    time_ms = reading.number(place, "time ms [last]", row["time ms [last]"])
    moved = round(_optional(place, row, "MiB [last]") * MEBIBYTE)
    block_bytes = round(_optional(place, row, "block size"))
    entries = round(_optional(place, row, "entries [last]"))
    rate = _optional(place, row, "IOPS [last]")
    is_block_wise = bool(rate and block_bytes and moved)
    requests = -(-moved // block_bytes) if is_block_wise else entries
    if is_block_wise:
        # Elapsed milliseconds are cut off; the rate is not, and tells the time exactly.
        exact_ms = 1000 * requests / rate
        if not time_ms - 1 <= exact_ms <= time_ms + 2:
            place.refuse(
                f"{rate:g} a second for {time_ms:g} ms do not make {requests} of"
                f" {block_bytes} bytes",
                reading.EDITED,
                "IOPS [last]",
            )
        time_ms = exact_ms
    if not requests:
        requests = 1
    length_ns = max(1, round(time_ms * 1_000_000))
    depth = max(1, round(_optional(place, row, "IO depth")))
    threads = round(reading.number(place, "threads", row["threads"])) * depth
    threads *= max(1, round(_optional(place, row, "hosts")))
    size = block_bytes or round(_optional(place, row, "file size"))
    parameters: dict[str, str | int | float] = {"threads": threads}
    parameters |= {"size": size} if size else {}
    stated = _stated(place, row, requests) if is_block_wise else None
    return ImportedTrial(
        target=hints.target or row.get("path type", "elbencho"),
        workload=row.get("label") or workload,
        block=block,
        stated={operation: stated} if stated is not None else {},
        phase=operation,
        parameters=parameters,
        clients=threads,
        rows=(
            Row(
                operation=operation,
                outcome="ok",
                second=length_ns // SECOND_NS,
                requests=requests,
                objects=entries,
                bytes=moved,
            ),
        ),
        window_ns=(0, length_ns),
        started_unix_ns=_started_ns(place, row["ISO date"]),
        is_measured=phase not in UNMEASURED,
        size_bytes=size or None,
        source={key: value for key, value in row.items() if value and key != "command"},
    )


def _optional(place: FileLine, row: Mapping[str, str], column: str) -> float:
    text = row.get(column) or ""
    return reading.number(place, column, text) if text else 0.0


def _started_ns(place: FileLine, text: str) -> int:
    try:
        moment = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%f%z")
    except ValueError:
        place.refuse(f'found "{text}", expected a time', reading.EDITED, "ISO date")
    return round(moment.timestamp() * 1000) * 1_000_000
