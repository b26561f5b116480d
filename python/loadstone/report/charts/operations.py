"""Charts of each operation over clients × load, a line for each object size, on a logarithmic axis.

Operations differ by orders of magnitude, and so do sizes: only a logarithmic axis shows them
together. Loads are categories here, one group after another, and no line runs from group to group:
nothing was measured between them.
"""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import altair as alt

from loadstone.report.charts.parts.categories import (
    CategoryRow,
    factor_axis,
    factor_domain,
    lettered,
    letters,
    variant_dash,
    variant_shape,
)
from loadstone.report.charts.parts.dimensions import swept_parameter, varied_values
from loadstone.report.charts.parts.drawing import (
    NUMBER,
    WARNING,
    Picture,
    panel_width,
    panels,
    series_color,
)
from loadstone.report.charts.sweep_points import SweepPoint, Wording, differing_facts

PANEL_HEIGHT = 230
CATEGORIES_MAX = 30
CATEGORIES_OF_HALF = 9
"""More than so many loads take the whole width of the page."""

CURVE_MIN = 6
"""So many loads or more are a curve on an axis of numbers, and not categories."""

DASHES_MAX = 3
LOADS_OF_CLIENT = ("threads", "clients", "rate_per_s", "rate")
CLIENTS = ("client", "hosts")
"""What makes the loads: the first of the groups along the axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationRow(CategoryRow):
    """One result; `size` is the place of its size in the legend, `low` and `high` end its bar."""

    size: int
    group: str
    low: float | None
    high: float | None
    labels: str
    limit: str
    own_limit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrangement:
    """What each difference between results becomes: a panel, a dash, a group, or the load."""

    load: str
    panel: tuple[str, ...]
    dash: str | None
    group: tuple[str, ...]

    @classmethod
    def of(cls, points: Sequence[SweepPoint], loads_min: int) -> "Arrangement | None":
        """Return the arrangement of several sizes, or numbers of hosts, under a few loads.

        None for other results.
        """
        values = varied_values(point.parameters for point in points)
        if all(len(values.get(name, ())) < 2 for name in ("size", "hosts")):
            return None
        others = {name: found for name, found in values.items() if name not in ("size", "hosts")}
        load = swept_parameter(others, 2)
        if load is None and loads_min == 1 and all("threads" in p.parameters for p in points):
            load = "threads"
        if load is None or len(others.get(load, ())) >= CURVE_MIN:
            return None
        if any(load not in point.parameters for point in points):
            # Under a load of another kind, a rate beside threads, they have no place on the axis.
            return None
        return cls.along(load, points)

    @classmethod
    def along(cls, load: str, points: Sequence[SweepPoint]) -> "Arrangement":
        """Return what each difference becomes beside a load that is the axis."""
        differing = differing_facts(points)
        values = varied_values(point.parameters for point in points)
        rest = [name for name in differing if name not in ("size", load, "workload", "operation")]
        worded = [name for name in rest if any(isinstance(v, str) for v in values.get(name, ()))]
        # Clients are the places along the axis: each has loads of its own.
        dashed = [name for name in (*worded, "target") if name in rest and name != "client"]
        candidates = [name for name in dashed if differing[name] <= DASHES_MAX]
        dash = candidates[0] if candidates else None
        group = sorted(
            (name for name in rest if name != dash), key=lambda name: name not in CLIENTS
        )
        panel = [name for name in ("workload",) if name in differing] + ["operation"]
        loads = len(values.get(load, (None,)))
        while group and loads * math.prod(differing[name] for name in group) > CATEGORIES_MAX:
            others = [name for name in group if name not in CLIENTS] or group
            panel.append(others[0])
            group.remove(others[0])
        return cls(load=load, panel=tuple(panel), dash=dash, group=tuple(group))


def charts_of_operations(
    points: Sequence[SweepPoint], arrangement: Arrangement, wording: Wording
) -> Iterable[Picture]:
    """Return rate and latency of every operation."""
    rows = _rows(points, arrangement)
    by_size = ", by object size" if len({row.series for row in rows}) > 1 else ""
    rings = (
        " Ringed points show the client's own limit: they are only a bound of the target."
        if any(row.own_limit for row in rows)
        else ""
    )
    categories = _categories(points, arrangement)
    drawn = _Drawing(arrangement=arrangement, categories=categories, client=wording.client)
    readable = arrangement.load.replace("_", " ")
    yield Picture(
        name=f"operations-against-{readable.replace(' ', '-')}",
        title=f"Throughput of each operation: {drawn.words()}{by_size}",
        caption=f"{wording.rate.capitalize()}, on one logarithmic axis for all operations: a"
        " step of the same height is the same factor. Numbers stand where there is room for them;"
        f" hover for the others. {wording.bars}{rings}",
        chart=drawn.chart(rows, f"{wording.rate} (logarithmic)", "requests/s"),
    )
    quantile = _resolved_quantile(points)
    if quantile is None:
        return
    timed = [
        replace(row, value=value, low=None, high=None, own_limit="")
        for row, point in zip(rows, points, strict=True)
        if (value := point.quantiles_ms.get(quantile)) is not None
    ]
    yield Picture(
        name=f"operation-latency-against-{readable.replace(' ', '-')}",
        title=f"Latency of each operation ({quantile}): {drawn.words()}{by_size}",
        caption=f"{_QUANTILE_WORDS[quantile]}, in milliseconds; lower is better. It is the highest"
        " percentile that most results have requests enough for; the others have no point.",
        chart=drawn.chart(timed, "milliseconds (logarithmic)", "ms"),
    )


_QUANTILE_WORDS = {
    "p50": "The median (p50)",
    "p90": "The slowest tenth (p90)",
    "p95": "The slowest twentieth (p95)",
    "p99": "The slowest hundredth (p99)",
}


def _resolved_quantile(points: Sequence[SweepPoint]) -> str | None:
    """Return the highest percentile that nine of ten results have requests enough for."""
    for name in reversed(_QUANTILE_WORDS):
        known = sum(point.quantiles_ms.get(name) is not None for point in points)
        if known and known >= 0.9 * len(points):
            return name
    return "p50" if any(point.quantiles_ms.get("p50") for point in points) else None


def _rows(points: Sequence[SweepPoint], arrangement: Arrangement) -> list[OperationRow]:
    sizes = _sizes_in_order(points)
    rows = []
    for point in points:
        words = point.words()
        group = "|".join(words.get(name, "") for name in arrangement.group)
        rows.append(
            OperationRow(
                panel=", ".join(words.get(name, "") for name in arrangement.panel),
                series=words.get("size", ""),
                size=sizes.index(words.get("size", "")),
                dash=words.get(arrangement.dash, "") if arrangement.dash else "",
                group=group,
                x=f"{point.parameters.get(arrangement.load)}|{group}",
                value=point.rate,
                low=point.low or point.rate,
                high=point.high,
                labels=point.labels,
                limit=point.limit,
                own_limit=point.own_limit,
            )
        )
    return rows


def _sizes_in_order(points: Sequence[SweepPoint]) -> list[str]:
    """Return the sizes in words, from small to large; those that only a law tells come last."""

    def order(point: SweepPoint) -> float:
        size = point.parameters.get("size", 0)
        return size if isinstance(size, (int, float)) else math.inf

    words = (point.words().get("size", "") for point in sorted(points, key=order))
    return list(dict.fromkeys(words))


def _categories(points: Sequence[SweepPoint], arrangement: Arrangement) -> list[str]:
    """Return the places of the x axis: the loads of each group, in order."""

    def order(point: SweepPoint) -> tuple[Any, ...]:
        # What is no number keeps the order of the campaign.
        facts = [point.parameters.get(name, getattr(point, name, 0)) for name in arrangement.group]
        kept = [one if isinstance(one, (int, float)) else seen.index(str(one)) for one in facts]
        return (*kept, point.parameters.get(arrangement.load))

    seen = [
        str(point.parameters.get(name, getattr(point, name, 0)))
        for point in points
        for name in arrangement.group
    ]
    ordered = sorted(points, key=order)
    return list(dict.fromkeys(row.x for row in _rows(ordered, arrangement)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Drawing:
    """What the charts of one arrangement share: their x axis and the look of their lines."""

    arrangement: Arrangement
    categories: Sequence[str]
    client: str

    @property
    def _is_of_one_client(self) -> bool:
        """Whether the load is one that the client makes, and not, say, the target's nodes.

        Several clients are groups, and name themselves.
        """
        return self.arrangement.load in LOADS_OF_CLIENT and not set(CLIENTS) & set(
            self.arrangement.group
        )

    def words(self) -> str:
        """Return the axis in words: "client × buckets × threads"."""
        names = [*(["client"] if self._is_of_one_client else []), *self.arrangement.group]
        names.append(self.arrangement.load)
        return " × ".join(name.replace("_", " ") for name in names)

    def chart(self, rows: Sequence[OperationRow], title: str, unit: str) -> alt.TopLevelMixin:
        """Return one panel an operation, all on the same axis."""
        order = {category: index for index, category in enumerate(self.categories)}
        panel_order = list(dict.fromkeys(row.panel for row in rows))
        rows = sorted(rows, key=lambda row: (panel_order.index(row.panel), row.size, order[row.x]))
        low, high = factor_domain([row.value for row in rows])
        columns = 2 if len(self.categories) <= CATEGORIES_OF_HALF else 1
        columns = 1 if len(panel_order) == 1 else columns
        width = panel_width(len(panel_order), ("y",), columns)
        rows = lettered(rows, self.categories, (low, high), (width, PANEL_HEIGHT))
        y = factor_axis(title, (low, high))
        by_size = sorted(rows, key=lambda row: row.size)
        base = alt.Chart().encode(x=self._x(), color=series_color(by_size))
        line = base.mark_line(point={"size": 45, "filled": True}, strokeWidth=1.8).encode(
            y=y,
            strokeDash=variant_dash(rows),
            shape=variant_shape(rows),
            detail=["group:N", "dash:N"],
            tooltip=self._tooltip(unit),
        )
        bars = base.mark_rule(strokeWidth=1.5, opacity=0.5).encode(y=alt.Y("low:Q"), y2="high:Q")
        rings = (
            base.transform_filter("isValid(datum.own_limit) && datum.own_limit != ''")
            .mark_point(size=150, strokeWidth=1.5, shape="circle", filled=False)
            .encode(y=y, color=alt.value(WARNING))
        )
        is_barred = any(row.low is not None for row in rows)
        is_ringed = any(row.own_limit for row in rows)
        layers = [
            *([bars] if is_barred else []), line, *([rings] if is_ringed else []),
            *letters(base.encode(y=y)),
        ]  # fmt: skip
        return panels(alt.layer(*layers), rows, height=PANEL_HEIGHT, shared=("y",), columns=columns)

    def _x(self) -> alt.X:
        """Return the axis of loads, with the name of each group below its middle one."""
        groups: dict[str, list[str]] = {}
        for category in self.categories:
            groups.setdefault(category.split("|", 1)[1], []).append(category)
        middles = [own[(len(own) - 1) // 2] for own in groups.values()]
        first = "split(datum.label, '|')"
        label = f"indexof({json.dumps(middles)}, datum.label) >= 0 ? {first} : [{first}[0]]"
        readable = [name.replace("_", " ") for name in self.arrangement.group]
        load = self.arrangement.load.replace("_", " ")
        load += f" on {self.client}" if self._is_of_one_client else ""
        below = f"; below: {', '.join(readable)}" if readable else ""
        return alt.X(
            "x:N",
            sort=list(self.categories),
            title=f"{load}{below}",
            scale=alt.Scale(domain=list(self.categories), type="point", padding=1),
            axis=alt.Axis(labelAngle=0, labelExpr=label, labelOverlap=False, labelLimit=0),
        )

    def _tooltip(self, unit: str) -> list[alt.Tooltip]:
        texts = {"series": "size", "dash": "variant", "x": "load", "limit": "limit"}
        return [
            *(alt.Tooltip(f"{name}:N", title=title) for name, title in texts.items()),
            alt.Tooltip("value:Q", title=unit, format=NUMBER),
            alt.Tooltip("labels:N", title="labels"),
        ]
