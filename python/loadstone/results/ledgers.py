"""Collects the ledgers and histories of a run for its audits."""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from loadstone import _loadgen
from loadstone.campaign.drivers import facts_of
from loadstone.campaign.planning.beyond import written_beyond
from loadstone.campaign.planning.lifecycle import (
    AUDIT,
    CLEAN_UP,
    covers_once,
    dataset_of,
    place_of,
)
from loadstone.campaign.remains import began
from loadstone.documents.mix import COPY, POST, operations_of
from loadstone.documents.summary import AuditCall, AuditFinding, AuditSummary, Summary
from loadstone.documents.trial import (
    HistoryDocument,
    HistoryFile,
    LedgerDocument,
    OwedDocument,
    TrialDocument,
)
from loadstone.results.documents import RecordDocument
from loadstone.results.files import history_file
from loadstone.results.files.ledger_file import LEDGERS, SUFFIX
from loadstone.results.layout import digest_of, located

PUTS = frozenset({"put", "multipart_put"})
DELETES = frozenset({"delete", "bulk_delete"})
OF_LISTS = frozenset({"phantom", "ghost", "list_missing", "listed_twice"})
"""Findings that only a listing shows, or that a listing shows first."""


def is_whole(summary: Summary) -> bool:
    """Tell whether all requests of a trial were answered or timed out."""
    hosts = summary.get("hosts") or ()
    return summary.get("state") == "finished" and all(
        host.get("state") in ("finished", "idle") for host in hosts
    )


def ledger_name(trial: TrialDocument) -> str:
    """Return the name of a trial's ledger in a run folder."""
    return f"{LEDGERS}/{trial['id']}{SUFFIX}"


def ledger_document(folder: Path, trial: TrialDocument) -> LedgerDocument | None:
    """Return the description of a trial's ledger for an audit; None without one."""
    name = ledger_name(trial)
    if not (folder / name).exists():
        return None
    operations = {*operations_of(trial)}
    dataset = dataset_of(trial)
    facts = facts_of(trial["target"]["driver"])
    first, end = written_beyond(trial) or (0, dataset["objects"] or 0)
    return {
        "path": name,
        "sha256": digest_of(folder / name)["sha256"],
        "trial": trial["id"],
        "version": dataset["version"],
        "puts": not operations.isdisjoint(PUTS),
        "deletes": not operations.isdisjoint(DELETES),
        "copies": COPY in operations,
        "posts": POST in operations,
        "metadata_follows": facts.metadata_follows,
        "tears": not operations.isdisjoint(facts.tears),
        "repeats": not covers_once(trial),
        "first": first,
        "end": end,
    }


def owed_in(folder: Path, trials: Iterable[TrialDocument], audit: TrialDocument) -> OwedDocument:
    """Return the ledgers of trials on one dataset for an audit, in the order of the trials."""
    trials = list(trials)
    ledgers = [ledger_document(folder, trial) for trial in trials]
    is_known = not any(trial.get("keeps_history") for trial in trials)
    is_ours = (
        is_known and not audit.get("allow_foreign") and not dataset_of(audit).get("written_by")
    )
    before: OwedDocument = audit.get("owed") or {}
    return {
        "sample": before.get("sample"),
        "ledgers": [ledger for ledger in ledgers if ledger is not None],
        "is_absent_before": is_ours,
    }


def judged_in(
    folder: Path, trials: Iterable[TrialDocument], judged: HistoryDocument
) -> HistoryDocument:
    """Return the histories of trials on one dataset for an audit."""
    recorded = [trial for trial in trials if trial.get("keeps_history")]
    files = [history_file.name_of(trial["id"]) for trial in recorded]
    version = dataset_of(recorded[0])["version"] if recorded else None
    if recorded and recorded[0].get("script"):
        # The planner's knowledge of the time before the script, or before its preparation.
        version = judged["version"]
    return {
        "model": judged["model"],
        "files": [{"path": name, "sha256": digest_of(folder / name)["sha256"]} for name in files],
        "version": version,
    }


def judge(audit: TrialDocument, folder: Path, name: str) -> AuditSummary:
    """Judge the histories of an audit's document, together with its own file."""
    judged = audit["judged"] or {}
    names = [*(file["path"] for file in judged["files"]), name]
    files: list[HistoryFile] = [
        {"path": str((folder / name).absolute()), "sha256": ""} for name in names
    ]
    document: TrialDocument = {**located(audit, folder), "judged": {**judged, "files": files}}
    summary: AuditSummary = json.loads(_loadgen.judge_history(json.dumps(document)))
    return summary


