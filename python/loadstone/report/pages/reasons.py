"""What limited the results of a run, each distinct reason once, with the evidence it rests on."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from loadstone.analysis import Findings
from loadstone.analysis.cells.cell import Cell
from loadstone.analysis.limits.verdict import Verdict
from loadstone.analysis.rules import find_rule, limit_in_words
from loadstone.report.verdict_words import evidence_words

CASES_MAX = 6
_LABEL = re.compile(r"\b[A-Z]+(?:_[A-Z]+)+\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One reason: the limit in words, how well it is proven, and the results that it holds for.

    `evidence` is that of the first of them; `cases` names a few, and `more` counts the rest.
    """

    limit: str
    grade: str
    reason: str
    means: str
    evidence: str
    cases: tuple[str, ...]
    more: int


def reasons_of(findings: Findings) -> tuple[Reason, ...]:
    """Return the reasons, those of most results first."""
    groups: dict[tuple[str, str], list[tuple[Cell, Verdict]]] = {}
    for cell in findings.totals:
        verdict = findings.verdict_of(cell)
        if verdict is not None:
            groups.setdefault((verdict.limit, verdict.reason), []).append((cell, verdict))
    return tuple(_reason(own) for own in sorted(groups.values(), key=lambda own: -len(own)))


def _reason(own: Sequence[tuple[Cell, Verdict]]) -> Reason:
    verdict = own[0][1]
    name = verdict.limit.partition("(")[0]
    names = [cell.name for cell, _ in own]
    return Reason(
        limit=limit_in_words(verdict.limit),
        grade=verdict.grade or "",
        reason=_LABEL.sub(lambda found: limit_in_words(found[0]), verdict.reason),
        means=find_rule(name).means,
        evidence=evidence_words(verdict.evidence),
        cases=tuple(names[:CASES_MAX]),
        more=max(0, len(names) - CASES_MAX),
    )
