"""Charts of data rates with the ceilings drawn in: along a sweep, and over time.

Those of a run come from its records; those of a published report from what it printed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from loadstone import units
from loadstone.analysis import Findings
from loadstone.analysis.accounts.account import (
    BYTE_RATE,
    Account,
    KnownCeiling,
    Measurement,
    grouped,
)
from loadstone.analysis.cells.cell import Cell
from loadstone.analysis.cells.timeline import Timeline
from loadstone.analysis.limits.measured_ceilings import bounds_of, ceilings_of
from loadstone.analysis.standards.plausibility.bottleneck import in_mebibytes, limit_of
from loadstone.report.charts.parts.dimensions import Dimensions, swept_parameter, varied_values
from loadstone.report.charts.parts.drawing import (
    NUMBER,
    PALETTE,
    ChartRow,
    Picture,
    TimedRow,
    elapsed_unit,
    in_unit,
    panels,
    rate_axis,
    series_color,
    shortened,
    time_axis,
)

MEBIBYTE = 2**20
PANEL_HEIGHT = 240
FAR = 3.5
"""A ceiling so many times above the best result would press the results into the chart's bottom."""

LINE_POINTS_MIN = 2

LEGEND_SYMBOL = 40**2
"""The area of a legend's sample of a line, whose length is the root of it."""

DASHES = ([6, 3], [2, 2], [10, 3, 2, 3], [1, 4], [12, 4])


@dataclass(frozen=True, slots=True, kw_only=True)
class DataRow(ChartRow):
    """A data rate at a load, in MiB/s: a result, or one end of a ceiling's line."""

    x: float
    rate: float
    low: float | None
    high: float | None
    labels: str
    ceiling: str
    limit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DataOverTime(TimedRow):
    """A data rate at a moment, in MiB/s: of a trial, or one end of a ceiling's line."""

    rate: float
    ceiling: str
    limit: str


def charts_of_ceilings(findings: Findings, dimensions: Dimensions) -> Iterable[Picture]:
    """Return what the ceilings of a run are held against; nothing when it has none."""
    ceilings = ceilings_of(findings.ceilings)
    if ceilings:
        yield from _against_sweep(findings, dimensions, ceilings)
        yield from _over_time(findings, dimensions, ceilings)


def _against_sweep(
    findings: Findings, dimensions: Dimensions, ceilings: Sequence[KnownCeiling]
) -> Iterable[Picture]:
    name = dimensions.sweep
    # Under a load of another kind, a rate beside threads, a result has no place on the axis.
    cells = [
        cell for cell in findings.totals if cell.good and cell.bytes and name in cell.parameters
    ]
    if name is None or not cells:
        return
    rows: list[DataRow] = []
    far: list[str] = []
    for panel, members in _by_panel(cells, dimensions).items():
        values = [_load(cell.parameters, name) for cell in members]
        rows += [_point(cell, name, panel, dimensions) for cell in members]
        highest = max(cell.bytes_per_s for cell in members)
        held = _held_against(members[0].target, members[0].operation, ceilings)
        far += _far(panel, held, highest)
        for ceiling in _near(held, highest):
            rows += _ceiling_rows(panel, ceiling, (min(values), max(values)))
    caption = "MiB/s of good requests; the bars are one standard deviation. Dashed: what was "
    caption += "measured apart from the load." + _far_note(far)
    yield _picture(rows, name, caption, planned=(), has_line=True)


def charts_of_stated_ceilings(account: Account) -> Iterable[Picture]:
    """Return the data rates of an account against its load, with the ceilings it states."""
    measured = account.of(BYTE_RATE)
    name = swept_parameter(varied_values(one.parameters for one in measured), 2)
    if name is None or not account.ceilings:
        return
    measured = [one for one in measured if name in one.parameters]
    rows: list[DataRow] = []
    far: list[str] = []
    has_line = True
    planned = account.planned_threads if name == "threads" else ()
    for members in grouped(measured, lambda one: (one.target, one.operation)).values():
        panel = f"{members[0].target}, {members[0].operation}"
        rows += [_stated_point(one, name, panel, one.tool or one.target) for one in members]
        said = [
            one
            for one in account.hinted
            if (one.target, one.operation) == (members[0].target, members[0].operation)
        ]
        rows += [_stated_point(one, name, panel, _hint(one, name)) for one in said]
        values = [_load(one.parameters, name) for one in (*members, *said)]
        highest = max(one.value for one in members)
        held = _held_against(members[0].target, members[0].operation, account.ceilings)
        far += _far(panel, held, highest)
        for ceiling in _near(held, highest):
            rows += _ceiling_rows(panel, ceiling, (min(values), max(*values, *planned)))
        # Between two points a line would claim what was not measured.
        has_line = has_line and len(members) > LINE_POINTS_MIN
    caption = "MiB/s, each figure converted from the units of the tool that printed it. Dashed: the"
    caption += " ceilings that were measured apart; shaded: between the lowest and the highest that"
    caption += " was seen of one." if any(one.low for one in account.ceilings) else ""
    caption += "" if has_line else " Loads of which no number was printed have no point."
    if account.hinted:
        caption += " What is said in words only stands where the words put it, and is inferred."
    yield _picture(rows, name, caption + _far_note(far), planned=planned, has_line=has_line)


