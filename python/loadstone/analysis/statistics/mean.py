"""The mean and the spread of repeated trials, as every output prints them.

The mean is geometric, so that the ratio of two means is the mean of the ratios. From five trials on
the spread is the 95 % interval (Student's t on logarithms); with fewer, it is the least and the
greatest trial.

Trials of one day share conditions, such as other users of the target, which more trials of that day
do not average out. Of several days, a day is therefore one observation: intervals are Student's t
over the days' mean logarithms.

A trial without a successful request has no rate and is in no mean; its result is void
(`judgements/labels.py`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from loadstone.analysis.statistics.ratios import (
    Interval,
    Ratio,
    mean_interval,
    paired_ratio,
    welch_ratio,
)

INTERVAL_TRIALS_MIN = 5
"""The least number of trials for an interval, and for a claim of a comparison."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """The geometric mean of trials, 0 where none has a value, and their spread.

    `low` and `high` are the ends of the 95 % interval where `is_interval`, and otherwise the least
    and the greatest trial. `n` trials; where they are of several `days`, the mean is of these.
    """

    value: float
    low: float
    high: float
    n: int
    days: int = 1
    is_interval: bool = False

    @property
    def is_spread(self) -> bool:
        """Whether there are several trials."""
        return self.n > 1

    @property
    def spread(self) -> "Mean | None":
        """The mean, where there are several trials that make its ends a spread."""
        return self if self.is_spread else None

    @property
    def spread_is(self) -> Literal["95 % interval", "least and most"]:
        """The meaning of its ends, in words."""
        return "95 % interval" if self.is_interval else "least and most"

    @property
    def relative_width(self) -> float | None:
        """The width of the spread as a share of the mean; None if there is none."""
        return (self.high - self.low) / self.value if self.is_spread else None


def mean_of(values: Sequence[float], starts_ns: Sequence[int | None] = ()) -> Mean:
    """Return the mean of trials, given when each began, if known."""
    counted = [place for place, value in enumerate(values) if value > 0]
    known = [values[place] for place in counted]
    if len(known) < 2:
        value = known[0] if known else 0.0
        return Mean(value=value, low=value, high=value, n=len(known))
    starts = [start for place in counted if (start := starts_ns[place] if starts_ns else None)]
    # Other tools may not state when trials began, which then count as trials of one day.
    interval = interval_over_days(known, starts if len(starts) == len(known) else [0] * len(known))
    low, high = min(known), max(known)
    is_interval = len(known) >= INTERVAL_TRIALS_MIN
    if is_interval:
        low, high = interval.low or low, interval.high or high
    return Mean(
        value=interval.centre,
        low=low,
        high=high,
        n=len(known),
        days=interval.days,
        is_interval=is_interval,
    )


DAY_NS = 86_400 * 10**9


def days_of(starts_ns: Sequence[int]) -> list[int]:
    """Return the day of each start, counted from 0.

    Days are divided in the longest part of the 24 hours in which nothing ever started, so that
    neither time zones nor a run over midnight split a day.
    """
    begin_ns = _night(sorted({start % DAY_NS for start in starts_ns}))
    days = [(start - begin_ns) // DAY_NS for start in starts_ns]
    order = sorted(set(days))
    return [order.index(day) for day in days]


def _night(hours_ns: Sequence[int]) -> int:
    """Return the end of the longest gap between times of day, on a clock of 24 hours."""
    before = [hours_ns[-1] - DAY_NS, *hours_ns[:-1]]
    gaps = [hour - earlier for hour, earlier in zip(hours_ns, before, strict=True)]
    return hours_ns[gaps.index(max(gaps))]


def interval_over_days(values: Sequence[float], starts_ns: Sequence[int]) -> Interval:
    """Return the geometric mean with its interval, over days if there are several."""
    means = means_of_days(values, starts_ns)
    if len(means) < 2:
        return mean_interval(values)
    return replace(mean_interval(means), n=len(values), days=len(means))


def means_of_days(values: Sequence[float], starts_ns: Sequence[int]) -> list[float]:
    days = days_of(starts_ns)
    logs_by_day: list[list[float]] = [[] for _ in range(len(set(days)))]
    for day, value in zip(days, values, strict=True):
        logs_by_day[day].append(math.log(value))
    return [math.exp(math.fsum(logs) / len(logs)) for logs in logs_by_day]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arms:
    """The units of two arms: trials, or means of days. Pairs have equal indices."""

    a: Sequence[float]
    b: Sequence[float]
    is_paired: bool
    days: int = 1

    @property
    def ratio(self) -> Ratio:
        """B over A with its interval, over these units."""
        ratio = paired_ratio(self.a, self.b) if self.is_paired else welch_ratio(self.a, self.b)
        return replace(ratio, days=self.days)


def shared_days(
    starts_a: Sequence[int | None], starts_b: Sequence[int | None], *, is_paired: bool
) -> tuple[list[int], list[int]] | None:
    """Return the days of the units of two arms; None if one arm is of a single day.

    None too if a start is unknown. A pair belongs to the day on which its first arm began.
    """
    known_a, known_b = ([start for start in starts if start] for starts in (starts_a, starts_b))
    if len(known_a) < len(starts_a) or len(known_b) < len(starts_b):
        return None
    days = days_of(known_a), days_of(known_b)
    return None if min(len(set(day)) for day in days) < 2 else days
