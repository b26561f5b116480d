"""Reads elbencho's results: a line of CSV or JSON for each phase, with the totals when the last
thread ended.

The date of a line is the end of its phase up to version 3.0-25, and the start from 3.0-27 on. If a
worker fails, elbencho writes no line for the phase, unless it runs with an option to ignore errors.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from loadstone.formats import reading
from loadstone.formats.imported import MEBIBYTE, Hints, ImportedFile, ImportedTrial, Stated
from loadstone.formats.json_document import JsonNode, parse_document
from loadstone.formats.reading import FileLine
from loadstone.importers.totals import Work, trial_of_works

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
_MIX = re.compile(r"(?:RWMIX|MIX-T)\d+")
"""Writes, mixed with this percentage of reads or this number of reading threads."""

READS = "rwmix read "
"""Prefix of the columns for a mix's reads."""

UNMEASURED = ("SYNC", "DROPCACHE")
NEEDED = ("operation", "time ms [last]")
DATE_IS_BEGIN = (3, 0, 27)
_VERSION = re.compile(r"(\d+)\.(\d+)[-.](\d+)")
_LIMIT = re.compile(r"--limit(read|write)[\"= ]+(\d+)([kmgtpe]?)\b", re.IGNORECASE)
IGNORING = ("--s3ignoreerrors", "--nodelerr")


def read_file(path: Path, workload: str, hints: Hints) -> ImportedFile:
    """Read files of --csvfile or --jsonfile; each line is a trial."""
    rows = list(_rows(path))
    _, last = rows[-1]
    return ImportedFile(
        trials=[_trial(place, row, workload, hints) for place, row in rows],
        tool_version=last.get("version"),
        command=last.get("command"),
    )


def _rows(path: Path) -> Iterator[tuple[FileLine, Mapping[str, str]]]:
    text = reading.read_text(path)
    if text.lstrip().startswith("{"):
        yield from _json_rows(path, text)
        return
    columns: list[str] = []
    rows = 0
    for number, line in enumerate(text.split("\n"), start=1):
        place = FileLine(path, number)
        if not line.strip():
            continue
        if not columns or "time ms [last]" in line:
            # elbencho appends to its file, which may contain a head for each benchmark.
            columns = reading.split_cells(place, line)
            reading.check_columns(place, columns, NEEDED, "give the file of elbencho's --csvfile")
            continue
        # The last column is the command, with quotes that are not quotes of CSV.
        cells = line.split(",", len(columns) - (columns[-1] == "command"))
        if len(cells) != len(columns):
            place.refuse(
                f"has {len(cells)} fields, the header has {len(columns)}", reading.TRUNCATED
            )
        rows += 1
        yield place, dict(zip(columns, cells, strict=True))
    if not rows:
        FileLine(path, 1).refuse("has a header and no rows", reading.TRUNCATED)
    if not text.endswith("\n"):
        place.refuse("ends in the middle of a line", reading.TRUNCATED)


JSON_FACTS = {
    "path type": "path_type", "hosts": "hosts", "threads": "threads", "file size": "file_size",
    "block size": "block_size", "IO depth": "io_depth", "label": "label", "version": "version",
    "command": "command",
}  # fmt: skip


def _json_rows(path: Path, text: str) -> Iterator[tuple[FileLine, Mapping[str, str]]]:
    """Yield the lines of --jsonfile under the column names that --csvfile uses."""
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
        nodes = [(name, config.find(key)) for name, key in JSON_FACTS.items()]
        row |= {name: _text(node) for name, node in nodes if node is not None}
        times = last.find("latency")
        row |= _json_work(last, times, "")
        reads = last.find("rwmix_read")
        row |= _json_work(reads, times, READS) if reads is not None else {}
        yield FileLine(path, number), row


def _json_work(done: JsonNode, times: JsonNode | None, before: str) -> Mapping[str, str]:
    """Return the amount of work and its duration, under the names of --csvfile."""
    nodes = {f"{before}IOPS [last]": done.find("iops")}
    nodes[f"{before}entries [last]"] = done.find("entries")
    for name, key in (("IO", "IO"), ("Ent", "entries")):
        latency = times.find(key) if times is not None else None
        latency = latency.find("rwmix_read") if latency is not None and before else latency
        for kind in ("min", "avg", "max") if latency is not None else ():
            nodes[f"{before}{name} lat us [{kind}]"] = (
                latency.find(f"{kind}_us") if latency else None
            )
    row = {name: _text(node) for name, node in nodes.items() if node is not None}
    moved = done.find("bytes")
    # A float always has a point, so these bytes are exact.
    return row | {f"{before}MiB [last]": repr(moved.whole() / MEBIBYTE) if moved else ""}


def _text(node: JsonNode) -> str:
    return str(node.value)


