"""The table of replayed traces: what of each came into the run, and how late actions began."""

from loadstone import units
from loadstone.analysis import Findings
from loadstone.analysis.cells.fidelity import Fidelity
from loadstone.analysis.naming import describe_parameters
from loadstone.analysis.statistics.latency import Latency
from loadstone.documents.script import rows_kept
from loadstone.report.result_words import NOT_KNOWN
from loadstone.report.tables.layout import Column, Table

NOTES = (
    "Late: good actions began so long after their time in the trace. Rows: requests of the trace"
    " that became actions, of all that were read; the others were left out or malformed.",
)


def replays_table(findings: Findings) -> Table | None:
    """Return a row for each trial that replayed a trace; None where none did."""
    if not findings.replays:
        return None
    columns = (
        Column(head="Replay", align="left"),
        Column(head="Rows"),
        Column(head="Actions"),
        Column(head="Recorded"),
        Column(head="Took"),
        Column(head="Late p50"),
        Column(head="p99"),
        Column(head="max"),
    )
    notes = [*NOTES, *dict.fromkeys(note for replay in findings.replays for note in _lost(replay))]
    return Table(
        title="Replays",
        columns=columns,
        rows=tuple(_row(replay) for replay in findings.replays),
        notes=tuple(notes),
    )


def replay_words(one: Fidelity) -> str:
    """Return how faithful a replay was, on one line."""
    late = _late(one.lateness, "p99") if one.lateness is not None else ""
    words = [f"{one.actions_done:,} of {one.actions_planned:,} actions"]
    words += [f"99 % of them at most {late} late"] if late not in ("", NOT_KNOWN) else []
    if one.origin is not None:
        words.append(f"{rows_kept(one.origin):,} of the trace's {one.origin['rows_read']:,} rows")
    return f"Replay: {', '.join(words)}."


def _row(one: Fidelity) -> tuple[str, ...]:
    origin = one.origin
    form = [origin["format"]] if origin is not None else []
    speed = [] if one.speed is None else [f"{one.speed:g}x"]
    words = [one.target, *form, *speed, describe_parameters(one.parameters)]
    return (
        ", ".join(word for word in words if word),
        NOT_KNOWN if origin is None else f"{rows_kept(origin):,} of {origin['rows_read']:,}",
        f"{one.actions_done:,} of {one.actions_planned:,}",
        NOT_KNOWN if one.recorded_s is None else _seconds(one.recorded_s),
        _seconds(one.achieved_s),
        *(_late(one.lateness, name) for name in ("p50", "p99")),
        NOT_KNOWN if one.lateness is None else units.format_duration(one.lateness.max_ns),
    )


def _seconds(value: float) -> str:
    return units.format_duration(round(value * 1e9))


def _late(lateness: Latency | None, name: str) -> str:
    value = None if lateness is None else lateness.quantiles[name]
    return NOT_KNOWN if value is None else units.format_duration(value)


def _lost(one: Fidelity) -> list[str]:
    origin = one.origin
    if origin is None:
        return []
    files = ", ".join(origin["files"])
    lost = [f"{count:,} × {why}" for why, count in origin["left_out"].items()]
    lost += [f"{origin['malformed']:,} × malformed"] if origin["malformed"] else []
    first = origin["malformed_examples"][:1]
    at = f" (the first: {first[0]})" if first else ""
    return [f"Left out of {files}: {', '.join(lost)}{at}."] if lost else []
