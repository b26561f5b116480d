"""Audits of a run after its end: one file each in its folder, beside the records of its trials."""

from collections.abc import Iterator
from pathlib import Path

from loadstone.documents.summary import Summary
from loadstone.documents.trial import TrialDocument
from loadstone.results.documents import check_keys, check_record
from loadstone.results.files import durable
from loadstone.results.layout import read_plain

AUDITS = "audits"


def keep_audit(folder: Path, document: TrialDocument, summary: Summary) -> None:
    """Keep the answer of an audit; its name begins with when it began."""
    durable.make_folder_in(folder, AUDITS)
    name = f"{AUDITS}/{summary['started_unix_ns']}-{document['id']}.json"
    durable.write_json(folder, name, {"trial": document, "summary": summary})


def kept_audits(folder: Path) -> Iterator[tuple[TrialDocument, Summary]]:
    """Yield the audits that a run folder keeps, the earliest first."""
    for path in sorted((folder / AUDITS).glob("*.json")):
        audit = check_record(path, read_plain(path))
        check_keys(path, "audit", audit, ("trial.id", "trial.target.name", "summary"))
        yield audit["trial"], audit["summary"]
