"""Charts of searches for a capacity: which loads were tried, in turn, and what they took."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import altair as alt

from loadstone import units
from loadstone.analysis import Findings
from loadstone.analysis.limits.searches import CapacitySearch
from loadstone.report.charts.parts.drawing import (
    NUMBER,
    ChartRow,
    Picture,
    latency_axis,
    panels,
    shortened,
)
from loadstone.report.tables.capacity import STALLED

HEIGHT = 240
MEETS, MISSES = "meets the objective", "misses it"
COLORS = {MEETS: "#0072B2", MISSES: "#D55E00", STALLED: "#8A8F98"}
SHAPES = {"coarse": "circle", "fine": "square", "confirm": "diamond"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRow(ChartRow):
    """One trial of a search."""

    step: int
    trial: str
    stage: str
    load: float
    shown: str
    latency: float | None
    limit: float
    found: float | None
    outcome: str
    achieved: str


def charts_of_searches(findings: Findings) -> Iterable[Picture]:
    """Return how each search went: its loads in turn, and latency against load."""
    rows = [
        _row(search, index) for search in findings.searches for index in range(len(search.steps))
    ]
    if not rows:
        return
    yield _loads(rows)
    if any(row.latency is not None for row in rows):
        yield _latencies(rows)


def _row(search: CapacitySearch, index: int) -> SearchRow:
    step = search.steps[index]
    latency_ns = step.seen.latency_ns
    return SearchRow(
        panel=f"{search.name}: {search.objective}",
        series="",
        step=index + 1,
        trial=step.trial,
        stage=step.stage,
        load=shortened(step.load),
        shown=search.describe_load(step.load),
        latency=None if latency_ns is None else shortened(latency_ns / 1e6),
        limit=shortened(search.goal.latency_ns_max / 1e6),
        found=shortened(search.lower) if search.lower is not None else None,
        outcome=MEETS if step.is_good else STALLED if step.is_left_out else MISSES,
        achieved=units.format_rate(step.rate),
    )


def _color(rows: Sequence[SearchRow]) -> alt.Color:
    seen = {row.outcome for row in rows}
    shown = {name: color for name, color in COLORS.items() if name in seen}
    scale = alt.Scale(domain=list(shown), range=list(shown.values()))
    return alt.Color("outcome:N", title=None, scale=scale)


def _shape() -> alt.Shape:
    scale = alt.Scale(domain=list(SHAPES), range=list(SHAPES.values()))
    return alt.Shape("stage:N", title=None, scale=scale)


TOOLTIP = (
    ("trial:N", "trial"),
    ("stage:N", "stage"),
    ("shown:N", "load"),
    ("achieved:N", "good requests"),
    ("latency:Q", "ms"),
    ("outcome:N", "it"),
)


def _tooltip() -> list[alt.Tooltip]:
    return [alt.Tooltip(field, title=title) for field, title in TOOLTIP]


def _loads(rows: Sequence[SearchRow]) -> Picture:
    base = alt.Chart().encode(
        x=alt.X("step:Q", title="trial of the search", axis=alt.Axis(format="d", tickMinStep=1)),
        y=alt.Y(
            "load:Q",
            title="load offered (logarithmic)",
            scale=alt.Scale(type="log", nice=False, padding=8),
            axis=alt.Axis(format=NUMBER, tickCount=6),
        ),
    )
    path = base.mark_line(color="#b0b5bd", strokeWidth=1)
    points = base.mark_point(filled=True, size=60).encode(
        color=_color(rows), shape=_shape(), tooltip=_tooltip()
    )
    answer = base.mark_rule(color="#009E73", strokeDash=[4, 3]).encode(
        y="found:Q", x=alt.value(0), x2=alt.value("width")
    )
    return Picture(
        name="search-steps",
        title="Search for the capacity, trial by trial",
        caption="Each point is a trial at one load: short ones narrow the loads, longer ones decide"
        " by majority, fresh ones confirm. The dashed line is the answer.",
        chart=panels(alt.layer(path, answer, points), rows, height=HEIGHT),
    )


def _latencies(rows: Sequence[SearchRow]) -> Picture:
    points = (
        alt.Chart()
        .mark_point(filled=True, size=60)
        .encode(
            x=alt.X(
                "load:Q",
                title="load offered (logarithmic)",
                scale=alt.Scale(type="log", nice=False, padding=8),
                axis=alt.Axis(format=NUMBER, tickCount=8),
            ),
            y=latency_axis(),
            color=_color(rows),
            shape=_shape(),
            tooltip=_tooltip(),
        )
    )
    limit = (
        alt.Chart()
        .mark_rule(color="#404040", strokeDash=[4, 3])
        .encode(y="limit:Q", x=alt.value(0), x2=alt.value("width"))
    )
    return Picture(
        name="search-latency",
        title="Latency against load during the search",
        caption="The percentile that the objective speaks of, in each trial where it could be read;"
        " the dashed line is the most it may be.",
        chart=panels(alt.layer(limit, points), rows, height=HEIGHT),
    )
