"""Change points: where the level of a series changes."""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loadstone.analysis.statistics import student
from loadstone.analysis.statistics.ratios import welch_error

Series = NDArray[np.float64]
Kind = Literal["flat", "warm-up", "slowdown", "no steady state"]

SHORTEST_SEGMENT = 3
ALPHA = 0.001
WINDOW = 50
SAME_LEVEL = 0.02
TAIL = 0.25
ENDS_AT_ONCE = 32
"""Ends of segments whose cost is computed at once, to save calls of numpy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePoint:
    """A change of level: the index of the first value after it, both levels, and Welch's p."""

    index: int
    before: float
    after: float
    p: float

    @property
    def magnitude(self) -> float:
        """The relative change of the level: 0.05 is 5 % more."""
        return self.after / self.before - 1 if self.before else math.inf


def e_divisive(values: ArrayLike, *, seed: int, magnitude: float = 0.05) -> list[ChangePoint]:
    """Find the changes of level in a series of independent values.

    E-Divisive (Matteson & James, JASA 2014): split where the energy distance between both sides is
    largest, if a permutation test within the segment is significant: p = (k+1)/(B+1), which allows
    for choosing the best split. As in Hunter (Fleming et al., ICPE'23), a first pass at ten times
    ALPHA works in windows of WINDOW values; then neighbours are merged whose levels differ by less
    than `magnitude`, or with a Welch p of ALPHA or more.

    Seconds of one trial are correlated: pass their batch means.
    """
    x = np.asarray(values, dtype=float)
    generator = np.random.default_rng(seed)
    candidates: set[int] = set()
    step = WINDOW // 2
    for start in range(0, max(1, x.size - step), step):
        piece = x[start : start + WINDOW]
        candidates.update(start + index for index in _split(piece, 10 * ALPHA, generator))
    return _merge(x, sorted(candidates), magnitude)


def pelt(values: ArrayLike, *, penalty: float | None = None) -> list[tuple[int, int]]:
    """Cut a series into segments [start, end) of one mean and one variance each.

    PELT (Killick, Fearnhead & Eckley, JASA 2012) with the cost n (ln σ² + 1) of a normal segment
    and the penalty 15 ln n per change, as in Barrett et al. The result is optimal.
    """
    x = np.asarray(values, dtype=float)
    n = x.size
    shortest = SHORTEST_SEGMENT
    if n < 2 * shortest:
        return [(0, n)] if n else []
    beta = 15 * math.log(n) if penalty is None else penalty
    sums = np.concatenate([[0.0], np.cumsum(x)])
    squares = np.concatenate([[0.0], np.cumsum(x**2)])
    # A segment of equal values has variance 0, whose logarithm would beat every other cost.
    floor = max(1e-12, 1e-10 * float(x.var()))

    def cost(starts: NDArray[np.int_], ends: NDArray[np.int_]) -> Series:
        """Return the cost of each segment, a row per end; inf if it is too short."""
        length = ends[:, None] - starts
        divisor = np.maximum(length, 1.0)
        mean = (sums[ends][:, None] - sums[starts]) / divisor
        priced: Series = (squares[ends][:, None] - squares[starts]) / divisor
        priced -= np.square(mean, out=mean)
        np.log(np.maximum(priced, floor, out=priced), out=priced)
        priced += 1
        priced *= divisor
        priced[length < shortest] = np.inf
        return priced

    best = np.full(n + 1, np.inf)
    best[0] = -beta
    previous = np.zeros(n + 1, dtype=int)
    starts = np.arange(0)
    for first in range(shortest, n + 1, ENDS_AT_ONCE):
        ends = np.arange(first, min(first + ENDS_AT_ONCE, n + 1))
        # Each end adds a start: that of a segment of the shortest length.
        known = starts.size
        starts = np.concatenate([starts, np.arange(first - shortest, ends[-1] - shortest + 1)])
        reached = best[starts]
        costs = cost(starts, ends)
        for row, end in zip(costs, ends.tolist(), strict=True):
            totals = reached + row
            chosen = totals.argmin()
            best[end], previous[end] = totals[chosen] + beta, starts[chosen]
            place = known + end - (first - shortest)
            if place < starts.size:
                reached[place] = best[end]
        # A start can be pruned once a cut at a later end, with room for a segment, is better.
        judged = ends.size - shortest
        if judged >= 0:
            is_beaten = reached + costs[judged] > best[ends[judged]]
            starts = starts[~is_beaten | (starts > ends[judged] - shortest)]
    cuts = [n]
    while cuts[-1] > 0:
        cuts.append(int(previous[cuts[-1]]))
    return list(pairwise(reversed(cuts)))


