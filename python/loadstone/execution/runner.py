"""Plan → records: one trial after another, each kept at once."""

import datetime
import json
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import pyarrow as pa

from loadstone import __version__, _loadgen
from loadstone.campaign.plan import Plan
from loadstone.campaign.schedule import starts
from loadstone.campaign.schema import Schedule
from loadstone.campaign.trial import PlannedTrial
from loadstone.errors import ResultError
from loadstone.execution import host
from loadstone.execution.events import (
    Event,
    Resting,
    TrialEnded,
    TrialProgress,
    TrialSkipped,
    TrialStarted,
)
from loadstone.probes import Collector
from loadstone.results.writer import RunWriter, TrialWriter

Listen = Callable[[Event], None]

REST_TICK_S = 0.2


@dataclass(slots=True)
class RunEnd:
    """How a run ended: finished, interrupted or failed, and why."""

    state: str = "finished"
    failed_requests: int = 0
    problems: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)


class Interrupt:
    """Ctrl-C and SIGTERM: the first stops what runs and lets it be written, the second kills."""

    def __init__(self) -> None:
        self.control = _loadgen.Control()
        self._asked = threading.Event()

    @property
    def is_asked(self) -> bool:
        """Say whether somebody wants the run to stop."""
        return self._asked.is_set()

    def renew(self) -> _loadgen.Control:
        """Return a handle for the next trial."""
        self.control = _loadgen.Control()
        if self.is_asked:
            self.control.stop()
        return self.control

    def wait(self, seconds: float) -> bool:
        """Wait; return whether somebody asked to stop meanwhile."""
        return self._asked.wait(seconds)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Take the signals for the time of a run, where signals can be taken at all."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = [signal.signal(number, self._handle) for number in numbers]
        try:
            yield
        finally:
            for number, handler in zip(numbers, before, strict=True):
                signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.is_asked:
            raise KeyboardInterrupt
        self._asked.set()
        self.control.stop()


def circumstances() -> dict[str, Any]:
    """Return what a manifest says of the time, the program and the host."""
    return {
        "started": datetime.datetime.now(datetime.UTC).isoformat(),
        "loadstone": __version__,
        "versions": host.versions(),
        "host": host.fingerprint(),
    }


def execute(
    plan: Plan, writer: RunWriter, listen: Listen, *, schedule: Schedule | None = None
) -> RunEnd:
    """Run the trials of a plan in order and return how that ended.

    A target that cannot be used ends its own trials, not those of others: they are skipped, with
    the reason. Raises ResultError when the run folder cannot be written; what had ended before
    is safe.
    """
    end = RunEnd()
    interrupt = Interrupt()
    begins = starts(schedule, datetime.datetime.now(datetime.UTC).astimezone())
    unusable: dict[str, str] = {}
    with interrupt.watching():
        try:
            for number, planned in enumerate(plan.trials, start=1):
                _rest(planned, begins, interrupt, listen)
                if interrupt.is_asked:
                    break
                _run_one(planned, number, writer, listen, interrupt, unusable, end)
        finally:
            end.state = _state(end, interrupt)
            writer.finish(
                {
                    "state": end.state,
                    "ended": datetime.datetime.now(datetime.UTC).isoformat(),
                    "problems": end.problems,
                    "skipped": end.skipped,
                }
            )
    return end


def _state(end: RunEnd, interrupt: Interrupt) -> str:
    if interrupt.is_asked:
        return "interrupted"
    return "failed" if end.problems else "finished"


def _run_one(
    planned: PlannedTrial,
    number: int,
    writer: RunWriter,
    listen: Listen,
    interrupt: Interrupt,
    unusable: dict[str, str],
    end: RunEnd,
) -> None:
    document = planned.document
    target = document["target"]["name"]
    if target in unusable:
        end.skipped[planned.id] = unusable[target]
        listen(TrialSkipped(document=document, reason=unusable[target]))
        return
    listen(TrialStarted(document=document, number=number))
    trial = writer.begin_trial(document)
    try:
        summary = _run_trial(document, trial, listen, interrupt)
    except (_loadgen.TargetError, ValueError, OSError) as error:
        trial.discard()
        message = f'target "{target}": {error}'
        unusable[target] = f'target "{target}" cannot be used'
        end.problems.append(message)
        end.skipped[planned.id] = message
        listen(TrialSkipped(document=document, reason=message.replace("\n", "; ")))
        return
    end.failed_requests += summary["failed"]
    if summary["state"] == "stopped":
        unusable[target] = f'trial {planned.id} was stopped: {summary["reason"]}'
        end.problems.append(f'target "{target}": {unusable[target]}')
    listen(TrialEnded(document=document, summary=summary))


def _run_trial(
    document: Mapping[str, Any], trial: TrialWriter, listen: Listen, interrupt: Interrupt
) -> dict[str, Any]:
    """Run one trial and write its record; whatever happens, the streams are closed."""

    def on_interval(batch: Any, live: dict[str, Any]) -> None:
        if batch is not None:
            trial.write_intervals(pa.record_batch(batch))
        for rows in collector.take():
            trial.write_probes(rows)
        listen(TrialProgress(document=dict(document), live=live))

    def on_requests(batch: Any) -> None:
        trial.write_operations(pa.record_batch(batch))

    collector = Collector()
    try:
        with collector:
            told = _loadgen.run_trial(
                json.dumps(document), on_interval, interrupt.renew(), on_requests
            )
        for rows in collector.take():
            trial.write_probes(rows)
        summary: dict[str, Any] = json.loads(told)
        absent = collector.absent
        if summary["state"] == "interrupted":
            trial.interrupt(summary, absent_probes=absent)
        else:
            labels = ("STOPPED",) if summary["state"] == "stopped" else ()
            trial.finish(summary, labels, absent_probes=absent)
    except ResultError:
        trial.close()
        raise
    return summary


def _rest(
    planned: PlannedTrial,
    begins: list[datetime.datetime],
    interrupt: Interrupt,
    listen: Listen,
) -> None:
    """Wait for the start of the schedule, then for the rest that the campaign asks for."""
    if planned.suite < len(begins):
        begin = begins[planned.suite]
        until = begin - datetime.datetime.now(begin.tzinfo)
        _wait(until.total_seconds(), f"until {begin:%Y-%m-%d %H:%M}", interrupt, listen)
    _wait(planned.pause_before_ns / 1e9, "the campaign's pause", interrupt, listen)


def _wait(seconds: float, why: str, interrupt: Interrupt, listen: Listen) -> None:
    end = time.monotonic() + seconds
    told = 0.0
    while (left := end - time.monotonic()) > 0:
        if time.monotonic() - told >= 1.0:
            listen(Resting(seconds=left, why=why))
            # A pipe needs no countdown: the first word is enough there for a while.
            told = time.monotonic() + min(left / 2, 30)
        if interrupt.wait(min(left, REST_TICK_S)):
            return
