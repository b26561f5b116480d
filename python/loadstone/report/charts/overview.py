"""The charts of a run: throughput and latency side by side, along a sweep, and by percentile."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import altair as alt

from loadstone import units
from loadstone.analysis import Findings
from loadstone.report.charts.ceilings import charts_of_ceilings
from loadstone.report.charts.exporters import charts_of_exporters
from loadstone.report.charts.operations import Arrangement, charts_of_operations
from loadstone.report.charts.over_time import charts_over_time
from loadstone.report.charts.parts.dimensions import Dimensions
from loadstone.report.charts.parts.drawing import (
    NUMBER,
    ChartRow,
    Picture,
    latency_axis,
    milliseconds,
    panels,
    round_dash,
    series_color,
    shortened,
)
from loadstone.report.charts.script_actions import charts_of_actions
from loadstone.report.charts.searches import charts_of_searches
from loadstone.report.charts.sweep_points import Wording, points_of_findings
from loadstone.report.charts.sweeps import charts_along_load

PANEL_HEIGHT = 220
ROOM = 1.28
CURVE_POINTS_MAX = 4000
BARS = (
    "The bars are one standard deviation: of the trials' rates where a point has several trials,"
    " else of its one-second rates."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BarRow(ChartRow):
    """One result side by side with others; `room` is where its label ends, at most."""

    bar: str
    rate: float
    room: float
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributionRow(ChartRow):
    """One point of a distribution; `x` is one request in how many."""

    dash: str
    case: int
    x: float
    percentile: str
    latency: float | None


def pictures(findings: Findings) -> tuple[Picture, ...]:
    """Return the charts that a run has data for, the answer first."""
    dimensions = Dimensions.of(findings)
    return (
        *charts_of_ceilings(findings, dimensions),
        *charts_of_searches(findings),
        *charts_of_actions(findings),
        *_results(findings, dimensions),
        *_distribution(findings, dimensions),
        *charts_over_time(findings, dimensions),
    )


def evidence_pictures(findings: Findings) -> tuple[Picture, ...]:
    """Return the charts that stand with the evidence: what the targets' exporters showed."""
    return tuple(charts_of_exporters(findings))


def _results(findings: Findings, dimensions: Dimensions) -> Iterable[Picture]:
    """Return the results as their shape asks for: operations, curves, or bars side by side."""
    points = points_of_findings(findings)
    wording = Wording(rate="good requests per second", bars=BARS, client=findings.client)
    arrangement = Arrangement.of(points, loads_min=2)
    if arrangement is not None:
        return charts_of_operations(points, arrangement, wording)
    if dimensions.sweep is not None:
        return charts_along_load(points, dimensions.sweep, wording, ())
    return _overview(findings, dimensions)


def _overview(findings: Findings, dimensions: Dimensions) -> Iterable[Picture]:
    """Return throughput side by side, when there is no sweep to draw a line along."""
    cells = [cell for cell in findings.totals if cell.good]
    if not cells:
        return
    rows = [
        BarRow(
            panel=(place := dimensions.of_cell(cell)).panel,
            series=place.series,
            bar=place.bar,
            rate=shortened(cell.requests_per_s),
            room=shortened(cell.requests_per_s * ROOM),
            label=units.format_number(cell.requests_per_s),
        )
        for cell in cells
    ]
    if len({row.bar for row in rows}) == 1:
        # A panel for every single bar would compare nothing: the panels become the bars.
        rows = [replace(row, panel="", bar=row.panel) for row in rows]
    bars = list(dict.fromkeys(row.bar for row in rows))
    base = alt.Chart().encode(
        y=alt.Y("bar:N", title=None, sort=bars, axis=alt.Axis(labelLimit=240)),
        x=alt.X(
            "rate:Q",
            title="good requests per second",
            axis=alt.Axis(format=NUMBER, tickCount=4),
            scale=alt.Scale(zero=True, nice=False),
        ),
    )
    marks = base.mark_bar(height={"band": 0.7}).encode(color=series_color(rows))
    words = base.mark_text(align="left", dx=4, fontSize=12).encode(text="label:N")
    # Room at the end of the longest bar: its label must not run over the edge.
    room = base.mark_point(opacity=0).encode(x="room:Q")
    chart = panels(alt.layer(marks, words, room), rows, height=27 * len(bars) + 8, shared=("y",))
    yield Picture(
        name="throughput",
        title="Throughput",
        caption="Good requests per second over the whole measured time. Longer is better.",
        chart=chart,
    )


def _distribution(findings: Findings, dimensions: Dimensions) -> Iterable[Picture]:
    count = sum(len(cell.headline.curve) for cell in findings.totals if cell.headline is not None)
    every = -(-count // CURVE_POINTS_MAX)
    rows = [
        DistributionRow(
            panel=(place := dimensions.of_cell(cell)).panel,
            series=place.series,
            dash=place.dash,
            case=case,
            x=shortened(1 / (1 - point.quantile)),
            percentile=f"{100 * point.quantile:.6g} %",
            latency=milliseconds(point.value_ns),
        )
        for case, cell in enumerate(findings.totals)
        if cell.headline is not None
        for point in cell.headline.curve[:: every or 1]
    ]
    if not rows:
        return
    chart = (
        alt.Chart()
        .mark_line(interpolate="monotone")
        .encode(
            x=alt.X(
                "x:Q",
                title="share of the requests",
                scale=alt.Scale(type="log", nice=False),
                axis=alt.Axis(
                    values=[2, 10, 100, 1000, 10_000, 100_000, 1_000_000],
                    labelExpr="format(100 * (1 - 1 / datum.value), '.7~r') + ' %'",
                ),
            ),
            y=latency_axis(),
            color=series_color(rows, is_ramp=dimensions.sweep is not None),
            strokeDash=round_dash(rows),
            detail="case:N",
            tooltip=[
                alt.Tooltip("series:N", title="series"),
                alt.Tooltip("percentile:N", title="share"),
                alt.Tooltip("latency:Q", title="ms", format=NUMBER),
            ],
        )
    )
    yield Picture(
        name="latency-distribution",
        title="Latency distribution",
        caption="How slow the slowest are: 50 % is the median, and each mark to the right is ten "
        "times rarer. A line ends where fewer than ten requests lie beyond it." + dimensions.note(),
        chart=panels(chart, rows, height=PANEL_HEIGHT, shared=("x",)),
    )
