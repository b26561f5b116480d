"""Concurrent streams of queries: queries per hour, and failures."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from loadstone.analysis.statistics.mean import Mean, mean_of
from loadstone.analysis.statistics.ratios import geometric_mean
from loadstone.documents.python_types import StreamsSummary
from loadstone.results.record import Record

HOUR_S = 3600


class ArmKey(NamedTuple):
    """A way to run the queries; an engine, a cache and threads that are not set are empty."""

    target: str
    engine: str
    cache: str
    threads: str


@dataclass(slots=True, kw_only=True)
class StreamFailure:
    """A query that ended so, so often, with the first message."""

    query: str
    outcome: str
    count: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRuns:
    """All runs of one arm with a number of streams.

    `elapsed_s` are the runs with right answers alone, by block; others have no rate. CPU seconds
    and bytes are those of a whole run. `times_s` are those of each query in all streams and runs,
    with the other streams beside it.
    """

    arm: ArmKey
    streams: int
    queries: int
    elapsed_s: Mapping[int, float]
    starts_ns: Mapping[int, int | None]
    cpu_s: float | None
    read_bytes: int | None
    times_s: Mapping[str, Sequence[float]]
    right: int
    asked: int
    is_compared: bool
    failures: tuple[StreamFailure, ...]
    by_stream_s: Mapping[int, float]

    @property
    def seconds(self) -> list[float]:
        """The time of each right run, in the order of blocks."""
        return [self.elapsed_s[block] for block in sorted(self.elapsed_s)]

    @property
    def rates(self) -> list[float]:
        """Queries per hour of each of these runs."""
        return [self.queries * HOUR_S / seconds for seconds in self.seconds]

    @property
    def rate(self) -> Mean | None:
        """Queries per hour, as the mean of the runs."""
        starts = [self.starts_ns[block] for block in sorted(self.elapsed_s)]
        return mean_of(self.rates, starts) if self.rates else None

    @property
    def mean_elapsed_s(self) -> float | None:
        """The seconds of a run at that rate."""
        return self.queries * HOUR_S / self.rate.value if self.rate is not None else None

    @property
    def mean_s(self) -> dict[str, float]:
        """The geometric mean of each query's times."""
        return {name: geometric_mean(seconds) for name, seconds in self.times_s.items()}

    @property
    def slowest(self) -> tuple[str, float] | None:
        """The query with the greatest mean time in the streams."""
        return max(self.mean_s.items(), key=lambda item: item[1], default=None)


def stream_runs(arm: ArmKey, records: Sequence[Record]) -> StreamRuns:
    """Combine the runs of one arm and number of streams."""
    elapsed: dict[int, float] = {}
    starts: dict[int, int | None] = {}
    times: dict[str, list[float]] = {}
    of_stream: dict[int, dict[int, float]] = {}
    failures: dict[tuple[str, str], StreamFailure] = {}
    asked = right = 0
    compared: list[bool] = []
    for number, record in enumerate(records):
        measured = record.summary["streams"]
        queries = measured["queries"]
        asked += len(queries)
        good = [query for query in queries if query["outcome"] == "ok"]
        right += len(good)
        for query in good:
            times.setdefault(query["query"], []).append((query["end_ns"] - query["start_ns"]) / 1e9)
            compared.append("compared_with" in query)
        for query in queries:
            ends = of_stream.setdefault(query["stream"], {})
            ends[number] = max(ends.get(number, 0), query["end_ns"] / 1e9)
            if query["outcome"] != "ok":
                name, outcome = query["query"], query["outcome"]
                message = str(query.get("message") or "")
                failure = StreamFailure(query=name, outcome=outcome, count=0, message=message)
                failures.setdefault((name, outcome), failure).count += 1
        if len(good) == len(queries):
            elapsed[record.trial["block"]] = measured["time_ns"] / 1e9
            starts[record.trial["block"]] = record.summary.get("started_unix_ns")
    summaries = [record.summary["streams"] for record in records]
    orders = records[0].trial["queries"]["streams"] or []
    return StreamRuns(
        arm=arm,
        streams=len(orders),
        queries=sum(map(len, orders)),
        elapsed_s=elapsed,
        starts_ns=starts,
        cpu_s=median_of(
            None if (cpu_ns := streams.get("cpu_ns")) is None else cpu_ns / 1e9
            for streams in summaries
        ),
        read_bytes=whole_median_of(map(_read, summaries)),
        times_s=dict(sorted(times.items())),
        right=right,
        asked=asked,
        is_compared=bool(compared) and all(compared),
        failures=tuple(failures.values()),
        by_stream_s={
            stream: statistics.median(ends.values()) for stream, ends in sorted(of_stream.items())
        },
    )


def _read(measured: StreamsSummary) -> int | None:
    read, received = measured.get("read_bytes"), measured.get("received_bytes")
    return None if read is None or received is None else read + received


def median_of(values: Iterable[float | None]) -> float | None:
    """Return the median of known values."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def whole_median_of(values: Iterable[int | None]) -> int | None:
    """Return the median of known counts, rounded."""
    median = median_of(values)
    return None if median is None else round(median)
