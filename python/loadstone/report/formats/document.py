"""The JSON report: every number of the findings, for programs. Its schema is published.

`results` are what every report shows first: all rounds and iterations of a case added up.

An absent number is null. Times are integer nanoseconds, rates per second, sizes bytes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final, TypeVar, cast

from pydantic_core import to_json

from loadstone.analysis import Findings, TrialFacts
from loadstone.analysis.answers.answer import Contention, contentions
from loadstone.analysis.audits import Audited, upper_bound
from loadstone.analysis.cells.actions import CRYPTOGRAPHY, ActionCell
from loadstone.analysis.cells.queries import Arm, QueryResults, QueryTimes
from loadstone.analysis.cells.query_streams import StreamRuns
from loadstone.analysis.judgements.result import Result
from loadstone.analysis.limits.interventions import InterventionEffect
from loadstone.analysis.limits.measured_ceilings import MeasuredCeiling
from loadstone.analysis.limits.searches import CapacitySearch
from loadstone.analysis.limits.verdict import Verdict
from loadstone.analysis.statistics.latency import Latency
from loadstone.analysis.statistics.mean import Mean
from loadstone.documents.report import (
    JsonReport,
    ReportAudit,
    ReportAuditFinding,
    ReportCeiling,
    ReportContention,
    ReportHistory,
    ReportHook,
    ReportIntervention,
    ReportMistake,
    ReportSearch,
    ReportSearchObjective,
    ReportSearchStep,
    ReportTrial,
)
from loadstone.documents.report.result import (
    ReportClient,
    ReportEvidence,
    ReportInstrument,
    ReportLatency,
    ReportObservation,
    ReportResult,
    ReportSpread,
    ReportTrialRate,
    ReportVerdict,
)
from loadstone.documents.report.workloads import (
    ReportAction,
    ReportArm,
    ReportQueries,
    ReportQuery,
    ReportQueryArm,
    ReportQueryLoad,
    ReportQueryStreams,
    ReportReplay,
)
from loadstone.documents.summary import AuditCall, AuditFinding
from loadstone.report.formats.tabular import SPREAD_IS
from loadstone.report.next_step import deciding_step
from loadstone.report.options import Options
from loadstone.results.audits import UNANSWERED
from loadstone.results.record import Run

FORMAT: Final = 1

Document = TypeVar("Document")


def render(run: Run, findings: Findings, options: Options) -> bytes:
    """Return the JSON report, indented, its keys in a fixed order."""
    # The standard library indents in Python code, which takes nine times as long.
    return to_json(document(run, findings), indent=2, inf_nan_mode="null") + b"\n"


def document(run: Run, findings: Findings) -> JsonReport:
    """Return the JSON report as plain values."""
    manifest = run.manifest
    return {
        "format": FORMAT,
        "run": {
            "id": manifest.get("run"),
            "name": run.name,
            "state": cast("Any", run.state),
            "seed": manifest.get("seed"),
            "started": manifest.get("started"),
            "ended": manifest.get("ended"),
            "loadstone": manifest.get("loadstone"),
            "versions": manifest.get("versions") or {},
            "host": {**(manifest.get("host") or {})},
            "nodes": manifest.get("nodes") or {},
        },
        "results": [_result(run, item) for item in findings.results],
        "rounds": [_result(run, item) for item in findings.rounds],
        "iterations": [_result(run, item) for item in findings.iterations],
        "mixes": [_result(run, item) for item in findings.mixes],
        "trials": [_trial(trial) for trial in findings.trials],
        "contention": [
            _contention(item) for item in contentions(findings.results, findings.trials)
        ],
        "ceilings": [_ceiling(item) for item in findings.ceilings],
        "cards": manifest.get("cards") or {},
        "hooks": [cast("ReportHook", dict(entry)) for entry in findings.hooks],
        "searches": [_search(search) for search in findings.searches],
        "queries": None if findings.queries is None else _queries(findings.queries),
        "actions": [_action(action) for action in findings.actions],
        "action_groups": [_action(item) for item in findings.action_groups],
        "action_totals": [_action(item) for item in findings.action_totals],
        "replays": [_filled(ReportReplay, replay) for replay in findings.replays],
        "interventions": [_change(change) for change in findings.changes],
        "findings": [finding.to_json() for finding in findings.findings],
        "mistakes": [cast("ReportMistake", asdict(mistake)) for mistake in findings.mistakes],
        "audit": _audit(findings.audits) if findings.audits else None,
        "audits": [_audit([audit]) for audit in findings.audits],
    }


def _audit(audits: Sequence[Audited]) -> ReportAudit:
    """Return what audits found together."""
    read_back, wrong = (
        sum(getattr(audit, name) for audit in audits) for name in ("read_back", "wrong")
    )
    return {
        "trials": [audit.trial for audit in audits],
        "acknowledged": sum(audit.acknowledged for audit in audits),
        "read_back": read_back,
        "unknown": sum(audit.unknown for audit in audits),
        "unanswered": sum(audit.unanswered for audit in audits),
        "listings_failed": sum(audit.listings_failed for audit in audits),
        "wrong": wrong,
        "wrong_share_max": upper_bound(wrong, read_back) if read_back else None,
        "is_whole": all(audit.is_whole for audit in audits),
        "histories": [_history(audit) for audit in audits if audit.history],
        "findings": [
            _audit_finding(audit, finding) for audit in audits for finding in audit.findings
        ],
    }


def _history(audit: Audited) -> ReportHistory:
    return cast("ReportHistory", {"audit": audit.trial, **(audit.history or {})})


def _audit_finding(audit: Audited, finding: AuditFinding) -> ReportAuditFinding:
    place = {"target": audit.target, "audit": audit.trial, "times": 1}
    unknown = dict.fromkeys(("size_bytes", "replay"))
    calls = [_audit_call(call) for call in finding["calls"]]
    return cast("ReportAuditFinding", {**place, **unknown, **finding, "calls": calls})


def _audit_call(call: AuditCall) -> dict[str, Any]:
    unknown = dict.fromkeys(("trial", "version", "expected", "client"))
    ended_ns = None if call["outcome"] == UNANSWERED else call["to_unix_ns"]
    return {**unknown, **call, "to_unix_ns": ended_ns}


def _filled(kind: type[Document], source: object, **others: object) -> Document:
    """Return a document whose keys are attributes of `source`, but for those in `others`.

    Times are attributes without their unit: `service_ns` is `source.service`.
    """
    keys = kind.__annotations__
    return cast(
        "Document",
        {
            key: others[key]
            if key in others
            else _plain(getattr(source, key if hasattr(source, key) else key.removesuffix("_ns")))
            for key in keys
        },
    )


def _plain(value: Any) -> Any:
    match value:
        case Latency():
            return _latency(value)
        case tuple():
            return list(value)
        case Mapping():
            return dict(value)
    return value


def _queries(results: QueryResults) -> ReportQueries:
    return {
        "arms": [
            _filled(
                ReportQueryArm,
                arm,
                **_arm(arm.arm),
                total_s=arm.total_s if arm.is_whole else None,
                geometric_mean_s=arm.geometric_mean_s if arm.is_whole else None,
                right=sum(bool(query.by_block) and not query.failures for query in arm.queries),
                queries=[_query(query) for query in arm.queries],
            )
            for arm in results.arms
        ],
        "streams": [_streams(runs) for runs in results.streams],
        "loads": [cast("ReportQueryLoad", asdict(load)) for load in results.loads],
    }


def _query(query: QueryTimes) -> ReportQuery:
    return _filled(
        ReportQuery,
        query,
        seconds_spread=_spread(query.time),
        compared=query.is_compared,
        memory_stalled=query.memory.stalled,
        memory_peak_bytes=query.memory.peak_bytes,
        major_faults=query.memory.major_faults,
        spilled_bytes=query.memory.spilled_bytes,
        reread_bytes=query.memory.reread_bytes,
        limit=query.limit or None,
        limit_evidence=query.evidence or None,
    )


def _arm(arm: Arm) -> ReportArm:
    names = dict(arm)
    return {
        "target": names["target"],
        "engine": names["engine"],
        "cache": names.get("cache"),
        "threads": names.get("threads"),
    }


def _streams(runs: StreamRuns) -> ReportQueryStreams:
    rate = runs.rate
    return _filled(
        ReportQueryStreams,
        runs,
        **_arm(runs.arm),
        elapsed_s=[runs.elapsed_s[block] for block in sorted(runs.elapsed_s)],
        queries_per_hour=rate.value if rate is not None else None,
        queries_per_hour_spread=_spread(rate),
        queries_per_hour_by_run=runs.rates,
        compared=runs.is_compared,
        failures=[
            {"query": query, "outcome": outcome, "count": count,
             "message": runs.messages[query, outcome]}
            for (query, outcome), count in runs.failures.items()
        ],
        stream_s={str(stream): seconds for stream, seconds in runs.by_stream_s.items()},
        query_mean_s=dict(runs.mean_s),
    )  # fmt: skip


def _action(action: ActionCell) -> ReportAction:
    cell = action.cell
    return _filled(
        ReportAction,
        cell,
        action=action.action,
        space=action.space,
        user_type=action.user_type,
        actions=cell.requests,
        good_actions=cell.good,
        failed_actions=cell.failed,
        unwritten_actions=cell.unwritten,
        requests=cell.objects,
        completed_per_s=action.completed_per_s,
        busy_per_s=action.busy_per_s,
        crypto_share=action.crypto_share,
        completed_per_s_spread=_spread(cell.rate) if action.completed_per_s else None,
        **{f"{name}_ns": _latency(getattr(action, name)) for name in CRYPTOGRAPHY},
    )


def _contention(contention: Contention) -> ReportContention:
    result = contention.result
    return _filled(
        ReportContention,
        result,
        wins=result.good,
        wins_per_s=result.requests_per_s,
        tries_per_win=contention.tries_per_win,
        win_ns=_latency(result.headline),
        fairness=contention.fairness,
    )


def _result(run: Run, cell: Result) -> ReportResult:
    return _filled(
        ReportResult,
        cell,
        load=_load(cell),
        good_requests=cell.good,
        failed_requests=cell.failed_if_stated,
        unwritten_requests=cell.unwritten,
        error_example=cell.example or None,
        requests_per_s_spread=_spread(cell.rate),
        bytes_per_s_spread=_spread(cell.byte_rate),
        trial_rates=[_filled(ReportTrialRate, rate) for rate in cell.trial_rates],
        client=_filled(ReportClient, cell.client),
        instrument=_instrument(cell),
        verdict=None if cell.verdict is None else _verdict(run, cell.verdict),
    )


def _load(cell: Result) -> dict[str, Any]:
    """Return how requests arrived; clients are null where another tool's file does not say them."""
    is_closed = cell.load.get("kind") == "closed"
    absent = {"clients": None} if is_closed and "clients" not in cell.load else {}
    return {**cell.load, **absent}


