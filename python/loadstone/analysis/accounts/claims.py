"""A comparison in words and as plain values."""

import math
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import asdict

from loadstone import units
from loadstone.analysis.accounts.account import LOWER_IS_BETTER, SECONDS, Parameter
from loadstone.analysis.accounts.comparison import MARGIN, TRIALS_MIN, CaseComparison, Comparison
from loadstone.analysis.judgements.standing import reason_words
from loadstone.analysis.naming import describe_parameter
from loadstone.analysis.statistics import ratios as statistics

ACROSS = "one of them is a lower bound"
KINDS_SHOWN = 5
TARGET = "target"
"""Stands for a case's target among the keys that a description leaves out."""


def sentence(comparison: Comparison, case: CaseComparison) -> str:
    """Return a comparison in full: both values, the verdict in words, ratio, interval, method."""
    unit = unit_of_metric(comparison.metric)
    words = in_words(case)
    head = (
        f"{describe(case)}: {comparison.a} {units.format_number(case.a)} {unit},"
        f" {comparison.b} {units.format_number(case.b)} {unit}. {words[:1].upper()}{words[1:]}"
    )
    if not case.has_ratio:
        return f"{head}: {'; '.join(reasons([case]))}."
    verb, tail = ("takes", "the time of ") if comparison.metric in LOWER_IS_BETTER else ("is", "")
    ratio = f"{comparison.b} {verb} {case.ratio.ratio:.2f}× {tail}{comparison.a}"
    if case.ratio.low is None:
        return f"{head}. {ratio}, without an interval."
    interval = f"95 % CI {case.ratio.low:.2f}-{case.ratio.high:.2f}; {_method(comparison, case)}"
    return f"{head}. {ratio} ({interval}).{_beside(case)}"


def in_words(case: CaseComparison) -> str:
    """Return the verdict in short: "1.4× faster, 1.05 to 2.0", or why there is no claim."""
    ratio = case.ratio
    between = f"{_plain(ratio.low)} to {_plain(ratio.high)} times"
    match case.verdict:
        case "faster" | "slower":
            # How many times as fast, or as slow: the greater of the two, whichever arm it is of.
            values = (ratio.ratio, ratio.low or 0.0, ratio.high or math.inf)
            if ratio.ratio < 1:
                values = (1 / values[0], 1 / values[2], 1 / values[1])
            middle, low, high = (f"{value:.3g}" for value in values)
            return f"{middle}× {case.verdict}, {low} to {high}"
        case "equivalent":
            return f"equal within ±{MARGIN:.0%}, {between}"
        case "below noise floor":
            return f"within the noise, ±{math.expm1(case.noise_floor or 0):.1%}"
        case "void" | "no ratio":
            return case.verdict
        case "single trial":
            return "no claim: one trial"
        case "too few trials":
            return f"no claim: {min(ratio.n_a, ratio.n_b)} trials, {TRIALS_MIN} are needed"
        case _:
            return f"not resolved: {between}"


def _plain(value: float | None) -> str:
    if value is None:
        return "?"
    return f"{value:.3g}" if 0.01 <= value < 100 else "0" if value < 1 else "over 100"


def without_ratio_words(comparison: Comparison) -> str:
    """Return how many cases have no ratio, and why; empty if all have one."""
    cases = [case for case in comparison.comparisons if not case.has_ratio]
    if not cases:
        return ""
    void = sum(case.verdict == "void" for case in cases)
    void_words = {0: "", len(cases): ", void"}.get(void, f", {void} of them void")
    total = units.counted(len(comparison.comparisons), "case")
    return f"{len(cases)} of {total} without a ratio{void_words}: {'; '.join(reasons(cases))}"


def reasons(cases: Collection[CaseComparison]) -> tuple[str, ...]:
    """Return the reasons why cases have no ratio, the most frequent one first."""
    counts = Counter(words for case in cases for words in _reasons(case))
    return tuple(words for words, _ in counts.most_common())


