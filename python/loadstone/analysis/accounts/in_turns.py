"""Trials of two arms that ran in turns, so that a drift affects both alike."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from loadstone.analysis.accounts.account import Measurement
from loadstone.analysis.accounts.level import levels_of
from loadstone.analysis.statistics.mean import Arms, shared_days
from loadstone.analysis.statistics.ratios import Ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """The trials of both arms in one turn, and the start of the first trial."""

    a: Sequence[Measurement]
    b: Sequence[Measurement]
    started_unix_ns: int | None


def pairs_in_turns(a: Sequence[Measurement], b: Sequence[Measurement]) -> list[Pair]:
    """Return the trials of both arms in each common turn, if there are two or more.

    A turn is a block, or a round if there is only one block. Both arms must have started their
    trials before the next turn starts: rounds run phase by phase, and files of other tools may be
    in any order.
    """
    has_blocks = len({trial.block for trial in (*a, *b)}) > 1
    arms = [_by_turn(trials, has_blocks=has_blocks) for trials in (a, b)]
    if not all(arms):
        return []
    common = [turn for turn in arms[0] if turn in arms[1]]
    begun = {
        turn: [trial.started_unix_ns for arm in arms for trial in arm[turn].values()]
        for turn in common
    }
    is_clocked = all(None not in starts for starts in begun.values())
    if len(common) < 2 or not (is_clocked or has_blocks):
        return []
    if is_clocked:
        common.sort(key=lambda turn: min(start or 0 for start in begun[turn]))
        spans = [sorted(start or 0 for start in begun[turn]) for turn in common]
        if any(span[-1] >= next_[0] for span, next_ in pairwise(spans)):
            return []
    return [
        Pair(
            a=_shared(arms[0][turn], arms[1][turn]),
            b=_shared(arms[1][turn], arms[0][turn]),
            started_unix_ns=min(starts) if (starts := [s for s in begun[turn] if s]) else None,
        )
        for turn in common
        if arms[0][turn].keys() & arms[1][turn].keys()
    ]


Units = Sequence[Sequence[Measurement]]
"""The trials of each unit of repetition."""

Turns = Mapping[int, Mapping[int, Measurement]]
"""The trial of each round in each turn."""


def _by_turn(measurements: Sequence[Measurement], *, has_blocks: bool) -> Turns:
    """Return the trials of an arm by turn and round; none if two have the same."""
    turns: dict[int, dict[int, Measurement]] = {}
    for trial in measurements:
        if trial.block is None:
            return {}
        rounds = turns.setdefault(trial.block if has_blocks else trial.round, {})
        if trial.round in rounds:
            return {}
        rounds[trial.round] = trial
    return turns


def arms_of(a: Sequence[Measurement], b: Sequence[Measurement], *, is_one_run: bool) -> Arms:
    """Return the units of comparison: pairs, trials, or their days."""
    pairs = pairs_in_turns(a, b) if is_one_run else []
    units: tuple[Units, Units]
    if pairs:
        units = [pair.a for pair in pairs], [pair.b for pair in pairs]
        starts = [pair.started_unix_ns for pair in pairs]
        days = shared_days(starts, starts, is_paired=True)
    else:
        units = [[trial] for trial in a], [[trial] for trial in b]
        starts = [trial.started_unix_ns for trial in a]
        days = shared_days(starts, [trial.started_unix_ns for trial in b], is_paired=False)
    count = 1
    if days is not None:
        units = _by_day(units[0], days[0]), _by_day(units[1], days[1])
        count = min(map(len, units))
    levels = [levels_of(unit) for unit in units]
    return Arms(a=levels[0], b=levels[1], is_paired=bool(pairs), days=count)


def _by_day(units: Units, days: Sequence[int]) -> Units:
    """Group trials by day."""
    trials: list[list[Measurement]] = [[] for _ in range(len(set(days)))]
    for day, unit in zip(days, units, strict=True):
        trials[day] += unit
    return trials


def ratio_of(a: Sequence[Measurement], b: Sequence[Measurement], *, is_one_run: bool) -> Ratio:
    """Return the ratio of one case, of pairs if both arms ran in turns."""
    pairs = pairs_in_turns(a, b) if is_one_run else []
    ratio = arms_of(a, b, is_one_run=is_one_run).ratio
    return replace(ratio, n_a=len(pairs) or len(a), n_b=len(pairs) or len(b))


def _shared(
    trials: Mapping[int, Measurement], other: Mapping[int, Measurement]
) -> list[Measurement]:
    return [trial for round_, trial in trials.items() if round_ in other]
