"""Audits of a run that has ended: its kept objects are read back against its ledgers."""

import json
from pathlib import Path

from loadstone import _loadgen
from loadstone.campaign.planning.trial import PREPARE_THREADS_OPEN, audit_of
from loadstone.documents.summary import Summary
from loadstone.documents.trial import TrialDocument
from loadstone.execution.cleaning import begun
from loadstone.execution.interrupt import Interrupt
from loadstone.execution.named_files import located
from loadstone.execution.refusals import Raised, target_error
from loadstone.results.audits import keep_audit
from loadstone.results.ledgers import audited_trials, owed_in
from loadstone.results.store import read_manifest


def audits_of(folder: Path, sample: int | None) -> list[TrialDocument]:
    """Return a trial for each dataset of a run that kept ledgers and that may still be there."""
    plan = read_manifest(folder)["plan"]
    documents: list[TrialDocument] = []
    for trials in audited_trials(plan, begun(folder)).values():
        last = trials[-1]
        load = last["load"]
        threads = load["clients"] if load["kind"] == "closed" else PREPARE_THREADS_OPEN
        document = audit_of(last, threads, sample)
        document["id"] = f"audit-{len(documents) + 1}"
        document["owed"] = owed_in(folder, trials, document)
        documents.append(document)
    return documents


def audit(document: TrialDocument, folder: Path, interrupt: Interrupt) -> Summary:
    """Read a dataset back, and keep the answer in the run folder unless it was stopped."""
    control = _loadgen.Control()
    interrupt.on_ask(control.stop)
    try:
        text = _loadgen.run_trial(json.dumps(located(document, folder)), control=control)
    except Raised as error:
        raise target_error(document["target"]["name"], error) from error
    summary: Summary = json.loads(text)
    if not interrupt.is_asked:
        keep_audit(folder, document, summary)
    return summary
