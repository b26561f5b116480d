"""The answer of a run on one screen: its results, arranged, and its cautions."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from loadstone.analysis import Findings
from loadstone.analysis.cells.actions import ALL, OUT_OF_LINE, ActionCell
from loadstone.analysis.grouping import grouped
from loadstone.analysis.judgements.finding import Finding
from loadstone.analysis.judgements.labels import LABELS
from loadstone.analysis.judgements.result import Result
from loadstone.analysis.judgements.standing import reason_words
from loadstone.analysis.measured.trial_facts import TrialFacts
from loadstone.analysis.naming import describe_parameters
from loadstone.analysis.rules import find_rule
from loadstone.campaign.schema.target import SYSTEM
from loadstone.documents.mix import COMPARE_AND_SWAP

REASON_MAX = 140
NO_RESULT = "no result that may be used"
KNEE_SHARE = 0.95
CURVE_POINTS_MIN = 4
KNEE_LOADS_MIN = 3
"""So many loads tell where more of it brings no more."""

LOADS = ("threads", "clients", "rate_per_s", "rate")

Weight = Literal["void", "bound", "caution"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A sweep along the load, with the names of its three main points."""

    results: tuple[Result, ...]
    load: str
    points: tuple[tuple[str, Result], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """A sweep of two parameters: a result per pair of values, where there is one."""

    down: str
    across: str
    rows: tuple[object, ...]
    columns: tuple[object, ...]
    results: Mapping[tuple[object, object], Result]
    best: tuple[object, object] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Caution:
    """The reasons for doubting some results, the most severe first.

    `weight` is a standing, or "caution" if results are less certain or hold more narrowly.
    """

    weight: Weight
    results: int
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The results of a run in one of three forms.

    `knees` are the curves along the load, including those within matrices.
    """

    results: tuple[Result, ...]
    curves: tuple[Curve, ...]
    matrices: tuple[Matrix, ...]
    knees: tuple[Curve, ...]
    cautions: tuple[Caution, ...]


def answer_of(findings: Findings) -> Answer:
    """Return the answer of a run, of results with any request."""
    results = tuple(result for result in findings.results if result.requests)
    return arranged(results, tuple(_cautions(findings)))


def store_statements(findings: Findings) -> tuple[str, ...]:
    """Return the findings on the store itself: closed connections, throttling."""
    return tuple(
        finding.statement for finding in findings.findings if finding.definition.is_of_store
    )


def arranged(results: tuple[Result, ...], cautions: tuple[Caution, ...]) -> Answer:
    """Arrange results by the parameters that differ between them."""
    groups = grouped(
        results, lambda result: (result.target, result.workload, result.phase, result.operation)
    )
    varied = _varied(results)
    curves: list[Curve] = []
    matrices: list[Matrix] = []
    knees: list[Curve] = []
    if len(varied) == 1 and varied[0] in LOADS:
        curves = knees = [_curve(group, varied[0]) for group in groups.values()]
    elif len(varied) == 2:
        other, load = varied
        for group in groups.values() if load in LOADS else ():
            values = dict.fromkeys(result.parameters.get(other) for result in group)
            knees += [
                _curve([result for result in group if result.parameters.get(other) == value], load)
                for value in values
            ]
        matrices = [_matrix(group, varied) for group in groups.values()]
    return Answer(
        results=results,
        curves=tuple(curve for curve in curves if len(curve.results) >= CURVE_POINTS_MIN),
        matrices=tuple(matrices),
        knees=tuple(knee for knee in knees if len(knee.results) >= KNEE_LOADS_MIN),
        cautions=cautions,
    )


def _varied(results: Iterable[Result]) -> list[str]:
    """Return the parameters with several values, a load last."""
    values: dict[str, set[object]] = {}
    for result in results:
        for name, value in result.parameters.items():
            values.setdefault(name, set()).add(str(value))
    names = [name for name, distinct in values.items() if len(distinct) > 1]
    return sorted(names, key=lambda name: (name in LOADS, name != "size"))


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0


def _curve(results: Sequence[Result], name: str) -> Curve:
    """Return a curve with the points of least time, knee and peak."""
    swept = sorted(results, key=lambda result: _number(result.parameters.get(name)))
    usable = [result for result in swept if not result.is_void and result.good] or swept
    peak = max(usable, key=lambda result: result.requests_per_s)
    knee = next(
        result for result in usable if result.requests_per_s >= KNEE_SHARE * peak.requests_per_s
    )
    timed = [result for result in usable if _median_ns(result) is not None]
    quickest = min(timed, key=lambda result: _median_ns(result) or 0.0) if timed else usable[0]
    points = (("least p50", quickest), ("knee", knee), ("peak", peak))
    return Curve(results=tuple(swept), load=name, points=points)


def _median_ns(result: Result) -> float | None:
    return result.headline.quantiles["p50"] if result.headline is not None else None


def _matrix(results: Sequence[Result], names: Sequence[str]) -> Matrix:
    down, across = names
    results_by_place = {
        (result.parameters.get(down), result.parameters.get(across)): result for result in results
    }
    rows = sorted(
        {row for row, _ in results_by_place}, key=lambda value: (_number(value), str(value))
    )
    columns = sorted({column for _, column in results_by_place}, key=lambda v: (_number(v), str(v)))
    usable = [
        place for place, result in results_by_place.items() if not result.is_void and result.good
    ]
    # Across sizes the best moves most data: the smallest size always has most requests.
    is_sized = down == "size" or across == "size"
    best = max(
        usable,
        key=lambda place: (
            results_by_place[place].bytes_per_s
            if is_sized
            else results_by_place[place].requests_per_s
        ),
        default=None,
    )
    return Matrix(
        down=down,
        across=across,
        rows=tuple(rows),
        columns=tuple(columns),
        results=results_by_place,
        best=best,
    )


def _cautions(findings: Findings) -> Iterable[Caution]:
    """Return at most one caution per weight, without repeated reasons."""
    stated: set[str] = set()
    results = findings.results
    for weight in ("void", "bound"):
        concerned = [result for result in results if result.standing == weight]
        counts = Counter(name for result in concerned for name in result.reasons)
        if concerned:
            names = [name for name, _ in counts.most_common()]
            stated |= _covered(names)
            reasons = dict.fromkeys(map(reason_words, names))
            yield Caution(weight=weight, results=len(concerned), reasons=tuple(reasons))
    # A finding carries its rule, which the table of labels and limits need not have.
    rules = {
        finding.rule: finding.definition
        for finding in findings.findings
        if finding.effect != "none"
        and _is_remark(finding, results)
        and not finding.definition.is_of_store
    }
    for result in results:
        for label in result.remarks:
            if _is_narrowing(label, results):
                rules.setdefault(label, find_rule(label))
    # Without a result the sentence itself says why there is none.
    stated |= {"NOTHING ENDED"} if not results else set()
    left = {name: rule for name, rule in rules.items() if name not in stated}
    covered = {other for rule in left.values() for other in rule.covers}
    left = {name: rule for name, rule in left.items() if name not in covered}
    if left:
        concerned = [result for result in results if set(left) & set(result.remarks)]
        reasons = dict.fromkeys(rule.short or rule.says for rule in left.values())
        yield Caution(weight="caution", results=len(concerned), reasons=tuple(reasons))


def _covered(names: Iterable[str]) -> set[str]:
    """Return rules with those that they cover."""
    rules = [find_rule(name.partition("(")[0]) for name in names]
    return {name for rule in rules for name in (rule.id, *rule.covers)}


def _is_remark(finding: Finding, results: Sequence[Result]) -> bool:
    """Tell whether a finding is about a shown result and does not decide its standing.

    A limit of the client counts if it is the verdict. A label of a trial counts if a shown result
    bears it: trials may be left out, and rounds of one trial each be one result of several.
    """
    rule = finding.definition
    if rule.id in LABELS:
        return any(rule.id in result.remarks for result in results) and _is_narrowing(
            rule.id, results
        )
    is_repeated = all(result.rate.n > 1 for result in results)
    return "limit" not in rule.views and not (is_repeated and "n=1" in rule.covers)


def _is_narrowing(label: str, results: Sequence[Result]) -> bool:
    """Tell whether a label makes a number less certain, or valid more narrowly."""
    is_single = any(result.rate.n < 2 for result in results)
    return find_rule(label).effect == "precision" and (label != "n=1" or is_single)


def no_result(findings: Findings) -> str:
    """Say why a run has no result."""
    statements = [
        finding.statement for finding in findings.findings if finding.rule == "NOTHING ENDED"
    ]
    why = statements[0] if statements else "no measured request succeeded"
    return f"There is no result: {why}."


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedTarget:
    """A target without a usable result, and the first reason."""

    target: str
    reason: str


def failed_targets(findings: Findings, answer: Answer) -> Iterable[FailedTarget]:
    """Yield the targets without a usable result."""
    good = {result.target for result in answer.results if result.good and not result.is_void}
    # Failed trials of a search are not failures: the search states its result.
    good |= {search.target for search in findings.searches}
    asked: dict[str, str] = {}
    for trial in findings.trials:
        if trial.target in good:
            continue
        reason = next(iter(trial.errors), "") or trial.reason or ""
        if (reason or trial.state != "not run") and not asked.get(trial.target):
            asked[trial.target] = reason.removeprefix(f'target "{trial.target}": ')
        elif trial.is_measured:
            asked.setdefault(trial.target, "")
    for target, reason in asked.items():
        words = reason or NO_RESULT
        cut = words if len(words) <= REASON_MAX else f"{words[: REASON_MAX - 1]}…"
        yield FailedTarget(target=target, reason=cut.rstrip("."))


def case_words(result: Result) -> str:
    """Return the parameters of a result in words, without the system."""
    return describe_parameters({k: v for k, v in result.parameters.items() if k != SYSTEM})


ACTION = "action"
"""The operation of a result that is all actions of a case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptAnswer:
    """The answer in actions: all actions of a case together, and each action by itself.

    The making and the audit of users are left out.
    """

    whole: Answer
    each: Answer


def answer_of_scripts(findings: Findings, answer: Answer) -> ScriptAnswer | None:
    """Return the answer in actions; None if a measured phase had no script.

    `answer` is the answer in requests, with the run's cautions.
    """
    phases = {_phase(cell) for cell in findings.rounds}
    if not findings.actions or phases != {_phase(action.cell) for action in findings.actions}:
        return None
    are_named = len({phase for *_, phase in phases}) > 1

    def of(actions: Sequence[ActionCell]) -> Answer:
        results = tuple(_named(action, is_phase_named=are_named) for action in actions)
        return arranged(tuple(result for result in results if result.requests), answer.cautions)

    in_line = [
        action_case
        for action_case in findings.action_cases
        if action_case.action not in OUT_OF_LINE
    ]
    return ScriptAnswer(whole=of(findings.action_totals), each=of(in_line))


def _phase(cell: Result) -> tuple[str, str, str]:
    return cell.target, cell.workload, cell.phase


def _named(action: ActionCell, *, is_phase_named: bool) -> Result:
    """Return the result of an action under the action's name."""
    operation = ACTION if action.action == ALL else action.action
    # A single phase needs no name.
    phase = action.cell.phase if is_phase_named else operation
    return replace(action.cell, operation=operation, phase=phase)


@dataclass(frozen=True, slots=True)
class Contention:
    """A result whose requests each end with a win.

    `tries_per_win` includes the win; `fairness` is the least of its trials' Jain indices over
    clients, None if a trial has none.
    """

    result: Result
    tries_per_win: float | None
    fairness: float | None


def contentions(results: Iterable[Result], trials: Sequence[TrialFacts]) -> list[Contention]:
    """Return the contentions among some results."""
    fairness = {trial.trial: trial.fairness for trial in trials}
    return [
        Contention(
            result=result,
            tries_per_win=result.objects / result.good if result.good else None,
            fairness=_least([fairness.get(trial) for trial in result.trials]),
        )
        for result in results
        if result.operation == COMPARE_AND_SWAP
    ]


def _least(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return min(known) if known and len(known) == len(values) else None
