"""Run → Findings: pure functions; nothing here prints, draws or writes.

`analyse` is the one way in. A finding is a field of `Findings`, made by one module of this folder
from a Run alone, so that all of them can be made again from the run folder at any time.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from loadstone.analysis import client_limits, linter, resources, timeline
from loadstone.analysis.cell_verdicts import decide_cells
from loadstone.analysis.contradictions import contradictions, find_contradictions
from loadstone.analysis.exporter_series import ExporterSeries, ExporterWatch
from loadstone.analysis.finding import Evidence, Finding, Severity
from loadstone.analysis.instrument import Jitter, jitter_of, read_calibration, with_shares
from loadstone.analysis.interventions import (
    Change,
    changed_trials,
    compare_changes,
    tried_of,
)
from loadstone.analysis.labels import (
    CONTRADICTORY,
    error_sentences,
    explain,
    label_trial,
    severity,
)
from loadstone.analysis.measured_ceilings import (
    MeasuredCeiling,
    left_behind_findings,
    read_measured_ceilings,
)
from loadstone.analysis.part import Part, read_parts
from loadstone.analysis.repetitions import advice_findings, advise
from loadstone.analysis.run_account import Measured, account_of
from loadstone.analysis.searches import (
    CapacitySearch,
    left_out,
    read_searches,
    search_findings,
)
from loadstone.analysis.summary import Cell, in_order, little_of, summarise, summarise_mixes
from loadstone.analysis.target_resources import find_utilisation
from loadstone.analysis.target_state import find_states
from loadstone.analysis.trial_findings import judge_run
from loadstone.analysis.verdict import Verdict
from loadstone.results.record import Record, Run

__all__ = ["Findings", "TrialFacts", "analyse"]

SAID_BY_RULES = {"n=1": "single-trials"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialFacts:
    """One planned trial and what became of it; `state` is "not run" when it left no record."""

    trial: str
    target: str
    workload: str
    phase: str
    operations: tuple[str, ...]
    parameters: Mapping[str, object]
    round: int
    block: int
    is_measured: bool
    state: str
    reason: str | None
    started_unix_ns: int | None
    duration_s: float | None
    requests: int | None
    failed: int | None
    labels: tuple[str, ...]
    errors: tuple[str, ...]
    absent_probes: Mapping[str, str]
    target_state: Mapping[str, Any]
    little: float | None
    jitter: Jitter
    features: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Everything analysis says about one run; every report is made from this.

    `cells` has one entry per target, workload, phase, operation, parameters, round and iteration;
    `totals` the same with all iterations added up, and is what a reader is shown first. `mixes` has
    the phases of several operations once more, as the operation "all". Of a search, only the trials
    that confirmed its answer are among these; all of them are in `searches`. `hooks` is the log of
    the campaign's own commands; `client` names the host that the load came from,
    `exporters` what the targets' exporters showed meanwhile; `mistakes` are the common ones of
    benchmark reports, each with whether this run makes it.
    """

    cells: tuple[Cell, ...]
    totals: tuple[Cell, ...]
    mixes: tuple[Cell, ...]
    trials: tuple[TrialFacts, ...]
    timelines: tuple[timeline.Timeline, ...]
    resources: tuple[resources.ResourceSeries, ...]
    findings: tuple[Finding, ...]
    searches: tuple[CapacitySearch, ...] = ()
    changes: tuple[Change, ...] = ()
    verdicts: Mapping[tuple[tuple[str, ...], str], Verdict] = field(default_factory=dict)
    ceilings: tuple[MeasuredCeiling, ...] = ()
    hooks: tuple[Mapping[str, Any], ...] = ()
    client: str = "the client"
    exporters: ExporterSeries = field(default_factory=ExporterSeries)
    mistakes: tuple[linter.Result, ...] = ()

    def verdict_of(self, cell: Cell) -> Verdict | None:
        """Return what limited a cell, if that was asked."""
        return self.verdicts.get((cell.trials, cell.operation))


