"""Measures a store's durability class: which faults its acknowledged writes survive."""

import json
import random
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from loadstone.analysis.audits import CLASSES, Survival, durability_class, survivals
from loadstone.cli import exit_code, plain
from loadstone.cli.screen.output import print_words
from loadstone.documents.trial import TrialDocument
from loadstone.errors import LoadstoneError
from loadstone.execution.events import Event, TrialEnded, TrialFailed, TrialProgress, TrialStarted
from loadstone.execution.faults import START, FaultCommands
from loadstone.execution.runner import RunEnd
from loadstone.results.hook_log import append_hook
from loadstone.results.store import read_run

LAST_S = 1.0
"""A fault occurs at most this long before the end of the load; later writes are not at risk."""


class DurabilityKeeper:
    """Causes one fault in each load of a run, restarts the store, and prints the result."""

    is_resumable = False
    shows_trials = True

    def __init__(
        self, faults: FaultCommands, names: Sequence[str], folder: Path, load_s: float, form: str
    ) -> None:
        """`names` are the faults that alternate, one in each block."""
        self._faults = faults
        self._names = names
        self._folder = folder
        self._load_s = load_s
        self._form = form
        self._chance = random.Random()
        self._fault: threading.Thread | None = None
        self._has_begun = threading.Event()
        self._has_ended = threading.Event()
        self._began_s: float | None = None
        self._problem: LoadstoneError | None = None

    def watch(self, event: Event) -> None:
        """Cause the fault while objects are written, and restart the store afterwards."""
        match event:
            case TrialStarted(document=document) if document["measured"]:
                self._has_begun.clear()
                self._has_ended.clear()
                # Trials between two loads, such as audits, also report progress.
                self._began_s = None
                self._fault = threading.Thread(target=self._strike, args=(document,))
                self._fault.start()
            case TrialProgress(live=live) if live["elapsed_ns"]:
                self._began_s = self._began_s or time.monotonic() - live["elapsed_ns"] / 1e9
                self._has_begun.set()
            case TrialEnded() | TrialFailed() if self._fault is not None:
                self._has_ended.set()
                self._has_begun.set()
                self._fault.join()
                self._fault = None
                if self._problem is not None:
                    raise self._problem
                self._faults.run(START)

    def decide(self, folder: Path, blocks: int) -> bool:
        """Continue: the number of faults was fixed in advance."""
        return False

    def conclude(self, folder: Path, end: RunEnd) -> int:
        """Print acknowledged and lost writes for each fault; return the exit code."""
        survived = list(survivals(read_run(folder).records))
        name = durability_class(survived)
        if self._form == "json":
            faults = [_document(each) for each in survived]
            print(json.dumps({"run": str(folder), "class": name, "faults": faults}))
        else:
            for each in survived:
                print_words(plain(each.statement()))
            if name is not None:
                print_words(plain(f"durability class {name}: {CLASSES[name]}"))
        if end.state == "interrupted":
            return exit_code.INTERRUPTED
        if end.problems or any(each.wrong for each in survived):
            return exit_code.FAILED
        is_read = survived and all(each.read_back for each in survived)
        return 0 if is_read else exit_code.UNDECIDED

    def _strike(self, document: TrialDocument) -> None:
        """Cause the fault at a random moment near the end of the load, if it lasts that long."""
        self._has_begun.wait()
        if self._began_s is None:
            return
        after_s = self._load_s - self._chance.uniform(0.0, min(LAST_S, self._load_s / 2))
        name = self._names[(document["block"] - 1) % len(self._names)]
        command = self._faults.words_of(name)
        if self._has_ended.wait(max(0.0, self._began_s + after_s - time.monotonic())):
            return
        started_unix_ns = time.time_ns()
        try:
            self._faults.run(name)
        except LoadstoneError as error:
            self._problem = error
            return
        append_hook(
            self._folder,
            {
                "hook": name, "at": f"{after_s:.3f}s", "trial": document["id"],
                "phase": document["phase"], "command": command, "on_failure": "stop",
                "state": "ended", "exit_code": 0, "said": "",
                "started_unix_ns": started_unix_ns, "ended_unix_ns": time.time_ns(),
            },
        )  # fmt: skip


def _document(each: Survival) -> dict[str, object]:
    return {
        "fault": each.fault,
        "times": each.times,
        "times_wrong": each.times_wrong,
        "times_wrong_share_max": each.times_wrong_share_max,
        "acknowledged": each.acknowledged,
        "read_back": each.read_back,
        "wrong": each.wrong,
        "wrong_share_max": each.wrong_share_max,
    }
