"""Executes a plan: runs one trial after another, and records each at once."""

import contextlib
import datetime
import functools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from loadstone import __version__
from loadstone.campaign import search_step
from loadstone.campaign.planning.lifecycle import CLEAN_UP
from loadstone.campaign.planning.plan import Plan
from loadstone.campaign.planning.trial import PlannedTrial
from loadstone.campaign.schema.campaign import Schedule, start_of
from loadstone.campaign.search import FoundCapacity, Goal, Observation, SearchTrial, next_step
from loadstone.documents.manifest import Manifest
from loadstone.documents.summary import Summary
from loadstone.documents.trial import TrialDocument
from loadstone.errors import LeftBehindError, LoadstoneError, ResultError, TargetError
from loadstone.execution import executor, executors, secrets
from loadstone.execution.events import (
    Event,
    Resting,
    StartPlanned,
    TrialEnded,
    TrialFailed,
    TrialSkipped,
    TrialStarted,
)
from loadstone.execution.host import facts as host
from loadstone.execution.interrupt import Interrupt
from loadstone.execution.programs.hooks import HookError
from loadstone.execution.surroundings import Surroundings
from loadstone.results.documents import RecordDocument
from loadstone.results.layout import MANIFEST
from loadstone.results.record import STOPPED, STOPPED_ON_LOSS, Record
from loadstone.results.store import read_record
from loadstone.results.writer import RunWriter

Observe = Callable[[Record, Goal], Observation]
"""Returns the figures of a record that the objective needs."""


# Nothing is judged here: `observe` reads a record, `campaign.search` chooses the next load, and the
# caller passes both to the runner.
class Search:
    """The steps of one search: those of earlier sessions, then new ones."""

    def __init__(self, planned: PlannedTrial, writer: RunWriter, observe: Observe) -> None:
        self.document = planned.document
        self._goal = search_step.goal_of(planned.document)
        self._loads = search_step.loads_of(planned.document)
        self._writer = writer
        self._observe = observe
        self._trials: list[SearchTrial] = []

    def steps(self) -> Iterator[PlannedTrial]:
        """Yield the trials that are still to run.

        Each must have its record before the next is requested; without one the search ends.
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
            load = self._observe(record, self._goal)
            self._trials.append(search_step.read_step(self.document, record.trial, load))
        self._end(step)

    def _next(self) -> Any:
        return next_step(self._goal, self._trials, self._loads)

    def _announce(self, document: TrialDocument) -> None:
        """Add a step to the manifest before it runs, which lists every trial that ever began."""
        plan = self._writer.manifest["plan"]
        others = [entry for entry in plan if entry["id"] != document["id"]]
        place = 1 + max(
            index
            for index, entry in enumerate(others)
            if self.document["id"] in (entry["id"], (entry.get("search") or {}).get("of"))
        )
        self._writer.amend({"plan": [*others[:place], document, *others[place:]]})

    def _end(self, capacity: FoundCapacity) -> None:
        ended = dict(self._writer.manifest.get("searches") or {})
        ended[self.document["id"]] = {"trials": capacity.trials, "reason": capacity.reason}
        self._writer.amend({"searches": ended})


Listen = Callable[[Event], None]

Decide = Callable[[int], bool]
"""Returns after a block whether the run may end."""

Begin = Callable[[int], datetime.datetime]
"""Returns when a start of the schedule is due."""

REST_TICK_S = 0.2


@dataclass(slots=True)
class RunEnd:
    """How a run ended, and why trials have no record.

    A `failed` trial was tried, but its target was unusable; a `skipped` one was not tried for that
    reason; those in `not_run` were never reached. Problems of earlier sessions, such as an
    unreachable target, are kept as `earlier_problems`, although their trials may have run since.
    `is_cut_unasked` means that a hook or a lost host ended trials early, and not Ctrl-C.
    """

    state: str = "finished"
    failed_requests: int = 0
    problems: list[LoadstoneError] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    ceilings_failed: dict[str, str] = field(default_factory=dict)
    is_cut_unasked: bool = False
    earlier_problems: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    not_run: list[str] = field(default_factory=list)
    starts_left: int = 0

    def document(self) -> Manifest:
        """Return the fields for the manifest."""
        return {
            "state": self.state,
            "ended": now().isoformat(),
            "failed_requests": self.failed_requests,
            # In order of occurrence, without duplicates: a stopped trial is in both lists.
            "problems": list(
                dict.fromkeys(
                    (*self.earlier_problems, *(problem.message for problem in self.problems))
                )
            ),
            "failed": self.failed,
            "ceilings_failed": self.ceilings_failed,
            "skipped": self.skipped,
            "not_run": self.not_run,
            "starts_left": self.starts_left,
        }


def now() -> datetime.datetime:
    """Return the current time for manifests."""
    return datetime.datetime.now(datetime.UTC)


def circumstances() -> Manifest:
    """Return the manifest's facts about time, program and host."""
    return {
        "started": now().isoformat(),
        "loadstone": __version__,
        "versions": host.versions(),
        "host": host.fingerprint(),
    }


