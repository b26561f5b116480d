"""Charts of repeated times: how long each query took on each system, and the ratio of two systems.

Queries differ by orders of magnitude, so times stand on a logarithmic axis, as points with their
intervals: a bar has no honest foot there. A ratio has one, at 1, and is drawn as a bar from it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import altair as alt

from loadstone import units
from loadstone.analysis.accounts.account import SECONDS, Account, Measurement
from loadstone.analysis.accounts.case_means import case_means, compare_times
from loadstone.analysis.accounts.comparison import CaseComparison
from loadstone.analysis.naming import describe_parameters
from loadstone.analysis.statistics.ratios import TOGETHER
from loadstone.report.charts.parts.dimensions import varied_values
from loadstone.report.charts.parts.drawing import (
    NUMBER,
    PALETTE,
    ChartRow,
    Picture,
    panels,
    series_color,
    shortened,
)

LINE_HEIGHT = 19
CASES_MAX = 60
"""More lines than these are no chart to look at."""

UNRESOLVED = "not told apart"
RATIO_COLORS = {
    "longer": PALETTE[1],
    "shorter": PALETTE[2],
    "equal within 3 %": PALETTE[0],
    UNRESOLVED: "#9aa1ab",
}
WORDS_OF_VERDICTS = {
    "slower": "longer",
    "faster": "shorter",
    "equivalent": "equal within 3 %",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseTime(ChartRow):
    """The mean of a case's times, or one of them, by its `kind`."""

    case: str
    n: int
    kind: str
    seconds: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseRatio(ChartRow):
    """How many times as long a case took; `one` is where its bar begins."""

    verdict: str
    case: str
    one: int
    ratio: float
    low: float
    high: float
    label: str
    p: str


def charts_of_times(account: Account) -> Iterable[Picture]:
    """Return the ratio of each other target to the first, and the times of every case."""
    times = [one for one in account.of(SECONDS) if one.value > 0]
    cases = {one.case for one in times}
    if not times or len(cases) > CASES_MAX:
        return
    varied = varied_values(one.parameters for one in times)
    if len(account.targets) > 1:
        rows = _ratio_rows(account, tuple(varied))
        if rows:
            yield _ratios(rows, account.targets[0])
    yield _times(times, tuple(varied))


def answers_of_times(account: Account) -> Iterable[str]:
    """Say for each other target how its times compare with those of the first, all together."""
    for first, other, found in compare_times(account):
        mean = found.geometric_mean
        if mean is None:
            continue
        interval = f" (95 % CI {mean.low:.3f} to {mean.high:.3f})" if mean.low is not None else ""
        words = [WORDS_OF_VERDICTS.get(one.verdict, UNRESOLVED) for one in found.comparisons]
        counts = [f"{words.count(word)} {word}" for word in RATIO_COLORS if word in words]
        yield (
            f"{other} takes {mean.ratio:.3f} times as long as {first}, the {TOGETHER}"
            f" of {len(words)} cases{interval}; of them {', '.join(counts)}."
        )


def _case_words(parameters: Mapping[str, object], varied: Sequence[str]) -> str:
    """Return what tells a case from the others: a single parameter needs no name before it."""
    if len(varied) == 1:
        return str(parameters.get(varied[0], ""))
    return describe_parameters({name: parameters[name] for name in varied if name in parameters})


def _times(times: Sequence[Measurement], varied: Sequence[str]) -> Picture:
    rows: list[CaseTime] = []
    cases = case_means(times)
    for case in cases:
        found = case.interval
        mean = CaseTime(
            panel="",
            series=case.first.target,
            case=_case_words(case.first.parameters, varied),
            n=found.n,
            kind="mean",
            seconds=shortened(found.centre),
            low=shortened(found.low or found.centre),
            high=shortened(found.high or found.centre),
        )
        rows.append(mean)
        rows += [
            replace(mean, kind="one", seconds=value, low=None, high=None) for value in case.values
        ]
    tool = times[-1].tool
    unit = tool and f" (as {tool} printed them)"
    repeated = "" if len(cases) < len(times) else " Nothing was repeated: there is no interval."
    return Picture(
        name="time-of-each-query",
        title="Time of each query",
        caption=f"Seconds{unit}; to the left is better. The line is the 95 % interval of the"
        " geometric mean, the point in it; each faint mark is one repetition, so a cold first run"
        f" stands by itself.{repeated}",
        chart=panels(_times_layers(rows), rows, height=_height(rows)),
    )


def _height(rows: Sequence[CaseTime]) -> int:
    lines = {(row.case, row.series) for row in rows}
    return max(80, LINE_HEIGHT * len(lines))


