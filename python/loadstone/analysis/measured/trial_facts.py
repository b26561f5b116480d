"""The outcome of each planned trial."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loadstone.analysis.instrument.headroom import Jitter, jitter_of
from loadstone.analysis.judgements.labels import label_trial
from loadstone.analysis.measured.trial_case import TrialCase, case_of
from loadstone.documents.mix import operations_of
from loadstone.documents.summary import LoadHost, Summary
from loadstone.documents.target_state import TargetState
from loadstone.documents.trial import TrialDocument
from loadstone.results.record import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialFacts(TrialCase):
    """One planned trial and its outcome; `state` is "not run" without a record."""

    operations: tuple[str, ...]
    is_measured: bool
    state: str
    reason: str | None
    started_unix_ns: int | None
    duration_s: float | None
    requests: int | None
    failed: int | None
    unwritten: int | None
    lost_races: int | None
    fairness: float | None
    labels: tuple[str, ...]
    errors: tuple[str, ...]
    absent_probes: Mapping[str, str]
    target_state: Mapping[str, TargetState]
    little: float | None
    jitter: Jitter
    features: Mapping[str, object]
    hosts: tuple[LoadHost, ...] = ()


def facts_of(trial: TrialDocument, record: Record | None, errors: Sequence[str] = ()) -> TrialFacts:
    """Return the outcome of a trial."""
    summary = record.summary if record is not None else {}
    ends = [entry["end_ns"] for entry in summary.get("iterations") or ()]
    state = "not run" if record is None else summary.get("state") or "interrupted"
    return TrialFacts(
        **case_of(trial),
        operations=tuple(operations_of(trial)),
        is_measured=trial["measured"],
        state=state,
        reason=summary.get("reason"),
        started_unix_ns=summary.get("started_unix_ns"),
        duration_s=max(ends) / 1e9 if ends else None,
        requests=summary.get("requests"),
        failed=summary.get("failed"),
        unwritten=summary.get("unwritten"),
        lost_races=summary.get("lost_races"),
        fairness=_fairness(summary),
        labels=label_trial(record) if record is not None else (),
        errors=tuple(errors),
        absent_probes=record.absent_probes if record is not None else {},
        target_state=record.target_state if record is not None else {},
        little=None,
        jitter=jitter_of([record] if record is not None else []),
        features=summary.get("features") or {},
        hosts=tuple(summary.get("hosts") or ()),
    )


def _fairness(summary: Summary) -> float | None:
    """Return Jain's index over clients: 1 if all made equally many requests, 1/n at worst.

    Source: Jain, Chiu, Hawe: A Quantitative Measure of Fairness, DEC-TR-301, 1984.
    """
    squares, clients = summary.get("clients_requests_squares"), summary.get("clients")
    requests = summary.get("requests", 0)
    return requests**2 / (clients * squares) if squares and clients else None
