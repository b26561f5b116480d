"""Queries on tables: the time of each query on each arm."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from loadstone.analysis.cells.query_limits import (
    QueryBound,
    QueryMemory,
    QueryUse,
    bounds_of_targets,
    limit_of,
)
from loadstone.analysis.cells.query_streams import (
    ArmKey,
    StreamRuns,
    median_of,
    stream_runs,
    whole_median_of,
)
from loadstone.analysis.grouping import grouped
from loadstone.analysis.judgements.standing import Standing, may_be_compared, worst_of
from loadstone.analysis.statistics.mean import Mean, mean_of
from loadstone.analysis.statistics.ratios import Ratio, geometric_mean, paired_ratio
from loadstone.campaign.planning.kinds import QUERIES, QUERY, STREAMS
from loadstone.documents.python_types import QuerySummary
from loadstone.results.record import Record, Run


@dataclass(frozen=True, kw_only=True)
class QueryTimes(QueryUse):
    """One query on one arm: seconds of right answers by block; other runs are `failures`.

    `starts_ns` are the starts of these runs, if recorded.
    """

    query: str
    arm: ArmKey
    by_block: Mapping[int, float]
    starts_ns: Mapping[int, int | None]
    rows: int | None
    is_compared: bool
    standing: Standing = "valid"

    @property
    def seconds(self) -> list[float]:
        """The times in the order of the blocks."""
        return [self.by_block[block] for block in sorted(self.by_block)]

    @cached_property
    def time(self) -> Mean | None:
        """The mean of the right runs in seconds; None without any."""
        blocks = sorted(self.by_block)
        starts = [self.starts_ns.get(block) for block in blocks]
        return mean_of(self.seconds, starts) if blocks else None

    @property
    def mean_s(self) -> float | None:
        return self.time.value if self.time is not None else None

    @property
    def limit(self) -> str:
        """The resource that limited the query, if known."""
        return limit_of(self, self.mean_s)[0]

    @property
    def evidence(self) -> str:
        """The evidence for the limit."""
        return limit_of(self, self.mean_s)[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryArm:
    """All queries of one arm.

    `total_s` and `geometric_mean_s` are None unless it `is_whole`.
    """

    arm: ArmKey
    queries: tuple[QueryTimes, ...]

    @property
    def means_s(self) -> list[float]:
        """The mean seconds of the queries that are not void."""
        return [
            query.mean_s
            for query in self.queries
            if query.mean_s is not None and query.standing != "void"
        ]

    @property
    def is_whole(self) -> bool:
        """Whether every query has a time that may be used."""
        return len(self.means_s) == len(self.queries)

    @property
    def right_queries(self) -> list[QueryTimes]:
        """The queries that were answered rightly each time."""
        return [query for query in self.queries if query.by_block and not query.failures]

    @property
    def right(self) -> int:
        """How many these are."""
        return len(self.right_queries)

    @property
    def total_s(self) -> float | None:
        """The sum of the means."""
        return sum(self.means_s) if self.is_whole else None

    @property
    def geometric_mean_s(self) -> float | None:
        return geometric_mean(self.means_s) if self.is_whole else None

    @property
    def slowest(self) -> QueryTimes | None:
        answered = [query for query in self.queries if query.mean_s is not None]
        return max(answered, key=lambda query: query.mean_s or 0.0) if answered else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TablesLoad:
    """The tables loaded on one target; seconds are None if they were there before."""

    target: str
    seconds: float | None
    filesystem: str | None
    files_kept: int
    bytes_kept: int
    benchmark: str
    scale: float
    format: str
    partitions: int
    files: int
    bytes: int
    sha256: str
    was_there: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryResults:
    """The queries of a run by arm, in the campaign's order."""

    arms: tuple[QueryArm, ...]
    names: tuple[str, ...]
    """The parameters that differ between arms: "target", "engine", "cache", "threads"."""
    streams: tuple[StreamRuns, ...]
    """Runs of streams beside each other, by arm and their number."""
    loads: tuple[TablesLoad, ...]

    def name_of(self, arm: ArmKey) -> str:
        """Return the parameters that distinguish an arm from the others, in words."""
        return " ".join(getattr(arm, name) for name in self.names) or arm.target


def read_queries(run: Run, standings: Mapping[str, Standing]) -> QueryResults | None:
    """Return the queries of a run; None if it has none.

    `standings` holds the standing of each trial's result, by the trial's id.
    """
    records = [record for record in run.records if record.trial.get("kind") == QUERIES]
    asked = [
        record for record in records if record.trial["phase"] == QUERY and _is_over(record, "query")
    ]
    beside = [
        record
        for record in records
        if record.trial["phase"] == STREAMS and _is_over(record, "streams")
    ]
    loads = tuple(_load(record) for record in records if "data" in record.summary)
    if not asked and not beside:
        return None
    groups = grouped(asked, _arm)
    together = grouped(
        beside, lambda record: (_arm(record), len(record.trial["queries"]["streams"] or []))
    )
    every = {*groups, *(arm for arm, _ in together)}
    names = [name for name in ArmKey._fields if len({getattr(arm, name) for arm in every}) > 1]
    bounds = bounds_of_targets(run)
    order = list(((run.manifest.get("campaign") or {}).get("targets") or {}).keys())
    arms = [
        QueryArm(
            arm=arm,
            queries=tuple(
                replace(
                    _times(name, arm, of_query, bounds.get(arm.target, ())),
                    standing=worst_of(standings.get(record.id, "valid") for record in of_query),
                )
                for name, of_query in sorted(
                    grouped(of_arm, lambda record: str(record.trial["queries"]["query"])).items()
                )
            ),
        )
        for arm, of_arm in groups.items()
    ]
    arms.sort(key=lambda arm: (_place(order, arm.arm.target), arm.arm))
    streams = [stream_runs(arm, of_arm) for (arm, _), of_arm in together.items()]
    streams.sort(key=lambda stream: (_place(order, stream.arm.target), stream.arm, stream.streams))
    return QueryResults(arms=tuple(arms), names=tuple(names), streams=tuple(streams), loads=loads)


