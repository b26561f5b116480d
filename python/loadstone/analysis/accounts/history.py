"""Many runs of one campaign: where did each case change its level, and does the newest run fit?

A value of the series is that of a case's result in one run, as reports print it.
E-Divisive finds where the level changes (window 50, p < 0.001, at least 5 %). It needs about ten
runs, three of them after the change. So a prediction interval also compares the newest run with the
level before it, which gives an answer in the same night.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from loadstone import units
from loadstone.analysis.accounts.account import (
    RATE,
    SECONDS,
    Account,
    Case,
    Measurement,
    Parameter,
    describe_case,
    is_lower_better,
)
from loadstone.analysis.accounts.comparison import Difference, differences
from loadstone.analysis.accounts.level import level_of
from loadstone.analysis.grouping import grouped
from loadstone.analysis.naming import metric_words
from loadstone.analysis.statistics import student
from loadstone.analysis.statistics.change_points import SHORTEST_SEGMENT, ChangePoint, e_divisive

MAGNITUDE = 0.05
"""The least change of a level that is reported, as in Hunter (Fleming et al., ICPE'23)."""

CONFIDENCE = 0.99
"""Confidence of the prediction interval for the newest run: one false alarm in a hundred nights and
cases.
"""

METRICS = (RATE, SECONDS, "service_ns_p99")
RUNS_FOR_A_CHANGE = 10
"""With fewer runs no split reaches p < 0.01, the first pass, however large the change is."""

Newest = Literal["as before", "better", "worse", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One run of the history: its name, when it started (ISO 8601), and what it measured."""

    name: str
    started: str
    account: Account


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPoint:
    """A case in one run: the number of its result, of so many trials."""

    run: str
    started: str
    value: float
    trials: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryChange:
    """A change of level: the first run after it, both levels, and what else changed at that run."""

    run: str
    started: str
    runs_since: int
    before: float
    after: float
    p: float
    is_worse: bool
    differing: tuple[Difference, ...]

    @property
    def magnitude(self) -> float:
        """Return the relative change of the level, 0.05 for five per cent more."""
        return self.after / self.before - 1

    @property
    def p_words(self) -> str:
        """Return `p` as text: one of nearly 0 as a bound, since no test can show a chance of 0."""
        return f"= {self.p:.1g}" if self.p >= 1e-4 else "< 0.0001"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """One case over all runs, oldest first; `expected` is where the newest value was expected."""

    case: Case
    name: str
    metric: str
    points: tuple[HistoryPoint, ...]
    changes: tuple[HistoryChange, ...]
    newest: Newest
    expected: tuple[float, float] | None

    def is_regressed(self, recent: int) -> bool:
        """Tell whether the newest run is worse, or a change for the worse began in recent runs."""
        last = self.changes[-1] if self.changes else None
        changed = last is not None and last.is_worse and last.runs_since <= recent
        return self.newest == "worse" or changed


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The trends of all cases; `left_out` counts results that no claim may rest on, by the rule."""

    entries: tuple[Entry, ...]
    trends: tuple[Trend, ...]
    left_out: Mapping[str, int]


def trace(entries: Iterable[Entry], *, metrics: Sequence[str] = METRICS, seed: int = 1) -> History:
    """Put the runs in order of time and follow each case through them."""
    ordered = tuple(sorted(entries, key=lambda entry: entry.started))
    left_out = Counter[str]()
    series: dict[tuple[str, Case], dict[int, list[Measurement]]] = {}
    for place, entry in enumerate(ordered):
        wanted = [m for m in entry.account.measurements if m.metric in metrics and m.value > 0]
        for key, trials in grouped(wanted, lambda m: (m.metric, _case(m))).items():
            if all(trial.standing == "valid" for trial in trials):
                series.setdefault(key, {})[place] = trials
                continue
            # A trend needs valid values: bounds show the instrument's limit.
            left_out.update(dict.fromkeys(n for trial in trials for n in trial.reasons).keys())
    order = {metric: place for place, metric in enumerate(metrics)}
    trends = [_trend(ordered, by_place, seed) for by_place in series.values()]
    pairs = dict.fromkeys(pair for trend in trends for pair in trend.case)
    first = {pair: place for place, pair in enumerate(pairs)}
    trends.sort(key=lambda trend: (order[trend.metric], _place(trend.case, first)))
    return History(entries=ordered, trends=tuple(trends), left_out=left_out)


def _place(case: Case, first: Mapping[tuple[str, Parameter], int]) -> list[tuple[str, float]]:
    """Return where a case stands: runs draw the order of their cases, readers want them sorted.

    Numbers stand by their size, names in the order in which runs first had them.
    """
    return [
        (pair[0], pair[1] if isinstance(pair[1], int | float) else first[pair]) for pair in case
    ]


def _case(measurement: Measurement) -> Case:
    """Return what stays the same from run to run; rounds of a run repeat a case."""
    return (("target", measurement.target), *measurement.case_over_rounds)


def _trend(
    entries: Sequence[Entry], by_place: Mapping[int, Sequence[Measurement]], seed: int
) -> Trend:
    places = sorted(by_place)
    values = [level_of(by_place[place]) for place in places]
    points = tuple(
        HistoryPoint(
            run=entries[place].name,
            started=entries[place].started,
            value=value,
            trials=len(by_place[place]),
        )
        for place, value in zip(places, values, strict=True)
    )
    example = by_place[places[-1]][-1]
    breaks = e_divisive(values, seed=seed, magnitude=MAGNITUDE)
    start = breaks[-1].index if breaks else 0
    expected, newest = _judge_newest(values[start:], example.metric)
    return Trend(
        case=_case(example),
        name=describe_case(example, leave_out=("round",)),
        metric=example.metric,
        points=points,
        changes=tuple(
            _change(entries, places, change_point, example.metric) for change_point in breaks
        ),
        newest=newest,
        expected=expected,
    )


def _change(
    entries: Sequence[Entry], places: Sequence[int], change_point: ChangePoint, metric: str
) -> HistoryChange:
    first, last_before = (
        entries[places[change_point.index]],
        entries[places[change_point.index - 1]],
    )
    return HistoryChange(
        run=first.name,
        started=first.started,
        runs_since=len(places) - change_point.index,
        before=change_point.before,
        after=change_point.after,
        p=change_point.p,
        is_worse=(change_point.after > change_point.before) == is_lower_better(metric),
        differing=differences(last_before.account, first.account),
    )


def _judge_newest(level: Sequence[float], metric: str) -> tuple[tuple[float, float] | None, Newest]:
    """Hold the last value against those before it: a prediction interval on logarithms.

    Mean ± t · s · √(1 + 1/n) (Hahn & Meeker, Statistical Intervals, 2017, 4.8), at least 5 % wide:
    a smaller change is none that anybody would act on.
    """
    *before, newest = level
    if len(before) < SHORTEST_SEGMENT:
        return None, "unknown"
    logs = np.log(before)
    middle, spread = float(logs.mean()), float(logs.std(ddof=1))
    t = student.quantile((1 + CONFIDENCE) / 2, len(before) - 1)
    half = max(t * spread * math.sqrt(1 + 1 / len(before)), math.log1p(MAGNITUDE))
    low, high = math.exp(middle - half), math.exp(middle + half)
    if low <= newest <= high:
        return (low, high), "as before"
    is_worse = (newest > high) == is_lower_better(metric)
    return (low, high), "worse" if is_worse else "better"


def answer_words(traced: History) -> str:
    """Return whether the newest run is as good as expected, as a sentence."""
    newest = traced.entries[-1].name
    worse = [trend for trend in traced.trends if trend.newest == "worse"]
    better = sum(trend.newest == "better" for trend in traced.trends)
    unknown = sum(trend.newest == "unknown" for trend in traced.trends)
    total = units.counted(len(traced.trends), "trend")
    if worse:
        words = f"The newest run, {newest}, is worse than expected in {len(worse)} of {total}"
        first = worse[0]
        if len(worse) == 1:
            words += f": {first.name or 'all'}, {metric_words(first.metric)}"
    elif unknown == len(traced.trends):
        words = f"Too few runs to say whether the newest run, {newest}, is as expected"
    else:
        words = f"The newest run, {newest}, is worse in none of {total}"
    if better:
        words += f" and better in {better}"
    if changed := sum(bool(trend.changes) for trend in traced.trends):
        words += f"; {changed} changed level since {traced.entries[0].started[:10]}"
    return f"{words}."
