"""Hooks: runs the campaign's commands at their points, with times and a log.

A command gets the facts of its trial as environment variables (LOADSTONE_TRIAL, ...); nothing is
inserted into its text.
"""

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from loadstone import units
from loadstone.campaign.schema.hook import FaultHook, Hook
from loadstone.documents.trial import TrialDocument
from loadstone.errors import LoadstoneError
from loadstone.execution import secrets
from loadstone.execution.events import Event, HookEnded
from loadstone.execution.interrupt import Interrupt
from loadstone.execution.programs.answers import answer_of
from loadstone.execution.programs.program import POLL_S, Ended, run_programs
from loadstone.results.fault_log import (
    FaultEntry,
    append_fault,
    describe_fault,
    faults_left,
    how_to_undo,
)
from loadstone.results.hook_log import HookEntry, append_hook
from loadstone.results.writer import RunWriter

Listen = Callable[[Event], None]

NOT_REACHED = "not reached"


class HookError(LoadstoneError):
    """A hook failed whose failure ends the run, according to the campaign."""


class HookRunner:
    """Runs the hooks of one run."""

    def __init__(
        self,
        hooks: Sequence[Hook],
        folder: Path,
        listen: Listen,
        interrupt: Interrupt,
        campaign: Mapping[str, Any],
    ) -> None:
        self._hooks = hooks
        self._folder = folder
        self._listen = listen
        self._interrupt = interrupt
        self._lock = threading.Lock()
        self._processes: dict[str, str] = {}
        self._secrets = secrets.values_in(campaign, os.environ) if hooks else []

    def run(self, point: str, document: TrialDocument | None = None) -> None:
        """Run the hooks of a point in the campaign's order.

        Raises HookError at the first failure that is to stop the run.
        """
        for hook in self._hooks:
            if hook.at == point and (document is None or hook.fits(document)):
                self.run_one(hook, document)

    def of_trial(self, document: TrialDocument) -> "TimedHooks":
        """Return the hooks that run within a trial."""
        timed = [
            hook for hook in self._hooks if hook.elapsed_ns is not None and hook.fits(document)
        ]
        return TimedHooks(self, timed, document)

    def run_one(self, hook: Hook, document: TrialDocument | None) -> None:
        """Run one hook and log its result; raise if its failure stops the run."""
        # Hooks that repair the target after a run must also run after Ctrl-C.
        is_last = hook.undoes or hook.at in ("after_run", "after_trial", "after_phase")
        self._note_fault(hook, document)
        (ended,) = run_programs(
            [hook.command],
            timeout_s=hook.timeout_ns / 1e9,
            is_stopped=lambda: self._interrupt.is_asked and not is_last,
            environment=self._environment(hook, document),
            # The next session undoes it, which must not happen before it has ended.
            is_guarded=isinstance(hook, FaultHook) and not hook.undoes,
        )
        entry = self._entry(hook, document, ended)
        try:
            if hook.ready and ended.is_good:
                self._wait_until_ready(hook)
                entry["ready_unix_ns"] = time.time_ns()
        finally:
            self.keep(entry)
        if ended.is_good and hook.undoes and document is not None:
            self._keep_fault(hook.undoes, hook, document, is_undone=True)
        if not ended.is_good and hook.on_failure == "stop" and not self._interrupt.is_asked:
            raise _failure(hook, entry)

    def undo_left(self, documents: Mapping[str, TrialDocument], say: Callable[[str], None]) -> None:
        """Undo the faults that an earlier session left in effect, and say so.

        `documents` are the run's trials by id. Raises HookError if one could not be undone.
        """
        for entry in faults_left(self._folder):
            say(f"fault {describe_fault(entry)} may still be in effect: it is undone now")
            trial, words = documents.get(entry["trial"]), tuple(entry["undo"])
            undoing = [
                hook
                for hook in self._hooks
                if hook.undoes == entry["hook"] and hook.command == words
            ]
            try:
                # Runs only commands of the campaign: the user allowed these, and no others.
                if trial is None or not undoing:
                    raise HookError("the campaign has no such fault")
                if isinstance(undoing[0], FaultHook):
                    self._processes[undoing[0].process_file] = entry["process"]
                self.run_one(undoing[0].model_copy(update={"on_failure": "stop"}), trial)
            except LoadstoneError as error:
                raise HookError(
                    f"fault {describe_fault(entry)} was not undone: {error.message}",
                    how_to_undo(entry, self._folder),
                ) from error

    def _note_fault(self, hook: Hook, document: TrialDocument | None) -> None:
        """Record durably that a fault is about to begin, with the process that it signals."""
        if document is None or hook.undoes:
            return
        file = _process_file(hook)
        if file:
            self._processes[file] = _process_in(file, hook.label)
        for undo in self._hooks:
            if undo.undoes == hook.label and _process_file(undo) == file:
                self._keep_fault(hook.label, undo, document, is_undone=False)

    def _keep_fault(
        self, label: str, undo: Hook, document: TrialDocument, *, is_undone: bool
    ) -> None:
        entry: FaultEntry = {
            "hook": label,
            "run": document["run"],
            "trial": document["id"],
            "undo": list(undo.command),
            "process": self._processes.get(_process_file(undo), ""),
            "is_undone": is_undone,
            "unix_ns": time.time_ns(),
        }
        with self._lock:
            append_fault(self._folder, entry)

    def _wait_until_ready(self, hook: Hook) -> None:
        give_up = time.monotonic() + hook.timeout_ns / 1e9
        while (status := answer_of(hook.ready)) is None or status >= 500:
            if self._interrupt.wait(POLL_S):
                return
            if time.monotonic() > give_up:
                last = "nothing" if status is None else f"HTTP {status}"
                limit = units.format_duration(hook.timeout_ns)
                raise HookError(f'hook "{hook.label}": {hook.ready} answered {last} for {limit}')

    def keep(self, entry: HookEntry) -> None:
        """Append an entry to the log and emit it as an event."""
        with self._lock:
            append_hook(self._folder, entry)
        self._listen(HookEnded(entry=entry))

    def entry_of_none(self, hook: Hook, document: TrialDocument) -> HookEntry:
        """Return the entry of a hook whose time never came."""
        return self._entry(hook, document, None)

    def _environment(self, hook: Hook, document: TrialDocument | None) -> dict[str, str]:
        variables = {
            name: secrets.resolve(value, os.environ) if isinstance(value, dict) else value
            for name, value in hook.env.items()
        }
        context = {
            "LOADSTONE_RUN_FOLDER": str(self._folder.resolve()),
            "LOADSTONE_HOOK": hook.label,
            "LOADSTONE_PROCESS": self._processes.get(_process_file(hook), ""),
        }
        if document is not None:
            context |= {
                "LOADSTONE_RUN": str(document["run"]),
                "LOADSTONE_TRIAL": str(document["id"]),
                "LOADSTONE_TARGET": str(document["case"]["target"]),
                "LOADSTONE_WORKLOAD": str(document["case"]["workload"]),
                "LOADSTONE_PHASE": str(document["phase"]),
                "LOADSTONE_ROUND": str(document["round"]),
                "LOADSTONE_BLOCK": str(document["block"]),
            }
        return {**secrets.inherited(), **context, **variables}

    def _entry(self, hook: Hook, document: TrialDocument | None, ended: Ended | None) -> HookEntry:
        printed = "" if ended is None else secrets.hide(ended.tail, self._values(hook))
        return {
            "hook": hook.label,
            "at": hook.moment,
            "trial": None if document is None else document["id"],
            "phase": None if document is None else document["phase"],
            "command": list(hook.command),
            "on_failure": hook.on_failure,
            "state": NOT_REACHED if ended is None else ended.state,
            "exit_code": None if ended is None else ended.exit_code,
            "said": printed,
            "started_unix_ns": time.time_ns() if ended is None else ended.started_unix_ns,
            "ended_unix_ns": time.time_ns() if ended is None else ended.ended_unix_ns,
        }

    def _values(self, hook: Hook) -> Iterable[str]:
        references = (value for value in hook.env.values() if isinstance(value, dict))
        return [
            *self._secrets,
            *(secrets.resolve(reference, os.environ) for reference in references),
        ]


