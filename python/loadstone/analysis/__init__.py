"""Run → Findings: pure functions; nothing here prints, draws or writes.

`analyse` is the one way in. A finding is a field of `Findings`, made by one module of this folder
from a Run alone, so that all of them can be made again from the run folder at any time.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from loadstone.analysis.accounts.account import Account
from loadstone.analysis.audits import Audited, read_audits, with_failed
from loadstone.analysis.cells import timeline
from loadstone.analysis.cells.actions import ActionCell
from loadstone.analysis.cells.cell import in_order
from loadstone.analysis.cells.fidelity import Fidelity, read_fidelity
from loadstone.analysis.cells.little import little_of
from loadstone.analysis.grouping import grouped_pairs
from loadstone.analysis.instrument import resources
from loadstone.analysis.judgements.finding import Finding, by_severity
from loadstone.analysis.judgements.judgement import judge_measured
from loadstone.analysis.judgements.labels import error_sentences
from loadstone.analysis.judgements.object_counts import ObjectCounts
from loadstone.analysis.judgements.result import Result
from loadstone.analysis.judgements.trial_findings import (
    describe_steadiness,
    judge,
    loads_of,
)
from loadstone.analysis.limits.exporter_series import ExporterSeries, ExporterWatch
from loadstone.analysis.limits.interventions import InterventionEffect
from loadstone.analysis.limits.measured_ceilings import MeasuredCeiling, read_measured_ceilings
from loadstone.analysis.limits.searches import CapacitySearch, read_searches
from loadstone.analysis.measured.reading import Measured, read_tables
from loadstone.analysis.measured.trial_facts import TrialFacts, facts_of
from loadstone.analysis.standards import linter
from loadstone.analysis.standards.linter import MistakeResult, Outcome
from loadstone.analysis.statistics.repetitions import advise
from loadstone.campaign.planning.kinds import QUERIES, kind_of
from loadstone.documents.manifest import HostFacts
from loadstone.results.hook_log import HookEntry
from loadstone.results.record import Run

if TYPE_CHECKING:
    from loadstone.analysis.cells.queries import QueryResults

__all__ = ["Findings", "TrialFacts", "analyse"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The analysis of one run, from which every report is made.

    `results` are the operations of each case over all rounds and iterations; `rounds` and
    `iterations` each of these by itself, and `mixes` phases of several operations as the operation
    "all". `account` is a view of the results for comparisons. Of a search, only confirming trials
    are among them; all are in `searches`. `hooks` is the log of the campaign's commands, `client`
    the host of the load, `exporters` the metrics of the targets' exporters, `mistakes` the checks
    for common mistakes, and `audits` the results of read-backs. `actions` are those of scripts by
    round, `action_groups` by kind of space and type of user, `action_cases` over all rounds, and
    `action_totals` all actions of a case; `replays` compares them with their trace. `targets` are
    in the campaign's order.
    """

    results: tuple[Result, ...]
    rounds: tuple[Result, ...]
    iterations: tuple[Result, ...]
    mixes: tuple[Result, ...]
    account: Account
    trials: tuple[TrialFacts, ...]
    timelines: tuple[timeline.Timeline, ...]
    resources: tuple[resources.ResourceSeries, ...]
    findings: tuple[Finding, ...]
    searches: tuple[CapacitySearch, ...] = ()
    changes: tuple[InterventionEffect, ...] = ()
    ceilings: tuple[MeasuredCeiling, ...] = ()
    hooks: tuple[HookEntry, ...] = ()
    client: str = "the client"
    exporters: ExporterSeries = field(default_factory=ExporterSeries)
    mistakes: tuple[MistakeResult, ...] = ()
    queries: "QueryResults | None" = None
    actions: tuple[ActionCell, ...] = ()
    action_groups: tuple[ActionCell, ...] = ()
    action_cases: tuple[ActionCell, ...] = ()
    action_totals: tuple[ActionCell, ...] = ()
    targets: tuple[str, ...] = ()
    replays: tuple[Fidelity, ...] = ()
    audits: tuple[Audited, ...] = ()

    @property
    def has_rounds(self) -> bool:
        """Whether results are of several rounds, which stand in `rounds` by themselves."""
        return len({result.round for result in self.rounds}) > 1


