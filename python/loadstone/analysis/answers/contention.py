"""Contention of clients for a few objects: tries per win, and fairness."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from loadstone.analysis.judgements.result import Result
from loadstone.analysis.measured.trial_facts import TrialFacts
from loadstone.documents.mix import COMPARE_AND_SWAP


@dataclass(frozen=True, slots=True)
class Contention:
    """A result whose requests each end with a win.

    `tries_per_win` includes the win; `fairness` is the least of its trials' Jain indices over
    clients, None if a trial has none.
    """

    result: Result
    tries_per_win: float | None
    fairness: float | None


def contentions(results: Iterable[Result], trials: Sequence[TrialFacts]) -> list[Contention]:
    """Return the contentions among some results."""
    fairness = {trial.trial: trial.fairness for trial in trials}
    return [
        Contention(
            result=result,
            tries_per_win=result.objects / result.good if result.good else None,
            fairness=_least([fairness.get(trial) for trial in result.trials]),
        )
        for result in results
        if result.operation == COMPARE_AND_SWAP
    ]


def _least(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return min(known) if known and len(known) == len(values) else None
