"""A finding: what a rule says about an account, and the numbers it says it from."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Severity = Literal["problem", "caution", "note"]


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
    """One statement of one rule.

    `is_inferred` marks what rests on an assumption nobody stated, such as the speed of a link.
    `chance` is the probability that the pattern would show by accident. `cases` lists what it is
    about.
    """

    rule: str
    severity: Severity
    statement: str
    evidence: tuple[Evidence, ...] = ()
    cases: tuple[str, ...] = ()
    is_inferred: bool = False
    chance: float | None = None

    def to_json(self) -> Mapping[str, object]:
        """Return the finding as plain values for a JSON report."""
        return {
            "rule": self.rule,
            "severity": self.severity,
            "statement": self.statement,
            "inferred": self.is_inferred,
            "chance": self.chance,
            "cases": list(self.cases),
            "evidence": [evidence_json(one) for one in self.evidence],
        }


def evidence_json(one: Evidence) -> dict[str, object]:
    """Return one number of evidence as plain values."""
    return {
        "metric": one.metric,
        "value": one.value,
        "threshold": one.threshold,
        "unit": one.unit,
        "place": one.place,
    }
