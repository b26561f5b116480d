"""Ratios between repeated trials, with intervals and tests.

Functions take one number per trial. Rates and times are compared as logarithms: a ratio is then a
difference, errors proportional to the value have one size, and no interval reaches below zero.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loadstone.analysis.statistics import student
from loadstone.errors import InputError

Numbers = NDArray[np.float64]

TOGETHER = "average ratio"
"""The name of a suite's ratio: the geometric mean of the ratios of arithmetic means."""

RatioMethod = Literal["paired-t", "welch-t", "bootstrap"]
"""The method of a ratio's interval."""

METHODS: Mapping[RatioMethod, str] = {
    "paired-t": "paired t on logarithms",
    "welch-t": "Welch t on logarithms",
    "bootstrap": f"{TOGETHER}, pivotal bootstrap within arms",
}

LARGE = 1000
"""Repetitions from which on Student's t is close to the normal distribution."""

_DRAWN_AT_ONCE = 2**18
"""Values of resamples in memory at once; more are not faster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """B over A with its confidence interval; `low` and `high` are None without repetitions.

    `n_a` and `n_b` are trials; if they are of several `days`, the interval is over days.
    """

    ratio: float
    low: float | None
    high: float | None
    n_a: int
    n_b: int
    degrees_of_freedom: float | None
    confidence: float
    method: RatioMethod
    days: int = 1

    @property
    def is_paired(self) -> bool:
        """Tell whether trials of the two arms are pairs."""
        return self.method == "paired-t"

    @property
    def reach(self) -> float | None:
        """The greatest |ln ratio| within the interval; None without one."""
        if not self.low or not self.high:
            return None
        return max(abs(math.log(self.low)), abs(math.log(self.high)))

    @property
    def t_error(self) -> tuple[float, float] | None:
        """The standard error of ln ratio, and its degrees of freedom; None without a t interval."""
        if self.low is None or self.high is None or self.degrees_of_freedom is None:
            return None
        width = math.log(self.high) - math.log(self.low)
        freedom = self.degrees_of_freedom
        return width / (2 * t_quantile(self.confidence, freedom)), freedom

    @property
    def method_words(self) -> str:
        """The method of the interval, in words."""
        return METHODS[self.method] + (" of the days' means" if self.days > 1 else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """The geometric mean of `n` trials with its 95 % interval; None without repetitions.

    If they are of several `days`, the interval is over days.
    """

    centre: float
    low: float | None
    high: float | None
    n: int
    days: int = 1


def mean_interval(values: ArrayLike) -> Interval:
    """Return the geometric mean of trials with Student's t interval on logarithms.

    exp(mean ln x ± t(n-1) · s / √n), s the standard deviation of the logarithms.
    """
    logs = _logs(values)
    centre, n = float(logs.mean()), int(logs.size)
    if n < 2:
        return Interval(centre=math.exp(centre), low=None, high=None, n=n)
    half = t_quantile(0.95, n - 1) * float(logs.std(ddof=1)) / math.sqrt(n)
    low, high = math.exp(centre - half), math.exp(centre + half)
    return Interval(centre=math.exp(centre), low=low, high=high, n=n)


def paired_ratio(a: ArrayLike, b: ArrayLike, confidence: float = 0.95) -> Ratio:
    """Compare trials that ran side by side in the same blocks.

    d_j = ln b_j - ln a_j; exp(mean d ± t(n-1) · s_d / √n). Student's paired t on logarithms, in
    which effects on both trials of a block, such as a slow drift, cancel.
    """
    a_logs, b_logs = _logs(a), _logs(b)
    if a_logs.size != b_logs.size:
        raise InputError(
            "a paired comparison needs as many trials of A as of B, "
            f"not {a_logs.size} and {b_logs.size}"
        )
    differences = b_logs - a_logs
    n = differences.size
    centre = float(differences.mean())
    if n < 2:
        return _without_interval(centre, n, n, confidence, "paired-t")
    half = t_quantile(confidence, n - 1) * float(differences.std(ddof=1)) / math.sqrt(n)
    ratio = _without_interval(centre, n, n, confidence, "paired-t")
    return _with_interval(ratio, centre, half, n - 1)


def welch_ratio(a: ArrayLike, b: ArrayLike, confidence: float = 0.95) -> Ratio:
    """Compare trials that share no blocks, without assuming equal spread.

    exp(mean ln b - mean ln a ± t(ν) · √(s_a²/n_a + s_b²/n_b)) with Welch's degrees of freedom
    ν = (v_a + v_b)² / (v_a²/(n_a-1) + v_b²/(n_b-1)), v = s²/n (B. L. Welch, Biometrika 34, 1947).
    """
    a_logs, b_logs = _logs(a), _logs(b)
    n_a, n_b = a_logs.size, b_logs.size
    centre = float(b_logs.mean() - a_logs.mean())
    if min(n_a, n_b) < 2:
        return _without_interval(centre, n_a, n_b, confidence, "welch-t")
    error, freedom = welch_error(a_logs, b_logs)
    half = t_quantile(confidence, freedom) * error if error else 0.0
    ratio = _without_interval(centre, n_a, n_b, confidence, "welch-t")
    return _with_interval(ratio, centre, half, freedom)


def welch_error(a: Numbers, b: Numbers) -> tuple[float, float]:
    """Return the standard error of the difference of two means, and its degrees of freedom."""
    v_a, v_b = float(a.var(ddof=1)) / a.size, float(b.var(ddof=1)) / b.size
    if v_a + v_b == 0.0:
        return 0.0, float(a.size + b.size - 2)
    freedom = (v_a + v_b) ** 2 / (v_a**2 / (a.size - 1) + v_b**2 / (b.size - 1))
    return math.sqrt(v_a + v_b), freedom


def t_p(ratio: Ratio) -> float | None:
    """Return the two-sided p of a ratio of 1, from the t interval; None without one.

    p < 1 - confidence exactly if the interval excludes 1.
    """
    if ratio.t_error is None:
        return None
    error, freedom = ratio.t_error
    centre = math.log(ratio.ratio)
    if error <= 1e-12:
        # All trials are equal: there is no difference, or one that chance does not explain.
        return 1.0 if abs(centre) <= 1e-12 else 0.0
    return 2 * student.above(abs(centre) / error, freedom)


def geometric_mean(values: ArrayLike) -> float:
    """Return the geometric mean, exp(mean ln x), which does not depend on the base of ratios.

    Fleming & Wallace, "How not to lie with statistics", CACM 29(3), 1986.
    """
    return math.exp(float(_logs(values).mean()))


def ratio_together(pairs: Sequence[tuple[ArrayLike, ArrayLike]]) -> float:
    """Return the geometric mean of mean(b) / mean(a) alone, without an interval."""
    return math.exp(_mean_log_ratio([_positive(values) for pair in pairs for values in pair]))


def geometric_mean_ratio(
    pairs: Sequence[tuple[ArrayLike, ArrayLike]],
    *,
    seed: int,
    confidence: float = 0.95,
    resamples: int = 20_000,
    trials_min: int = 2,
) -> Ratio:
    """Combine the cases of a suite into one ratio: the geometric mean of mean(b) / mean(a).

    The interval is the pivotal bootstrap on logarithms, [2θ - θ*(1-α/2), 2θ - θ*(α/2)], with trials
    resampled within each arm of each case (Davison & Hinkley 1997, 5.2.1; BCa had no better
    coverage here). It holds for more repetitions of these cases, not for other cases. With fewer
    than `trials_min` trials in any arm there is no interval.
    """
    arms = [_positive(values) for pair in pairs for values in pair]
    if not arms:
        raise InputError("a geometric mean needs at least one case")
    centre = _mean_log_ratio(arms)
    sizes = [arm.size for arm in arms]
    n_a, n_b = min(sizes[0::2]), min(sizes[1::2])
    if min(sizes) < trials_min:
        return _without_interval(centre, n_a, n_b, confidence, "bootstrap")
    generator = np.random.default_rng(seed)
    drawn = np.stack([_resampled_means(arm, resamples, generator) for arm in arms])
    signs = np.tile([-1.0, 1.0], len(pairs))
    replicates = signs @ np.log(drawn) / len(pairs)
    tail = (1 - confidence) / 2
    lowest, highest = np.quantile(replicates, [tail, 1 - tail])
    return replace(
        _without_interval(centre, n_a, n_b, confidence, "bootstrap"),
        low=math.exp(2 * centre - float(highest)),
        high=math.exp(2 * centre - float(lowest)),
    )


def _resampled_means(arm: Numbers, resamples: int, generator: "np.random.Generator") -> Numbers:
    """Return the means of resamples with replacement, some at a time to save memory."""
    at_once = max(1, _DRAWN_AT_ONCE // arm.size)
    means = [
        arm[generator.integers(0, arm.size, (min(at_once, resamples - start), arm.size))].mean(1)
        for start in range(0, resamples, at_once)
    ]
    return np.concatenate(means)


def are_equivalent(a: ArrayLike, b: ArrayLike, *, is_paired: bool, margin: float) -> bool:
    """Tell whether two arms are equal within ± `margin`, by two one-sided tests at 5 % (TOST).

    They are exactly if the 90 % interval of the ratio lies within [1/(1+margin), 1+margin]
    (Schuirmann 1987). A large p of an ordinary test does not show equality.
    """
    ratio = (paired_ratio if is_paired else welch_ratio)(a, b, 0.90)
    if ratio.low is None or ratio.high is None:
        raise InputError("an equivalence test needs at least two trials of each arm")
    return 1 / (1 + margin) < ratio.low and ratio.high < 1 + margin


def repetitions_needed(spread: float, half_width: float = 0.03, confidence: float = 0.95) -> int:
    """Return the blocks needed for an interval of ± `half_width`, given the spread of log ratios.

    The smallest n ≥ 2 with t(n-1) · s / √n ≤ ln(1 + half_width). Beyond 1000 t is as good as z, and
    n = (z · s / ln(1 + half_width))² + z²/2 (Guenther 1981).
    """
    if spread < 0 or half_width <= 0:
        raise InputError("the spread must not be negative and the half width must be above zero")
    target = math.log1p(half_width)
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    estimate = (z * spread / target) ** 2
    if estimate > LARGE:
        return math.ceil(estimate + z * z / 2)

    def is_enough(n: int) -> bool:
        return t_quantile(confidence, n - 1) * spread / math.sqrt(n) <= target

    # z is less than t: fewer than the estimate are never enough.
    return next(n for n in count(max(2, math.ceil(estimate))) if is_enough(n))


def t_quantile(confidence: float, degrees_of_freedom: float) -> float:
    """Return the two-sided quantile of Student's t."""
    return student.quantile(0.5 + confidence / 2, degrees_of_freedom)


