"""Later audits of a run: one file each in the run folder."""

import datetime
from collections.abc import Iterator
from pathlib import Path

from loadstone import units
from loadstone.documents.summary import AuditCall, Summary
from loadstone.documents.trial import TrialDocument
from loadstone.results.documents import check_keys, check_record
from loadstone.results.files import durable
from loadstone.results.layout import read_plain

AUDITS = "audits"
UNANSWERED = "unanswered"
"""The outcome of a call that the target may have carried out, or may still carry out."""


def keep_audit(folder: Path, document: TrialDocument, summary: Summary) -> None:
    """Store the result of an audit in the run folder."""
    durable.make_folder_in(folder, AUDITS)
    name = f"{AUDITS}/{stem_of(document, summary)}.json"
    durable.write_json(folder, name, {"trial": document, "summary": summary})


def stem_of(document: TrialDocument, summary: Summary) -> str:
    """Return the stem of a later audit's file names, which begins with the audit's start time."""
    return f"{summary['started_unix_ns']}-{document['id']}"


def kept_audits(folder: Path) -> Iterator[tuple[TrialDocument, Summary]]:
    """Yield the audits in a run folder, the earliest first."""
    for path in sorted((folder / AUDITS).glob("*.json")):
        audit = check_record(path, read_plain(path))
        check_keys(path, "audit", audit, ("trial.id", "trial.target.name", "summary"))
        yield audit["trial"], audit["summary"]


def call_words(call: AuditCall) -> str:
    """Return one call of a proof in words: when, what, and how it ended."""
    version = f" of version {call['version']}" if call.get("version") is not None else ""
    by = f" in trial {call['trial']}" if call.get("trial") else ""
    if call.get("expected") is not None:
        version += f" over {call['expected']}"
    if call.get("client") is not None:
        by += f" by client {call['client']}"
    took = "…"
    if call["outcome"] != UNANSWERED:
        took = units.format_duration(call["to_unix_ns"] - call["from_unix_ns"])
    when = f"{_time(call['from_unix_ns'])} +{took}"
    return f"{when}  {call['operation']}{version}{by}: {call['outcome']}"


def _time(unix_ns: int) -> str:
    moment = datetime.datetime.fromtimestamp(unix_ns / 1e9, datetime.UTC)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{unix_ns // 1_000_000 % 1000:03}"
