"""Writes what was imported as a run folder, in the format that loadstone's own runs have."""

import datetime
import hashlib
from pathlib import Path
from typing import cast

from loadstone import __version__
from loadstone._loadgen import Table
from loadstone.documents.manifest import Manifest
from loadstone.documents.summary import Iteration, Summary
from loadstone.documents.trial import DatasetDocument, Parameters, TrialDocument
from loadstone.errors import InputError
from loadstone.formats.imported import LONGEST_S, SECOND_NS, Imported, ImportedTrial
from loadstone.formats.reading import EDITED, LARGEST
from loadstone.results.record import INTERVAL_SCHEMA
from loadstone.results.writer import RunWriter

LABEL = "IMPORTED"
LEAST_ROWS = 1000
"""So many rows of the largest number still add up to one that can be written."""


def write_run(imported: Imported, folder: Path) -> None:
    """Write a run folder; what the tool did not record is absent there too."""
    for trial in imported.trials:
        _check(imported, trial)
    run = _identity(imported)
    plan = [_document(imported, trial, run, n) for n, trial in enumerate(imported.trials, start=1)]
    first = min(trial.started_unix_ns for trial in imported.trials)
    manifest: Manifest = {
        "name": imported.name,
        "seed": 0,
        "run": run,
        "campaign": {"name": imported.name, "imported_from": imported.tool},
        "campaign_file": imported.command or "",
        "plan": plan,
        "host": {},
        "started": _iso(first),
        "versions": {imported.tool: imported.tool_version or "unknown"},
        "imported": {"by": f"loadstone {__version__}", "from": imported.tool},
    }
    with RunWriter.create(folder, manifest) as writer:
        last = first
        for document, trial in zip(plan, imported.trials, strict=True):
            record = writer.begin_trial(document)
            record.write_intervals(_intervals(imported, trial))
            summary = _summary(trial)
            record.finish(
                summary,
                labels=(LABEL, *trial.labels),
                absent_probes={"all": f"{imported.tool} keeps nothing of its client"},
            )
            last = max(last, summary["ended_unix_ns"] or 0)
        writer.finish({"state": "finished", "ended": _iso(last)})


def _check(imported: Imported, trial: ImportedTrial) -> None:
    """Refuse what cannot have happened, and would burst the record or the charts of it."""
    where = f'{imported.tool}, "{imported.name}", {trial.phase}'
    start_ns, end_ns = trial.window_ns
    if not 0 < end_ns - start_ns <= LONGEST_S * SECOND_NS:
        raise InputError(
            f"{where}: its requests last {(end_ns - start_ns) / SECOND_NS:,.0f} s from the first"
            f" to the last, expected between 0 and {LONGEST_S:,.0f} s",
            EDITED,
        )
    if not 0 <= trial.started_unix_ns <= LARGEST - end_ns:
        raise InputError(f"{where}: it started in no year that can be written", EDITED)
    for row in trial.rows:
        numbers = {"requests": row.requests, "objects": row.objects, "bytes": row.bytes}
        if abs(row.second) > LONGEST_S:
            raise InputError(f"{where}: it has no second {row.second}", EDITED)
        for name, value in numbers.items():
            if not 0 <= value <= LARGEST // LEAST_ROWS:
                raise InputError(f"{where}: {value} {name} in second {row.second}", EDITED)


def _identity(imported: Imported) -> str:
    """Return an id that the same file always gets, so that importing twice makes one run."""
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
        "load": {"kind": "closed", "clients": trial.clients},
        "rate_limit_per_s": None,
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
    failed = sum(row.requests for row in trial.rows if row.outcome != "ok")
    iteration: Iteration = {
        "iteration": 1,
        "start_ns": 0,
        "measure_start_ns": start_ns,
        "measure_end_ns": end_ns,
        "end_ns": end_ns,
    }
    return {
        "state": "finished",
        "reason": None,
        "started_unix_ns": trial.started_unix_ns,
        "ended_unix_ns": trial.started_unix_ns + end_ns,
        "iterations": [iteration],
        "requests": sum(row.requests for row in trial.rows),
        "failed": failed,
        "bytes": sum(row.bytes for row in trial.rows),
        "clients": trial.clients,
        "error_examples": {},
        "source": dict(trial.source),
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


def _iso(unix_ns: int) -> str:
    moment = datetime.datetime.fromtimestamp(unix_ns / SECOND_NS, tz=datetime.UTC)
    return moment.isoformat()
