"""Hooks as marks in charts over time: a line where a command was run inside a trial."""

from collections.abc import Iterable, Sequence
from typing import Any

import altair as alt

from loadstone.analysis import Findings
from loadstone.analysis.cells.timeline import Timeline
from loadstone.analysis.limits.target_state import ending, is_good
from loadstone.report.charts.parts.dimensions import Dimensions
from loadstone.report.charts.parts.drawing import NUMBER
from loadstone.results.hook_log import HookEntry

COLOR = "#8a1c7c"


def hook_marks(
    findings: Findings, timelines: Iterable[Timeline], dimensions: Dimensions
) -> list[dict[str, Any]]:
    """Return a row for each hook inside a trial, in every panel that shows the trial."""
    starts = {trial.trial: trial.started_unix_ns for trial in findings.trials}
    lengths = {trial.trial: trial.duration_s for trial in findings.trials}
    entries: dict[str, list[HookEntry]] = {}
    for entry in findings.hooks:
        trial = entry.get("trial")
        if trial and entry["state"] != "not reached":
            entries.setdefault(trial, []).append(entry)
    marks = []
    for line in timelines:
        started_ns, length_s = starts.get(line.trial), lengths.get(line.trial)
        if started_ns is None or length_s is None:
            continue
        for entry in entries.get(line.trial, ()):
            elapsed_s = (entry["started_unix_ns"] - started_ns) / 1e9
            # Those before the load, and those of an earlier attempt, lie outside.
            if 0 <= elapsed_s <= length_s:
                marks.append(
                    {
                        "panel": dimensions.of_timeline(line).panel,
                        "trial": line.trial,
                        "elapsed": elapsed_s,
                        "hook": entry["hook"]
                        if is_good(entry)
                        else f"{entry['hook']}: {ending(entry)}",
                    }
                )
    return marks


def with_marks(
    chart: Any, rows: Sequence[dict[str, Any]], marks: Sequence[dict[str, Any]], x: alt.X
) -> tuple[Any, list[dict[str, Any]]]:
    """Return a chart and its rows with marks among them; without marks both as they were."""
    if not marks:
        return chart, list(rows)
    empty = dict.fromkeys(rows[0])
    # One word for the marks of many trials at about one time: they would stand on each other.
    said: set[tuple[str, str]] = set()
    marked = []
    for mark in marks:
        word = "" if (mark["panel"], mark["hook"]) in said else mark["hook"]
        said.add((mark["panel"], mark["hook"]))
        # An empty cell of the data is nothing, and no text: filters ask for what is there.
        marked.append({**empty, "series": "", **mark, "word": word})
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
    return layered, [*({**row, "hook": "", "word": ""} for row in rows), *marked]
