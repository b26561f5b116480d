"""Many runs of one campaign as a page: changes of level, and the newest run."""

from collections.abc import Iterable
from dataclasses import asdict

from loadstone import units
from loadstone.analysis.accounts.account import is_lower_better
from loadstone.analysis.accounts.history import (
    RUNS_FOR_A_CHANGE,
    History,
    HistoryChange,
    Trend,
    answer_words,
)
from loadstone.analysis.answers.headline import Tile
from loadstone.analysis.naming import metric_value, metric_words
from loadstone.analysis.rules import label_words
from loadstone.report.pages.frame import render_page

TRENDS_DRAWN = 48

CHIPS = {"worse": "void", "better": "good", "as before": "limit", "unknown": "unknown"}


def render_history(traced: History, campaign: str) -> bytes:
    """Return the page of a history, with regressions first."""
    trends = sorted(traced.trends, key=_urgency)
    drawn = trends[:TRENDS_DRAWN]
    return render_page(
        "history.html.jinja",
        data={
            # The filters and the search of the results work on these, and here are none.
            "results": [],
            "rounds": [],
            "trends": [_drawn(trend) for trend in drawn],
        },
        title=f"History of {campaign}",
        sentence=answer_words(traced),
        tiles=tuple(_tiles(traced)),
        undrawn=len(trends) - len(drawn),
        rows=[_row(trend) for trend in trends],
        changes=[_words(trend, change) for trend in trends for change in reversed(trend.changes)],
        runs=[(entry.name, entry.started) for entry in traced.entries],
        left_out=[
            f"{units.counted(count, 'value')}: {label_words(label)}"
            for label, count in traced.left_out.items()
        ],
        chips=CHIPS,
        least_runs=RUNS_FOR_A_CHANGE,
        is_short=max(len(trend.points) for trend in traced.trends) < RUNS_FOR_A_CHANGE,
    )


def _urgency(trend: Trend) -> tuple[bool, int, str, str]:
    last = trend.changes[-1] if trend.changes else None
    since = last.runs_since if last is not None and last.is_worse else 10**6
    return trend.newest != "worse", since, trend.name, trend.metric


def _drawn(trend: Trend) -> dict[str, object]:
    return {
        "title": f"{trend.name or 'all'}: {metric_words(trend.metric)}",
        "caption": _caption(trend),
        "metric": trend.metric,
        "newest": trend.newest,
        "expected": list(trend.expected) if trend.expected else None,
        "points": [asdict(point) for point in trend.points],
        "changes": [
            {
                "run": change.run,
                "before": change.before,
                "after": change.after,
                "words": f"{change.magnitude:+.0%}",
                "is_worse": change.is_worse,
            }
            for change in trend.changes
        ],
    }


def _row(trend: Trend) -> dict[str, object]:
    """Return a row of the table: a trend, its newest value, and its last change of level."""
    last = trend.changes[-1] if trend.changes else None
    value = trend.points[-1].value
    expected = ""
    if trend.expected is not None:
        low, high = (metric_value(bound, trend.metric) for bound in trend.expected)
        expected = f"{low} to {high}"
    return {
        "name": trend.name or "all",
        "metric": metric_words(trend.metric),
        "newest": metric_value(value, trend.metric),
        "newest_value": value,
        "expected": expected,
        "verdict": "too few runs" if trend.newest == "unknown" else trend.newest,
        "chip": CHIPS[trend.newest],
        "changed": "" if last is None else f"{last.magnitude:+.0%}",
        "magnitude": None if last is None else last.magnitude,
        "changed_at": "" if last is None else last.run,
        "p": None if last is None else last.p,
        "p_words": "" if last is None else last.p_words.removeprefix("= "),
        "runs": len(trend.points),
    }


def _caption(trend: Trend) -> str:
    better = "Lower is better" if is_lower_better(trend.metric) else "Higher is better"
    words = f"{better}. Newest: {metric_value(trend.points[-1].value, trend.metric)}"
    if trend.expected is None:
        return f"{words}; too few runs to expect a value."
    low, high = (metric_value(bound, trend.metric) for bound in trend.expected)
    return f"{words}, {trend.newest}; expected {low} to {high}."


def _words(trend: Trend, change: HistoryChange) -> dict[str, object]:
    """Return a change of level as a sentence, with other changes at that run."""
    before, after = (metric_value(level, trend.metric) for level in (change.before, change.after))
    return {
        "sentence": (
            f"{trend.name or 'all'}, {metric_words(trend.metric)}: {change.magnitude:+.0%}"
            f" from run {change.run} on, {change.started[:10]}: {before} to {after},"
            f" p {change.p_words}"
        ),
        "is_worse": change.is_worse,
        "differing": tuple(map(str, change.differing)),
    }


def _tiles(traced: History) -> Iterable[Tile]:
    first, last = traced.entries[0], traced.entries[-1]
    total = units.counted(len(traced.trends), "trend")
    yield Tile(
        key="runs",
        name="Runs",
        value=str(len(traced.entries)),
        note=f"{first.started[:10]} to {last.started[:10]}",
    )
    worse = sum(trend.newest == "worse" for trend in traced.trends)
    yield Tile(
        key="newest-worse",
        name="Newest run worse",
        value=str(worse),
        note=f"of {total}",
        is_bad=worse > 0,
    )
    last_changes = [trend.changes[-1] for trend in traced.trends if trend.changes]
    for is_worse, key in ((True, "worse"), (False, "better")):
        changes = [change for change in last_changes if change.is_worse == is_worse]
        note = (
            f"newest at {max(changes, key=lambda change: change.started).run}"
            if changes
            else f"of {total}"
        )
        is_bad = is_worse and bool(changes)
        name = f"Last change {key}"
        yield Tile(key=key, name=name, value=str(len(changes)), note=note, is_bad=is_bad)
