"""Trials of several days, in which the day is the unit of repetition.

Trials of one day share conditions, such as other users of the target, which more trials of that day
do not average out. Intervals are therefore Student's t over the days' mean logarithms, with one
degree of freedom fewer than days.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from loadstone.analysis.statistics.ratios import (
    Interval,
    Ratio,
    mean_interval,
    paired_ratio,
    welch_ratio,
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
    """Return the geometric mean of each day."""
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
