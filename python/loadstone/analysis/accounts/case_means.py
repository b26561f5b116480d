"""The cases of an account, each with the mean and the spread of its repetitions."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from loadstone.analysis.accounts.account import (
    SECONDS,
    Account,
    Measurement,
    standing_of_trials,
)
from loadstone.analysis.accounts.comparison import Comparison, compare
from loadstone.analysis.grouping import grouped
from loadstone.analysis.judgements.standing import Standing
from loadstone.analysis.statistics.mean import Mean, mean_of

SEED = 1
"""Seed of the resampling; the same as that of a comparison on the command line."""


@dataclass(frozen=True)
class CaseMean:
    """The repetitions of one case, with their mean, their spread and their standing."""

    members: tuple[Measurement, ...]

    @property
    def first(self) -> Measurement:
        """The first repetition, which says what the case is."""
        return self.members[0]

    @property
    def values(self) -> list[float]:
        """Every repetition."""
        return [member.value for member in self.members]

    @cached_property
    def mean(self) -> Mean:
        return mean_of(self.values, [member.started_unix_ns for member in self.members])

    @property
    def standing(self) -> tuple[Standing, tuple[str, ...]]:
        return standing_of_trials(self.members)

    @property
    def printed_ends(self) -> tuple[float, float] | None:
        """The ends of the ± printed beside a single number, not below zero."""
        number, spread = self.first.value, self.first.spread
        return (
            (max(0.0, number - spread), number + spread)
            if spread and len(self.members) == 1
            else None
        )


def case_means(measurements: Iterable[Measurement]) -> list[CaseMean]:
    """Return the cases of measurements of one metric, in order."""
    groups = grouped(measurements, lambda m: (m.target, m.case))
    return [CaseMean(tuple(group)) for group in groups.values()]


def compare_times(account: Account) -> Iterable[tuple[str, str, Comparison]]:
    """Yield each other target compared with the first one that it shares a case with."""
    if SECONDS not in account.metrics:
        return
    first, *others = account.targets
    for other in others:
        a, b = account.only(first), account.only(other)
        if {measurement.case for measurement in a.of(SECONDS)} & {m.case for m in b.of(SECONDS)}:
            yield first, other, compare(a, b, metric=SECONDS, seed=SEED, controls=(account,))
