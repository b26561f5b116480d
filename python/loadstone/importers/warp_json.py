"""warp's newer JSON: totals of each operation, and times of stretches of ten seconds.

Of several stretches the mean, least and longest add up; percentiles do not, and are left out.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadstone.formats import reading
from loadstone.formats.imported import (
    MILLISECOND_NS,
    SECOND_NS,
    Hints,
    Imported,
    ImportedTrial,
    Row,
    Stated,
    load_parameters,
)
from loadstone.formats.json_document import JsonNode, parse_document
from loadstone.formats.reading import FileLine

OPERATIONS = {"DELETE": "delete", "STAT": "head", "LIST": "list", "PUT": "put", "GET": "get"}
_LIMIT = re.compile(r"--rps-limit[= ]+(\d+(?:\.\d+)?)")
QUANTILES = {0.5: "dur_median_millis", 0.9: "dur_90_millis", 0.99: "dur_99_millis"}


def read(path: Path, text: str, hints: Hints) -> Imported:
    """Read the text of one benchmark."""
    document = parse_document(FileLine(path), text)
    command = document.find("commandline")
    words = str(command.value).split() if command is not None else []
    operations = dict(document.at("by_op_type").entries())
    if not operations:
        document.place.refuse("has no requests", reading.TRUNCATED)
    if document.at("final").value is not True:
        document.place.refuse("is of a benchmark that is still running", reading.TRUNCATED)
    totals = [_of_totals(document.place, name, node) for name, node in operations.items()]
    stretches: list[list[_Totals]] = []
    for total in sorted(totals, key=lambda total: total.start_ns):
        if stretches and total.start_ns < max(other.end_ns for other in stretches[-1]):
            stretches[-1].append(total)
        else:
            stretches.append([total])
    asked = words[1] if len(words) > 1 else None
    known = {total.operation for total in totals}
    version = document.find("warp_version")
    return Imported(
        tool="warp",
        name=path.name,
        trials=tuple(
            _trial_of_totals(
                path,
                stretch,
                command=str(command.value) if command is not None else None,
                is_measured=asked not in known or asked in {total.operation for total in stretch},
                hints=hints,
            )
            for stretch in stretches
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
    clients: int
    start_ns: int
    end_ns: int
    times: Stated | None


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
        operation=operation,
        requests=requests,
        failed=failed,
        objects=node.at("total_objects").whole(),
        bytes=node.at("total_bytes").whole() if operation in ("put", "get") else 0,
        threads=node.at("concurrency").whole(),
        clients=_count_clients(node),
        start_ns=start_ns,
        end_ns=end_ns,
        # Times of failed requests are among those of the good ones.
        times=_times_of_stretches(node, requests) if not failed else None,
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


def _trial_of_totals(
    path: Path,
    totals: Sequence[_Totals],
    *,
    command: str | None,
    is_measured: bool,
    hints: Hints,
) -> ImportedTrial:
    start_ns, end_ns = (
        min(total.start_ns for total in totals),
        max(total.end_ns for total in totals),
    )
    threads = max(total.threads for total in totals) or hints.threads
    sizes = {total.bytes // total.objects for total in totals if total.bytes and total.objects}
    exact = all(
        total.bytes % total.objects == 0 for total in totals if total.bytes and total.objects
    )
    size = sizes.pop() if len(sizes) == 1 and exact else hints.size_bytes
    rows = [
        Row(
            operation=total.operation,
            outcome=outcome,
            # At the end of the window: totals do not tell when each request ended.
            second=(end_ns - start_ns) // SECOND_NS,
            requests=requests,
            objects=total.objects if outcome == "ok" else 0,
            bytes=total.bytes if outcome == "ok" else 0,
        )
        for total in totals
        for outcome, requests in (("ok", total.requests - total.failed), ("unknown", total.failed))
        if requests
    ]
    return ImportedTrial(
        target=hints.target or "warp",
        workload=path.name,
        phase=totals[0].operation if len(totals) == 1 else "mixed",
        parameters=load_parameters(threads, size),
        clients=threads,
        rows=tuple(rows),
        window_ns=(0, end_ns - start_ns),
        started_unix_ns=start_ns,
        counts_failures=True,
        is_measured=is_measured,
        size_bytes=size,
        stated={total.operation: total.times for total in totals if total.times is not None},
        source={"file": path.name},
        **pace(command, max(total.clients for total in totals)),
    )
