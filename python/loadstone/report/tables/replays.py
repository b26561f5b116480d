"""The table of replayed traces: the part of each in the run, and how late actions began."""

from loadstone import units
from loadstone.analysis import Findings
from loadstone.analysis.cells.fidelity import Fidelity
from loadstone.analysis.naming import describe_parameters
from loadstone.analysis.statistics.latency import Latency
from loadstone.documents.manifest import rows_kept
from loadstone.report.result_words import NOT_KNOWN
from loadstone.report.tables.layout import Table, numbers, texts

NOTES = (
    "Late: how long after their time in the trace successful actions began. Rows: requests of the"
    " trace that became actions, of all that were read; the others were left out or malformed.",
)


def replays_table(findings: Findings) -> Table | None:
    """Return a row for each trial that replayed a trace; None where none did."""
    if not findings.replays:
        return None
    columns = (
        *texts("Replay"),
        *numbers("Rows", "Actions", "Recorded", "Took", "Late p50", "p99", "max"),
    )
    notes = [*NOTES, *dict.fromkeys(note for replay in findings.replays for note in _lost(replay))]
    return Table(
        title="Replays",
        columns=columns,
        rows=tuple(_row(replay) for replay in findings.replays),
        notes=tuple(notes),
    )


def replay_words(replay: Fidelity) -> str:
    """Return how faithful a replay was, on one line."""
    late = _late(replay.lateness, "p99") if replay.lateness is not None else ""
    words = [f"{replay.actions_done:,} of {replay.actions_planned:,} actions"]
    words += [f"99 % of them at most {late} late"] if late not in ("", NOT_KNOWN) else []
    if replay.origin is not None:
        words.append(
            f"{rows_kept(replay.origin):,} of the trace's {replay.origin['rows_read']:,} rows"
        )
    return f"Replay: {', '.join(words)}."


def _row(replay: Fidelity) -> tuple[str, ...]:
    origin = replay.origin
    form = [origin["format"]] if origin is not None else []
    speed = [] if replay.speed is None else [f"{replay.speed:g}x"]
    words = [replay.target, *form, *speed, describe_parameters(replay.parameters)]
    return (
        ", ".join(word for word in words if word),
        NOT_KNOWN if origin is None else f"{rows_kept(origin):,} of {origin['rows_read']:,}",
        f"{replay.actions_done:,} of {replay.actions_planned:,}",
        NOT_KNOWN if replay.recorded_s is None else _seconds(replay.recorded_s),
        _seconds(replay.achieved_s),
        *(_late(replay.lateness, name) for name in ("p50", "p99")),
        NOT_KNOWN if replay.lateness is None else units.format_duration(replay.lateness.max_ns),
    )


def _seconds(value: float) -> str:
    return units.format_duration(round(value * 1e9))


def _late(lateness: Latency | None, name: str) -> str:
    value = None if lateness is None else lateness.quantiles[name]
    return NOT_KNOWN if value is None else units.format_duration(value)


def _lost(replay: Fidelity) -> list[str]:
    origin = replay.origin
    if origin is None:
        return []
    files = ", ".join(origin["files"])
    lost = [f"{count:,} × {why}" for why, count in origin["left_out"].items()]
    lost += [f"{origin['malformed']:,} × malformed"] if origin["malformed"] else []
    first = origin["malformed_examples"][:1]
    at = f" (the first: {first[0]})" if first else ""
    return [f"Left out of {files}: {', '.join(lost)}{at}."] if lost else []
