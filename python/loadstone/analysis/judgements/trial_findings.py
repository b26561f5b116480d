"""Findings on single trials, and the list of all findings of a run."""

import math
import shlex
from collections.abc import Iterable, Iterator, Sequence

from loadstone import units
from loadstone.analysis import numbers
from loadstone.analysis.audits import find_audited, find_survivals
from loadstone.analysis.fills import find_missed
from loadstone.analysis.grouping import added_up, grouped_pairs
from loadstone.analysis.instrument.headroom import AGE_MAX_DAYS
from loadstone.analysis.instrument.own_ceiling import COUNTS_AS
from loadstone.analysis.instrument.stalls import find_stalls
from loadstone.analysis.judgements.contradictions import find_contradictions
from loadstone.analysis.judgements.fault_windows import find_failed_outside, find_faults_left
from loadstone.analysis.judgements.finding import Evidence, Finding, by_severity
from loadstone.analysis.judgements.host_findings import (
    find_lost_hosts,
    find_set_clocks,
    find_started_apart,
    find_uncertain_clocks,
    find_unequal,
)
from loadstone.analysis.judgements.labels import find_labels
from loadstone.analysis.judgements.left_out import find_left_out
from loadstone.analysis.judgements.object_counts import find_miscounted
from loadstone.analysis.judgements.query_findings import find_not_cold, find_wrong_answers
from loadstone.analysis.judgements.run_view import RunView
from loadstone.analysis.limits.measured_ceilings import find_left_behind
from loadstone.analysis.limits.searches import search_findings
from loadstone.analysis.limits.target_state import find_states
from loadstone.analysis.measured.part import Part
from loadstone.analysis.node_probes import find_of_probes, find_unlike
from loadstone.analysis.rules import find_rule, limit_in_words
from loadstone.analysis.statistics import change_points, steadiness
from loadstone.analysis.statistics.repetitions import advice_findings
from loadstone.campaign.drivers import facts_of
from loadstone.campaign.planning.kinds import QUERIES, QUERY, STREAMS, kind_of
from loadstone.documents.trial import TrialDocument
from loadstone.results.calibration import calibrated_operations, costs_of, usual_costs
from loadstone.results.record import Record, describe_refusal, refused

ROUND_S = 60
FLAGS = ("INSTRUMENT_CPU", "SHARED_HOST", "INSTRUMENT_MEM", "INSTRUMENT_SOCKETS", "CLIENT_NIC")


def judge(view: RunView) -> tuple[Finding, ...]:
    """Return all findings of a run, most severe first."""
    findings = [*_findings(view), *numbers.found_by(numbers.RULES, view.account)]
    rules = {finding.rule for finding in findings}
    labels = (finding for finding in find_labels(view.rounds) if finding.rule not in rules)
    return by_severity([*labels, *findings])


def _findings(view: RunView) -> Iterator[Finding]:
    """Yield the findings of trials, results and the run, in the order of reports."""
    records = view.run.records if view.run is not None else ()
    yield from find_audited(view.audits)
    yield from find_survivals(records)
    yield from find_faults_left(view.run)
    yield from find_failed_outside(view.run)
    yield from find_contradictions(view.contradictory)
    yield from find_stalls(view.measured.values())
    yield from find_lost_hosts(view)
    yield from find_started_apart(view)
    yield from find_uncertain_clocks(view)
    yield from find_set_clocks(view)
    yield from find_unequal(view)
    yield from find_states(records)
    yield from find_left_out(view)
    yield from find_limited(view)
    yield from find_missing(view)
    yield from find_empty(view)
    yield from find_left_behind(view.run.ceilings if view.run is not None else ())
    yield from find_miscounted(view.miscounted)
    yield from find_closed_connections(view.measured.values())
    yield from find_retries(records)
    yield from find_unlike(view)
    yield from find_missed(view)
    yield from find_of_probes(view)
    yield from find_wrong_answers(view)
    yield from find_not_cold(view)
    yield from find_unsteady(view)
    yield from find_uncalibrated(view.parts)
    yield from find_refusals(view.parts)
    yield from find_verdicts(view)
    yield from search_findings(view.searches)
    yield from advice_findings(view.advice)


