"""Times of queries: totals per arm, each query by arm, and every run."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from loadstone import units
from loadstone.analysis.cells.queries import (
    QueryArm,
    QueryResults,
    QueryTimes,
    TablesLoad,
    ratio_of,
)
from loadstone.analysis.cells.query_streams import Arm, StreamRuns
from loadstone.analysis.statistics.mean import Mean
from loadstone.report.result_words import MARKS, NOT_KNOWN, marks_note, spread_note
from loadstone.report.tables.layout import Column, Table, numbers, texts

DERIVED = "Derived from TPC-H; not comparable with published TPC-H results."


def query_tables(results: QueryResults | None) -> Iterator[Table]:
    """Yield the tables of a run of queries; none of other runs."""
    if results is None:
        return
    if results.arms:
        yield arms_table(results)
        yield _side_by_side(results)
    if results.streams:
        yield streams_table(results)
        yield _beside(results)
    if results.arms:
        yield _details(results)
    if results.loads:
        yield _loads(results)


def arms_table(results: QueryResults) -> Table:
    """Return all queries of each arm in a row, with the ratio to the first arm."""
    names = results.names or ("target",)
    rows = []
    for number, arm in enumerate(results.arms):
        figures = (
            seconds(arm.total_s),
            seconds(arm.geometric_mean_s),
            _ratio(results.arms[0], arm) if number else "1",
            seconds(_sum([query.cpu_s for query in arm.queries])),
            _bytes(_sum([query.read_bytes for query in arm.queries])),
            _slowest(arm),
            answers_cell(arm),
        )
        rows.append((arm.arm, figures))
    return _by_arm(
        "Queries",
        names,
        ["Total", "Geo mean", "× first"],
        rows,
        "Total and geometric mean of each query's mean time. × first: geometric mean of the "
        "ratios, query by query, with its 95 % CI over the queries. Read: bytes from storage.",
    )


def streams_table(results: QueryResults) -> Table:
    """Return the queries per hour by arm and number of streams."""
    rows = []
    for streams in results.streams:
        slowest = streams.slowest
        figures = (
            str(streams.streams),
            _hourly(streams.rate),
            seconds(streams.mean_elapsed_s),
            seconds(streams.cpu_s),
            _bytes(streams.read_bytes),
            NOT_KNOWN if slowest is None else f"{slowest[0]} {seconds(slowest[1])}",
            f"{streams.right}/{streams.asked}{'' if streams.is_compared else ', not compared'}",
        )
        rows.append((streams.arm, figures))
    return _by_arm(
        "Streams beside each other",
        results.names,
        ["Streams", "Queries/h", "Elapsed"],
        rows,
        "Queries/h: all queries of all streams by wall time; runs with a failed or wrong query "
        "have none. Times of queries are those beside the other streams, not comparable with a "
        "query by itself. "
        + spread_note([rate for stream in results.streams if (rate := stream.rate)]),
    )


def _by_arm(
    title: str,
    names: Sequence[str],
    heads: Sequence[str],
    rows: Iterable[tuple[Arm, tuple[str, ...]]],
    note: str,
) -> Table:
    """Return a row per arm: its names, figures under `heads`, and its resources."""
    return Table(
        title=title,
        columns=(
            *(Column(head=name.capitalize(), align="left") for name in names),
            *numbers(*heads),
            *numbers("CPU", "Read"),
            *texts("Slowest", "Right"),
        ),
        rows=tuple((*(getattr(arm, name) for name in names), *figures) for arm, figures in rows),
        notes=(note, DERIVED),
    )


def _beside(results: QueryResults) -> Table:
    names = list(dict.fromkeys(name for stream in results.streams for name in stream.mean_s))
    return Table(
        title="Seconds of each query in streams",
        columns=(
            Column(head="Query", align="left"),
            *(Column(head=_streams_name(results, stream), unit="s") for stream in results.streams),
        ),
        rows=tuple(
            (
                name,
                *(
                    f"{stream.mean_s[name]:.3f}" if name in stream.mean_s else NOT_KNOWN
                    for stream in results.streams
                ),
            )
            for name in sorted(names)
        ),
        notes=("Geometric mean over streams and runs, with the other streams beside it.",),
    )


def _streams_name(results: QueryResults, streams: StreamRuns) -> str:
    return f"{results.name_of(streams.arm)} ×{streams.streams}"


def _hourly(rate: Mean | None) -> str:
    if rate is None:
        return NOT_KNOWN
    between = f" ({three_digits(rate.low)}–{three_digits(rate.high)})" if rate.is_spread else ""
    return f"{three_digits(rate.value)}{between}"


def three_digits(rate: float) -> str:
    """Return a rate with three digits."""
    return f"{round(rate, 2 - math.floor(math.log10(rate))):,.0f}" if rate >= 100 else f"{rate:.3g}"


def _side_by_side(results: QueryResults) -> Table:
    queries = list(dict.fromkeys(query.query for arm in results.arms for query in arm.queries))
    query_of = {(arm.arm, query.query): query for arm in results.arms for query in arm.queries}
    rows = [
        (name, *(_time(query_of.get((arm.arm, name))) for arm in results.arms)) for name in queries
    ]
    return Table(
        title="Seconds of each query",
        columns=(
            Column(head="Query", align="left"),
            *(Column(head=results.name_of(arm.arm), unit="s") for arm in results.arms),
        ),
        rows=tuple(rows),
        notes=tuple(filter(None, [_spread_note(results), _marks_note(results)])),
    )


def _details(results: QueryResults) -> Table:
    rows = [
        (
            results.name_of(arm.arm),
            query.query,
            str(len(query.by_block)),
            seconds(query.seconds[0] if query.by_block else None),
            seconds(query.mean_s),
            seconds(query.cpu_s),
            _bytes(query.read_bytes),
            NOT_KNOWN if query.rows is None else f"{query.rows:,}",
            _answer(query),
            query.limit or NOT_KNOWN,
        )
        for arm in results.arms
        for query in arm.queries
    ]
    heads = ("Runs", "First", "Mean", "CPU", "Read", "Rows")
    return Table(
        title="Each query in detail",
        columns=(
            *texts("Arm", "Query"),
            *numbers(*heads),
            *texts("Answer", "Limited by"),
        ),
        rows=tuple(rows),
        notes=tuple(_bounds(results)),
    )


def _bounds(results: QueryResults) -> Iterator[str]:
    """Yield the rates that the targets' paths reach by themselves."""
    bounds = {
        (arm.arm.target, bound): None
        for arm in results.arms
        for query in arm.queries
        for bound in query.bounds
    }
    for target, bound in bounds:
        rate = units.format_byte_rate(bound.bytes_per_s)
        yield f"{target}: the {bound.resource} reads {rate} by itself ({bound.name})."


