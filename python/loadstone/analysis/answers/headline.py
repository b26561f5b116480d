"""The first screen of a report: one sentence, how far it may be trusted, and a few tiles.

What failed is named first. A ratio of two targets is the paired one, with its interval, where they
took turns block by block or round by round; otherwise it is that of their medians, and says so.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from loadstone import units
from loadstone.analysis import Findings
from loadstone.analysis.answers.answer import Answer, Curve, Result
from loadstone.analysis.answers.of_scripts import ACTION
from loadstone.analysis.answers.turns import pairs_in_turns
from loadstone.analysis.limits.searches import describe_answer
from loadstone.analysis.measured.trial_facts import TrialFacts
from loadstone.analysis.naming import describe_parameter, describe_parameters
from loadstone.analysis.rules import find_rule
from loadstone.analysis.statistics.ratios import paired_ratio
from loadstone.campaign.schema.systems.target import SYSTEM

Standing = Literal["void", "bound", "first look", "good"]

OPERATIONS_FIRST = ("get", "read", "put", "write")
TRIALS_FOR_CONFIDENCE = 5
REASON_MAX = 140
NO_RESULT = "no result that may be used"
NOT_RESOLVED = ", so not resolved"
NOT_KNOWN = find_rule("UNDETERMINED").short


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One number of the first screen: what it is, its value in words, and what it rests on.

    `key` says to programs what it is of, as several tiles may be; a page has it as `data-tile`.
    """

    key: str
    name: str
    value: str
    note: str
    is_bound: bool = False
    is_bad: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRatio:
    """One target's rate over another's in one case.

    `low` and `high` bound it with 95 % where the targets took turns; `pairs` of them. Without an
    interval it is the ratio of medians, and `is_one_by_one` says that both have several trials, of
    which all of one target ran before the other's.
    """

    over: Result
    under: Result
    ratio: float
    low: float | None
    high: float | None
    pairs: int
    is_one_by_one: bool = False

    @property
    def is_resolved(self) -> bool:
        """Whether the interval, if there is one, leaves 1 out."""
        return self.low is None or self.high is None or not self.low < 1 < self.high


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedTarget:
    """A target of which no result may be used, and the first reason that came back."""

    target: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """The first screen in words; `confidence` is 0 (must not be used) to 3."""

    sentence: str
    standing: Standing
    tiles: tuple[Tile, ...]
    failed: tuple[FailedTarget, ...]
    best: Result | None
    ratio: TargetRatio | None
    confidence: int


def headline_of(findings: Findings, answer: Answer) -> Headline:
    """Return the first screen of a run."""
    failed = tuple(_failed_targets(findings, answer))
    usable = [one for one in answer.results if not one.is_void and one.cell.good]
    operation = _main_operation(usable, answer.results)
    own = [one for one in usable if one.cell.operation == operation]
    best = max(own, key=lambda one: one.rate, default=None)
    ratio = _ratio(own, {trial.trial: trial for trial in findings.trials})
    curve = next((one for one in answer.curves if best is not None and best in one.results), None)
    confidence = _confidence(answer, own)
    sentences = [
        *(_failed_sentence(one) for one in failed),
        *(f"{one.name}: {describe_answer(one)}." for one in findings.searches),
        *_main_sentence(best, ratio, curve, answer),
        *_limit_sentence(best, ratio),
        *_void_sentence(best, answer),
    ]
    return Headline(
        sentence=" ".join(sentences),
        standing=_standing(own, best, confidence),
        tiles=tuple(_tiles(answer, best, ratio, curve, confidence)),
        failed=failed,
        best=best,
        ratio=ratio,
        confidence=confidence,
    )


def case_words(one: Result) -> str:
    """Return the parameters of a result in words, but for what its target already says."""
    parameters = one.cell.parameters
    return describe_parameters({key: parameters[key] for key in parameters if key != SYSTEM})


