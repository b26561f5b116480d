"""One number of several trials: the geometric mean of rates, the merged quantile of times.

A percentile is read from merged histograms. If another tool states percentiles without histograms,
their geometric mean is taken.
"""

import math
from collections.abc import Sequence
from itertools import chain

from loadstone.analysis.accounts.account import Measurement
from loadstone.analysis.statistics.latency import QUANTILES, merge
from loadstone.analysis.statistics.mean import mean_of
from loadstone.analysis.statistics.ratios import geometric_mean

BUSY_RATE = "actions_busy_per_s"
"""The rate of one client that only runs these actions: one over their mean duration."""


def level_of(trials: Sequence[Measurement]) -> float:
    """Return the number of trials of one case and metric."""
    merged = _level_of_requests(trials)
    if merged is not None:
        return merged
    starts = [trial.started_unix_ns for trial in trials]
    return mean_of([trial.value for trial in trials], starts).value


def levels_of(units: Sequence[Sequence[Measurement]]) -> list[float]:
    """Return a number per unit of repetition, whose geometric mean is that of the whole.

    A merged percentile is not the mean of the units' percentiles. Each unit is therefore
    represented by its jackknife pseudo-value on logarithms (Efron & Tibshirani, An Introduction to
    the Bootstrap, 1993, chapter 11); for a geometric mean these equal the units' values.
    """
    whole = _level_of_requests(list(chain.from_iterable(units)))
    if whole is None:
        return [geometric_mean([trial.value for trial in unit]) for unit in units]
    count = len(units)
    if count < 2:
        return [whole]
    without = [
        math.log(_level_of_requests(list(chain(*units[:place], *units[place + 1 :]))) or whole)
        for place in range(count)
    ]
    middle = math.fsum(without) / count
    return [whole * math.exp((count - 1) * (middle - left)) for left in without]


def read_level(metric: str, histograms: Sequence[bytes | None]) -> float | None:
    """Return a metric of merged histograms; None if there are none."""
    merged = merge(histograms)
    if merged is None:
        return None
    if metric == BUSY_RATE:
        return 1e9 / merged.mean if merged.mean else None
    name = metric.rpartition("_ns_")[2]
    return merged.mean if name == "mean" else float(merged.quantile(QUANTILES[name]))


def _level_of_requests(trials: Sequence[Measurement]) -> float | None:
    histograms = [trial.histogram for trial in trials]
    if not trials or None in histograms:
        return None
    return read_level(trials[0].metric, histograms)
