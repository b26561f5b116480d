"""Charts along a load: rates with the client's own limits called out, and latencies."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import altair as alt

from loadstone.report.charts.parts.drawing import (
    NUMBER,
    PALETTE,
    WARNING,
    ChartRow,
    Picture,
    latency_axis,
    panel_width,
    panels,
    quantile_dash,
    rate_axis,
    series_color,
    shortened,
)
from loadstone.report.charts.parts.lettering import (
    CHARACTER_WIDTH,
    Box,
    Offset,
    find_room,
    line_boxes,
    point_box,
    text_box,
)
from loadstone.report.charts.sweep_points import SweepPoint, Wording, differing_facts

PANEL_HEIGHT = 260
HEADROOM = 1.12
WIDE_RATIO = 50

CALLOUT_PLACES = tuple(
    Offset(right=side * right, down=down)
    for down in (34, -26, 58, 82, 106, 130, 154, -50)
    for right in (10, 60)
    for side in (-1, 1, -2, 2)
)
"""Where a call-out may stand, as seen from its point: below a curve there is room, mostly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRow(ChartRow):
    """One result; `room` is the upper end of its panel's axis."""

    x: float
    rate: float
    low: float
    high: float
    data: str
    p50: float | None
    p99: float | None
    labels: str
    limit: str
    own_limit: str
    room: float = 0.0
    callout: str = ""
    callout_x: float | None = None
    callout_y: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepLatency(ChartRow):
    """One percentile of a result."""

    x: float
    quantile: str
    latency: float


def charts_along_load(
    points: Sequence[SweepPoint], sweep: str, wording: Wording, planned: Sequence[float]
) -> Iterable[Picture]:
    """Return rate and latency against a swept load, a panel for each operation and size.

    `planned` are loads that were to be measured: the axis reaches to the last of them, measured or
    not.
    """
    rows = _rows(points, sweep)
    if not rows:
        return
    readable = sweep.replace("_", " ")
    low = min(row.x for row in rows)
    high = max([*(row.x for row in rows), *planned])
    is_wide = low > 0 and high / low >= WIDE_RATIO
    values = sorted({row.x for row in rows} | set(planned))
    domain = (low if is_wide else 0.0, high)
    x = alt.X(
        "x:Q",
        title=readable + (" (logarithmic)" if is_wide else ""),
        scale=alt.Scale(type="log", nice=False, domain=[low, high])
        if is_wide
        else alt.Scale(nice=False, domain=[0, high]),
        axis=alt.Axis(
            values=_with_room(values, domain, len({row.panel for row in rows}), is_log=is_wide),
            labelOverlap=False,
            labelFlush=True,
            format=NUMBER,
        ),
    )
    yield _rates(_with_callouts(rows, domain, is_log=is_wide), x, readable, wording)
    if any(row.p99 or row.p50 for row in rows):
        yield _latencies(rows, x, readable)


def _with_room(
    values: Sequence[float], domain: tuple[float, float], panels_count: int, *, is_log: bool
) -> list[float]:
    """Return the loads whose numbers fit beside each other: the last and the first in any case."""
    low, high = (math.log(one) for one in domain) if is_log else domain
    scale = panel_width(panels_count) / ((high - low) or 1)
    kept: list[float] = []
    for value in [values[-1], *values[:-1]]:
        x = math.log(value) if is_log else value
        near = [abs(x - (math.log(one) if is_log else one)) * scale for one in kept]
        if all(distance >= CHARACTER_WIDTH * len(f"{value:g}") + 7 for distance in near):
            kept.append(value)
    return sorted(kept)


def _rows(points: Sequence[SweepPoint], sweep: str) -> list[SweepRow]:
    differing = {name: count for name, count in differing_facts(points).items() if name != sweep}
    in_panel = _panel_names(differing)
    of_series = [name for name in differing if name not in in_panel]
    rows = []
    for point in points:
        x = point.parameters.get(sweep)
        if not isinstance(x, (int, float)):
            continue
        words = point.words()
        rows.append(
            SweepRow(
                panel=_joined(words.get(name, "") for name in in_panel),
                series=_joined(words.get(name, "") for name in of_series) or point.target,
                x=x,
                rate=point.rate,
                low=point.low,
                high=point.high,
                data=point.data,
                p50=point.quantiles_ms.get("p50"),
                p99=point.quantiles_ms.get("p99"),
                labels=point.labels,
                limit=point.limit,
                own_limit=point.own_limit,
            )
        )
    order = list(dict.fromkeys(row.panel for row in rows))
    rows.sort(key=lambda row: (order.index(row.panel), row.series, row.x))
    return rows


def _joined(words: Iterable[str]) -> str:
    return ", ".join(word for word in words if word)


def _panel_names(differing: Mapping[str, int]) -> list[str]:
    """Return what has a panel of its own: so much that its lines are few enough for colours."""
    # Even a single operation stands in the panel's title: a chart is often seen by itself.
    in_panel = [name for name in ("workload", "operation", "size") if name in differing]
    if "operation" not in in_panel:
        in_panel.insert(in_panel.count("workload"), "operation")
    rest = [name for name in differing if name not in in_panel]
    while rest and math.prod(differing[name] for name in rest) > len(PALETTE):
        most = max(rest, key=lambda name: differing[name])
        in_panel.append(most)
        rest.remove(most)
    return in_panel


