"""Audits a finished run: reads its kept objects back and compares them with its ledgers.

The folder is not trusted: it may come from a stranger or have been edited.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from loadstone import _loadgen
from loadstone.campaign.planning.trial import PREPARE_THREADS_OPEN, audit_of
from loadstone.documents.load_event import LoadEvent
from loadstone.documents.outcomes import UNREACHED
from loadstone.documents.summary import Summary
from loadstone.documents.trial import TrialDocument
from loadstone.errors import ResultError, TargetError
from loadstone.execution.cleaning import begun
from loadstone.execution.interrupt import Interrupt
from loadstone.execution.refusals import Raised, target_error
from loadstone.results.audits import keep_audit, stem_of
from loadstone.results.documents import check_keys, check_record
from loadstone.results.layout import (
    MANIFEST,
    RECORD_SUFFIX,
    TRIALS,
    altered,
    located,
    read_json,
    read_manifest,
)
from loadstone.results.ledgers import audited_trials, ledger_name, owed_in
from loadstone.results.replays import write_replays

NEEDED: Final = (
    *("case.parameters", "dataset.bucket_prefix", "dataset.objects", "dataset.version"),
    *("load.kind", "mix", "options"),
)
"""Keys of a trial document that its audit needs."""
UNREACHED_MIN: Final = 2
"""If this many requests got no response, and none got one, the audit gives up."""


def audits_of(folder: Path, sample: int | None) -> list[TrialDocument]:
    """Return one trial for each dataset that has ledgers and may still exist."""
    plan = read_manifest(folder)["plan"]
    for trial in plan:
        _check(folder, trial, trial, ("phase", "target.name"))
    documents: list[TrialDocument] = []
    for trials in audited_trials(plan, begun(folder)).values():
        for trial in trials:
            _check(folder, trial, trial, NEEDED)
            for entry in trial["mix"]:
                _check(folder, trial, entry, ("operation",))
            _refuse_altered(folder, trial)
        last = trials[-1]
        load = last["load"]
        threads = load["clients"] if load["kind"] == "closed" else PREPARE_THREADS_OPEN
        document = audit_of(last, threads, sample)
        document["id"] = f"audit-{len(documents) + 1}"
        document["owed"] = owed_in(folder, trials, document)
        documents.append(document)
    return documents


def _check(
    folder: Path, trial: TrialDocument, part: Mapping[str, object], ways: Iterable[str]
) -> None:
    check_keys(folder / MANIFEST, f'trial "{trial["id"]}"', part, ways)


def _refuse_altered(folder: Path, trial: TrialDocument) -> None:
    """Refuse a ledger whose digest differs from that in the trial's record.

    An interrupted trial has no record; its ledger's frames mark their own end.
    """
    record = folder / TRIALS / (trial["id"] + RECORD_SUFFIX)
    if not record.exists():
        return
    name = ledger_name(trial)
    digests = check_record(record, read_json(record)).get("files") or {}
    if name in digests and list(altered(folder, {name: digests[name]})):
        raise ResultError(
            f'"{folder / name}" was changed after loadstone wrote it: it cannot prove '
            "which writes were acknowledged",
            "take the file from a copy of the run",
        )


def audit(document: TrialDocument, folder: Path, interrupt: Interrupt) -> Summary:
    """Read a dataset back, and store the result in the run folder unless it was stopped."""
    control = _loadgen.Control()
    interrupt.on_ask(control.stop)
    outcomes: Counter[str] = Counter()

    def note(event: LoadEvent) -> None:
        if event["kind"] == "figures" and event["rows"] is not None:
            for outcome, count in zip(
                event["rows"]["outcome"], event["rows"]["requests"], strict=True
            ):
                outcomes[outcome] += count
            if is_unreached():
                control.stop()

    def is_unreached() -> bool:
        return outcomes.keys() <= UNREACHED and outcomes.total() >= UNREACHED_MIN

    name = document["target"]["name"]
    try:
        text = _loadgen.run_trial(json.dumps(located(document, folder)), note, control)
    except Raised as error:
        raise target_error(name, error) from error
    if is_unreached() and not interrupt.is_asked:
        raise TargetError(
            f'target "{name}": no request was answered: {", ".join(sorted(outcomes))}',
            "check that the store is up, and that this host reaches its address",
            kind="unreachable",
        )
    summary: Summary = json.loads(text)
    if not interrupt.is_asked:
        write_replays(folder, stem_of(document, summary), document, summary)
        keep_audit(folder, document, summary)
    return summary
