"""Times of queries: totals per arm, each query by arm, and every run."""

import math
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

from loadstone import units
from loadstone.analysis.cells.queries import (
    QueryArm,
    QueryResults,
    QueryTimes,
    TablesLoad,
    ratio_of,
)
from loadstone.analysis.cells.query_streams import StreamRuns
from loadstone.analysis.statistics.mean import Mean
from loadstone.report.result_words import MARKS, NOT_KNOWN, marks_note, spread_note
from loadstone.report.tables.layout import (
    COUNT,
    Column,
    Field,
    Table,
    known,
    number,
    tabulated,
    word,
)

UNCHECKED = ", not compared"
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
    first = results.arms[0]
    fields: list[Field[QueryArm]] = [
        *_arm_fields(results.names or ("target",)),
        number("Total", lambda arm: seconds(arm.total_s)),
        number("Geo mean", lambda arm: seconds(arm.geometric_mean_s)),
        number("× first", lambda arm: "1" if arm is first else _ratio(first, arm)),
        number("CPU", lambda arm: seconds(_sum([query.cpu_s for query in arm.queries]))),
        number("Read", lambda arm: _bytes(_sum([query.read_bytes for query in arm.queries]))),
        word("Slowest", _slowest),
        word("Right", answers_cell),
    ]
    note = (
        "Total and geometric mean of each query's mean time. × first: geometric mean of the "
        "ratios, query by query, with its 95 % CI over the queries. Read: bytes from storage."
    )
    return tabulated("Queries", results.arms, fields, notes=(note, DERIVED))


def streams_table(results: QueryResults) -> Table:
    """Return the queries per hour by arm and number of streams."""
    fields: list[Field[StreamRuns]] = [
        *_arm_fields(results.names),
        number("Streams", lambda runs: str(runs.streams)),
        number("Queries/h", lambda runs: _hourly(runs.rate)),
        number("Elapsed", lambda runs: seconds(runs.mean_elapsed_s)),
        number("CPU", lambda runs: seconds(runs.cpu_s)),
        number("Read", lambda runs: _bytes(runs.read_bytes)),
        word("Slowest", lambda r: f"{r.slowest[0]} {seconds(r.slowest[1])}" if r.slowest else "–"),
        word(
            "Right",
            lambda runs: f"{runs.right}/{runs.asked}{'' if runs.is_compared else UNCHECKED}",
        ),
    ]
    note = (
        "Queries/h: all queries of all streams by wall time; runs with a failed or wrong query "
        "have none. A query's time is measured while the other streams run, and so not comparable "
        "with that of a single query. "
    )
    note += spread_note([rate for stream in results.streams if (rate := stream.rate)])
    return tabulated("Concurrent streams", results.streams, fields, notes=(note, DERIVED))


def _arm_fields(names: Sequence[str]) -> list[Field[Any]]:
    return [word(name.capitalize(), attrgetter(f"arm.{name}")) for name in names]


def _beside(results: QueryResults) -> Table:
    names = list(dict.fromkeys(name for stream in results.streams for name in stream.mean_s))
    return Table(
        title="Seconds of each query in streams",
        columns=(
            Column(head="Query", align="left"),
            *(
                Column(head=f"{results.name_of(stream.arm)} ×{stream.streams}", unit="s")
                for stream in results.streams
            ),
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


def _hourly(rate: Mean | None) -> str:
    if rate is None:
        return NOT_KNOWN
    between = f" ({three_digits(rate.low)}–{three_digits(rate.high)})" if rate.is_spread else ""
    return f"{three_digits(rate.value)}{between}"


def three_digits(rate: float) -> str:
    return f"{round(rate, 2 - math.floor(math.log10(rate))):,.0f}" if rate >= 100 else f"{rate:.3g}"


def _side_by_side(results: QueryResults) -> Table:
    every = [query for arm in results.arms for query in arm.queries]
    queries = list(dict.fromkeys(query.query for query in every))
    means = [query.time for query in every if query.time is not None]
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
        notes=tuple(
            filter(
                None,
                [spread_note(means, of="Time"), marks_note(query.standing for query in every)],
            )
        ),
    )


def _details(results: QueryResults) -> Table:
    fields: list[Field[QueryTimes]] = [
        word("Arm", lambda query: results.name_of(query.arm)),
        word("Query", lambda query: query.query),
        number("Runs", lambda query: str(len(query.by_block))),
        number("First", lambda query: seconds(query.seconds[0] if query.by_block else None)),
        number("Mean", lambda query: seconds(query.mean_s)),
        number("CPU", lambda query: seconds(query.cpu_s)),
        number("Read", lambda query: _bytes(query.read_bytes)),
        number("Rows", known(lambda query: query.rows, show=COUNT)),
        word("Answer", _answer),
        word("Limited by", lambda query: query.limit or NOT_KNOWN),
    ]
    queries = [query for arm in results.arms for query in arm.queries]
    return tabulated("Each query in detail", queries, fields, notes=_bounds(results))


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
    fields: list[Field[TablesLoad]] = [
        word("Target", lambda load: load.target),
        word("File system", lambda load: load.filesystem or NOT_KNOWN),
        number("Scale", lambda load: f"{load.scale:g}"),
        number("Format", lambda load: load.format),
        number("Partitions", lambda load: str(load.partitions)),
        number("Files", lambda load: f"{load.files:,}"),
        number("Size", lambda load: _bytes(load.bytes)),
        number("Loaded in", lambda t: "was there" if t.was_there else seconds(t.seconds)),
        number("Rate", _rate),
        number("SHA-256", lambda load: load.sha256[:12]),
    ]
    notes = (
        f"{load.target}: {units.counted(load.files_kept, 'file')} of "
        f"{units.format_bytes(load.bytes_kept)} had been written before the run was cut off; "
        "time and rate are of the rest."
        for load in results.loads
        if load.files_kept
    )
    return tabulated("Tables", results.loads, fields, notes=notes)


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
    unchecked = "" if all(query.is_compared for query in arm.right_queries) else UNCHECKED
    return f"{arm.right}/{len(arm.queries)}{unchecked}"


def _answer(query: QueryTimes) -> str:
    if query.failures:
        failed: Mapping[str, int] = query.failures
        return ", ".join(f"{count} × {name.replace('_', ' ')}" for name, count in failed.items())
    return "right" if query.is_compared else "not compared"
