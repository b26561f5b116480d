"""The mean and the spread of repeated trials, as every output prints them.

The mean is geometric, so that the ratio of two means is the mean of the ratios. From five trials on
the spread is the 95 % interval (Student's t on logarithms); with fewer, it is the least and the
greatest trial. Of several days, a day is one observation.

A trial without a successful request has no rate and is in no mean; its result is void
(`judgements/labels.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from loadstone.analysis.statistics.days import interval_over_days

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
        """What its ends are, in words."""
        return "95 % interval" if self.is_interval else "least and most"


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