class TimedHooks:
    """The hooks within one trial; a thread waits for their times, counted from the load's start."""

    def __init__(self, runner: HookRunner, hooks: Sequence[Hook], document: TrialDocument) -> None:
        self.problem: LoadstoneError | None = None
        self._runner = runner
        self._hooks = sorted(hooks, key=lambda hook: hook.elapsed_ns or 0)
        self._document = document
        self._began_ns: int | None = None
        self._has_begun = threading.Event()
        self._ended = threading.Event()
        self._stop: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._wait_for_all, name="hooks", daemon=True)

    def __bool__(self) -> bool:
        return bool(self._hooks)

    def start(self, stop: Callable[[], None]) -> None:
        """Start to wait; `stop` ends the trial after a failure that is to stop the run."""
        self._stop = stop
        if self._hooks:
            self._thread.start()

    def note(self, elapsed_ns: int) -> None:
        """Record how long the load has been running, which determines its start."""
        if not self._has_begun.is_set():
            self._began_ns = time.monotonic_ns() - elapsed_ns
            self._has_begun.set()

    def finish(self) -> None:
        """End with the trial: wait for a running command; log later ones as not reached."""
        self._ended.set()
        if self._hooks:
            self._has_begun.set()
            self._thread.join()

    def _wait_for_all(self) -> None:
        begun = set()
        for hook in self._hooks:
            try:
                is_due = self.problem is None and self._wait_for(hook.elapsed_ns or 0)
                if is_due or hook.undoes in begun:
                    begun.add(hook.label)
                    self._runner.run_one(hook, self._document)
                else:
                    self._runner.keep(self._runner.entry_of_none(hook, self._document))
            except LoadstoneError as error:
                # The undoing of a fault that failed often fails, too: the first says why.
                self.problem = self.problem or error
                self._stop()

    def _wait_for(self, elapsed_ns: int) -> bool:
        """Wait for a time in the trial; return whether it came before the trial's end."""
        self._has_begun.wait()
        if self._began_ns is None:
            return False
        left_s = (self._began_ns + elapsed_ns - time.monotonic_ns()) / 1e9
        return not self._ended.wait(max(0.0, left_s))


