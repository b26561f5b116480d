"""A part: the measured work of one operation in one iteration of one trial.

Parts are sums (counts, times, histograms, seconds) that add up to cells, so that a trial's table
need not stay in memory.
"""

import json
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from loadstone.analysis.instrument.own_ceiling import CeilingShare
from loadstone.analysis.measured.rows import Rows, values_of
from loadstone.analysis.statistics.latency import combine, merge
from loadstone.documents.mix import operations_of
from loadstone.documents.summary import EdgeWork, Iteration
from loadstone.documents.trial import LoadDocument
from loadstone.results.record import Record

if TYPE_CHECKING:
    from loadstone._loadgen import Histogram


SHARE_MAX = 0.01
"""A deficit below it is no overload: 99 % of the rate asked for is enough."""

DEVIATIONS, DEVIATIONS_DRAINED = 3.0, 1.0
"""By how much a deficit must exceed chance, and where work lasted on behind the window as well."""

FILLED_MEDIANS = 3.0
"""After so many median response times as many requests are under way as later on."""

DRAIN_SHARE, DRAIN_MEDIANS, DRAIN_RATE = 0.1, 1.2, 0.75
"""Work lasted on behind a window for so much of it and so many median times, and at so much of its
rate. A backlog is worked off at full pace; slow answers trickle in.
"""


# Requests count for the stage in which they were due, so that late answers keep their latency.
# The rate is another question: where the target keeps up, what was due over the window is the
# rate, and where it does not, what was answered in the window is.
def is_by_answers(
    rows: Rows, of_all_stages: Rows, window_ns: tuple[int, int], entry: Iteration, median_ns: float
) -> bool:
    """Tell whether the rate of an open load is that of the answers in its window.

    This is so after a warm-up that filled the target's queue, and if the target fell behind.
    Otherwise the window starts without requests in flight, and has too few answers. `rows` are all
    operations due in the window, by the second of the answer, `of_all_stages` those of other stages
    too; `median_ns` is the median response time.
    """
    start_ns, end_ns = window_ns
    answered = rows.unless("outcome", "not_sent")
    if not len(answered) or "end_ns" not in entry:
        return False
    began_ns = int(entry.get("start_ns", start_ns))
    if began_ns + FILLED_MEDIANS * median_ns <= start_ns and began_ns < start_ns:
        return True
    last_ns = min(int(entry["end_ns"]), (max(answered["second"].tolist()) + 1) * SECOND_NS)
    if last_ns <= end_ns:
        return False
    # A backlog makes the median as long as it likes: the second half of the window tells as well.
    filled_ns = min(began_ns + SECOND_NS + median_ns, (start_ns + end_ns) / 2)
    first, last = math.ceil(max(start_ns, filled_ns) / SECOND_NS), end_ns // SECOND_NS
    lasts_on = _lasts_on(rows, window_ns, last_ns, median_ns)
    if last <= first:
        return lasts_on
    deviations = DEVIATIONS_DRAINED if lasts_on else DEVIATIONS
    return _falls_behind(rows, of_all_stages, end_ns - start_ns, (first, last), deviations)


EARLY_MIN, EARLY_GROWTH = 50, 1.3
QUICK_SHARE, QUICK_MIN, QUICK_GROWTH = 0.05, 400, 2.0
"""How much longer requests must take later on: on the average, or the quickest of many."""


SURELY, DEFICIT_SHARE = 4.0, 0.35
"""Standard errors by which a small growth must stand out, and its share of what a queue makes."""


def grows_slower(rows: Rows, load: LoadDocument) -> bool:
    """Tell whether requests of an open load became slower with the backlog.

    Few requests are in flight at first and all clients at once later: a target in which they wait
    for each other takes longer then. `rows` are those of all stages.
    """
    good = rows.where("outcome", "ok")
    if not len(good):
        return False
    begin = min(good["second"].tolist())
    early = merge(values_of(good.where("second", begin), "service"))
    later = merge(values_of(good.unless("second", begin), "service"))
    if early is None or later is None or min(early.count, later.count) < EARLY_MIN:
        return False
    if later.mean >= EARLY_GROWTH * early.mean:
        return True
    quickest = early.quantile(QUICK_SHARE), later.quantile(QUICK_SHARE)
    if early.count >= QUICK_MIN and quickest[1] >= QUICK_GROWTH * quickest[0]:
        return True
    deficit = 1 - early.mean / later.mean
    error = later.stdev / later.mean / math.sqrt(early.count)
    return deficit >= max(SURELY * error, DEFICIT_SHARE * _deficit_of_queue(rows, begin, load))


