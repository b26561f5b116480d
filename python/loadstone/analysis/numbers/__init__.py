"""Rules on the numbers of any account, whatever report or run they come from.

A finding that rests on an unstated assumption is marked as inferred.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from loadstone.analysis import fills
from loadstone.analysis.accounts.account import Account
from loadstone.analysis.judgements.finding import Finding, by_severity
from loadstone.analysis.numbers import ceilings, differences, order, queueing, repetition
from loadstone.analysis.rules.rule import Rule

RULES: tuple[Rule, ...] = (
    *ceilings.RULES,
    *repetition.RULES,
    *order.RULES,
    *fills.RULES,
    *differences.RULES,
    *queueing.RULES,
)


def judge(account: Account) -> tuple[Finding, ...]:
    """Return the findings of the rules on numbers, problems first."""
    return by_severity(found_by(RULES, account))


def found_by(rules: Sequence[Rule], account: Account) -> Iterator[Finding]:
    """Yield the findings of rules on an account, each with its rule."""
    by_id = {rule.id: rule for rule in rules}
    for check in dict.fromkeys(check for rule in rules for check in rule.checks):
        for finding in check(account):
            yield replace(finding, row=by_id[finding.rule])
