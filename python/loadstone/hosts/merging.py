"""Merges the hosts' summaries of a trial by sums, extremes and lists; never by means."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from loadstone._loadgen import Histogram, Table
from loadstone.documents.outcomes import NO_FAILURES
from loadstone.documents.python_types import Live
from loadstone.documents.summary import AuditSummary, EdgeWork, Iteration, LoadHost, Summary
from loadstone.hosts.clock import Clock
from loadstone.hosts.messages import STATES

SUMS = (
    "requests", "failed", "unwritten", "lost_races", "bytes", "verified_requests", "verified_bytes",
    "clients_requests_squares",
    "connections_opened", "bytes_sent", "bytes_received", "requests_repeated", "log_ins",
    "log_ins_ns", "cores", "clients", "puts_failed_more", "objects_swept", "cores_watched",
    "objects_swept_again", "retries_paused_ns", "cache_sampled_bytes", "cache_resident_bytes",
)  # fmt: skip
LISTS = ("thread_cpu_ns", "thread_awake_ns", "thread_run_delay_ns", "stalls", "places_left")
NAMES = (
    "buckets_created", "buckets_foreign", "buckets_deleted", "buckets_absent", "buckets_left",
)  # fmt: skip
OWN_FIGURES = (
    "connections_opened", "bytes_sent", "bytes_received", "thread_cpu_ns", "thread_awake_ns",
    "thread_run_delay_ns", "error_examples", "target_on_own_host", "host_state",
)  # fmt: skip
"""Figures that a record also stores for each host. A host's counters are compared with its own
load; a sum over all hosts would include the work of other programs.
"""


def merge_summaries(summaries: Sequence[Summary]) -> Summary:
    """Merge the summaries of all shares.

    Times of iterations count from the common start. Facts about a single host (its clocks, features
    its driver used) come from the first host: agents of one run have the same build.
    """
    worst = max(summaries, key=lambda summary: STATES.index(summary["state"] or "interrupted"))
    merged: Summary = {
        "mismatches": _sum_by_key(summary.get("mismatches") for summary in summaries),
        "retries": _sum_by_key(summary.get("retries") for summary in summaries),
        "error_examples": {
            kind: text
            for summary in reversed(summaries)
            for kind, text in (summary.get("error_examples") or {}).items()
        },
        "objects_unwritten": sorted(
            value for summary in summaries for value in summary.get("objects_unwritten") or ()
        ),
        "clients_requests_min": min(
            summary.get("clients_requests_min") or 0 for summary in summaries
        ),
        "clients_requests_max": max(
            summary.get("clients_requests_max") or 0 for summary in summaries
        ),
        "iterations": merge_iterations([summary.get("iterations") or () for summary in summaries]),
        "state": worst["state"],
        "reason": worst.get("reason"),
        "audit": merge_audits([audit for summary in summaries if (audit := summary.get("audit"))]),
        "hiccup": next((summary["hiccup"] for summary in summaries if summary.get("hiccup")), None),
    }
    return cast(Summary, {**summaries[0], **_by_rule(summaries), **merged})


AUDIT_SUMS = (
    "written", "deleted", "unknown", "read_back", "unanswered", "metadata", "metadata_read_back",
)  # fmt: skip


def merge_audits(audits: Sequence[AuditSummary]) -> AuditSummary | None:
    """Return the sum of the hosts' audits; each host lists all buckets."""
    if not audits:
        return None
    figures: Sequence[Mapping[str, Any]] = audits
    sums = {name: _sum(audit.get(name) for audit in figures) for name in AUDIT_SUMS}
    merged = {
        **sums,
        "listed": max(audit["listed"] for audit in audits),
        "listings_failed": max(audit["listings_failed"] for audit in audits),
        "counts": _sum_by_key(audit["counts"] for audit in audits),
        "findings": sorted(
            (finding for audit in audits for finding in audit["findings"]),
            key=lambda finding: finding["number"],
        ),
    }
    return cast(AuditSummary, merged)


