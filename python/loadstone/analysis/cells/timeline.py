"""Rates, latencies and errors of each trial over time.

Long trials have wider steps; `step` is part of the data. Histograms of a step are merged before a
percentile is read.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from loadstone.analysis.grouping import added_up
from loadstone.analysis.judgements.validity import may_print_quantile
from loadstone.analysis.measured.part import operations_in
from loadstone.analysis.measured.rows import Rows, values_of
from loadstone.analysis.measured.trial_case import TrialCase, case_of
from loadstone.analysis.statistics.latency import merge
from loadstone.documents.mix import operations_of
from loadstone.results.record import Record

SECOND_NS = 1_000_000_000
POINTS_PER_RUN = 6000
POINTS_PER_TRIAL_MAX = 240
POINTS_PER_TRIAL_MIN = 12
REQUESTS_FOR_P99 = 1000

_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)


@dataclass(frozen=True, slots=True, kw_only=True)
class RatePoint:
    """The rates of good requests in one step; `elapsed_s` is its middle."""

    elapsed_s: float
    requests_per_s: float
    bytes_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyPoint:
    """The latencies of one step, if it has enough requests."""

    elapsed_s: float
    p50_ns: int | None
    p99_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorPoint:
    """The rate of one kind of error in one step."""

    elapsed_s: float
    kind: str
    per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline(TrialCase):
    """One operation of one trial over time."""

    operation: str
    rate_step_s: int
    latency_step_s: int
    rates: tuple[RatePoint, ...]
    latencies: tuple[LatencyPoint, ...]
    errors: tuple[ErrorPoint, ...]


def points_per_trial(records: Sequence[Record]) -> int:
    """Return the number of points per trial, so that one page can show all."""
    measured = [record.trial for record in records if record.trial["measured"]]
    lines = sum(len(operations_of(trial)) or 1 for trial in measured)
    return min(POINTS_PER_TRIAL_MAX, max(POINTS_PER_TRIAL_MIN, POINTS_PER_RUN // max(1, lines)))


def read_timelines(record: Record, every: Rows, points: int) -> Iterable[Timeline]:
    """Return one trial over time, with at most about `points` points per operation."""
    end_s = _end_s(record, every)
    for operation in operations_in(record, every):
        rows = every.where("operation", operation)
        good = rows.where("outcome", "ok")
        step = step_s(end_s, points)
        latency_step = _latency_step_s(good, end_s, step)
        yield Timeline(
            **case_of(record.trial),
            operation=operation,
            rate_step_s=step,
            latency_step_s=latency_step,
            rates=tuple(_rates(rows, good, step, end_s)),
            latencies=tuple(_latencies(good, latency_step, end_s)),
            errors=tuple(_errors(rows, step, end_s)),
        )


def step_s(duration_s: float, points: int) -> int:
    """Return the shortest round step that needs no more than these points."""
    for step in _STEPS_S:
        if duration_s <= step * points:
            return step
    return math.ceil(duration_s / points / _STEPS_S[-1]) * _STEPS_S[-1]


def _end_s(record: Record, rows: Rows) -> float:
    ends = [entry["end_ns"] for entry in record.summary.get("iterations") or ()]
    if ends:
        return float(max(ends)) / SECOND_NS
    return float(max(rows["second"].tolist(), default=0) + 1)


def _latency_step_s(good: Rows, end_s: float, step: int) -> int:
    """Return a step wide enough for a p99, unless too few points are left."""
    requests = good.sum("requests")
    wanted = REQUESTS_FOR_P99 * end_s / requests if requests else end_s
    return max(step, step_s(max(1.0, min(wanted, end_s / POINTS_PER_TRIAL_MIN)), 1))


def _rates(rows: Rows, good: Rows, step: int, end_s: float) -> Iterable[RatePoint]:
    requests = _by_step(good, "requests", step)
    sizes = _by_step(good, "bytes", step)
    # A step in which nothing succeeded is a rate of zero: a stall must be seen, and an outage to
    # which the trial had come when it ended.
    steps = {second // step for second in rows["second"].tolist()}
    for index in range(min(steps, default=0), max(steps, default=-1) + 1):
        length = min(step, end_s - index * step)
        # A rest of a step says little, unless it is all there is.
        if length <= 0 or (length < step / 2 and len(steps) > 1):
            continue
        yield RatePoint(
            elapsed_s=index * step + length / 2,
            requests_per_s=requests.get(index, 0) / length,
            bytes_per_s=sizes.get(index, 0) / length,
        )


def _by_step(rows: Rows, name: str, step: int) -> dict[int, int]:
    return added_up((second // step, count) for second, count in rows.sums("second", name).items())


def _latencies(good: Rows, step: int, end_s: float) -> Iterable[LatencyPoint]:
    encoded: dict[int, list[bytes]] = {}
    for second, *times in zip(
        good["second"].tolist(),
        *(values_of(good, name) for name in ("response", "service") if name in good),
        strict=True,
    ):
        value = next((time for time in times if time is not None), None)
        if value is not None:
            encoded.setdefault(second // step, []).append(value)
    for index, values in sorted(encoded.items()):
        merged = merge(values)
        is_rest = end_s - index * step < step / 2 and len(encoded) > 1
        if merged is None or is_rest:
            continue
        p50, p99 = (
            merged.quantile(q) if may_print_quantile(q, merged.count) else None for q in (0.5, 0.99)
        )
        yield LatencyPoint(elapsed_s=(index + 0.5) * step, p50_ns=p50, p99_ns=p99)


def _errors(rows: Rows, step: int, end_s: float) -> Iterable[ErrorPoint]:
    failed = rows.unless("outcome", "ok")
    columns = (failed[name].tolist() for name in ("outcome", "second", "requests"))
    counts = added_up(
        ((kind, second // step), count) for kind, second, count in zip(*columns, strict=True)
    )
    for (kind, index), count in sorted(counts.items(), key=lambda item: (item[0][1], item[0][0])):
        length = min(step, max(end_s - index * step, 1.0))
        yield ErrorPoint(elapsed_s=index * step + length / 2, kind=kind, per_s=count / length)