def _loads(results: QueryResults) -> Table:
    rows = [
        (
            load.target,
            load.filesystem or NOT_KNOWN,
            f"{load.scale:g}",
            load.format,
            str(load.partitions),
            f"{load.files:,}",
            _bytes(load.bytes),
            "was there" if load.was_there else seconds(load.seconds),
            _rate(load),
            load.sha256[:12],
        )
        for load in results.loads
    ]
    heads = ("Scale", "Format", "Partitions", "Files", "Size", "Loaded in", "Rate", "SHA-256")
    return Table(
        title="Tables",
        columns=(
            *texts("Target", "File system"),
            *numbers(*heads),
        ),
        rows=tuple(rows),
        notes=tuple(
            f"{load.target}: {units.counted(load.files_kept, 'file')} of "
            f"{units.format_bytes(load.bytes_kept)} had been written before the run was cut off; "
            "time and rate are of the rest."
            for load in results.loads
            if load.files_kept
        ),
    )


def seconds(value: float | None) -> str:
    """Return a time with its unit and three digits."""
    return NOT_KNOWN if value is None else units.format_duration(value * 1e9)


def _time(query: QueryTimes | None) -> str:
    if query is None or query.time is None:
        return "failed" if query is not None and query.failures else NOT_KNOWN
    time = query.time
    digits = 3 if time.value < 1 else 1
    if (width := time.high - time.low) > 0:
        # Ends that are printed alike would say that all runs took the same time.
        digits = min(9, max(digits, 1 - math.floor(math.log10(width))))
    between = f" ({time.low:.{digits}f}–{time.high:.{digits}f})" if time.is_spread else ""
    return f"{MARKS[query.standing]}{time.value:.{digits}f}{between}"


def _spread_note(results: QueryResults) -> str:
    means = [query.time for arm in results.arms for query in arm.queries if query.time is not None]
    return spread_note(means, of="Time")


def _marks_note(results: QueryResults) -> str:
    return marks_note(query.standing for arm in results.arms for query in arm.queries)


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _bytes(value: float | None) -> str:
    return NOT_KNOWN if value is None else units.format_bytes(value)


def _rate(load: TablesLoad) -> str:
    written = load.bytes - load.bytes_kept
    if not load.seconds or not written:
        return NOT_KNOWN
    return units.format_byte_rate(written / load.seconds)


def _ratio(first: QueryArm, arm: QueryArm) -> str:
    ratio = ratio_of(first, arm)
    if ratio is None:
        return NOT_KNOWN
    if ratio.low is None or ratio.high is None:
        return f"{ratio.ratio:.3g}"
    return f"{ratio.ratio:.3g} ({ratio.low:.3g}–{ratio.high:.3g})"


def _slowest(arm: QueryArm) -> str:
    slowest = arm.slowest
    return NOT_KNOWN if slowest is None else f"{slowest.query} {seconds(slowest.mean_s)}"


def answers_cell(arm: QueryArm) -> str:
    """Return how many queries were answered correctly."""
    unchecked = "" if all(query.is_compared for query in arm.right_queries) else ", not compared"
    return f"{arm.right}/{len(arm.queries)}{unchecked}"


def _answer(query: QueryTimes) -> str:
    if query.failures:
        failed: Mapping[str, int] = query.failures
        return ", ".join(f"{count} × {name.replace('_', ' ')}" for name, count in failed.items())
    return "right" if query.is_compared else "not compared"
