"""Rules on numbers that others printed: what their digits, units and words betray.

They know no report: each finds what it finds in the numbers, in their last digits, and in what was
stated beside them. A run of ours has no digits that were rounded and no words, so that none of
these can speak of it.
"""

from loadstone.analysis import numbers
from loadstone.analysis.accounts.account import Account
from loadstone.analysis.judgements.finding import Finding, by_severity
from loadstone.analysis.rules.rule import Rule
from loadstone.published.rules import consistency, derived, quantised, stated

RULES: tuple[Rule, ...] = (*derived.RULES, *consistency.RULES, *stated.RULES, *quantised.RULES)


def judge(account: Account) -> tuple[Finding, ...]:
    """Return what the rules on numbers find, those on printed ones included, problems first."""
    return by_severity(numbers.found_by((*numbers.RULES, *RULES), account))
