"""Steadiness of a measured series, and the end of its warm-up.

The claim is "steady within ± a margin over a number of rounds". A series cannot show a change that
is still to come, such as that of an SSD that fills up or of burst credit that runs out:
preconditions are stated, not inferred.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loadstone.analysis.statistics import change_points, student
from loadstone.errors import InputError

Series = NDArray[np.float64]

BATCH = 5
ROUNDS = 5
RANGE_MAX = 0.20
SLOPE_MAX = 0.10


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncation:
    """The leading seconds that MSER-5 cuts off; not `is_valid` if they are more than half."""

    cut: int
    is_valid: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """The relative change of a window by its trend, with a 90 % interval."""

    relative: float
    low: float
    high: float


def mser5(values: ArrayLike) -> Truncation:
    """Find the warm-up at the front of a series by the MSER-5 rule.

    The values are averaged by fives into Z_1..Z_n; d* = argmin over 0 ≤ d ≤ n-5 of
    Σ_{i>d} (Z_i - Z̄_{>d})² / (n-d)² (White 1997; White, Cobb & Spratt 2000). If d* lies in the
    second half, the series never settled, and nothing is cut.
    """
    x = np.asarray(values, dtype=float)
    n = x.size // BATCH
    if n < BATCH:
        raise InputError(f"MSER-5 needs at least {BATCH * BATCH} values, not {x.size}")
    z = x[: n * BATCH].reshape(n, BATCH).mean(axis=1)
    starts = np.arange(n - BATCH + 1)
    left = n - starts
    sums = np.cumsum(z[::-1])[::-1][starts]
    # Relative to the mean, so that squares of large rates keep their precision.
    centred = z - z.mean()
    squares = np.cumsum(centred[::-1] ** 2)[::-1][starts]
    shifts = sums / left - z.mean()
    scores = (squares - left * shifts**2) / left**2
    chosen = int(np.argmin(scores))
    is_valid = chosen <= n / 2
    return Truncation(cut=chosen * BATCH if is_valid else 0, is_valid=is_valid)


def drift(values: ArrayLike) -> Drift:
    """Estimate the trend over a window, slope · (K-1) / mean over K batch means.

    K is lowered from 30 to 15 and 10 while residuals are correlated (lag-1 autocorrelation above
    2/√K). The 90 % interval is Student's t of the least-squares slope.
    """
    x = np.asarray(values, dtype=float)
    for count in [k for k in (30, 15, 10) if k <= x.size] or [x.size]:
        means = batch_means(x, count)
        index = np.arange(count, dtype=float)
        slope, intercept, error = _line(index, means)
        residuals = means - (intercept + slope * index)
        if autocorrelation(residuals, 1) <= 2 / math.sqrt(count):
            break
    scale = (count - 1) / float(means.mean()) if means.mean() else math.inf
    half = student.quantile(0.95, count - 2) * error
    return Drift(relative=slope * scale, low=(slope - half) * scale, high=(slope + half) * scale)


def _line(x: Series, y: Series) -> tuple[float, float, float]:
    """Return slope and intercept of the least-squares line, and the standard error of the slope."""
    square_x, both, _, square_y = np.cov(x, y, bias=True).flat
    slope = float(both / square_x)
    intercept = float(y.mean() - slope * x.mean())
    # A constant series has no residuals.
    correlation = min(1.0, max(-1.0, both / math.sqrt(square_x * square_y))) if square_y else 1.0
    error = math.sqrt((1 - correlation**2) * square_y / square_x / (x.size - 2))
    return slope, intercept, error


def ls1(values: ArrayLike, *, round_s: int, seed: int, margin: float = 0.10) -> tuple[str, ...]:
    """Return why the last five rounds of a series of seconds are not steady, if so (LS-1).

    Steady when (a) the round means lie within 20 % of each other, (b) their least-squares line
    changes by at most 10 % over the window (a and b: SNIA SSS PTS 2.0.2), (c) the 90 % interval of
    the drift lies within ± `margin` (two one-sided tests, which show that no trend is larger), and
    (d) there is no change point of 5 % or more at p < 0.001.
    """
    x = np.asarray(values, dtype=float)
    if x.size < ROUNDS * round_s:
        raise InputError(
            f"LS-1 needs {ROUNDS} rounds of {round_s} s, and the series has {x.size} s"
        )
    window = x[x.size - ROUNDS * round_s :]
    rounds = window.reshape(ROUNDS, round_s).mean(axis=1)
    mean = float(rounds.mean())
    failures = []
    if mean <= 0:
        failures.append("the rate is zero")
        mean = math.nan
    spread = (float(rounds.max()) - float(rounds.min())) / mean
    if spread > RANGE_MAX:
        failures.append(f"rounds differ by {spread:.0%}, more than {RANGE_MAX:.0%}")
    slope = float(np.polyfit(np.arange(ROUNDS), rounds, 1)[0]) * (ROUNDS - 1) / mean
    if abs(slope) > SLOPE_MAX:
        failures.append(f"the trend over the rounds is {slope:+.0%}, more than {SLOPE_MAX:.0%}")
    trend = drift(window)
    if not (-margin <= trend.low and trend.high <= margin):
        failures.append(
            f"the drift is between {trend.low:+.1%} and {trend.high:+.1%}, not inside ±{margin:.0%}"
        )
    if not failures:
        failures.extend(
            f"the level changes by {point.magnitude:+.0%} inside the window"
            for point in change_points.e_divisive(
                batch_means(window, min(30, window.size)), seed=seed
            )
        )
    return tuple(failures)


def autocorrelation(values: ArrayLike, lag: int) -> float:
    """Return the sample autocorrelation r_k = Σ (x_t - x̄)(x_{t+k} - x̄) / Σ (x_t - x̄)².

    A constant series has an autocorrelation of 0.
    """
    x = np.asarray(values, dtype=float)
    deviations = x - x.mean()
    scale = float(deviations @ deviations)
    if scale <= (1e-12 * max(1.0, abs(float(x.mean())))) ** 2 * x.size or lag >= x.size:
        return 0.0
    if lag == 0:
        return 1.0
    return float(deviations[:-lag] @ deviations[lag:]) / scale


def batch_means(values: ArrayLike, batches: int) -> Series:
    """Return the means of equal batches of a series; values left over at its start are ignored."""
    x = np.asarray(values, dtype=float)
    length = x.size // batches
    if length == 0:
        raise InputError(f"{x.size} values cannot be cut into {batches} batches")
    means: Series = x[x.size - length * batches :].reshape(batches, length).mean(axis=1)
    return means
