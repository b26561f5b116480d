"""What an importer makes of a file: trials with the seconds that were seen in them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
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
class Stated:
    """What a tool states of the times of one operation, where it keeps no distribution of them.

    `quantiles_ns` are by their share: 0.99 for the 99th percentile.
    """

    count: int
    mean_ns: float
    min_ns: int
    max_ns: int
    quantiles_ns: Mapping[float, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedTrial:
    """One trial of another tool.

    `window_ns` is from the first request's start to the last one's end, counted from
    `started_unix_ns`. `source` keeps what the tool itself printed of the trial, `stated` the times
    of operations that have no histogram. `block` counts the repetitions of one case.
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
    block: int = 1
    stated: Mapping[str, Stated] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """All trials of the files that were read, and the tool that wrote them."""

    tool: str
    name: str
    trials: tuple[ImportedTrial, ...]
    tool_version: str | None = None
    command: str | None = None
    notes: tuple[str, ...] = ()


def repetitions(paths: Sequence[Path]) -> list[tuple[str, int]]:
    """Return the workload that each file is of, and which of its repetitions.

    put-1, put-2 and put-3 are repetitions of put, and so are 1/put and 2/put: names that differ in
    a count from 1 (or 0) on. A number that counts nothing, as in put-4096, is part of the name, and
    so is a folder that is no number: ceph/put and swift/put are not one workload.
    """
    stems = [path.stem for path in paths]
    names = [_without_count(stem, stems) for stem in stems]
    alike = {
        name: [path for path, other in zip(paths, names, strict=True) if other == name]
        for name in names
    }
    found: list[tuple[str, int]] = []
    for path, name in zip(paths, names, strict=True):
        folders = [one.resolve().parent.name for one in alike[name]]
        are_places = len(set(folders)) > 1 and not _count_up(folders)
        whole = f"{path.resolve().parent.name}/{name}" if are_places else name
        found.append((whole, 1 + sum(one == whole for one, _ in found)))
    return found


def _without_count(stem: str, stems: Sequence[str]) -> str:
    """Return a name without the number at its end, where the numbers of its like count up."""
    name = re.sub(r"[-_ ]?\d+$", "", stem)
    if not name:
        return stem
    alike = [re.fullmatch(rf"{re.escape(name)}[-_ ]?(\d+)", one) for one in stems]
    return name if _count_up([one[1] for one in alike if one is not None]) else stem


def _count_up(texts: Sequence[str]) -> bool:
    """Tell whether texts are the numbers from 1, or from 0, on: two of them or more."""
    if not all(text.isdecimal() for text in texts):
        return False
    numbers = sorted({int(text) for text in texts})
    return len(numbers) > 1 and numbers in (
        list(range(len(numbers))),
        list(range(1, 1 + len(numbers))),
    )