def _deficit_of_queue(rows: Rows, begin: int, load: LoadDocument) -> float:
    """Return by how much requests of the first second are quicker if all wait in one queue.

    A request takes as long as the queue that it meets, which grows with the excess of the offered
    rate until all clients are in it.
    """
    answered = _by_second(rows.where("outcome", "ok"))
    rates = [count for second, count in answered.items() if begin < second < max(answered)]
    excess = (load.get("rate_per_s") or 0.0) - (fmean(rates) if rates else 0.0)
    if excess <= 0:
        return 1.0
    filled_s = (load.get("clients_max") or 0) / excess
    return filled_s / 2 if filled_s < 1 else 1 - 0.5 / filled_s


def _by_second(rows: Rows) -> dict[int, int]:
    return rows.sums("second", "requests")


def _falls_behind(
    rows: Rows, of_all_stages: Rows, window_ns: int, seconds: tuple[int, int], deviations: float
) -> bool:
    """Tell whether less was answered than was due, in whole seconds."""
    length_s = window_ns / SECOND_NS
    first, last = seconds
    due = rows.sum("requests")
    answered = _by_second(of_all_stages.unless("outcome", "not_sent"))
    done = sum(count for second, count in answered.items() if first <= second < last)
    expected = due * (last - first) / length_s
    # How many were due in the seconds that are left out is a matter of chance.
    chance = math.sqrt(due * (length_s - (last - first)) / length_s)
    return expected - done > max(SHARE_MAX * expected, deviations * chance)


def _lasts_on(rows: Rows, window_ns: tuple[int, int], last_ns: int, median_ns: float) -> bool:
    """Tell whether work went on at full pace after a window."""
    start_ns, end_ns = window_ns
    drain_ns = last_ns - end_ns
    if drain_ns <= max(DRAIN_SHARE * (end_ns - start_ns), DRAIN_MEDIANS * median_ns):
        return False
    counts = _by_second(rows.unless("outcome", "not_sent"))
    last, inside = end_ns // SECOND_NS, end_ns % SECOND_NS
    # The second that the window ends in counts by its parts before and behind the end.
    length_ns = min(SECOND_NS, last_ns - last * SECOND_NS)
    cut = counts.get(last, 0) * (1 - inside / length_ns)
    late = cut + sum(count for second, count in counts.items() if second > last)
    early = sum(counts.values()) - late
    return late / drain_ns >= DRAIN_RATE * early / (end_ns - start_ns)


SECOND_NS = 1_000_000_000
LATENCIES = ("response", "service", "first_byte", "lag", "part")
NOT_SENT = "not_sent"
Encoded = bytes
"""A histogram in the record's format, but not compressed: that takes long and gains little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """All operations of one iteration together, good and failed.

    `due` are all requests of the window, with those of an open load that were never sent; `sent`
    are the others, and `answered` those answered in it.
    """

    answered: float
    sent: int
    due: int
    median_ns: float
    service_count: int
    service_sum_ns: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowWork:
    """The good work done in a window, which makes the rates.

    At the edges it differs from the requests that count for the window: under closed load each
    counts by the share of its time inside, and an open load counts answers.
    """

    requests: float
    objects: float
    bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The measured stage of one operation in one iteration of one trial.

    `work` was done from `start_ns` to `end_ns`; `good`, `objects`, `bytes` and times are those of
    the requests that count for the window. `histograms` stay encoded to save memory. `rates` and
    `byte_rates` are good work per whole second. `instrument` is the used share of the load
    generator's ceiling, or `no_ceiling` the reason why that is unknown. `grows_slower` if requests
    of an open load became slower with many in flight. `left_out` are trials that its result leaves
    out. `agents` are the parts of each agent, where several made the load.
    """

    record: Record
    operation: str
    iteration: int
    start_ns: int
    end_ns: int
    first_done_ns: int | None
    last_done_ns: int | None
    in_flight_ns: int | None
    good: int
    objects: int
    bytes: int
    work: WindowWork
    errors: Mapping[str, int]
    parts_failed: int
    histograms: Mapping[str, Encoded | None]
    rates: NDArray[np.float64]
    byte_rates: NDArray[np.float64]
    mix: Mix
    grows_slower: bool = False
    instrument: CeilingShare | None = None
    no_ceiling: str = ""
    left_out: tuple[str, ...] = ()
    agents: Mapping[str, "Part"] = field(default_factory=dict)

    @property
    def duration_s(self) -> float:
        """The length of the window."""
        return (self.end_ns - self.start_ns) / SECOND_NS

    @property
    def requests_per_s(self) -> float:
        """Good requests per second of the window."""
        return self.work.requests / self.duration_s

    @property
    def case(self) -> tuple[str, ...]:
        """The key of its case and operation."""
        trial = self.record.trial
        case = trial["case"]
        parameters = json.dumps(case["parameters"], sort_keys=True)
        return case["target"], case["workload"], trial["phase"], self.operation, parameters