def analyse(run: Run, *, courses: bool = True) -> Findings:
    """Return the findings of a run, or of the runs that it was merged from.

    Without `courses`, `timelines`, `resources` and `exporters` are empty.
    """
    if run.members:
        return _joined(run, [analyse(member, courses=courses) for member in run.members])
    return _analysed(run, courses=courses)


JOINED = (
    "trials", "timelines", "resources", "searches", "changes", "ceilings", "hooks", "actions",
    "action_groups", "action_cases", "action_totals", "replays", "audits",
)  # fmt: skip
"""Findings of which several runs have all of each run."""


def _joined(run: Run, members: Sequence["Findings"]) -> Findings:
    targets = list((run.manifest.get("campaign") or {}).get("targets") or ())

    def ordered(kind: str) -> tuple[Result, ...]:
        return in_order((cell for member in members for cell in getattr(member, kind)), targets)

    def every(kind: str) -> tuple[Any, ...]:
        return tuple(entry for member in members for entry in getattr(member, kind))

    joined: dict[str, Any] = {kind: every(kind) for kind in JOINED}
    joined |= {kind: ordered(kind) for kind in ("results", "rounds", "iterations", "mixes")}
    return Findings(
        **joined,
        account=replace(
            members[0].account,
            name=run.name,
            measurements=tuple(m for member in members for m in member.account.measurements),
        ),
        findings=join_findings(
            {run.client: member.findings for run, member in zip(run.members, members, strict=True)}
        ),
        client=", ".join(member.client for member in members),
        targets=tuple(targets),
        exporters=join_exporters(member.exporters for member in members),
        mistakes=join_mistakes(
            {run.client: member.mistakes for run, member in zip(run.members, members, strict=True)}
        ),
    )


def _analysed(run: Run, *, courses: bool) -> Findings:
    audits = read_audits(run)
    run = with_failed(run, audits)
    measured = Measured()
    lines, series = list[timeline.Timeline](), list[resources.ResourceSeries]()
    facts: dict[str, TrialFacts] = {}
    rate_points = timeline.points_per_trial(run.records)
    probe_points = resources.points_per_trial(run.records)
    watch, under_load_s = ExporterWatch(), 0.0
    searches = read_searches(run)
    counts = ObjectCounts(run)
    for reading in read_tables(run, searches):
        record, intervals = reading.record, reading.intervals
        facts[record.id] = facts_of(record.trial, record, error_sentences(record, intervals))
        measured.add(reading)
        counts.note(record, intervals)
        if not reading.is_result:
            continue
        if reading.parts:
            facts[record.id] = replace(facts[record.id], little=little_of(reading.parts))
        if courses:
            quantities = reading.quantities
            lines.extend(timeline.read_timelines(record, intervals, rate_points))
            series.extend(resources.read_resources(record, quantities, under_load_s, probe_points))
            watch.look(record, quantities, under_load_s)
        under_load_s += facts[record.id].duration_s or 0
    judged = judge_measured(run, measured)
    advice = advise(judged.rounds, judged.iterations, _overhead_s(run, facts))
    trials = _with_missing(run, facts)
    view = replace(
        judged.view,
        run=run,
        trials=trials,
        searches=searches,
        advice=advice,
        miscounted=counts.wrong,
        queries=_queries(run, judged.results),
        audits=audits,
    )
    findings = judge(view)
    steadiness = describe_steadiness(findings) if loads_of(judged.parts) else None
    disclosure = replace(judged.account.disclosure, steadiness=steadiness)
    account = replace(judged.account, disclosure=disclosure)
    return Findings(
        results=judged.results,
        rounds=judged.rounds,
        iterations=judged.iterations,
        mixes=judged.mixes,
        account=account,
        trials=trials,
        timelines=tuple(lines),
        resources=tuple(series),
        findings=findings,
        searches=searches,
        ceilings=read_measured_ceilings(run),
        hooks=tuple(run.hooks),
        changes=judged.changes,
        client=_client(run),
        exporters=watch.chosen(probe_points),
        mistakes=linter.lint(account),
        queries=view.queries,
        actions=judged.actions.rounds,
        action_groups=judged.actions.groups,
        action_cases=judged.actions.cases,
        action_totals=judged.actions.together,
        targets=tuple(judged.targets),
        replays=read_fidelity(run, measured.actions),
        audits=audits,
    )