def _without_interval(
    centre: float, n_a: int, n_b: int, confidence: float, method: RatioMethod
) -> Ratio:
    return Ratio(
        ratio=math.exp(centre),
        low=None,
        high=None,
        n_a=n_a,
        n_b=n_b,
        degrees_of_freedom=None,
        confidence=confidence,
        method=method,
    )


def _with_interval(ratio: Ratio, centre: float, half: float, freedom: float) -> Ratio:
    low, high = math.exp(centre - half), math.exp(centre + half)
    return replace(ratio, low=low, high=high, degrees_of_freedom=freedom)


def _positive(values: ArrayLike) -> Numbers:
    numbers = np.asarray(values, dtype=float).ravel()
    if numbers.size == 0:
        raise InputError("there is no value to compare")
    if not np.all(np.isfinite(numbers)) or np.any(numbers <= 0):
        raise InputError(
            f"a ratio needs values above zero, and found {float(numbers[~(numbers > 0)][0])}"
            if np.any(~(numbers > 0))
            else "a ratio needs finite values"
        )
    return numbers


def _logs(values: ArrayLike) -> Numbers:
    return np.log(_positive(values))


def _mean_log_ratio(arms: Sequence[Numbers]) -> float:
    logs = np.log(np.asarray([arm.mean() for arm in arms], dtype=float))
    return float((logs[1::2] - logs[0::2]).mean())
