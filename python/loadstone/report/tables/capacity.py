"""Tables of searches for a capacity: the answers, and all steps."""

from loadstone import units
from loadstone.analysis import Findings
from loadstone.analysis.limits.searches import CapacitySearch
from loadstone.campaign.search import STALLED_MAX
from loadstone.report.result_words import NOT_KNOWN, ends_words, spread_head, spread_note
from loadstone.report.tables.layout import Column, Table, numbers, texts

STALLED = "client stood still"
LEFT_OUT = (
    "Client stood still: its host kept even a sleeping thread waiting, for long enough to be why"
    f" the objective was missed. Up to {STALLED_MAX} such trials of a load and stage are left out"
    " and run again."
)


def capacity_table(findings: Findings) -> Table | None:
    """Return one row for each search: its objective, its bounds, what was achieved there, and why
    it ended; None when nothing was searched.
    """
    if not findings.searches:
        return None
    left = ("Search", "Objective")
    rates = [search.rate for search in findings.searches if search.rate is not None]
    columns = (
        *texts(*left),
        *numbers("Holds at", "Fails at", "Achieved"),
        Column(head=spread_head(rates)),
        Column(head="Latency", is_optional=True),
        Column(head="Trials"),
        Column(head="Ended", align="left"),
    )
    return Table(
        title="Capacity",
        columns=columns,
        rows=tuple(_answer(search) for search in findings.searches),
        notes=(
            "Holds at: the largest load that met the objective, most often and again in fresh"
            " trials. Fails at: the smallest that did not.",
            "Achieved: good requests a second of the confirming trials.",
            *filter(None, [spread_note(rates, of="Achieved")]),
        ),
    )


def steps_table(findings: Findings) -> Table | None:
    """Return every trial of every search in the order they ran."""
    rows = [_step(search, index) for search in findings.searches for index in _indices(search)]
    if not rows:
        return None
    heads = ("Trial", "Search", "Stage")
    columns = (
        *texts(*heads),
        *numbers(
            "Load",
            ("Measured", "s"),
            ("Good", "per s"),
            "Latency",
            ("Failed", "%"),
            ("Achieved", "%"),
        ),
        Column(head="Meets it", align="left"),
    )
    steps = [step for search in findings.searches for step in search.steps]
    notes = (LEFT_OUT,) if any(step.is_left_out for step in steps) else ()
    return Table(title="Steps of the search", columns=columns, rows=tuple(rows), notes=notes)


def _indices(search: CapacitySearch) -> range:
    return range(len(search.steps))


def _answer(search: CapacitySearch) -> tuple[str, ...]:
    return (
        search.name,
        search.objective,
        NOT_KNOWN if search.lower is None else search.describe_load(search.lower),
        NOT_KNOWN if search.upper is None else search.describe_load(search.upper),
        NOT_KNOWN if search.rate is None else units.format_rate(search.rate.value),
        ends_words(search.rate),
        NOT_KNOWN if search.latency_ns is None else _latency(search, search.latency_ns),
        str(len(search.steps)),
        search.reason if search.is_confirmed else f"not confirmed: {search.reason}",
    )


def _step(search: CapacitySearch, index: int) -> tuple[str, ...]:
    step = search.steps[index]
    measured = step.observation
    return (
        step.trial,
        search.name,
        step.stage,
        search.describe_load(step.load),
        units.format_number(step.duration_s),
        units.format_number(step.rate),
        NOT_KNOWN if measured.latency_ns is None else _latency(search, measured.latency_ns),
        units.format_number(100 * measured.errors),
        units.format_number(100 * measured.achieved),
        "yes" if step.is_good else STALLED if step.is_left_out else "no",
    )


def _latency(search: CapacitySearch, latency_ns: float) -> str:
    return f"{search.quantile.replace('_', '.')} {units.format_duration(latency_ns)}"
