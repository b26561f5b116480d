"""The standard that a loadstone report declares, and which of its rules this run meets.

A rule is `met`, `not met`, `not applicable`, or `unknown` if a statement is missing; each names its
evidence. A rule that asks for the opposite of a common mistake is answered by that mistake's check.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import combinations
from typing import Any, Literal

from loadstone import units
from loadstone.analysis import Findings
from loadstone.analysis.accounts.comparison import differences
from loadstone.analysis.accounts.run_account import twins_of
from loadstone.analysis.measured.fill import describe_fill
from loadstone.analysis.rules import limit_in_words
from loadstone.analysis.rules.rule import Rule, listed
from loadstone.analysis.standards import linter
from loadstone.campaign.schema.campaign import Statements
from loadstone.documents.manifest import HostFacts, Manifest
from loadstone.documents.mix import CHANGES_OBJECTS
from loadstone.documents.trial import TrialDocument
from loadstone.results.record import Run

RULES: list[Rule] = []
_rule = partial(
    listed, RULES, views=("standard",), severity="note", effect="none", looks_at="report"
)

Status = Literal["met", "not met", "unknown", "not applicable"]
Answer = tuple[Status, str]

STATUSES: Mapping[linter.Outcome, Status] = {
    "pass": "met",
    "fail": "not met",
    "not stated": "unknown",
    "not applicable": "not applicable",
}
OF_WHO_MEASURED = ("plan-not-run", "late-requests", "littles-law")
"""Rules that loadstone meets by its design; of an imported run they are unknown."""

FACTORS_MAX = 1
SHOWN_MAX = 4
OF_THE_TARGET = ("redundancy", "consistency")
"""Statements that a ratio of two targets needs, which only people can make."""


def _range(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{low} to {high}"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:SHOWN_MAX])
    return f"{shown} and {len(names) - SHOWN_MAX} more" if len(names) > SHOWN_MAX else shown


CLOCK_STEP_NS_MAX = 1000
"""A coarser clock rounds requests of a few microseconds, such as those of local drivers."""
NAMED = ("TPC-", "SPC-1", "SPECstorage", "SPEC SFS", "MLPerf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A rule of the standard, and whether a run meets it."""

    rule: str
    title: str
    status: Status
    because: str


def declare(run: Run, findings: Findings) -> tuple[Declared, ...]:
    """Return each rule with its status in a run."""
    is_imported = bool(run.manifest.get("imported"))
    mistakes = {mistake.id: mistake for mistake in findings.mistakes}
    declared = []
    for rule in (*RULES, *linter.RULES):
        if rule in RULES:
            (check,) = rule.checks
            status, because = check(run, findings)
            if status == "met" and is_imported and rule.id in OF_WHO_MEASURED:
                status, because = "unknown", "another tool measured this, and does not say"
        elif rule.asks and rule.id in mistakes:
            mistake = mistakes[rule.id]
            status, because = STATUSES[mistake.outcome], mistake.evidence
        else:
            continue
        title = rule.asks or rule.says
        declared.append(Declared(rule=rule.id, title=title, status=status, because=because))
    return tuple(declared)


def plan_hash(run: Run) -> str:
    """Return the SHA-256 of the plan, which was fixed before the first trial.

    Without the steps of searches, which follow from one another.
    """
    plan = [doc for doc in run.manifest["plan"] if "of" not in (doc.get("search") or {})]
    return hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()


def statements_of(run: Run) -> Mapping[str, str | None]:
    """Return the statements of the campaign by name; None if one is missing."""
    stated = (run.manifest.get("campaign") or {}).get("statements") or {}
    measured = {"fill": describe_fill(run)}
    return {name: stated.get(name) or measured.get(name) for name in Statements.model_fields}


@_rule(
    id="plan-not-run",
    says="The whole plan was run",
    means="Trials chosen after the result prove nothing.",
    do="Run the plan to its end.",
)
def _the_plan(run: Run, findings: Findings) -> Answer:
    missing = sum(trial.state == "not run" for trial in findings.trials)
    words = f"{units.counted(len(findings.trials), 'trial')}, plan {plan_hash(run)[:12]}…"
    return ("not met", f"{words}; {missing} did not run") if missing else ("met", words)


