"""Charts against time: rates, latencies and errors of each trial, and the state of its client."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import altair as alt

from loadstone import units
from loadstone.analysis import Findings
from loadstone.analysis.cells.timeline import Timeline
from loadstone.analysis.instrument.resources import RESOURCES
from loadstone.report.charts.parts.dimensions import Dimensions
from loadstone.report.charts.parts.drawing import (
    NUMBER,
    PALETTE,
    WIDE,
    Picture,
    TimedRow,
    data,
    elapsed_unit,
    in_unit,
    latency_axis,
    milliseconds,
    panels,
    quantile_dash,
    rate_axis,
    round_dash,
    series_color,
    shortened,
    time_axis,
)
from loadstone.report.charts.parts.hook_marks import HookMark, hook_marks, with_marks

PANEL_HEIGHT = 200
TRIAL_NUMBER_WIDTH = 0.035
MARKS = " Marked: commands of the campaign that were run meanwhile."


@dataclass(frozen=True, slots=True, kw_only=True)
class RateOverTime(TimedRow):
    """What a trial did in one step."""

    dash: str
    rate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FailuresOverTime(TimedRow):
    """How often one kind of failure came in one step."""

    kind: str
    rate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyOverTime(TimedRow):
    """One percentile of one step."""

    quantile: str
    latency: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueOverTime(TimedRow):
    """What a probe saw on a host."""

    host: str
    value: float


def charts_over_time(findings: Findings, dimensions: Dimensions) -> Iterable[Picture]:
    """Return every chart whose axis is time."""
    timelines = sorted(findings.timelines, key=lambda line: (dimensions.order(line), line.trial))
    marks = hook_marks(findings, timelines, dimensions)
    yield from _rates_over_time(timelines, dimensions, marks)
    yield from _latencies_over_time(timelines, dimensions, marks)
    yield from _errors_over_time(timelines, dimensions)
    yield from _resources_over_time(findings)


def _rates_over_time(
    timelines: Sequence[Timeline], dimensions: Dimensions, marks: Sequence[HookMark]
) -> Iterable[Picture]:
    rows = [
        RateOverTime(
            panel=(place := dimensions.of_timeline(line)).panel,
            series=place.series,
            dash=place.dash,
            trial=line.trial,
            elapsed=point.elapsed_s,
            rate=shortened(point.requests_per_s),
        )
        for line in timelines
        for point in line.rates
    ]
    if not rows:
        return
    scale, unit = elapsed_unit(rows)
    lines = _time_lines(rows, dimensions, unit).encode(
        y=rate_axis("good requests per second"), strokeDash=round_dash(rows)
    )
    chart, marked = with_marks(lines, rows, marks, lines.encoding.x)
    yield Picture(
        name="throughput-over-time",
        title="Throughput over time",
        caption=f"{_steps(line.rate_step_s for line in timelines)} Each line is one trial, from "
        "its own start. A level line is a steady one." + dimensions.note() + MARKS * bool(marks),
        chart=panels(chart, in_unit(marked, scale), height=PANEL_HEIGHT),
    )


def _latencies_over_time(
    timelines: Sequence[Timeline], dimensions: Dimensions, marks: Sequence[HookMark]
) -> Iterable[Picture]:
    rows = [
        LatencyOverTime(
            panel=(place := dimensions.of_timeline(line)).panel,
            series=place.series,
            trial=line.trial,
            quantile=name,
            elapsed=point.elapsed_s,
            latency=milliseconds(value),
        )
        for line in timelines
        for point in line.latencies
        for name, value in (("p50", point.p50_ns), ("p99", point.p99_ns))
        if value is not None
    ]
    if not rows:
        return
    scale, unit = elapsed_unit(rows)
    lines = _time_lines(rows, dimensions, unit).encode(y=latency_axis(), strokeDash=quantile_dash())
    chart, marked = with_marks(lines, rows, marks, lines.encoding.x)
    yield Picture(
        name="latency-over-time",
        title="Latency over time",
        caption=f"{_steps(line.latency_step_s for line in timelines)} Median (p50) and slowest "
        "hundredth (p99) of each step, from its own merged histogram; a step with too few "
        "requests has no point." + dimensions.note() + MARKS * bool(marks),
        chart=panels(chart, in_unit(marked, scale), height=PANEL_HEIGHT),
    )


def _time_lines(rows: Sequence[TimedRow], dimensions: Dimensions, unit: str) -> alt.Chart:
    chart: alt.Chart = (
        alt.Chart()
        # A trial of one or two steps would be no line to see.
        .mark_line(strokeWidth=1.6, opacity=0.85, point=_point(row.trial for row in rows))
        .encode(
            x=time_axis(f"time since the trial's start, {unit}"),
            color=series_color(rows, is_ramp=dimensions.sweep is not None),
            detail="trial:N",
            tooltip=[
                alt.Tooltip("series:N", title="series"),
                alt.Tooltip("trial:N", title="trial"),
                alt.Tooltip("elapsed:Q", title=unit, format=NUMBER),
            ],
        )
    )
    return chart


def _point(lines: Iterable[object]) -> bool | alt.OverlayMarkDef:
    """Return the mark of a point, from the line of each: one of few points has them marked."""
    counts = Counter(lines)
    return alt.OverlayMarkDef(size=22, filled=True) if min(counts.values()) < 3 else False


def _errors_over_time(timelines: Sequence[Timeline], dimensions: Dimensions) -> Iterable[Picture]:
    rows = [
        FailuresOverTime(
            panel=", ".join(
                word
                for word in (line.target, dimensions.of_timeline(line).panel, f"trial {line.trial}")
                if word
            ),
            series="",
            trial=line.trial,
            elapsed=point.elapsed_s,
            kind=point.kind,
            rate=shortened(point.per_s),
        )
        for line in timelines
        for point in line.errors
    ]
    if not rows:
        return
    # Many failing trials make one chart of all of them: which ones failed stands in a table.
    if len({row.panel for row in rows}) > 12:
        rows = [replace(row, panel="all trials") for row in rows]
    scale, unit = elapsed_unit(rows)
    chart = (
        alt.Chart()
        .mark_line(point={"size": 14, "filled": True}, strokeWidth=1.2)
        .encode(
            x=time_axis(f"time since the trial's start, {unit}"),
            y=rate_axis("failed requests per second"),
            color=alt.Color("kind:N", title=None),
            tooltip=[
                alt.Tooltip("kind:N", title="kind"),
                alt.Tooltip("elapsed:Q", title=unit, format=NUMBER),
                alt.Tooltip("rate:Q", title="per s", format=NUMBER),
            ],
        )
    )
    yield Picture(
        name="errors-over-time",
        title="Failed requests over time",
        caption="By kind of failure. A trial without failures has no panel.",
        chart=panels(chart, in_unit(rows, scale), height=160),
    )


def _resources_over_time(findings: Findings) -> Iterable[Picture]:
    for name, resource in RESOURCES.items():
        rows = [
            ValueOverTime(
                panel="",
                series=one.subject,
                trial=one.trial,
                elapsed=point.elapsed_s,
                host=one.host,
                value=shortened(point.value),
            )
            for one in findings.resources
            if one.resource == name
            for point in one.points
        ]
        if rows:
            hosts = sorted({row.host for row in rows})
            yield resource_picture(f"client-{name}", resource.title, resource.unit, rows, hosts)


def resource_picture(
    name: str,
    title: str,
    unit_of_values: str,
    rows: Sequence[ValueOverTime],
    hosts: Sequence[str],
    remark: str = "",
) -> Picture:
    """Return one quantity of some hosts, trial after trial."""
    seconds, unit = elapsed_unit(rows)
    if len(hosts) > 1:
        rows = [replace(row, series=_with_host(row)) for row in rows]
    series = {row.series for row in rows}
    # More lines than colours: the reader looks for the highest, not for a name.
    is_many = len(series) > len(PALETTE)
    y = rate_axis(unit_of_values, "value")
    # A share is judged against the whole, so the whole is always in sight.
    y = y.scale(domain=[0, 100]) if unit_of_values.startswith("%") else y
    x = time_axis(f"time under load, {unit}")
    lines = (
        alt.Chart(data(in_unit(rows, seconds)))
        .mark_line(
            strokeWidth=1.4,
            opacity=0.4 if is_many else 0.9,
            clip=True,
            point=_point((row.trial, row.series) for row in rows),
        )
        .encode(
            x=x,
            y=y,
            color=alt.value(PALETTE[0]) if is_many else series_color(rows),
            detail=["trial:N", "series:N"],
            tooltip=[
                alt.Tooltip("series:N", title="what"),
                alt.Tooltip("trial:N", title="trial"),
                alt.Tooltip("elapsed:Q", title=unit, format=NUMBER),
                alt.Tooltip("value:Q", title=unit_of_values, format=NUMBER),
            ],
        )
    )
    caption = f"{', '.join(hosts)}, trial after trial, the pauses between them left out.{remark}"
    caption += " Each line is one of many; hover to see which." if is_many else ""
    return Picture(
        name=name,
        title=title,
        caption=caption,
        chart=alt.layer(lines, *_trial_marks(rows, seconds, x)).properties(
            width=WIDE - 70, height=150
        ),
    )


def _with_host(row: ValueOverTime) -> str:
    """Return a line's name with its host, once."""
    named = row.series
    return named if named.startswith(row.host) else f"{row.host} {named}".strip()