def _hint(one: Measurement, name: str) -> str:
    """Return the series of a point that was said in words: with what else sets it apart."""
    others = [f"{value} {key}" for key, value in one.parameters.items() if key != name]
    return ", ".join(["in words, inferred", *others])


def _load(parameters: Mapping[str, object], name: str) -> float:
    value = parameters[name]
    return value if isinstance(value, (int, float)) else float(str(value))


def _stated_point(one: Measurement, name: str, panel: str, series: str) -> DataRow:
    return DataRow(
        panel=panel,
        series=series,
        x=_load(one.parameters, name),
        rate=shortened(one.value / MEBIBYTE),
        low=shortened((one.value - (one.spread or 0.0)) / MEBIBYTE),
        high=shortened((one.value + (one.spread or 0.0)) / MEBIBYTE),
        labels=one.text or "none",
        ceiling="",
        limit="",
    )


def _ceiling_rows(panel: str, ceiling: KnownCeiling, ends: Sequence[float]) -> list[DataRow]:
    """Return a ceiling's line from one end of the axis to the other, and how far it was seen."""

    def in_all(one: float | None) -> float | None:
        return None if one is None else shortened(one * ceiling.count / MEBIBYTE)

    return [
        DataRow(
            panel=panel,
            series="",
            x=value,
            rate=shortened(limit_of(ceiling) / MEBIBYTE),
            low=in_all(ceiling.low),
            high=in_all(ceiling.high),
            labels="",
            ceiling=_label(ceiling),
            limit=_limit_words(ceiling),
        )
        for value in ends
    ]


def _picture(
    rows: Sequence[DataRow],
    name: str,
    caption: str,
    *,
    planned: Sequence[float],
    has_line: bool,
) -> Picture:
    readable = name.replace("_", " ")
    values = sorted({row.x for row in rows} | set(planned))
    x = alt.X(
        "x:Q",
        title=readable,
        scale=alt.Scale(zero=True, nice=False),
        axis=alt.Axis(values=values, labelOverlap=True, format=NUMBER),
    )
    return Picture(
        name=f"data-against-{readable.replace(' ', '-')}",
        title=f"Data rate against {readable}, and the ceilings",
        caption=caption,
        chart=panels(_layers(rows, x, has_line=has_line), rows, height=PANEL_HEIGHT),
    )


def _by_panel(cells: Sequence[Cell], dimensions: Dimensions) -> dict[str, list[Cell]]:
    """Return cells by target and operation: each target has ceilings of its own."""
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        panel = dimensions.of_cell(cell).panel
        named = panel if cell.target in panel else f"{cell.target}, {panel}"
        groups.setdefault(named, []).append(cell)
    return groups


def _point(cell: Cell, name: str, panel: str, dimensions: Dimensions) -> DataRow:
    low, high = cell.reached_bytes_per_s
    return DataRow(
        panel=panel,
        series=dimensions.of_cell(cell).sweep_series or cell.target,
        x=_load(cell.parameters, name),
        rate=shortened(cell.bytes_per_s / MEBIBYTE),
        low=shortened(low / MEBIBYTE),
        high=shortened(high / MEBIBYTE),
        labels=" ".join(cell.labels) or "none",
        ceiling="",
        limit="",
    )


def _layers(rows: Sequence[DataRow], x: alt.X, *, has_line: bool) -> Any:
    points = alt.Chart().transform_filter("datum.series").encode(x=x)
    measured = [row for row in rows if row.series]
    colored = points.encode(color=series_color(measured))
    bars = colored.mark_rule(strokeWidth=1.5, opacity=0.6).encode(y="low:Q", y2="high:Q")
    marked = (
        colored.mark_line(point={"size": 55, "filled": True})
        if has_line
        else colored.mark_point(size=90, filled=True, opacity=1)
    )
    line = marked.encode(
        y=rate_axis("MiB/s"),
        tooltip=[
            alt.Tooltip("series:N", title="series"),
            alt.Tooltip("x:Q", title="at"),
            alt.Tooltip("rate:Q", title="MiB/s", format=NUMBER),
            alt.Tooltip("labels:N", title="labels"),
        ],
    )
    seen = [row for row in rows if row.ceiling and row.low is not None]
    bands = [
        alt.Chart()
        .transform_filter("datum.ceiling && isValid(datum.low)")
        .mark_area(color=PALETTE[6], opacity=0.1)
        .encode(x=x, y=rate_axis("MiB/s", "low"), y2="high:Q", detail="ceiling:N")
    ]
    return alt.layer(*(bands if seen else []), bars, line, *_ceiling_lines(rows, x))


