"""What limited the results of a run, each distinct reason once, with the evidence it rests on."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from loadstone.analysis import Findings
from loadstone.analysis.judgements.result import Result
from loadstone.analysis.limits.verdict import Verdict
from loadstone.analysis.rules import find_rule, limit_in_words
from loadstone.report.result_words import evidence_words

CASES_MAX = 6
ONLY_ROUND = ", round 1"
_LABEL = re.compile(r"\b[A-Z]+(?:_[A-Z]+)+\b")
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One reason: the limit in words, how well it is proven, and the results that it holds for.

    Numbers that differ between the results are ranges, in `reason` and in `evidence`. Where its
    kinds differ, `evidence` is that of the first. `cases` names a few, and `more` counts the rest.
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
    groups: dict[tuple[str, str], list[tuple[Result, Verdict]]] = {}
    for cell in findings.rounds:
        if (verdict := cell.verdict) is not None:
            kind = (verdict.limit, _NUMBER.sub("#", verdict.reason))
            groups.setdefault(kind, []).append((cell, verdict))
    has_rounds = any(cell.round != 1 for cell in findings.rounds)
    return tuple(
        _reason(of_kind, has_rounds=has_rounds)
        for of_kind in sorted(groups.values(), key=lambda of_kind: -len(of_kind))
    )


def _reason(results_of_case: Sequence[tuple[Result, Verdict]], *, has_rounds: bool) -> Reason:
    verdict = results_of_case[0][1]
    name = verdict.limit.partition("(")[0]
    names = [
        cell.name if has_rounds else cell.name.removesuffix(ONLY_ROUND)
        for cell, _ in results_of_case
    ]
    reason = _merged([one_verdict.reason for _, one_verdict in results_of_case])
    evidence = [evidence_words(one_verdict.evidence) for _, one_verdict in results_of_case]
    alike = [
        words for words in evidence if _NUMBER.sub("#", words) == _NUMBER.sub("#", evidence[0])
    ]
    limit = limit_in_words(verdict.limit)
    in_words = _LABEL.sub(lambda label: limit_in_words(label[0]), reason)
    return Reason(
        limit=limit,
        grade=verdict.grade or "",
        reason=in_words.removeprefix(f"{limit}: "),
        means=find_rule(name).means,
        evidence=_merged(alike),
        cases=tuple(names[:CASES_MAX]),
        more=max(0, len(names) - CASES_MAX),
    )


def _merged(texts: Sequence[str]) -> str:
    """Merge sentences that differ only in numbers, with a range for each number."""
    numbers = [_NUMBER.findall(text) for text in texts]
    ranges = iter(
        [
            low if low == high else f"{low} to {high}"
            for column in zip(*numbers, strict=True)
            for low, high in [(min(column, key=_value), max(column, key=_value))]
        ]
    )
    return _NUMBER.sub(lambda _: next(ranges), texts[0])


def _value(number: str) -> float:
    return float(number.replace(",", ""))
