"""Saturation, bounds and models of throughput against load.

A model is only used where it fits.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loadstone.errors import InputError

Numbers = NDArray[np.float64]

SATURATED_SHARE = 0.95
RESIDUAL_MAX = 0.10
USL_POINTS_MIN = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingPoint:
    """One load and the throughput it reached; `low` is the lower end of its 95 % interval."""

    load: float
    rate: float
    low: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Saturation:
    """The smallest load that reaches 95 % of the best throughput.

    `is_certain` if the lower end of its interval does. `knee` is the operational bound
    N* = X_max · R_1. Saturation `is_reached` unless the last step still brought 5 % or more.
    """

    load: float
    rate: float
    is_certain: bool
    rate_max: float
    load_of_max: float
    knee: float | None
    is_reached: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A curve of throughput against load, and its residuals.

    usl: X = γN / (1 + α(N-1) + βN(N-1)); two lines: X = min(γN, ceiling).
    """

    kind: Literal["usl", "two lines"]
    gamma: float
    alpha: float
    beta: float
    ceiling: float | None
    residuals: tuple[float, ...]
    why_not_usl: str | None = None

    @property
    def residual_max(self) -> float:
        """The largest relative distance of a point from the curve."""
        return max(abs(residual) for residual in self.residuals)

    @property
    def peak(self) -> float | None:
        """The load of the best throughput, N = √((1-α)/β); None if the curve has no maximum."""
        if self.kind != "usl" or self.beta <= 0 or self.alpha >= 1:
            return None
        return math.sqrt((1 - self.alpha) / self.beta)


def saturation(points: Sequence[ScalingPoint]) -> Saturation:
    """Find the saturation point of a sweep (S4) and its knee."""
    swept = _sorted(points)
    best = max(swept, key=lambda point: point.rate)
    wanted = SATURATED_SHARE * best.rate
    certain = [point for point in swept if point.low is not None and point.low >= wanted]
    chosen = certain[0] if certain else next(point for point in swept if point.rate >= wanted)
    first = swept[0]
    last_step = swept[-1].rate / swept[-2].rate - 1
    return Saturation(
        load=chosen.load,
        rate=chosen.rate,
        is_certain=bool(certain),
        rate_max=best.rate,
        load_of_max=best.load,
        knee=best.rate / first.rate if first.load == 1 else None,
        is_reached=best.load < swept[-1].load or last_step < 1 - SATURATED_SHARE,
    )


def fit(points: Sequence[ScalingPoint]) -> Model:
    """Fit the universal scalability law, or two straight lines if it does not hold.

    Least squares on ln X with α, β ≥ 0 (Gunther). The law is rejected with fewer than six points,
    with a residual above 10 %, or if the signs of the residuals form a pattern, as at the ceiling
    of a link. Then X = min(γN, ceiling), the bounds of operational analysis.
    """
    swept = _sorted(points)
    n = np.array([point.load for point in swept])
    x = np.array([point.rate for point in swept])
    if len(swept) < USL_POINTS_MIN:
        return _two_lines(n, x, f"{len(swept)} loads are too few, it needs {USL_POINTS_MIN}")
    gamma, alpha, beta = usl_parameters(n, x)
    model = Model(
        kind="usl",
        gamma=gamma,
        alpha=alpha,
        beta=beta,
        ceiling=gamma / alpha if beta == 0 and alpha > 0 else None,
        residuals=(),
    )
    residuals = x / _curve(n, model) - 1
    worst = float(np.abs(residuals).max())
    if worst > RESIDUAL_MAX:
        return _two_lines(n, x, f"its residuals reach {worst:.0%}")
    # The signs of tiny residuals mean nothing.
    if worst > 0.01 and _runs_p(residuals) < 0.05:
        return _two_lines(n, x, "the signs of its residuals form a pattern")
    return replace(model, residuals=tuple(map(float, residuals)))


def usl_parameters(loads: ArrayLike, rates: ArrayLike) -> tuple[float, float, float]:
    """Return γ, α and β of the universal scalability law by least squares on ln X, α, β ≥ 0."""
    n = np.asarray(loads, dtype=float)
    x = np.asarray(rates, dtype=float)
    starts = [
        np.array([math.log(float((x / n).max())), alpha, 1e-4]) for alpha in (1e-3, 1e-1, 0.5)
    ]
    _, best = min((_nearest(n, x, start) for start in starts), key=lambda candidate: candidate[0])
    log_gamma, alpha, beta = (float(value) for value in best)
    return math.exp(log_gamma), _or_zero(alpha, 1e-7), _or_zero(beta, 1e-10)


