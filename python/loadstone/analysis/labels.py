"""Labels: what a reader must know before using a number, as a short word beside it.

A label never changes a number. Those a trial was recorded with are kept as they are.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from loadstone import units
from loadstone.analysis.finding import Severity
from loadstone.analysis.instrument import HICCUP_SHARE
from loadstone.analysis.part import SECOND_NS, Part
from loadstone.analysis.rows import unless
from loadstone.analysis.stalls import STALLED_SHARE, stall_of
from loadstone.analysis.target_state import HOOK, REBALANCING, UNHEALTHY, labels_around
from loadstone.analysis.validity import LITTLE_TOLERANCE, lag_gate, rate_gate
from loadstone.analysis.verdict import INSTRUMENT_CAUTION, INSTRUMENT_LIMITED, INSTRUMENT_MAX
from loadstone.results.record import ALTERED, Record

if TYPE_CHECKING:
    from loadstone.analysis.summary import Cell

STALLED = "STALLED"
CONTRADICTORY = "CONTRADICTORY"

LABELS: Mapping[str, str] = {
    "INTERRUPTED": "stopped by hand or by a signal before its end; the numbers are what was seen",
    "STOPPED": "stopped by the campaign's own rule on failed requests",
    "RUNNING": "still running when this was read",
    "CORRUPT": "data read back was wrong: the performance numbers are void",
    "IMPORTED": "measured by another tool; what that tool does not record is absent",
    "INCOMPLETE": "the tool's own file does not list every request that it made",
    ALTERED: "a file of the trial is not the one that loadstone wrote: its SHA-256 does not match",
    CONTRADICTORY: "the times or counts of the record contradict each other",
    "ERRORS": "some requests failed; rates count the good ones only",
    "NOTHING": "not one request succeeded",
    "n=1": "one trial: nothing is known about how far another one would lie",
    "SHORT": "measured for less than a minute, or fewer than 1000 requests",
    "LITTLE": "requests in flight do not agree with rate times time: the accounting is in doubt",
    "IDLE": "clients spent more than 2 % of the time outside requests: the rate may be their limit",
    "OVERLOAD": "requests were answered at less than 99 % of the rate at which they were due",
    INSTRUMENT_LIMITED: "the load generator used 80 % or more of its own ceiling: the target can do"
    " at least this",
    "NEAR_CEILING": "the load generator used half or more of its own ceiling",
    "NOISY": "the client stood still for a moment, or the load generator's own sleeps ended late"
    " (p99.9) by over a tenth of the p99 shown",
    STALLED: f"the client stood still for more than {STALLED_SHARE:.0%} of what was measured: the"
    " numbers are its own, not the target's",
    UNHEALTHY: "the target's cluster was not HEALTH_OK before or after the load",
    REBALANCING: "the target's cluster moved or repaired data before or after the load",
    HOOK: "a hook of the campaign failed, or its moment never came",
    "LOG_INS": "the client logged in again more than a few times, or for over 1 % of the time",
    "LAG": "requests left later than they were due: the load generator could not keep the schedule",
}

VOIDING = frozenset(
    {
        "INTERRUPTED",
        "STOPPED",
        "RUNNING",
        "CORRUPT",
        "NOTHING",
        "LITTLE",
        "LAG",
        STALLED,
        ALTERED,
        CONTRADICTORY,
    }
)
"""Labels under which a number must not be used as a result."""

BOUNDS = frozenset({INSTRUMENT_LIMITED})
"""Labels under which a rate is a bound of what the target can do: at least so much."""

REMARKS = frozenset({"n=1", "SHORT", "IMPORTED"})
"""Labels that say how little was measured, not that something went wrong."""

SHORT_S = 60
SHORT_REQUESTS = 1000
LITTLE_REQUESTS_PER_CLIENT = 100
LOG_INS_MAX = 3
LOG_INS_PER_HOUR = 6
LOG_INS_SHARE = 0.01
CHANCE = 3.0
"""Standard deviations by which the number of arrivals may differ from the number wanted."""


def label_trial(record: Record) -> tuple[str, ...]:
    """Return the labels of one trial: those it was recorded with, and how it ended."""
    labels = list(record.labels)
    state = record.summary.get("state")
    labels += ["INTERRUPTED"] if state == "interrupted" else []
    labels += ["STOPPED"] if state == "stopped" else []
    labels += ["CORRUPT"] if any((record.summary.get("mismatches") or {}).values()) else []
    stall = stall_of(record) if record.trial.get("measured") else None
    labels += [STALLED if stall.is_invalid else "NOISY"] if stall is not None else []
    labels += ["LOG_INS"] if _logs_in_often(record) else []
    labels += labels_around(record)
    return tuple(dict.fromkeys(labels))


def _logs_in_often(record: Record) -> bool:
    """Say whether the identity service had a share in what was measured."""
    count, took_ns = record.summary.get("log_ins") or 0, record.summary.get("log_ins_ns") or 0
    iterations = record.summary.get("iterations") or ()
    lasted_ns = max((times["end_ns"] for times in iterations), default=0)
    hours = lasted_ns / (3600 * SECOND_NS)
    is_often = count > LOG_INS_MAX + LOG_INS_PER_HOUR * hours
    return bool(is_often or (count and took_ns > LOG_INS_SHARE * lasted_ns))


def label_cell(cell: "Cell", parts: Sequence[Part]) -> tuple[str, ...]:
    """Return the labels of a cell: those of its trials, and what its own numbers give rise to."""
    labels = [label for part in parts for label in label_trial(part.record)]
    labels += ["ERRORS"] if cell.failed else []
    labels += ["NOTHING"] if not cell.good else []
    labels += ["n=1"] if len(cell.trials) == 1 else []
    is_short = cell.duration_s / len(cell.trials) < SHORT_S or cell.good < SHORT_REQUESTS
    labels += ["SHORT"] if is_short else []
    labels += _schedule_labels(cell, parts)
    labels += _instrument_labels(cell)
    return tuple(dict.fromkeys(labels))


def explain(label: str) -> str:
    """Return the sentence behind a label; a label of somebody else's stands for itself."""
    return LABELS.get(label, "recorded with the trial")


