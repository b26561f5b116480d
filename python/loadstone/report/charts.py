"""The charts of a run: throughput and latency side by side, along a sweep, and by percentile."""

from collections.abc import Iterable
from typing import Any

import altair as alt

from loadstone import units
from loadstone.analysis import Findings
from loadstone.analysis.summary import Cell
from loadstone.analysis.verdict import Verdict
from loadstone.report.charts_of_ceilings import charts_of_ceilings
from loadstone.report.charts_of_searches import charts_of_searches
from loadstone.report.charts_over_time import charts_over_time
from loadstone.report.dimensions import Dimensions
from loadstone.report.drawing import (
    NUMBER,
    Picture,
    latency_axis,
    milliseconds,
    panels,
    quantile_dash,
    rate_axis,
    round_dash,
    series_color,
    shortened,
)

PANEL_HEIGHT = 220
ROOM = 1.28
CURVE_POINTS_MAX = 4000


def pictures(findings: Findings) -> tuple[Picture, ...]:
    """Return the charts that a run has data for, the answer first."""
    dimensions = Dimensions.of(findings)
    return (
        *charts_of_ceilings(findings, dimensions),
        *charts_of_searches(findings),
        *_overview(findings, dimensions),
        *_sweeps(findings, dimensions),
        *_distribution(findings, dimensions),
        *charts_over_time(findings, dimensions),
    )


def _overview(findings: Findings, dimensions: Dimensions) -> Iterable[Picture]:
    """Throughput side by side, when there is no sweep to draw a line along."""
    cells = [cell for cell in findings.totals if cell.good]
    if dimensions.sweep is not None or not cells:
        return
    rows = [
        {
            "panel": (place := dimensions.of_cell(cell)).panel,
            "series": place.series,
            "bar": place.bar,
            "rate": shortened(cell.requests_per_s),
            "room": shortened(cell.requests_per_s * ROOM),
            "label": units.format_number(cell.requests_per_s),
        }
        for cell in cells
    ]
    if len({row["bar"] for row in rows}) == 1:
        # A panel for every single bar would compare nothing: the panels become the bars.
        rows = [{**row, "panel": "", "bar": row["panel"]} for row in rows]
    bars = list(dict.fromkeys(str(row["bar"]) for row in rows))
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


def _sweeps(findings: Findings, dimensions: Dimensions) -> Iterable[Picture]:
    name = dimensions.sweep
    cells = [cell for cell in findings.totals if cell.good]
    if name is None or not cells:
        return
    rows = [_sweep_row(cell, name, dimensions, findings.verdict_of(cell)) for cell in cells]
    order = list(dict.fromkeys(row["panel"] for row in rows))
    rows.sort(key=lambda row: (order.index(row["panel"]), row["series"], row["x"]))
    rows = _with_callouts(rows)
    readable = name.replace("_", " ")
    low, high = min(row["x"] for row in rows), max(row["x"] for row in rows)
    is_wide = low > 0 and high / low >= 50
    x = alt.X(
        "x:Q",
        title=readable + (" (logarithmic)" if is_wide else ""),
        scale=alt.Scale(type="log", nice=False) if is_wide else alt.Scale(zero=True, nice=False),
        axis=alt.Axis(values=sorted({row["x"] for row in rows}), labelOverlap=True, format=NUMBER),
    )
    yield _sweep_rates(rows, x, readable)
    if any(row["p99"] or row["p50"] for row in rows):
        yield _sweep_latencies(rows, x, readable)