def _load_words(curve: Curve, one: Result) -> str:
    return describe_parameter(curve.load, one.cell.parameters.get(curve.load))


def _failed_targets(findings: Findings, answer: Answer) -> Iterable[FailedTarget]:
    good = {one.cell.target for one in answer.results if one.cell.good and not one.is_void}
    asked: dict[str, str] = {}
    for trial in findings.trials:
        if trial.target in good:
            continue
        reason = next(iter(trial.errors), "") or trial.reason or ""
        if trial.state != "not run" and not asked.get(trial.target):
            asked[trial.target] = reason
        elif trial.is_measured:
            asked.setdefault(trial.target, "")
    for target, reason in asked.items():
        words = reason or NO_RESULT
        cut = words if len(words) <= REASON_MAX else f"{words[: REASON_MAX - 1]}…"
        yield FailedTarget(target=target, reason=cut.rstrip("."))


def _failed_sentence(one: FailedTarget) -> str:
    # What was measured beside a busy host has not failed.
    return f"{one.target} {'has' if one.reason == NO_RESULT else 'failed:'} {one.reason}."


def _main_operation(usable: Sequence[Result], results: Sequence[Result]) -> str:
    names = [one.cell.operation for one in usable]
    if not set(names) & {*OPERATIONS_FIRST} and any(
        one.cell.operation in OPERATIONS_FIRST for one in results if one.cell.good
    ):
        # What goes beside reads and writes says nothing of a store whose own are void.
        return ""
    return next((name for name in OPERATIONS_FIRST if name in names), next(iter(names), ""))


def _void_sentence(best: Result | None, answer: Answer) -> Iterable[str]:
    """Say which operations have no result, where others have one."""
    if best is None:
        return
    good = [one for one in answer.results if one.cell.good]
    valid = {one.cell.operation for one in good if not one.is_void}
    void = dict.fromkeys(one.cell.operation for one in good if one.cell.operation not in valid)
    if void:
        yield f"No result of {', '.join(void)} may be used; the cautions say why."


def _ratio(own: Sequence[Result], trials: Mapping[str, TrialFacts]) -> TargetRatio | None:
    """Return how the fastest target that is no bound stands to the first-named one."""
    targets = list(dict.fromkeys(one.cell.target for one in own))
    if len(targets) < 2:
        return None
    measured = [one for one in own if not one.is_bound]
    if len({one.cell.target for one in measured}) < 2:
        measured = list(own)
    base = measured[0].cell.target
    cases = {_case(one): one for one in measured if one.cell.target == base}
    others = [one for one in measured if one.cell.target != base and _case(one) in cases]
    if not others:
        return None
    best = max(others, key=lambda one: one.rate)
    found = cases[_case(best)]
    over, under = (best, found) if best.rate >= found.rate else (found, best)
    pairs = pairs_in_turns(under, over, trials)
    if pairs:
        ratio = paired_ratio([a for a, _ in pairs], [b for _, b in pairs])
        return TargetRatio(
            over=over,
            under=under,
            ratio=ratio.ratio,
            low=ratio.low,
            high=ratio.high,
            pairs=len(pairs),
        )
    is_repeated = min(len(one.cell.trial_rates) for one in (under, over)) > 1
    return TargetRatio(
        over=over, under=under, ratio=over.rate / under.rate, low=None, high=None, pairs=0,
        is_one_by_one=is_repeated,
    )  # fmt: skip


def _case(one: Result) -> tuple[str, str, str]:
    return one.cell.workload, one.cell.phase, case_words(one)


def _standing(own: Sequence[Result], best: Result | None, confidence: int) -> Standing:
    if best is None:
        return "void"
    if any(one.is_bound for one in own):
        return "bound"
    return "first look" if confidence < 2 else "good"


