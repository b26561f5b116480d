"""The table of all rules on numbers, runs and reports.

Labels, limits and findings of runs are views of this table. Rules on numbers, common mistakes and
the standard are beside their functions, in `numbers/`, `standards/` and `published/rules/`. Reports
and the reference of findings are made from all of them.
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
    """Return a rule by its id; an unknown label of another tool has a rule of its own."""
    return _BY_ID.get(name) or replace(UNKNOWN, id=name)


def label_words(label: str) -> str:
    """Return a label in a few words; an unknown one as it is."""
    rule = find_rule(label.partition("(")[0])
    return rule.short or (label if rule.says == UNKNOWN.says else rule.says)


def limit_in_words(limit: str) -> str:
    """Return a limit in words: "client CPU" for INSTRUMENT_CPU."""
    name, _, of = limit.partition("(")
    words = find_rule(name).short or name.replace("_", " ").lower()
    # The part in parentheses is in words, except for checks of INVALID, which are ids.
    return f"{words} ({of}" if of and name != "INVALID" else words
