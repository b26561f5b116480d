"""Rules on the numbers of any account, whatever report or run they come from.

A finding that rests on an unstated assumption is marked as inferred.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from loadstone.analysis import fills
from loadstone.analysis.accounts.account import Account, Measurement
from loadstone.analysis.judgements.finding import Finding, by_severity
from loadstone.analysis.judgements.standing import standing_of
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


LIMITS_OF_CLIENT = {"link-ceiling": "CLIENT_NIC", "socket-limit": "INSTRUMENT_SOCKETS"}
"""The limits that rules find in numbers which others printed."""


def with_standings(account: Account) -> Account:
    """Return an account of others with the standings of its numbers, as a run's results have."""
    limits = {
        evidence.place: LIMITS_OF_CLIENT[finding.rule]
        for check in (ceilings.link_ceiling, ceilings.socket_ceiling)
        for finding in check(account)
        for evidence in finding.evidence
        if evidence.place
    }

    def judged(measurement: Measurement) -> Measurement:
        limit = limits.get(measurement.place)
        standing, reasons = standing_of([limit] if limit else [])
        return replace(measurement, standing=standing, reasons=reasons)

    return replace(account, measurements=tuple(map(judged, account.measurements)))