@_rule(
    id="not-disclosed",
    says="Everything is disclosed",
    means="A reader can repeat only what is described.",
    do="Fill in statements in the campaign.",
)
def _everything_disclosed(run: Run, findings: Findings) -> Answer:
    absent = [name for name, text in statements_of(run).items() if text is None]
    if absent:
        return "not met", f"not stated: {', '.join(absent)}"
    return "met", "everything is stated"


@_rule(
    id="not-comparable",
    says="Ratios are of comparable targets",
    means="A ratio of different things is meaningless.",
    do="State durability and tuning of each target.",
)
def _comparable(run: Run, findings: Findings) -> Answer:
    statements = statements_of(run)
    absent = [name for name in OF_THE_TARGET if not statements.get(name)]
    targets = findings.account.targets
    if not targets:
        return "unknown", "nothing was measured"
    if run.manifest.get("imported"):
        return "unknown", "another tool measured this, and does not say what was alike"
    accounts = {name: findings.account.only(name) for name in targets}
    fields = {
        difference.field
        for account, other in combinations(accounts.values(), 2)
        for difference in differences(account, other)
    }
    if len(fields) > FACTORS_MAX:
        named = _listed(sorted(fields))
        return "not met", f"the targets differ in {len(fields)} fields of the key: {named}"
    factor = f", and differ in {fields.pop()} alone" if fields else ""
    alike = (
        f"{len(targets)} targets under the same workload, client and settings{factor}"
        if len(targets) > 1
        else "one target: the run holds no ratio"
    )
    if absent:
        return "unknown", f"{alike}; not stated: {', '.join(absent)}"
    stated = "; ".join(f"{name}: {statements[name]}" for name in OF_THE_TARGET)
    return "met", f"{alike}; {stated}"


@_rule(
    id="no-ceiling",
    says="The instrument is calibrated",
    means="Otherwise the client itself may be measured.",
    do="loadstone calibrate.",
)
def _calibrated(run: Run, findings: Findings) -> Answer:
    if not findings.results:
        return "unknown", "nothing was measured"
    without = sum(cell.instrument is None for cell in findings.results)
    if without:
        words = f"{without} of {len(findings.results)} results have no ceiling of their own"
        return "not met", words
    shares = [cell.instrument.share for cell in findings.results if cell.instrument is not None]
    return "met", f"at most {max(shares):.0%} of the load generator's own ceiling"


@_rule(
    id="late-requests",
    says="Latency counts from the intended start",
    means="Otherwise late requests hide the wait.",
    do="Lower the rate where requests left late.",
)
def _intended(run: Run, findings: Findings) -> Answer:
    late = [cell for cell in findings.results if "LAG" in cell.labels]
    if late:
        return "not met", f"{len(late)} results with requests that left late"
    is_open = any(cell.load.get("kind") == "open" for cell in findings.results)
    return "met", "response times" if is_open else "closed-loop times are called service times"


@_rule(
    id="coarse-clock",
    says="The clock is fine enough",
    means="A coarse clock rounds every latency.",
    do="Use a host with an invariant TSC.",
)
def _clock(run: Run, findings: Findings) -> Answer:
    clocks = [record.summary.get("clock") for record in run.records]
    known = [clock for clock in clocks if isinstance(clock, Mapping)]
    if not known:
        return "unknown", "no record says which clock was used"
    step_ns = max(clock.get("step_ns") or 0 for clock in known)
    words = f"{known[0].get('source')}, smallest step {step_ns:g} ns"
    return "met" if step_ns <= CLOCK_STEP_NS_MAX else "not met", words


@_rule(
    id="preconditions-not-stated",
    says="Preconditions, fill and cache are stated",
    means="An empty or cached system is faster.",
    do="State cache, fill and preconditions.",
)
def _preconditioned(run: Run, findings: Findings) -> Answer:
    statements = statements_of(run)
    absent = [name for name in ("cache", "fill", "preconditions") if statements[name] is None]
    if absent:
        return "unknown", f"not stated: {', '.join(absent)}"
    return "met", f"cache: {statements['cache']}; fill: {statements['fill']}"