def _times_layers(rows: Sequence[CaseTime]) -> Any:
    means = [row for row in rows if row.kind == "mean"]
    cases = list(dict.fromkeys(row.case for row in means))
    systems = list(dict.fromkeys(row.series for row in means))
    lowest, highest = min(row.seconds for row in rows), max(row.seconds for row in rows)
    x = alt.X(
        "seconds:Q",
        title="seconds (logarithmic)",
        scale=alt.Scale(type="log", nice=False, domain=[lowest / 1.15, highest * 1.15]),
        axis=alt.Axis(format=NUMBER, tickCount=8),
    )
    base = alt.Chart().encode(
        y=alt.Y("case:N", title=None, sort=cases, axis=alt.Axis(grid=True, tickBand="extent")),
        yOffset=alt.YOffset("series:N", sort=systems),
        color=series_color(means),
    )
    each = base.transform_filter("datum.kind == 'one'").mark_tick(
        opacity=0.35, thickness=1.5, height=8
    )
    of_mean = base.transform_filter("datum.kind == 'mean'")
    interval = of_mean.mark_rule(strokeWidth=2.5).encode(x="low:Q", x2="high:Q")
    point = of_mean.mark_point(filled=True, size=60, opacity=1).encode(
        x=x,
        tooltip=[
            alt.Tooltip("series:N", title="system"),
            alt.Tooltip("case:N", title="case"),
            alt.Tooltip("seconds:Q", title="geometric mean, s", format=NUMBER),
            alt.Tooltip("low:Q", title="from", format=NUMBER),
            alt.Tooltip("high:Q", title="to", format=NUMBER),
            alt.Tooltip("n:Q", title="repetitions"),
        ],
    )
    return alt.layer(each.encode(x=x), interval, point)


def _ratio_rows(account: Account, varied: Sequence[str]) -> list[CaseRatio]:
    rows: list[CaseRatio] = []
    for first, other, found in compare_times(account):
        panel = f"{other} over {first}"
        if found.geometric_mean is not None and len(found.comparisons) > 1:
            mean = found.geometric_mean
            panel += f"; {TOGETHER} {mean.ratio:.3f}"
            if mean.low is not None:
                panel += f" (95 % CI {mean.low:.3f} to {mean.high:.3f})"
        rows += [_ratio_row(one, panel, varied) for one in found.comparisons]
    return rows


def _ratio_row(one: CaseComparison, panel: str, varied: Sequence[str]) -> CaseRatio:
    low, high = one.ratio.low or one.ratio.ratio, one.ratio.high or one.ratio.ratio
    return CaseRatio(
        panel=panel,
        series=WORDS_OF_VERDICTS.get(one.verdict, UNRESOLVED),
        verdict=one.verdict,
        case=_case_words(one.case, varied),
        one=1,
        ratio=shortened(one.ratio.ratio),
        low=shortened(low),
        high=shortened(high),
        label=units.format_number(one.ratio.ratio),
        p="" if one.p_holm is None else f"{one.p_holm:.2g}",
    )


def _ratios(rows: Sequence[CaseRatio], first: str) -> Picture:
    present = [name for name in RATIO_COLORS if any(row.series == name for row in rows)]
    lowest = min(1.0, *(row.low for row in rows))
    highest = max(1.0, *(row.high for row in rows))
    cases = list(dict.fromkeys(row.case for row in rows))
    x = alt.X(
        "ratio:Q",
        title=f"times as long as {first} (logarithmic)",
        scale=alt.Scale(type="log", nice=False, domain=[lowest / 1.1, highest * 1.2]),
        axis=alt.Axis(format=NUMBER, tickCount=8),
    )
    base = alt.Chart().encode(y=alt.Y("case:N", title=None, sort=cases))
    color = alt.Color(
        "series:N",
        title=None,
        sort=None,
        scale=alt.Scale(domain=present, range=[RATIO_COLORS[name] for name in present]),
    )
    bars = base.mark_bar(height={"band": 0.65}, opacity=0.75).encode(
        x=x,
        x2="one:Q",
        color=color,
        tooltip=[
            alt.Tooltip("case:N", title="case"),
            alt.Tooltip("ratio:Q", title="ratio", format=NUMBER),
            alt.Tooltip("low:Q", title="from", format=NUMBER),
            alt.Tooltip("high:Q", title="to", format=NUMBER),
            alt.Tooltip("p:N", title="p (Holm)"),
            alt.Tooltip("verdict:N", title="verdict"),
        ],
    )
    interval = base.mark_rule(strokeWidth=1.5).encode(x=alt.X("low:Q"), x2="high:Q")
    words = base.mark_text(align="left", dx=5, fontSize=11).encode(x="high:Q", text="label:N")
    return Picture(
        name="ratio-of-each-query",
        title=f"Time of each query against {first}",
        caption="How many times as long, with the 95 % interval (Welch's t on logarithms). Coloured"
        " where a difference, or equality within 3 %, is shown after Holm's correction over all"
        " cases; grey where these repetitions do not tell.",
        chart=panels(alt.layer(bars, interval, words), rows, height=LINE_HEIGHT * len(cases) + 8),
    )
