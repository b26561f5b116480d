"""One trial's seconds in a row: how they depend on each other, and what that leaves certain.

Seconds of one trial are never independent. An interval from them speaks of this trial alone; claims
about a target need repeated trials (`statistics`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from loadstone.errors import InputError

Series = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesMean:
    """The mean of one trial's series; `is_trusted` is False while its batches still depend on each
    other.
    """

    mean: float
    low: float
    high: float
    batches: int
    batch_autocorrelation: float
    is_trusted: bool


def autocorrelation(values: ArrayLike, lag: int) -> float:
    """Return r_k = Σ (x_t - x̄)(x_{t+k} - x̄) / Σ (x_t - x̄)², the sample autocorrelation at one
    lag.

    A series that never changes has no autocorrelation: 0.
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
    """Cut a series into so many equal batches and return their means; what is left over is cut off
    in front.
    """
    x = np.asarray(values, dtype=float)
    length = x.size // batches
    if length == 0:
        raise InputError(f"{x.size} values cannot be cut into {batches} batches")
    means: Series = x[x.size - length * batches :].reshape(batches, length).mean(axis=1)
    return means


def batch_means_interval(
    values: ArrayLike, batches: int = 10, confidence: float = 0.95
) -> SeriesMean:
    """Return the mean of an autocorrelated series with an interval from its batch means.

    mean ± t(K-1) · s_K / √K over K batch means (Law & Carson 1979). Trusted only while the lag-1
    autocorrelation of the batch means stays at or below 2/√K: else the trial must be longer.
    """
    means = batch_means(values, batches)
    centre = float(means.mean())
    half = (
        float(stats.t.ppf(0.5 + confidence / 2, batches - 1))
        * float(means.std(ddof=1))
        / math.sqrt(batches)
    )
    dependence = autocorrelation(means, 1)
    return SeriesMean(
        mean=centre,
        low=centre - half,
        high=centre + half,
        batches=batches,
        batch_autocorrelation=dependence,
        is_trusted=dependence <= 2 / math.sqrt(batches),
    )


def politis_white_length(values: ArrayLike) -> float:
    """Choose the block length of a circular block bootstrap from the series itself.

    Politis & White 2004 with the correction of Patton, Politis & White 2009. m is the lag that
    starts the first k_n = max(5, ⌊log10 n⌋) neighbouring autocorrelations within ±2√(log10 n / n),
    as in the authors' own code; M = min(2m, ⌈√n⌉ + k_n), or that bound when they never die down; g
    = Σ λ(k/M)|k| γ_k and σ² = Σ λ(k/M) γ_k over |k| ≤ M with the flat-top window λ; b = (2 g² /
    (4/3 σ⁴))^(1/3) n^(1/3), at most ⌈min(3√n, n/3)⌉.
    """
    x = np.asarray(values, dtype=float)
    n = x.size
    if n < 8:
        raise InputError(f"a block length needs at least 8 values, not {n}")
    deviations = x - x.mean()
    run = max(5, int(math.log10(n)))
    highest = math.ceil(math.sqrt(n)) + run
    covariances = np.array(
        [float(deviations[: n - k] @ deviations[k:]) / n for k in range(min(highest + 1, n))]
    )
    longest = float(math.ceil(min(3 * math.sqrt(n), n / 3)))
    if covariances[0] <= 0:
        return 1.0
    bandwidth = _bandwidth(deviations, run, highest)
    lags = np.arange(1, min(bandwidth, covariances.size - 1) + 1)
    window = np.minimum(1.0, 2 * (1 - lags / bandwidth))
    g = 2 * float((window * lags * covariances[lags]).sum())
    long_run = float(covariances[0] + 2 * (window * covariances[lags]).sum())
    if long_run <= 0:
        return longest
    length = (2 * g**2 / (4 / 3 * long_run**2)) ** (1 / 3) * n ** (1 / 3)
    return float(min(length, longest))


def circular_block_bootstrap(
    values: NDArray[np.float64],
    statistic: Callable[[NDArray[np.float64]], float],
    *,
    block: int,
    seed: int,
    resamples: int = 1_000,
) -> Series:
    """Draw whole blocks of neighbouring rows, wrapping round at the end, and return the statistic
    of each draw.

    Politis & Romano 1992. Rows may hold anything that belongs to one second: a rate, or the counts
    of a histogram, whose percentile is then read after they are added, never averaged.
    """
    rows = np.asarray(values, dtype=float)
    n = rows.shape[0]
    if not 1 <= block <= n:
        raise InputError(f"a block of {block} does not fit into {n} values")
    generator = np.random.default_rng(seed)
    starts = generator.integers(0, n, (resamples, math.ceil(n / block)))
    offsets = np.arange(block)
    drawn = np.empty(resamples)
    for index, start in enumerate(starts):
        picked = ((start[:, None] + offsets) % n).ravel()[:n]
        drawn[index] = statistic(rows[picked])
    return drawn


def block_bootstrap_interval(
    values: NDArray[np.float64],
    statistic: Callable[[NDArray[np.float64]], float],
    *,
    block: int,
    seed: int,
    confidence: float = 0.95,
    resamples: int = 1_000,
) -> tuple[float, float]:
    """Return the percentile interval of a statistic of one trial's seconds, by whole blocks.

    Within one trial only, and to be labelled so: with strong dependence it covers 70 to 90 %, not
    95.
    """
    drawn = circular_block_bootstrap(values, statistic, block=block, seed=seed, resamples=resamples)
    tail = (1 - confidence) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return float(low), float(high)


def _bandwidth(deviations: Series, run: int, highest: int) -> int:
    """Return M, twice the lag at which the autocorrelation has died down."""
    n = deviations.size
    limit = 2 * math.sqrt(math.log10(n) / n)
    lags = range(1, min(highest, n - 1))
    is_small = [abs(_tail_correlation(deviations, lag)) < limit for lag in lags]
    for index in range(len(is_small) - run + 1):
        if all(is_small[index : index + run]):
            return min(2 * (index + 1), highest)
    return highest


def _tail_correlation(deviations: Series, lag: int) -> float:
    head, tail = deviations[:-lag], deviations[lag:]
    scale = math.sqrt(float(head @ head) * float(tail @ tail))
    return float(head @ tail) / scale if scale > 0 else 0.0