def _ceiling_lines(rows: Sequence[DataRow | DataOverTime], x: alt.X) -> Iterable[alt.Chart]:
    """Return the layer of the ceilings; none where all of them are too far above to be drawn."""
    names = list(dict.fromkeys(row.ceiling for row in rows if row.ceiling))
    if not names:
        return
    dashes = [DASHES[index % len(DASHES)] for index in range(len(names))]
    yield (
        alt.Chart()
        .transform_filter("datum.ceiling")
        .mark_line(color=PALETTE[6], strokeWidth=1.8)
        .encode(
            x=x,
            y=rate_axis("MiB/s"),
            strokeDash=alt.StrokeDash(
                "ceiling:N",
                title=None,
                sort=None,
                scale=alt.Scale(domain=names, range=dashes),
                # As long as the longest pattern twice: cut short, one dash looks like another.
                legend=alt.Legend(
                    columns=3, labelLimit=400, symbolType="stroke", symbolSize=LEGEND_SYMBOL
                ),
            ),
            tooltip=[
                alt.Tooltip("ceiling:N", title="ceiling"),
                alt.Tooltip("limit:N", title="measured"),
            ],
        )
    )


def _held_against(
    target: str, operation: str, ceilings: Sequence[KnownCeiling]
) -> list[KnownCeiling]:
    bounds = bounds_of(operation)
    return [
        one
        for one in ceilings
        if one.bounds in (None, bounds) and (not one.targets or target in one.targets)
    ]


def _label(ceiling: KnownCeiling) -> str:
    times = f"{ceiling.count} × " if ceiling.count > 1 else ""
    inferred = ", inferred" if times and ceiling.is_count_inferred else ""
    return f"{times}{ceiling.name}{inferred}"


def _limit_words(ceiling: KnownCeiling) -> str:
    limit = limit_of(ceiling)
    return f"{in_mebibytes(limit)} = {units.format_bit_rate(8 * limit)}"


def _near(ceilings: Sequence[KnownCeiling], highest: float) -> list[KnownCeiling]:
    return [one for one in ceilings if limit_of(one) <= FAR * highest]


def _far(panel: str, ceilings: Sequence[KnownCeiling], highest: float) -> list[str]:
    near = _near(ceilings, highest)
    return [
        f"{panel}: {_label(one)}, {in_mebibytes(limit_of(one))}"
        for one in ceilings
        if one not in near
    ]


def _far_note(far: Sequence[str]) -> str:
    """Name what is not drawn: nothing is ever drawn where it is not."""
    return f" Far above, and not drawn: {'; '.join(far)}." if far else ""


def _over_time(
    findings: Findings, dimensions: Dimensions, ceilings: Sequence[KnownCeiling]
) -> Iterable[Picture]:
    lines = sorted(findings.timelines, key=lambda line: (dimensions.order(line), line.trial))
    lines = [line for line in lines if any(point.bytes_per_s for point in line.rates)]
    rows: list[DataOverTime] = []
    far: list[str] = []
    for panel, members in _by_target(lines, dimensions).items():
        own = [
            DataOverTime(
                panel=panel, series=dimensions.of_timeline(line).series or line.target,
                trial=line.trial, elapsed=point.elapsed_s,
                rate=shortened(point.bytes_per_s / MEBIBYTE), ceiling="", limit="",
            )
            for line in members
            for point in line.rates
        ]  # fmt: skip
        rows += own
        end = max(row.elapsed for row in own)
        highest = max(row.rate for row in own) * MEBIBYTE
        held = _held_against(members[0].target, members[0].operation, ceilings)
        far += _far(panel, held, highest)
        for ceiling in _near(held, highest):
            rows += [
                DataOverTime(
                    panel=panel, series="", trial="", elapsed=elapsed,
                    rate=shortened(limit_of(ceiling) / MEBIBYTE), ceiling=_label(ceiling),
                    limit=_limit_words(ceiling),
                )
                for elapsed in (0.0, end)
            ]  # fmt: skip
    if not rows:
        return
    scale, unit = elapsed_unit(rows)
    x = time_axis(f"time since the trial's start, {unit}")
    measured = [row for row in rows if row.series]
    line = (
        alt.Chart()
        .transform_filter("datum.series")
        .mark_line(strokeWidth=1.6, opacity=0.85, point={"size": 12, "filled": True})
        .encode(
            x=x,
            y=rate_axis("MiB/s"),
            color=series_color(measured, is_ramp=dimensions.sweep is not None),
            detail="trial:N",
            tooltip=[
                alt.Tooltip("series:N", title="series"),
                alt.Tooltip("trial:N", title="trial"),
                alt.Tooltip("elapsed:Q", title=unit, format=NUMBER),
                alt.Tooltip("rate:Q", title="MiB/s", format=NUMBER),
            ],
        )
    )
    yield Picture(
        name="data-over-time",
        title="Data rate over time, and the ceilings",
        caption="Each line is one trial, from its own start. Dashed: what was measured apart from "
        "the load." + _far_note(far),
        chart=panels(
            alt.layer(line, *_ceiling_lines(rows, x)), in_unit(rows, scale), height=PANEL_HEIGHT
        ),
    )


def _by_target(lines: Sequence[Timeline], dimensions: Dimensions) -> dict[str, list[Timeline]]:
    groups: dict[str, list[Timeline]] = {}
    for line in lines:
        panel = dimensions.of_timeline(line).panel
        named = panel if line.target in panel else f"{line.target}, {panel}"
        groups.setdefault(named, []).append(line)
    return groups
