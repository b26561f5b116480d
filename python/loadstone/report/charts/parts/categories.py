"""Lines over categories on a logarithmic axis: ends, ticks, numbers at points, and dashes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import altair as alt

from loadstone import units
from loadstone.report.charts.parts.drawing import NUMBER, ChartRow
from loadstone.report.charts.parts.lettering import Box, Offset, find_room, point_box, text_box

ABOVE, BELOW = Offset(right=0, down=-12), Offset(right=0, down=13)
DASHES = ([1, 0], [5, 3], [2, 2])
SHAPES = ("circle", "square", "diamond")


@dataclass(frozen=True, slots=True, kw_only=True)
class CategoryRow(ChartRow):
    """A value at one of the categories; `shown` is its number, `side` where that found room."""

    dash: str
    x: str
    value: float
    shown: str = ""
    side: str = ""


Categorised = TypeVar("Categorised", bound=CategoryRow)


def factor_axis(title: str, domain: tuple[float, float]) -> alt.Y:
    """Return a logarithmic axis: a step of the same height is the same factor."""
    return alt.Y(
        "value:Q",
        title=title,
        scale=alt.Scale(type="log", nice=False, domain=list(domain)),
        axis=alt.Axis(format=NUMBER, values=_ticks(*domain)),
    )


def factor_domain(values: Sequence[float]) -> tuple[float, float]:
    """Return the ends of the axis: room for a number above the highest and below the lowest."""
    low, high = min(values), max(values)
    room = max((high / low) ** 0.1, 1.25)
    return low / room, high * room


def _ticks(low: float, high: float) -> list[float]:
    steps = (1,) if high / low > 100 else (1, 2, 5)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    ticks = [step * 10.0**power for power in range(first, last + 1) for step in steps]
    return [tick for tick in ticks if low <= tick <= high]


def lettered(
    rows: Sequence[Categorised],
    categories: Sequence[str],
    domain: tuple[float, float],
    size: tuple[float, float],
) -> list[Categorised]:
    """Write the number at every point where it runs into no other point and no other number.

    `size` is the width and the height of a panel, in pixels.
    """
    width, height = size
    low, high = (math.log(one) for one in domain)
    step = width / (len(categories) + 1)
    edge = Box(left=-30, top=0, right=width + 30, bottom=height)
    taken: dict[str, list[Box]] = {}
    places = []
    for row in rows:
        x = (categories.index(row.x) + 1) * step
        y = (1 - (math.log(row.value) - low) / (high - low)) * height
        places.append((x, y))
        taken.setdefault(row.panel, []).append(point_box(x, y))
    found_rows = []
    for row, place in zip(rows, places, strict=True):
        text = units.format_number(row.value)
        own = taken[row.panel]
        found = find_room(text, place, (ABOVE, BELOW), own, edge)
        if found is not None:
            own.append(text_box(text, place[0], place[1] + found.down))
        side = {ABOVE: "above", BELOW: "below"}.get(found, "") if found else ""
        found_rows.append(replace(row, shown=f"{text} ", side=side))
    return found_rows


def letters(base: alt.Chart) -> list[alt.Chart]:
    """Return the layers of the numbers that `lettered` found room for."""
    return [
        base.transform_filter(f"datum.side == '{side}'")
        .mark_text(dy=offset.down, fontSize=10.5)
        .encode(text="shown:N")
        for side, offset in (("above", ABOVE), ("below", BELOW))
    ]


def variant_dash(rows: Sequence[CategoryRow]) -> alt.StrokeDash | alt.StrokeDashValue:
    """Return a dash for each variant, and a legend if there is more than one."""
    names = _variants(rows)
    if len(names) < 2:
        return alt.StrokeDashValue([1, 0])
    scale = alt.Scale(domain=names, range=list(DASHES[: len(names)]))
    return alt.StrokeDash("dash:N", title=None, sort=None, scale=scale)


def variant_shape(rows: Sequence[CategoryRow]) -> alt.Shape | alt.ShapeValue:
    """Return marks that differ as the dashes do: a single point has no line to tell it by."""
    names = _variants(rows)
    if len(names) < 2:
        return alt.ShapeValue("circle")
    scale = alt.Scale(domain=names, range=list(SHAPES[: len(names)]))
    return alt.Shape("dash:N", title=None, sort=None, scale=scale)


def _variants(rows: Sequence[CategoryRow]) -> list[str]:
    return list(dict.fromkeys(row.dash for row in rows))
