"""What the charts of a run's page are drawn from: plain values, in the units of analysis.

Times are nanoseconds, rates are a second, elapsed times seconds; numbers have five digits, for the
eye sees no more. The same keys name the same things as in the JSON report.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from loadstone.analysis import Findings
from loadstone.analysis.answers.answer import LOADS, Answer, Result
from loadstone.analysis.answers.headline import case_words
from loadstone.analysis.cells.cell import Cell
from loadstone.analysis.instrument.resources import RESOURCES
from loadstone.analysis.limits.target_state import ending, is_good
from loadstone.analysis.naming import describe_size
from loadstone.analysis.statistics.latency import Latency
from loadstone.campaign.schema.systems.target import SYSTEM

CURVE_POINTS_MAX = 4000
SECONDS_MIN = 3
"""A trial that took less has no shape over time."""


def chart_data(
    findings: Findings, answer: Answer, rounds: Sequence[Result], *, counted: str
) -> dict[str, Any]:
    """Return everything that the page draws; `counted` is what rates count: request, or action.

    `rounds` are the results of single rounds, where there are several.
    """
    every = [*answer.results, *rounds]
    points = sum(len(one.cell.headline.curve) for one in every if one.cell.headline is not None)
    step = max(1, -(-points // CURVE_POINTS_MAX))
    return {
        "counted": counted,
        "targets": list(dict.fromkeys(one.cell.target for one in answer.results)),
        "load": _load_axis(answer),
        "results": [_result(one, None, step) for one in answer.results],
        "rounds": [_result(one, one.cell.round, step) for one in rounds],
        "curves": [
            {"result": answer.results.index(one), "point": name}
            for curve in answer.curves
            for name, one in curve.points
        ],
        "ceilings": [
            {
                "name": one.name,
                "targets": list(one.targets),
                "bounds": one.bounds,
                "bytes_per_s": _short(one.bytes_per_s),
            }
            for one in findings.ceilings
            if one.is_value
        ],
        **_over_time(findings),
    }


def _load_axis(answer: Answer) -> str | None:
    """Return the parameter that says how much load there was, where it varies."""
    values: dict[str, set[object]] = {name: set() for name in LOADS}
    for one in answer.results:
        for name in LOADS:
            value = one.cell.parameters.get(name)
            if isinstance(value, (int, float)):
                values[name].add(value)
    return next((name for name in LOADS if len(values[name]) > 1), None)


def _result(one: Result, round_: int | None, step: int) -> dict[str, Any]:
    cell = one.cell
    low, high = _interval(cell)
    return {
        "target": cell.target,
        "operation": operation_words(cell),
        "workload": cell.workload,
        "size": cell.size_bytes,
        "size_words": None if cell.size_bytes is None else describe_size(cell.size_bytes),
        "parameters": {
            name: value if isinstance(value, (int, float, bool)) else str(value)
            for name, value in cell.parameters.items()
            if name not in ("size", SYSTEM)
        },
        "words": case_words(one),
        "round": round_,
        "n": len(cell.trial_rates),
        "trials": list(cell.trials),
        "rate": _short(one.rate),
        "low": low,
        "high": high,
        "bytes_per_s": _short(one.bytes_per_s),
        **{name: _quantile(cell.headline, name) for name in ("p50", "p90", "p99", "p99_9")},
        "max": None if cell.headline is None else cell.headline.max_ns,
        "requests": cell.requests,
        "failed": cell.failed_if_stated,
        "limit": one.limit,
        "is_bound": one.is_bound,
        "is_void": one.is_void,
        "curve": _curve(cell.headline, step),
    }


def operation_words(cell: Cell) -> str:
    """Return an operation, and its phase where that has a name of its own."""
    is_named = cell.operation == cell.phase
    return cell.operation if is_named else f"{cell.operation} ({cell.phase})"


def _interval(cell: Cell) -> tuple[float | None, float | None]:
    found = cell.interval
    if found is None or found.low is None or found.high is None:
        return None, None
    return _short(found.low), _short(found.high)


def _quantile(latency: Latency | None, name: str) -> int | None:
    return None if latency is None else latency.quantiles[name]


def _curve(latency: Latency | None, step: int) -> list[list[float]]:
    if latency is None:
        return []
    return [[_short(1 / (1 - one.quantile)), one.value_ns] for one in latency.curve[::step]]


def _over_time(findings: Findings) -> dict[str, Any]:
    lengths = {one.trial: one.duration_s or 0.0 for one in findings.trials}
    long = {name for name, length_s in lengths.items() if length_s >= SECONDS_MIN}
    measured = {line.trial for line in findings.timelines}
    begins = {one.trial: one.begin_s for one in findings.resources}
    return {
        "short_trials": len(measured - long),
        "seconds_min": SECONDS_MIN,
        "timelines": [
            {
                "trial": line.trial,
                "target": line.target,
                "operation": line.operation,
                "round": line.round,
                "block": line.block,
                "step_s": line.rate_step_s,
                "rates": [[_short(p.elapsed_s), _short(p.requests_per_s)] for p in line.rates],
                "latencies": [[_short(p.elapsed_s), p.p50_ns, p.p99_ns] for p in line.latencies],
                "errors": [[_short(p.elapsed_s), p.kind, _short(p.per_s)] for p in line.errors],
            }
            for line in findings.timelines
            if line.trial in long
        ],
        "resource_kinds": {
            name: {"title": one.title, "unit": one.unit} for name, one in RESOURCES.items()
        },
        "resources": [
            {
                "trial": one.trial,
                "kind": one.resource,
                "host": one.host,
                "subject": one.subject,
                "points": [
                    [_short(point.elapsed_s - one.begin_s), _short(point.value)]
                    for point in one.points
                ],
            }
            for one in findings.resources
            if one.trial in long
        ],
        "exporters": [
            {
                "title": f"{metric.metric} (probe {metric.probe})",
                "unit": metric.unit,
                "lines": [
                    {
                        "trial": line.trial,
                        "host": line.host,
                        "subject": line.name,
                        "points": [
                            [_short(point.elapsed_s - begins[line.trial]), _short(point.value)]
                            for point in line.points
                        ],
                    }
                    for line in metric.lines
                    if line.trial in long and line.trial in begins
                ],
            }
            for metric in findings.exporters.metrics
        ],
        "marks": list(_marks(findings, long)),
    }


def _marks(findings: Findings, long: set[str]) -> Iterable[Mapping[str, Any]]:
    """Return each hook that ran inside a trial, on the trial's own clock."""
    facts = {one.trial: one for one in findings.trials if one.trial in long}
    for entry in findings.hooks:
        fact = facts.get(entry.get("trial") or "")
        if fact is None or fact.started_unix_ns is None or entry["state"] == "not reached":
            continue
        elapsed_s = (entry["started_unix_ns"] - fact.started_unix_ns) / 1e9
        # Those before the load, and those of an earlier attempt, lie outside.
        if 0 <= elapsed_s <= (fact.duration_s or 0):
            words = entry["hook"] if is_good(entry) else f"{entry['hook']}: {ending(entry)}"
            yield {"trial": fact.trial, "elapsed_s": _short(elapsed_s), "words": words}


def _short(value: float) -> float:
    return float(f"{value:.5g}")
