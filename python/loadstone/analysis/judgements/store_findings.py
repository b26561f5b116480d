"""How a store behaved beside its answers: connections that it closed, requests to be sent again."""

from collections.abc import Iterable, Iterator

from loadstone import units
from loadstone.analysis.judgements.finding import Evidence, Finding
from loadstone.results.record import Record

CLOSED_SHARE = 0.5
"""From so many new connections for each request on, the store is said to close each of them."""


def find_closed_connections(records: Iterable[Record]) -> Iterator[Finding]:
    """Report trials in which connections that should have been kept were closed by the store."""
    found = []
    for record in records:
        if record.trial.get("connections") == "per_request":
            continue
        summary = record.summary
        opened, requests = summary.get("connections_opened") or 0, summary.get("requests") or 0
        failed = summary.get("failed") or 0
        # One for each client, and for each part in flight; a failed request may cost one.
        options = record.trial.get("options") or {}
        needed = (summary.get("clients") or 0) * max(1, options.get("part_concurrency") or 1)
        closed = opened - needed - failed
        if closed > 0 and closed >= CLOSED_SHARE * (requests - failed):
            found.append((record, opened, requests))
    if not found:
        return
    opened = sum(count for _, count, _ in found)
    requests = sum(count for _, _, count in found)
    yield Finding(
        rule="connections-closed",
        statement=(
            f"the store closes each connection: {opened:,} opened for {requests:,} requests"
            f" in {units.counted(len(found), 'trial')}"
        ),
        evidence=tuple(
            Evidence(
                metric="connections opened for each request",
                value=count / max(1, of),
                threshold=CLOSED_SHARE,
                place=f"trial {record.id}",
            )
            for record, count, of in found
        ),
        cases=tuple(f"trial {record.id}" for record, _, _ in found),
    )


def find_retries(records: Iterable[Record]) -> Iterator[Finding]:
    """Report requests outside the measurement that were sent again after temporary answers."""
    retried = [record for record in records if record.summary.get("retries")]
    if not retried:
        return
    counts: dict[str, int] = {}
    for record in retried:
        for kind, count in record.summary["retries"].items():
            counts[kind] = counts.get(kind, 0) + count
    paused_ns = sum(record.summary.get("retries_paused_ns") or 0 for record in retried)
    kinds = ", ".join(f"{count:,} × {kind}" for kind, count in sorted(counts.items()))
    yield Finding(
        rule="requests-retried",
        statement=(
            f"outside the measurement, requests were sent again after temporary answers: {kinds}"
            f" (they waited {units.format_duration(paused_ns)} in all)"
        ),
        evidence=tuple(
            Evidence(metric=f"retries after {kind}", value=float(count))
            for kind, count in sorted(counts.items())
        ),
        cases=tuple(f"trial {record.id}" for record in retried),
    )
