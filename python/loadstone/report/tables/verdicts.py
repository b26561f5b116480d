"""The table of verdicts: what limited each result, how well that is proven, and from what."""

from loadstone.analysis import Findings
from loadstone.analysis.rules import limit_in_words
from loadstone.report.result_words import NOT_KNOWN, evidence_words
from loadstone.report.tables.layout import Column, Table


def verdict_table(findings: Findings) -> Table:
    """Return one row for each result with its verdict, the reason and the evidence."""
    rows = []
    for one in findings.rounds:
        if (verdict := one.verdict) is not None:
            words = evidence_words(verdict.evidence) or NOT_KNOWN
            grade = verdict.grade or NOT_KNOWN
            rows.append((one.name, limit_in_words(verdict.limit), grade, verdict.reason, words))
    heads = ("Result", "Limit", "Grade", "Because", "Evidence")
    return Table(
        title="What limited each result",
        columns=tuple(Column(head=head, align="left") for head in heads),
        rows=tuple(rows),
    )