def severity(label: str) -> Severity:
    """Return how grave a label is."""
    if label in VOIDING | BOUNDS:
        return "problem"
    return "note" if label in REMARKS else "caution"


def _schedule_labels(cell: "Cell", parts: Sequence[Part]) -> list[str]:
    labels = []
    clients = cell.load.get("clients") or cell.load.get("clients_max") or 1
    # The first and the last request of each client are cut by the window: few requests prove less.
    is_enough = isinstance(clients, int) and cell.requests >= LITTLE_REQUESTS_PER_CLIENT * clients
    if cell.little is not None and is_enough:
        # Too much in flight cannot be; too little is time that clients spent outside requests.
        labels += ["LITTLE"] if cell.little > 1 + LITTLE_TOLERANCE else []
        labels += ["IDLE"] if cell.little < 1 - LITTLE_TOLERANCE else []
    if cell.load.get("kind") != "open":
        return labels
    wanted = cell.load.get("rate_per_s")
    if isinstance(wanted, (int, float)) and wanted > 0:
        achieved = sum(part.mix.answered for part in parts) / cell.duration_s
        is_poisson = cell.load.get("arrivals", "poisson") == "poisson"
        offered = _offered_per_s(float(wanted), is_poisson, parts)
        rate = rate_gate(offered_per_s=offered, achieved_per_s=achieved)
        labels += ["OVERLOAD"] if rate.outcome == "fail" else []
    lag = lag_gate(
        lag_p99_ns=cell.lag.quantiles["p99"] if cell.lag else None,
        service_p99_ns=cell.service.quantiles["p99"] if cell.service else None,
    )
    labels += ["LAG"] if lag.outcome == "fail" else []
    return labels


def _offered_per_s(wanted_per_s: float, is_poisson: bool, parts: Sequence[Part]) -> float:
    """Return the rate at which requests were due; fewer than were wanted, only as far as chance
    makes arrivals fewer.
    """
    window_s = sum(part.window_ns for part in parts) / SECOND_NS
    wanted, due = wanted_per_s * window_s, sum(part.mix.due for part in parts)
    # Evenly spaced arrivals may miss a window by one.
    chance = CHANCE * math.sqrt(wanted) if is_poisson else len(parts)
    return max(due, wanted - chance) / window_s


def _instrument_labels(cell: "Cell") -> list[str]:
    labels = []
    if cell.instrument is not None and cell.instrument.share >= INSTRUMENT_CAUTION:
        is_limited = cell.instrument.share >= INSTRUMENT_MAX
        labels.append(INSTRUMENT_LIMITED if is_limited else "NEAR_CEILING")
    shown_ns = cell.headline.quantiles["p99"] if cell.headline is not None else None
    hiccup_ns = cell.jitter.hiccup_ns_p99_9
    if shown_ns and hiccup_ns is not None and hiccup_ns > HICCUP_SHARE * shown_ns:
        labels.append("NOISY")
    return labels


def error_sentences(record: Record, intervals: pa.Table) -> list[str]:
    """Return one line per kind of error, with the first message that came back."""
    failed = unless(intervals, "outcome", "ok")
    if not failed.num_rows:
        return []
    counts = failed.group_by("outcome").aggregate([("requests", "sum")]).to_pylist()
    examples = record.summary.get("error_examples") or {}
    lines = []
    for row in sorted(counts, key=lambda row: (-row["requests_sum"], row["outcome"])):
        kind, count = row["outcome"], units.format_count(row["requests_sum"])
        example = f": {examples[kind]}" if kind in examples else ""
        lines.append(f"{count} × {kind}{example}")
    return lines