def _confidence(answer: Answer, own: Sequence[Result]) -> int:
    if not own:
        return 0
    trials = min(len(one.cell.trial_rates) for one in own)
    labels = {label for one in own for label in one.cell.labels}
    if trials < 2 or "SHORT" in labels:
        return 1
    is_clear = trials >= TRIALS_FOR_CONFIDENCE and not any(one.is_bound for one in own)
    return 3 if is_clear and not answer.cautions else 2


def _rate(one: Result) -> str:
    shown = units.format_rate(one.rate)
    if one.cell.operation == ACTION:
        shown = f"{shown.removesuffix('/s')} actions/s"
    return f"{'at least ' if one.is_bound else ''}{shown}"


def _at(one: Result) -> str:
    words = case_words(one)
    return f" ({words})" if words else ""


def _main_sentence(
    best: Result | None, ratio: TargetRatio | None, curve: Curve | None, answer: Answer
) -> Iterable[str]:
    if best is None:
        has_numbers = any(one.cell.good for one in answer.results)
        yield (
            "No result may be used; the cautions say why."
            if has_numbers
            else "There is no result: no measured trial left a good request."
        )
        return
    operation = best.cell.operation
    if ratio is not None:
        over, under = ratio.over.cell.target, ratio.under.cell.target
        times = f"{units.format_number(ratio.ratio)}×"
        rates = f"{_rate(ratio.over)} against {_rate(ratio.under)}{_at(ratio.over)}"
        if ratio.is_resolved or ratio.ratio >= 1:
            yield (
                f"{over} reached {times} the {operation} rate of {under}: {rates};"
                f" {ratio_words(ratio)}."
            )
        else:
            # Pairs and medians disagree which is faster, as chance has it.
            yield (
                f"The {operation} rates of {over} and {under} cannot be told apart: {rates};"
                f" ratio {times}, {ratio_words(ratio).removesuffix(NOT_RESOLVED)}."
            )
        if best not in (ratio.over, ratio.under):
            yield f"The most was {_rate(best)} by {best.cell.target}{_at(best)}."
        return
    p99 = _time(best, "p99")
    late = f", 99 % of them within {p99}" if p99 else ""
    rate = _rate(replace(best, is_bound=False)) + (" or more" if best.is_bound else "")
    did = "completed" if operation == ACTION else f"served {operation} at"
    yield f"{best.cell.target} {did} {rate}{_at(best)}{late}."
    if curve is not None:
        knee = dict(curve.points)["knee"]
        if knee is not best:
            yield f"95 % of that is reached with {_load_words(curve, knee)}: the knee."


def ratio_words(ratio: TargetRatio) -> str:
    """Return what a ratio rests on."""
    if ratio.low is None or ratio.high is None:
        order = "measured one after the other, " if ratio.is_one_by_one else ""
        return f"{order}ratio of medians, without an interval"
    low, high = units.format_number(ratio.low), units.format_number(ratio.high)
    open_ = "" if ratio.is_resolved else NOT_RESOLVED
    return f"95 % interval {low} to {high}, {units.counted(ratio.pairs, 'pair')}{open_}"


def _limit_sentence(best: Result | None, ratio: TargetRatio | None) -> Iterable[str]:
    if best is None:
        return
    named = (ratio.over, ratio.under) if ratio is not None else (best,)
    limits = {one.cell.target: one.limit for one in named if one.limit not in ("", NOT_KNOWN)}
    if len(set(limits.values())) == 1 and len(limits) == len(named):
        words = next(iter(limits.values()))
        yield f"{'Both limited' if len(named) > 1 else 'Limited'} by: {words}."
    elif limits:
        yield f"Limited by: {', '.join(f'{limits[name]} ({name})' for name in limits)}."
    if any(one.is_bound for one in named):
        yield "A lower bound is what a target does at least, not what it can do."


def _time(one: Result, name: str) -> str:
    latency = one.cell.headline
    if latency is None:
        return ""
    if name in latency.at_least:
        return f"≥ {units.format_duration(latency.at_least[name])}"
    value = latency.quantiles[name]
    return "" if value is None else units.format_duration(value)


