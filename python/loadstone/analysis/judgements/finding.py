"""A finding: the statement of a rule about an account, with the numbers behind it."""

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass

from loadstone.analysis.rules import SEVERITIES, Effect, Rule, Severity, find_rule


@dataclass(frozen=True, slots=True)
class Evidence:
    """One number behind a finding, with its threshold and its place.

    `source` joins metrics that are not independent: two full cores of a host are one counter.
    """

    metric: str
    value: float | str
    threshold: float | str | None = None
    _: KW_ONLY
    unit: str = ""
    place: str = ""
    source: str = ""

    @property
    def counter(self) -> tuple[str, str]:
        """The independent counter that it belongs to: its kind and its host."""
        return self.source or self.metric, self.place


@dataclass(frozen=True, slots=True)
class Finding:
    """One statement of one rule.

    `weight` and `todo` replace the rule's severity and its advice in this case. `row` is the rule
    if the table of rules lacks it. `is_inferred` marks an unstated assumption, such as the speed of
    a link. `chance` is the probability of the pattern by accident. `cases` are what it is about.
    """

    rule: str
    statement: str
    _: KW_ONLY
    evidence: tuple[Evidence, ...] = ()
    cases: tuple[str, ...] = ()
    is_inferred: bool = False
    chance: float | None = None
    weight: Severity | None = None
    todo: str = ""
    row: Rule | None = None

    @property
    def severity(self) -> Severity:
        return self.weight or self.definition.severity

    @property
    def effect(self) -> Effect:
        return self.definition.effect

    @property
    def means(self) -> str:
        """Its effect on the number, as a sentence."""
        return self.definition.means

    @property
    def do(self) -> str:
        return self.todo or self.definition.do

    @property
    def covers(self) -> tuple[str, ...]:
        """The labels that it makes redundant."""
        return self.definition.covers

    @property
    def definition(self) -> Rule:
        return self.row or find_rule(self.rule)


def by_severity(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings, most severe first, without labels that another finding covers in full."""
    findings = list(findings)
    covered = {label for finding in findings for label in finding.covers}
    uncovered = [finding for finding in findings if finding.rule not in covered]
    return tuple(sorted(uncovered, key=lambda finding: SEVERITIES.index(finding.severity)))
