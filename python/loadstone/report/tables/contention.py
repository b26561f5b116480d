"""The table of contentions: how often, how soon and how fairly clients won."""

from loadstone import units
from loadstone.analysis import Findings
from loadstone.analysis.answers.contention import Contention, contentions
from loadstone.analysis.naming import describe_parameters
from loadstone.report.result_words import NOT_KNOWN, quantile_words
from loadstone.report.tables.layout import Column, Table


def contention_table(findings: Findings) -> Table | None:
    """Return a row for each result whose clients contended; None where none did."""
    found = contentions(findings.results, findings.trials)
    if not found:
        return None
    return Table(
        title="Contention",
        caption="A client reads an ETag and writes on that condition until it wins. Fairness is"
        " Jain's index over clients: 1 where all won as often.",
        columns=(
            Column(head="Contention", align="left"),
            Column(head="Wins/s"),
            Column(head="Tries per win"),
            Column(head="p50 to win"),
            Column(head="p99 to win"),
            Column(head="Fairness"),
        ),
        rows=tuple(_row(one) for one in found),
    )


def contention_words(one: Contention) -> str:
    """Return what a contention has beside a rate and times, in one line."""
    _, _, tries, _, _, fairness = _row(one)
    return f"{one.result.phase}: {tries} tries per win, fairness {fairness}"


def _row(one: Contention) -> tuple[str, ...]:
    result = one.result
    latency = result.headline
    name = ", ".join(
        filter(None, (result.target, result.phase, describe_parameters(result.parameters)))
    )
    return (
        name,
        units.format_count(round(result.requests_per_s)),
        NOT_KNOWN if one.tries_per_win is None else f"{one.tries_per_win:.2f}",
        quantile_words(latency, "p50"),
        quantile_words(latency, "p99"),
        NOT_KNOWN if one.fairness is None else f"{one.fairness:.3f}",
    )
