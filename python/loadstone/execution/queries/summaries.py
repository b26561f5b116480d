"""Summaries of tables, and of the resources of engines."""

import hashlib
from collections.abc import Iterable, Sequence

from loadstone._loadgen import Histogram, Table
from loadstone.documents.python_types import EngineUseDocument, QuerySummary, TablesSummary
from loadstone.engines.engine import EngineUse
from loadstone.engines.tables import Mark, TableFile
from loadstone.results.record import INTERVAL_SCHEMA


def tables_summary(
    mark: Mark, files_kept: Sequence[TableFile], *, was_there: bool
) -> TablesSummary:
    """Return the summary of tables; an earlier attempt of the run wrote `files_kept`."""
    return {
        "benchmark": mark.benchmark,
        "scale": mark.scale,
        "format": mark.format,
        "partitions": mark.partitions,
        "files": len(mark.files),
        "bytes": sum(file.size_bytes for file in mark.files),
        "sha256": hashlib.sha256("".join(file.sha256 for file in mark.files).encode()).hexdigest(),
        "was_there": was_there,
        "files_kept": len(files_kept),
        "bytes_kept": sum(table_file.size_bytes for table_file in files_kept),
    }


def use_of_query(use: EngineUse) -> QuerySummary:
    """Return the resources that the engine used, for a summary."""
    return {
        "cpu_ns": use.cpu_ns,
        "read_bytes": use.read_bytes,
        "reread_bytes": use.reread_bytes,
        "spilled_bytes": use.spilled_bytes,
        "major_faults": use.major_faults,
        "memory_stall_ns": use.memory_stall_ns,
        "memory_peak_bytes": use.memory_peak_bytes,
        "received_bytes": use.received_bytes,
        "cores": use.cores,
    }


def added(used: Sequence[EngineUse | None]) -> EngineUseDocument:
    """Add up the use of processes; a sum is None if a process ended without reporting it."""
    known = [use or EngineUse() for use in used]
    return {
        "cpu_ns": _sum([use.cpu_ns for use in known]),
        "read_bytes": _sum([use.read_bytes for use in known]),
        "received_bytes": _sum([use.received_bytes for use in known]),
        "cores": next((use.cores for use in known if use.cores is not None), None),
    }


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


class SecondRows:
    """Per-second rows of one operation, for complete seconds."""

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
        """Yield the rows as tables for the record."""
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
