"""Reads a run folder that is finished, interrupted or being written.

RUN/
├── manifest.json            the plan, the host, and the state of the run
├── trials/NNNN.json         a finished trial: document, summary, labels; written last
├── trials/NNNN.parquet      its intervals
├── trials/NNNN.partial.json the same for an interrupted trial, if there was time to write it
├── trials/NNNN.arrows       the intervals of a trial that runs or was interrupted
├── probes/NNNN.parquet      readings of the probes (.arrows as above)
├── operations/              single requests, if the campaign logs them
├── ceilings/CNNN.json       a measured ceiling, next to the outputs of its programs
├── intents.jsonl            buckets and directories, recorded before their creation
├── faults.jsonl             faults, recorded before they begin and after they are undone
└── hooks.jsonl              the campaign's own commands that were run, a line each
"""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from loadstone.documents.summary import Summary
from loadstone.documents.trial import TrialDocument
from loadstone.errors import ResultError
from loadstone.results import fault_log, hook_log, intents, layout
from loadstone.results.ceiling_record import read_ceilings
from loadstone.results.documents import check_record
from loadstone.results.fault_log import FAULTS, faults_left
from loadstone.results.files import durable, tables
from loadstone.results.hook_log import HOOKS, read_hooks
from loadstone.results.intents import INTENTS
from loadstone.results.layout import (
    ACTIONS,
    LOCK,
    MANIFEST,
    OPERATIONS,
    PARTIAL_SUFFIX,
    PROBES,
    RECORD_SUFFIX,
    TRIALS,
    check_format,
    plain,
    read_json,
    read_manifest,
    read_plain,
)
from loadstone.results.record import ALTERED, INTERRUPTED, RECORD_FORMAT, RUNNING, Record, Run
from loadstone.results.writer import RunWriter, TrialWriter

__all__ = ["RunWriter", "TrialWriter", "read_begun", "read_manifest", "read_record", "read_run"]


def read_run(path: str | Path) -> Run:
    """Read a run folder for display; raise ResultError naming the file and the problem.

    Tables are checked for existence and truncation, but not read yet.
    """
    folder = Path(path)
    if folder.name == MANIFEST:
        folder = folder.parent
    written = read_manifest(folder)
    manifest = layout.plain_manifest(written)
    is_being_written = durable.is_locked(folder / LOCK)
    altered = [] if layout.is_as_sealed(written) else [MANIFEST]
    altered += layout.altered(folder, manifest.get("files") or {})
    altered += [name for name in damaged_logs(folder) if name not in altered]
    records: dict[str, Record] = {}
    logged = _logs_of_requests(folder)
    for record in _finished_records(folder, logged):
        wrong = list(layout.altered(folder, record.files))
        if wrong or f"{TRIALS}/{record.id}{RECORD_SUFFIX}" in altered:
            record = replace(record, labels=(*record.labels, ALTERED))
        altered += wrong
        records[record.id] = record
    for trial in manifest["plan"]:
        if trial["id"] not in records:
            unfinished = _unfinished_record(folder, trial, logged, is_being_written)
            if unfinished is not None:
                records[unfinished.id] = unfinished
    hooks = read_hooks(folder)
    for entry in hooks:
        about = records.get(entry.get("trial") or "")
        if about is not None:
            records[about.id] = replace(about, hooks=(*about.hooks, entry))
    order = {trial["id"]: position for position, trial in enumerate(manifest["plan"])}
    return Run(
        path=folder,
        manifest=manifest,
        records=tuple(
            sorted(
                records.values(), key=lambda record: (order.get(record.id, len(order)), record.id)
            )
        ),
        is_being_written=is_being_written,
        ceilings=read_ceilings(folder),
        hooks=hooks,
        altered=tuple(altered),
        # The run that writes the folder undoes its own.
        faults_left=() if is_being_written else tuple(map(plain, faults_left(folder))),
    )


def damaged_logs(folder: Path) -> list[str]:
    """Return the logs of a run with damaged lines."""
    logs = {
        INTENTS: intents.is_damaged, HOOKS: hook_log.is_damaged, FAULTS: fault_log.is_damaged
    }  # fmt: skip
    return [name for name, is_damaged in logs.items() if is_damaged(folder)]