def ratio_of(query_arm: QueryArm, other: QueryArm) -> Ratio | None:
    """Return the geometric mean over the queries of other ÷ query_arm, paired by query.

    The interval is Student's t on the logarithms of the queries' ratios; it covers other choices of
    queries.
    """
    firsts = {query.query: query for query in query_arm.queries}
    pairs = [
        (first.mean_s, query.mean_s)
        for query in other.queries
        if (first := firsts.get(query.query))
        and may_be_compared(first.standing, query.standing, ())
        and first.mean_s
        and query.mean_s
    ]
    known = [a for a, _ in pairs], [b for _, b in pairs]
    return paired_ratio(*known) if len(pairs) > 1 else None


def _place(order: Sequence[str], name: str) -> int:
    return order.index(name) if name in order else len(order)


def _is_over(record: Record, section: Literal["query", "streams"]) -> bool:
    is_finished = record.summary.get("state") == "finished"
    return is_finished and "time_ns" in (record.summary.get(section) or ())


def _arm(record: Record) -> ArmKey:
    queries = record.trial["queries"]
    # The name in this run distinguishes two settings of one engine.
    engine = (record.trial["case"].get("parameters") or {}).get("engine") or queries.get("engine")
    return ArmKey(
        target=str(record.trial["case"]["target"]),
        engine=str(engine or ""),
        cache=str(queries.get("cache") or ""),
        threads=str(queries.get("threads") or ""),
    )


def _times(
    name: str, arm: ArmKey, records: Iterable[Record], bounds: tuple[QueryBound, ...]
) -> QueryTimes:
    by_block: dict[int, float] = {}
    starts_ns: dict[int, int | None] = {}
    cpu_s: list[float | None] = []
    read: list[int | None] = []
    rows: list[int] = []
    failures: dict[str, int] = {}
    messages: list[str] = []
    compared: list[bool] = []
    query_summaries: list[QuerySummary] = []
    threads: int | None = None
    allowed: int | None = None
    for record in records:
        measured = record.summary["query"]
        threads = measured.get("threads") or measured.get("cores") or threads
        allowed = record.trial["queries"].get("memory_bytes") or allowed
        if record.summary["failed"]:
            examples = record.summary.get("error_examples") or {}
            for outcome, message in (examples.get(QUERY) or {"engine_error": ""}).items():
                failures[outcome] = failures.get(outcome, 0) + 1
                messages.append(str(message))
            continue
        by_block[record.trial["block"]] = measured["time_ns"] / 1e9
        starts_ns[record.trial["block"]] = record.summary.get("started_unix_ns")
        cpu_ns = measured.get("cpu_ns", 0)
        cpu_s.append(None if cpu_ns is None else cpu_ns / 1e9)
        read.append(_read(measured))
        rows.append(measured.get("rows", 0))
        query_summaries.append(measured)
        compared.append("compared_with" in measured)
    return QueryTimes(
        query=name,
        arm=arm,
        by_block=by_block,
        starts_ns=starts_ns,
        cpu_s=median_of(cpu_s),
        read_bytes=whole_median_of(read),
        rows=rows[0] if rows else None,
        is_compared=bool(compared) and all(compared),
        failures=failures,
        messages=tuple(dict.fromkeys(messages)),
        threads=threads,
        bounds=bounds,
        memory=_memory(query_summaries, allowed),
    )


def _memory(runs: Sequence[QuerySummary], allowed: int | None) -> QueryMemory:
    """Return the medians of what runs tell about memory; earlier builds recorded nothing."""
    stalled = (
        None
        if (stall_ns := run.get("memory_stall_ns")) is None
        else stall_ns / max(1, run["time_ns"])
        for run in runs
    )
    return QueryMemory(
        stalled=median_of(stalled),
        major_faults=whole_median_of(run.get("major_faults") for run in runs),
        peak_bytes=whole_median_of(run.get("memory_peak_bytes") for run in runs),
        spilled_bytes=whole_median_of(run.get("spilled_bytes") for run in runs),
        reread_bytes=whole_median_of(run.get("reread_bytes") for run in runs),
        allowed_bytes=allowed,
    )


def _read(measured: QuerySummary) -> int | None:
    """Return the bytes that a run read from the storage; None if unknown."""
    read, received = measured.get("read_bytes", 0), measured.get("received_bytes", 0)
    return None if read is None or received is None else read + received


def _load(record: Record) -> TablesLoad:
    data = record.summary["data"]
    [window] = record.summary["iterations"] or [{}]
    seconds = (window.get("end_ns", 0) - window.get("start_ns", 0)) / 1e9
    return TablesLoad(
        target=record.trial["case"]["target"],
        seconds=None if data["was_there"] else seconds,
        filesystem=record.summary.get("filesystem"),
        # Absent in records of earlier builds.
        files_kept=data.get("files_kept", 0),
        bytes_kept=data.get("bytes_kept", 0),
        benchmark=data["benchmark"],
        scale=data["scale"],
        format=data["format"],
        partitions=data["partitions"],
        files=data["files"],
        bytes=data["bytes"],
        sha256=data["sha256"],
        was_there=data["was_there"],
    )
