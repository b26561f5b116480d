"""warp's newer JSON: totals of each operation, and times of stretches of ten seconds.

Of several stretches the mean, least and longest add up; percentiles do not, and are left out.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from loadstone.formats import reading
from loadstone.formats.imported import (
    MILLISECOND_NS,
    Hints,
    ImportedFile,
    ImportedTrial,
    Stated,
)
from loadstone.formats.json_document import JsonNode, parse_document
from loadstone.formats.reading import FileLine
from loadstone.importers.totals import Work, trial_of_works

OPERATIONS = {"DELETE": "delete", "STAT": "head", "LIST": "list", "PUT": "put", "GET": "get"}
_LIMIT = re.compile(r"--rps-limit[= ]+(\d+(?:\.\d+)?)")
QUANTILES = {0.5: "dur_median_millis", 0.9: "dur_90_millis", 0.99: "dur_99_millis"}


def read(path: Path, text: str, workload: str, hints: Hints) -> ImportedFile:
    """Read the text of one benchmark."""
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
            _trial([totals[name] for name in names], path, workload, command, is_measured, hints)
            for names, is_measured in stretches(windows, command)
        ],
        tool_version=version,
        command=command,
        notes=("warp's JSON keeps no requests: rates are over the whole time of each operation",),
    )


def stretches(
    windows: Mapping[str, tuple[int, int]], command: str | None
) -> Iterator[tuple[Sequence[str], bool]]:
    """Yield operations that overlapped in time, in order, and whether they were measured.

    `windows` are the begin and the end of each operation. What runs apart from the benchmarked
    operation prepares for it.
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
    """All requests of one operation, as warp adds them up."""

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
            # Times of failed requests are among those of the good ones.
            stated=_times_of_stretches(node, requests) if not failed else None,
        ),
        threads=node.at("concurrency").whole(),
        clients=_count_clients(node),
        start_ns=start_ns,
        end_ns=end_ns,
    )


def _times_of_stretches(node: JsonNode, requests: int) -> Stated | None:
    """Combine the times of all clients' stretches; None unless they cover all requests."""
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
    """Return how many clients took part; 0 where it is not stated."""
    clients = node.find("clients")
    if clients is None:
        return 0
    return len(clients.value) if isinstance(clients.value, (list, dict)) else 0


def pace(command: str | None, clients: int) -> dict[str, Any]:
    """Return the requested rate limit, which warp applies to each of its clients."""
    match = _LIMIT.search(command or "")
    if match is None or not float(match[1]):
        return {}
    limit = float(match[1]) * clients if clients else None
    return {"paced_by": f"--rps-limit={match[1]}", "rate_limit_per_s": limit}


def _is_skipped(node: JsonNode) -> bool:
    skipped = node.find("skipped")
    return skipped is not None and bool(skipped.value)


def _trial(
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
    return replace(trial, **pace(command, max(total.clients for total in totals)))