class Ledgers:
    """The trials that changed each dataset since it was created, in any session of the run."""

    def __init__(self, folder: Path, records: Callable[[], Iterable[RecordDocument]]) -> None:
        """Use the records of finished trials, which are read before the first trial."""
        self._folder = folder
        self._records: Callable[[], Iterable[RecordDocument]] | None = records
        self._trials: dict[tuple[str, str], dict[str, TrialDocument]] = {}
        self._audits: dict[tuple[str, str], tuple[TrialDocument, Summary]] = {}

    def with_ledgers(self, document: TrialDocument) -> TrialDocument:
        """Return an audit's document with its ledgers; other documents unchanged."""
        if self._records is not None:
            records, self._records = self._records, None
            for record in sorted(records(), key=lambda record: began(record["summary"])):
                self.note(record["trial"], record["summary"])
        if document["phase"] != AUDIT:
            return document
        trials = self._trials.get(place_of(document), {})
        if judged := document.get("judged"):
            return {**document, "judged": judged_in(self._folder, trials.values(), judged)}
        return {**document, "owed": owed_in(self._folder, trials.values(), document)}

    def note(self, document: TrialDocument, summary: Summary) -> None:
        """Record a trial that has run, or was interrupted."""
        place = place_of(document)
        if document["phase"] == CLEAN_UP:
            self._trials.pop(place, None)
            self._audits.pop(place, None)
        elif document["phase"] == AUDIT and is_whole(summary):
            self._audits[place] = document, summary
            if document.get("judged"):
                # The next reading is judged by this one's results, too.
                self._trials[place][document["id"]] = document
        elif document.get("keeps_history") and document.get("script"):
            # It starts without objects, except those prepared for it.
            self._trials.setdefault(place, {})[document["id"]] = document
        elif document.get("keeps_history"):
            # It overwrites all existing objects.
            self._trials[place] = {document["id"]: document}
            self._audits.pop(place, None)
        elif document.get("keeps_ledger"):
            self._trials.setdefault(place, {})[document["id"]] = document
            self._audits.pop(place, None)

    def note_earlier(self, document: TrialDocument, summary: Summary) -> None:
        """Name in an audit's findings the earlier audit that read the same object correctly."""
        earlier = self._audits.get(place_of(document))
        if document["phase"] == AUDIT and not document.get("judged") and earlier is not None:
            _name_earlier(*earlier, (summary.get("audit") or {}).get("findings", []))


def _name_earlier(
    document: TrialDocument, summary: Summary, findings: Iterable[AuditFinding]
) -> None:
    audit = summary.get("audit") or {}
    is_whole_reading = audit["read_back"] == audit["written"] + audit["deleted"]
    is_all_known = len(audit["findings"]) == sum(audit["counts"].values())
    if audit["unanswered"] or not is_whole_reading or not is_all_known:
        return
    was_wrong = {(finding["bucket"], finding["key"]) for finding in audit["findings"]}
    for finding in findings:
        if (finding["bucket"], finding["key"]) in was_wrong or finding["kind"] in OF_LISTS:
            continue
        right: AuditCall = {
            "operation": "get",
            "trial": document["id"],
            "outcome": "absent" if finding["kind"] == "resurrected" else "ok",
            "from_unix_ns": summary["started_unix_ns"] or 0,
            "to_unix_ns": summary["ended_unix_ns"] or 0,
        }
        finding["calls"] = sorted([*finding["calls"], right], key=lambda call: call["from_unix_ns"])


def audited_trials(
    plan: Iterable[TrialDocument], begun: Mapping[str, Summary]
) -> dict[tuple[str, str], list[TrialDocument]]:
    """Return the trials with ledgers of each dataset that may still exist."""
    audited: dict[tuple[str, str], list[TrialDocument]] = {}
    ran = [document for document in plan if document["id"] in begun]
    for document in sorted(ran, key=lambda document: began(begun[document["id"]])):
        if document["phase"] == CLEAN_UP or document.get("keeps_history"):
            audited.pop(place_of(document), None)
        elif document.get("keeps_ledger"):
            audited.setdefault(place_of(document), []).append(document)
    return audited
