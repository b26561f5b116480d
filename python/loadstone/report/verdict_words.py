"""Verdicts in words: the short form of a column, and the evidence behind each."""

from collections.abc import Sequence

from loadstone import units
from loadstone.analysis.judgements.finding import Evidence
from loadstone.analysis.limits.cell_verdicts import NO_SUCH_LABEL
from loadstone.analysis.limits.verdict import Verdict
from loadstone.analysis.rules import label_words, limit_in_words

LIMIT_NOTES = (
    "Limit: what kept the rate from being higher, with the grade of its proof: A confirmed by an"
    " intervention, B two counters, C one. The evidence stands beside the numbers.",
)


def limit_cell(verdict: Verdict | None, absent: str) -> str:
    """Return a verdict as a column shows it: "client CPU B"."""
    if verdict is None:
        return absent
    words = limit_in_words(verdict.limit)
    return f"{words} {verdict.grade}" if verdict.grade else words


def evidence_words(evidence: Sequence[Evidence]) -> str:
    """Return evidence as a list: metric, value, what it was held against, and where."""
    return "; ".join(_one(one) for one in evidence)


def _one(one: Evidence) -> str:
    if one.threshold == NO_SUCH_LABEL:
        return f"labelled: {label_words(one.metric)}"
    unit = f" {one.unit}" if one.unit else ""
    threshold = "" if one.threshold is None else f" (threshold {_shown(one.threshold)}{unit})"
    place = f" on {one.place}" if one.place else ""
    return f"{one.metric} {_shown(one.value)}{unit}{threshold}{place}"


def _shown(value: float | str) -> str:
    return value if isinstance(value, str) else units.format_number(float(value))
