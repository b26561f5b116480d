"""Finds differences between the targets of one report that exceed chance."""

import math
from collections.abc import Iterator, Mapping
from itertools import pairwise

from loadstone.analysis.accounts.account import Account, Parameter
from loadstone.analysis.accounts.comparison import ALPHA, Comparison, compare, ratio_together
from loadstone.analysis.judgements.finding import Evidence, Finding
from loadstone.analysis.rules.rule import NumberRules
from loadstone.analysis.statistics.ratios import TOGETHER

RULES = NumberRules()


@RULES.note(
    id="noise-floor",
    says="the result of an A/A control",
    means="A smaller difference between targets cannot be distinguished from chance.",
    do="Run more blocks to lower it.",
)
@RULES.note(
    id="arms-differ",
    says="which targets differ after Holm's correction",
    means="Differences within the noise floor are none.",
    do="Run more blocks where a difference is not decided.",
)
def arms_differ(account: Account) -> Iterator[Finding]:
    """Compare the targets where trials were repeated, corrected for the many cases.

    A target that is listed twice is a control: it shows the noise of the method.
    """
    twins = {second for _, second in account.identical}
    arms = [target for target in account.targets if target not in twins]
    for first, second in [*pairwise(arms), *account.identical]:
        a, b = account.only(first), account.only(second)
        if not _is_repeated(a) or not _is_repeated(b):
            continue
        comparison = compare(a, b)
        if second in twins:
            yield _control(comparison)
        elif len(comparison.comparisons) > 1:
            yield _finding(comparison, _without_first(a, b, comparison.metric))


def _control(comparison: Comparison) -> Finding:
    cases = comparison.comparisons
    floor = math.expm1(max((case.ratio.reach or 0.0 for case in cases), default=0.0))
    falsely = [case for case in cases if case.verdict in ("faster", "slower")]
    wrong = f"; {len(falsely)} cases differ though nothing does" if falsely else ""
    return Finding(
        "noise-floor",
        weight="problem" if falsely else "note",
        statement=f"A against A ({comparison.a} and {comparison.b}, one target): differences up to"
        f" {floor:.1%}"
        f" cannot be distinguished from noise{wrong}",
        evidence=(Evidence("noise floor of a ratio", floor),),
        cases=tuple(_short(case.case) for case in falsely),
    )


def _finding(comparison: Comparison, without_first: float | None) -> Finding:
    tested = [case for case in comparison.comparisons if case.p is not None]
    raw = [case for case in tested if case.p is not None and case.p < ALPHA]
    significant = [case for case in tested if case.p_holm is not None and case.p_holm < ALPHA]
    names = ", ".join(_short(case.case) for case in significant)
    named = f": {names}" if names else ""
    test = tested[0].test_words if tested else "no test"
    statement = (
        f"{len(significant)} of {len(tested)} cases differ between {comparison.a} and"
        f" {comparison.b} after Holm's"
        f" correction{named} ({test}, p < {ALPHA}; {len(raw)} without the correction)"
    )
    evidence = [
        Evidence(
            f"p after Holm, {_short(case.case)}",
            case.p_holm if case.p_holm is not None else 1.0,
            ALPHA,
        )
        for case in tested
    ]
    together = comparison.geometric_mean
    if together is not None and together.low is not None and together.high is not None:
        statement += (
            f"; the {TOGETHER} {comparison.b} / {comparison.a} is {together.ratio:.3f}"
            f" (95 % CI {together.low:.3f}-{together.high:.3f})"
        )
        evidence.append(Evidence(TOGETHER, together.ratio))
    if without_first is not None:
        statement += f", and {without_first:.3f} without each first repetition"
        evidence.append(Evidence("geometric mean without first repetitions", without_first))
    return Finding(
        "arms-differ",
        statement,
        evidence=tuple(evidence),
        cases=tuple(_short(case.case) for case in significant),
    )


def _without_first(a: Account, b: Account, metric: str) -> float | None:
    if not all(any(m.repetition > 2 for m in side.measurements) for side in (a, b)):
        return None
    later_a, later_b = (side.where(lambda m: m.repetition > 1) for side in (a, b))
    return ratio_together(later_a, later_b, metric)


def _is_repeated(account: Account) -> bool:
    return any(measurement.repetition > 1 for measurement in account.of(account.headline()))


def _short(case: Mapping[str, Parameter]) -> str:
    if case.get("query"):
        return str(case["query"])
    left_out = ("workload", "round")
    return " ".join(str(value) for key, value in case.items() if key not in left_out and value)
