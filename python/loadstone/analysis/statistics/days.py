"""Trials of several days: a day is one cluster, and an interval counts days, not trials.

What trials of one day have in common (who else used the target, the network, the room) does not
average out with more trials of that day. So the unit is the day: the mean of its logarithms. Means
of days are as exchangeable as trials of one day are, and Student's t over them has one degree of
freedom fewer than there are days.
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
    """Return which day each start belongs to, counted from 0.

    A day begins in the longest part of the 24 hours in which nothing ever started: neither the
    zone that the hours were meant in nor a midnight inside a run tears a day apart.
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
    """Return the geometric mean with its interval, over the days where there are several."""
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
    """The units of two arms: trials, or the days' means of them. Pairs stand at equal places."""

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
    """Return the day of each unit of two arms, where both are of several days.

    A pair belongs to the day on which its first arm began. Arms that are no pairs have days of
    their own; where one has a single day, it is not known how days differ: None, as where a start
    is not known.
    """
    known_a, known_b = ([start for start in starts if start] for starts in (starts_a, starts_b))
    if len(known_a) < len(starts_a) or len(known_b) < len(starts_b):
        return None
    days = days_of(known_a), days_of(known_b)
    return None if min(len(set(day)) for day in days) < 2 else days
