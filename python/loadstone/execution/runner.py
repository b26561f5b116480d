"""Plan → records: one trial after another, each kept at once."""

import contextlib
import datetime
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from loadstone import __version__
from loadstone.campaign.plan import Plan
from loadstone.campaign.schedule import starts
from loadstone.campaign.schema import Schedule
from loadstone.campaign.trial import PlannedTrial
from loadstone.errors import LoadstoneError, TargetError
from loadstone.execution import host, operations
from loadstone.execution.events import (
    Event,
    Resting,
    TrialEnded,
    TrialFailed,
    TrialSkipped,
    TrialStarted,
)
from loadstone.execution.interrupt import Interrupt
from loadstone.execution.searching import Observe, Search
from loadstone.results.writer import RunWriter

Listen = Callable[[Event], None]

REST_TICK_S = 0.2


@dataclass(slots=True)
class RunEnd:
    """How a run ended, and what became of the trials that have no record.

    A `failed` trial was tried, and its target could not be used; a `skipped` one was not tried
    for that reason; the ones `not_run` were never reached.
    """

    state: str = "finished"
    failed_requests: int = 0
    problems: list[LoadstoneError] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    not_run: list[str] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """Return it as the manifest keeps it."""
        return {
            "state": self.state,
            "ended": now().isoformat(),
            "problems": [problem.message for problem in self.problems],
            "failed": self.failed,
            "skipped": self.skipped,
            "not_run": self.not_run,
        }


def now() -> datetime.datetime:
    """Return the time as manifests write it."""
    return datetime.datetime.now(datetime.UTC)


def circumstances() -> dict[str, Any]:
    """Return what a manifest says of the time, the program and the host."""
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
) -> RunEnd:
    """Run the trials of a plan in order and return how that ended.

    `observe` reads what a search needs to know of a trial's record: a plan with a search needs it,
    since nothing is concluded here.

    A target that cannot be used ends its own trials, not those of others: they are skipped, with
    the reason. The schedule counts from the manifest's `started`, so that a run that is resumed
    keeps to its days. Raises ResultError when the run folder cannot be written; what had ended
    before is safe, and the run counts as interrupted.
    """
    interrupt = interrupt or Interrupt()
    session = _Session(writer=writer, listen=listen, interrupt=interrupt)
    started = datetime.datetime.fromisoformat(writer.manifest["started"])
    begins = starts(schedule, started.astimezone())
    try:
        with interrupt.watching():
            for number, planned in enumerate(plan.trials, start=1):
                if session.skip(planned):
                    continue
                session.rest(planned, begins)
                if interrupt.is_asked:
                    break
                if planned.is_search:
                    assert observe is not None, "a plan with a search comes with an observer"
                    session.search(Search(planned, writer, observe), number)
                else:
                    session.run(planned, number)
    except BaseException as error:
        if isinstance(error, LoadstoneError):
            session.end.problems.append(error)
        # On a full disk the manifest cannot be written either; the first error is the one to tell.
        with contextlib.suppress(LoadstoneError):
            session.finish(plan.trials)
        raise
    session.finish(plan.trials)
    return session.end


@dataclass(slots=True, kw_only=True)
class _Session:
    """What the trials of one call of `execute` share."""

    writer: RunWriter
    listen: Listen
    interrupt: Interrupt
    end: RunEnd = field(default_factory=RunEnd)
    unusable: dict[str, str] = field(default_factory=dict)

    def skip(self, planned: PlannedTrial) -> bool:
        """Skip a trial whose target was found unusable; return whether it was."""
        reason = self.unusable.get(planned.document["target"]["name"])
        if reason is None:
            return False
        self.end.skipped[planned.id] = reason
        self.listen(TrialSkipped(document=planned.document, reason=reason))
        return True

    def rest(self, planned: PlannedTrial, begins: Sequence[datetime.datetime]) -> None:
        """Wait for the start of the schedule, then for the rest that the campaign asks for."""
        if planned.suite < len(begins):
            begin = begins[planned.suite]
            left = begin - datetime.datetime.now(begin.tzinfo)
            self._wait(left.total_seconds(), f"until {begin:%Y-%m-%d %H:%M}")
        self._wait(planned.pause_before_ns / 1e9, "the campaign's pause")

    def run(self, planned: PlannedTrial, number: int) -> None:
        """Run one trial and note how it ended."""
        document = planned.document
        target = document["target"]["name"]
        self.listen(TrialStarted(document=document, number=number))
        try:
            summary = operations.run_trial(document, self.writer, self.listen, self.interrupt)
        except TargetError as error:
            self.unusable[target] = f'target "{target}" failed in trial {planned.id}'
            self.end.problems.append(error)
            self.end.failed[planned.id] = error.message
            self.listen(TrialFailed(document=document, reason=error.message))
            return
        self.end.failed_requests += summary["failed"]
        if summary["state"] == "stopped":
            reason = f"trial {planned.id} was stopped: {summary['reason']}"
            self.unusable[target] = reason
            self.end.problems.append(TargetError(f'target "{target}": {reason}'))
        self.listen(TrialEnded(document=document, summary=summary))

    def search(self, search: Search, number: int) -> None:
        """Run the trials of a search until it knows its answer, or its target is lost."""
        for step in search.steps():
            self._wait(step.pause_before_ns / 1e9, "the campaign's pause")
            if self.interrupt.is_asked:
                return
            failed = self.end.failed_requests
            self.run(step, number)
            # Beyond the capacity requests fail, and the search says so: the run did not go wrong.
            self.end.failed_requests = failed
            if step.document["target"]["name"] in self.unusable:
                self.end.skipped[search.document["id"]] = f"trial {step.id} failed"

    def finish(self, trials: Sequence[PlannedTrial]) -> None:
        """Write the end into the manifest."""
        searched = (self.writer.manifest.get("searches") or {}).keys()
        known = self.writer.finished | searched | self.end.failed.keys() | self.end.skipped.keys()
        self.end.not_run = [planned.id for planned in trials if planned.id not in known]
        if self.end.not_run:
            self.end.state = "interrupted"
        elif self.end.problems:
            self.end.state = "failed"
        self.writer.finish(self.end.document())

    def _wait(self, seconds: float, why: str) -> None:
        end = time.monotonic() + seconds
        told = -REST_TICK_S
        while (left := end - time.monotonic()) > 0:
            if time.monotonic() - told >= REST_TICK_S:
                told = time.monotonic()
                self.listen(Resting(seconds=left, why=why))
            if self.interrupt.wait(min(left, REST_TICK_S)):
                return
