"""The answer of a run whose users follow scripts: actions, in the place of their requests."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

from loadstone.analysis import Findings
from loadstone.analysis.answers.answer import Answer, Result, arranged
from loadstone.analysis.cells.actions import ALL, OUT_OF_LINE, ActionCell
from loadstone.analysis.cells.cell import Cell
from loadstone.analysis.judgements.labels import BOUNDS, VOIDING
from loadstone.analysis.rules import limit_in_words

ACTION = "action"
"""The operation of a result that is all actions of a case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptAnswer:
    """What users got done: all actions of a case together, and each action by itself.

    Users are made before all else and audits run after it: neither is among them.
    """

    whole: Answer
    each: Answer


def answer_of_scripts(findings: Findings, answer: Answer) -> ScriptAnswer | None:
    """Return the answer in actions; None where a measured phase followed no script.

    `answer` is that in requests, with what is doubtful about the run.
    """
    phases = {_phase(cell) for cell in findings.totals}
    if not findings.actions or phases != {_phase(one.cell) for one in findings.actions}:
        return None
    are_named = len({phase for *_, phase in phases}) > 1

    def of(actions: Sequence[ActionCell]) -> Answer:
        found = (_result(findings, one, is_named=are_named) for one in actions)
        return arranged(tuple(one for one in found if one.cell.requests), answer.cautions)

    in_line = [one for one in findings.action_cases if one.action not in OUT_OF_LINE]
    return ScriptAnswer(whole=of(findings.action_totals), each=of(in_line))


def _phase(cell: Cell) -> tuple[str, str, str]:
    return cell.target, cell.workload, cell.phase


def _result(findings: Findings, one: ActionCell, *, is_named: bool) -> Result:
    """Return one action's result; what its requests met in the same trials is true of it, too."""
    operation = ACTION if one.action == ALL else one.action
    cell = replace(one.cell, operation=operation)
    # The phase says nothing where there is one.
    cell = cell if is_named else replace(cell, phase=operation)
    rates = [rate.requests_per_s for rate in cell.trial_rates]
    middle = median(rates)
    requests = list(_requests_of(findings, cell))
    verdicts = [(own, verdict) for own in requests if (verdict := findings.verdict_of(own))]
    labels = {label for own in (cell, *requests) for label in own.labels}
    # The limit of the most requests, not of the most kinds of them.
    limits: Counter[str] = Counter()
    for own, verdict in verdicts:
        limits[verdict.limit.partition("(")[0]] += own.requests
    is_void = bool(labels & VOIDING) or "INVALID" in limits
    is_own = any(verdict.is_void_for_ratios for _, verdict in verdicts)
    return Result(
        cell=cell,
        rate=middle,
        spread=(max(rates) - min(rates)) / 2 / middle if len(rates) > 1 and middle else None,
        limit=limit_in_words(limits.most_common(1)[0][0]) if limits else "",
        is_bound=not is_void and (is_own or bool(labels & BOUNDS)),
        is_void=is_void,
    )


def _requests_of(findings: Findings, cell: Cell) -> Iterator[Cell]:
    """Yield the results of the requests that actions were made of."""
    trials = set(cell.trials)
    return (own for own in findings.totals if trials & set(own.trials))
