"""Rules about printed numbers: their digits, their units and the text around them.

They apply to published reports only, because numbers of runs are neither rounded nor described.
"""

from loadstone.analysis import numbers
from loadstone.analysis.accounts.account import Account
from loadstone.analysis.judgements.finding import Finding, by_severity
from loadstone.analysis.rules.rule import Rule
from loadstone.published.rules import consistency, derived, quantised, stated

RULES: tuple[Rule, ...] = (*derived.RULES, *consistency.RULES, *stated.RULES, *quantised.RULES)


def judge(account: Account) -> tuple[Finding, ...]:
    """Return the findings of all rules on numbers, problems first."""
    return by_severity(numbers.found_by((*numbers.RULES, *RULES), account))
