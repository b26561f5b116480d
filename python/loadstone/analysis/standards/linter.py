"""Checks for common mistakes of benchmark reports.

Sources: Heiser's benchmarking crimes, van der Kouwe et al. (2018), Traeger & Zadok (2008),
Hoefler & Belli (2015). A missing statement is "not stated", neither a pass nor a failure. `asks` is
the rule of the standard that a check answers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from loadstone.analysis.accounts.account import Account, Measurement
from loadstone.analysis.grouping import grouped
from loadstone.analysis.instrument.client_limits import CACHED_SOME
from loadstone.analysis.judgements import validity
from loadstone.analysis.numbers import ceilings, repetition
from loadstone.analysis.rules.rule import Rule, listed
from loadstone.analysis.statistics.latency import QUANTILES

RULES: list[Rule] = []
_mistake = partial(
    listed, RULES, views=("mistake",), severity="note", effect="none", looks_at="report"
)

Outcome = Literal["pass", "fail", "not stated", "not applicable"]
Checked = tuple[Outcome, str]

TRIALS_MIN = 5
MEMORY_MULTIPLE = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class MistakeResult:
    """The outcome of one check, with its evidence."""

    id: str
    mistake: str
    outcome: Outcome
    evidence: str


def lint(account: Account) -> tuple[MistakeResult, ...]:
    """Return the outcomes of all checks; empty if nothing was measured."""
    if not account.measurements:
        return ()
    return tuple(_judged(rule, account) for rule in RULES)


def _judged(rule: Rule, account: Account) -> MistakeResult:
    (check,) = rule.checks
    outcome, evidence = check(account)
    return MistakeResult(id=rule.id, mistake=rule.says, outcome=outcome, evidence=evidence)


@_mistake(
    id="no-interval",
    says="no interval, or a ± without a name",
    asks="Every headline has an interval",
    means="A difference cannot be distinguished from chance.",
    do="Give a 95 % interval, and name its quantity.",
)
def _interval(account: Account) -> Checked:
    cells = _cells(account)
    spreads = [m for m in account.measurements if m.spread is not None]
    if spreads and account.disclosure.spread is None:
        return "fail", f"{len(spreads)} bare ±, whose meaning is not given"
    single = sum(len(cell) == 1 for cell in cells)
    if single and not spreads:
        return "fail", f"{single} of {len(cells)} numbers are single trials without an interval"
    return "pass", f"{len(cells)} numbers can be given with an interval"


@_mistake(
    id="few-trials",
    says="too few trials",
    means="The interval itself is uncertain.",
    do="Run five trials or more; six blocks decide.",
)
def _enough_trials(account: Account) -> Checked:
    cells = _cells(account)
    if any(cell[0].spread is not None for cell in cells):
        return "not stated", "the number of trials behind each ± is not given"
    fewest = min(len(cell) for cell in cells)
    return _pass_if(fewest >= TRIALS_MIN, f"the fewest trials of a number are {fewest}")


@_mistake(
    id="not-interleaved",
    says="targets not interleaved",
    asks="Targets are interleaved",
    means="A drift looks like a difference.",
    do="Interleave the targets: blocks.",
)
def _interleaved(account: Account) -> Checked:
    if len(account.targets) < 2:
        return "not applicable", "one target"
    if (order := account.disclosure.order) is None:
        return "not stated", "the order of the targets in time is not given"
    return _pass_if(order == "interleaved", f"the targets ran {order}")


@_mistake(
    id="wrong-unit",
    says="requests or seconds counted as n",
    means="They are correlated: the interval is far too narrow.",
    do="Count trials.",
)
def _right_unit(account: Account) -> Checked:
    if (unit := account.disclosure.replication_unit) is None:
        return "not stated", "what was repeated is not said"
    is_right = not any(word in unit for word in ("request", "operation", "second"))
    return _pass_if(is_right, f"the unit of replication is the {unit}")


@_mistake(
    id="averaged-percentiles",
    says="averaged percentiles",
    means="An average of percentiles is not a percentile.",
    do="Merge histograms.",
)
def _merged_percentiles(account: Account) -> Checked:
    if not _quantiles(account):
        return "not applicable", "no percentiles"
    if (source := account.disclosure.percentiles) is None:
        return "not stated", "where the percentiles come from is not said"
    return _pass_if(source != "averaged", f"percentiles of {source}")


@_mistake(
    id="closed-loop-latency",
    says="closed-loop latency",
    means="A closed load leaves out requests that would have waited.",
    do="Measure latency at a rate.",
)
def _open_loop(account: Account) -> Checked:
    if not _quantiles(account):
        return "not applicable", "no latency is claimed"
    if (loop := account.disclosure.loop) is None:
        return "not stated", "open or closed load is not said"
    return _pass_if(loop == "open", f"latency under a {loop} load")


@_mistake(
    id="unresolved-tail",
    says="unresolved tail",
    asks="Tails are resolved",
    means="A percentile with under ten requests beyond it is chance.",
    do="Make more requests.",
)
def _resolved_tails(account: Account) -> Checked:
    quantiles = _quantiles(account)
    if not quantiles:
        return "not applicable", "no percentiles"
    counted = [(measurement, q) for measurement, q in quantiles if measurement.work]
    if not counted:
        return "not stated", "how many requests are behind the percentiles is not said"
    thin = [
        f"{q} of {m.operation} has {m.work}"
        for m, q in counted
        if not validity.may_print_quantile(QUANTILES[q], m.work or 0)
    ]
    return _pass_if(not thin, "; ".join(thin[:3]) or "ten requests or more beyond each percentile")


@_mistake(
    id="partial-suite",
    says="a part of a suite",
    means="The parts left out may show the opposite.",
    do="Show all of them.",
)
def _whole_suite(account: Account) -> Checked:
    if (members := account.disclosure.suite_members) is None:
        return "not applicable", "no suite is named"
    shown = {
        target: len({m.case for m in account.measurements if m.target == target})
        for target in account.targets
    }
    return _pass_if(
        all(count == members for count in shown.values()),
        f"{min(shown.values())} of {members} members shown",
    )


@_mistake(
    id="mean-of-ratios",
    says="arithmetic mean of ratios",
    means="It depends on which side is the base.",
    do="Use the geometric mean.",
)
def _mean_of_ratios(account: Account) -> Checked:
    if (aggregate := account.disclosure.aggregate) is None:
        return "not applicable", "nothing is averaged over cases"
    return _pass_if("arithmetic mean of ratios" not in aggregate, f"aggregated by {aggregate}")


@_mistake(
    id="unequal-tuning",
    says="unequal tuning",
    means="The tuning is compared, not the targets.",
    do="Tune both, and say how.",
)
def _equal_tuning(account: Account) -> Checked:
    if len(account.targets) < 2:
        return "not applicable", "one target"
    return _stated(account.disclosure.tuning, "how the targets were tuned")


@_mistake(
    id="cache-measured",
    says="cache instead of storage",
    means="Memory was measured.",
    do="Empty the page cache before each trial, use five times the memory, or state the cache.",
)
def _storage_not_cache(account: Account) -> Checked:
    stated = account.disclosure
    if stated.cache == "mixed":
        return "fail", "cold and warm accesses are mixed"
    cold = next(repetition.cold_first(account), None)
    if cold is not None:
        return "fail", cold.statement
    if stated.cached is not None and stated.cache is None:
        least, most = stated.cached
        return _pass_if(
            most < CACHED_SOME,
            f"{least:.0%} to {most:.0%} of the data was in the client's page cache before a trial",
        )
    if stated.dataset_bytes is not None and stated.client_memory_bytes is not None:
        ratio = stated.dataset_bytes / stated.client_memory_bytes
        if ratio >= MEMORY_MULTIPLE:
            return "pass", f"the dataset is {ratio:.1f}× the clients' memory"
        if stated.cache is None:
            return "fail", f"the dataset is {ratio:.2g}× the clients' memory"
    return _stated(stated.cache, "the state of the caches")


@_mistake(
    id="empty-system",
    says="an empty system",
    means="A full system is slower.",
    do="Fill it, and say how far.",
)
def _fill_level(account: Account) -> Checked:
    if (fill := account.disclosure.fill) is None:
        return "not stated", "how full the system was is not said"
    return _pass_if("empty" not in fill, f"fill level: {fill}")


@_mistake(
    id="unsteady",
    says="not steady",
    asks="Measured in a steady state",
    means="The mean depends on when measuring began.",
    do="Measure five rounds of a minute.",
)
def _steady(account: Account) -> Checked:
    if (steadiness := account.disclosure.steadiness) is None:
        return "not stated", "no evidence of a steady state"
    return _pass_if("not steady" not in steadiness, steadiness)


@_mistake(
    id="instrument-limited",
    says="limited by the client or its link",
    means="The client was measured.",
    do="Show the client's own ceiling.",
)
def _instrument(account: Account) -> Checked:
    findings = [*ceilings.link_ceiling(account), *ceilings.socket_ceiling(account)]
    findings += [f for f in ceilings.bottlenecks(account) if f.severity == "problem"]
    if findings:
        return "fail", findings[0].statement
    return _stated(account.disclosure.instrument_ceiling, "the client's own ceiling")


@_mistake(
    id="cost-not-shown",
    says='equal throughput taken as "no overhead"',
    asks="The client's cost is shown",
    means="The cost may have gone into CPU time.",
    do="Give CPU per request.",
)
def _client_cost(account: Account) -> Checked:
    return _stated(account.disclosure.client_cost, "the client's CPU per request")


@_mistake(
    id="errors-as-work",
    says="errors counted as successes",
    means="Errors are often fast.",
    do="Count failures separately.",
)
def _errors(account: Account) -> Checked:
    return _stated(account.disclosure.errors, "how many requests failed")


@_mistake(
    id="data-not-described",
    says="compressible or equal data",
    means="Compression and deduplication make the work smaller.",
    do="Say what objects contain.",
)
def _payload(account: Account) -> Checked:
    return _stated(account.disclosure.payload, "what the objects contain")


@_mistake(
    id="durability-differs",
    says="different durability",
    means="Fewer copies mean less work.",
    do="State the redundancy of each target.",
)
def _durability(account: Account) -> Checked:
    if len(account.targets) < 2:
        return "not applicable", "one target"
    return _stated(account.disclosure.durability, "the redundancy of each target")


@_mistake(
    id="not-verified",
    says="no verification",
    asks="Data is verified",
    means="Wrong data may be fast.",
    do="Check what was read.",
)
def _verification(account: Account) -> Checked:
    if (verified := account.disclosure.verified) is None:
        return "not stated", "whether data read back was checked is not said"
    return _pass_if(verified > 0, f"{verified:.0%} of what was read is verified")


@_mistake(
    id="uncorrected-family",
    says="many comparisons",
    asks="Families of comparisons are corrected",
    means="One in twenty differs by chance.",
    do="Use Holm's correction.",
)
def _family(account: Account) -> Checked:
    cases = len({measurement.case for measurement in account.measurements})
    if len(account.targets) < 2 or cases < 2:
        return "not applicable", "no family of comparisons"
    if (correction := account.disclosure.correction) is None:
        return "fail", f"{cases} comparisons invite being read without a correction"
    return "pass", f"corrected by {correction}"


@_mistake(
    id="no-difference-claimed",
    says='"no difference" from a large p',
    means="A large p says that too little was measured.",
    do="Use a test of equivalence.",
)
def _no_difference(account: Account) -> Checked:
    claims = account.disclosure.claims_no_difference
    if not claims:
        return "not applicable", "the report does not claim that there is no difference"
    return _pass_if("TOST" in (account.disclosure.correction or ""), "a claim of no difference")


@_mistake(
    id="picked-trials",
    says="picked trials",
    means="The best trial is not the mean.",
    do="List every trial.",
)
def _all_trials(account: Account) -> Checked:
    if (listed := account.disclosure.all_trials_listed) is None:
        return "not stated", "whether every trial is listed is not said"
    return _pass_if(listed, "every trial is listed" if listed else "only some trials are shown")


@_mistake(
    id="chart-lines",
    says="lines through unmeasured points",
    means="A line suggests values that were not measured.",
    do="Draw markers only.",
)
def _chart_lines(account: Account) -> Checked:
    if (lines := account.disclosure.chart_lines) is None:
        return "not applicable", "no charts are given as data"
    return _pass_if(lines == "markers only", lines)


@_mistake(
    id="tuned-on-results",
    says="tuned and measured on the same data",
    means="The result is fitted to that data.",
    do="Measure on fresh trials.",
)
def _tuning_data(account: Account) -> Checked:
    if (trials := account.disclosure.tuning_trials) is None:
        return "not stated", "whether tuning used the same trials is not said"
    return _pass_if(trials != "same data", f"tuning trials: {trials}")


def _pass_if(is_good: bool, evidence: str) -> Checked:
    return ("pass" if is_good else "fail"), evidence


def _stated(fact: str | None, what: str) -> Checked:
    return ("pass", fact) if fact else ("not stated", f"{what}: not said")


def _cells(account: Account) -> list[Sequence[Measurement]]:
    headline = account.of(account.headline())
    return list(grouped(headline, lambda m: (m.target, m.case)).values())


def _quantiles(account: Account) -> list[tuple[Measurement, str]]:
    parted = ((m, m.metric.partition("_ns_")[2]) for m in account.measurements)
    return [(m, name) for m, name in parted if name in QUANTILES]
