"""Ratios between repeated trials, and how sure they are.

Every function takes plain numbers, one per trial, and gives back plain numbers. Rates and times are
compared on a logarithmic scale: there a ratio is a difference, errors that grow with the value have
one size, and the interval cannot reach below zero.
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
"""What the ratio of a suite is called: the geometric mean of the ratios of arithmetic means."""

RatioMethod = Literal["paired-t", "welch-t", "bootstrap"]
"""How the interval of a ratio was made."""

METHODS: Mapping[RatioMethod, str] = {
    "paired-t": "paired t on logarithms",
    "welch-t": "Welch t on logarithms",
    "bootstrap": f"{TOGETHER}, pivotal bootstrap within arms",
}

LARGE = 1000
"""So many repetitions that t is as good as the normal distribution's z."""

_DRAWN_AT_ONCE = 2**18
"""Values of resamples that are in memory together: more are no quicker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """B over A with its interval of confidence; `low` and `high` are None when nothing was
    repeated. `n_a` and `n_b` trials; where they are of several `days`, it is a ratio over these.
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
    def t_error(self) -> tuple[float, float] | None:
        """The standard error of ln ratio, and its degrees of freedom; None without a t interval."""
        if self.low is None or self.high is None or self.degrees_of_freedom is None:
            return None
        width = math.log(self.high) - math.log(self.low)
        freedom = self.degrees_of_freedom
        return width / (2 * t_quantile(self.confidence, freedom)), freedom

    @property
    def method_words(self) -> str:
        """Return how the interval was made, in words."""
        return METHODS[self.method] + (" of the days' means" if self.days > 1 else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Equivalence:
    """The outcome of two one-sided tests: equal within the margin, or not shown to be."""

    is_equivalent: bool
    p: float
    margin: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """The middle of repeated trials with its interval; absent ends mean nothing was repeated.

    `n` trials; where they are of several `days`, the interval is one over these.
    """

    centre: float
    low: float | None
    high: float | None
    n: int
    confidence: float
    days: int = 1


def mean_interval(values: ArrayLike, confidence: float = 0.95) -> Interval:
    """Return the geometric mean of trials with Student's t interval on logarithms.

    exp(mean ln x ± t(n-1) · s / √n), s the standard deviation of the logarithms.
    """
    logs = _logs(values)
    centre = float(logs.mean())
    low = high = None
    if logs.size > 1:
        half = (
            t_quantile(confidence, logs.size - 1) * float(logs.std(ddof=1)) / math.sqrt(logs.size)
        )
        low, high = math.exp(centre - half), math.exp(centre + half)
    return Interval(
        centre=math.exp(centre), low=low, high=high, n=int(logs.size), confidence=confidence
    )


def paired_ratio(a: ArrayLike, b: ArrayLike, confidence: float = 0.95) -> Ratio:
    """Compare trials that ran side by side in the same blocks.

    d_j = ln b_j - ln a_j; exp(mean d ± t(n-1) · s_d / √n). Student's paired t on logarithms; what
    all blocks have in common (a slow drift, the hour of the day) cancels in d.
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
    """Return the two-sided p of a ratio of 1 that belongs to its own t interval; None without one.

    p < 1 - confidence exactly when the interval leaves out 1, so the two never contradict.
    """
    if ratio.t_error is None:
        return None
    error, freedom = ratio.t_error
    centre = math.log(ratio.ratio)
    if error <= 1e-12:
        # Every trial the same: either no difference at all, or one that no chance explains.
        return 1.0 if abs(centre) <= 1e-12 else 0.0
    return 2 * student.above(abs(centre) / error, freedom)


def geometric_mean(values: ArrayLike) -> float:
    """Average ratios or rates so that the base does not matter: exp(mean ln x).

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

    The interval is the pivotal bootstrap on logarithms, [2θ - θ*(1-α/2), 2θ - θ*(α/2)], for which
    trials are drawn again within every arm of every case (Davison & Hinkley 1997, 5.2.1; Efron's
    BCa covered no better here and is skewed by the arms being pooled). It speaks about more
    repetitions of these cases, not about other cases. With fewer than `trials_min` trials in any
    arm there is no interval.
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
    """Return the means of resamples with replacement, of which some are in memory at a time."""
    at_once = max(1, _DRAWN_AT_ONCE // arm.size)
    means = [
        arm[generator.integers(0, arm.size, (min(at_once, resamples - start), arm.size))].mean(1)
        for start in range(0, resamples, at_once)
    ]
    return np.concatenate(means)


def equivalence(
    a: ArrayLike, b: ArrayLike, *, is_paired: bool, margin: float = 0.03
) -> Equivalence:
    """Test whether two arms are equal within ± `margin` (TOST).

    Two one-sided tests at 5 % say "equivalent" exactly when the 90 % interval of the ratio lies
    inside [1/(1+margin), 1+margin]; p is the larger of the two (Schuirmann 1987). A large p of an
    ordinary test never shows that there is no difference; only this does.
    """
    compare = paired_ratio if is_paired else welch_ratio
    ratio = compare(a, b, 0.90)
    bound = math.log1p(margin)
    if ratio.low is None or ratio.high is None or ratio.t_error is None:
        raise InputError("an equivalence test needs at least two trials of each arm")
    error, freedom = ratio.t_error
    centre = math.log(ratio.ratio)
    if error == 0.0:
        p = 0.0 if abs(centre) < bound else 1.0
    else:
        p = max(
            student.above((centre + bound) / error, freedom),
            student.below((centre - bound) / error, freedom),
        )
    return Equivalence(is_equivalent=p < 0.05, p=p, margin=margin, low=ratio.low, high=ratio.high)


def repetitions_needed(spread: float, half_width: float = 0.03, confidence: float = 0.95) -> int:
    """Plan how many blocks reach an interval of ± `half_width`, given the spread of a pilot's log
    ratios.

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