def classify(values: ArrayLike) -> Kind:
    """Classify the course of a trial's rate: flat, warm-up, slowdown or no steady state.

    Barrett et al. (OOPSLA'17): segments belong to the level of the last one if their means differ
    by at most max(its standard deviation, 2 % of its mean). If a segment of another level ends
    within the last quarter of the series, there is no steady state. Otherwise the series reached
    its level from below (warm-up) or from above (slowdown).
    """
    x = np.asarray(values, dtype=float)
    segments = pelt(x)
    if not segments:
        return "no steady state"
    last_start, last_end = segments[-1]
    level = float(x[last_start:last_end].mean())
    band = max(float(x[last_start:last_end].std()), SAME_LEVEL * abs(level))
    steady_from = last_start
    differing: list[float] = []
    for start, end in reversed(segments[:-1]):
        mean = float(x[start:end].mean())
        if abs(mean - level) <= band and not differing:
            steady_from = start
        elif abs(mean - level) > band:
            differing.append(mean)
    if not differing:
        return "flat"
    if steady_from > x.size * (1 - TAIL):
        return "no steady state"
    return "warm-up" if level > float(np.mean(differing)) else "slowdown"


def _split(x: Series, alpha: float, generator: "np.random.Generator") -> list[int]:
    best = _best_split(np.abs(x[:, None] - x[None, :])) if x.size >= 2 * SHORTEST_SEGMENT else None
    if best is None:
        return []
    index, distance = best
    if not _is_significant(x, distance, alpha, generator):
        return []
    left = _split(x[:index], alpha, generator)
    right = [index + inner for inner in _split(x[index:], alpha, generator)]
    return [*left, index, *right]


def _best_split(distances: Series) -> tuple[int, float] | None:
    """Return the split with the largest energy statistic, and that statistic.

    Of m and k values it is m·k/(m+k) · (2 mean|x-y| - mean|x-x'| - mean|y-y'|), with means over
    distinct pairs.
    """
    n = distances.shape[0]
    # corner[i] sums all distances among the first i values.
    corner = np.concatenate([[0.0], np.diagonal(distances.cumsum(axis=0).cumsum(axis=1))])
    rows = np.concatenate([[0.0], distances.sum(axis=1).cumsum()])
    m = np.arange(SHORTEST_SEGMENT, n - SHORTEST_SEGMENT + 1)
    k = n - m
    within_left = corner[m]
    across = rows[m] - corner[m]
    within_right = rows[n] - within_left - 2 * across
    energy = (m * k / n) * (
        2 * across / (m * k) - within_left / (m * (m - 1)) - within_right / (k * (k - 1))
    )
    if energy.size == 0 or float(energy.max()) <= 0:
        return None
    chosen = int(np.argmax(energy))
    return int(m[chosen]), float(energy[chosen])


def _is_significant(
    x: Series, distance: float, alpha: float, generator: "np.random.Generator"
) -> bool:
    """Tell whether the permutation test gives p = (k+1)/(B+1) below alpha.

    Stops as soon as p cannot fall below alpha any more.
    """
    permutations = math.ceil(4 / alpha)
    allowed = math.ceil(alpha * (permutations + 1)) - 2
    beyond = 0
    for _ in range(permutations):
        order = generator.permutation(x)
        other = _best_split(np.abs(order[:, None] - order[None, :]))
        if other is not None and other[1] >= distance:
            beyond += 1
            if beyond > allowed:
                return False
    return True


def _merge(x: Series, indexes: list[int], magnitude: float) -> list[ChangePoint]:
    remaining = list(indexes)
    while True:
        cuts = [0, *remaining, x.size]
        points = [_change_point(x, *cuts[place : place + 3]) for place in range(len(remaining))]
        weak = [point for point in points if point.p >= ALPHA or abs(point.magnitude) < magnitude]
        if not weak:
            return points
        remaining.remove(max(weak, key=lambda point: (point.p, -abs(point.magnitude))).index)


def _change_point(x: Series, start: int, index: int, end: int) -> ChangePoint:
    left, right = x[start:index], x[index:end]
    before, after = float(left.mean()), float(right.mean())
    if min(left.size, right.size) < 2:
        p = 1.0
    elif left.std() == 0 and right.std() == 0:
        p = 0.0 if before != after else 1.0
    else:
        error, freedom = welch_error(left, right)
        p = 2 * student.above(abs(before - after) / error, freedom)
    return ChangePoint(index=index, before=before, after=after, p=p)
