"""Tables of searches for a capacity: the answers, and all steps."""

from loadstone import units
from loadstone.analysis import Findings
from loadstone.analysis.limits.searches import CapacitySearch, SearchStep
from loadstone.campaign.search import STALLED_MAX
from loadstone.report.result_words import NOT_KNOWN, ends_words, spread_head, spread_note
from loadstone.report.tables.layout import Field, Table, known, number, tabulated, word

STALLED = "client stalled"
LEFT_OUT = (
    "Client stalled: the host did not run the client for so long that this can be why the objective"
    f" was missed. Up to {STALLED_MAX} such trials of a load and stage are left out and repeated."
)


def capacity_table(findings: Findings) -> Table | None:
    """Return one row for each search: its objective, its bounds, what was achieved there, and why
    it ended; None when nothing was searched.
    """
    if not findings.searches:
        return None
    rates = [search.rate for search in findings.searches if search.rate is not None]
    fields: list[Field[CapacitySearch]] = [
        word("Search", lambda search: search.name),
        word("Objective", lambda search: search.objective),
        number("Holds at", lambda search: _load(search, search.lower)),
        number("Fails at", lambda search: _load(search, search.upper)),
        number(
            "Achieved", lambda s: NOT_KNOWN if s.rate is None else units.format_rate(s.rate.value)
        ),
        number(spread_head(rates), lambda search: ends_words(search.rate)),
        number("Latency", lambda search: _latency(search, search.latency_ns), is_optional=True),
        number("Trials", lambda search: str(len(search.steps))),
        word("Ended", lambda s: s.reason if s.is_confirmed else f"not confirmed: {s.reason}"),
    ]
    notes = (
        "Holds at: the highest load that met the objective in most trials, and again in fresh"
        " trials. Fails at: the lowest load that did not.",
        "Achieved: successful requests per second in the confirming trials.",
        *filter(None, [spread_note(rates, of="Achieved")]),
    )
    return tabulated("Capacity", findings.searches, fields, notes=notes)


def steps_table(findings: Findings) -> Table | None:
    """Return every trial of every search in the order they ran."""
    steps = [(search, step) for search in findings.searches for step in search.steps]
    if not steps:
        return None
    fields: list[Field[tuple[CapacitySearch, SearchStep]]] = [
        word("Trial", lambda row: row[1].trial),
        word("Search", lambda row: row[0].name),
        word("Stage", lambda row: row[1].stage),
        number("Load", lambda row: row[0].describe_load(row[1].load)),
        number("Measured", known(lambda row: row[1].duration_s), "s"),
        number("Good", known(lambda row: row[1].rate), "per s"),
        number("Latency", lambda row: _latency(row[0], row[1].observation.latency_ns)),
        number("Failed", known(lambda row: 100 * row[1].observation.errors), "%"),
        number("Achieved", known(lambda row: 100 * row[1].observation.achieved), "%"),
        word(
            "Meets it",
            lambda row: "yes" if row[1].is_good else STALLED if row[1].is_left_out else "no",
        ),
    ]
    notes = (LEFT_OUT,) if any(step.is_left_out for _, step in steps) else ()
    return tabulated("Steps of the search", steps, fields, notes=notes)


def _load(search: CapacitySearch, load: float | None) -> str:
    return NOT_KNOWN if load is None else search.describe_load(load)


def _latency(search: CapacitySearch, latency_ns: float | None) -> str:
    if latency_ns is None:
        return NOT_KNOWN
    return f"{search.quantile.replace('_', '.')} {units.format_duration(latency_ns)}"