def _with_callouts(
    rows: Sequence[SweepRow], domain: tuple[float, float], *, is_log: bool
) -> list[SweepRow]:
    """Return rows with the room and the call-outs of their panels."""
    by_panel: dict[str, list[SweepRow]] = {}
    for row in rows:
        by_panel.setdefault(row.panel, []).append(row)
    width = panel_width(len(by_panel))
    return [
        row
        for own in by_panel.values()
        for row in _called_out(own, _Frame(own, width, domain, is_log=is_log))
    ]


class _Frame:
    """Where a value lies in a panel, in pixels, and back."""

    def __init__(
        self, rows: Sequence[SweepRow], width: float, domain: tuple[float, float], *, is_log: bool
    ):
        self.top_rate = max(row.high for row in rows) * HEADROOM
        self.width = width
        self.is_log = is_log
        self.low, self.high = (math.log(one) for one in domain) if is_log else domain

    def place(self, row: SweepRow) -> tuple[float, float]:
        """Return the pixels of a point, from the upper left corner."""
        x = math.log(row.x) if self.is_log else row.x
        across = (x - self.low) / ((self.high - self.low) or 1)
        return across * self.width, (1 - row.rate / self.top_rate) * PANEL_HEIGHT

    def values(self, x: float, y: float) -> tuple[float, float]:
        """Return the values that stand at these pixels."""
        across = self.low + x / self.width * (self.high - self.low)
        value = math.exp(across) if self.is_log else across
        return shortened(value), shortened((1 - y / PANEL_HEIGHT) * self.top_rate)


def _called_out(rows: Sequence[SweepRow], frame: _Frame) -> Iterable[SweepRow]:
    """Name the client's own limit where a line first meets it: from there it shows the client.

    Every call-out of a panel has a place of its own, off all lines and off each other.
    """
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        lines.setdefault(row.series, []).append(frame.place(row))
    taken = [box for places in lines.values() for box in line_boxes(places)]
    taken += [point_box(*place) for places in lines.values() for place in places]
    edge = Box(left=2, top=2, right=frame.width - 2, bottom=PANEL_HEIGHT - 2)
    room = shortened(frame.top_rate)
    seen: set[tuple[str, str]] = set()
    for row in rows:
        key = (row.series, row.own_limit)
        if not row.own_limit or key in seen:
            yield replace(row, room=room)
            continue
        seen.add(key)
        words = row.own_limit.upper()
        x, y = frame.place(row)
        half = len(words) * 3.4
        choices = [
            Offset(right=one.right + math.copysign(half, one.right), down=one.down)
            for one in CALLOUT_PLACES
        ]
        found = find_room(words, (x, y), choices, taken, edge)
        # Where nothing is free, beside the point and over a line is better than not at all.
        found = found or Offset(right=-half if x > half else half, down=24)
        taken.append(text_box(words, x + found.right, y + found.down))
        called_x, called_y = frame.values(x + found.right, y + found.down)
        yield replace(row, room=room, callout=words, callout_x=called_x, callout_y=called_y)


def _rates(rows: Sequence[SweepRow], x: alt.X, readable: str, wording: Wording) -> Picture:
    y = rate_axis(wording.rate).scale(zero=True, nice=False)
    base = alt.Chart().encode(x=x, color=series_color(rows))
    line = base.mark_line(point={"size": 55, "filled": True}).encode(
        y=y,
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
    # Room above the highest point, so that a scale of known ends carries the call-outs.
    room = base.mark_point(opacity=0).encode(y="room:Q")
    layers = [bars, line, room]
    caption = f"{wording.rate.capitalize()}. {wording.bars}"
    if any(row.callout for row in rows):
        layers += _callout_layers(x, y)
        caption += (
            " Ringed points show the client's own limit, named where a line first meets it; they"
            " are only a bound of the target."
        )
    return Picture(
        name=f"throughput-against-{readable.replace(' ', '-')}",
        title=f"Throughput against {readable}",
        caption=caption,
        chart=panels(alt.layer(*layers), rows, height=PANEL_HEIGHT),
    )


def _callout_layers(x: alt.X, y: alt.Y) -> list[alt.Chart]:
    color = alt.value(WARNING)
    # An empty cell of the data is null to a chart, and would be drawn as that word.
    called = alt.Chart().transform_filter("isValid(datum.callout) && datum.callout != ''")
    leader = called.mark_rule(strokeWidth=1).encode(
        x=x, y=y, x2="callout_x:Q", y2="callout_y:Q", color=color
    )
    halo = called.mark_text(fontSize=11, fontWeight="bold", stroke="white", strokeWidth=4)
    words = called.mark_text(fontSize=11, fontWeight="bold")
    ring = (
        alt.Chart()
        .transform_filter("isValid(datum.own_limit) && datum.own_limit != ''")
        .mark_point(size=180, strokeWidth=2, shape="circle")
        .encode(x=x, y=y, color=color)
    )
    at = {"x": alt.X("callout_x:Q"), "y": alt.Y("callout_y:Q"), "text": alt.Text("callout:N")}
    return [ring, leader, halo.encode(color=color, **at), words.encode(color=color, **at)]


def _latencies(rows: Sequence[SweepRow], x: alt.X, readable: str) -> Picture:
    long = [
        SweepLatency(panel=row.panel, series=row.series, x=row.x, quantile=name, latency=value)
        for row in rows
        for name, value in (("p50", row.p50), ("p99", row.p99))
        if value is not None
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
        chart=panels(chart, long, height=PANEL_HEIGHT),
    )
