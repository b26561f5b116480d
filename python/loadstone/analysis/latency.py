"""Latency of many requests: histograms merged by their counts, and what may be read from them.

Percentiles of seconds, clients or hosts are never averaged: counts are added, and a percentile is
read from the sum.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from loadstone import units
from loadstone.analysis.validity import TAIL_PRINTED, may_print_quantile

if TYPE_CHECKING:
    from loadstone._loadgen import Histogram

QUANTILES: Mapping[str, float] = {
    "p50": 0.5,
    "p75": 0.75,
    "p90": 0.9,
    "p95": 0.95,
    "p99": 0.99,
    "p99_9": 0.999,
}

CURVE_STEPS_PER_HALVING = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """One point of the percentile curve: this share of the requests took at most so long."""

    quantile: float
    value_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """What a merged histogram says; a percentile it cannot support is absent, with the reason.

    `quantiles` has every name of QUANTILES.
    """

    count: int
    mean_ns: float
    min_ns: int
    max_ns: int
    quantiles: Mapping[str, int | None]
    unresolved: Mapping[str, str]
    curve: tuple[CurvePoint, ...] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Requests that were given up: their true time is unknown, and at least `timeout_ns`."""

    count: int
    requests: int
    timeout_ns: int


def merge(encoded: Iterable[bytes | None]) -> "Histogram | None":
    """Return the sum of encoded histograms, or None when there is nothing to add."""
    # Imported here: a report of numbers without histograms needs no compiled part.
    from loadstone._loadgen import Histogram

    merged = None
    for one in encoded:
        if one is not None:
            merged = Histogram() if merged is None else merged
            merged.add(one)
    return merged if merged is not None and merged.count else None


def combine(histograms: Iterable["Histogram | None"]) -> "Histogram | None":
    """Return the sum of histograms, which stay as they are."""
    from loadstone._loadgen import Histogram

    combined = Histogram()
    for histogram in histograms:
        if histogram is not None:
            combined.merge(histogram)
    return combined if combined.count else None


def latency(histogram: "Histogram | None", timeouts: Timeouts | None = None) -> Latency | None:
    """Return what may be said about a histogram of nanoseconds."""
    if histogram is None or not histogram.count:
        return None
    quantiles: dict[str, int | None] = {}
    unresolved: dict[str, str] = {}
    for name, q in QUANTILES.items():
        reason = _reason_against(q, histogram.count, timeouts)
        quantiles[name] = None if reason else histogram.quantile(q)
        if reason:
            unresolved[name] = reason
    return Latency(
        count=histogram.count,
        mean_ns=histogram.mean,
        min_ns=histogram.min,
        max_ns=histogram.max,
        quantiles=quantiles,
        unresolved=unresolved,
        curve=_curve(histogram),
    )


def _reason_against(q: float, count: int, timeouts: Timeouts | None) -> str | None:
    if not may_print_quantile(q, count):
        needed = round(TAIL_PRINTED / (1 - q))
        return f"needs {units.format_count(needed)} requests, has {units.format_count(count)}"
    if timeouts is not None and timeouts.count > (1 - q) * timeouts.requests:
        share = timeouts.count / timeouts.requests
        longer = units.format_duration(timeouts.timeout_ns)
        return f"{share:.2%} of the requests timed out: at least {longer}"
    return None


def _curve(histogram: "Histogram") -> tuple[CurvePoint, ...]:
    """Return points that stand evenly on an axis of 1/(1-q), up to where ten values lie beyond."""
    points: list[CurvePoint] = []
    step = 0
    while True:
        q = 1 - 0.5 ** (step / CURVE_STEPS_PER_HALVING)
        if not may_print_quantile(q, histogram.count):
            return tuple(points)
        points.append(CurvePoint(quantile=q, value_ns=histogram.quantile(q)))
        step += 1
