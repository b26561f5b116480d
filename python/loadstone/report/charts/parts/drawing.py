"""How charts look: colours, axes, panels. Every chart is made of these.

Colours are those of Okabe and Ito, which people with any colour vision can tell apart; where two
lines share a colour they differ by dashes or marks.
"""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, TypeVar

import altair as alt

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#404040")
WARNING = "#B34700"
RAMP = ("#9ecae1", "#4292c6", "#2171b5", "#08519c", "#041f4a")
"""From light to dark: the values of a swept parameter."""

WIDE = 950
LEGEND_MAX = 24
NS_PER_MS = 1e6
NUMBER = ",.4~r"

CONFIG: Mapping[str, Any] = {
    "background": "white",
    "font": "system-ui, 'Liberation Sans', 'DejaVu Sans', Arial, sans-serif",
    "view": {"stroke": "#d0d5dd"},
    "axis": {
        "labelFontSize": 11,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "titleColor": "#333333",
        "labelColor": "#333333",
        "gridColor": "#e6e8ec",
        "tickColor": "#b0b5bd",
        "domainColor": "#b0b5bd",
    },
    "legend": {
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "labelLimit": 320,
        "orient": "top",
        "symbolStrokeWidth": 3,
    },
    "header": {
        "labelFontSize": 13,
        "labelFontWeight": "bold",
        "labelAnchor": "start",
        "title": None,
    },
    "range": {"category": list(PALETTE)},
    "line": {"strokeWidth": 2},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """One chart; `name` is its file's name and its anchor on the page."""

    name: str
    title: str
    caption: str
    chart: alt.TopLevelMixin

    def specification(self, *, with_title: bool) -> dict[str, Any]:
        """Return the Vega-Lite specification; a file of its own needs its title in it."""
        # Left where it is used: a table moved to the top loses the word that it is CSV.
        with alt.data_transformers.enable(consolidate_datasets=False):
            specification: dict[str, Any] = self.chart.to_dict()
        # Named by its kind when it is drawn; an address would look as if something were loaded.
        specification.pop("$schema", None)
        if with_title:
            # A single panel has its name where the title goes.
            panel = specification.get("title")
            specification["title"] = {
                "text": self.title,
                **({"subtitle": panel["text"]} if isinstance(panel, dict) else {}),
                "anchor": "start",
                "fontSize": 16,
                "offset": 12,
            }
        specification["config"] = CONFIG
        return specification


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartRow:
    """One row of a chart's data: each field is a column, which the chart encodes by its name.

    Rows of several kinds may stand in one chart: its layers filter by a column of one kind.
    """

    panel: str
    series: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedRow(ChartRow):
    """A moment of a trial."""

    trial: str
    elapsed: float


class Dashed(Protocol):
    """A row of a line whose dash says something."""

    @property
    def dash(self) -> str:
        """What the dash says."""


Timed = TypeVar("Timed", bound=TimedRow)


def data(rows: Sequence[ChartRow]) -> alt.InlineData:
    """Return rows as chart data in CSV, a fifth of the size of a list of objects."""
    columns = {kind: [one.name for one in fields(kind)] for kind in dict.fromkeys(map(type, rows))}
    names = list(dict.fromkeys(name for found in columns.values() for name in found))
    cells = [{name: getattr(row, name) for name in columns[type(row)]} for row in rows]
    stream = io.StringIO()
    # A column that a kind of rows lacks is an empty cell in them.
    writer = csv.DictWriter(stream, fieldnames=names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(cells)
    # Said for each column: a reader that guesses would make the trial "0007" a seven.
    kinds = {
        name: "number"
        if any(isinstance(row.get(name), (int, float)) for row in cells)
        else "string"
        for name in names
    }
    return alt.InlineData(
        values=stream.getvalue(), format=alt.CsvDataFormat(type="csv", parse=kinds)
    )


def panels(
    chart: Any,
    rows: Sequence[ChartRow],
    *,
    height: int,
    shared: Sequence[str] = (),
    columns: int | None = None,
) -> alt.TopLevelMixin:
    """Return one chart a panel, two or three side by side; a single one takes the whole width.

    `shared` names the axes on which panels are to be compared: for others, each has its own scale.
    """
    names = list(dict.fromkeys(row.panel for row in rows))
    if len(names) == 1:
        drawn_alone = chart.properties(width=panel_width(1, shared), height=height, data=data(rows))
        if names[0]:
            title = alt.Title(names[0], anchor="start", fontSize=13, offset=10)
            drawn_alone = drawn_alone.properties(title=title)
        alone: alt.TopLevelMixin = drawn_alone
        return alone
    independent: dict[str, Any] = {axis: "independent" for axis in ("x", "y") if axis not in shared}
    drawn: alt.TopLevelMixin = (
        chart.properties(width=panel_width(len(names), shared, columns), height=height)
        .facet(
            facet=alt.Facet("panel:N", sort=names, title=None),
            columns=columns or _columns(len(names)),
            spacing={"row": 24, "column": 18},
            data=data(rows),
        )
        .resolve_scale(**independent)
        .resolve_axis(**{"x": "independent", **independent})
    )
    return drawn


def panel_width(count: int, shared: Sequence[str] = (), columns: int | None = None) -> int:
    """Return how wide each of so many panels is, in pixels."""
    if count == 1:
        return WIDE - 70
    columns = columns or _columns(count)
    # What the axes of each panel take: names of bars stand beside the first one only.
    beside = 18 if "y" in shared else 78
    return (WIDE - (130 if "y" in shared else 0)) // columns - beside


def _columns(count: int) -> int:
    return 2 if count in (2, 4) else 3


def series_color(rows: Sequence[ChartRow], *, is_ramp: bool = False) -> alt.Color:
    """Return a colour for each series, and a legend if there is more than one."""
    names = list(dict.fromkeys(row.series for row in rows))
    if is_ramp and len(names) > 2:
        colors = _ramp(len(names))
    else:
        colors = [PALETTE[index % len(PALETTE)] for index in range(len(names))]
    return alt.Color(
        "series:N",
        title=None,
        sort=None,
        scale=alt.Scale(domain=names, range=colors),
        legend=alt.Legend(columns=6) if 1 < len(names) <= LEGEND_MAX else None,
    )


def round_dash(rows: Sequence[Dashed]) -> alt.StrokeDash | alt.StrokeDashValue:
    """Return a dash for each round, and a legend if there is more than one."""
    names = list(dict.fromkeys(row.dash for row in rows))
    if len(names) < 2:
        return alt.StrokeDashValue([1, 0])
    return alt.StrokeDash("dash:N", title=None, sort=None)


def quantile_dash() -> alt.StrokeDash:
    """Return a full line for the median and a dashed one for the slowest hundredth."""
    scale = alt.Scale(domain=["p50", "p99"], range=[[1, 0], [5, 3]])
    return alt.StrokeDash("quantile:N", title=None, scale=scale)


def latency_axis() -> alt.Y:
    """Return a logarithmic axis of milliseconds."""
    return alt.Y(
        "latency:Q",
        title="milliseconds (logarithmic)",
        scale=alt.Scale(type="log", nice=False, padding=6),
        axis=alt.Axis(format=NUMBER, tickCount=5, labelOverlap=True),
    )


def rate_axis(title: str, field: str = "rate") -> alt.Y:
    """Return an axis of rates that begins at zero."""
    return alt.Y(
        f"{field}:Q",
        title=title,
        scale=alt.Scale(zero=True),
        axis=alt.Axis(format=NUMBER, tickCount=5),
    )


def time_axis(title: str) -> alt.X:
    """Return an axis of elapsed time."""
    return alt.X(
        "elapsed:Q", title=title, axis=alt.Axis(tickCount=8), scale=alt.Scale(zero=True, nice=False)
    )


def milliseconds(value_ns: int | None) -> float | None:
    """Return a time as a chart needs it: five digits, the eye sees no more."""
    return None if value_ns is None else shortened(value_ns / NS_PER_MS)


def shortened(value: float) -> float:
    """Return a number with five significant digits, to keep pages small."""
    return float(f"{value:.5g}")


def elapsed_unit(rows: Sequence[TimedRow]) -> tuple[float, str]:
    """Return how many seconds the axis' unit has, and its name."""
    longest = max(row.elapsed for row in rows)
    if longest < 300:
        return 1, "seconds"
    return (60, "minutes") if longest < 4 * 3600 else (3600, "hours")


def in_unit(rows: Iterable[Timed], seconds: float) -> list[Timed]:
    """Return rows with their elapsed time in a unit of so many seconds."""
    return [replace(row, elapsed=round(row.elapsed / seconds, 4)) for row in rows]


def _ramp(count: int) -> list[str]:
    """Return so many colours from light to dark."""
    stops = [tuple(int(color[i : i + 2], 16) for i in (1, 3, 5)) for color in RAMP]
    colors = []
    for index in range(count):
        position = index / max(1, count - 1) * (len(stops) - 1)
        left = min(int(position), len(stops) - 2)
        part = position - left
        mixed = (
            round(low + (high - low) * part)
            for low, high in zip(stops[left], stops[left + 1], strict=True)
        )
        colors.append("#" + "".join(f"{value:02x}" for value in mixed))
    return colors
