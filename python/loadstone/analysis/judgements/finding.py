"""A finding: what a rule says about an account, and the numbers it says it from."""

from collections.abc import Iterable
from dataclasses import dataclass

from loadstone.analysis.rules import SEVERITIES, Effect, Rule, Severity, find_rule
from loadstone.documents.report import (
    ReportFinding,
)
from loadstone.documents.report.result import (
    ReportEvidence,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One number behind a finding: what it is, what it was held against, and where it stands.

    `source` names the kind of evidence where several metrics are one: two cores of a host that are
    both full are one counter, and no proof of each other.
    """

    metric: str
    value: float | str
    threshold: float | str | None = None
    unit: str = ""
    place: str = ""
    source: str = ""

    @property
    def counter(self) -> tuple[str, str]:
        """What the number counts as when counters that agree are counted: its kind and its host."""
        return self.source or self.metric, self.place


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One statement of one rule, whose row in the table says what follows from it.

    `weight` stands for the rule's own severity where this case differs from it, and `todo` for what
    the rule says is to be done, where the case itself knows better. `row` is the rule itself, where
    the table of rules has none of its name. `is_inferred` marks what rests on an unstated
    assumption, such as the speed of a link. `chance` is the probability that the pattern would show
    by accident. `cases` lists what it is about.
    """

    rule: str
    statement: str
    evidence: tuple[Evidence, ...] = ()
    cases: tuple[str, ...] = ()
    is_inferred: bool = False
    chance: float | None = None
    weight: Severity | None = None
    todo: str = ""
    row: Rule | None = None

    @property
    def severity(self) -> Severity:
        """How grave it is."""
        return self.weight or self.definition.severity

    @property
    def effect(self) -> Effect:
        """What follows for the number."""
        return self.definition.effect

    @property
    def means(self) -> str:
        """What follows for the number, as a sentence."""
        return self.definition.means

    @property
    def do(self) -> str:
        """What to do about it."""
        return self.todo or self.definition.do

    @property
    def covers(self) -> tuple[str, ...]:
        """The labels that it says in full."""
        return self.definition.covers

    @property
    def definition(self) -> Rule:
        """The rule itself."""
        return self.row or find_rule(self.rule)

    def to_json(self) -> ReportFinding:
        """Return the finding as plain values for a JSON report."""
        return {
            "rule": self.rule,
            "severity": self.severity,
            "effect": self.effect,
            "statement": self.statement,
            "means": self.means,
            "do": self.do,
            "inferred": self.is_inferred,
            "chance": self.chance,
            "cases": list(self.cases),
            "evidence": [evidence_json(evidence) for evidence in self.evidence],
        }


def evidence_json(evidence: Evidence) -> ReportEvidence:
    """Return one number of evidence as plain values."""
    return {
        "metric": evidence.metric,
        "value": evidence.value,
        "threshold": evidence.threshold,
        "unit": evidence.unit,
        "place": evidence.place,
    }


def by_severity(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings, most severe first, without labels that another finding covers in full."""
    findings = list(findings)
    covered = {label for finding in findings for label in finding.covers}
    uncovered = [finding for finding in findings if finding.rule not in covered]
    return tuple(sorted(uncovered, key=lambda finding: SEVERITIES.index(finding.severity)))