def _verdict(run: Run, verdict: Verdict) -> ReportVerdict:
    return _filled(
        ReportVerdict,
        verdict,
        next=deciding_step(run, verdict),
        observations=[_filled(ReportObservation, state) for state in verdict.observations],
        evidence=[_filled(ReportEvidence, item) for item in verdict.evidence],
    )


def _instrument(cell: Result) -> ReportInstrument:
    share = cell.instrument
    return {
        "share_of_ceiling": share.share if share is not None else None,
        "ceiling_requests_per_s": share.ceiling_per_s if share is not None else None,
        "ceiling_basis": share.basis if share is not None else None,
        "ceiling_extended": share.is_extended if share is not None else None,
        "calibration_age_s": share.age_s if share is not None else None,
        "no_ceiling": cell.no_ceiling or None,
        "hiccup_ns_p99_9": cell.jitter.hiccup_ns_p99_9,
        "hiccup_ns_max": cell.jitter.hiccup_ns_max,
        "run_delay_share": cell.jitter.run_delay_share,
    }


def _spread(mean: Mean | None) -> ReportSpread | None:
    if mean is None or not mean.is_spread:
        return None
    return {
        "kind": SPREAD_IS[mean.is_interval],
        "low": mean.low,
        "high": mean.high,
        "n": mean.n,
        "days": mean.days,
    }


