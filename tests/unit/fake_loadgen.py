"""A load generator that makes no load, and behaves as a test asks."""

import json
import threading
from collections.abc import Callable
from typing import Any

from loadstone import _loadgen
from tests.unit.sample_runs import interval

LIVE = {
    "elapsed_ns": 1_000_000_000,
    "iteration": 1,
    "iterations": 1,
    "stage": "measure",
    "requests": 10,
    "failed": 0,
    "bytes": 40_960,
    "requests_last_s": 10,
    "lost_races": 0,
    "bytes_last_s": 40_960,
    "p50_ns": 1_000,
    "p99_ns": 2_000,
    "progress": 0.5,
}


class Control:
    """Remembers that it was stopped."""

    def __init__(self) -> None:
        self.stopped = threading.Event()

    def stop(self) -> None:
        self.stopped.set()


def refusal(message: str, hint: str | None = None) -> _loadgen.TargetError:
    """Return an error as the extension raises it before load starts."""
    error = _loadgen.TargetError(message)
    error.message, error.hint, error.kind = message, hint, "unreachable"
    return error


class FakeLoadgen:
    """Stands in for the extension; `behave` maps a trial's id to its behaviour."""

    TargetError = _loadgen.TargetError
    Control = Control
    check = staticmethod(_loadgen.check)

    def __init__(self) -> None:
        self.behave: dict[str, Callable[[Control], dict[str, Any] | None]] = {}
        self.documents: list[dict[str, Any]] = []
        self.seconds = 3
        self.makes: dict[str, list[str]] = {}
        self.refuses: dict[str, list[str]] = {}

    def run_trial(self, trial_json: str, on_event: Any, control: Control) -> str:
        document = json.loads(trial_json)
        self.documents.append(document)
        for kind, names in (("intent", self.makes), ("unmade", self.refuses)):
            if document["id"] in names:
                on_event({"kind": kind, "names": names[document["id"]]})
        behaviour = self.behave.get(document["id"])
        changes = behaviour(control) if behaviour is not None else None
        for second in range(self.seconds):
            if control.stopped.is_set():
                break
            on_event({"kind": "figures", "rows": interval(second), "live": dict(LIVE)})
        on_event({"kind": "figures", "rows": None, "live": dict(LIVE)})
        if document["log_requests"]:
            on_event({"kind": "loggedrequests", "rows": interval(0)})
        state = "interrupted" if control.stopped.is_set() else "finished"
        return json.dumps(summary(state=state) | (changes or {}))


def summary(**changes: Any) -> dict[str, Any]:
    end_ns = 3_000_000_000
    times = {
        "iteration": 1, "start_ns": 0, "measure_start_ns": 0, "measure_end_ns": end_ns,
        "end_ns": end_ns,
    }  # fmt: skip
    usual = {"state": "finished", "reason": None, "requests": 30, "failed": 0, "bytes": 122_880}
    return usual | {"iterations": [times]} | changes
