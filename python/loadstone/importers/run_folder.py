"""Writes imported trials as a run folder, in the format of loadstone's own runs."""

import datetime
import hashlib
from dataclasses import replace
from pathlib import Path
from typing import cast

from loadstone import __version__
from loadstone._loadgen import Table
from loadstone.documents.manifest import Manifest
from loadstone.documents.python_types import Parameters
from loadstone.documents.summary import Iteration, Summary
from loadstone.documents.trial import DatasetDocument, TrialDocument
from loadstone.errors import InputError
from loadstone.formats.imported import LONGEST_S, SECOND_NS, Imported, ImportedTrial
from loadstone.formats.reading import EDITED, LARGEST
from loadstone.results.record import FAILURES_NOT_STATED, INTERVAL_SCHEMA
from loadstone.results.writer import RunWriter

LABEL = "IMPORTED"
LEAST_ROWS = 1000
"""The sum of this many rows with the largest number must still be representable."""


def write_run(imported: Imported, folder: Path) -> None:
    """Write a run folder; values that the tool did not record are absent there, too."""
    for trial in imported.trials:
        _check(imported, trial)
    imported = replace(imported, trials=tuple(map(_from_its_begin, imported.trials)))
    run = _identity(imported)
    plan = [_document(imported, trial, run, n) for n, trial in enumerate(imported.trials, start=1)]
    starts = [
        trial.started_unix_ns for trial in imported.trials if trial.started_unix_ns is not None
    ]
    first = min(starts, default=None)
    manifest: Manifest = {
        "name": imported.name,
        "seed": 0,
        "run": run,
        "campaign": {"name": imported.name, "imported_from": imported.tool},
        "campaign_file": imported.command or "",
        "plan": plan,
        "host": {},
        "started": _iso(first) if first is not None else None,
        "versions": {imported.tool: imported.tool_version or "unknown"},
        "imported": {"by": f"loadstone {__version__}", "from": imported.tool},
    }
    with RunWriter.create(folder, manifest) as writer:
        ends: list[int | None] = []
        for document, trial in zip(plan, imported.trials, strict=True):
            record = writer.begin_trial(document)
            record.write_intervals(_intervals(imported, trial))
            summary = _summary(trial)
            record.finish(
                summary,
                labels=(
                    LABEL,
                    *trial.labels,
                    *(() if trial.counts_failures else (FAILURES_NOT_STATED,)),
                ),
                absent_probes={"all": f"{imported.tool} keeps nothing of its client"},
            )
            ends.append(summary["ended_unix_ns"])
        known = [end for end in ends if end is not None]
        ended = _iso(max(known)) if len(known) == len(ends) else None
        writer.finish({"state": "finished", "ended": ended})


def _from_its_begin(trial: ImportedTrial) -> ImportedTrial:
    """Return a trial whose clock begins in the second of its first request."""
    seconds = trial.window_ns[0] // SECOND_NS
    start_ns, end_ns = (moment - seconds * SECOND_NS for moment in trial.window_ns)
    begun_ns = trial.started_unix_ns
    return replace(
        trial,
        rows=tuple(replace(row, second=row.second - seconds) for row in trial.rows),
        window_ns=(start_ns, end_ns),
        started_unix_ns=None if begun_ns is None else begun_ns + seconds * SECOND_NS,
    )


def _check(imported: Imported, trial: ImportedTrial) -> None:
    """Refuse impossible values, which would overflow the record or its charts."""
    where = f'{imported.tool}, "{imported.name}", {trial.phase}'
    start_ns, end_ns = trial.window_ns
    if not 0 < end_ns - start_ns <= LONGEST_S * SECOND_NS:
        raise InputError(
            f"{where}: its requests last {(end_ns - start_ns) / SECOND_NS:,.0f} s from the first"
            f" to the last, expected between 0 and {LONGEST_S:,.0f} s",
            EDITED,
        )
    begun_ns = trial.started_unix_ns
    if begun_ns is not None and not 0 <= begun_ns <= LARGEST - end_ns:
        raise InputError(f"{where}: its start is not a valid date", EDITED)
    for row in trial.rows:
        numbers = {"requests": row.requests, "objects": row.objects, "bytes": row.bytes}
        if abs(row.second) > LONGEST_S:
            raise InputError(f"{where}: it has no second {row.second}", EDITED)
        for name, value in numbers.items():
            if not 0 <= value <= LARGEST // LEAST_ROWS:
                raise InputError(f"{where}: {value} {name} in second {row.second}", EDITED)