def execute(
    plan: Plan,
    writer: RunWriter,
    listen: Listen,
    *,
    schedule: Schedule | None = None,
    interrupt: Interrupt | None = None,
    observe: Observe | None = None,
    decide: Decide | None = None,
    table: Mapping[str, executor.Executor] = executors.EXECUTORS,
) -> RunEnd:
    """Run the trials of a plan in order and return how the run ended.

    `observe` extracts from a trial's record what a search needs; required for a plan with a search,
    since nothing is judged here. If `decide` returns True after a block, the plan ends with that
    block. `table` maps kinds of trials to executors.

    Failed requests and stopped trials of earlier sessions count, too. If a target is unusable, only
    its own trials are skipped, with the reason. The schedule counts from the manifest's `started`,
    so that a resumed run keeps its times. Raises ResultError when the run folder cannot be written;
    finished trials are safe, and the run counts as interrupted.
    """
    interrupt = interrupt or Interrupt()
    secrets.keep_from_programs(writer.manifest.get("campaign"))
    around = Surroundings.of(plan, writer, listen, interrupt)
    session = _Session(
        writer=writer, listen=listen, interrupt=interrupt, around=around, observe=observe,
        decide=decide, table=table,
    )  # fmt: skip
    begin = functools.partial(start_of, schedule, _started(writer).astimezone())
    trials = _Trials(plan, session)
    session.recall()
    try:
        with interrupt.watching():
            session.run_all(trials, begin if schedule is not None else None)
    except BaseException as error:
        if isinstance(error, LoadstoneError):
            session.end.problems.append(error)
        # On a full disk the manifest cannot be written either; the first error is the one to
        # report.
        with contextlib.suppress(LoadstoneError):
            session.finish(trials)
        raise
    finally:
        for each in table.values():
            each.close()
    session.finish(trials)
    return session.end


def _started(writer: RunWriter) -> datetime.datetime:
    """Return when a run began; a resumed run's manifest may have been edited."""
    started = writer.manifest.get("started")
    try:
        return datetime.datetime.fromisoformat(started or "")
    except ValueError as error:
        raise ResultError(
            f'"{writer.path / MANIFEST}", "started": found {started!r}, expected a time'
        ) from error


def whole_end(records: Iterable[RecordDocument]) -> RunEnd:
    """Return the problems of finished trials, from their records.

    Failures of a search are excluded: beyond the capacity, requests are expected to fail.
    """
    end = RunEnd()
    for record in records:
        document, summary = record["trial"], record["summary"]
        if "of" not in (document.get("search") or {}):
            end.failed_requests += _failed(document, summary)
        if {STOPPED, STOPPED_ON_LOSS} & set(record["labels"]):
            end.problems.append(_stopped(document, summary))
    return end


def _failed(document: TrialDocument, summary: Summary) -> int:
    """Return how many requests failed; for a clean-up, 1 if anything is left."""
    return 0 if document["phase"] == CLEAN_UP else summary.get("failed", 0)


