"""The report of a run of queries as one page: seconds and bytes of each, on each arm."""

from collections.abc import Iterable, Sequence
from typing import Any

from loadstone.analysis import Findings
from loadstone.analysis.answers.answer import answer_of
from loadstone.analysis.answers.headline import Tile
from loadstone.analysis.cells.queries import QueryResults, ratio_of
from loadstone.analysis.statistics.mean import Mean
from loadstone.report.answer import summary_words
from loadstone.report.formats.disclosure import disclosure_tables
from loadstone.report.next_step import next_step
from loadstone.report.opening import sentences_of
from loadstone.report.pages.frame import render_page
from loadstone.report.tables.in_order import tables_of
from loadstone.report.tables.query_results import (
    DERIVED,
    answers_cell,
    query_tables,
    seconds,
    three_digits,
)
from loadstone.results.record import Run


def render_queries(run: Run, findings: Findings, results: QueryResults) -> bytes:
    others = [table for _, table in tables_of(run, findings, "page of queries")]
    answer = answer_of(findings)
    host = run.manifest.get("host") or {}
    return render_page(
        "queries.html.jinja",
        data=query_data(results),
        title=run.name,
        summary=summary_words(run, findings, answer),
        sentence=sentence_of(results),
        tiles=tuple(_tiles(results)),
        tables=tuple(query_tables(results)),
        others=(*others, *disclosure_tables(run, findings)),
        findings=findings.findings,
        step=next_step(run, findings, answer, is_on_page=True),
        opening=sentences_of(run, findings),
        host={name: value for name, value in host.items() if isinstance(value, (str, int))},
        campaign_file=run.manifest.get("campaign_file") or "",
        version=run.manifest.get("loadstone", ""),
    )


def sentence_of(results: QueryResults) -> str:
    """Return the run in a sentence: how the second arm stands to the first."""
    if not results.arms:
        return _sentence_of_streams(results)
    first, *others = results.arms
    name = results.name_of(first.arm)
    count = f"{len(first.queries)} queries" if len(first.queries) > 1 else "1 query"
    if not first.is_whole:
        return f"Not every query was answered rightly on {name}: {answers_cell(first)}. {DERIVED}"
    words = [f"{count} took {seconds(first.total_s)} on {name}"]
    for other in others[:3]:
        ratio = ratio_of(first, other)
        if ratio is None or not other.is_whole:
            continue
        between = ""
        if ratio.low is not None and ratio.high is not None:
            between = f" (95 % interval {ratio.low:.3g} to {ratio.high:.3g})"
        words.append(f"on {results.name_of(other.arm)} {ratio.ratio:.3g}× that{between}")
    return f"{'; '.join(words)}. Ratios are geometric means over the queries. {DERIVED}"


def _sentence_of_streams(results: QueryResults) -> str:
    words = []
    for runs in results.streams[:4]:
        rate = runs.rate
        rate_words = "no rate, as not every query was answered rightly"
        if rate is not None:
            rate_words = f"{three_digits(rate.value)} queries an hour"
        streams = f"{runs.streams} stream{'' if runs.streams == 1 else 's'}"
        words.append(f"{streams} on {results.name_of(runs.arm)}: {rate_words}")
    return f"{'; '.join(words)}. {DERIVED}"


def _tiles(results: QueryResults) -> Iterable[Tile]:
    for runs in () if results.arms else results.streams[:4]:
        rate = runs.rate
        streams = f"{runs.streams} stream{'' if runs.streams == 1 else 's'}"
        yield Tile(
            key="streams",
            name=f"{results.name_of(runs.arm)}, {streams}",
            value="not whole" if rate is None else f"{three_digits(rate.value)}/h",
            note=f"{runs.right}/{runs.asked} right",
            is_bad=rate is None,
        )
    for arm in results.arms[:4]:
        slowest = arm.slowest
        note = f"slowest: {slowest.query}, {seconds(slowest.mean_s)}" if slowest else ""
        yield Tile(
            key="arm",
            name=results.name_of(arm.arm),
            value=seconds(arm.total_s) if arm.is_whole else "not whole",
            note=f"{answers_cell(arm)} right · {note}",
            is_bad=not arm.is_whole,
        )


def query_data(results: QueryResults) -> dict[str, Any]:
    """Return what the charts of queries are drawn from."""
    return {
        "query_words": (
            "Each dot is a query's mean time, each faint mark one of its runs, and the line their"
            " spread, on a logarithmic axis. Queries that failed, or gave a wrong answer, are left"
            " out."
        ),
        "queries": [
            _point(results.name_of(arm.arm), query.query, query.seconds, query.time)
            | {"read_bytes": query.read_bytes, "limit": query.limit}
            for arm in results.arms
            for query in arm.queries
        ],
        "stream_words": (
            "Each dot is a query's mean time with the other streams beside it, each faint mark one"
            " of its runs, on a logarithmic axis. Not comparable with a single query's time."
        ),
        "streams": [
            # Streams of one run are no repetitions of each other: their times have no interval.
            _point(f"{results.name_of(runs.arm)} ×{runs.streams}", query, times, None)
            | {"value_ns": round(runs.mean_s[query] * 1e9)}
            for runs in results.streams
            for query, times in runs.times_s.items()
        ],
    }


def _point(arm: str, query: str, seconds: Sequence[float], time: Mean | None) -> dict[str, object]:
    value, low, high = (time.value, time.low, time.high) if time is not None else (None,) * 3
    ends = {"value_ns": value, "low_ns": low, "high_ns": high}
    return {
        "arm": arm,
        "query": query,
        **{name: None if end is None else round(end * 1e9) for name, end in ends.items()},
        "times_ns": [round(time * 1e9) for time in seconds],
        "runs": len(seconds),
        "read_bytes": None,
        "limit": "",
    }