def _with_missing(run: Run, facts: Mapping[str, TrialFacts]) -> tuple[TrialFacts, ...]:
    """Return all planned trials in the plan's order, with those that never ran, and why."""
    reasons = {**(run.manifest.get("skipped") or {}), **(run.manifest.get("failed") or {})}
    missing = {
        doc["id"]: replace(facts_of(doc, None), reason=reasons.get(doc["id"]))
        for doc in run.plan
        if doc["id"] not in facts
    }
    return tuple(fact for _, fact in sorted(({**facts, **missing}).items()))


def _queries(run: Run, results: Sequence[Result]) -> "QueryResults | None":
    if all(kind_of(record.trial) != QUERIES for record in run.records):
        return None
    from loadstone.analysis.cells.queries import read_queries

    return read_queries(
        run, {trial: result.standing for result in results for trial in result.trials}
    )


def _client(run: Run) -> str:
    """Return the host of the load for an axis: "client-1 (16 cores)"."""
    host = run.manifest.get("host") or HostFacts()
    name = run.client or host.get("hostname") or host.get("name") or "the client"
    cores = (host.get("cpu") or {}).get("cores")
    return f"{name} ({cores} cores)" if cores else str(name)


def _overhead_s(run: Run, facts: Mapping[str, TrialFacts]) -> dict[str, float]:
    """Return the time of each trial besides the measured one: warm-up and preparation."""
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


WORST_FIRST: Sequence[Outcome] = ("fail", "not stated", "pass", "not applicable")


# Each run is judged by itself, with its own client's calibration, probes and ceilings; its
# results are distinguished by the parameter `client`. Clients ran at different times,
# so nothing is pooled over them, and no difference between them is called significant.
def join_findings(of_clients: Mapping[str, Sequence[Finding]]) -> tuple[Finding, ...]:
    """Join the findings of clients; equal ones are named once."""
    groups: dict[tuple[str, str], dict[str, Finding]] = {}
    for client, findings in of_clients.items():
        for finding in findings:
            groups.setdefault((finding.rule, finding.statement), {})[client] = finding
    joined = []
    for (_, statement), by_client in groups.items():
        first = next(iter(by_client.values()))
        cases = dict.fromkeys(case for finding in by_client.values() for case in finding.cases)
        if len(by_client) < len(of_clients):
            statement = f"{', '.join(by_client)}: {statement}"
        joined.append(replace(first, statement=statement, cases=tuple(cases)))
    return by_severity(joined)


def join_mistakes(of_clients: Mapping[str, Sequence[MistakeResult]]) -> tuple[MistakeResult, ...]:
    """Return each mistake with its worst outcome, and the client that made it."""
    groups: dict[str, dict[str, MistakeResult]] = {}
    for client, mistakes in of_clients.items():
        for mistake in mistakes:
            groups.setdefault(mistake.id, {})[client] = mistake
    joined = []
    for by_client in groups.values():
        client, worst = min(by_client.items(), key=lambda item: WORST_FIRST.index(item[1].outcome))
        is_same = len({(mistake.outcome, mistake.evidence) for mistake in by_client.values()}) == 1
        joined.append(worst if is_same else replace(worst, evidence=f"{client}: {worst.evidence}"))
    return tuple(joined)


def join_exporters(series: Iterable[ExporterSeries]) -> ExporterSeries:
    """Join exporters as each client saw them; lines of a metric stand side by side."""
    all_series = list(series)
    by_name = grouped_pairs(
        ((metric.probe, metric.metric), metric)
        for exporters in all_series
        for metric in exporters.metrics
    )
    return ExporterSeries(
        metrics=tuple(
            replace(same[0], lines=tuple(line for metric in same for line in metric.lines))
            for same in by_name.values()
        ),
        others=max((exporters.others for exporters in all_series), default=0),
        still=max((exporters.still for exporters in all_series), default=0),
    )
