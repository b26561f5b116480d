"""Trials of two results that ran in turns: side by side, so that a drift hits both alike."""

from collections.abc import Mapping
from itertools import pairwise

from loadstone.analysis.answers.answer import Result
from loadstone.analysis.measured.trial_facts import TrialFacts
from loadstone.analysis.statistics.ratios import geometric_mean

Place = tuple[int, int]
"""A turn, and a round in it."""


def pairs_in_turns(
    one: Result, other: Result, trials: Mapping[str, TrialFacts]
) -> list[tuple[float, float]]:
    """Return the rates of both in each turn that both have, where these are two or more.

    A turn is a block, or a round where one block is all there is. Both must have begun their trials
    of it before the next turn begins, which is read off the clock: rounds are repeated phase by
    phase, one target after the other, and another tool's files may have been made in any order.
    """
    rates = [_by_place(each, trials) for each in (one, other)]
    # A turn in which one of the two must not be used leaves the others.
    both = rates[0].keys() & rates[1].keys()
    begun: dict[int, list[int]] = {}
    for own in rates:
        for place in both:
            begun.setdefault(place[0], []).append(own[place][0])
    turns = sorted(begun, key=lambda turn: min(begun[turn]))
    if len(turns) < 2 or any(max(begun[a]) >= min(begun[b]) for a, b in pairwise(turns)):
        return []
    found = list[tuple[float, float]]()
    for turn in turns:
        of_turn = [place for place in both if place[0] == turn]
        means = [geometric_mean([own[place][1] for place in of_turn]) for own in rates]
        found.append((means[0], means[1]))
    return found


def _by_place(one: Result, trials: Mapping[str, TrialFacts]) -> dict[Place, tuple[int, float]]:
    """Return when each trial of a result began, and its rate; nothing where one cannot be told."""
    has_blocks = len({fact.block for fact in trials.values() if fact.is_measured}) > 1
    found: dict[Place, tuple[int, float]] = {}
    for rate in one.cell.trial_rates:
        fact = trials.get(rate.trial)
        if fact is None or fact.started_unix_ns is None or rate.requests_per_s <= 0:
            return {}
        place = (fact.block if has_blocks else fact.round, fact.round)
        if place in found:
            return {}
        found[place] = fact.started_unix_ns, rate.requests_per_s
    return found