def _reasons(case: CaseComparison) -> tuple[str, ...]:
    if set(case.standings) == {"valid", "bound"}:
        return (ACROSS, *map(reason_words, case.reasons))
    return tuple(map(reason_words, case.reasons))


def blocks_needed(case: CaseComparison) -> int | None:
    """Return the number of pairs for an interval of ± `MARGIN`, by the spread so far.

    None if there are no pairs, or if days are the unit.
    """
    ratio = case.ratio
    if ratio.low is None or ratio.high is None or not ratio.is_paired or ratio.days > 1:
        return None
    half = (math.log(ratio.high) - math.log(ratio.low)) / 2
    spread = half * math.sqrt(ratio.n_a) / statistics.t_quantile(ratio.confidence, ratio.n_a - 1)
    return statistics.repetitions_needed(spread, MARGIN)


def kinds_words(comparison: Comparison) -> str:
    """Return the differences of two kinds of stores in words."""
    shown = "; ".join(map(str, comparison.kinds[:KINDS_SHOWN]))
    more = len(comparison.kinds) - KINDS_SHOWN
    return f"of different kinds, by their cards: {shown}" + (
        f"; and {more} more" if more > 0 else ""
    )


def undecided_words(comparison: Comparison) -> str:
    """Return how many blocks would decide the undecided cases; empty if none would."""
    open_ones = [
        case
        for case in comparison.comparisons
        if case.verdict in ("not resolved", "too few trials")
    ]
    needed = [blocks for open_one in open_ones if (blocks := blocks_needed(open_one)) is not None]
    if not needed:
        return ""
    most = max(TRIALS_MIN, *needed)
    return (
        f"{len(needed)} not decided: {most:,} blocks would narrow each to ±{MARGIN:.0%}, at the"
        " spread so far"
    )


def caveats(comparison: Comparison, *, is_control: bool) -> Iterator[str]:
    """Yield the caveats of a comparison; `is_control` if A and B are one target."""
    if words := undecided_words(comparison):
        yield words
    if is_control:
        yield f"A against A, one target under two names: {noise(comparison)}"
    elif not comparison.has_control:
        yield "no A/A control: the noise floor of the method is not known"
    if not comparison.is_one_run:
        yield "not measured in one run: the ratio includes everything that changed in between"
    yield from without_partner(comparison)


def without_partner(comparison: Comparison) -> Iterator[str]:
    """Yield how many cases of either side the other one lacks."""
    sides = ((comparison.a, comparison.only_a), (comparison.b, comparison.only_b))
    for name, cases in sides:
        if cases:
            has = "has" if len(cases) == 1 else "have"
            yield f"{units.counted(len(cases), 'case')} of {name} {has} no partner"


def numbers_words(case: CaseComparison) -> tuple[str, str]:
    """Return how many trials a ratio rests on, and its corrected p; empty where there is none."""
    p = "" if case.p_holm is None or not case.has_ratio else f"{case.p_holm:.2g}"
    return _trials(case) + (f", {case.ratio.days} days" if case.ratio.days > 1 else ""), p


def _trials(case: CaseComparison) -> str:
    a, b = case.ratio.n_a, case.ratio.n_b
    return f"{a}" if a == b else f"{a} and {b}"


def describe(case: CaseComparison, leave_out: Collection[str] = ()) -> str:
    """Return a case in words, with its target if targets are not the arms.

    `leave_out` has keys of the case, and TARGET.
    """
    words = [
        str(value) if isinstance(value, str) else describe_parameter(key, value)
        for key, value in _named(case)
        if key not in leave_out
    ]
    has_target = case.target is not None and TARGET not in leave_out
    return ", ".join([str(case.target), *words] if has_target else words)


def plural(unit: str) -> str:
    """Return a unit of replication in the plural."""
    known = {"repetition of the query": "repetitions of the query"}
    return known.get(unit, f"{unit}s")