def _stopped(document: TrialDocument, summary: Summary) -> TargetError:
    target = document["target"]["name"]
    reason = f"trial {document['id']} was stopped: {summary.get('reason')}"
    return TargetError(f'target "{target}": {reason}')


@dataclass(slots=True, kw_only=True)
class _Session:
    """The state that the trials of one call of `execute` share."""

    writer: RunWriter
    listen: Listen
    interrupt: Interrupt
    around: Surroundings
    observe: Observe | None
    decide: Decide | None
    table: Mapping[str, executor.Executor]
    end: RunEnd = field(default_factory=RunEnd)
    unusable: dict[str, str] = field(default_factory=dict)

    def run_all(self, trials: "_Trials", begin: Begin | None) -> None:
        """Run trials in order, with the ceilings and hooks in their places."""
        try:
            self.around.start()
            self.around.hooks.run("before_run")
            self.around.make_cards()
            block: int | None = None
            for number, planned in enumerate(trials, start=1):
                if block not in (None, planned.document["block"]) and self._is_decided(block):
                    trials.end_before(planned)
                    break
                block = planned.document["block"]
                self.around.measure_ceilings(planned.id)
                if self.skip(planned):
                    continue
                self.rest(planned, begin)
                if self.interrupt.is_asked:
                    break
                if planned.is_search:
                    assert self.observe is not None, "a plan with a search comes with an observer"
                    self.search(Search(planned, self.writer, self.observe), number)
                else:
                    self.run(planned, number)
            self.around.measure_ceilings(None)
        except HookError as error:
            self._stop_by_hook(error)
        finally:
            try:
                self.around.leave_phase()
                self.around.hooks.run("after_run")
            except HookError as error:
                self._stop_by_hook(error)
            finally:
                self.around.close()

    def _is_decided(self, block: int | None) -> bool:
        if self.decide is None or block is None or self.interrupt.is_asked or self.unusable:
            return False
        return self.decide(block)

    def recall(self) -> None:
        """Count the problems of trials that earlier sessions finished."""
        self.end = whole_end(self.writer.records())
        # Each session also stores the earlier ones' problems, so the last has them all.
        for session in self.writer.manifest.get("resumed", ())[-1:]:
            self.end.earlier_problems = list(session["left_as"].get("problems", ()))

    def skip(self, planned: PlannedTrial) -> bool:
        """Skip a trial whose target is unusable; return whether it was skipped."""
        reason = self.unusable.get(planned.document["target"]["name"])
        if reason is None:
            return False
        self.end.skipped[planned.id] = reason
        self.listen(TrialSkipped(document=planned.document, reason=reason))
        return True

    def rest(self, planned: PlannedTrial, begin: Begin | None) -> None:
        """Wait for the start of the schedule, then for the pause that the campaign asks for."""
        if begin is not None:
            start = begin(planned.suite)
            left = start - datetime.datetime.now(start.tzinfo)
            self._wait(left.total_seconds(), f"until {start:%Y-%m-%d %H:%M}")
        self._wait(planned.pause_before_ns / 1e9, "the campaign's pause")

    def run(self, planned: PlannedTrial, number: int) -> None:
        """Run one trial and record how it ended."""
        try:
            self.around.before_trial(planned.document)
            if not self.interrupt.is_asked:
                self._measure(planned, number)
        finally:
            # The effects of hooks must not outlast the trial, however it ended.
            self.around.after_trial(planned.document)

    def _measure(self, planned: PlannedTrial, number: int) -> None:
        document = planned.document
        target = document["target"]["name"]
        self.listen(TrialStarted(document=document, number=number))
        try:
            summary = executor.run_trial(
                executors.executor_of(document, self.table),
                document,
                self.writer,
                self.listen,
                self.interrupt,
                self.around.of_trial(document),
            )
        except TargetError as error:
            self.unusable[target] = f'target "{target}" failed in trial {planned.id}'
            self.end.problems.append(error)
            self.end.failed[planned.id] = error.message
            self.listen(TrialFailed(document=document, reason=error.message))
            return
        self.around.note(document, summary)
        self.end.failed_requests += _failed(document, summary)
        if summary["state"] == "stopped":
            problem = _stopped(document, summary)
            self.unusable[target] = problem.message
            self.end.problems.append(problem)
        elif summary["state"] == "interrupted" and not self.interrupt.is_asked:
            reason = f"trial {planned.id} was cut off: {summary.get('reason')}"
            hint = "see in the report what happened to its client hosts, and continue with --resume"
            self.end.problems.append(TargetError(f'target "{target}": {reason}', hint))
            self.end.is_cut_unasked = True
        self.listen(TrialEnded(document=document, summary=summary))

    def search(self, search: Search, number: int) -> None:
        """Run the trials of a search until it has a result, or its target is unusable."""
        self.around.begin_phase(search.document)
        for step in search.steps():
            self._wait(step.pause_before_ns / 1e9, "the campaign's pause")
            if self.interrupt.is_asked:
                return
            failed = self.end.failed_requests
            self.run(step, number)
            # As in `whole_end`: failures beyond the capacity belong to the search.
            self.end.failed_requests = failed
            if step.document["target"]["name"] in self.unusable:
                self.end.skipped[search.document["id"]] = f"trial {step.id} failed"
        self.around.end_phase(search.document)

    def finish(self, trials: "_Trials") -> None:
        """Write the end of the run into the manifest."""
        self.end.problems += self.around.problems
        self.end.ceilings_failed = self.around.failed
        searched = (self.writer.manifest.get("searches") or {}).keys()
        known = self.writer.finished | searched | self.end.failed.keys() | self.end.skipped.keys()
        self.end.not_run = [planned.id for planned in trials.known if planned.id not in known]
        self.end.starts_left = trials.starts_left
        # Starts that had no usable target left were abandoned; the problems give the reason.
        is_cut = trials.starts_left and not self.unusable
        if self.end.not_run or self.around.pending or is_cut:
            self.end.state = "interrupted"
        elif not all(isinstance(problem, LeftBehindError) for problem in self.end.problems):
            self.end.state = "failed"
        self.writer.finish(self.end.document())

    def _stop_by_hook(self, error: HookError) -> None:
        self.end.problems.append(error)
        self.end.is_cut_unasked = True

    def _wait(self, seconds: float, why: str) -> None:
        end = time.monotonic() + seconds
        told_s = -REST_TICK_S
        while (left := end - time.monotonic()) > 0:
            if time.monotonic() - told_s >= REST_TICK_S:
                told_s = time.monotonic()
                self.listen(Resting(seconds=left, why=why))
            if self.interrupt.wait(min(left, REST_TICK_S)):
                return


