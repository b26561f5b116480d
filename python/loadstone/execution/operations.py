"""A trial of storage operations: through the load generator, with probes, into the run folder."""

import datetime
import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from loadstone import _loadgen
from loadstone.errors import TargetError
from loadstone.execution.around_trial import AroundTrial
from loadstone.execution.events import Event, TrialProgress
from loadstone.execution.interrupt import Interrupt
from loadstone.execution.own_host import is_on_own_host
from loadstone.probes import Collector
from loadstone.results.intents import note_intent
from loadstone.results.record import STOPPED
from loadstone.results.writer import RunWriter, TrialWriter


def run_trial(
    document: dict[str, Any],
    writer: RunWriter,
    listen: Callable[[Event], None],
    interrupt: Interrupt,
    around: AroundTrial,
) -> dict[str, Any]:
    """Run one trial with what goes on beside it, keep its record, and return its summary.

    Raises TargetError when it never began, and leaves nothing of it then; ResultError when the
    folder cannot be written, and HookError when a hook stopped it, with what there is left as an
    interrupted trial.
    """
    document = writer.intents.adopted(document)
    around.look_before()
    trial = writer.begin_trial(document)
    observer = _Observer(document, writer, trial, listen, around)
    try:
        with observer.collector:
            told = _call(document, observer, interrupt, around)
        observer.write_probes()
        summary: dict[str, Any] = json.loads(told)
        summary["target_on_own_host"] = is_on_own_host(document["target"].get("settings") or {})
        around.look_after()
        trial.note_target(around.target_state)
        absent = {**observer.collector.absent, **around.absent}
        if summary["state"] == "interrupted":
            trial.interrupt(summary, absent_probes=absent)
        else:
            labels = (STOPPED,) if summary["state"] == "stopped" else ()
            trial.finish(summary, labels, absent_probes=absent)
        if around.problem is not None:
            raise around.problem
    except TargetError:
        trial.discard()
        raise
    except BaseException:
        trial.close()
        raise
    return summary


class _Observer:
    """What the load generator calls while it runs; remembers an error of ours among its own."""

    def __init__(
        self,
        document: dict[str, Any],
        writer: RunWriter,
        trial: TrialWriter,
        listen: Callable[[Event], None],
        around: AroundTrial,
    ) -> None:
        self.collector = Collector()
        self.error: BaseException | None = None
        self._document = document
        self._folder = writer.path
        self._trial = trial
        self._listen = listen
        self._around = around

    def on_interval(self, batch: Any, live: Any) -> None:
        try:
            self._around.note(live["elapsed_ns"])
            if batch is not None:
                self._trial.write_intervals(pa.record_batch(batch))
            self.write_probes()
            self._listen(TrialProgress(document=self._document, live=dict(live)))
        except BaseException as error:
            self.error = self.error or error
            raise

    def on_requests(self, batch: Any) -> None:
        try:
            self._trial.write_operations(pa.record_batch(batch))
        except BaseException as error:
            self.error = self.error or error
            raise

    def on_intent(self, names: list[str]) -> None:
        try:
            time = datetime.datetime.now(datetime.UTC).isoformat()
            note_intent(self._folder, self._document, names, time)
        except BaseException as error:
            self.error = self.error or error
            raise

    def write_probes(self) -> None:
        for rows in (*self.collector.take(), *self._around.take()):
            self._trial.write_probes(rows)


def _call(
    document: dict[str, Any], observer: _Observer, interrupt: Interrupt, around: AroundTrial
) -> str:
    control = interrupt.make_control()
    around.start(control.stop)
    try:
        return _loadgen.run_trial(
            json.dumps(document),
            observer.on_interval,
            control,
            observer.on_requests,
            observer.on_intent,
        )
    except (_loadgen.TargetError, ValueError, OSError) as error:
        if observer.error is not None:
            raise
        name = document["target"]["name"]
        message, _, hint = str(error).partition("\nhint: ")
        raise TargetError(f'target "{name}": {message}', hint or None) from error
    finally:
        around.finish()