def _identity(imported: Imported) -> str:
    """Return an id derived from the file, so that importing twice makes the same run."""
    digest = hashlib.sha256()
    for trial in imported.trials:
        digest.update(repr((trial.workload, trial.started_unix_ns, trial.rows)).encode())
    return digest.hexdigest()[:32]


def _document(imported: Imported, trial: ImportedTrial, run: str, number: int) -> TrialDocument:
    requests: dict[str, int] = {}
    for row in trial.rows:
        requests[row.operation] = requests.get(row.operation, 0) + row.requests
    total = sum(requests.values())
    dataset: DatasetDocument | None = None
    if trial.size_bytes is not None:
        dataset = {"size": {"kind": "fixed", "bytes": trial.size_bytes}}
    return {
        "format": 1,
        "id": f"{number:04d}",
        "run": run,
        "seed": 0,
        "phase": trial.phase,
        "round": 1,
        "block": trial.block,
        "measured": trial.is_measured,
        "case": {
            "target": trial.target,
            "workload": trial.workload,
            "parameters": cast(Parameters, dict(trial.parameters)),
        },
        "target": {"name": trial.target, "driver": imported.tool, "settings": {}},
        "dataset": dataset,
        "mix": [{"operation": name, "weight": count / total} for name, count in requests.items()],
        "options": {},
        "load": {"kind": "closed", **({"clients": trial.clients} if trial.clients else {})},
        "rate_limit_per_s": trial.rate_limit_per_s,
        "keys": None,
        "stop": {"requests": None, "duration_ns": None},
        "warm_up_ns": 0,
        "cool_down_ns": 0,
        "iterations": 1,
        "connections": None,
        "timeout_ns": None,
        "on_error": None,
        "verify": None,
        "allow_foreign": False,
        "cores": None,
        "log_requests": False,
    }


def _intervals(imported: Imported, trial: ImportedTrial) -> Table:
    rows = [
        {
            "agent": imported.tool,
            "stage": "measure",
            "iteration": 1,
            "operation": row.operation,
            "outcome": row.outcome,
            "second": row.second,
            "requests": row.requests,
            "objects": row.objects,
            "bytes": row.bytes,
            "response": None,
            "service": row.service,
            "first_byte": row.first_byte,
            "lag": None,
            "part": None,
            "parts_failed": 0,
        }
        for row in trial.rows
    ]
    return INTERVAL_SCHEMA.of_rows(rows)


def _summary(trial: ImportedTrial) -> Summary:
    start_ns, end_ns = trial.window_ns
    begun_ns = trial.started_unix_ns
    failed = sum(row.requests for row in trial.rows if row.outcome != "ok")
    iteration: Iteration = {
        "iteration": 1,
        "start_ns": 0,
        "measure_start_ns": start_ns,
        "measure_end_ns": end_ns,
        "end_ns": end_ns,
    }
    summary: Summary = {
        "state": "finished",
        "reason": None,
        "ended_unix_ns": begun_ns + end_ns if begun_ns is not None else None,
        "iterations": [iteration],
        "requests": sum(row.requests for row in trial.rows),
        "bytes": sum(row.bytes for row in trial.rows),
        "error_examples": {},
        "source": dict(trial.source),
        "paced_by": trial.paced_by,
        "stated_latency": {
            operation: {
                "count": stated.count,
                "mean_ns": stated.mean_ns,
                "min_ns": stated.min_ns,
                "max_ns": stated.max_ns,
                "quantiles_ns": {f"{share:g}": ns for share, ns in stated.quantiles_ns.items()},
            }
            for operation, stated in trial.stated.items()
        },
    }
    if begun_ns is not None:
        summary["started_unix_ns"] = begun_ns
    if failed or trial.counts_failures:
        summary["failed"] = failed
    if trial.clients is not None:
        summary["clients"] = trial.clients
    return summary


def _iso(unix_ns: int) -> str:
    moment = datetime.datetime.fromtimestamp(unix_ns / SECOND_NS, tz=datetime.UTC)
    return moment.isoformat()
