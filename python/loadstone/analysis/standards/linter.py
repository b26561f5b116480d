"""The mistakes of benchmark reports, each as a check that an account passes, fails or leaves open.

The table of rules lists them, and names these functions. What an account does not state is "not
stated": never a pass, and never taken for a "no".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from loadstone.analysis.accounts.account import Account, Measurement, grouped
from loadstone.analysis.judgements import validity
from loadstone.analysis.numbers import ceilings, repetition
from loadstone.analysis.rules import checks_of, view

Outcome = Literal["pass", "fail", "not stated", "not applicable"]
Checked = tuple[Outcome, str]

TRIALS_MIN = 5
MEMORY_MULTIPLE = 5
RESULT_QUANTILES = {"p50": 0.5, "p75": 0.75, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99_9": 0.999}


@dataclass(frozen=True, slots=True, kw_only=True)
class MistakeResult:
    """The outcome of one check, with what it rests on."""

    id: str
    mistake: str
    outcome: Outcome
    evidence: str

    def to_json(self) -> dict[str, str]:
        """Return it as plain values."""
        return {
            "id": self.id,
            "mistake": self.mistake,
            "outcome": self.outcome,
            "evidence": self.evidence,
        }


def lint(account: Account) -> tuple[MistakeResult, ...]:
    """Return the outcome of every check; none where nothing was measured."""
    if not account.measurements:
        return ()
    results = []
    for name, rule in view("mistake").items():
        (look,) = checks_of([rule])
        outcome, evidence = look(account)
        results.append(
            MistakeResult(id=name, mistake=rule.says, outcome=outcome, evidence=evidence)
        )
    return tuple(results)


def interval(account: Account) -> Checked:
    """X01."""
    cells = _cells(account)
    spreads = [one for one in account.measurements if one.spread is not None]
    if spreads and account.disclosure.spread is None:
        return "fail", f"{len(spreads)} bare ±, whose meaning is not given"
    single = sum(len(cell) == 1 for cell in cells)
    if single and not spreads:
        return "fail", f"{single} of {len(cells)} numbers are single trials without an interval"
    return "pass", f"{len(cells)} numbers can be given with an interval"


def enough_trials(account: Account) -> Checked:
    """X02."""
    cells = _cells(account)
    if any(cell[0].spread is not None for cell in cells):
        return "not stated", "the number of trials behind each ± is not given"
    fewest = min(len(cell) for cell in cells)
    return _pass_if(fewest >= TRIALS_MIN, f"the fewest trials of a number are {fewest}")


def interleaved(account: Account) -> Checked:
    """X03."""
    if len(account.targets) < 2:
        return "not applicable", "one target"
    order = account.disclosure.order
    if order is None:
        return "not stated", "the order of the targets in time is not given"
    return _pass_if(order == "interleaved", f"the targets ran {order}")


def right_unit(account: Account) -> Checked:
    """X04."""
    unit = account.disclosure.replication_unit
    if unit is None:
        return "not stated", "what was repeated is not said"
    is_right = not any(word in unit for word in ("request", "operation", "second"))
    return _pass_if(is_right, f"the unit of replication is the {unit}")


def merged_percentiles(account: Account) -> Checked:
    """X05."""
    if not _quantiles(account):
        return "not applicable", "no percentiles"
    source = account.disclosure.percentiles
    if source is None:
        return "not stated", "where the percentiles come from is not said"
    return _pass_if(source != "averaged", f"percentiles of {source}")


def open_loop(account: Account) -> Checked:
    """X06."""
    if not _quantiles(account):
        return "not applicable", "no latency is claimed"
    loop = account.disclosure.loop
    if loop is None:
        return "not stated", "open or closed load is not said"
    return _pass_if(loop == "open", f"latency under a {loop} load")


def resolved_tails(account: Account) -> Checked:
    """X07."""
    found = _quantiles(account)
    if not found:
        return "not applicable", "no percentiles"
    counted = [(one, q) for one, q in found if one.work]
    if not counted:
        return "not stated", "how many requests are behind the percentiles is not said"
    thin = [
        f"{q} of {one.operation} has {one.work}"
        for one, q in counted
        if not validity.may_print_quantile(RESULT_QUANTILES[q], one.work or 0)
    ]
    return _pass_if(not thin, "; ".join(thin[:3]) or "ten requests or more beyond each percentile")


def whole_suite(account: Account) -> Checked:
    """X08."""
    members = account.disclosure.suite_members
    if members is None:
        return "not applicable", "no suite is named"
    shown = {
        target: len({one.case for one in account.measurements if one.target == target})
        for target in account.targets
    }
    return _pass_if(
        all(count == members for count in shown.values()),
        f"{min(shown.values())} of {members} members shown",
    )


def mean_of_ratios(account: Account) -> Checked:
    """X09."""
    aggregate = account.disclosure.aggregate
    if aggregate is None:
        return "not applicable", "nothing is averaged over cases"
    return _pass_if("arithmetic mean of ratios" not in aggregate, f"aggregated by {aggregate}")


def absolute_values(account: Account) -> Checked:
    """X10."""
    count = len(account.measurements)
    return _pass_if(count > 0, f"{count} absolute values")


def equal_tuning(account: Account) -> Checked:
    """X11."""
    if len(account.targets) < 2:
        return "not applicable", "one target"
    return _stated(account.disclosure.tuning, "how the targets were tuned")


def storage_not_cache(account: Account) -> Checked:
    """X12."""
    stated = account.disclosure
    if stated.cache == "mixed":
        return "fail", "cold and warm accesses are mixed"
    cold = next(repetition.cold_first(account), None)
    if cold is not None:
        return "fail", cold.statement
    if stated.dataset_bytes is not None and stated.client_memory_bytes is not None:
        ratio = stated.dataset_bytes / stated.client_memory_bytes
        if ratio >= MEMORY_MULTIPLE:
            return "pass", f"the dataset is {ratio:.1f}× the clients' memory"
        if stated.cache is None:
            return "fail", f"the dataset is {ratio:.2g}× the clients' memory"
    return _stated(stated.cache, "the state of the caches")


def fill_level(account: Account) -> Checked:
    """X13."""
    fill = account.disclosure.fill
    if fill is None:
        return "not stated", "how full the system was is not said"
    return _pass_if("empty" not in fill, f"fill level: {fill}")


def steady(account: Account) -> Checked:
    """X14."""
    steadiness = account.disclosure.steadiness
    if steadiness is None:
        return "not stated", "no evidence of a steady state"
    return _pass_if("not steady" not in steadiness, steadiness)


def instrument(account: Account) -> Checked:
    """X15."""
    found = [*ceilings.link_ceiling(account), *ceilings.socket_ceiling(account)]
    found += [one for one in ceilings.stated_ceiling(account) if one.severity == "problem"]
    if found:
        return "fail", found[0].statement
    return _stated(account.disclosure.instrument_ceiling, "the client's own ceiling")


def client_cost(account: Account) -> Checked:
    """X16."""
    return _stated(account.disclosure.client_cost, "the client's CPU per request")


def errors(account: Account) -> Checked:
    """X17."""
    return _stated(account.disclosure.errors, "how many requests failed")


def payload(account: Account) -> Checked:
    """X18."""
    return _stated(account.disclosure.payload, "what the objects contain")


def durability(account: Account) -> Checked:
    """X19."""
    if len(account.targets) < 2:
        return "not applicable", "one target"
    return _stated(account.disclosure.durability, "the redundancy of each target")


def verification(account: Account) -> Checked:
    """X20."""
    verified = account.disclosure.verified
    if verified is None:
        return "not stated", "whether data read back was checked is not said"
    return _pass_if(verified > 0, f"{verified:.0%} of what was read is verified")


def family(account: Account) -> Checked:
    """X21."""
    cases = len({one.case for one in account.measurements})
    if len(account.targets) < 2 or cases < 2:
        return "not applicable", "no family of comparisons"
    correction = account.disclosure.correction
    if correction is None:
        return "fail", f"{cases} comparisons invite being read without a correction"
    return "pass", f"corrected by {correction}"


def no_difference(account: Account) -> Checked:
    """X22."""
    claims = account.disclosure.claims_no_difference
    if not claims:
        return "not applicable", "the report does not claim that there is no difference"
    return _pass_if("TOST" in (account.disclosure.correction or ""), "a claim of no difference")


def all_trials(account: Account) -> Checked:
    """X23."""
    listed = account.disclosure.all_trials_listed
    if listed is None:
        return "not stated", "whether every trial is listed is not said"
    return _pass_if(listed, "every trial is listed" if listed else "only some trials are shown")


def chart_lines(account: Account) -> Checked:
    """X24."""
    lines = account.disclosure.chart_lines
    if lines is None:
        return "not applicable", "no charts are given as data"
    return _pass_if(lines == "markers only", lines)


def speed_up_base(account: Account) -> Checked:
    """X25."""
    base = account.disclosure.speed_up_base
    return ("not applicable", "no speed-up is claimed") if base is None else ("pass", base)


def tuning_data(account: Account) -> Checked:
    """X26."""
    trials = account.disclosure.tuning_trials
    if trials is None:
        return "not stated", "whether tuning used the same trials is not said"
    return _pass_if(trials != "same data", f"tuning trials: {trials}")


def _pass_if(is_good: bool, evidence: str) -> Checked:
    return ("pass" if is_good else "fail"), evidence


def _stated(fact: str | None, what: str) -> Checked:
    return ("pass", fact) if fact else ("not stated", f"{what}: not said")


def _cells(account: Account) -> list[Sequence[Measurement]]:
    headline = account.of(account.headline())
    return list(grouped(headline, lambda one: (one.target, one.case)).values())


def _quantiles(account: Account) -> list[tuple[Measurement, str]]:
    found = []
    for one in account.measurements:
        name = one.metric.rpartition("_ns_")[2]
        if "_ns_" in one.metric and name in RESULT_QUANTILES:
            found.append((one, name))
    return found
