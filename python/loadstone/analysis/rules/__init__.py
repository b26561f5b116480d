"""The one table of judgement: every rule that loadstone judges a number, a run or a report by.

A rule is one row: its id, how grave it is, what it looks at, what it says, what that means for the
number, and what to do. Labels, limits and findings of runs are views of this table; rules on
numbers, common mistakes and the standard stand beside their functions, in `numbers/`, `standards/`
and `published/rules/`. Reports and the reference of findings are made from all of them.
"""

from collections.abc import Mapping
from dataclasses import replace

from loadstone.analysis.rules import of_results, of_runs, of_trials
from loadstone.analysis.rules.rule import SEVERITIES, Effect, Rule, Scope, Severity, View

__all__ = [
    "RULES",
    "SEVERITIES",
    "Effect",
    "Rule",
    "Scope",
    "Severity",
    "View",
    "find_rule",
    "label_words",
    "view",
]

RULES: tuple[Rule, ...] = (*of_trials.RULES, *of_results.RULES, *of_runs.RULES)

_BY_ID = {rule.id: rule for rule in RULES}

UNKNOWN = Rule(
    id="",
    views=("label",),
    severity="caution",
    effect="none",
    looks_at="trial",
    says="recorded with the trial",
    means="loadstone does not know this label.",
    do="Ask the person who recorded it.",
)


def view(kind: View) -> Mapping[str, Rule]:
    """Return the rules of one view by their ids, in the order of the table."""
    return {rule.id: rule for rule in RULES if kind in rule.views}


def find_rule(name: str) -> Rule:
    """Return a rule by its id; a label that another tool gave stands for itself."""
    return _BY_ID.get(name) or replace(UNKNOWN, id=name)


def label_words(label: str) -> str:
    """Return what a label says of a number in a few words; one of another tool is its own."""
    rule = find_rule(label.partition("(")[0])
    return rule.short or (label if rule.says == UNKNOWN.says else rule.says)


def limit_in_words(limit: str) -> str:
    """Return what limited a rate as people read it: "client CPU" for INSTRUMENT_CPU."""
    name, _, of = limit.partition("(")
    words = find_rule(name).short or name.replace("_", " ").lower()
    # What a limit is of stands in words already, but for the checks of INVALID, which are ids.
    return f"{words} ({of}" if of and name != "INVALID" else words
