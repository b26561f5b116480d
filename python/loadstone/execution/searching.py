"""A search as it is carried out: each trial's load follows from what the ones before it showed.

Nothing is concluded here. `observe` reads what a record shows, and `campaign.search` says what to
try next; the caller gives both to the runner.
"""

from collections.abc import Callable, Iterator
from typing import Any

from loadstone.campaign import search_step
from loadstone.campaign.planning.trial import PlannedTrial
from loadstone.campaign.search import FoundCapacity, Goal, Observation, SearchTrial, next_step
from loadstone.documents.trial import TrialDocument
from loadstone.results.record import Record
from loadstone.results.store import read_record
from loadstone.results.writer import RunWriter

Observe = Callable[[Record, Goal], Observation]
"""Reads off a record what the objective speaks of."""


class Search:
    """The steps of one search: those that an earlier session left, then one after another."""

    def __init__(self, planned: PlannedTrial, writer: RunWriter, observe: Observe) -> None:
        self.document = planned.document
        self._goal = search_step.goal_of(planned.document)
        self._loads = search_step.loads_of(planned.document)
        self._writer = writer
        self._observe = observe
        self._trials: list[SearchTrial] = []

    def steps(self) -> Iterator[PlannedTrial]:
        """Yield the trials that are still to run; each must have its record when the next is asked
        for, and without one there is no next.
        """
        finished = self._writer.finished
        while not isinstance(step := self._next(), FoundCapacity):
            number = len(self._trials) + 1
            document = search_step.step_document(self.document, step, number)
            if document["id"] not in finished:
                self._announce(document)
                pause_ns = self.document["search"]["pause_ns"] if number > 1 else 0
                yield PlannedTrial(document=document, pause_before_ns=pause_ns)
                if document["id"] not in self._writer.finished:
                    return
            record = read_record(self._writer.path, document["id"])
            seen = self._observe(record, self._goal)
            self._trials.append(search_step.read_step(self.document, record.trial, seen))
        self._end(step)

    def _next(self) -> Any:
        return next_step(self._goal, self._trials, self._loads)

    def _announce(self, document: TrialDocument) -> None:
        """Put a step into the manifest before it runs: every trial that ever began is listed."""
        plan = self._writer.manifest["plan"]
        others = [entry for entry in plan if entry["id"] != document["id"]]
        place = 1 + max(
            index
            for index, entry in enumerate(others)
            if self.document["id"] in (entry["id"], (entry.get("search") or {}).get("of"))
        )
        self._writer.amend({"plan": [*others[:place], document, *others[place:]]})

    def _end(self, found: FoundCapacity) -> None:
        ended = dict(self._writer.manifest.get("searches") or {})
        ended[self.document["id"]] = {"trials": found.trials, "reason": found.reason}
        self._writer.amend({"searches": ended})
