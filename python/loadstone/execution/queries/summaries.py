"""What a summary tells of tables, and of what engines used."""

import hashlib
from collections.abc import Sequence

from loadstone.documents.summary import EngineUseDocument, QuerySummary, TablesSummary
from loadstone.engines.engine import EngineUse
from loadstone.engines.tables import Mark, TableFile


def tables_summary(mark: Mark, kept: Sequence[TableFile], *, was_there: bool) -> TablesSummary:
    """Return the summary of tables; `kept` are files that an earlier attempt of the run wrote."""
    return {
        "benchmark": mark.benchmark,
        "scale": mark.scale,
        "format": mark.format,
        "partitions": mark.partitions,
        "files": len(mark.files),
        "bytes": sum(one.size_bytes for one in mark.files),
        "sha256": hashlib.sha256("".join(one.sha256 for one in mark.files).encode()).hexdigest(),
        "was_there": was_there,
        "files_kept": len(kept),
        "bytes_kept": sum(one.size_bytes for one in kept),
    }


def use_of_query(use: EngineUse) -> QuerySummary:
    """Return the part of a summary that says what the engine used."""
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
    """Add up what processes used; None where one ended without telling."""
    told = [one or EngineUse() for one in used]
    return {
        "cpu_ns": _sum([one.cpu_ns for one in told]),
        "read_bytes": _sum([one.read_bytes for one in told]),
        "received_bytes": _sum([one.received_bytes for one in told]),
        "cores": next((one.cores for one in told if one.cores is not None), None),
    }


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