def _trial_marks(rows: Sequence[TimedRow], seconds: float, x: alt.X) -> Iterable[alt.Chart]:
    """Return a line where each trial begins, with its number where there is room for it."""
    starts: dict[str, float] = {}
    for row in rows:
        starts[row.trial] = min(row.elapsed, starts.get(row.trial, row.elapsed))
    marks = in_unit(
        [
            TimedRow(panel="", series="", trial=trial, elapsed=elapsed)
            for trial, elapsed in starts.items()
        ],
        seconds,
    )
    base = alt.Chart(data(marks)).encode(x=x)
    yield base.mark_rule(color="#8a93a0", strokeWidth=0.7)
    # A number needs some room to its right: the next one may not run into it.
    room = (in_unit(rows, seconds)[-1].elapsed - marks[0].elapsed) * TRIAL_NUMBER_WIDTH
    apart = [marks[0]]
    for mark in marks[1:]:
        if mark.elapsed - apart[-1].elapsed >= room:
            apart.append(mark)
    numbers = alt.Chart(data(apart)).encode(x=x)
    yield numbers.mark_text(
        align="left", baseline="bottom", dx=1, dy=-2, fontSize=10, color="#5a6473"
    ).encode(text="trial:N", y=alt.value(0))


def _steps(steps: Iterable[int]) -> str:
    found = sorted(set(steps))
    words = [units.format_duration(step * 1e9).replace(".00", "") for step in found]
    if len(words) == 1:
        return f"Each point is {words[0]}."
    return f"Each point is {words[0]} to {words[-1]}, longer for longer trials."