def analyse(run: Run) -> Findings:
    """Return what a run says."""
    parts, contradictory = list[Part](), list[tuple[str, str]]()
    lines, series = list[timeline.Timeline](), list[resources.ResourceSeries]()
    peaks: dict[str, resources.Peaks] = {}
    flags: dict[str, Mapping[str, Sequence[Evidence]]] = {}
    servers: dict[str, Mapping[str, float]] = {}
    facts: dict[str, TrialFacts] = {}
    rate_points = timeline.points_per_trial(run.records)
    probe_points = resources.points_per_trial(run.records)
    calibrated, watch, under_load_s = read_calibration(run.manifest), ExporterWatch(), 0.0
    searches = read_searches(run)
    steps = left_out(run, searches)
    changed, changed_parts = changed_trials(run), list[Part]()
    # One trial's tables at a time: those of a long run do not fit into memory together.
    for record in run.records:
        intervals, probes = record.intervals, record.probes
        record = _checked(record, intervals, contradictory)
        facts[record.id] = _facts(record.trial, record, intervals)
        if not record.trial["measured"] or record.id in steps:
            continue
        if record.id in changed:
            peaks[record.id] = resources.peaks(probes)
            changed_parts.extend(with_shares(read_parts(record, intervals), calibrated))
            continue
        own = with_shares(read_parts(record, intervals), calibrated)
        facts[record.id] = replace(facts[record.id], little=little_of(own) if own else None)
        parts.extend(own)
        lines.extend(timeline.read_timelines(record, intervals, rate_points))
        peaks[record.id] = resources.peaks(probes)
        seen = client_limits.lines_of(record, probes)
        flags[record.id] = client_limits.limits_of(record, seen)
        servers[record.id] = find_utilisation(seen)
        series.extend(resources.read_resources(record, probes, under_load_s, probe_points))
        watch.look(record, probes, under_load_s)
        under_load_s += facts[record.id].duration_s or 0
    measured = Measured(parts=tuple(parts), peaks=peaks, flags=flags, servers=servers)
    account = account_of(run, measured)
    targets = list((run.manifest.get("campaign") or {}).get("targets") or ())
    cells, totals = (in_order(found, targets) for found in summarise(parts, peaks))
    mixes = in_order(summarise_mixes(parts, peaks), targets)
    advice = advise(totals, cells, _overhead_s(run, facts))
    changes = compare_changes(totals, changed_parts, peaks)
    decided = decide_cells(
        account, parts, flags, totals=totals, servers=servers, tried=tried_of(changes)
    )
    trials = _with_missing(run, facts)
    return Findings(
        cells=cells,
        totals=totals,
        mixes=mixes,
        trials=trials,
        timelines=tuple(lines),
        resources=tuple(series),
        findings=_in_order(
            (
                *search_findings(searches),
                *_findings(totals, trials),
                *_of_surroundings(run, contradictory),
                *advice_findings(advice),
            ),
            judge_run(account, parts, flags, decided=decided),
        ),
        verdicts={(cell.trials, cell.operation): found for cell, found in decided},
        searches=searches,
        ceilings=read_measured_ceilings(run),
        hooks=tuple(run.hooks),
        changes=changes,
        client=_client(run.manifest.get("host") or {}),
        exporters=watch.kept(probe_points),
        mistakes=linter.lint(account),
    )


def _checked(record: Record, intervals: pa.Table, found: list[tuple[str, str]]) -> Record:
    """Return a record with a label if it contradicts itself; how it does is added to `found`."""
    wrong = contradictions(record, intervals)
    found += [(record.id, sentence) for sentence in wrong]
    return replace(record, labels=(*record.labels, CONTRADICTORY)) if wrong else record


def _with_missing(run: Run, facts: Mapping[str, TrialFacts]) -> tuple[TrialFacts, ...]:
    """Return every planned trial in the plan's order, also those that never ran."""
    missing = {doc["id"]: _facts(doc, None, None) for doc in run.plan if doc["id"] not in facts}
    return tuple(fact for _, fact in sorted(({**facts, **missing}).items()))