def read_parts(record: Record, every: Rows) -> Iterable[Part]:
    """Return the parts of one trial by iteration, with operations in the order of its mix."""
    measured = every.where("stage", "measure")
    for iteration in sorted(set(measured["iteration"].tolist())):
        rows = measured.where("iteration", iteration)
        of_all_stages = every.where("iteration", iteration)
        good = rows.where("outcome", "ok")
        histograms = {}
        for operation in operations_in(record, rows):
            histograms[operation] = _merged(good.where("operation", operation))
        window = _window(record, iteration, rows, of_all_stages, histograms.values())
        for operation, times in histograms.items():
            yield _part(record, operation, iteration, rows, _encoded(times), window)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Window:
    """The window of one iteration, and the work in it.

    `answered` are the rows of all answers in it, by second; `edges` is work to add to the counts of
    its own requests, by operation.
    """

    start_ns: int
    end_ns: int
    entry: Iteration
    answered: Rows
    edges: Mapping[str, EdgeWork]
    mix: Mix
    grows_slower: bool


def _window(
    record: Record,
    iteration: int,
    rows: Rows,
    of_all_stages: Rows,
    histograms: Collection[Mapping[str, "Histogram | None"]],
) -> _Window:
    entry = _entry(record, iteration)
    # A killed trial has no account of its iterations: the whole seconds on disk stand in for it.
    seconds = rows["second"].tolist()
    start_ns = entry.get("measure_start_ns", min(seconds) * SECOND_NS)
    end_ns = max(start_ns + 1, entry.get("measure_end_ns", (max(seconds) + 1) * SECOND_NS))
    mix = _mix(rows, histograms)
    edges = entry.get("edges") or {}
    answered = rows
    load = record.trial.get("load") or LoadDocument()
    is_open = load.get("kind") == "open"
    if is_open:
        by_answers = is_by_answers(rows, of_all_stages, (start_ns, end_ns), entry, mix.median_ns)
        if not by_answers:
            edges = {}
        elif edges or "edges" in entry:
            answered = of_all_stages
            start_ns = min(max(start_ns, entry.get("first_answer_ns") or 0), end_ns - 1)
    of_edges = sum(edge["requests"] + edge["failed"] for edge in edges.values())
    return _Window(
        start_ns=start_ns,
        end_ns=end_ns,
        entry=entry,
        answered=answered,
        edges=edges,
        mix=replace(mix, answered=mix.answered + of_edges),
        grows_slower=is_open and grows_slower(of_all_stages, load),
    )


def _merged(rows: Rows) -> dict[str, "Histogram | None"]:
    """Return the merged histograms by kind; kinds with equal histograms share one.

    Under closed load the intended start is the start, so that two columns are equal.
    """
    values = {name: list(values_of(rows, name)) for name in LATENCIES}
    merged: dict[str, Histogram | None] = {}
    for name, encoded in values.items():
        same = next((other for other in merged if values[other] == encoded), None)
        merged[name] = merge(encoded) if same is None else merged[same]
    return merged


