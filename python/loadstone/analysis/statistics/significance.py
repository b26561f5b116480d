"""Tests of whether two arms differ, and corrections for several tests.

They are exact for small samples. An interval shows the size of a difference and comes first.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loadstone.errors import InputError

EXACT_SIGN_FLIPS = 30
"""Up to this many pairs, all 2^n assignments of signs are counted; beyond it they are drawn."""

ROUNDING = 1e-12
"""Sums that differ by less than this share of all their terms differ by rounding alone."""


def sign_flip_p(differences: ArrayLike, *, seed: int, draws: int = 99_999) -> float:
    """Return the two-sided p of paired differences by flipping their signs.

    Without a difference, d_j is as likely as -d_j: p = #{|Σ ±d_j| ≥ |Σ d_j|} / 2^n (Fisher 1935).
    If assignments are drawn, p = (k+1)/(B+1) (Phipson & Smyth 2010). The smallest p of n pairs is
    2/2^n: with fewer than six pairs nothing is significant at 5 %.
    """
    d = np.asarray(differences, dtype=float).ravel()
    if d.size == 0:
        raise InputError("a sign-flip test needs at least one pair")
    least = abs(float(d.sum())) - ROUNDING * float(np.abs(d).sum())
    if least <= 0:
        # Every sum is at least as far from zero.
        return 1.0
    if d.size <= EXACT_SIGN_FLIPS:
        return _flips_beyond(d, least) / 2.0**d.size
    beyond = int(np.count_nonzero(np.abs(_drawn_sums(d, draws, seed)) >= least))
    return (beyond + 1) / (draws + 1)


def _flips_beyond(d: NDArray[np.float64], least: float) -> int:
    """Count the assignments of signs whose sum is at least `least`, above zero, from zero.

    For each sum of one half of the pairs, the sums of the other half that reach far enough are
    found by bisection (Horowitz & Sahni 1974). There are as many below zero.
    """
    left, right = _signed_sums(d[: d.size // 2]), np.sort(_signed_sums(d[d.size // 2 :]))
    return 2 * int((right.size - np.searchsorted(right, least - left)).sum())


def _drawn_sums(d: NDArray[np.float64], draws: int, seed: int) -> NDArray[np.float64]:
    """Return sums with random signs: a random byte is the signs of eight pairs."""
    groups = [d[start : start + 8] for start in range(0, d.size, 8)]
    chance = np.random.default_rng(seed).integers(0, 256, (len(groups), draws), dtype=np.uint8)
    sums = np.zeros(draws)
    for group, signs in zip(groups, chance, strict=True):
        # The sums of a smaller group are repeated equally often.
        sums += np.resize(_signed_sums(group), 256)[signs]
    return sums


def _signed_sums(d: NDArray[np.float64]) -> NDArray[np.float64]:
    sums = np.zeros(1)
    for value in d:
        sums = np.concatenate([sums + value, sums - value])
    return sums


def mann_whitney_p(a: ArrayLike, b: ArrayLike) -> float:
    """Return the exact two-sided p of the Mann-Whitney test, also with ties.

    The distribution of the rank sum over all C(n_a+n_b, n_a) divisions of the pooled mid-ranks is
    counted by the shift algorithm (Streitberg & Röhmel 1986); scipy's exact method excludes ties.
    Two-sided: twice the smaller tail, at most 1. Beyond 2,000 pairs of values it is the normal
    approximation with a correction for ties.
    """
    x, y = np.asarray(a, dtype=float).ravel(), np.asarray(b, dtype=float).ravel()
    if x.size == 0 or y.size == 0:
        raise InputError("a Mann-Whitney test needs at least one trial of each arm")
    _, place, ties = np.unique(np.concatenate([x, y]), return_inverse=True, return_counts=True)
    # Mid-ranks are multiples of one half: doubled, they are whole numbers.
    ranks = (2 * np.cumsum(ties) - ties + 1)[place]
    if x.size * y.size > 2_000:
        return _approximate_p(float(ranks[: x.size].sum()) / 2, x.size, y.size, ties)
    counts = _rank_sum_counts(ranks, x.size)
    rank_sum = int(ranks[: x.size].sum())
    total = counts.sum()
    lower = counts[: rank_sum + 1].sum() / total
    upper = counts[rank_sum:].sum() / total
    return float(min(1.0, 2 * min(lower, upper)))


def _approximate_p(rank_sum: float, n_a: int, n_b: int, ties: NDArray[np.int_]) -> float:
    """Return the two-sided p of the normal approximation, corrected for ties and continuity."""
    n = n_a + n_b
    wins = rank_sum - n_a * (n_a + 1) / 2
    shared = float((ties.astype(float) ** 3 - ties).sum()) / (n * (n - 1))
    deviation = math.sqrt(n_a * n_b / 12 * (n + 1 - shared))
    if deviation == 0:
        return 1.0
    distance = (max(wins, n_a * n_b - wins) - n_a * n_b / 2 - 0.5) / deviation
    return min(1.0, math.erfc(distance / math.sqrt(2)))


def smallest_p(n_a: int, n_b: int) -> float:
    """Return the smallest p of the exact Mann-Whitney test.

    2 / C(n_a+n_b, n_a): 0.33, 0.10, 0.029 and 0.008 for two to five trials of each arm.
    """
    return min(1.0, 2 / math.comb(n_a + n_b, n_a))


def a12(a: ArrayLike, b: ArrayLike) -> float:
    """Return the probability that a trial of B exceeds one of A; ties count half.

    Â12 = (#{b > a} + #{b = a}/2) / (n_a · n_b) (Vargha & Delaney 2000): 0.5 is no difference.
    """
    x, y = np.asarray(a, dtype=float).ravel(), np.asarray(b, dtype=float).ravel()
    if x.size == 0 or y.size == 0:
        raise InputError("an effect size needs at least one trial of each arm")
    above = np.count_nonzero(y[:, None] > x[None, :])
    equal = np.count_nonzero(y[:, None] == x[None, :])
    return (above + equal / 2) / (x.size * y.size)


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct the p of a family, so that the probability of any false claim is at most α.

    p(i) · (m - i + 1) by rising p, made monotone and cut at 1 (S. Holm 1979).
    """
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * (p.size - np.arange(p.size)))
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(stepped, 1.0)
    return [float(value) for value in corrected]


def _rank_sum_counts(ranks: NDArray[np.int_], chosen: int) -> NDArray[np.float64]:
    """Count, for every possible sum, the ways to choose so many of these ranks."""
    highest = int(np.sort(ranks)[-chosen:].sum())
    counts = np.zeros((chosen + 1, highest + 1))
    counts[0, 0] = 1.0
    for rank in ranks:
        for taken in range(chosen, 0, -1):
            counts[taken, rank:] += counts[taken - 1, : highest + 1 - rank]
    chosen_counts: NDArray[np.float64] = counts[chosen]
    return chosen_counts
