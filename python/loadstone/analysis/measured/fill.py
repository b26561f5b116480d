"""The fill level of a store before a trial, as reported by the store."""

from collections.abc import Mapping
from typing import Any

from loadstone.analysis.naming import describe_parameter
from loadstone.documents.target_state import TargetState
from loadstone.results.record import Record, Run

PERCENT, BYTES = "fill_percent", "fill_bytes"
"""The parameters for fill levels."""


def fill_of(record: Record) -> float | None:
    """Return the used share of the store before a trial; None if not asked."""
    store = (record.target_state.get("before") or TargetState()).get("store")
    return store["used_bytes"] / store["total_bytes"] if store and store["total_bytes"] else None


def describe_fill(run: Run) -> str | None:
    """Return the levels of a run in words, with those reported by the stores."""
    levels: dict[str, list[float]] = {}
    for record in run.records:
        parameters: Mapping[str, Any] = record.trial["case"]["parameters"]
        for name in (PERCENT, BYTES):
            if record.trial["measured"] and name in parameters:
                words = describe_parameter(name, parameters[name])
                levels.setdefault(words, []).extend(
                    [fill] if (fill := fill_of(record)) is not None else []
                )
    if not levels:
        return None
    return "; ".join(
        words + (f" (the store said {min(fills):.1%} to {max(fills):.1%})" if fills else "")
        for words, fills in levels.items()
    )
