"""loadstone's own request logs: the trials of a run folder with log_requests."""

from collections.abc import Iterator
from pathlib import Path

from loadstone.errors import InputError
from loadstone.results.record import Record
from loadstone.results.store import read_run
from loadstone.script.trace import Losses, Traced

ACTIONS = {
    "put": "WRITE", "multipart_put": "WRITE", "get": "READ", "multipart_get": "READ",
    "head": "HEAD", "delete": "DELETE", "list": "LIST",
}  # fmt: skip
COLUMNS = ("operation", "outcome", "object", "sent_ns", "bytes")


def read(path: Path, losses: Losses) -> Iterator[Traced]:
    """Yield the requests of a run as they were sent, trial after trial."""
    folder, trial = (path, None) if path.is_dir() else (path.parent, path.name)
    run = read_run(folder)
    chosen = [record for record in run.records if trial in (None, record.id)]
    if not chosen:
        known = ", ".join(record.id for record in run.records)
        raise InputError(f'"{folder}" has no trial "{trial}"', f"it has {known}")
    logged = [record for record in chosen if record.operations_path is not None]
    if not logged:
        raise InputError(
            f'"{path}" has no log of requests', "run with log_requests: true, or --log-requests"
        )
    for record in logged:
        yield from _of_trial(record, losses)


def _of_trial(record: Record, losses: Losses) -> Iterator[Traced]:
    dataset, begun_ns = record.trial.get("dataset") or {}, record.summary.get("started_unix_ns", 0)
    buckets, prefix = dataset.get("buckets", 1), dataset.get("object_prefix", "")
    line = 0
    for batch in record.read_requests():
        columns = (batch[name] for name in COLUMNS)
        for operation, outcome, number, sent_ns, size in zip(*columns, strict=True):
            line += 1
            action = ACTIONS.get(operation)
            if action is None:
                losses.leave_out(f"{operation}: not an action of a script")
                continue
            if outcome not in ("ok", "http_404"):
                losses.leave_out(f"requests that failed ({outcome})")
                continue
            yield Traced(
                line=line,
                start_ns=begun_ns + sent_ns,
                action=action,
                place=str(number % buckets),
                key=prefix if action == "LIST" else f"{prefix}{number}",
                size=size if action in ("WRITE", "READ") else None,
                client="",
                status=200 if outcome == "ok" else 404,
            )
