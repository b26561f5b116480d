"""The answer of a run whose users follow scripts: actions, in the place of their requests."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from loadstone.analysis import Findings
from loadstone.analysis.answers.answer import Answer, arranged
from loadstone.analysis.cells.actions import ALL, OUT_OF_LINE, ActionCell
from loadstone.analysis.judgements.result import Result

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
    phases = {_phase(one) for one in findings.rounds}
    if not findings.actions or phases != {_phase(one.cell) for one in findings.actions}:
        return None
    are_named = len({phase for *_, phase in phases}) > 1

    def of(actions: Sequence[ActionCell]) -> Answer:
        results = tuple(_named(one, is_phase_named=are_named) for one in actions)
        return arranged(tuple(one for one in results if one.requests), answer.cautions)

    in_line = [one for one in findings.action_cases if one.action not in OUT_OF_LINE]
    return ScriptAnswer(whole=of(findings.action_totals), each=of(in_line))


def _phase(one: Result) -> tuple[str, str, str]:
    return one.target, one.workload, one.phase


def _named(one: ActionCell, *, is_phase_named: bool) -> Result:
    """Return the result of an action, called as people call it."""
    operation = ACTION if one.action == ALL else one.action
    # The phase says nothing where there is one.
    phase = one.cell.phase if is_phase_named else operation
    return replace(one.cell, operation=operation, phase=phase)
