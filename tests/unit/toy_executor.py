"""An executor of a kind of its own: it asks nothing of anybody and waits for no one.

All that a new kind of trial needs is a file like this one, and its line in `EXECUTORS`.
"""

from collections.abc import Iterable
from typing import Any

from loadstone._loadgen import Histogram, Table
from loadstone.documents.summary import Summary
from loadstone.documents.trial import TrialDocument
from loadstone.errors import TargetError
from loadstone.execution.executor import Output
from loadstone.results.record import INTERVAL_SCHEMA

SECOND_NS = 1_000_000_000
STARTED_UNIX_NS = 1_767_254_400 * SECOND_NS


class Toy:
    """Answers ten questions a second, each after a millisecond."""

    def __init__(self) -> None:
        self.stopped = 0

    def check(self, documents: Iterable[TrialDocument]) -> None:
        for document in documents:
            if document["toy"]["questions"] < 1:
                raise TargetError(f"trial {document['id']}: toy.questions: allowed: 1 and more")

    def run(self, document: TrialDocument, output: Output) -> Summary:
        output.begin(self._stop)
        seconds = document["toy"]["questions"] // 10
        for second in range(seconds):
            output.trial.write_intervals(_rows(document.get("agent", "local"), second))
            output.progress({
                "elapsed_ns": (second + 1) * SECOND_NS, "iteration": 1, "iterations": 1,
                "stage": "measure", "requests": 10 * (second + 1), "failed": 0, "bytes": 0,
                "lost_races": 0, "requests_last_s": 10, "bytes_last_s": 0, "p50_ns": 1_000_000,
                "p99_ns": 1_000_000, "progress": (second + 1) / seconds,
            })  # fmt: skip
        end_ns = seconds * SECOND_NS
        times = {"iteration": 1, "start_ns": 0, "measure_start_ns": 0}
        return {
            "state": "finished", "reason": None, "requests": 10 * seconds, "failed": 0, "bytes": 0,
            "started_unix_ns": STARTED_UNIX_NS, "ended_unix_ns": STARTED_UNIX_NS + end_ns,
            "iterations": [{**times, "measure_end_ns": end_ns, "end_ns": end_ns}],
        }  # fmt: skip

    def close(self) -> None:
        pass

    def _stop(self) -> None:
        self.stopped += 1


def _rows(agent: str, second: int) -> Table:
    times = Histogram()
    times.record(1_000_000, 10)
    row = {
        "agent": agent, "stage": "measure", "iteration": 1, "operation": "question",
        "outcome": "ok", "second": second, "requests": 10, "objects": 0, "bytes": 0,
        "response": times.encode(), "service": times.encode(), "first_byte": None, "lag": None,
    }  # fmt: skip
    return INTERVAL_SCHEMA.of_rows([row])


def document(number: int, *, questions: int = 30, **changes: Any) -> dict[str, Any]:
    """A trial of this kind: the keys of every kind, and a part of its own."""
    return {
        "format": 1, "kind": "toy", "id": f"{number:04d}", "run": "0" * 32, "seed": 1,
        "phase": "ask", "round": 1, "block": number, "measured": True,
        "case": {"target": "oracle", "workload": "w", "parameters": {"scale": 1}},
        "target": {"name": "oracle", "driver": "delphi", "settings": {}},
        "stop": {"requests": questions, "duration_ns": None}, "iterations": 1,
        "toy": {"questions": questions},
    } | changes  # fmt: skip
