"""The means of a comparison in words, marked as results are."""

from collections.abc import Sequence

from loadstone import units
from loadstone.analysis.accounts.account import ACTION_RATE, RATE, SECONDS, is_lower_better
from loadstone.analysis.accounts.comparison import CaseComparison, Comparison
from loadstone.analysis.naming import metric_value
from loadstone.report.result_words import MARKS, marks_note


def compared_words(compared: Comparison, case: CaseComparison) -> tuple[str, str]:
    """Return the means of both sides, each rate with its mark."""
    is_rate = not is_lower_better(compared.metric)
    # The heading has the unit of these.
    is_plain = compared.metric in (RATE, ACTION_RATE, SECONDS)
    a, b = (
        (MARKS[standing] if is_rate else "")
        + (units.format_number(mean) if is_plain else metric_value(mean, compared.metric))
        for standing, mean in zip(case.standings, (case.a, case.b), strict=True)
    )
    return a, b


def compared_note(compared: Comparison, cases: Sequence[CaseComparison]) -> str:
    """Return the meaning of these marks, if there are some."""
    marked = () if is_lower_better(compared.metric) else cases
    return marks_note(standing for case in marked for standing in case.standings)
