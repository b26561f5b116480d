"""One trial's seconds in a row: how they depend on each other, and what that leaves certain.

Seconds of one trial are never independent. An interval from them speaks of this trial alone; claims
about a target need repeated trials (`statistics`).
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loadstone.errors import InputError

Series = NDArray[np.float64]


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