def _of_surroundings(run: Run, wrong: Sequence[tuple[str, str]]) -> Iterable[Finding]:
    """Return what was seen of the targets and left behind at them, and what cannot be."""
    yield from find_contradictions(wrong)
    yield from find_states(run.records)
    yield from left_behind_findings(run)


def _client(host: Mapping[str, Any]) -> str:
    """Return where the load came from, as an axis names it: "client-1 (16 cores)"."""
    name = host.get("hostname") or host.get("name") or "the client"
    cores = (host.get("cpu") or {}).get("cores")
    return f"{name} ({cores} cores)" if cores else str(name)


def _facts(
    trial: Mapping[str, Any], record: Record | None, intervals: pa.Table | None
) -> TrialFacts:
    summary = record.summary if record is not None else {}
    ends = [entry["end_ns"] for entry in summary.get("iterations") or ()]
    state = "not run" if record is None else summary.get("state") or "interrupted"
    return TrialFacts(
        trial=trial["id"],
        target=trial["case"]["target"],
        workload=trial["case"]["workload"],
        phase=trial["phase"],
        operations=tuple(entry["operation"] for entry in trial["mix"]),
        parameters=trial["case"]["parameters"],
        round=trial["round"],
        block=trial["block"],
        is_measured=trial["measured"],
        state=state,
        reason=summary.get("reason"),
        started_unix_ns=summary.get("started_unix_ns"),
        duration_s=max(ends) / 1e9 if ends else None,
        requests=summary.get("requests"),
        failed=summary.get("failed"),
        labels=label_trial(record) if record is not None else (),
        errors=tuple(error_sentences(record, intervals)) if record is not None else (),
        absent_probes=record.absent_probes if record is not None else {},
        target_state=record.target_state if record is not None else {},
        little=None,
        jitter=jitter_of([record] if record is not None else []),
        features=summary.get("features") or {},
    )


def _overhead_s(run: Run, facts: Mapping[str, TrialFacts]) -> dict[str, float]:
    """Return what each trial took besides its measured time: its warm-up, and what was prepared."""
    waiting_s = 0.0
    overhead: dict[str, float] = {}
    for record in run.records:
        length_s = facts[record.id].duration_s or 0.0
        if not record.trial["measured"]:
            waiting_s += length_s
            continue
        entries = record.summary.get("iterations") or ()
        measured_ns = sum(
            entry.get("measure_end_ns", 0) - entry.get("measure_start_ns", 0) for entry in entries
        )
        overhead[record.id] = waiting_s + max(0.0, length_s - measured_ns / 1e9)
        waiting_s = 0.0
    return overhead


def _findings(totals: Sequence[Cell], trials: Sequence[TrialFacts]) -> tuple[Finding, ...]:
    """Return one finding for each label in the run, and for what was planned and did not run."""
    findings = []
    missing = tuple(trial.trial for trial in trials if trial.state == "not run")
    if missing:
        text = f"{len(missing)} of {len(trials)} planned trials did not run"
        findings.append(Finding(rule="NOT RUN", severity="problem", statement=text, cases=missing))
    for label in dict.fromkeys(label for cell in totals for label in cell.labels):
        cases = tuple(cell.name for cell in totals if label in cell.labels)
        text = f"{explain(label)} ({len(cases)} of {len(totals)} results)"
        findings.append(Finding(rule=label, severity=severity(label), statement=text, cases=cases))
    return tuple(findings)


def _in_order(of_labels: Sequence[Finding], judged: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return all findings, the gravest first; what a rule says in full, no label says again."""
    rules = {finding.rule for finding in judged}
    said = {label for label, rule in SAID_BY_RULES.items() if rule in rules}
    kept = [finding for finding in of_labels if finding.rule not in said]
    order: tuple[Severity, ...] = ("problem", "caution", "note")
    return tuple(sorted([*kept, *judged], key=lambda finding: order.index(finding.severity)))
