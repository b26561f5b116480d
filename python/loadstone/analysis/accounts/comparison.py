"""Comparison: is B faster than A, by how much, and how certain is that?

The ratio is always B over A. Cases of a comparison are corrected together. Where no claim is
possible (too few trials, a void or bound arm, a difference within the noise) the verdict says so.
The headline of a page and `loadstone compare` both rest on this.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from loadstone.analysis.accounts.account import (
    Account,
    Measurement,
    Parameter,
    is_lower_better,
    standing_of_trials,
)
from loadstone.analysis.accounts.in_turns import arms_of, ratio_of
from loadstone.analysis.grouping import grouped
from loadstone.analysis.judgements.standing import Standing, may_be_compared
from loadstone.analysis.statistics import ratios as statistics
from loadstone.analysis.statistics import significance
from loadstone.analysis.statistics.mean import INTERVAL_TRIALS_MIN, Arms
from loadstone.documents.card import CardAnswer
from loadstone.errors import InputError

ABSENT = "not recorded"

Cases = Iterable[Mapping[str, Parameter]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One field in which two arms differ."""

    field: str
    a: object
    b: object

    def __str__(self) -> str:
        return f"{self.field}: {_shown(self.a)} and {_shown(self.b)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class KindDifference:
    """One question of a card that two stores answer differently."""

    name: str
    question: str
    a: CardAnswer
    b: CardAnswer

    def __str__(self) -> str:
        return f"{self.question}: {self.a} and {self.b}"


def is_factor(field: str, factors: Collection[str]) -> bool:
    """Tell whether a field is a declared factor, by its full name or by its last part.

    "size" also means "downloads get: dataset.size", and "tls" means "setting tls".
    """
    _, _, of_phase = field.rpartition(": ")
    last = of_phase.rpartition(".")[2].removeprefix("setting ")
    return bool({field, of_phase, last} & set(factors))


def differing_cases(a: Cases, b: Cases) -> tuple[Difference, ...]:
    """Return the facts of which the cases of two sides have no common value."""

    def shown(values: Mapping[str, Parameter]) -> object:
        known = list(values.values())
        return known[0] if len(known) == 1 else ", ".join(map(str, known)) or None

    values_a, values_b = _values_of(a), _values_of(b)
    return tuple(
        Difference(field=name, a=shown(of_a), b=shown(of_b))
        for name in dict.fromkeys([*values_a, *values_b])
        if not (of_a := values_a.get(name, {})).keys() & (of_b := values_b.get(name, {})).keys()
    )


def _values_of(cases: Cases) -> dict[str, dict[str, Parameter]]:
    values: dict[str, dict[str, Parameter]] = {}
    for case in cases:
        for name, value in case.items():
            values.setdefault(name, {})[repr(value)] = value
    return values


def differences(a: Account, b: Account) -> tuple[Difference, ...]:
    """Return the fields of the comparability key in which two arms differ.

    Targets are matched by name, or as the only ones. Fields that one side does not record, as
    published reports and files of other tools, do not differ.
    """
    differing: dict[str, Difference] = {}
    for target_a, target_b in _matched(a, b):
        facts_a, facts_b = _facts(a, target_a), _facts(b, target_b)
        if not facts_a or not facts_b:
            continue
        for field in dict.fromkeys([*facts_a, *facts_b]):
            # A phase that only one side has is a case without a partner, not a difference.
            if ": " in field and (field not in facts_a or field not in facts_b):
                continue
            value, other = facts_a.get(field, ABSENT), facts_b.get(field, ABSENT)
            if value != other:
                differing.setdefault(field, Difference(field=field, a=value, b=other))
    return tuple(differing.values())


def kinds_differ(a: Account, b: Account) -> tuple[KindDifference, ...]:
    """Return the questions that the stores of two arms answer differently, by their cards.

    They may be compared all the same, but one cannot replace the other.
    """
    kinds = []
    for target_a, target_b in _matched(a, b):
        if target_a not in a.cards or target_b not in b.cards:
            continue
        rows = {row["name"]: row for row in b.cards[target_b]["rows"]}
        for row in a.cards[target_a]["rows"]:
            other = rows.get(row["name"])
            words = {row["answer"], other["answer"]} if other else set()
            if other and len(words) == 2 and not words & {"undecided", "refused"}:
                answers = {"a": row["answer"], "b": other["answer"]}
                kinds.append(KindDifference(name=row["name"], question=row["question"], **answers))
    return tuple(kinds)