def _by_rule(summaries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge the keys in the tables above."""
    sums = {name: _sum(summary.get(name) for summary in summaries) for name in SUMS}
    lists = {
        name: [value for summary in summaries for value in summary.get(name) or ()]
        for name in (*LISTS, *NAMES)
    }
    return {**sums, **lists, **{name: sorted(set(lists[name])) for name in NAMES}}


def own_figures(summary: Summary) -> LoadHost:
    """Return the part of a host's own summary that the record stores."""
    figures: Mapping[str, Any] = summary
    return cast(LoadHost, {name: figures[name] for name in OWN_FIGURES if name in figures})


def merge_iterations(hosts: Sequence[Sequence[Iteration]]) -> list[Iteration]:
    """Return each iteration with the earliest start and the latest end of all hosts."""
    numbers = sorted({entry["iteration"] for entries in hosts for entry in entries})
    merged: list[Iteration] = []
    for number in numbers:
        entries = [entry for entries in hosts for entry in entries if entry["iteration"] == number]
        done = [entry.get("first_done_ns") for entry in entries]
        merged.append(
            {
                "iteration": number,
                "start_ns": min(entry["start_ns"] for entry in entries),
                "measure_start_ns": min(entry["measure_start_ns"] for entry in entries),
                "measure_end_ns": max(entry["measure_end_ns"] for entry in entries),
                "end_ns": max(entry["end_ns"] for entry in entries),
                "first_done_ns": min(
                    (first_done_ns for first_done_ns in done if first_done_ns is not None),
                    default=None,
                ),
                "in_flight_ns": _sum(entry.get("in_flight_ns") for entry in entries),
                "first_answer_ns": min(
                    (time for entry in entries if (time := entry.get("first_answer_ns"))),
                    default=None,
                ),
                "edges": _merged_edges([entry.get("edges") or {} for entry in entries]),
            }
        )
    return merged


def _merged_edges(edges: Sequence[Mapping[str, EdgeWork]]) -> dict[str, EdgeWork]:
    """Return the sums over all hosts, by operation."""
    merged: dict[str, EdgeWork] = {}
    for operation, edge in (item for of_host in edges for item in of_host.items()):
        total = merged.get(operation)
        if total is None:
            merged[operation] = edge
            continue
        merged[operation] = {
            "requests": total["requests"] + edge["requests"],
            "objects": total["objects"] + edge["objects"],
            "bytes": total["bytes"] + edge["bytes"],
            "failed": total["failed"] + edge["failed"],
        }
    return merged


FRESH_S = 2.0
"""Age in seconds up to which a host's figures are current; a host reports twice a second."""


class LiveFigures:
    """The figures of the last second over all hosts, for the live view."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._lives: dict[str, Live] = {}
        self._noted_s: dict[str, float] = {}
        self._lost: set[str] = set()
        self._ended: set[str] = set()
        self._times: dict[str, Histogram] = {}

    def note(self, host: str, live: Live, times: Histogram | None) -> None:
        """Store one host's figures, and the response times of its last second."""
        self._lives[host] = live
        self._noted_s[host] = self._now_s()
        if times is not None:
            self._times[host] = times

    def lose(self, host: str) -> None:
        """Exclude a lost host from rates; its totals still count."""
        self._lost.add(host)

    def end(self, host: str) -> None:
        """Record that a host has ended its load."""
        self._ended.add(host)

    def all(self) -> Live | None:
        """Return the sum over all hosts as figures of one host; None before the first report."""
        running = {host: live for host, live in self._lives.items() if host not in self._lost}
        lives = tuple(self._lives.values())
        if not running:
            return None
        first = max(running.values(), key=lambda live: live["elapsed_ns"])
        oldest_s = self._now_s() - FRESH_S
        fresh = [
            host for host in running if host not in self._ended and self._noted_s[host] >= oldest_s
        ]
        times = Histogram()
        for host in fresh:
            if host in self._times:
                times.merge(self._times[host])
        shares = [live["progress"] for live in running.values()]
        return {
            **first,
            "requests": sum(live["requests"] for live in lives),
            "failed": sum(live["failed"] for live in lives),
            "unwritten": sum(live["unwritten"] for live in lives),
            "lost_races": sum(live["lost_races"] for live in lives),
            "bytes": sum(live["bytes"] for live in lives),
            "requests_last_s": sum(running[host]["requests_last_s"] for host in fresh),
            "bytes_last_s": sum(running[host]["bytes_last_s"] for host in fresh),
            "p50_ns": times.quantile(0.5) if len(times) else 0,
            "p99_ns": times.quantile(0.99) if len(times) else 0,
            # The trial ends with its slowest host.
            "progress": min(
                (progress for progress in shares if progress is not None), default=None
            ),
        }


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _sum_by_key(maps: Iterable[Mapping[str, int] | None]) -> dict[str, int]:
    total: dict[str, int] = {}
    for counts in maps:
        for key, value in (counts or {}).items():
            total[key] = total.get(key, 0) + value
    return total


@dataclass(slots=True)
class TrialHost:
    """The state of one host in one trial."""

    name: str
    state: str = "waiting"
    reason: str | None = None
    last_message: float = field(default_factory=time.monotonic)
    requests: int = 0
    failed: int = 0
    bytes: int = 0
    clients: int | None = None
    lost_ns: int | None = None
    clock: Clock | None = None
    clock_step_ns: int = 0
    summary: Summary | None = None

    def document(self) -> LoadHost:
        """Return the state as the record stores it."""
        summary: Summary = self.summary or {}
        document: LoadHost = {
            "name": self.name,
            "state": self.state,
            "reason": self.reason,
            "clients": self.clients,
            "requests": summary.get("requests", self.requests),
            "failed": summary.get("failed", self.failed),
            "bytes": summary.get("bytes", self.bytes),
            "lost_ns": self.lost_ns,
            "start_error_ns_max": summary.get("start_error_ns"),
        }
        document.update(own_figures(summary))
        if self.clock is not None:
            document.update(self.clock.document())
        if self.clock_step_ns:
            document["clock_step_ns"] = self.clock_step_ns
        return document


def end_ns(host: TrialHost) -> int:
    """Return when a host ended, on the controller's clock; 0 if it did not report it."""
    ended_ns = host.summary["ended_unix_ns"] if host.summary is not None else None
    if ended_ns is None:
        return 0
    return ended_ns - (host.clock.offset_ns if host.clock is not None else 0)


def count(host: TrialHost, rows: Table) -> Histogram | None:
    """Add rows to a host's counts, and return the response times of their last second.

    Raises ValueError, and counts nothing, if these times are not a valid histogram.
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
        if outcome != "ok" and outcome not in NO_FAILURES:
            host.failed += requests
    return times
