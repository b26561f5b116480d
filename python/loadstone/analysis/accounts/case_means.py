"""The cases of an account, each as one number: the mean of its repetitions, with their spread."""

import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from loadstone.analysis.accounts.account import SECONDS, Account, Measurement, grouped
from loadstone.analysis.accounts.comparison import Comparison, compare
from loadstone.analysis.statistics.ratios import Interval, mean_interval

SEED = 1
"""Of the resampling; the same as that of a comparison on the command line."""


@dataclass(frozen=True)
class CaseMean:
    """The repetitions of one case.

    `spread` is their standard deviation, or what was printed beside the only one; `low` and `high`
    are what it reaches.
    """

    members: tuple[Measurement, ...]

    @property
    def first(self) -> Measurement:
        """The first repetition, which says what the case is."""
        return self.members[0]

    @property
    def values(self) -> list[float]:
        """Every repetition."""
        return [one.value for one in self.members]

    @cached_property
    def mean(self) -> float:
        """The mean of the repetitions."""
        return statistics.fmean(self.values)

    @cached_property
    def spread(self) -> float:
        """Their standard deviation; the printed spread of one by itself, and zero without it."""
        if len(self.members) > 1:
            return statistics.stdev(self.values)
        return self.first.spread or 0.0

    @property
    def low(self) -> float:
        """The mean less the spread; no rate and no time is below zero."""
        return max(0.0, self.mean - self.spread)

    @property
    def high(self) -> float:
        """The mean plus the spread."""
        return self.mean + self.spread

    @property
    def text(self) -> str:
        """One number as it was printed, several as their mean."""
        is_printed = len(self.members) == 1 and self.first.text
        return self.first.text or "" if is_printed else repr(self.mean)

    @cached_property
    def interval(self) -> Interval:
        """The geometric mean of the repetitions with its interval, for values above zero."""
        return mean_interval(self.values)


def case_means(measurements: Iterable[Measurement]) -> list[CaseMean]:
    """Return the cases of measurements of one metric, in the order in which they appear."""
    groups = grouped(measurements, lambda one: (one.target, one.case))
    return [CaseMean(tuple(own)) for own in groups.values()]


def compare_times(account: Account) -> Iterable[tuple[str, str, Comparison]]:
    """Yield the comparison of each other target with the first one that it shares a case with."""
    if SECONDS not in account.metrics:
        return
    first, *others = account.targets
    for other in others:
        a, b = account.only(first), account.only(other)
        if {one.case for one in a.of(SECONDS)} & {one.case for one in b.of(SECONDS)}:
            yield first, other, compare(a, b, metric=SECONDS, seed=SEED, controls=(account,))
