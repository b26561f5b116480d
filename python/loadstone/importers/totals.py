"""Makes trials from totals, for tools that record neither requests nor seconds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loadstone.formats.imported import SECOND_NS, Hints, ImportedTrial, Row, Stated, load_parameters


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The successful requests of one operation; `failed` is None if not stated.

    `objects` is the number of objects of requests on objects.
    """

    operation: str
    requests: int
    failed: int | None
    objects: int = 0
    bytes: int = 0
    stated: Stated | None = None


def trial_of_works(
    works: Sequence[Work],
    *,
    tool: str,
    workload: str,
    length_ns: int,
    threads: int | None,
    size_bytes: int | None,
    started_unix_ns: int | None,
    source: Mapping[str, Any],
    hints: Hints,
    is_measured: bool = True,
) -> ImportedTrial:
    """Return the trial of concurrent operations; None means not stated."""
    threads, size = threads or hints.threads, size_bytes or hints.size_bytes
    return ImportedTrial(
        target=hints.target or tool,
        workload=workload,
        phase=works[0].operation if len(works) == 1 else "mixed",
        parameters=load_parameters(threads, size),
        clients=threads,
        rows=tuple(
            Row(
                operation=work.operation,
                outcome=outcome,
                # At the end, so that no second of the window contains all requests.
                second=length_ns // SECOND_NS,
                requests=requests,
                objects=work.objects if outcome == "ok" else 0,
                bytes=work.bytes if outcome == "ok" else 0,
            )
            for work in works
            for outcome, requests in (("ok", work.requests), ("unknown", work.failed or 0))
            if requests
        ),
        window_ns=(0, max(1, length_ns)),
        started_unix_ns=started_unix_ns,
        counts_failures=all(work.failed is not None for work in works),
        is_measured=is_measured,
        size_bytes=size,
        stated={work.operation: work.stated for work in works if work.stated is not None},
        source=source,
    )