def find_missing(view: RunView) -> Iterator[Finding]:
    """Report planned trials that did not run."""
    missing = tuple(trial.trial for trial in view.trials if trial.state == "not run")
    if missing:
        text = f"{len(missing)} of {len(view.trials)} planned trials did not run"
        yield Finding("NOT RUN", text, cases=missing)


def find_empty(view: RunView) -> Iterator[Finding]:
    """Report trials in whose measured time no request ended."""
    for empty in view.empty[:1]:
        window, shortest, enough = (
            units.format_duration(round(seconds * 1e9))
            for seconds in (empty.window_s, empty.shortest_s, 10 * math.ceil(empty.shortest_s))
        )
        more = f" (nor in {len(view.empty) - 1} more trials)" if len(view.empty) > 1 else ""
        yield Finding(
            "NOTHING ENDED",
            f"trial {empty.trial}: no request ended within {window}{more}; the shortest"
            f" took {shortest}: measure for {enough} or more",
            todo=f"Measure longer: -d {10 * math.ceil(empty.shortest_s)}s.",
            evidence=(Evidence("shortest request", empty.shortest_s, empty.window_s, unit="s"),),
            cases=tuple(empty.trial for empty in view.empty),
        )


def loads_of(parts: Sequence[Part]) -> list[Part]:
    """Return the parts whose load is ours: engines run queries by themselves, and once each."""
    return [part for part in parts if kind_of(part.record.trial) != QUERIES]


def find_unsteady(view: RunView) -> Iterator[Finding]:
    """Report trials that never became steady, and those too short to tell."""
    parts = loads_of(view.parts)
    unsteady: list[tuple[str, str]] = []
    short = []
    for part in parts:
        name = f"trial {part.record.id} {part.operation}, iteration {part.iteration}"
        if part.rates.size < steadiness.ROUNDS * ROUND_S:
            short.append(name)
            if part.rates.size >= steadiness.BATCH**2 and not _is_plausibly_steady(part):
                kind = change_points.classify(part.rates)
                unsteady.append((name, f"{kind} within {part.rates.size} s"))
            continue
        if failures := steadiness.ls1(part.rates, round_s=ROUND_S, seed=1):
            unsteady.append((name, f"not steady: {'; '.join(failures)}"))
    if unsteady:
        listed = "; ".join(f"{name}: {why}" for name, why in unsteady[:3])
        yield Finding(
            "not-steady",
            f"{len(unsteady)} of {len(parts)} stretches did not settle ({listed})",
            evidence=tuple(Evidence("steadiness", why) for _, why in unsteady),
            cases=tuple(name for name, _ in unsteady),
        )
    if short:
        yield Finding(
            "too-short-for-steadiness",
            f"{len(short)} of {len(parts)} measured stretches are shorter than the"
            f" {steadiness.ROUNDS} rounds of {ROUND_S} s that a claim of steadiness needs",
            evidence=(
                Evidence(
                    "seconds measured",
                    float(min(part.rates.size for part in parts)),
                    float(steadiness.ROUNDS * ROUND_S),
                    unit="s",
                ),
            ),
            cases=tuple(short[:10]),
        )


def describe_steadiness(findings: Sequence[Finding]) -> str | None:
    """Return whether the trials were steady; None where they were too short to tell."""
    statements = {finding.rule: finding.statement for finding in findings}
    if "not-steady" in statements:
        return f"not steady: {statements['not-steady']}"
    if "too-short-for-steadiness" in statements:
        return None
    return f"each trial was steady over {steadiness.ROUNDS} rounds of {ROUND_S} s"


def _is_plausibly_steady(part: Part) -> bool:
    """Tell whether a short stretch settles in its first half and stays on one level."""
    return (
        steadiness.mser5(part.rates).is_valid
        and change_points.classify(part.rates) != "no steady state"
    )


