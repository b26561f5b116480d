"""A load generator that makes no load, and does what a test tells it to."""

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
    """Stands in for the extension; `behave` maps a trial's id to what happens then."""

    TargetError = _loadgen.TargetError
    Control = Control
    check = staticmethod(_loadgen.check)

    def __init__(self) -> None:
        self.behave: dict[str, Callable[[Control], dict[str, Any] | None]] = {}
        self.documents: list[dict[str, Any]] = []
        self.seconds = 3
        self.makes: dict[str, list[str]] = {}
        self.refuses: dict[str, list[str]] = {}

    def run_trial(
        self,
        trial_json: str,
        on_interval: Any,
        control: Control,
        on_requests: Any,
        on_intent: Any = None,
        on_unmade: Any = None,
        *,
        on_retry: Any = None,
        on_actions: Any = None,
        on_volume: Any = None,
    ) -> str:
        document = json.loads(trial_json)
        self.documents.append(document)
        if on_intent is not None and document["id"] in self.makes:
            on_intent(self.makes[document["id"]])
        if on_unmade is not None and document["id"] in self.refuses:
            on_unmade(self.refuses[document["id"]])
        behaviour = self.behave.get(document["id"])
        changes = behaviour(control) if behaviour is not None else None
        for second in range(self.seconds):
            if control.stopped.is_set():
                break
            on_interval(interval(second), dict(LIVE))
        on_interval(None, dict(LIVE))
        if document["log_requests"]:
            on_requests(interval(0))
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