def _tiles(
    answer: Answer,
    best: Result | None,
    ratio: TargetRatio | None,
    curve: Curve | None,
    confidence: int,
) -> Iterable[Tile]:
    if best is not None:
        cell = best.cell
        yield Tile(
            key="rate",
            name=f"Best {cell.operation} rate",
            value=_rate(best),
            note=" · ".join(word for word in (cell.target, case_words(best)) if word),
            is_bound=best.is_bound,
        )
        yield from _second(best, ratio, curve)
        shown = _time(best, "p99")
        middle = _time(best, "p50")
        yield Tile(
            key="p99",
            name=f"p99 of {'an action' if cell.operation == ACTION else cell.operation}",
            value=shown or "–",
            note=f"{cell.target} · median {middle}" if shown else "too few requests to tell",
        )
    yield _failures(answer)
    yield _confidence_tile(answer, best, confidence)


def _second(best: Result, ratio: TargetRatio | None, curve: Curve | None) -> Iterable[Tile]:
    if ratio is not None:
        bounds = [one.is_bound for one in (ratio.over, ratio.under)]
        yield Tile(
            key="ratio",
            name=f"{ratio.over.cell.target} ÷ {ratio.under.cell.target}",
            value=f"{'at least ' if bounds == [True, False] else ''}"
            f"{units.format_number(ratio.ratio)}×",
            note=f"{best.cell.operation} · {ratio_words(ratio)}"
            + (" · a ratio of bounds" if bounds[1] else ""),
            is_bound=any(bounds),
        )
    elif curve is not None:
        knee = dict(curve.points)["knee"]
        yield Tile(
            key="knee",
            name="Knee",
            value=_load_words(curve, knee),
            note=f"{units.format_rate(knee.rate)}: 95 % of the most is reached",
        )
    elif best.cell.bytes:
        yield Tile(
            key="bytes",
            name="Data",
            value=units.format_byte_rate(best.bytes_per_s),
            note=f"{best.cell.target} · {best.cell.operation}",
            is_bound=best.is_bound,
        )


def _failures(answer: Answer) -> Tile:
    failed = sum(one.cell.failed for one in answer.results)
    requests = sum(one.cell.requests for one in answer.results)
    are_actions = any(one.cell.operation == ACTION for one in answer.results)
    name = f"Failed {'actions' if are_actions else 'requests'}"
    if any(one.cell.failed_if_stated is None for one in answer.results) and not failed:
        return Tile(key="failed", name=name, value="not stated", note="")
    if not failed:
        count = units.format_count(requests)
        note = f"of {count}" if requests else ""
        return Tile(key="failed", name=name, value="0", note=note)
    kinds: dict[str, int] = {}
    for one in answer.results:
        for kind, count_of_kind in one.cell.errors.items():
            kinds[kind] = kinds.get(kind, 0) + count_of_kind
    most = sorted(kinds, key=lambda kind: -kinds[kind])[:2]
    share = units.format_number(100 * failed / requests, 2)
    return Tile(
        key="failed",
        name=name,
        value=units.format_count(failed),
        note=f"{share} % · {', '.join(kind.replace('_', ' ') for kind in most)}",
        is_bad=True,
    )


def _confidence_tile(answer: Answer, best: Result | None, confidence: int) -> Tile:
    words = ("none", "first look", "repeated", "good")[confidence]
    dots = "●" * confidence + "○" * (3 - confidence)
    notes = []
    if best is not None:
        notes.append(units.counted(len(best.cell.trial_rates), "trial") + " per number")
        if best.spread is not None:
            notes.append(f"± {units.format_spread(best.spread)}")
        notes += ["each short"] if "SHORT" in best.cell.labels else []
    return Tile(
        key="confidence",
        name="Confidence",
        value=f"{dots} {words}",
        note=" · ".join(notes) or "nothing to rely on",
        is_bad=confidence == 0 and bool(answer.results),
    )
