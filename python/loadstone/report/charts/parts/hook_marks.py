"""Hooks as marks in charts over time: a line where a command was run inside a trial."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from loadstone.analysis import Findings
from loadstone.analysis.cells.timeline import Timeline
from loadstone.analysis.limits.target_state import ending, is_good
from loadstone.report.charts.parts.dimensions import Dimensions
from loadstone.report.charts.parts.drawing import NUMBER, TimedRow
from loadstone.results.hook_log import HookEntry

COLOR = "#8a1c7c"


@dataclass(frozen=True, slots=True, kw_only=True)
class HookMark(TimedRow):
    """A hook inside a trial; `word` is what is written at its line, if anything."""

    hook: str
    word: str


def hook_marks(
    findings: Findings, timelines: Iterable[Timeline], dimensions: Dimensions
) -> list[HookMark]:
    """Return a row for each hook inside a trial, in every panel that shows the trial."""
    starts = {trial.trial: trial.started_unix_ns for trial in findings.trials}
    lengths = {trial.trial: trial.duration_s for trial in findings.trials}
    entries: dict[str, list[HookEntry]] = {}
    for entry in findings.hooks:
        trial = entry.get("trial")
        if trial and entry["state"] != "not reached":
            entries.setdefault(trial, []).append(entry)
    marks = []
    # One word for the marks of many trials at about one time: they would stand on each other.
    said: set[tuple[str, str]] = set()
    for line in timelines:
        started_ns, length_s = starts.get(line.trial), lengths.get(line.trial)
        if started_ns is None or length_s is None:
            continue
        panel = dimensions.of_timeline(line).panel
        for entry in entries.get(line.trial, ()):
            elapsed_s = (entry["started_unix_ns"] - started_ns) / 1e9
            # Those before the load, and those of an earlier attempt, lie outside.
            if 0 <= elapsed_s <= length_s:
                hook = entry["hook"] if is_good(entry) else f"{entry['hook']}: {ending(entry)}"
                word = "" if (panel, hook) in said else hook
                said.add((panel, hook))
                marks.append(
                    HookMark(
                        panel=panel,
                        series="",
                        trial=line.trial,
                        elapsed=elapsed_s,
                        hook=hook,
                        word=word,
                    )
                )
    return marks


def with_marks(
    chart: Any, rows: Sequence[TimedRow], marks: Sequence[HookMark], x: alt.X
) -> tuple[Any, list[TimedRow]]:
    """Return a chart and its rows with marks among them; without marks both as they were."""
    if not marks:
        return chart, list(rows)
    # An empty cell of the data is nothing, and no text: filters ask for what is there.
    base = alt.Chart().transform_filter("datum.hook").encode(x=x)
    lines = base.mark_rule(color=COLOR, strokeWidth=1.2, strokeDash=[3, 2]).encode(
        tooltip=[
            alt.Tooltip("hook:N", title="hook"),
            alt.Tooltip("trial:N", title="trial"),
            alt.Tooltip("elapsed:Q", title="at", format=NUMBER),
        ]
    )
    words = (
        base.transform_filter("datum.word")
        .mark_text(align="left", baseline="top", dx=3, dy=2, fontSize=10, color=COLOR)
        .encode(text="word:N", y=alt.value(0))
    )
    layered = alt.layer(chart.transform_filter("!datum.hook"), lines, words)
    return layered, [*rows, *marks]