def _facts(account: Account, target: str) -> Mapping[str, object]:
    """Return a target's facts, without the name of a single workload.

    An unnamed workload has the name of its campaign, which two runs seldom share.
    """
    facts = account.comparable.get(target, {})
    workloads = {measurement.workload for measurement in account.measurements}
    if len(workloads) != 1:
        return facts
    return {
        field.removeprefix(f"{next(iter(workloads))} "): value for field, value in facts.items()
    }


def _matched(a: Account, b: Account) -> list[tuple[str, str]]:
    if len(a.targets) == len(b.targets) == 1:
        return [(a.targets[0], b.targets[0])]
    return [(target, target) for target in a.targets if target in b.targets]


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_shown(item)}" for key, item in value.items()) + "}"
    return "none" if value is None else str(value)


PairOutcome = Literal[
    "faster",
    "slower",
    "equivalent",
    "not resolved",
    "below noise floor",
    "too few trials",
    "single trial",
    "no ratio",
    "void",
]
"""The outcome of one case: "void" if a number of it must not be used, "no ratio" if both may be
used but bounds make their ratio meaningless.
"""

ALPHA = 0.05
TRIALS_MIN = INTERVAL_TRIALS_MIN
MARGIN = 0.03
NONCOMPARABLE = "NONCOMPARABLE"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseComparison:
    """One case in both arms: geometric means `a` and `b`, their ratio B/A, and the verdict.

    Means of interleaved trials are those of common turns. `reasons` are the ids of the rules behind
    the `standings` of A and B. `p_holm` decides, which is `p` corrected for the family. For pairs,
    `p_check` is that of sign flips, which assume no distribution; `is_checked` if they agree as far
    as so few pairs can.
    """

    case: Mapping[str, Parameter]
    target: str | None
    a: float
    b: float
    ratio: statistics.Ratio
    p: float | None
    p_holm: float | None
    p_check: float | None
    is_checked: bool
    a12: float | None
    noise_floor: float | None
    verdict: PairOutcome
    standings: tuple[Standing, Standing]
    reasons: tuple[str, ...]
    labels: tuple[str, ...] = ()

    @property
    def has_ratio(self) -> bool:
        """Whether the ratio is one of the targets."""
        return self.verdict not in ("void", "no ratio")

    @property
    def test_words(self) -> str:
        """The test beside the interval, in words."""
        return "checked by sign flips" if self.ratio.is_paired else "Mann-Whitney"

    @property
    def method_words(self) -> str:
        """The method of the interval and of p, in words."""
        p = "" if self.ratio.is_paired else " p"
        return f"{self.ratio.method_words}, {self.test_words}{p}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two arms, case by case and together.

    `factors` are the compared fields, declared by the caller or by two targets of one run; `kinds`
    are differing answers of the cards. `refused` are fields that make a ratio meaningless: without
    insistence there are no comparisons then. `geometric_mean` is of all cases that have a ratio, or
    that of the only one; None if some cases are sums of others. If not `is_one_run`, anything
    that changed between two runs is part of the ratio. `only_a` and `only_b` are cases without a
    partner. `by_user_type` compares actions by the types of users, with a correction of its own.
    """

    a: str
    b: str
    metric: str
    unit_of_replication: str
    comparisons: tuple[CaseComparison, ...]
    geometric_mean: statistics.Ratio | None
    factors: tuple[Difference, ...] = ()
    refused: tuple[Difference, ...] = ()
    kinds: tuple[KindDifference, ...] = ()
    is_overridden: bool = False
    has_control: bool = False
    is_one_run: bool = False
    only_a: tuple[Mapping[str, Parameter], ...] = ()
    only_b: tuple[Mapping[str, Parameter], ...] = ()
    by_user_type: "Comparison | None" = None


def compare(
    a: Account,
    b: Account,
    *,
    metric: str | None = None,
    seed: int = 1,
    is_insisted: bool = False,
    controls: Sequence[Account] = (),
    factors: Sequence[str] = (),
    is_together: bool = True,
) -> Comparison:
    """Compare two accounts by their matching cases.

    With one target on each side the targets are the arms; otherwise targets of equal names are
    matched. Trials of the same blocks are compared in pairs, others by Welch's t on logarithms. The
    p of the paired t (checked by sign flips) or of Mann-Whitney decides, corrected by Holm over all
    cases. `controls` are whole runs that may list a target twice. `factors` are facts or fields in
    which the arms may differ. Without `is_together` the ratio of all cases is left out, whose
    resampling is slow.
    """
    headlines = [account.headline() for account in (a, b)]
    shared_metrics = {*a.metrics} & {*b.metrics}
    chosen = metric or next(filter(shared_metrics.__contains__, headlines), headlines[0])
    cells_a, cells_b = _cells(a, b, chosen, factors)
    is_one_run = bool(a.run) and a.run == b.run
    shared = [key for key in cells_a if key in cells_b]
    compared, refused = _split(a, b, (cells_a, cells_b), factors, is_one_run=is_one_run)
    floors = noise_floors((a, b, *controls), chosen)
    shell = Comparison(
        a=a.name,
        b=b.name,
        metric=chosen,
        unit_of_replication=_unit(a, b),
        comparisons=(),
        geometric_mean=None,
        factors=compared,
        refused=refused,
        kinds=kinds_differ(a, b),
        is_overridden=is_insisted and bool(refused),
        has_control=bool(floors),
        is_one_run=is_one_run,
        only_a=tuple(dict(c[0].case_over_rounds) for k, c in cells_a.items() if k not in cells_b),
        only_b=tuple(dict(c[0].case_over_rounds) for k, c in cells_b.items() if k not in cells_a),
    )
    if refused and not is_insisted:
        return shell
    if not shared:
        fields = ", ".join(difference.field for difference in refused)
        raise InputError(
            f'"{a.name}" and "{b.name}" have no case in common for {chosen}'
            + (f": they differ in {fields}" if fields else ""),
            "a case is a workload, an operation, its parameters and its round; name the compared"
            " parameter: --factor threads",
        )
    first = [
        _compare_case(
            cells_a[key],
            cells_b[key],
            floor=floors.get(cells_a[key][0].case_over_rounds, floors.get(None)),
            seed=seed,
            is_one_run=is_one_run,
            target=None if _are_arms(a, b) else cells_a[key][0].target,
            factors=factors,
        )
        for key in shared
    ]
    judged = _with_verdicts(first, [(cells_a[key], cells_b[key]) for key in shared], chosen)
    if refused:
        judged = [replace(case, labels=(*case.labels, NONCOMPARABLE)) for case in judged]

    comparison = replace(shell, comparisons=tuple(judged))
    if not is_together:
        return comparison
    arms = [
        arms_of(cells_a[key], cells_b[key], is_one_run=is_one_run)
        for key, case in zip(shared, judged, strict=True)
        if case.has_ratio
    ]
    comparison = replace(comparison, geometric_mean=_together(judged, arms, seed))
    again = partial(compare, metric=chosen, seed=seed, is_insisted=is_insisted, controls=controls)
    return replace(comparison, by_user_type=_by_user_type(a, b, chosen, factors, again))


def _together(
    judged: Sequence[CaseComparison], arms: Sequence[Arms], seed: int
) -> statistics.Ratio | None:
    if len(arms) < 2:
        # A single case has its own ratio already.
        return next((case.ratio for case in judged if case.has_ratio), None)
    return statistics.geometric_mean_ratio(
        [(arm.a, arm.b) for arm in arms], seed=seed, trials_min=TRIALS_MIN
    )


def _by_user_type(
    a: Account, b: Account, metric: str, factors: Sequence[str], again: Callable[..., Comparison]
) -> Comparison | None:
    """Compare the actions of each type of users; None without a common type."""
    arm_a, other = (
        replace(arm, measurements=arm.of_user_types, of_user_types=()) for arm in (a, b)
    )
    if not arm_a.of(metric) or not other.of(metric):
        return None
    cells_a, cells_b = _cells(arm_a, other, metric, factors)
    if not cells_a.keys() & cells_b.keys():
        return None
    # No mean over cases: one of them is the sum of the others.
    return replace(again(arm_a, other, factors=factors), geometric_mean=None)


def ratio_together(a: Account, b: Account, metric: str) -> float | None:
    """Return the ratio of all cases of two arms of one run, without interval and tests.

    None if all cases are void.
    """
    cells_a, cells_b = _cells(a, b, metric, ())
    pairs = [(trials, cells_b[key]) for key, trials in cells_a.items() if key in cells_b]
    usable = [pair for pair in pairs if _is_usable(*pair)]
    if len(usable) < 2:
        return next((ratio_of(*pair, is_one_run=True).ratio for pair in usable), None)
    all_arms = [arms_of(*pair, is_one_run=True) for pair in usable]
    return statistics.ratio_together([(arms.a, arms.b) for arms in all_arms])


def _split(
    a: Account,
    b: Account,
    cells: tuple["Cells", "Cells"],
    factors: Sequence[str],
    *,
    is_one_run: bool,
) -> tuple[tuple[Difference, ...], tuple[Difference, ...]]:
    """Return the compared differences, and those that refuse the ratio."""
    sides = [[dict(group[0].case_over_rounds) for group in side.values()] for side in cells]
    of_cases = differing_cases(*sides)
    # If no case has a partner, the fields that distinguish the cases refuse the ratio.
    matters = not cells[0].keys() & cells[1].keys()
    declared = [of_case for of_case in of_cases if of_case.field in factors]
    differing = [of_case for of_case in of_cases if matters and of_case.field not in factors]
    # Targets of one campaign differ on purpose: the difference is what is measured.
    for difference in differences(a, b):
        (declared if is_one_run or is_factor(difference.field, factors) else differing).append(
            difference
        )
    return tuple(declared), tuple(differing)


def _compare_case(
    a: Sequence[Measurement],
    b: Sequence[Measurement],
    *,
    floor: float | None,
    seed: int,
    is_one_run: bool,
    target: str | None,
    factors: Sequence[str],
) -> CaseComparison:
    arms = arms_of(a, b, is_one_run=is_one_run)
    ratio = ratio_of(a, b, is_one_run=is_one_run)
    values_a, values_b = arms.a, arms.b
    (standing_a, reasons_a), (standing_b, reasons_b) = standing_of_trials(a), standing_of_trials(b)
    if arms.is_paired:
        logs = [math.log(y / x) for x, y in zip(values_a, values_b, strict=True)]
        # Five pairs never bring the sign flips below 0.06, so the t of the interval decides.
        p, check = statistics.t_p(ratio), None
        if p is not None:
            check = significance.sign_flip_p(logs, seed=seed)
        # The smallest p of sign flips is that of equal signs.
        least = 2.0 ** (1 - len(logs)) * (1 + 1e-9)
        is_checked = check is not None and (check < ALPHA or check <= least)
    else:
        p = significance.mann_whitney_p(values_a, values_b) if ratio.low is not None else None
        check, is_checked = None, True
    return CaseComparison(
        case=dict(a[0].case_without("round", *factors)),
        target=target,
        a=statistics.geometric_mean(values_a),
        b=statistics.geometric_mean(values_b),
        ratio=ratio,
        p=p,
        p_holm=None,
        p_check=check,
        is_checked=is_checked,
        a12=significance.a12(values_a, values_b) if ratio.low is not None else None,
        noise_floor=floor,
        verdict="not resolved",
        standings=(standing_a, standing_b),
        reasons=tuple(dict.fromkeys((*reasons_a, *reasons_b))),
        labels=tuple(
            dict.fromkeys(label for measurement in (*a, *b) for label in measurement.labels)
        ),
    )


def _is_usable(a: Sequence[Measurement], b: Sequence[Measurement]) -> bool:
    (standing, reasons), (other, others) = standing_of_trials(a), standing_of_trials(b)
    return may_be_compared(standing, other, (*reasons, *others))


def _with_verdicts(
    case_comparisons: Sequence[CaseComparison],
    values: Sequence[tuple[Sequence[Measurement], Sequence[Measurement]]],
    metric: str,
) -> list[CaseComparison]:
    p_values = [case.p for case in case_comparisons if case.p is not None]
    corrected = iter(significance.holm(p_values))
    judged = []
    for case, (a, b) in zip(case_comparisons, values, strict=True):
        p_holm = next(corrected) if case.p is not None else None
        with_p = replace(case, p_holm=p_holm)
        judged.append(replace(with_p, verdict=_verdict(with_p, a, b, metric)))
    return judged


def _verdict(
    case: CaseComparison, a: Sequence[Measurement], b: Sequence[Measurement], metric: str
) -> PairOutcome:
    if "void" in case.standings:
        return "void"
    if not _is_usable(a, b):
        return "no ratio"
    if case.ratio.low is None or case.ratio.high is None:
        return "single trial"
    if min(case.ratio.n_a, case.ratio.n_b) < TRIALS_MIN:
        return "too few trials"
    if case.noise_floor is not None and abs(math.log(case.ratio.ratio)) < case.noise_floor:
        return "below noise floor"
    is_clear = not case.ratio.low <= 1 <= case.ratio.high
    if is_clear and case.p_holm is not None and case.p_holm < ALPHA and case.is_checked:
        is_less = case.ratio.ratio < 1
        return "faster" if is_less == is_lower_better(metric) else "slower"
    arms = arms_of(a, b, is_one_run=case.ratio.is_paired)
    are_equal = statistics.are_equivalent(arms.a, arms.b, is_paired=arms.is_paired, margin=MARGIN)
    return "equivalent" if are_equal else "not resolved"


Cells = dict[object, list[Measurement]]
"""The trials of each case of one arm."""


def _cells(a: Account, b: Account, metric: str, factors: Sequence[str]) -> tuple[Cells, Cells]:
    are_arms = _are_arms(a, b)

    def key(measurement: Measurement) -> object:
        case = measurement.case_without("round", *factors)
        return case if are_arms else (measurement.target, case)

    cells = grouped(a.of(metric), key), grouped(b.of(metric), key)
    for account, own_cells in zip((a, b), cells, strict=True):
        if not own_cells:
            known = ", ".join(account.metrics) or "none"
            raise InputError(f'"{account.name}" has no values of {metric}', f"it has {known}")
        _check_factors(account, own_cells, factors)
    return cells


def _check_factors(account: Account, cells: Cells, factors: Sequence[str]) -> None:
    """Refuse a factor with several values within one arm."""
    for members in cells.values():
        for name in factors:
            values = {
                repr(fact): fact for member in members for fact in [dict(member.case).get(name)]
            }
            if len(values) > 1:
                shown = ", ".join(map(str, values.values()))
                example = next(iter(values.values()))
                raise InputError(
                    f'"{account.name}" has several values of {name}: {shown}',
                    f'a factor has one value on each side: --only "{name}={example}"',
                )


def _are_arms(a: Account, b: Account) -> bool:
    return len(a.targets) == len(b.targets) == 1


def _unit(a: Account, b: Account) -> str:
    stated = a.disclosure.replication_unit or b.disclosure.replication_unit
    if stated:
        return stated
    is_one_run = a.run and a.run == b.run
    return "block" if is_one_run and all(m.block is not None for m in a.measurements) else "trial"


def noise_floors(accounts: Sequence[Account], metric: str) -> dict[object, float]:
    """Return |ln ratio| of a target against itself, by case; the largest as None."""
    floors: dict[object, float] = {}
    for account in accounts:
        for name, other in account.identical:
            cells = grouped(account.of(metric, name), lambda m: m.case_over_rounds)
            twins = grouped(account.of(metric, other), lambda m: m.case_over_rounds)
            for case in cells.keys() & twins.keys():
                ratio = arms_of(cells[case], twins[case], is_one_run=bool(account.run)).ratio
                if ratio.reach is not None:
                    floors[case] = max(ratio.reach, floors.get(case, 0.0))
    if floors:
        floors[None] = max(floors.values())
    return floors
