"""A part: what one operation did in one iteration of one trial, while it was being measured.

Parts are sums (counts, times, histograms, seconds), so that any number of them adds up to a cell,
and a trial's table need not be kept in memory once its parts are made.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from loadstone.analysis.instrument.backlog import window_of_work
from loadstone.analysis.instrument.headroom import CeilingShare
from loadstone.analysis.rows import unless, where
from loadstone.analysis.statistics.latency import combine, merge
from loadstone.campaign.planning.lifecycle import operations_of
from loadstone.results.documents import Iteration
from loadstone.results.record import Record

if TYPE_CHECKING:
    from loadstone._loadgen import Histogram

SECOND_NS = 1_000_000_000
LATENCIES = ("response", "service", "first_byte", "lag", "part")
NOT_SENT = "not_sent"
# The object is not there, for its own put had failed: counted, but no failure of its own.
UNWRITTEN = "unwritten"
Encoded = bytes
"""A histogram as the record holds it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """All operations of one iteration together, good and failed: what the schedule speaks of.

    `due` are all requests of the window, also those of an open load that were never sent.
    """

    answered: int
    due: int
    median_ns: float
    service_count: int
    service_sum_ns: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The measured stage of one operation in one iteration of one trial.

    From `start_ns` to `end_ns` its work was done: that is the window in which it was due, of
    `window_ns`, but where an open load outran its target.
    `histograms` stay encoded: as counts, those of thousands of trials would fill the memory.
    `rates` and `byte_rates` hold good work of each whole second inside the window. `instrument` is
    how much of its own ceiling the load generator used; where nobody can tell, `no_ceiling` says
    why.
    """

    record: Record
    operation: str
    iteration: int
    start_ns: int
    end_ns: int
    window_ns: int
    first_done_ns: int | None
    last_done_ns: int | None
    in_flight_ns: int | None
    good: int
    objects: int
    bytes: int
    errors: Mapping[str, int]
    parts_failed: int
    histograms: Mapping[str, Encoded | None]
    rates: NDArray[np.float64]
    byte_rates: NDArray[np.float64]
    mix: Mix
    instrument: CeilingShare | None = None
    no_ceiling: str = ""

    @property
    def duration_s(self) -> float:
        """How long was measured."""
        return (self.end_ns - self.start_ns) / SECOND_NS


def read_parts(record: Record, intervals: pa.Table) -> Iterable[Part]:
    """Return the parts of one trial, iterations in order and operations as its mix lists them."""
    measured = where(intervals, "stage", "measure")
    for iteration in sorted(set(measured["iteration"].to_pylist())):
        rows = where(measured, "iteration", iteration)
        of_all_stages = where(intervals, "iteration", iteration)
        good = where(rows, "outcome", "ok")
        histograms = {
            operation: {name: merge(column(_of(good, operation), name)) for name in LATENCIES}
            for operation in operations_in(record, rows)
        }
        mix = _mix(rows, histograms.values())
        for operation, times in histograms.items():
            encoded = {name: None if one is None else one.encode() for name, one in times.items()}
            yield _part(record, operation, iteration, rows, of_all_stages, encoded, mix)


def _part(
    record: Record,
    operation: str,
    iteration: int,
    rows_of_mix: pa.Table,
    of_all_stages: pa.Table,
    histograms: Mapping[str, Encoded | None],
    mix: Mix,
) -> Part:
    rows = _of(rows_of_mix, operation)
    good = where(rows, "outcome", "ok")
    entry = _entry(record, iteration)
    # A killed trial has no account of its iterations: the whole seconds on disk stand in for it.
    seconds = pc.min_max(rows_of_mix["second"]).as_py()
    start_ns = entry.get("measure_start_ns", seconds["min"] * SECOND_NS)
    end_ns = max(start_ns + 1, entry.get("measure_end_ns", (seconds["max"] + 1) * SECOND_NS))
    window_ns = end_ns - start_ns
    if (record.trial.get("load") or {}).get("kind") == "open":
        start_ns, end_ns = window_of_work(
            rows_of_mix, of_all_stages, (start_ns, end_ns), entry, mix.median_ns
        )
    first, last = math.ceil(start_ns / SECOND_NS), end_ns // SECOND_NS
    if good.num_rows and not _has_seconds(good, first, last):
        # A tool that keeps totals has no seconds; zeros would be rates that never were.
        last = first
    return Part(
        record=record,
        operation=operation,
        iteration=iteration,
        start_ns=start_ns,
        end_ns=end_ns,
        window_ns=window_ns,
        first_done_ns=entry.get("first_done_ns"),
        last_done_ns=entry.get("end_ns"),
        in_flight_ns=entry.get("in_flight_ns"),
        good=_sum(good, "requests"),
        objects=_sum(good, "objects"),
        bytes=_sum(good, "bytes"),
        errors=_errors(rows),
        parts_failed=_sum(rows, "parts_failed") if "parts_failed" in rows.column_names else 0,
        histograms=histograms,
        rates=_per_second(good, "requests", first, last),
        byte_rates=_per_second(good, "bytes", first, last),
        mix=mix,
    )


def operations_in(record: Record, rows: pa.Table) -> list[str]:
    """Return the operations that rows are of, in the order in which their trial lists them."""
    names = operations_of(record.trial)
    found = set(rows["operation"].to_pylist())
    return [name for name in names if name in found] + sorted(found - set(names))


def _of(rows: pa.Table, operation: str) -> pa.Table:
    return where(rows, "operation", operation)


def column(rows: pa.Table, name: str) -> Iterable[bytes | None]:
    """Return one column of histograms; nothing when the table has no such column."""
    return (value.as_py() for value in rows[name]) if name in rows.column_names else ()


def _entry(record: Record, iteration: int) -> Iteration:
    entries = record.summary.get("iterations") or ()
    return next((entry for entry in entries if entry["iteration"] == iteration), Iteration())


def _mix(rows: pa.Table, good: Collection[Mapping[str, "Histogram | None"]]) -> Mix:
    failed = merge(column(unless(rows, "outcome", "ok"), "service"))
    times = combine([*(one["service"] for one in good), failed])
    responses = combine(one["response"] for one in good)
    answered = unless(rows, "outcome", NOT_SENT)
    return Mix(
        answered=_sum(answered, "requests"),
        due=_sum(rows, "requests"),
        median_ns=float(responses.quantile(0.5)) if responses is not None else 0.0,
        service_count=times.count if times is not None else 0,
        service_sum_ns=times.mean * times.count if times is not None else 0.0,
    )


def _sum(rows: pa.Table, name: str) -> int:
    return int(pc.sum(rows[name]).as_py() or 0)


def _errors(rows: pa.Table) -> dict[str, int]:
    failed = unless(rows, "outcome", "ok")
    if not failed.num_rows:
        return {}
    counts = failed.group_by("outcome").aggregate([("requests", "sum")]).to_pylist()
    return {row["outcome"]: row["requests_sum"] for row in counts if row["requests_sum"]}


def _has_seconds(good: pa.Table, first: int, last: int) -> bool:
    seconds = good["second"].to_numpy()
    return bool(((seconds >= first) & (seconds < last)).any())


def _per_second(good: pa.Table, name: str, first: int, last: int) -> NDArray[np.float64]:
    """Return the sums of whole seconds; one cut by an end of the window would look too slow."""
    sums = np.zeros(max(0, last - first))
    seconds = good["second"].to_numpy() - first
    inside = (seconds >= 0) & (seconds < sums.size)
    np.add.at(sums, seconds[inside], good[name].to_numpy()[inside])
    return sums
