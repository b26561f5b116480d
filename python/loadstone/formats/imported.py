"""What an importer makes of a file: trials with the seconds that were seen in them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SECOND_NS = 1_000_000_000
LONGEST_S = 366 * 24 * 3600
"""No trial lasts longer; a moment further off was edited by hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """What the caller knows and the file may not say; a file that says otherwise is believed."""

    operation: str | None = None
    size_bytes: int | None = None
    threads: int | None = None
    target: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Requests of one operation and outcome that completed in one second.

    `service` and `first_byte` are encoded histograms, absent where the tool gave no times. Rows of
    one second add up.
    """

    operation: str
    outcome: str
    second: int
    requests: int
    objects: int
    service: bytes | None = None
    first_byte: bytes | None = None
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedTrial:
    """One trial of another tool.

    `window_ns` is from the first request's start to the last one's end, counted from
    `started_unix_ns`. `source` keeps what the tool itself printed of the trial.
    """

    target: str
    workload: str
    phase: str
    parameters: Mapping[str, str | int | float]
    clients: int
    rows: tuple[Row, ...]
    window_ns: tuple[int, int]
    started_unix_ns: int
    is_measured: bool = True
    size_bytes: int | None = None
    labels: tuple[str, ...] = ()
    source: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """All trials of the files that were read, and the tool that wrote them."""

    tool: str
    name: str
    trials: tuple[ImportedTrial, ...]
    tool_version: str | None = None
    command: str | None = None
    notes: tuple[str, ...] = ()