def _with_callouts(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Name the client's own limit where a line first meets it: from there it shows the client."""
    seen: set[tuple[str, str, str]] = set()
    marked = []
    for row in rows:
        key = (row["panel"], row["series"], row["own_limit"])
        callout = row["own_limit"] if key not in seen else ""
        seen.add(key)
        marked.append({**row, "callout": callout})
    return marked


def _sweep_row(
    cell: Cell, name: str, dimensions: Dimensions, verdict: Verdict | None
) -> dict[str, Any]:
    place = dimensions.of_cell(cell)
    spread = cell.spread_of_trials or cell.spread_of_seconds
    sd = spread.requests_per_s if spread is not None else 0
    latency = cell.headline
    return {
        "panel": place.panel,
        "series": place.sweep_series,
        "x": cell.parameters[name],
        "rate": shortened(cell.requests_per_s),
        "low": shortened(max(0.0, cell.requests_per_s - sd)),
        "high": shortened(cell.requests_per_s + sd),
        "data": units.format_byte_rate(cell.bytes_per_s),
        "p50": milliseconds(latency.quantiles["p50"]) if latency is not None else None,
        "p99": milliseconds(latency.quantiles["p99"]) if latency is not None else None,
        "labels": " ".join(cell.labels) or "none",
        "limit": verdict.limit if verdict is not None else "not known",
        "own_limit": verdict.limit if verdict is not None and verdict.is_void_for_ratios else "",
    }


def _sweep_rates(rows: list[dict[str, Any]], x: alt.X, readable: str) -> Picture:
    base = alt.Chart().encode(x=x, color=series_color(rows))
    line = base.mark_line(point={"size": 55, "filled": True}).encode(
        y=rate_axis("good requests per second"),
        shape=alt.Shape("series:N", legend=None),
        tooltip=[
            alt.Tooltip("series:N", title="series"),
            alt.Tooltip("x:Q", title=readable),
            alt.Tooltip("rate:Q", title="requests/s", format=NUMBER),
            alt.Tooltip("data:N", title="data"),
            alt.Tooltip("limit:N", title="limit"),
            alt.Tooltip("labels:N", title="labels"),
        ],
    )
    bars = base.mark_rule(strokeWidth=1.5, opacity=0.6).encode(y="low:Q", y2="high:Q")
    layers = [bars, line]
    caption = (
        "Good requests per second. The bars are one standard deviation: of the trials' "
        "rates where a point has several trials, else of its one-second rates."
    )
    if any(row["callout"] for row in rows):
        ring = base.mark_point(size=180, strokeWidth=2, color="#D55E00", shape="circle")
        ring = ring.encode(y="rate:Q", color=alt.value("#D55E00"))
        words = base.mark_text(align="right", dx=-9, dy=-12, fontSize=11)
        words = words.encode(y="rate:Q", text="callout:N", color=alt.value("#D55E00"))
        # An empty cell of the data is null to a chart, and would be drawn as that word.
        layers += [
            ring.transform_filter("isValid(datum.own_limit) && datum.own_limit != ''"),
            words.transform_filter("isValid(datum.callout) && datum.callout != ''"),
        ]
        caption += " Ringed points show the client's own limit, and only a bound of the target."
    return Picture(
        name=f"throughput-against-{readable.replace(' ', '-')}",
        title=f"Throughput against {readable}",
        caption=caption,
        chart=panels(alt.layer(*layers), rows, height=PANEL_HEIGHT + 40),
    )


def _sweep_latencies(rows: list[dict[str, Any]], x: alt.X, readable: str) -> Picture:
    long = [
        {**row, "quantile": name, "latency": row[name]}
        for row in rows
        for name in ("p50", "p99")
        if row[name] is not None
    ]
    chart = (
        alt.Chart()
        .mark_line(point={"size": 45, "filled": True})
        .encode(
            x=x,
            y=latency_axis(),
            color=series_color(long),
            strokeDash=quantile_dash(),
            tooltip=[
                alt.Tooltip("series:N", title="series"),
                alt.Tooltip("quantile:N", title="percentile"),
                alt.Tooltip("x:Q", title=readable),
                alt.Tooltip("latency:Q", title="ms", format=NUMBER),
            ],
        )
    )
    return Picture(
        name=f"latency-against-{readable.replace(' ', '-')}",
        title=f"Latency against {readable}",
        caption="The median (p50) and the slowest hundredth (p99). Lower is better. A point is "
        "missing where there were too few requests for it.",
        chart=panels(chart, long, height=PANEL_HEIGHT + 40),
    )


def _distribution(findings: Findings, dimensions: Dimensions) -> Iterable[Picture]:
    count = sum(len(cell.headline.curve) for cell in findings.totals if cell.headline is not None)
    every = -(-count // CURVE_POINTS_MAX)
    rows = [
        {
            "panel": (place := dimensions.of_cell(cell)).panel,
            "series": place.series,
            "dash": place.dash,
            "x": shortened(1 / (1 - point.quantile)),
            "percentile": f"{100 * point.quantile:.6g} %",
            "latency": milliseconds(point.value_ns),
        }
        for cell in findings.totals
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
        "times rarer. A line ends where fewer than ten requests lie beyond it.",
        chart=panels(chart, rows, height=PANEL_HEIGHT, shared=("x",)),
    )
