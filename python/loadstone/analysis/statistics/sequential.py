"""Sequential tests, which allow looks at the data before all of it is there.

Testing at the usual level at each look would err more often than that level. Each look therefore
spends a part of it (Lan & DeMets, Biometrika 70, 1983), in proportion to the data since the look
before. The probability of an error at any look is at most the sum of the parts (Bonferroni). This
also holds for Student's t with few blocks, for which boundaries of correlated normal sums are only
approximate.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from loadstone.analysis.statistics import student
from loadstone.analysis.statistics.ratios import Ratio

GROWTH = 1.5
"""The data of a look over that of the look before."""


def looks_until(least: int, most: int) -> tuple[int, ...]:
    """Return the numbers of blocks of the looks, from `least` to `most`."""
    looks = [least]
    while looks[-1] < most:
        following = math.ceil(looks[-1] * GROWTH)
        # A last look with hardly more blocks than the one before would add nothing.
        looks.append(most if following * GROWTH > most * 1.2 else following)
    return tuple(looks)


def level_at(looks: Sequence[int], blocks: int, alpha: float) -> float:
    """Return the part of `alpha` that a test spends at a look; 0 between looks."""
    spent = {here: here - before for before, here in pairwise((0, *looks))}
    return alpha * spent.get(blocks, 0) / looks[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """The distance of a ratio above a bound in standard `errors` of its logarithm.

    `below_p` is the p of the hypothesis that it is not below the bound, `above_p` of the contrary.
    """

    errors: float
    below_p: float
    above_p: float


def excess_of(ratio: Ratio, bound: float, *, is_inverse: bool) -> Excess | None:
    """Compare a ratio, or its inverse if `is_inverse`, with a bound; None without an interval."""
    if ratio.t_error is None:
        return None
    error, freedom = ratio.t_error
    centre = math.log(ratio.ratio) * (-1 if is_inverse else 1) - math.log(bound)
    errors = centre / error if error > 0 else math.copysign(math.inf, centre)
    return Excess(
        errors=errors,
        below_p=student.below(errors, freedom),
        above_p=student.above(errors, freedom),
    )


def blocks_to_decide(
    excess: Excess, looks: Sequence[int], passed: int, alpha: float, power: float
) -> int | None:
    """Return the look after `passed` blocks at which a test will decide with this power.

    By the excess so far; None if no look will.
    """
    for blocks in (look for look in looks if look > passed):
        expected = abs(excess.errors) * math.sqrt(blocks / passed)
        if expected >= _needed(looks, blocks, alpha, power):
            return blocks
    return None


def spread_that_is_decided(
    looks: Sequence[int], margin: float, alpha: float, power: float
) -> float:
    """Return the largest spread of blocks' log ratios with which an equal build passes.

    With this power at the last look; earlier looks only add to it.
    """
    last = looks[-1]
    return math.log1p(margin) * math.sqrt(last) / _needed(looks, last, alpha, power)


def _needed(looks: Sequence[int], blocks: int, alpha: float, power: float) -> float:
    level = level_at(looks, blocks, alpha)
    return student.quantile(1 - level, blocks - 1) + student.quantile(power, blocks - 1)