@_rule(
    id="no-control",
    says="An A/A control is included",
    means="It shows the effect of chance alone.",
    do="Name one target twice.",
)
def _control(run: Run, findings: Findings) -> Answer:
    pairs = twins_of(run)
    if not pairs:
        return "not met", "no target stands twice in the campaign, under two names"
    return "met", "; ".join(f"{name} is {other}" for name, other in pairs)


@_rule(
    id="littles-law",
    says="Little's law holds",
    means="Rate, time and requests in flight must agree.",
    do="See the label LITTLE.",
)
def _little(run: Run, findings: Findings) -> Answer:
    broken = [cell.name for cell in findings.results if "LITTLE" in cell.labels]
    if broken:
        return "not met", f"{len(broken)} results, such as {broken[0]}"
    return "met", "within 2 %, where there were requests enough to tell"


@_rule(
    id="one-load",
    says="Throughput and latency stand together, against load",
    means="One load shows one point of a curve.",
    do="sweep: threads.",
)
def _against_load(run: Run, findings: Findings) -> Answer:
    loads = {
        str(cell.load.get("clients") or cell.load.get("rate_per_s")) for cell in findings.results
    }
    if len(loads) < 2:
        return "not met", "one load: nothing is known of less or more"
    return "met", f"{len(loads)} loads, throughput and latency of each"


@_rule(
    id="capacity-not-confirmed",
    says="A capacity is confirmed",
    means="A search tends to end at its luckiest trial.",
    do="Let the search confirm its answer.",
)
def _capacity(run: Run, findings: Findings) -> Answer:
    if not findings.searches:
        return "not applicable", "no capacity was searched"
    searches = findings.searches
    open_ends = [search.name for search in searches if not search.is_confirmed or search.is_doubted]
    if open_ends:
        return "not met", f"not confirmed: {', '.join(open_ends)}"
    unbounded = [search.name for search in searches if search.upper is None]
    if unbounded:
        return "not met", f"no load that fails was found: {', '.join(unbounded)}"
    return "met", "both bounds, and fresh trials at the lower one"


@_rule(
    id="limit-not-known",
    says="Every number has its limit",
    means="A number without its limit does not say what to change.",
    do="Calibrate, and watch hosts.",
)
def _verdict(run: Run, findings: Findings) -> Answer:
    limits = [result.verdict.limit for result in findings.results if result.verdict is not None]
    unclear = sum(limit == "UNDETERMINED" for limit in limits)
    if unclear or not limits:
        return "not met", f"{unclear} of {len(limits)} results have no known limit"
    return "met", ", ".join(sorted({limit_in_words(limit) for limit in limits}))


@_rule(
    id="named-benchmark",
    says="Named benchmarks only in full",
    means="An official name promises an official audit.",
    do='Say "derived from".',
)
def _named(run: Run, findings: Findings) -> Answer:
    campaign = run.manifest.get("campaign") or {}
    text = f"{run.name} {campaign.get('description') or ''}"
    used = [name for name in NAMED if name in text and "derived from" not in text]
    if used:
        return "not met", f"the campaign calls itself {', '.join(used)}"
    return "met", "no name of an official benchmark is used"


@_rule(
    id="trials-of-one-block",
    says="n counts trials of different times",
    means="Trials of one block depend on each other.",
    do="Repeat in blocks: blocks: 6.",
)
def _intervals_count_trials(run: Run, findings: Findings) -> Answer:
    if run.manifest.get("imported"):
        return "unknown", "another tool measured this, and does not say what its trials share"
    repeated = [cell for cell in findings.results if len(cell.trial_rates) > 1]
    if not repeated:
        return "not applicable", (
            "no interval is given: every result is from one trial, and the ± of its seconds is"
            " called a standard deviation"
        )
    crowded = [
        cell.name
        for cell in repeated
        if len({trial_rate.block for trial_rate in cell.trial_rates}) < len(cell.trial_rates)
    ]
    if crowded:
        return "not met", (
            f"{len(crowded)} results count trials of one block as repetitions, such as {crowded[0]}"
        )
    counts = [len(cell.trial_rates) for cell in repeated]
    return "met", (
        f"the {len(repeated)} intervals have n = {_range(counts)} trials, each in a block of its"
        " own; requests and seconds are never n"
    )