def _work(
    place: FileLine, row: Mapping[str, str], operation: str, before: str, time_ms: float
) -> tuple[Work, float] | None:
    """Return the work in the columns with this prefix; None if there was none.

    Its duration in milliseconds is exact if the rate of blocks is stated.
    """
    block_bytes = round(_optional(place, row, "block size"))
    megabytes = row.get(f"{before}MiB [last]") or ""
    moved = round(_optional(place, row, f"{before}MiB [last]") * MEBIBYTE)
    entries = round(_optional(place, row, f"{before}entries [last]"))
    rate = _optional(place, row, f"{before}IOPS [last]")
    if rate and block_bytes and f"{before}MiB [last]" not in row:
        # elbencho 2.0 states the rate of a mix's reads, but not their number.
        requests = max(1, round(rate * time_ms / 1000))
        return Work(
            operation=operation,
            requests=requests,
            failed=None,
            bytes=requests * block_bytes,
            stated=_stated(place, row, f"{before}IO lat us", requests),
        ), time_ms
    # A rate of less than one block a second is truncated to none.
    is_rate_stated = bool(row.get(f"{before}IOPS [last]"))
    is_block_wise = (
        is_rate_stated and block_bytes and (moved or (rate and megabytes == "0" and not entries))
    )
    if not is_block_wise:
        stated = _stated(place, row, f"{before}Ent lat us", entries)
        if not entries and before:
            return None
        return Work(
            operation=operation,
            requests=entries or 1,
            failed=None,
            objects=entries,
            bytes=moved,
            stated=stated,
        ), time_ms
    requests = -(-moved // block_bytes)
    # Elapsed milliseconds are truncated; the rate is not, so it gives the exact time.
    is_off = rate and not time_ms - 1 <= 1000 * requests / rate <= time_ms + 2
    if is_off and "." not in megabytes:
        # The mebibytes of --csvfile are truncated, too: up to one of them is missing.
        most = (moved + MEBIBYTE - 1) // block_bytes
        requests = min(max(requests, round(rate * time_ms / 1000)), most)
        moved = max(moved, min(requests * block_bytes, moved + MEBIBYTE - 1))
    exact_ms = 1000 * requests / rate if rate else time_ms
    if not time_ms - 1 <= exact_ms <= time_ms + 2:
        place.refuse(
            f"{rate:g} a second for {time_ms:g} ms do not make {requests} of {block_bytes} bytes",
            reading.EDITED,
            f"{before}IOPS [last]",
        )
    return Work(
        operation=operation,
        requests=requests,
        failed=None,
        objects=entries,
        bytes=moved,
        stated=_stated(place, row, f"{before}IO lat us", requests),
    ), exact_ms


def _stated(place: FileLine, row: Mapping[str, str], what: str, count: int) -> Stated | None:
    """Return the times of blocks or of entries, which elbencho states in microseconds."""
    names = [f"{what} [{name}]" for name in ("min", "avg", "max")]
    if not count or not all(row.get(name) for name in names):
        return None
    least, mean, most = (1000 * reading.number(place, name, row[name]) for name in names)
    return Stated(count=count, mean_ns=mean, min_ns=round(least), max_ns=round(most))


def _trial(place: FileLine, row: Mapping[str, str], workload: str, hints: Hints) -> ImportedTrial:
    phase = row["operation"].partition("+")[0]
    is_mix = _MIX.fullmatch(phase) is not None
    operation = "write" if is_mix else OPERATIONS.get(phase, phase.lower())
    time_ms = reading.number(place, "time ms [last]", row["time ms [last]"])
    done = [_work(place, row, operation, "", time_ms)]
    done += [_work(place, row, "read", READS, time_ms)] if is_mix else []
    works = [work for work in done if work is not None]
    time_ms = next((exact_ms for _, exact_ms in works if exact_ms != time_ms), time_ms)
    length_ns = max(1, round(time_ms * 1_000_000))
    # Requests in flight are the product of hosts, threads and queue depth; none is guessed.
    counts = [round(_optional(place, row, name)) for name in ("threads", "hosts", "IO depth")]
    size = round(_optional(place, row, "block size")) or round(_optional(place, row, "file size"))
    command = row.get("command") or ""
    trial = trial_of_works(
        [work for work, _ in works],
        tool=row.get("path type", "elbencho"),
        workload=row.get("label") or workload,
        length_ns=length_ns,
        threads=hints.threads or math.prod(counts) or None,
        size_bytes=size or None,
        started_unix_ns=_started_ns(place, row, length_ns),
        source={key: value for key, value in row.items() if value and key != "command"},
        hints=hints,
        is_measured=phase not in UNMEASURED,
    )
    return replace(
        trial,
        phase=phase.lower() if is_mix else operation,
        counts_failures=bool(command) and not any(word in command for word in IGNORING),
        **_pace(command, [work.operation for work, _ in works], counts[0] * counts[1], size),
    )


def _pace(
    command: str, operations: Sequence[str], threads: int, block_bytes: int
) -> dict[str, Any]:
    """Return the requested rate limit, as stated and in blocks per second of all threads."""
    limits = {
        match[1].lower(): int(match[2]) * 1024 ** " kmgtpe".index(match[3].lower() or " ")
        for match in _LIMIT.finditer(command)
    }
    # In a mix by percentage, the write limit covers reads, too.
    limits_per_s = [limits.get(name) for name in operations if name in ("read", "write")]
    words = ", ".join(f"--limit{name}={value}" for name, value in limits.items())
    if not any(limits_per_s):
        return {}
    whole = limits_per_s[0] if len(limits_per_s) == 1 else None
    per_s = whole * threads / block_bytes if whole and threads and block_bytes else None
    return {"paced_by": words, "rate_limit_per_s": per_s}


def _optional(place: FileLine, row: Mapping[str, str], column: str) -> float:
    text = row.get(column) or ""
    return reading.number(place, column, text) if text else 0.0


def _started_ns(place: FileLine, row: Mapping[str, str], length_ns: int) -> int | None:
    text = row.get("ISO date")
    if not text:
        return None
    # Milliseconds are written from 3.0-9 on.
    form = "%Y-%m-%dT%H:%M:%S.%f%z" if "." in text else "%Y-%m-%dT%H:%M:%S%z"
    try:
        moment = datetime.strptime(text, form)
    except ValueError:
        place.refuse(f'found "{text}", expected a time', reading.EDITED, "ISO date")
    written_ns = round(moment.timestamp() * 1000) * 1_000_000
    version = _VERSION.match(row.get("version") or "")
    is_begin = version is not None and tuple(map(int, version.groups())) >= DATE_IS_BEGIN
    return written_ns if is_begin else max(0, written_ns - length_ns)
