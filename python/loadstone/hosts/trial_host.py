"""How one host stands in one trial, and what of it the record keeps."""

import time
from dataclasses import dataclass, field

from loadstone._loadgen import Histogram, Table
from loadstone.documents.summary import LoadHost, Summary
from loadstone.hosts.clock import Clock
from loadstone.hosts.merging import own_figures


@dataclass(slots=True)
class TrialHost:
    """How one host stands in one trial."""

    name: str
    state: str = "waiting"
    reason: str | None = None
    heard: float = field(default_factory=time.monotonic)
    requests: int = 0
    failed: int = 0
    bytes: int = 0
    clients: int | None = None
    lost_ns: int | None = None
    clock: Clock | None = None
    clock_step_ns: int = 0
    summary: Summary | None = None

    def document(self) -> LoadHost:
        """Return it as the record keeps it."""
        told: Summary = self.summary or {}
        document: LoadHost = {
            "name": self.name,
            "state": self.state,
            "reason": self.reason,
            "clients": self.clients,
            "requests": told.get("requests", self.requests),
            "failed": told.get("failed", self.failed),
            "bytes": told.get("bytes", self.bytes),
            "lost_ns": self.lost_ns,
            "start_error_ns_max": told.get("start_error_ns"),
        }
        document.update(own_figures(told))
        if self.clock is not None:
            document.update(self.clock.document())
        if self.clock_step_ns:
            document["clock_step_ns"] = self.clock_step_ns
        return document


def end_ns(host: TrialHost) -> int:
    """Return when a host ended, on the controller's clock; 0 where it told nothing."""
    ended_ns = host.summary["ended_unix_ns"] if host.summary is not None else None
    if ended_ns is None:
        return 0
    return ended_ns - (host.clock.offset_ns if host.clock is not None else 0)


def count(host: TrialHost, rows: Table) -> Histogram | None:
    """Add rows to a host's counts, and return the response times of their last second.

    Raises ValueError, and counts nothing, where these times are no histogram.
    """
    responses = [
        (second, response)
        for second, response in zip(rows["second"], rows["response"], strict=True)
        if response is not None
    ]
    times = Histogram() if responses else None
    last = max((second for second, _ in responses), default=None)
    for second, response in responses:
        if second == last and times is not None:
            times.add(response)
    names = ("outcome", "requests", "bytes")
    for outcome, requests, size in zip(*(rows[name] for name in names), strict=True):
        host.requests += requests
        host.bytes += size
        if outcome not in ("ok", "unwritten"):
            host.failed += requests
    return times