def read_begun(folder: Path) -> dict[str, Summary]:
    """Return the summaries of the trials that began; empty for an unfinished trial.

    Opens no table, as clean-ups also need this after Ctrl-C and for damaged runs. A trial with an
    unreadable record counts as unfinished.
    """
    begun: dict[str, Summary] = {}
    for path in (folder / TRIALS).glob(f"*{tables.STREAM_SUFFIX}"):
        begun[path.name.removesuffix(tables.STREAM_SUFFIX)] = {}
    for path in (folder / TRIALS).glob(f"*{RECORD_SUFFIX}"):
        name = path.name.removesuffix(RECORD_SUFFIX)
        if path.name.endswith(PARTIAL_SUFFIX):
            begun.setdefault(path.name.removesuffix(PARTIAL_SUFFIX), {})
            continue
        begun[name] = {}
        with contextlib.suppress(ResultError):
            record = check_record(path, read_json(path))
            if INTERRUPTED not in record.get("labels", ()):
                begun[name] = record.get("summary", {})
    return begun


def read_record(folder: Path, name: str) -> Record:
    """Read the record of one finished trial."""
    path = folder / TRIALS / (name + RECORD_SUFFIX)
    return _finished_record(path, _logs_of_requests(folder))


def _logs_of_requests(folder: Path) -> Mapping[str, Path]:
    """Return the logs of single requests by trial."""
    logs: dict[str, Path] = {}
    for path in sorted((folder / OPERATIONS).glob("*")):
        logs.setdefault(path.name.partition(".")[0], path)
    return logs


def _finished_records(folder: Path, logged: Mapping[str, Path]) -> Iterator[Record]:
    for path in sorted((folder / TRIALS).glob("*.json")):
        if not path.name.endswith(PARTIAL_SUFFIX):
            yield _finished_record(path, logged)


def _finished_record(path: Path, logged: Mapping[str, Path]) -> Record:
    document = read_plain(path)
    check_format(path, document, "record_format", RECORD_FORMAT)
    intervals = path.with_suffix(tables.PARQUET_SUFFIX)
    tables.check_parquet(intervals)
    probes = path.parent.parent / PROBES / intervals.name
    if probes.exists():
        tables.check_parquet(probes)
    actions = path.parent.parent / ACTIONS / intervals.name
    if actions.exists():
        tables.check_parquet(actions)
    return _record(path, document, (intervals, probes), logged)


def _unfinished_record(
    folder: Path, trial: TrialDocument, logged: Mapping[str, Path], is_being_written: bool
) -> Record | None:
    intervals = folder / TRIALS / (trial["id"] + tables.STREAM_SUFFIX)
    if not intervals.exists():
        return None
    path = folder / TRIALS / (trial["id"] + PARTIAL_SUFFIX)
    document: dict[str, Any] = {"trial": trial, "summary": {}}
    if path.exists():
        document = read_plain(path)
        check_format(path, document, "record_format", RECORD_FORMAT)
    elif is_being_written:
        document["labels"] = [RUNNING]
    labels = document.setdefault("labels", [])
    if RUNNING not in labels and INTERRUPTED not in labels:
        labels.append(INTERRUPTED)
    return _record(path, document, (intervals, folder / PROBES / intervals.name), logged)


def _record(
    path: Path,
    document: Mapping[str, Any],
    tables_of: tuple[Path, Path],
    logged: Mapping[str, Path],
) -> Record:
    intervals, probes = tables_of
    for key in ("trial", "summary"):
        if not isinstance(document.get(key), dict):
            raise ResultError(f'"{path}" has a missing or invalid "{key}"')
    record = check_record(path, document)
    if "id" not in record["trial"]:
        raise ResultError(f'"{path}" has a missing or invalid "trial"')
    actions = path.parent.parent / ACTIONS / intervals.name
    return Record(
        trial=record["trial"],
        summary=record["summary"],
        labels=tuple(record.get("labels", ())),
        absent_probes=record.get("absent_probes", {}),
        target_state=record.get("target_state") or {},
        intervals_path=intervals,
        probes_path=probes if probes.exists() else None,
        files=record.get("files") or {},
        actions_path=actions if actions.exists() else None,
        operations_path=logged.get(record["trial"]["id"]),
    )
