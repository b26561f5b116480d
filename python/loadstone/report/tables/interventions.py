"""The table of interventions: each case beside itself with one thing halved."""

from loadstone import units
from loadstone.analysis import Findings
from loadstone.analysis.limits.interventions import InterventionEffect
from loadstone.analysis.rules import limit_in_words
from loadstone.report.result_words import NOT_KNOWN, evidence_words
from loadstone.report.tables.layout import Table, numbers, texts


def intervention_table(findings: Findings) -> Table | None:
    """Return one row for each change; None when nothing was changed."""
    if not findings.changes:
        return None
    columns = (
        *texts("Result", "Changed"),
        *numbers(("Without", "requests/s"), ("With", "requests/s"), "Ratio", "95 % CI", "Blocks"),
    )
    return Table(
        title="Interventions",
        columns=columns,
        rows=tuple(_row(change) for change in findings.changes),
        notes=(
            "Trials with one setting halved, in the same interleaved blocks, and in no other table."
            " If the interval lies above 1.02, the limit moved.",
        ),
    )


def _row(change: InterventionEffect) -> tuple[str, ...]:
    ratio = change.ratio
    interval = NOT_KNOWN
    if ratio.low is not None and ratio.high is not None:
        interval = f"{ratio.low:.3f} to {ratio.high:.3f}"
    return (
        change.base.name,
        change.kind,
        units.format_number(change.base_rate),
        units.format_number(change.changed_rate),
        f"{ratio.ratio:.3f}",
        interval,
        str(ratio.n_a),
    )


def verdict_table(findings: Findings) -> Table:
    """Return one row for each result with its verdict, the reason and the evidence."""
    rows = []
    for result in findings.rounds:
        if (verdict := result.verdict) is not None:
            words = evidence_words(verdict.evidence) or NOT_KNOWN
            grade = verdict.grade or NOT_KNOWN
            rows.append((result.name, limit_in_words(verdict.limit), grade, verdict.reason, words))
    return Table(
        title="What limited each result",
        columns=texts("Result", "Limit", "Grade", "Because", "Evidence"),
        rows=tuple(rows),
    )