@_rule(
    id="writes-not-audited",
    says="Acknowledged writes are audited",
    means="A store may acknowledge what it loses.",
    do="Read back what was written, verified.",
)
def _writes_are_audited(run: Run, findings: Findings) -> Answer:
    if run.manifest.get("imported"):
        return "unknown", "another tool measured this, and does not say"
    writes = sum(
        cell.good
        for cell in findings.results
        if cell.operation.partition(" ")[0] in CHANGES_OBJECTS
    )
    if not writes:
        return "not applicable", "no measured request changed anything"
    if findings.audits:
        statement = "; ".join(audit.statement() for audit in findings.audits)
        is_met = all(audit.is_whole and audit.read_back for audit in findings.audits)
        return "met" if is_met else "not met", statement
    checked = sum(record.summary.get("verified_requests") or 0 for record in run.records)
    also = f"; {checked:,} reads were checked, which finds wrong data and no lost one"
    return "not met", (
        f"{writes:,} requests that changed something were acknowledged, and the run folder has no"
        f" ledger of them{also if checked else ''}"
    )


def disclosure(run: Run, findings: Findings) -> dict[str, Any]:
    """Return the disclosure as plain values; null if neither stated nor measured."""
    manifest = run.manifest
    measured = [doc for doc in run.plan if doc["measured"]]
    return {
        "disclosure": 1,
        "run": manifest.get("run"),
        "name": run.name,
        "date": manifest.get("started"),
        "state": run.state,
        "statements": dict(statements_of(run)),
        "tool": {"loadstone": manifest.get("loadstone"), **(manifest.get("versions") or {})},
        "plan": {
            "sha256": plan_hash(run),
            "seed": manifest.get("seed"),
            "trials": len(run.plan),
            "blocks": len({doc["block"] for doc in measured}),
            "resumed": len(manifest.get("resumed") or ()),
            "trials_not_run": [
                trial.trial for trial in findings.trials if trial.state == "not run"
            ],
            "trials_failed": dict(manifest.get("failed") or {}),
            "trials_marked": {
                trial.trial: list(trial.labels) for trial in findings.trials if trial.labels
            },
            "command": manifest.get("command"),
        },
        "workload": _workload(measured),
        "targets": (manifest.get("campaign") or {}).get("targets"),
        "clients": _clients(manifest),
        "nodes": manifest.get("nodes"),
        "ceilings": [
            {"name": ceiling.name, "kind": ceiling.kind, "bytes_per_s": ceiling.bytes_per_s}
            for ceiling in findings.ceilings
        ],
        "cards": manifest.get("cards"),
        "calibration": _ceilings(findings),
        "verdicts": [
            {"result": cell.name, "limit": outcome.limit, "grade": outcome.grade}
            for cell in findings.results
            if (outcome := cell.verdict) is not None
        ],
        "absent_sources": sorted({n for trial in findings.trials for n in trial.absent_probes}),
        "standard": [asdict(answer) for answer in declare(run, findings)],
        "regenerate": f"loadstone report {run.path.name} -f html",
    }


def _clients(manifest: Manifest) -> list[HostFacts]:
    of_hosts: list[HostFacts] = [
        {"name": host["name"], **host["fingerprint"]} for host in manifest.get("hosts") or ()
    ]
    return of_hosts or [manifest.get("host") or HostFacts()]


def _workload(measured: Sequence[TrialDocument]) -> list[dict[str, Any]]:
    keys = ("phase", "mix", "load", "keys", "stop", "verify", "connections", "dataset", "options")
    distinct = {
        json.dumps({key: doc.get(key) for key in keys}, sort_keys=True): None for doc in measured
    }
    return [json.loads(text) for text in distinct]


def _ceilings(findings: Findings) -> dict[str, float] | None:
    shares = {
        cell.name: cell.instrument.share for cell in findings.results if cell.instrument is not None
    }
    return shares or None