def find_limited(view: RunView) -> Iterator[Finding]:
    """Report the client's resources that reached a limit."""
    flags = view.flags
    for flag in FLAGS:
        trials = [name for name, trial_flags in flags.items() if flag in trial_flags]
        if not trials:
            continue
        evidence = tuple(item for name in trials for item in flags[name][flag])
        worst = evidence[0]
        yield Finding(
            flag,
            f"{find_rule(flag).says}: in {len(trials)} of {len(view.measured)} trials"
            f" ({worst.metric}: {_shown(worst.value)}, limit {_shown(worst.threshold)})",
            evidence=evidence,
            cases=tuple(f"trial {name}" for name in trials),
        )


def find_verdicts(view: RunView) -> Iterator[Finding]:
    """State the limit of each result; one finding per limit. Queries have limits of their own."""
    decided = [
        (result, result.verdict)
        for result in view.rounds
        if result.verdict is not None and result.operation not in (QUERY, STREAMS)
    ]
    groups = grouped_pairs(
        ((verdict.limit, verdict.grade), (result, verdict)) for result, verdict in decided
    )
    for (limit, grade), members in groups.items():
        example, first = members[0]
        graded = f" (grade {grade})" if grade else ""
        yield Finding(
            "verdict",
            f"{limit_in_words(limit)}{graded} in {len(members)} of {len(decided)} results,"
            f" such as {example.name}: {first.reason}",
            weight="note" if first.effect == "none" else "caution",
            evidence=tuple(item for _, verdict in members for item in verdict.evidence),
            cases=tuple(result.name for result, _ in members),
        )


