"""The first screen of a report: a sentence, its confidence, and a few tiles.

Failures come first. Two targets are compared as by `loadstone compare`: a ratio is claimed only if
it decides, beside the two rates that it is of.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Literal

from loadstone import units
from loadstone.analysis import Findings
from loadstone.analysis.accounts import claims
from loadstone.analysis.accounts.account import ACTION_RATE, RATE
from loadstone.analysis.accounts.comparison import CaseComparison, Comparison, compare
from loadstone.analysis.accounts.run_account import measurements_of_action
from loadstone.analysis.answers.answer import (
    ACTION,
    NO_RESULT,
    Answer,
    Curve,
    FailedTarget,
    case_words,
    failed_targets,
    no_result,
    store_statements,
)
from loadstone.analysis.grouping import added_up
from loadstone.analysis.judgements.result import Result
from loadstone.analysis.limits.searches import describe_answer
from loadstone.analysis.naming import describe_parameter, describe_parameters, varied_parameters
from loadstone.analysis.rules import find_rule
from loadstone.analysis.statistics.mean import INTERVAL_TRIALS_MIN
from loadstone.campaign.schema.target import SYSTEM
from loadstone.errors import InputError

Standing = Literal["void", "bound", "first look", "good"]

OPERATIONS_FIRST = ("get", "read", "put", "write")
KNEES_MAX = 4
NOT_KNOWN = find_rule("UNDETERMINED").short


@dataclass(frozen=True, slots=True)
class Tile:
    """One number of the first screen, with its name and a note.

    `key` identifies it to programs; pages have it as `data-tile`.
    """

    key: str
    name: str
    value: str
    note: str
    _: KW_ONLY
    is_bound: bool = False
    is_bad: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRatio:
    """Two targets in one case, and the comparison of `over` with `under`."""

    over: Result
    under: Result
    comparison: Comparison
    of: CaseComparison

    @property
    def is_claimed(self) -> bool:
        """Whether the comparison decides that they differ."""
        return self.of.verdict in ("faster", "slower")


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """The first screen; `confidence` is 0 (must not be used) to 3."""

    sentence: str
    standing: Standing
    tiles: tuple[Tile, ...]
    failed: tuple[FailedTarget, ...]
    best: Result | None
    ratio: TargetRatio | None
    confidence: int


def headline_of(findings: Findings, answer: Answer) -> Headline:
    """Return the first screen of a run."""
    failed = tuple(failed_targets(findings, answer))
    usable = [result for result in answer.results if not result.is_void and result.good]
    operation = _main_operation(usable, answer.results)
    of_operation = [result for result in usable if result.operation == operation]
    is_data = _is_data(of_operation)
    best = max(of_operation, key=lambda result: _speed(result, is_data=is_data), default=None)
    ratio = _ratio(findings, of_operation)
    curve = next((knee for knee in answer.knees if best is not None and best in knee.results), None)
    confidence = _confidence(answer, of_operation)
    sentences = [
        # Without a best result, the main sentence says why none of them may be used.
        *(
            # A result that is void because of a busy host has not failed.
            f"{target.target} {'has' if target.reason == NO_RESULT else 'failed:'} {target.reason}."
            for target in failed
            if best is not None or target.reason != NO_RESULT
        ),
        *(f"{search.name}: {describe_answer(search)}." for search in findings.searches),
        *_main_sentence(findings, best, ratio, answer),
        *_knee_sentence(answer),
        *_limit_sentence(best, ratio),
        *_void_sentence(best, answer),
        *(f"{words[:1].upper()}{words[1:]}." for words in store_statements(findings)),
    ]
    return Headline(
        sentence=" ".join(sentences),
        standing=_standing(of_operation, best, confidence),
        tiles=tuple(_tiles(answer, of_operation, best, ratio, curve, confidence)),
        failed=failed,
        best=best,
        ratio=ratio,
        confidence=confidence,
    )


def _is_data(results: Sequence[Result]) -> bool:
    """Tell whether results differ in size: the best one then moves the most data."""
    return len({result.size_bytes for result in results}) > 1 and all(
        result.bytes for result in results
    )


def _speed(result: Result, *, is_data: bool) -> float:
    return result.bytes_per_s if is_data else result.requests_per_s


def _load_words(curve: Curve, result: Result) -> str:
    return describe_parameter(curve.load, result.parameters.get(curve.load))


def _main_operation(usable: Sequence[Result], results: Sequence[Result]) -> str:
    names = [result.operation for result in usable]
    if not set(names) & {*OPERATIONS_FIRST} and any(
        result.operation in OPERATIONS_FIRST for result in results if result.good
    ):
        # Other operations do not characterise a store whose reads and writes are void.
        return ""
    return next((name for name in OPERATIONS_FIRST if name in names), next(iter(names), ""))


def _void_sentence(best: Result | None, answer: Answer) -> Iterable[str]:
    """Name operations without a result, if others have one."""
    if best is None:
        return
    good = [result for result in answer.results if result.good]
    valid = {result.operation for result in good if not result.is_void}
    void = dict.fromkeys(result.operation for result in good if result.operation not in valid)
    if void:
        yield f"No result of {', '.join(void)} may be used; the cautions say why."


def _ratio(findings: Findings, results: Sequence[Result]) -> TargetRatio | None:
    """Return the ratio of the two fastest targets in the fastest common case.

    A target under two names counts once.
    """
    twins = {second for _, second in findings.account.identical}
    best: dict[str, dict[tuple[str, str, str], Result]] = {}
    for result in results:
        if result.system not in twins:
            best.setdefault(result.system, {}).setdefault(_case(result), result)
    if len(best) < 2:
        return None
    ranked = sorted(best.values(), key=lambda cases: -max(c.requests_per_s for c in cases.values()))
    common = [case for case in ranked[0] if case in ranked[1]]
    if not common:
        return None
    case = max(common, key=lambda case: ranked[0][case].requests_per_s)
    over, under = ranked[0][case], ranked[1][case]
    if under.requests_per_s > over.requests_per_s:
        over, under = under, over
    account, metric = findings.account, RATE
    if over.operation == ACTION:
        # The account has single actions; the result is of all of them together.
        totals = (m for total in findings.action_totals for m in measurements_of_action(total))
        account, metric = replace(account, measurements=tuple(totals)), ACTION_RATE
    arms = [account.only(result.system) for result in (under, over)]
    try:
        compared = compare(*arms, metric=metric, controls=(account,), is_together=False)
    except InputError:
        # For example, a target without a rate in any trial.
        return None
    trials = {f"trial {name}" for name in over.trials}
    # In a mix, trials have several operations; measurements append the phase to their names.
    cases = {
        m.case_over_rounds
        for m in arms[1].of(metric)
        if m.place in trials and over.operation in (ACTION, m.operation.partition(" ")[0])
    }
    of = next(
        (
            comparison
            for comparison in compared.comparisons
            if tuple(comparison.case.items()) in cases
        ),
        None,
    )
    return None if of is None else TargetRatio(over=over, under=under, comparison=compared, of=of)


def _case(result: Result) -> tuple[str, str, str]:
    return result.workload, result.phase, case_words(result)


def _standing(results: Sequence[Result], best: Result | None, confidence: int) -> Standing:
    if best is None:
        return "void"
    if any(result.is_bound for result in results):
        return "bound"
    return "first look" if confidence < 2 else "good"


def _confidence(answer: Answer, results: Sequence[Result]) -> int:
    if not results:
        return 0
    trials = min(result.rate.n for result in results)
    labels = {label for result in results for label in result.labels}
    if trials < 2 or "SHORT" in labels:
        return 1
    is_clear = trials >= INTERVAL_TRIALS_MIN and not any(result.is_bound for result in results)
    return 3 if is_clear and not answer.cautions else 2


def _rate(result: Result, *, is_data: bool = False) -> str:
    shown = (
        units.format_byte_rate(result.bytes_per_s)
        if is_data
        else _per_s(result, result.requests_per_s)
    )
    return f"{'at least ' if result.is_bound else ''}{shown}"


def _per_s(result: Result, rate: float) -> str:
    shown = units.format_rate(rate)
    return f"{shown.removesuffix('/s')} actions/s" if result.operation == ACTION else shown


def _at(result: Result) -> str:
    words = case_words(result)
    return f" ({words})" if words else ""


def _main_sentence(
    findings: Findings, best: Result | None, ratio: TargetRatio | None, answer: Answer
) -> Iterable[str]:
    if best is None and findings.searches and not answer.results:
        return
    if best is None:
        void = [result for result in answer.results if result.good]
        reasons = dict.fromkeys(result.limit_words for result in void)
        yield f"No result may be used: {'; '.join(reasons)}." if void else no_result(findings)
        return
    operation = best.operation
    if ratio is not None:
        yield _ratio_sentence(ratio)
        if best not in (ratio.over, ratio.under):
            where = ", ".join(word for word in (best.target, case_words(best)) if word)
            yield f"Best {operation} rate: {_rate(best)} ({where})."
        return
    p99 = _time(best, "p99")
    late = f", 99 % of them within {p99}" if p99 else ""
    is_data = _is_data([result for result in answer.results if result.operation == operation])
    shown = (
        units.format_byte_rate(best.bytes_per_s) if is_data else _per_s(best, best.requests_per_s)
    )
    rate = shown + (" or more" if best.is_bound else "")
    did = "completed" if operation == ACTION else f"served {operation} at"
    yield f"{best.target} {did} {rate}{_at(best)}{late}."


def _knee_sentence(answer: Answer) -> Iterable[str]:
    """Return the knee of each operation, target and size."""
    if not answer.knees:
        return
    are_sized = _is_data([result for result in answer.results if result.bytes])
    several = len({result.target for result in answer.results}) > 1
    differing = varied_parameters(result.parameters for result in answer.results)
    words = []
    for curve in answer.knees:
        knee = dict(curve.points)["knee"]
        others = {k: v for k, v in knee.parameters.items() if k not in (curve.load, SYSTEM)}
        varied = {k: v for k, v in others.items() if k in differing}
        name = [knee.target] * several + [knee.operation, describe_parameters(varied)]
        rate = _rate(knee, is_data=are_sized and bool(knee.bytes))
        words.append(f"{' '.join(filter(None, name))} {_load_words(curve, knee)} ({rate})")
    more = f" and {len(words) - KNEES_MAX} more" if len(words) > KNEES_MAX else ""
    yield f"Knee, 95 % of the highest rate: {', '.join(words[:KNEES_MAX])}{more}."


def _ratio_sentence(ratio: TargetRatio) -> str:
    """Return the ratio of two targets, or why it is not claimed."""
    over, under, of = ratio.over, ratio.under, ratio.of
    # A ratio is that of the rates printed beside it, which are those of the compared pairs.
    rates = over.requests_per_s, under.requests_per_s
    over_rate, under_rate = (of.b, of.a) if of.has_ratio else rates
    of_pairs = not all(map(math.isclose, (over_rate, under_rate), rates))
    basis = ratio_words(ratio)
    at = _at(over) + (f" in {of.ratio.n_a} common blocks" if of_pairs else "")
    if ratio.is_claimed:
        ends = [(over.target, of.ratio.ratio), (under.target, 1 / of.ratio.ratio)]
        (first, times), (second, _) = ends if of.verdict == "faster" else ends[::-1]
        return (
            f"{first} reached {units.format_number(times)}× the {over.operation} rate of {second}:"
            f" {_per_s(over, over_rate)} against {_per_s(under, under_rate)}{at}; {basis}."
        )
    if not of.has_ratio:
        # The next sentence says what limits which of them.
        limits = {over.limit_words, under.limit_words}
        others = [reason for reason in claims.reasons([of]) if reason not in limits]
        basis = "; ".join(others) or "no ratio"
    return (
        f"{over.operation}: {over.target} {_per_s(over, over_rate)},"
        f" {under.target} {_per_s(under, under_rate)}{at}; {basis}."
    )


def ratio_words(ratio: TargetRatio) -> str:
    """Return the basis of a ratio, or why there is none."""
    of = ratio.of
    if not of.has_ratio:
        return "; ".join(claims.reasons([of]))
    if of.verdict not in ("faster", "slower"):
        return claims.in_words(of)
    low, high = (units.format_number(end or 0.0) for end in (of.ratio.low, of.ratio.high))
    unit = "pair" if of.ratio.is_paired else "trial"
    return f"95 % interval {low} to {high}, {units.counted(of.ratio.n_a, unit)}"


def _limit_sentence(best: Result | None, ratio: TargetRatio | None) -> Iterable[str]:
    if best is None:
        return
    named = (ratio.over, ratio.under) if ratio is not None else (best,)
    words = {result.target: result.limit_words for result in named}
    limits = {target: limit for target, limit in words.items() if limit not in ("", NOT_KNOWN)}
    if len(set(limits.values())) == 1 and len(limits) == len(named):
        limit = next(iter(limits.values()))
        yield f"{'Both limited' if len(named) > 1 else 'Limited'} by: {limit}."
    elif limits:
        yield f"Limited by: {', '.join(f'{limits[name]} ({name})' for name in limits)}."
    if any(result.is_bound for result in named):
        yield "A lower bound is the least that a target can do, not its maximum."


def _time(result: Result, name: str) -> str:
    latency = result.headline
    if latency is None:
        return ""
    if name in latency.at_least:
        return f"≥ {units.format_duration(latency.at_least[name])}"
    value = latency.quantiles[name]
    return "" if value is None else units.format_duration(value)


def _tiles(
    answer: Answer,
    results: Sequence[Result],
    best: Result | None,
    ratio: TargetRatio | None,
    curve: Curve | None,
    confidence: int,
) -> Iterable[Tile]:
    if best is not None:
        cell, is_data = best, _is_data(results)
        yield Tile(
            "rate",
            f"Most {cell.operation} data" if is_data else f"Best {cell.operation} rate",
            _rate(best, is_data=is_data),
            " · ".join(word for word in (cell.target, case_words(best)) if word),
            is_bound=best.is_bound,
        )
        yield from _second(best, ratio, curve)
        shown = _time(best, "p99")
        middle = _time(best, "p50")
        yield Tile(
            "p99",
            f"p99 of {'an action' if cell.operation == ACTION else cell.operation}",
            shown or "–",
            f"{cell.target} · median {middle}" if shown else "too few requests to tell",
        )
    yield _failures(answer)
    yield _confidence_tile(answer, results, best, confidence)


def _second(best: Result, ratio: TargetRatio | None, curve: Curve | None) -> Iterable[Tile]:
    if ratio is not None:
        value = f"{units.format_number(ratio.of.ratio.ratio)}×" if ratio.is_claimed else "not known"
        yield Tile(
            "ratio",
            f"{ratio.over.target} ÷ {ratio.under.target}",
            value,
            f"{best.operation} · {ratio_words(ratio)}",
        )
    elif curve is not None:
        knee = dict(curve.points)["knee"]
        yield Tile(
            "knee",
            "Knee",
            _load_words(curve, knee),
            f"{units.format_rate(knee.requests_per_s)}: 95 % of the most is reached",
        )
    elif best.bytes:
        yield Tile(
            "bytes",
            "Data",
            _rate(best, is_data=True),
            f"{best.target} · {best.operation}",
            is_bound=best.is_bound,
        )


def _failures(answer: Answer) -> Tile:
    failed = sum(result.failed for result in answer.results)
    requests = sum(result.requests for result in answer.results)
    are_actions = any(result.operation == ACTION for result in answer.results)
    name = f"Failed {'actions' if are_actions else 'requests'}"
    if any(result.failed_if_stated is None for result in answer.results) and not failed:
        return Tile("failed", name, "not stated", "")
    if not failed:
        count = units.format_count(requests)
        note = f"of {count}" if requests else ""
        return Tile("failed", name, "0", note)
    kinds = added_up(error for result in answer.results for error in result.errors.items())
    most = sorted(kinds, key=lambda kind: -kinds[kind])[:2]
    share = units.format_number(100 * failed / requests, 2)
    return Tile(
        "failed",
        name,
        units.format_count(failed),
        f"{share} % · {', '.join(kind.replace('_', ' ') for kind in most)}",
        is_bad=True,
    )


def _confidence_tile(
    answer: Answer, results: Sequence[Result], best: Result | None, confidence: int
) -> Tile:
    words = ("none", "first look", "repeated", "good")[confidence]
    dots = "●" * confidence + "○" * (3 - confidence)
    notes = []
    if best is not None:
        counts = sorted({result.rate.n for result in results})
        many = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        notes.append(f"{many} trial{'' if counts == [1] else 's'} per number")
        notes += ["each short"] if "SHORT" in best.labels else []
    return Tile(
        "confidence",
        "Confidence",
        f"{dots} {words}",
        " · ".join(notes) or "no usable result",
        is_bad=confidence == 0 and bool(answer.results),
    )
