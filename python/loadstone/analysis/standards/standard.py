"""The standard that a loadstone report declares: 26 rules, and which of them this run meets.

A rule is `met`, `not met`, `not applicable`, or `unknown` where it rests on a statement that is
missing. Each says from what it was decided. A report that fails some of them says so, and stays a
report.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

from loadstone import units
from loadstone.analysis import Findings
from loadstone.analysis.accounts.comparison import Comparison, compare, differences
from loadstone.analysis.accounts.run_account import twins_of
from loadstone.analysis.judgements.result import Result
from loadstone.analysis.measured.fill import describe_fill
from loadstone.analysis.rules import checks_of, limit_in_words, view
from loadstone.campaign.schema.campaign import Statements
from loadstone.documents.manifest import HostFacts, Manifest
from loadstone.documents.trial import TrialDocument
from loadstone.errors import InputError
from loadstone.results.record import Run

Status = Literal["met", "not met", "unknown", "not applicable"]
Answer = tuple[Status, str]

FACTORS_MAX = 1
SHOWN_MAX = 4
OF_THE_TARGET = ("redundancy", "consistency")
"""What a reader must know of both sides of a ratio, and only people can state."""

CHANGING = frozenset(
    {"put", "post", "copy", "delete", "bulk_delete", "multipart_put", "write", "append"}
)
"""Operations that a target acknowledges, and may lose afterwards."""


# Each is decided from what the run holds. Where the run cannot tell, the answer is `unknown`,
# with what is missing; where it has nothing that the rule speaks of, `not applicable`.
def ratios_are_comparable(
    run: Run, findings: Findings, statements: Mapping[str, str | None]
) -> Answer:
    """Tell whether the targets of a run may stand in one ratio."""
    absent = [name for name in OF_THE_TARGET if not statements.get(name)]
    targets = _targets(findings)
    if not targets:
        return "unknown", "nothing was measured"
    if run.manifest.get("imported"):
        return "unknown", "another tool measured this, and does not say what was alike"
    accounts = {name: findings.account.only(name) for name in targets}
    fields = {
        difference.field
        for one, other in combinations(accounts.values(), 2)
        for difference in differences(one, other)
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
    told = "; ".join(f"{name}: {statements[name]}" for name in OF_THE_TARGET)
    return "met", f"{alike}; {told}"


def intervals_count_trials(run: Run, findings: Findings) -> Answer:
    """Tell whether what n counts in every interval are trials of different times."""
    if run.manifest.get("imported"):
        return "unknown", "another tool measured this, and does not say what its trials share"
    repeated = [cell for cell in findings.results if len(cell.trial_rates) > 1]
    if not repeated:
        return (
            "not applicable",
            "no interval is given: every result is from one trial, and the ± of its seconds is"
            " called a standard deviation",
        )
    crowded = [
        cell.name
        for cell in repeated
        if len({one.block for one in cell.trial_rates}) < len(cell.trial_rates)
    ]
    if crowded:
        return (
            "not met",
            f"{len(crowded)} results count trials of one block as repetitions, such as"
            f" {crowded[0]}",
        )
    counts = [len(cell.trial_rates) for cell in repeated]
    return (
        "met",
        f"the {len(repeated)} intervals have n = {_range(counts)} trials, each in a block of its"
        " own; requests and seconds are never n",
    )


def families_are_corrected(run: Run, findings: Findings) -> Answer:
    """Tell whether the targets of a run were compared as families."""
    twins = {second for _, second in twins_of(run)}
    targets = [name for name in _targets(findings) if name not in twins]
    if len(targets) < 2:
        halved = f"; {len(findings.changes)} halvings are evidence of verdicts, no comparisons"
        return (
            "not applicable",
            "one target: nothing is compared inside this run"
            + (halved if findings.changes else ""),
        )
    first = findings.account.only(targets[0])
    found: list[Comparison] = []
    for name in targets[1:]:
        try:
            found.append(compare(first, findings.account.only(name), is_together=False))
        except InputError as error:
            return "unknown", f"the targets cannot be compared: {error}"
    cases = [case for one in found for case in one.comparisons]
    tested = [case for case in cases if case.p_holm is not None]
    if not tested:
        return (
            "unknown",
            f"{len(cases)} cases in pairs of targets, and none was repeated to test it",
        )
    verdicts = [case.verdict for case in cases]
    counts = ", ".join(f"{verdicts.count(one)} {one}" for one in dict.fromkeys(verdicts))
    return (
        "met",
        f"{len(tested)} tests over {targets[0]}, Holm over the cases of each pair of targets, and"
        f" equivalence by two one-sided tests: {counts}",
    )


def writes_are_audited(run: Run, findings: Findings) -> Answer:
    """Tell whether acknowledged writes were kept in a ledger and read back."""
    if run.manifest.get("imported"):
        return "unknown", "another tool measured this, and does not say"
    writes = sum(cell.good for cell in findings.results if _word(cell) in CHANGING)
    if not writes:
        return "not applicable", "no measured request changed anything"
    if (run.path / "ledger").exists():
        return "unknown", "the run folder has a ledger, which this version does not read"
    checked = sum(record.summary.get("verified_requests") or 0 for record in run.records)
    also = f"; {checked:,} reads were checked, which finds wrong data and no lost one"
    return (
        "not met",
        f"{writes:,} requests that changed something were acknowledged, and the run folder has no"
        f" ledger of them{also if checked else ''}",
    )


def _word(cell: Result) -> str:
    return cell.operation.partition(" ")[0]


def _targets(findings: Findings) -> list[str]:
    return list(findings.account.targets)


def _range(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{low} to {high}"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:SHOWN_MAX])
    return f"{shown} and {len(names) - SHOWN_MAX} more" if len(names) > SHOWN_MAX else shown


BLOCKS_MIN = 5
NAMED = ("TPC-", "SPC-1", "SPECstorage", "SPEC SFS", "MLPerf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """One rule, whether this run meets it, and why."""

    number: int
    title: str
    status: Status
    because: str


def declare(run: Run, findings: Findings) -> tuple[Declared, ...]:
    """Return the rules with what this run makes of each."""
    rules = []
    for number, rule in enumerate(view("standard").values(), start=1):
        (ask,) = checks_of([rule])
        status, because = ask(run, findings)
        if status == "met" and ask in OF_WHO_MEASURED and run.manifest.get("imported"):
            status, because = "unknown", "another tool measured this, and does not say"
        rules.append(Declared(number=number, title=rule.says, status=status, because=because))
    return tuple(rules)


def plan_hash(run: Run) -> str:
    """Return the SHA-256 of the plan as the manifest keeps it since before the first trial.

    The steps of a search follow from one another, and are no part of it.
    """
    plan = [doc for doc in run.manifest["plan"] if "of" not in (doc.get("search") or {})]
    return hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()


def statements_of(run: Run) -> Mapping[str, str | None]:
    """Return what the campaign states, and None for what it does not."""
    told = (run.manifest.get("campaign") or {}).get("statements") or {}
    measured = {"fill": describe_fill(run)}
    return {name: told.get(name) or measured.get(name) for name in Statements.model_fields}


def the_plan(run: Run, findings: Findings) -> Answer:
    """Rule 1."""
    missing = sum(trial.state == "not run" for trial in findings.trials)
    words = f"{units.counted(len(findings.trials), 'trial')}, plan {plan_hash(run)[:12]}…"
    return "met", f"{words}; {missing} did not run, and are listed" if missing else words


def everything_disclosed(run: Run, findings: Findings) -> Answer:
    """Rule 2."""
    absent = [name for name, text in statements_of(run).items() if text is None]
    if absent:
        return "not met", f"not stated: {', '.join(absent)}"
    return "met", "everything is stated"


def comparable(run: Run, findings: Findings) -> Answer:
    """Rule 3."""
    return ratios_are_comparable(run, findings, statements_of(run))


def calibrated(run: Run, findings: Findings) -> Answer:
    """Rule 4."""
    if not findings.results:
        return "unknown", "nothing was measured"
    without = sum(cell.instrument is None for cell in findings.results)
    if without:
        return (
            "not met",
            f"{without} of {len(findings.results)} results have no ceiling of their own",
        )
    shares = [cell.instrument.share for cell in findings.results if cell.instrument is not None]
    return "met", f"at most {max(shares):.0%} of the load generator's own ceiling"


def loop(run: Run, findings: Findings) -> Answer:
    """Rule 5."""
    kinds = {str(cell.load.get("kind")) for cell in findings.results}
    return "met", f"{' and '.join(sorted(kinds)) or 'no'} load, stated with each result"


def intended(run: Run, findings: Findings) -> Answer:
    """Rule 6."""
    late = [cell for cell in findings.results if "LAG" in cell.labels]
    if late:
        return "not met", f"{len(late)} results with requests that left late"
    is_open = any(cell.load.get("kind") == "open" for cell in findings.results)
    return "met", "response times" if is_open else "closed-loop times are called service times"


def merged(run: Run, findings: Findings) -> Answer:
    """Rule 7."""
    if all(cell.headline is None for cell in findings.results):
        return "not applicable", "no time of a request was recorded"
    return "met", "three significant digits; loadstone report -f hlog publishes them"


def tails(run: Run, findings: Findings) -> Answer:
    """Rule 8."""
    seen = [cell.headline for cell in findings.results if cell.headline is not None]
    if not seen:
        return "not applicable", "no time of a request was recorded"
    left_out = sum(one.quantiles["p99"] is None and "p99" not in one.at_least for one in seen)
    words = f"p99 of {len(seen) - left_out} of {len(seen)} results has ten requests beyond it"
    cut = sum(bool(one.at_least) for one in seen)
    timed_out = f"; {cut} are cut off by timeouts, and printed as at least" if cut else ""
    return "met", f"{words}, the others are left out{timed_out}" if left_out else words + timed_out


def clock(run: Run, findings: Findings) -> Answer:
    """Rule 9."""
    clocks = [record.summary.get("clock") for record in run.records]
    seen = [clock for clock in clocks if isinstance(clock, Mapping)]
    if not seen:
        return "unknown", "no record says which clock was used"
    return "met", f"{seen[0].get('source')}, smallest step {seen[0].get('step_ns')} ns, one host"


def preconditioned(run: Run, findings: Findings) -> Answer:
    """Rule 10."""
    told = statements_of(run)
    absent = [name for name in ("cache", "fill", "preconditions") if told[name] is None]
    if absent:
        return "unknown", f"not stated: {', '.join(absent)}"
    return "met", f"cache: {told['cache']}; fill: {told['fill']}"


def steady(run: Run, findings: Findings) -> Answer:
    """Rule 11."""
    if not findings.results:
        return "unknown", "no result was kept"
    rules = {finding.rule: finding for finding in findings.findings}
    for rule in ("not-steady", "too-short-for-steadiness"):
        if rule in rules:
            return "not met", rules[rule].statement
    return "met", "steady within ±10 % over five rounds"


def interleaved(run: Run, findings: Findings) -> Answer:
    """Rule 12."""
    blocks = len({doc["block"] for doc in run.plan if doc["measured"]})
    return (
        "met" if blocks >= BLOCKS_MIN else "not met"
    ), f"{blocks} of at least {BLOCKS_MIN} blocks"


def control(run: Run, findings: Findings) -> Answer:
    """Rule 13."""
    pairs = twins_of(run)
    if not pairs:
        return "not met", "no target stands twice in the campaign, under two names"
    return "met", "; ".join(f"{one} is {other}" for one, other in pairs)


def interval(run: Run, findings: Findings) -> Answer:
    """Rule 14."""
    alone = sum(len(cell.trials) < 2 for cell in findings.results)
    if alone:
        return "not met", f"{alone} of {len(findings.results)} results are from one trial"
    return "met", "Student's t on logarithms over trials"


def sums(run: Run, findings: Findings) -> Answer:
    """Rule 17."""
    return "met", "good requests over the common wall time of measuring"


def little(run: Run, findings: Findings) -> Answer:
    """Rule 18."""
    broken = [cell.name for cell in findings.results if "LITTLE" in cell.labels]
    if broken:
        return "not met", f"{len(broken)} results, such as {broken[0]}"
    return "met", "within 2 %, where there were requests enough to tell"


def against_load(run: Run, findings: Findings) -> Answer:
    """Rule 19."""
    loads = {
        str(cell.load.get("clients") or cell.load.get("rate_per_s")) for cell in findings.results
    }
    if len(loads) < 2:
        return "not met", "one load: nothing is known of less or more"
    return "met", f"{len(loads)} loads, throughput and latency of each"


def capacity(run: Run, findings: Findings) -> Answer:
    """Rule 20."""
    if not findings.searches:
        return "not applicable", "no capacity was searched"
    searches = findings.searches
    open_ends = [one.name for one in searches if not one.is_confirmed or one.is_doubted]
    if open_ends:
        return "not met", f"not confirmed: {', '.join(open_ends)}"
    unbounded = [one.name for one in searches if one.upper is None]
    if unbounded:
        return "not met", f"no load that fails was found: {', '.join(unbounded)}"
    return "met", "both bounds, and fresh trials at the lower one"


def verdict(run: Run, findings: Findings) -> Answer:
    """Rule 21."""
    limits = [one.verdict.limit for one in findings.results if one.verdict is not None]
    unclear = sum(limit == "UNDETERMINED" for limit in limits)
    if unclear or not limits:
        return "not met", f"{unclear} of {len(limits)} results have no known limit"
    return "met", ", ".join(sorted({limit_in_words(limit) for limit in limits}))


def verified(run: Run, findings: Findings) -> Answer:
    """Rule 22."""
    wrong = [trial.trial for trial in findings.trials if "CORRUPT" in trial.labels]
    if wrong:
        return "not met", f"data read back was wrong in trials {', '.join(wrong)}"
    share = {float(doc.get("verify") or 0) for doc in run.plan if doc["measured"]}
    checked = sum(record.summary.get("verified_requests") or 0 for record in run.records)
    if not checked:
        return "not met", "no read was checked"
    return "met", f"{checked:,} reads checked ({min(share, default=0.0):.0%} asked for), none wrong"


def faults(run: Run, findings: Findings) -> Answer:
    """Rule 24."""
    if findings.hooks:
        return "unknown", f"{len(findings.hooks)} commands of the campaign's own ran; see their log"
    return "not applicable", "no fault was injected"


def cost(run: Run, findings: Findings) -> Answer:
    """Rule 25."""
    costs = [cell.client.cpu_us_per_request for cell in findings.results]
    seen = [cost for cost in costs if cost is not None]
    if not seen:
        return "not met", "the client's processor time was not recorded"
    return (
        "met",
        f"{min(seen):.1f} to {max(seen):.1f} µs of CPU a request; absent sources are named",
    )


def named(run: Run, findings: Findings) -> Answer:
    """Rule 26."""
    campaign = run.manifest.get("campaign") or {}
    text = f"{run.name} {campaign.get('description') or ''}"
    used = [name for name in NAMED if name in text and "derived from" not in text]
    if used:
        return "not met", f"the campaign calls itself {', '.join(used)}"
    return "met", "no name of an official benchmark is used"


OF_WHO_MEASURED = (the_plan, intended, merged, sums, little, interleaved)
"""Rules that loadstone meets by how it plans and measures: of what it read it cannot say so."""


def disclosure(run: Run, findings: Findings) -> dict[str, Any]:
    """Return the disclosure as plain values; what was neither stated nor measured is null."""
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
            "trials_not_run": [one.trial for one in findings.trials if one.state == "not run"],
            "trials_failed": dict(manifest.get("failed") or {}),
            "trials_marked": {one.trial: list(one.labels) for one in findings.trials if one.labels},
            "command": manifest.get("command"),
        },
        "workload": _workload(measured),
        "targets": (manifest.get("campaign") or {}).get("targets"),
        "clients": _clients(manifest),
        "nodes": manifest.get("nodes"),
        "ceilings": [
            {"name": one.name, "kind": one.kind, "bytes_per_s": one.bytes_per_s}
            for one in findings.ceilings
        ],
        "calibration": _ceilings(findings),
        "verdicts": [
            {"result": cell.name, "limit": found.limit, "grade": found.grade}
            for cell in findings.results
            if (found := cell.verdict) is not None
        ],
        "absent_sources": sorted({n for one in findings.trials for n in one.absent_probes}),
        "standard": [
            {"rule": one.number, "title": one.title, "status": one.status, "because": one.because}
            for one in declare(run, findings)
        ],
        "regenerate": f"loadstone report {run.path.name} -f html",
    }


def _clients(manifest: Manifest) -> list[HostFacts]:
    """Return the facts of each host that made load; of this one where no others did."""
    of_hosts: list[HostFacts] = [
        {"name": one["name"], **one["fingerprint"]} for one in manifest.get("hosts") or ()
    ]
    return of_hosts or [manifest.get("host") or HostFacts()]


def _workload(measured: Sequence[TrialDocument]) -> list[dict[str, Any]]:
    keys = ("phase", "mix", "load", "keys", "stop", "verify", "connections", "dataset", "options")
    seen = {
        json.dumps({key: doc.get(key) for key in keys}, sort_keys=True): None for doc in measured
    }
    return [json.loads(text) for text in seen]


def _ceilings(findings: Findings) -> dict[str, float] | None:
    shares = {
        cell.name: cell.instrument.share for cell in findings.results if cell.instrument is not None
    }
    return shares or None