def _shown(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


DAY_S = 86_400


def find_uncalibrated(parts: Sequence[Part]) -> Iterator[Finding]:
    """Report results without a calibrated ceiling, or with an old one."""
    parts = loads_of(parts)
    unknown = [part for part in parts if part.no_ceiling]
    if unknown:
        reasons = "; ".join(dict.fromkeys(part.no_ceiling for part in unknown))
        command = calibration_command(unknown)
        todo = f": run {command} before the next run" if command else ""
        share = f" of {len(unknown)} of {len(parts)} results" if len(unknown) < len(parts) else ""
        yield Finding(
            "not-calibrated",
            f"the load generator's own ceiling is not known{share} ({reasons}){todo}",
            todo=command,
            cases=tuple(dict.fromkeys(_name(part) for part in unknown)),
        )
    aged = [
        (part, part.instrument.age_s)
        for part in parts
        if part.instrument is not None and part.instrument.age_s > AGE_MAX_DAYS * DAY_S
    ]
    if aged:
        days = max(age_s for _, age_s in aged) / DAY_S
        command = calibration_command([part for part, _ in aged])
        yield Finding(
            "calibration-old",
            f"the load generator's own ceiling was measured {days:.0f} days before the run,"
            f" and counts for {AGE_MAX_DAYS}: run {command}",
            evidence=(Evidence("age", days, float(AGE_MAX_DAYS), unit="days"),),
            cases=tuple(dict.fromkeys(_name(part) for part, _ in aged)),
        )


def find_refusals(parts: Sequence[Part]) -> Iterator[Finding]:
    """Report kernel features that the host refused, and their replacements."""
    cases_of = grouped_pairs(
        (refusal, _name(part)) for part in parts for refusal in refused(part.record.summary).items()
    )
    for (name, reason), cases in cases_of.items():
        yield Finding(
            "kernel-feature",
            describe_refusal(name, reason),
            evidence=(Evidence(name, reason),),
            cases=tuple(dict.fromkeys(cases)),
        )


def calibration_command(parts: Sequence[Part]) -> str:
    """Return the command that calibrates the loads of these parts; empty if there is none."""
    trials = [part.record.trial for part in parts]
    drivers = _unique(trial["target"]["driver"] for trial in trials)
    drivers = [driver for driver in drivers if facts_of(driver).calibration]
    operations = _unique(COUNTS_AS.get(part.operation, part.operation) for part in parts)
    operations = [operation for operation in operations if operation in calibrated_operations()]
    if not drivers or not operations:
        return ""
    words = ["loadstone", "calibrate", *drivers]
    sizes = sorted({round(part.bytes / part.good) for part in parts if part.good and part.bytes})
    if sizes:
        words += ["--sizes", ",".join(units.format_size(size) for size in sizes)]
    threads = sorted(
        {clients for trial in trials if (clients := (trial.get("load") or {}).get("clients"))}
    )
    if threads:
        # A single client shows the time of a request without any others.
        words += ["--threads", ",".join(map(str, sorted({1, *threads})))]
    words += ["--operations", ",".join(operations)]
    words += _settings(trials)
    if any(trial.get("connections") == "per_request" for trial in trials):
        words.append("--no-keepalive")
    return shlex.join(words)


def _settings(trials: Iterable[TrialDocument]) -> Iterator[str]:
    """Return the flags of unusual settings that change the cost of a request."""
    for trial in trials:
        driver = trial["target"]["driver"]
        usual = usual_costs(driver)
        costs = costs_of(driver, trial["target"].get("settings") or {})
        for name, value in costs.items():
            if name in usual and value != usual[name]:
                shown = str(value).lower() if isinstance(value, bool) else str(value)
                yield from ("--target-set", f"{name}={shown}")
        return


def _unique(words: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(words))


def _name(part: Part) -> str:
    return f"trial {part.record.id} {part.operation}"


CLOSED_SHARE = 0.5
"""From this many new connections per request on, the store closes connections."""


def find_closed_connections(records: Iterable[Record]) -> Iterator[Finding]:
    """Report trials in which the store closed connections that clients wanted to keep."""
    closing = []
    for record in records:
        if record.trial.get("connections") == "per_request":
            continue
        summary = record.summary
        opened, requests = summary.get("connections_opened") or 0, summary.get("requests") or 0
        failed = summary.get("failed") or 0
        # One for each client, and for each part in flight; a failed request may cost one.
        options = record.trial.get("options") or {}
        needed = (summary.get("clients") or 0) * max(1, options.get("part_concurrency") or 1)
        closed = opened - needed - failed
        if closed > 0 and closed >= CLOSED_SHARE * (requests - failed):
            closing.append((record, opened, requests))
    if not closing:
        return
    opened = sum(count for _, count, _ in closing)
    requests = sum(count for _, _, count in closing)
    yield Finding(
        "connections-closed",
        f"the store closes each connection: {opened:,} opened for {requests:,} requests"
        f" in {units.counted(len(closing), 'trial')}",
        evidence=tuple(
            Evidence(
                "connections opened for each request",
                count / max(1, of),
                CLOSED_SHARE,
                place=f"trial {record.id}",
            )
            for record, count, of in closing
        ),
        cases=tuple(f"trial {record.id}" for record, _, _ in closing),
    )


def find_retries(records: Iterable[Record]) -> Iterator[Finding]:
    """Report retries outside the measurement after temporary answers."""
    retried = [record for record in records if record.summary.get("retries")]
    if not retried:
        return
    counts = added_up(
        retries for record in retried for retries in record.summary["retries"].items()
    )
    paused_ns = sum(record.summary.get("retries_paused_ns") or 0 for record in retried)
    kinds = ", ".join(f"{count:,} × {kind}" for kind, count in sorted(counts.items()))
    yield Finding(
        "requests-retried",
        f"outside the measurement, requests were retried after temporary errors: {kinds}"
        f" (pauses of {units.format_duration(paused_ns)} in all)",
        evidence=tuple(
            Evidence(f"retries after {kind}", float(count))
            for kind, count in sorted(counts.items())
        ),
        cases=tuple(f"trial {record.id}" for record in retried),
    )
