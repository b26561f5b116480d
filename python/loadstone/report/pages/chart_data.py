"""The data of a run's charts: plain values in the units of analysis.

Times are nanoseconds, rates are per second, elapsed times seconds; points over time have five
digits. Keys are those of the JSON report.
"""

import importlib.util
from collections.abc import Iterable, Mapping, Sequence
from string import ascii_uppercase
from typing import Any

from loadstone import units
from loadstone.analysis import Findings
from loadstone.analysis.accounts.account import KnownCeiling
from loadstone.analysis.answers.answer import LOADS, Answer
from loadstone.analysis.audits import Audited
from loadstone.analysis.cells.sessions import ACTIONS_MAX, TimedAction, read_session_actions
from loadstone.analysis.instrument.resources import RESOURCES, ResourceSeries
from loadstone.analysis.judgements.result import Result
from loadstone.analysis.judgements.standing import Standing, standing_of
from loadstone.analysis.limits.exporter_series import ExporterMetric, ExporterSeries
from loadstone.analysis.limits.measured_ceilings import ceilings_of
from loadstone.analysis.limits.searches import CapacitySearch
from loadstone.analysis.limits.target_state import ending, is_good
from loadstone.analysis.naming import describe_parameters, describe_size, number_in
from loadstone.analysis.statistics.latency import Latency
from loadstone.analysis.statistics.mean import Mean
from loadstone.campaign.parameters import whole_parameter
from loadstone.campaign.schema.target import SYSTEM
from loadstone.documents.summary import AuditCall, AuditFinding
from loadstone.report.result_words import operation_words
from loadstone.report.tables.capacity import STALLED
from loadstone.results.audits import UNANSWERED, call_words
from loadstone.results.record import Record, Run

CURVE_POINTS_MAX = 4000
SECONDS_MIN = 3
"""A trial that took less has no shape over time."""

PROOFS_MAX = 4
DRAWN_QUANTILES = ("p50", "p90", "p95", "p99", "p99_9")

SWEPT_FIRST = (*LOADS, "hosts", "buckets", "containers", "fill_percent", "fill_bytes")
SWEPT_VALUES_MIN = 3


