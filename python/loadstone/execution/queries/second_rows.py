"""Rows of complete seconds, for trials that do few requests."""

from collections.abc import Iterable

from loadstone._loadgen import Histogram, Table
from loadstone.results.record import INTERVAL_SCHEMA


class SecondRows:
    """The rows of complete seconds of one operation."""

    def __init__(self, operation: str) -> None:
        self.operation = operation
        self.outcomes: dict[str, int] = {}
        self.bytes = 0
        self._seconds: dict[tuple[int, str], tuple[Histogram, int, int]] = {}

    def add(self, second: int, outcome: str, time_ns: int, size_bytes: int) -> None:
        """Add one request."""
        times, requests, moved = self._seconds.get((second, outcome), (Histogram(), 0, 0))
        times.record(max(1, time_ns), 1)
        self._seconds[second, outcome] = (times, requests + 1, moved + size_bytes)
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        if outcome == "ok":
            self.bytes += size_bytes

    def batches(self) -> Iterable[Table]:
        """Yield them as the record has them."""
        rows = [
            {
                "agent": "local", "stage": "measure", "iteration": 1,
                "operation": self.operation, "outcome": outcome, "second": second,
                "requests": requests, "objects": 0, "bytes": moved, "response": times.encode(),
                "service": times.encode(), "first_byte": None, "lag": None,
            }
            for (second, outcome), (times, requests, moved) in sorted(self._seconds.items())
        ]  # fmt: skip
        if rows:
            yield INTERVAL_SCHEMA.of_rows(rows)
