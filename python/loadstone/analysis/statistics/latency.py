"""Latency of requests, from merged histograms.

Percentiles are never averaged: counts are added, and a percentile is read from the sum.
"""

import functools
import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from loadstone import units
from loadstone.analysis.judgements.validity import TAIL_PRINTED, may_print_quantile
from loadstone.documents.python_types import StatedLatency
from loadstone.errors import ResultError

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
NOT_STATED = "the tool that measured it does not state it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """The times in a merged histogram.

    `quantiles` has every name of QUANTILES; None if there are too few requests, or if it lies among
    requests that timed out, with the reason in `unresolved`. `at_least` bounds the latter.
    `curve_shares` and `curve_ns` are the percentile curve: this share of the requests took at most
    so long.
    """

    count: int
    mean_ns: float
    min_ns: int | None
    max_ns: int
    quantiles: Mapping[str, int | None]
    unresolved: Mapping[str, str]
    at_least: Mapping[str, int]
    curve_shares: tuple[float, ...] = field(repr=False)
    curve_ns: tuple[int, ...] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Requests that timed out, whose time is at least `timeout_ns`."""

    count: int
    requests: int
    timeout_ns: int


def merge(encoded: Iterable[bytes | None]) -> "Histogram | None":
    """Return the sum of encoded histograms, or None when there is nothing to add."""
    from loadstone._loadgen import Histogram

    merged = None
    for text in encoded:
        if text is not None:
            merged = Histogram() if merged is None else merged
            try:
                merged.add(text)
            except ValueError as error:
                raise ResultError(
                    f"a table of the run holds a damaged histogram: {error}",
                    "run loadstone report: it names the files whose checksum differs",
                ) from error
    return merged if merged is not None and merged.count else None


def combine(histograms: Iterable["Histogram | None"]) -> "Histogram | None":
    """Return the sum of histograms, without changing them."""
    from loadstone._loadgen import Histogram

    combined = Histogram()
    for histogram in histograms:
        if histogram is not None:
            combined.merge(histogram)
    return combined if combined.count else None


def latency(histogram: "Histogram | None", timeouts: Timeouts | None = None) -> Latency | None:
    """Return the latency in a histogram of nanoseconds."""
    count = histogram.count if histogram is not None else 0
    if histogram is None or not count:
        return None
    quantiles: dict[str, int | None] = {}
    unresolved: dict[str, str] = {}
    at_least: dict[str, int] = {}
    for name, q in QUANTILES.items():
        quantiles[name] = None
        if not may_print_quantile(q, count):
            unresolved[name] = _too_few(q, count)
        elif timeouts is not None and timeouts.count > (1 - q) * timeouts.requests:
            unresolved[name] = _timed_out(timeouts)
            at_least[name] = timeouts.timeout_ns
        else:
            quantiles[name] = histogram.quantile(q)
    shares = _curve_shares(count)
    # One pass over the buckets for all points.
    ranks = [max(1, math.ceil(share * count - 1e-9)) for share in shares]
    return Latency(
        count=count,
        mean_ns=histogram.mean,
        min_ns=histogram.min,
        max_ns=histogram.max,
        quantiles=quantiles,
        unresolved=unresolved,
        at_least=at_least,
        curve_shares=shares,
        curve_ns=tuple(histogram.at_ranks(ranks)),
    )


def stated_latency(stated: StatedLatency) -> Latency:
    """Return the latency that another tool states, without interpolation."""
    listed = {float(share): ns for share, ns in stated["quantiles_ns"].items()}
    count = stated["count"]
    shares = [share for share in sorted(listed) if may_print_quantile(share, count)]
    quantiles = {
        name: listed.get(q) if may_print_quantile(q, count) else None
        for name, q in QUANTILES.items()
    }
    return Latency(
        count=count,
        mean_ns=stated["mean_ns"],
        min_ns=stated["min_ns"],
        max_ns=stated["max_ns"],
        quantiles=quantiles,
        unresolved={name: NOT_STATED for name, ns in quantiles.items() if ns is None},
        at_least={},
        curve_shares=tuple(shares),
        curve_ns=tuple(listed[share] for share in shares),
    )


def _too_few(q: float, count: int) -> str:
    needed = units.format_count(round(TAIL_PRINTED / (1 - q)))
    return f"needs {needed} requests, has {units.format_count(count)}"


def _timed_out(timeouts: Timeouts) -> str:
    share = timeouts.count / timeouts.requests
    longer = units.format_duration(timeouts.timeout_ns)
    return f"{share:.2%} of the requests timed out: at least {longer}"


@functools.lru_cache(maxsize=1024)
def _curve_shares(count: int) -> tuple[float, ...]:
    """Return shares evenly spaced on an axis of log 1/(1-q), with ten values beyond the last."""
    evenly = (1 - 0.5 ** (number / CURVE_STEPS_PER_HALVING) for number in itertools.count())
    return tuple(itertools.takewhile(lambda q: may_print_quantile(q, count), evenly))
