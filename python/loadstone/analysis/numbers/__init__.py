"""Rules that judge any account: what its numbers betray about how they came about.

Every rule is general: it knows no report, and finds what it finds in the numbers, in their last
digits and in what was stated beside them. A rule returns findings with their evidence; what rests
on an assumption is marked as inferred. The table of rules names the functions of this folder.
"""

from loadstone.analysis.accounts.account import Account
from loadstone.analysis.judgements.finding import Finding, by_severity
from loadstone.analysis.rules import checks_of, view


def judge(account: Account) -> tuple[Finding, ...]:
    """Return what all rules on numbers find, problems first."""
    checks = checks_of(row for row in view("finding").values() if row.looks_at == "numbers")
    return by_severity(finding for check in checks for finding in check(account))
