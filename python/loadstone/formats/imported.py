"""Imported trials: the result of parsing files of other tools.

Values that a file does not state are absent, without a default.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

SECOND_NS = 1_000_000_000
MILLISECOND_NS = 1_000_000
MICROSECOND_NS = 1_000
MEBIBYTE = 2**20
LONGEST_S = 366 * 24 * 3600
"""Trials longer than this are refused; a later time was edited by hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """Facts from the caller, for what a file does not state.

    `are_parts`: the files are parts of one load, made at the same time.
    """

    operation: str | None = None
    size_bytes: int | None = None
    threads: int | None = None
    target: str | None = None
    are_parts: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Requests of one operation and outcome that ended in one second.

    `service` and `first_byte` are encoded histograms, absent without times. Rows of one second are
    summed.
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
    """The times of one operation as another tool states them, without a distribution.

    `quantiles_ns` are keyed by share: 0.99 for the 99th percentile.
    """

    count: int
    mean_ns: float
    min_ns: int | None
    max_ns: int
    quantiles_ns: Mapping[float, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedTrial:
    """One trial of another tool.

    `window_ns` lasts from the start of the first request to the end of the last, counted from
    `started_unix_ns`. `source` is the tool's own output, `stated` the times of operations without
    histograms. `block` counts repetitions of a case. `clients` and `started_unix_ns` are None if
    not stated; without `counts_failures` neither are failed requests. `paced_by` is the tool's
    option that limited the rate, and `rate_limit_per_s` the resulting requests per second of all
    clients, if known.
    """

    target: str
    workload: str
    phase: str
    parameters: Mapping[str, str | int | float]
    clients: int | None
    rows: tuple[Row, ...]
    window_ns: tuple[int, int]
    started_unix_ns: int | None
    counts_failures: bool
    is_measured: bool = True
    size_bytes: int | None = None
    labels: tuple[str, ...] = ()
    source: Mapping[str, Any] = field(default_factory=dict)
    block: int = 1
    stated: Mapping[str, Stated] = field(default_factory=dict)
    rate_limit_per_s: float | None = None
    paced_by: str | None = None

    @property
    def length_ns(self) -> int:
        """From the first request's start to the last one's end."""
        return self.window_ns[1] - self.window_ns[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """The trials of all files, and the tool that wrote them."""

    tool: str
    name: str
    trials: tuple[ImportedTrial, ...]
    tool_version: str | None = None
    command: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedFile:
    """The trials of one file, and facts about the tool that wrote it."""

    trials: Sequence[ImportedTrial]
    tool_version: str | None = None
    command: str | None = None
    notes: Sequence[str] = ()


def import_files(
    tool: str,
    paths: Sequence[Path],
    hints: Hints,
    read_file: Callable[[Path, str, Hints], ImportedFile],
) -> Imported:
    """Read the files of a tool, each with its workload, and join the trials of one load."""
    workloads = workloads_of(paths)
    files = [read_file(path, name, hints) for path, name in zip(paths, workloads, strict=True)]
    return Imported(
        tool=tool,
        name=workloads[0].rpartition("/")[2],
        trials=settle([file.trials for file in files], hints),
        tool_version=next((file.tool_version for file in files if file.tool_version), None),
        command=next((file.command for file in files if file.command), None),
        notes=tuple(dict.fromkeys(note for file in files for note in file.notes)),
    )


def load_parameters(threads: int | None, size_bytes: int | None) -> dict[str, str | int | float]:
    """Return threads and size as parameters, if stated."""
    parameters: dict[str, str | int | float] = {}
    if threads:
        parameters["threads"] = threads
    if size_bytes:
        parameters["size"] = size_bytes
    return parameters


def join_parts(parts: Sequence[ImportedTrial]) -> ImportedTrial:
    """Join parts of one load that ran at the same time into one trial.

    Counts and histograms are added up. Stated counts, means, minima and maxima are combined;
    percentiles cannot be, and are left out.
    """
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    starts = [part.started_unix_ns for part in parts]
    known = [start for start in starts if start is not None]
    begin = min(known) if len(known) == len(parts) else None
    # Parts without a clock are assumed to have started together.
    shifts = [0 if begin is None or start is None else start - begin for start in starts]
    timed = _timed_operations(parts)
    limits = [part.rate_limit_per_s for part in parts if part.rate_limit_per_s is not None]
    clients = _sum_of([part.clients for part in parts])
    return replace(
        first,
        clients=clients,
        parameters={
            **load_parameters(clients, None),
            **{name: value for name, value in first.parameters.items() if name != "threads"},
        },
        rows=tuple(
            replace(
                row,
                second=row.second + shift // SECOND_NS,
                service=row.service if row.operation in timed else None,
            )
            for part, shift in zip(parts, shifts, strict=True)
            for row in part.rows
        ),
        window_ns=(
            min(part.window_ns[0] + shift for part, shift in zip(parts, shifts, strict=True)),
            max(part.window_ns[1] + shift for part, shift in zip(parts, shifts, strict=True)),
        ),
        started_unix_ns=begin,
        counts_failures=all(part.counts_failures for part in parts),
        labels=tuple(dict.fromkeys(label for part in parts for label in part.labels)),
        source={"parts": [part.source for part in parts]},
        stated=_stated_together(parts),
        rate_limit_per_s=sum(limits) if len(limits) == len(parts) else None,
    )


def _sum_of(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _timed_operations(parts: Sequence[ImportedTrial]) -> set[str]:
    """Return the operations of which every part has a histogram of all good requests."""
    good = [row for part in parts for row in part.rows if row.outcome == "ok"]
    untimed = {row.operation for row in good if row.service is None}
    return {row.operation for row in good} - untimed


def _stated_together(parts: Sequence[ImportedTrial]) -> Mapping[str, Stated]:
    stated_together: dict[str, Stated] = {}
    for operation in dict.fromkeys(name for part in parts for name in part.stated):
        members = [part for part in parts if any(row.operation == operation for row in part.rows)]
        stated = [member.stated[operation] for member in members if operation in member.stated]
        count = sum(times.count for times in stated)
        least = [times.min_ns for times in stated if times.min_ns is not None]
        if len(stated) < len(members) or not count:
            continue
        stated_together[operation] = Stated(
            count=count,
            mean_ns=sum(times.mean_ns * times.count for times in stated) / count,
            min_ns=min(least) if len(least) == len(stated) else None,
            max_ns=max(times.max_ns for times in stated),
        )
    return stated_together


OVERLAP = 0.5
"""Two trials are parts of one load if they overlap for this share of the shorter one's duration."""


def settle(files: Sequence[Sequence[ImportedTrial]], hints: Hints) -> tuple[ImportedTrial, ...]:
    """Join trials of one load across files, and number repetitions.

    Trials that overlapped in time are parts of one load; without clocks the hints tell, and
    otherwise they are repetitions.
    """
    loads: list[list[tuple[int, ImportedTrial]]] = []
    for number, trials in enumerate(files):
        for trial in trials:
            for load in loads:
                if all(number != of_file for of_file, _ in load) and any(
                    _are_parts(trial, member, hints) for _, member in load
                ):
                    load.append((number, trial))
                    break
            else:
                loads.append([(number, trial)])
    counts: dict[str, int] = {}
    settled = []
    for load in loads:
        joined = join_parts([trial for _, trial in load])
        words = (joined.target, joined.workload, joined.phase, sorted(joined.parameters.items()))
        case = repr(words)
        counts[case] = counts.get(case, 0) + 1
        settled.append(replace(joined, block=counts[case]))
    return tuple(settled)


def _are_parts(imported_trial: ImportedTrial, other: ImportedTrial, hints: Hints) -> bool:
    def kind(trial: ImportedTrial) -> tuple[object, ...]:
        return trial.target, trial.phase, trial.size_bytes, trial.is_measured

    if kind(imported_trial) != kind(other):
        return False
    spans = [_span_ns(trial) for trial in (imported_trial, other)]
    if hints.are_parts or None in spans:
        return hints.are_parts
    (begin, end), (other_begin, other_end) = (span for span in spans if span is not None)
    shared = min(end, other_end) - max(begin, other_begin)
    return shared > OVERLAP * min(end - begin, other_end - other_begin)


def _span_ns(trial: ImportedTrial) -> tuple[int, int] | None:
    if trial.started_unix_ns is None:
        return None
    begin, end = trial.window_ns
    return trial.started_unix_ns + begin, trial.started_unix_ns + end


def workloads_of(paths: Sequence[Path]) -> list[str]:
    """Return the workload of each file.

    put-1, put-2 and put-3 are repetitions of put, and so are 1/put and 2/put: names that differ in
    a count starting from 1 (or 0). Any other number, as in put-4096, is part of the name, and so is
    a folder that is not a number: ceph/put and swift/put are different workloads.
    """
    stems = [stem_of(path) for path in paths]
    names = [_without_count(stem, stems) for stem in stems]
    alike = {
        name: [path for path, other in zip(paths, names, strict=True) if other == name]
        for name in names
    }
    workloads: list[str] = []
    for path, name in zip(paths, names, strict=True):
        folders = [file.resolve().parent.name for file in alike[name]]
        are_places = len(set(folders)) > 1 and not _count_up(folders)
        workloads.append(f"{path.resolve().parent.name}/{name}" if are_places else name)
    return workloads


def stem_of(path: Path) -> str:
    """Return a file's name without suffixes of its format."""
    suffixes = r"(\.(csv|tsv|json|jsonl|txt|log|out|zst|gz))+$"
    return re.sub(suffixes, "", path.name, flags=re.IGNORECASE) or path.name


def _without_count(stem: str, stems: Sequence[str]) -> str:
    """Strip the number at a stem's end if the numbers of stems like it count up."""
    name = re.sub(r"[-_ ]?\d+$", "", stem)
    if not name:
        return stem
    alike = [re.fullmatch(rf"{re.escape(name)}[-_ ]?(\d+)", stem) for stem in stems]
    return name if _count_up([match[1] for match in alike if match is not None]) else stem


def _count_up(texts: Sequence[str]) -> bool:
    """Tell whether texts are consecutive numbers from 1 or 0, at least two of them."""
    if not all(text.isdecimal() for text in texts):
        return False
    numbers = sorted({int(text) for text in texts})
    return len(numbers) > 1 and numbers in (
        list(range(len(numbers))),
        list(range(1, 1 + len(numbers))),
    )
