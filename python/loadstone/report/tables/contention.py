"""The table of contentions: how often, how soon and how fairly clients won."""

from loadstone import units
from loadstone.analysis import Findings
from loadstone.analysis.answers.answer import Contention, contentions
from loadstone.analysis.naming import describe_parameters
from loadstone.report.result_words import NOT_KNOWN, quantile_words
from loadstone.report.tables.layout import Table, numbers, texts


def contention_table(findings: Findings) -> Table | None:
    """Return a row for each result whose clients contended; None where none did."""
    contended = contentions(findings.results, findings.trials)
    if not contended:
        return None
    return Table(
        title="Contention",
        caption="A client reads an ETag and writes on that condition until it wins. Fairness is"
        " Jain's index over clients: 1 if all clients won equally often.",
        columns=(
            *texts("Contention"),
            *numbers("Wins/s", "Tries per win", "p50 to win", "p99 to win", "Fairness"),
        ),
        rows=tuple(_row(contention) for contention in contended),
    )


def contention_words(contention: Contention) -> str:
    """Return a contention's tries and fairness, in one line."""
    _, _, tries, _, _, fairness = _row(contention)
    return f"{contention.result.phase}: {tries} tries per win, fairness {fairness}"


def _row(contention: Contention) -> tuple[str, ...]:
    result = contention.result
    latency = result.headline
    name = ", ".join(
        filter(None, (result.target, result.phase, describe_parameters(result.parameters)))
    )
    return (
        name,
        units.format_count(round(result.requests_per_s)),
        NOT_KNOWN if contention.tries_per_win is None else f"{contention.tries_per_win:.2f}",
        quantile_words(latency, "p50"),
        quantile_words(latency, "p99"),
        NOT_KNOWN if contention.fairness is None else f"{contention.fairness:.3f}",
    )