def chart_data(
    run: Run, findings: Findings, answer: Answer, rounds: Sequence[Result], *, counted: str
) -> dict[str, Any]:
    """Return the data of charts; `counted` is the unit of rates: request, or action.

    `rounds` holds the results of single rounds, if there are several.
    """
    every = [*answer.results, *rounds]
    points = sum(len(result.headline.curve_ns) for result in every if result.headline is not None)
    step = max(1, -(-points // CURVE_POINTS_MAX))
    return {
        "counted": counted,
        "targets": list(dict.fromkeys(result.target for result in answer.results)),
        "client": findings.client,
        "load": load_axis([result.parameters for result in answer.results]),
        "results": [result_row(result, None, step) for result in answer.results],
        "rounds": [result_row(result, result.round, step) for result in rounds],
        "curves": [
            {"result": answer.results.index(result), "point": name}
            for curve in answer.curves
            for name, result in curve.points
        ],
        "ceilings": [ceiling_row(ceiling) for ceiling in ceilings_of(findings.ceilings)],
        "searches": [_search(search) for search in findings.searches],
        "sessions": session_data(run) if findings.actions else None,
        "proofs": [proof_data(finding) for finding in _proven(findings.audits)],
        **_over_time(findings),
    }


def load_axis(cases: Sequence[Mapping[str, object]]) -> str | None:
    """Return the parameter of the load that varies.

    Without one, another number with three values or more.
    """
    names = dict.fromkeys([*SWEPT_FIRST, *(name for case in cases for name in case)])
    for name in names:
        values = {number_in(case.get(name)) for case in cases} - {None}
        if name not in ("size", SYSTEM) and len(values) >= (
            2 if name in LOADS else SWEPT_VALUES_MIN
        ):
            return name
    return None


def ceiling_row(ceiling: KnownCeiling) -> dict[str, Any]:
    """Return a ceiling as drawn, of all that work side by side."""
    times = f"{ceiling.count} × " if ceiling.count > 1 else ""
    inferred = ", inferred" if times and ceiling.is_count_inferred else ""
    return {
        "name": f"{times}{ceiling.name}{inferred}",
        "targets": list(ceiling.targets),
        "bounds": ceiling.bounds,
        "limit": short(ceiling.limit),
        "low": None if ceiling.low is None else short(ceiling.low * ceiling.count),
        "high": None if ceiling.high is None else short(ceiling.high * ceiling.count),
    }


def result_row(result: Result, round_: int | None, step: int) -> dict[str, Any]:
    """Return a result as charts show it; every `step`th point of its curve is kept."""
    times = result.headline
    return drawn_row(
        target=result.target,
        operation=operation_words(result),
        workload=result.workload,
        parameters=result.parameters,
        round_=round_,
        rate=result.rate,
        trial_rates=[trial.requests_per_s for trial in result.trial_rates],
        standing=result.standing,
        limit=result.limit_words,
    ) | {
        "trials": list(result.trials),
        "bytes_per_s": result.bytes_per_s,
        **({} if times is None else {name: times.quantiles[name] for name in DRAWN_QUANTILES}),
        "max": None if times is None else times.max_ns,
        "requests": result.requests,
        "failed": result.failed_if_stated,
        "curve": _curve(times, step),
    }


def drawn_row(
    *,
    target: str,
    operation: str,
    workload: str,
    parameters: Mapping[str, object],
    round_: int | None,
    rate: Mean,
    trial_rates: Iterable[float],
    standing: Standing,
    limit: str,
) -> dict[str, Any]:
    """Return what charts show of a rate, measured here or by others; nothing else is known."""
    size = parameters.get("size")
    return {
        "target": target,
        "operation": operation,
        "workload": workload,
        "size": whole_parameter(parameters, "size"),
        "size_words": size if isinstance(size, str) else _size_words(parameters),
        "parameters": plain_parameters(parameters),
        "words": describe_parameters({k: v for k, v in parameters.items() if k != SYSTEM}),
        "round": round_,
        "n": rate.n,
        "standing": standing,
        "is_bound": standing == "bound",
        "is_void": standing == "void",
        "limit": limit,
        # Exact: a number that is rounded twice may differ from the same one in a table.
        "rate": rate.value,
        "trial_rates": list(trial_rates),
        # Too few trials for an interval are shown one by one.
        "low": rate.low if rate.is_interval else None,
        "high": rate.high if rate.is_interval else None,
        **dict.fromkeys(("bytes_per_s", *DRAWN_QUANTILES, "max", "requests", "failed")),
        "curve": [],
    }


def _size_words(parameters: Mapping[str, object]) -> str | None:
    size = whole_parameter(parameters, "size")
    return None if size is None else describe_size(size)


def plain_parameters(parameters: Mapping[str, object]) -> dict[str, object]:
    """Return the parameters of a case, without its size, as plain values."""
    return {
        name: value if isinstance(value, (int, float, bool)) else str(value)
        for name, value in parameters.items()
        if name not in ("size", SYSTEM)
    }


def _curve(latency: Latency | None, step: int) -> list[list[float]]:
    if latency is None:
        return []
    curve = zip(latency.curve_shares[::step], latency.curve_ns[::step], strict=True)
    return [[short(1 / (1 - share)), value_ns] for share, value_ns in curve]


def _search(search: CapacitySearch) -> dict[str, Any]:
    return {
        "name": f"{search.name}: {search.objective}",
        "limit_ns": search.goal.latency_ns_max,
        "found": None if search.lower is None else short(search.lower),
        "steps": [
            {
                "step": number,
                "trial": step.trial,
                "stage": step.stage,
                "load": short(step.load),
                "words": search.describe_load(step.load),
                "rate": short(step.rate),
                "latency_ns": step.observation.latency_ns,
                "outcome": "meets the objective"
                if step.is_good
                else STALLED
                if step.is_left_out
                else "misses it",
            }
            for number, step in enumerate(search.steps, start=1)
        ],
    }


def _proven(audits: Sequence[Audited]) -> list[AuditFinding]:
    """Return the first findings, of each kind one before a second of any."""
    findings = [finding for audit in audits for finding in audit.findings if finding["calls"]]
    first = {finding["kind"]: finding for finding in reversed(findings)}
    others = [finding for finding in findings if finding is not first[finding["kind"]]]
    return [*reversed(first.values()), *others][:PROOFS_MAX]


def proof_data(finding: AuditFinding) -> dict[str, Any]:
    """Return the calls that prove a finding as bars, in nanoseconds since the first one began.

    Versions are numbers of many digits: they are A, B, … in the order in which calls name them.
    """
    calls = finding["calls"]
    versions = dict.fromkeys(version for call in calls if (version := _version(call)) is not None)
    letters: dict[int | None, str] = dict(zip(versions, ascii_uppercase, strict=False))
    start_ns = min(call["from_unix_ns"] for call in calls)
    ends_ns = [call["to_unix_ns"] for call in calls if call["outcome"] != UNANSWERED]
    last_ns = max([*ends_ns, *(call["from_unix_ns"] for call in calls)])
    return {
        "title": f"{finding['kind']}: {finding['bucket']}/{finding['key']}",
        "replay": finding.get("replay"),
        "calls": [
            {
                "lane": _lane(call),
                "operation": call["operation"],
                "label": f"{call['operation']} {letters.get(_version(call), call['outcome'])}",
                "words": call_words(call),
                "begin": call["from_unix_ns"] - start_ns,
                "end": min(call["to_unix_ns"], last_ns) - start_ns,
            }
            for call in calls
        ],
    }


def _lane(call: AuditCall) -> str:
    if call.get("client") is not None:
        return f"client {call['client']}"
    return f"trial {call['trial']}" if call.get("trial") else "audit"


def _version(call: AuditCall) -> int | None:
    """Return the version that a call wrote or read, where its answer says so."""
    return call.get("version") if call["outcome"] == "ok" else None


def session_data(run: Run) -> dict[str, Any] | None:
    """Return the sessions of the first trial whose log identifies them."""
    # A host that reports alone may have no Arrow to read the log with.
    for record in run.records if importlib.util.find_spec("pyarrow") else ():
        actions = read_session_actions(record)
        if actions:
            return _timed(record, actions)
    return None


def _timed(record: Record, actions: Sequence[TimedAction]) -> dict[str, Any]:
    begun_ns = min(action.sent_ns for action in actions)
    failures = sum(action.outcome != "ok" for action in actions)
    marked = f"{failures:,} of them failed, each crossed" if failures else "none failed"
    lanes = len({action.session for action in actions})
    case = [str(record.trial["case"]["target"])]
    if record.trial["case"]["parameters"]:
        case.append(describe_parameters(record.trial["case"]["parameters"]))
    return {
        "caption": (
            f"Trial {record.id} ({', '.join(case)}): the first actions, at most {ACTIONS_MAX}, of"
            f" {units.counted(lanes, 'session')}, from their log of requests. A bar is an action,"
            " from its first request to the end of its last; between bars the session waited for"
            f" a client. {units.counted(len(actions), 'action')}; {marked}."
        ),
        "actions": [
            {
                "lane": f"session {action.session}",
                "action": action.action,
                "begin": short((action.sent_ns - begun_ns) / 1e9),
                "end": short((action.ended_ns - begun_ns) / 1e9),
                "outcome": action.outcome,
            }
            for action in actions
        ],
    }


def _over_time(findings: Findings) -> dict[str, Any]:
    void = {trial.trial for trial in findings.trials if standing_of(trial.labels)[0] == "void"}
    lengths = {trial.trial: trial.duration_s or 0.0 for trial in findings.trials}
    long = {name for name, length_s in lengths.items() if length_s >= SECONDS_MIN}
    measured = {line.trial for line in findings.timelines}
    return {
        "short_trials": len(measured - long),
        "seconds_min": SECONDS_MIN,
        "timelines": [
            {
                "trial": line.trial,
                "target": line.target,
                "operation": line.operation,
                "round": line.round,
                "block": line.block,
                "is_void": line.trial in void,
                "step_s": line.rate_step_s,
                "latency_step_s": line.latency_step_s,
                "rates": [
                    [short(p.elapsed_s), short(p.requests_per_s)]
                    + [short(p.bytes_per_s)] * bool(findings.ceilings)
                    for p in line.rates
                ],
                "latencies": [[short(p.elapsed_s), p.p50_ns, p.p99_ns] for p in line.latencies],
                "errors": [[short(p.elapsed_s), p.kind, short(p.per_s)] for p in line.errors],
            }
            for line in findings.timelines
            if line.trial in long
        ],
        "resource_kinds": {
            name: {"title": resource.title, "unit": resource.unit}
            for name, resource in RESOURCES.items()
        },
        "resources": [
            {
                "trial": resource.trial,
                "kind": resource.resource,
                "host": resource.host,
                "subject": resource.subject,
                "points": [
                    [
                        short(point.elapsed_s - resource.begin_s),
                        short(_within(point.value, resource)),
                    ]
                    for point in resource.points
                ],
            }
            for resource in findings.resources
            if resource.trial in long
        ],
        "exporters": list(_exporters(findings, long)),
        "marks": list(_marks(findings, long)),
    }


def _exporters(findings: Findings, long: set[str]) -> Iterable[dict[str, Any]]:
    """Return metrics of the target's exporters on each trial's clock."""
    exporters = findings.exporters
    begins: dict[str, float] = {}
    for line in (line for metric in exporters.metrics for line in metric.lines):
        first = line.points[0].elapsed_s
        begins[line.trial] = min(first, begins.get(line.trial, first))
    begins |= {resource.trial: resource.begin_s for resource in findings.resources}
    for metric in exporters.metrics:
        yield {
            "name": f"target-{metric.probe}-{metric.metric}".replace(":", "-").replace("_", "-"),
            "title": f"{metric.metric} (probe {metric.probe})",
            "unit": metric.unit,
            "remark": _remark(metric)
            + (_others(exporters) if metric is exporters.metrics[-1] else ""),
            "lines": [
                {
                    "trial": line.trial,
                    "host": line.host,
                    "subject": line.name,
                    "points": [
                        [
                            short(point.elapsed_s - begins[line.trial]),
                            short(point.value),
                        ]
                        for point in line.points
                    ],
                }
                for line in metric.lines
                if line.trial in long
            ],
        }


def _within(value: float, series: ResourceSeries) -> float:
    """Return a share as at most 100 %: its two clocks are read one after the other."""
    return min(value, 100.0) if RESOURCES[series.resource].unit.startswith("%") else value


def _remark(metric: ExporterMetric) -> str:
    drawn = len({(line.host, line.name) for line in metric.lines})
    if drawn == metric.series:
        return ""
    return f" Of its {metric.series} series, the {drawn} that moved most."


def _others(exporter_series: ExporterSeries) -> str:
    words = []
    if exporter_series.others:
        words.append(f"{exporter_series.others} more metrics moved less")
    if exporter_series.still:
        words.append(f"{exporter_series.still} did not change")
    return f" Not drawn: {', '.join(words)}; the run folder has all of them." if words else ""


def _marks(findings: Findings, long: set[str]) -> Iterable[Mapping[str, Any]]:
    """Return each hook that ran during a trial, on the trial's clock."""
    facts = {trial.trial: trial for trial in findings.trials if trial.trial in long}
    for entry in findings.hooks:
        fact = facts.get(entry.get("trial") or "")
        if fact is None or fact.started_unix_ns is None or entry["state"] == "not reached":
            continue
        elapsed_s = (entry["started_unix_ns"] - fact.started_unix_ns) / 1e9
        # Those before the load, and those of an earlier attempt, lie outside.
        if 0 <= elapsed_s <= (fact.duration_s or 0):
            words = entry["hook"] if is_good(entry) else f"{entry['hook']}: {ending(entry)}"
            yield {"trial": fact.trial, "elapsed_s": short(elapsed_s), "words": words}


def short(value: float) -> float:
    """Return a number with five significant digits, to keep pages small."""
    return float(f"{value:.5g}")