def _nearest(n: Numbers, x: Numbers, parameters: Numbers) -> tuple[float, Numbers]:
    """Return the least sum of squares from a start, and ln γ, α and β there.

    By Levenberg and Marquardt; α and β are held at zero if the slope would make them negative.
    """
    columns = np.stack([n - 1, n * (n - 1)])

    def residuals(p: Numbers) -> Numbers:
        numbers: Numbers = p[0] + np.log(n) - np.log(1 + p[1:] @ columns) - np.log(x)
        return numbers

    damping, least = 1e-3, residuals(parameters)
    for _ in range(500):
        slopes = np.vstack([np.ones_like(n), -columns / (1 + parameters[1:] @ columns)]).T
        gradient = slopes.T @ least
        free = np.array([True, *~((parameters[1:] <= 0) & (gradient[1:] > 0))])
        normal = slopes[:, free].T @ slopes[:, free]
        tried = parameters.copy()
        tried[free] -= np.linalg.solve(normal + damping * np.diag(np.diag(normal)), gradient[free])
        tried[1:] = np.maximum(tried[1:], 0.0)
        after = residuals(tried)
        if float(after @ after) < float(least @ least):
            parameters, least, damping = tried, after, max(damping / 5, 1e-12)
        elif damping > 1e8:
            break
        else:
            damping *= 4
    return float(least @ least), parameters


def kneedle(points: Sequence[ScalingPoint]) -> float | None:
    """Return the knee by Kneedle (Satopää et al., ICDCSW'11) with the loads on an axis of log2 N.

    The first local maximum of the difference curve y - x (both scaled to 0..1) after which it falls
    by the mean step of x. It depends on the axis, so it is an annotation only.
    """
    swept = _sorted(points)
    x = np.log2(np.array([point.load for point in swept]))
    y = np.array([point.rate for point in swept])
    if float(np.ptp(y)) == 0:
        return None
    x = (x - x.min()) / np.ptp(x)
    y = (y - y.min()) / np.ptp(y)
    difference = y - x
    step = float(np.abs(np.diff(x)).mean())
    candidate: int | None = None
    for index in range(1, len(swept) - 1):
        before, here, after = difference[index - 1 : index + 2]
        if here >= before and here >= after:
            candidate = index
        elif here <= before and here <= after:
            # After a valley, an earlier maximum is not the knee.
            candidate = None
        if candidate is not None and difference[index + 1] < difference[candidate] - step:
            return swept[candidate].load
    return None


def _two_lines(n: Numbers, x: Numbers, why: str) -> Model:
    """Fit X = min(γN, ceiling) on logarithms, trying every division of the points."""

    def residuals(gamma: float, ceiling: float) -> Numbers:
        return np.log(np.minimum(gamma * n, ceiling)) - np.log(x)

    best = (math.inf, float((x / n).max()), float(x.max()))
    for count in range(1, n.size + 1):
        gamma = math.exp(float(np.log(x[:count] / n[:count]).mean()))
        flat = math.exp(float(np.log(x[count:]).mean())) if count < n.size else float(x.max())
        cost = float((residuals(gamma, flat) ** 2).sum())
        if cost < best[0]:
            best = (cost, gamma, flat)
    _, gamma, ceiling = best
    return Model(
        kind="two lines",
        gamma=gamma,
        alpha=0.0,
        beta=0.0,
        ceiling=ceiling,
        residuals=tuple(float(value) for value in x / np.minimum(gamma * n, ceiling) - 1),
        why_not_usl=why,
    )


def _curve(n: Numbers, model: Model) -> Numbers:
    if model.kind == "usl":
        bent: Numbers = model.gamma * n / (1 + model.alpha * (n - 1) + model.beta * n * (n - 1))
        return bent
    assert model.ceiling is not None, "two lines have a ceiling"
    return np.minimum(model.gamma * n, model.ceiling)


def _runs_p(residuals: Numbers) -> float:
    """Return the chance of so few runs of equal sign (Wald & Wolfowitz), exactly."""
    signs = residuals >= 0
    up, down = int(signs.sum()), int((~signs).sum())
    if min(up, down) == 0:
        return 0.0
    observed = 1 + int(np.count_nonzero(signs[1:] != signs[:-1]))
    total = math.comb(up + down, up)
    ways = 0
    for runs in range(2, observed + 1):
        half = runs // 2
        if runs % 2 == 0:
            ways += 2 * math.comb(up - 1, half - 1) * math.comb(down - 1, half - 1)
        else:
            ways += math.comb(up - 1, half) * math.comb(down - 1, half - 1)
            ways += math.comb(up - 1, half - 1) * math.comb(down - 1, half)
    return ways / total


def _sorted(points: Sequence[ScalingPoint]) -> list[ScalingPoint]:
    swept = sorted(points, key=lambda point: point.load)
    if len({point.load for point in swept}) < 2:
        raise InputError("a sweep needs at least two loads")
    if any(point.rate <= 0 or point.load <= 0 for point in swept):
        raise InputError("loads and rates of a sweep must be above zero")
    return swept


def _or_zero(value: float, smallest: float) -> float:
    return value if value > smallest else 0.0
