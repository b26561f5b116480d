"""Trials of several days: a day is one cluster, and an interval counts days, not trials.

What trials of one day have in common (who else used the target, the network, the room) does not
average out with more trials of that day. So the unit is the day: the mean of its logarithms. Means
of days are as exchangeable as trials of one day are, and Student's t over them has one degree of
freedom fewer than there are days.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from loadstone.analysis.statistics.ratios import Interval, mean_interval

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
    days = days_of(starts_ns)
    count = len(set(days))
    if count < 2:
        return mean_interval(values)
    own: list[list[float]] = [[] for _ in range(count)]
    for day, value in zip(days, values, strict=True):
        own[day].append(math.log(value))
    found = mean_interval([math.exp(math.fsum(logs) / len(logs)) for logs in own])
    return replace(found, n=len(values), days=count)