class _Trials:
    """The trials of a plan in order; those of later starts are planned when due."""

    def __init__(self, plan: Plan, session: _Session) -> None:
        self.known = list(plan.trials)
        self._later = plan.later
        self._session = session

    def end_before(self, planned: PlannedTrial) -> None:
        """Remove this trial and all later ones from the plan, because they are not needed."""
        self.known = self.known[: self.known.index(planned)]
        writer = self._session.writer
        ids = {document.id for document in self.known} | writer.finished
        writer.amend(
            {"plan": [document for document in writer.manifest["plan"] if document["id"] in ids]}
        )

    @property
    def starts_left(self) -> int:
        """The number of starts that were not planned."""
        return self._later.left if self._later is not None else 0

    def __iter__(self) -> Iterator[PlannedTrial]:
        yield from tuple(self.known)
        targets = {planned.document["target"]["name"] for planned in self.known}
        while self._later is not None and self._later.left:
            if self._session.interrupt.is_asked or targets <= self._session.unusable.keys():
                return
            trials = self._later.plan_next()
            targets |= {planned.document["target"]["name"] for planned in trials}
            self.known += trials
            writer = self._session.writer
            documents = [planned.document for planned in trials]
            starts = self._later.starts - self._later.left
            # Recorded before any of them begins: the manifest lists every trial that ever began.
            writer.amend({"plan": [*writer.manifest["plan"], *documents], "starts": starts})
            self._session.around.extend(trials)
            self._session.listen(StartPlanned(trials=trials))
            yield from trials