def _encoded(times: Mapping[str, "Histogram | None"]) -> dict[str, Encoded | None]:
    """Return encoded histograms; a shared one is encoded once."""
    known: dict[int, Encoded] = {}
    encoded: dict[str, Encoded | None] = {}
    for name, histogram in times.items():
        if histogram is not None and id(histogram) not in known:
            known[id(histogram)] = histogram.pack()
        encoded[name] = None if histogram is None else known[id(histogram)]
    return encoded


def _part(
    record: Record,
    operation: str,
    iteration: int,
    rows_of_mix: Rows,
    histograms: Mapping[str, Encoded | None],
    window: _Window,
) -> Part:
    rows = rows_of_mix.where("operation", operation)
    good = rows.where("outcome", "ok")
    answered = window.answered.where("operation", operation).where("outcome", "ok")
    first, last = math.ceil(window.start_ns / SECOND_NS), window.end_ns // SECOND_NS
    if len(rows_of_mix) and not _has_seconds(rows_of_mix, first, last):
        # A tool that keeps totals has no seconds; zeros would be rates that never were. Of all
        # operations together: a rare one may have no request in a whole second.
        last = first
    counted = WindowWork(
        requests=good.sum("requests"), objects=good.sum("objects"), bytes=good.sum("bytes")
    )
    return Part(
        record=record,
        operation=operation,
        iteration=iteration,
        start_ns=window.start_ns,
        end_ns=window.end_ns,
        first_done_ns=window.entry.get("first_done_ns"),
        last_done_ns=window.entry.get("end_ns"),
        in_flight_ns=window.entry.get("in_flight_ns"),
        good=int(counted.requests),
        objects=int(counted.objects),
        bytes=int(counted.bytes),
        work=_with_edge(counted, window.edges.get(operation)),
        errors=_errors(rows),
        parts_failed=rows.sum("parts_failed") if "parts_failed" in rows else 0,
        histograms=histograms,
        rates=_per_second(answered, "requests", first, last),
        byte_rates=_per_second(answered, "bytes", first, last),
        mix=window.mix,
        grows_slower=window.grows_slower,
    )


def _with_edge(counted: WindowWork, edge: EdgeWork | None) -> WindowWork:
    if edge is None:
        return counted
    # Sums of shares may end a rounding error below nothing.
    return WindowWork(
        requests=max(0.0, counted.requests + edge["requests"]),
        objects=max(0.0, counted.objects + edge["objects"]),
        bytes=max(0.0, counted.bytes + edge["bytes"]),
    )


def operations_in(record: Record, rows: Rows) -> list[str]:
    """Return the operations of rows in the order of their trial."""
    names = operations_of(record.trial)
    present = set(rows["operation"].tolist())
    return [name for name in names if name in present] + sorted(present - set(names))


def _entry(record: Record, iteration: int) -> Iteration:
    entries = record.summary.get("iterations") or ()
    return next((entry for entry in entries if entry["iteration"] == iteration), Iteration())


def _mix(rows: Rows, good: Collection[Mapping[str, "Histogram | None"]]) -> Mix:
    # Requests that were never sent took no time.
    sent_rows = rows.unless("outcome", NOT_SENT)
    failed = merge(values_of(sent_rows.unless("outcome", "ok"), "service"))
    times = combine([*(times["service"] for times in good), failed])
    responses = combine(times["response"] for times in good)
    sent = sent_rows.sum("requests")
    return Mix(
        answered=sent,
        sent=sent,
        due=rows.sum("requests"),
        median_ns=float(responses.quantile(0.5)) if responses is not None else 0.0,
        service_count=times.count if times is not None else 0,
        service_sum_ns=times.mean * times.count if times is not None else 0.0,
    )


def _errors(rows: Rows) -> dict[str, int]:
    counts = rows.unless("outcome", "ok").sums("outcome", "requests")
    return {kind: count for kind, count in counts.items() if count}


def _has_seconds(rows: Rows, first: int, last: int) -> bool:
    return any(first <= second < last for second in rows["second"].tolist())


def _per_second(good: Rows, name: str, first: int, last: int) -> NDArray[np.float64]:
    """Return the sums of whole seconds; seconds cut by the window would look too slow."""
    sums = np.zeros(max(0, last - first))
    for second, number in good.sums("second", name).items():
        if first <= second < last:
            sums[second - first] = number
    return sums
