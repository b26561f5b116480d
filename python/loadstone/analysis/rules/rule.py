"""The type of a rule."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

Severity = Literal["problem", "caution", "note"]
SEVERITIES: tuple[Severity, ...] = ("problem", "caution", "note")

View = Literal["label", "limit", "finding", "mistake", "standard"]
"""How a rule is shown: a label of a number, its limit, a finding on a run or its numbers, a common
mistake of reports, or a rule of the standard that a report declares."""

Check = Callable[..., Any]
Checking = TypeVar("Checking", bound=Check)

Scope = Literal["trial", "result", "run", "numbers", "report"]

SCOPES: dict[Scope, str] = {
    "trial": "one trial",
    "result": "one result",
    "run": "a whole run",
    "numbers": "the numbers of a run or of a published report",
    "report": "a report: what it shows and what it states",
}

Effect = Literal["invalid", "bound", "precision", "none"]

EFFECTS: dict[Effect, str] = {
    "invalid": "the number must not be used as a result",
    "bound": "the number is a bound of what the target can do",
    "precision": "the number is less certain or less general than it looks",
    "none": "the number stands as it is",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One row of the table.

    `says` is its sentence, `short` the same in a few words, `asks` the opposite that the standard
    asks for, `means` the effect on the number, `do` the advice. `covers` are rules that it makes
    redundant. `is_left_out` marks a label whose cause is the client or the record, not the target:
    results go without such trials if they are less than half. `is_on_both_sides` marks a bound that
    holds for both sides of a comparison alike, so that the ratio of two such bounds is valid.
    `is_of_store` marks the behaviour of the store, which the first screen shows in full.

    `checks` yield the findings of a rule on numbers, or judge a report. Labels are decided in
    `judgements/labels.py`, findings of a run in `judgements/trial_findings.py`, by the rule's id.
    """

    id: str
    views: tuple[View, ...]
    severity: Severity
    effect: Effect
    looks_at: Scope
    says: str
    means: str
    do: str
    short: str = ""
    asks: str = ""
    covers: tuple[str, ...] = ()
    is_left_out: bool = False
    is_on_both_sides: bool = False
    is_of_store: bool = False
    checks: tuple[Check, ...] = ()


def listed(rules: list[Rule], **row: Any) -> Callable[[Checking], Checking]:
    """Add a rule to those of its module, with the decorated function as its check."""

    def add(check: Checking) -> Checking:
        rules.append(Rule(checks=(check,), **row))
        return check

    return add


class NumberRules(list[Rule]):
    """The rules of a module on the numbers of any account, as decorators of their functions."""

    def note(self, **row: Any) -> Callable[[Checking], Checking]:
        """Add a rule that leaves the number as it is."""
        return self._listed(severity="note", **{"effect": "none", **row})

    def caution(self, **row: Any) -> Callable[[Checking], Checking]:
        """Add a rule that makes the number less certain."""
        return self._listed(severity="caution", **{"effect": "precision", **row})

    def problem(self, **row: Any) -> Callable[[Checking], Checking]:
        """Add a rule that makes the number doubtful."""
        return self._listed(severity="problem", **{"effect": "precision", **row})

    def _listed(self, **row: Any) -> Callable[[Checking], Checking]:
        return listed(self, views=("finding",), looks_at="numbers", **row)
