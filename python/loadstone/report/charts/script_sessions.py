"""The chart of a few sessions of a script: what each did when, and what failed."""

from collections.abc import Iterable
from dataclasses import dataclass

import altair as alt

from loadstone.analysis.cells.sessions import ACTIONS_MAX, TimedAction, read_session_actions
from loadstone.analysis.naming import describe_parameters
from loadstone.report.charts.parts.drawing import (
    WARNING,
    WIDE,
    ChartRow,
    Picture,
    data,
    series_color,
    shortened,
)
from loadstone.results.record import Record, Run

LANE_HEIGHT = 26


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRow(ChartRow):
    """One action in the lane of its session."""

    lane: str
    begin: float
    end: float
    outcome: str


def charts_of_sessions(run: Run) -> Iterable[Picture]:
    """Return the sessions of the first trial in whose log they can be told apart."""
    for record in run.records:
        actions = read_session_actions(record)
        if actions:
            yield _timeline(record, actions)
            return


def _timeline(record: Record, actions: tuple[TimedAction, ...]) -> Picture:
    begun_ns = min(one.sent_ns for one in actions)
    rows = [
        SessionRow(
            panel="",
            series=one.action,
            lane=f"session {one.session}",
            begin=shortened((one.sent_ns - begun_ns) / 1e9),
            end=shortened((one.ended_ns - begun_ns) / 1e9),
            outcome=one.outcome,
        )
        for one in actions
    ]
    lanes = list(dict.fromkeys(row.lane for row in rows))
    base = alt.Chart().encode(
        y=alt.Y("lane:N", title=None, sort=lanes),
        x=alt.X("begin:Q", title="seconds", scale=alt.Scale(zero=True, nice=False)),
    )
    bars = base.mark_bar(height={"band": 0.8}).encode(x2="end:Q", color=series_color(rows))
    failed = (
        base.mark_point(shape="triangle-down", size=70, filled=True, color=WARNING, opacity=1)
        .encode(yOffset=alt.value(4))
        .transform_filter("datum.outcome != 'ok'")
    )
    chart = alt.layer(bars, failed).properties(
        width=WIDE - 90, height=LANE_HEIGHT * len(lanes), data=data(rows)
    )
    failures = sum(one.outcome != "ok" for one in actions)
    marked = f"{failures:,} of them failed, marked by a triangle." if failures else "none failed."
    case = [str(record.trial["case"]["target"])]
    if record.trial["case"]["parameters"]:
        case.append(describe_parameters(record.trial["case"]["parameters"]))
    return Picture(
        name="sessions",
        title="What each session did",
        caption=(
            f"Trial {record.id} ({', '.join(case)}): the first actions, at most {ACTIONS_MAX}, of"
            f" {len(lanes)} sessions, from their log of requests. A bar is an action, from its"
            " first request to the end of its last; between bars the session waited for a"
            f" client. {len(actions):,} actions; {marked}"
        ),
        chart=chart,
    )