def _latency(latency: Latency | None) -> ReportLatency | None:
    if latency is None:
        return None
    times = {
        "count": latency.count,
        **latency.quantiles,
        "max": latency.max_ns,
        "mean": latency.mean_ns,
        "min": latency.min_ns,
        "unresolved": dict(latency.unresolved),
        "at_least": dict(latency.at_least),
    }
    return cast("ReportLatency", times)


def _change(change: InterventionEffect) -> ReportIntervention:
    return {
        "changed": change.kind,
        "case": change.base.name,
        "operation": change.base.operation,
        "base_trials": list(change.base.trials),
        "trials": list(change.changed.trials),
        "base_requests_per_s": change.base_rate,
        "requests_per_s": change.changed_rate,
        "ratio": change.ratio.ratio,
        "ratio_low": change.ratio.low,
        "ratio_high": change.ratio.high,
        "n": change.ratio.n_a,
    }


def _search(search: CapacitySearch) -> ReportSearch:
    rate = search.rate
    return _filled(
        ReportSearch,
        search,
        search=search.trial,
        confirmed=search.is_confirmed,
        doubted=search.is_doubted,
        over=search.is_over,
        objective=_filled(ReportSearchObjective, search.goal, quantile=search.quantile),
        holds_at=search.lower,
        fails_at=search.upper,
        requests_per_s=None if rate is None else rate.value,
        requests_per_s_spread=_spread(rate),
        latency_ns=search.latency_ns,
        steps=[
            _filled(
                ReportSearchStep,
                step.observation,
                trial=step.trial,
                stage=step.stage,
                load=step.load,
                duration_s=step.duration_s,
                requests_per_s=step.rate,
                left_out=step.is_left_out,
                good=step.is_good,
            )
            for step in search.steps
        ],
    )


def _ceiling(ceiling: MeasuredCeiling) -> ReportCeiling:
    return _filled(
        ReportCeiling,
        ceiling,
        bytes_per_s_min=ceiling.low,
        bytes_per_s_max=ceiling.high,
        bytes_per_second=list(ceiling.seconds),
        commands=[list(words) for words in ceiling.commands],
    )


def _trial(trial: TrialFacts) -> ReportTrial:
    return _filled(
        ReportTrial,
        trial,
        measured=trial.is_measured,
        hiccup_ns_p99_9=trial.jitter.hiccup_ns_p99_9,
        hiccup_ns_max=trial.jitter.hiccup_ns_max,
        run_delay_share=trial.jitter.run_delay_share,
        hosts=[dict(host) for host in trial.hosts],
    )