def undo_faults_left(hooks: Sequence[Hook], writer: RunWriter, say: Callable[[str], None]) -> None:
    """Undo what an earlier session of a run left in effect, before anything reaches the target."""
    manifest = writer.manifest
    campaign = manifest.get("campaign") or {}
    runner = HookRunner(hooks, writer.path, lambda event: None, Interrupt(), campaign)
    runner.undo_left({trial["id"]: trial for trial in manifest["plan"]}, say)


def _process_file(hook: Hook) -> str:
    return hook.process_file if isinstance(hook, FaultHook) else ""


def _process_in(file: str, label: str) -> str:
    """Return the PID in a file and the start time of its process."""
    try:
        pid = Path(file).read_text(encoding="utf-8", errors="replace").strip()
        if not (pid.isascii() and pid.isdigit()) or pid.startswith("0"):
            raise HookError(f'hook "{label}": {file} has to hold one PID, and holds: {pid[:80]}')
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise HookError(f'hook "{label}": {file}: {error.filename}: {error.strerror}') from error
    return f"{pid} {fields.rpartition(')')[2].split()[19]}"


def _failure(hook: Hook, entry: HookEntry) -> HookError:
    where = f" of trial {entry['trial']}" if entry["trial"] else ""
    how = entry["state"] if entry["state"] != "ended" else f"exit code {entry['exit_code']}"
    lines = [line.strip() for line in str(entry["said"]).splitlines() if line.strip()]
    printed = f": {'; '.join(lines[-3:])}" if lines else ""
    return HookError(
        f'hook "{hook.label}" at {entry["at"]}{where}: {how}{printed}',
        "repair it and continue with --resume, or set on_failure: label to continue without it",
    )
