"""The mean of repeated trials and how far they lie apart: the one rule behind every printed rate.

The mean is geometric: a ratio of two means is then the mean of the ratios. From five trials on its
spread is the 95 % interval (Student's t on logarithms); below, an interval would say more of the
tables of t than of the target, so that the spread is the trials themselves, the least and the most.
Where trials are of several days, a day is one observation: of the mean, and of the interval.

A trial of which nothing succeeded has no rate: its logarithm does not exist, and leaving it out in
silence would flatter. It is in no mean, and its result is void (`judgements/labels.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from loadstone.analysis.statistics.days import interval_over_days

INTERVAL_TRIALS_MIN = 5
"""Trials from which on an interval is shown, and a comparison may claim something."""


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
        """Whether there are trials that can lie apart."""
        return self.n > 1


def mean_of(values: Sequence[float], starts_ns: Sequence[int | None] = ()) -> Mean:
    """Return the mean of trials; `starts_ns` says when each began, where all do."""
    counted = [place for place, value in enumerate(values) if value > 0]
    known = [values[place] for place in counted]
    if len(known) < 2:
        value = known[0] if known else 0.0
        return Mean(value=value, low=value, high=value, n=len(known))
    starts = [start for place in counted if (start := starts_ns[place] if starts_ns else None)]
    # Other tools do not state when a trial began: then all trials count as one day's.
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