def noise(comparison: Comparison) -> str:
    """Return in words how far a target differs from itself in A against A."""
    reaches = (case.ratio.reach for case in comparison.comparisons)
    bounds = [reach for reach in reaches if reach is not None]
    if not bounds:
        return "one trial of each does not show the noise"
    least, most = math.expm1(min(bounds)), math.expm1(max(bounds))
    between = f"±{most:.1%}" if len(bounds) == 1 else f"±{least:.1%} to ±{most:.1%}"
    return f"differences within {between} cannot be distinguished from noise"


def to_json(comparison: Comparison) -> dict[str, object]:
    """Return a comparison as plain values; ratios are B over A."""
    by_type = comparison.by_user_type
    return {
        "format": 1,
        "a": comparison.a,
        "b": comparison.b,
        "metric": comparison.metric,
        "ratio_is": "b / a",
        "unit_of_replication": comparison.unit_of_replication,
        "noise_floor_known": comparison.has_control,
        "one_run": comparison.is_one_run,
        "factors": [asdict(factor) for factor in comparison.factors],
        "refused": [asdict(difference) for difference in comparison.refused],
        "kinds": [asdict(kind) for kind in comparison.kinds],
        "overridden": comparison.is_overridden,
        "comparisons": [_case_json(comparison, case) for case in comparison.comparisons],
        "geometric_mean": _ratio_json(comparison.geometric_mean),
        "only_a": [dict(case) for case in comparison.only_a],
        "only_b": [dict(case) for case in comparison.only_b],
        "by_user_type": None if by_type is None else to_json(by_type),
    }


def _beside(case: CaseComparison) -> str:
    """Return the noise and the labels of a claim."""
    words = ""
    if case.noise_floor is not None:
        words += f" A against A: ±{math.expm1(case.noise_floor):.1%}."
    if case.labels:
        words += f" Labels: {', '.join(case.labels)}."
    return words


def _method(comparison: Comparison, case: CaseComparison) -> str:
    ratio = case.ratio
    unit = plural(comparison.unit_of_replication)
    freedom = f", t({ratio.degrees_of_freedom:.3g})" if ratio.degrees_of_freedom else ""
    tested = f"; p = {case.p:.2g}, Holm {case.p_holm:.2g}" if case.p is not None else ""
    tested += f", check {case.p_check:.2g}" if case.p_check is not None else ""
    days = f" of {ratio.days} days" if ratio.days > 1 else ""
    return f"{ratio.method_words}{freedom}, {_trials(case)} {unit}{days}{tested}"


def _named(case: CaseComparison) -> list[tuple[str, Parameter]]:
    """Return the parameters that name a case, with the round from the second on."""
    return [
        (key, value)
        for key, value in case.case.items()
        if value not in (None, "") and (key, value) != ("round", 1)
    ]


def unit_of_metric(metric: str) -> str:
    if metric == SECONDS:
        return "s"
    known = {"requests_per_s": "requests/s", "bytes_per_s": "bytes/s", "actions_per_s": "actions/s"}
    return known.get(metric, metric)


def _case_json(comparison: Comparison, case: CaseComparison) -> dict[str, object]:
    return {
        "case": {**({"target": case.target} if case.target else {}), **case.case},
        "a": case.a,
        "b": case.b,
        **_ratio_json(case.ratio),
        "n": min(case.ratio.n_a, case.ratio.n_b),
        "n_a": case.ratio.n_a,
        "n_b": case.ratio.n_b,
        "days": case.ratio.days,
        "method": case.method_words,
        "method_id": case.ratio.method,
        "p": case.p,
        "p_holm": case.p_holm,
        "p_check": case.p_check,
        "a12": case.a12,
        "noise_floor": case.noise_floor,
        "verdict": case.verdict,
        "standing_a": case.standings[0],
        "standing_b": case.standings[1],
        "reasons": list(case.reasons),
        "labels": list(case.labels),
        "sentence": sentence(comparison, case),
    }


def _ratio_json(ratio: statistics.Ratio | None) -> dict[str, object]:
    if ratio is None:
        return {"ratio": None, "ratio_low": None, "ratio_high": None}
    return {"ratio": ratio.ratio, "ratio_low": ratio.low, "ratio_high": ratio.high}
