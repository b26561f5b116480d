"""Student's t: its quantiles and tails.

Quantiles of whole degrees of freedom, which intervals of few repetitions ask for, have a closed
form. The rest is from scipy's special functions: they take 0.4 s of CPU to import, and its module
of distributions a second, so that reports of short runs would do little else.
"""

import functools
import math

__all__ = ["above", "below", "quantile"]

CLOSED_FREEDOM_MAX = 1000
"""Up to so many degrees of freedom the sum is as exact as scipy, and quicker than its import."""
CLOSED_TAIL_MIN = 1e-3
"""Farther out than this the sum loses digits to its distance from one."""


@functools.cache
def quantile(probability: float, degrees_of_freedom: float) -> float:
    """Return the value that Student's t stays below with this probability."""
    is_whole = 1 <= degrees_of_freedom <= CLOSED_FREEDOM_MAX and degrees_of_freedom % 1 == 0
    if is_whole and CLOSED_TAIL_MIN <= probability <= 1 - CLOSED_TAIL_MIN:
        found = _closed_quantile(abs(2 * probability - 1), int(degrees_of_freedom))
        return math.copysign(found, probability - 0.5)
    from scipy import special

    return float(special.stdtrit(degrees_of_freedom, probability))


def below(value: float, degrees_of_freedom: float) -> float:
    """Return the probability of a value at or below this one."""
    from scipy import special

    return float(special.stdtr(degrees_of_freedom, value))


def above(value: float, degrees_of_freedom: float) -> float:
    """Return the probability of a value above this one, as exact in the far tail as `below`."""
    return below(-value, degrees_of_freedom)


def _closed_quantile(share: float, freedom: int) -> float:
    """Return the t with P(|T| ≤ t) = share, by Newton's rule from below.

    The distribution bends down right of zero: a tangent meets the share before the curve does, and
    no step overshoots.
    """
    logarithm = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)
    peak: float = 2 * math.exp(logarithm) / math.sqrt(freedom * math.pi)
    t = 0.0
    while True:
        density: float = peak * (1 + t * t / freedom) ** (-(freedom + 1) / 2)
        step: float = (share - _share_within(t, freedom)) / density
        t += step
        if step <= 1e-15 * t:
            return t


def _share_within(t: float, freedom: int) -> float:
    """Return P(|T| ≤ t) of whole degrees of freedom (Abramowitz & Stegun 26.7.3 and 26.7.4)."""
    square = freedom / (freedom + t * t)
    sine = t / math.sqrt(freedom + t * t)
    is_odd = freedom % 2
    terms, term = [], 1.0
    for index in range(1, (freedom - is_odd) // 2 + 1):
        terms.append(term)
        term *= square * (2 * index if is_odd else 2 * index - 1) / (2 * index + is_odd)
    total = sine * math.fsum(terms)
    if not is_odd:
        return total
    return 2 / math.pi * (math.atan(t / math.sqrt(freedom)) + math.sqrt(square) * total)
