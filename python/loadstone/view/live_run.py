"""The current state of a run, read from its folder: rates, times, failures and CPU per second."""

import contextlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from loadstone import _loadgen, regular_file
from loadstone._loadgen import Schema, StreamReader, Table
from loadstone.campaign.forecast import Forecast
from loadstone.campaign.parameters import describe_trial
from loadstone.campaign.planning.trial import PlannedTrial
from loadstone.documents.manifest import Manifest
from loadstone.documents.outcomes import NO_FAILURES, good_requests
from loadstone.documents.trial import TrialDocument
from loadstone.errors import LoadstoneError, ResultError
from loadstone.results.files.tables import BATCH_BYTES_MAX, STREAM_SUFFIX
from loadstone.results.layout import (
    PARTIAL_SUFFIX,
    PROBES,
    RECORD_SUFFIX,
    TRIALS,
    plain,
    plain_manifest,
    read_manifest,
)
from loadstone.results.record import Record
from loadstone.results.store import read_record

SECONDS_SHOWN = 300
FINISHED_SHOWN = 12
IDLE = ("idle_ns", "iowait_ns")


class LiveRun:
    """Follows one run; each call reads only data added since the last one.

    The seconds of finished trials are kept, or read from their records if they were not followed,
    so that their part of the chart does not disappear.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._plan: dict[str, TrialDocument] = {}
        self._trial: _LiveTrial | None = None
        self._finished: dict[str, dict[str, Any]] = {}
        self._courses: dict[str, _Course] = {}
        self._forecast = Forecast(())

    def read(self) -> dict[str, Any]:
        """Return the run's state for JSON."""
        done, begun = trials_in(self.folder)
        now = next((trial_id for trial_id in reversed(begun) if trial_id not in set(done)), None)
        unknown = not self._plan or (now is not None and now not in self._plan)
        if unknown:
            # A search adds trials while it runs.
            manifest: Manifest = plain_manifest(read_manifest(self.folder))
            self._plan = {document["id"]: document for document in manifest["plan"]}
            self._forecast.extend(
                [PlannedTrial(document=document) for document in manifest["plan"]]
            )
        if self._trial is not None and self._trial.id != now:
            self._trial.read()
            self._courses[self._trial.id] = self._trial.course
            self._trial = None
        if now is not None and self._trial is None:
            self._trial = _LiveTrial(self.folder, now, self._plan.get(now) or {})
        trial = self._trial.read() if self._trial is not None else None
        finished = [self._finished_words(trial_id) for trial_id in reversed(done[-FINISHED_SHOWN:])]
        for trial_id in (*done, now):
            if trial_id in self._plan:
                self._forecast.drop(self._plan[trial_id])
        return {
            "planned": len(self._plan),
            "done": len(done),
            "left_ns": self._left_ns(trial),
            "trial": trial,
            "course": self._course(done),
            "finished": finished,
        }

    def _left_ns(self, trial: Mapping[str, Any] | None) -> int | None:
        """Return the remaining time of the run without pauses, in nanoseconds; None if unknown."""
        others_ns = self._forecast.left_ns()
        own_ns = 0 if trial is None else trial["left_ns"]
        return None if others_ns is None or own_ns is None else others_ns + own_ns

    def _course(self, done: Sequence[str]) -> dict[str, Any]:
        """Return the last seconds under load of all trials, in order."""
        courses, seconds = list[_Course](), 0
        if self._trial is not None:
            courses, seconds = [self._trial.course], len(self._trial.course.seconds)
        for trial_id in reversed(done):
            if seconds >= SECONDS_SHOWN:
                break
            if trial_id not in self._courses:
                self._courses[trial_id] = self._read_course(trial_id)
            courses.insert(0, self._courses[trial_id])
            seconds += len(self._courses[trial_id].seconds)
        at, rows, cpu, begins = 0, list[dict[str, Any]](), list[list[object]](), list[int]()
        for course in courses:
            if not course.seconds:
                continue
            begins.append(at)
            rows += [{"at": at + second["second"], **second} for second in course.seconds]
            cpu += [
                [at + second, host, share]
                for host, shares in course.cpu.items()
                for second, share in shares
            ]
            at += course.seconds[-1]["second"] + 1
        return {"seconds": rows, "cpu": cpu, "begins": begins}

    def _read_course(self, trial: str) -> "_Course":
        """Return the seconds of a trial that was not followed; empty if it is unreadable."""
        seconds: dict[int, _Second] = {}
        cpu: dict[str, _HostCpu] = {}
        try:
            record = read_record(self.folder, trial)
            for row in _rows_of(_IntervalRow, record.intervals):
                seconds.setdefault(row.second, _Second(row.second)).take(row)
            _take_cpu(cpu, _rows_of(_ProbeRow, record.probes))
        except (LoadstoneError, LookupError, TypeError, ValueError):
            return _Course(seconds=[], cpu={})
        return _course_of(seconds, cpu)

    def _finished_words(self, trial: str) -> dict[str, Any]:
        if trial not in self._finished:
            words: dict[str, Any] = {"what": describe_trial(self._plan.get(trial) or {"id": trial})}
            try:
                record = read_record(self.folder, trial)
                words |= _ended(record)
                if trial in self._plan:
                    iterations = record.summary.get("iterations") or ()
                    elapsed_ns = max((entry["end_ns"] for entry in iterations), default=0)
                    requests = good_requests(record.summary)
                    self._forecast.observe(self._plan[trial], requests, elapsed_ns)
            except (LoadstoneError, LookupError, ValueError):
                words["problem"] = "its record cannot be read"
            self._finished[trial] = words
        return self._finished[trial]


def trials_in(folder: Path) -> tuple[list[str], list[str]]:
    """Return the ended trials of a run folder, and those that began; each in order."""
    trials = folder / TRIALS
    names = {path.name for path in trials.iterdir()} if trials.is_dir() else set()
    done = sorted(
        name.removesuffix(RECORD_SUFFIX)
        for name in names
        if name.endswith(RECORD_SUFFIX) and not name.endswith(PARTIAL_SUFFIX)
    )
    begun = sorted(
        name.removesuffix(STREAM_SUFFIX) for name in names if name.endswith(STREAM_SUFFIX)
    )
    return done, begun


class _Course(NamedTuple):
    """The seconds of a trial for JSON, and the CPU shares by host."""

    seconds: list[dict[str, Any]]
    cpu: dict[str, list[tuple[float, float]]]


class _LiveTrial:
    """The running trial."""

    def __init__(self, folder: Path, identity: str, document: TrialDocument) -> None:
        self.id = identity
        self._document = document
        self._intervals = StreamFollower(folder / TRIALS / (identity + STREAM_SUFFIX))
        self._probes = StreamFollower(folder / PROBES / (identity + STREAM_SUFFIX))
        self._seconds: dict[int, _Second] = {}
        self._kinds: Counter[str] = Counter()
        self._requests = 0
        self._cpu: dict[str, _HostCpu] = {}

    def read(self) -> dict[str, Any]:
        for batch in self._intervals.new_batches():
            with contextlib.suppress(KeyError, ResultError, ValueError):
                self._take(_rows_of(_IntervalRow, batch))
        for batch in self._probes.new_batches():
            with contextlib.suppress(KeyError, TypeError, ValueError):
                _take_cpu(self._cpu, _rows_of(_ProbeRow, batch))
        for second in sorted(self._seconds)[:-SECONDS_SHOWN]:
            del self._seconds[second]
        agents = sorted({agent for second in self._seconds.values() for agent in second.by_agent})
        load = self._document.get("load") or {}
        done = self._done_share()
        elapsed_ns = (max(self._seconds, default=-1) + 1) * 1_000_000_000
        return {
            "id": self.id,
            "what": describe_trial(self._document or {"id": self.id}),
            "times": "response" if load.get("kind") == "open" else "service",
            "done_share": done,
            "left_ns": round(elapsed_ns * (1 - done) / done) if done else None,
            "requests": self._requests,
            "failed": sum(self._kinds.values()),
            "kinds": dict(self._kinds.most_common(8)),
            "agents": agents,
            "seconds": self.course.seconds,
            "cpu": {host: usage.shares[-SECONDS_SHOWN:] for host, usage in self._cpu.items()},
        }

    @property
    def course(self) -> _Course:
        """The seconds read so far."""
        return _course_of(self._seconds, self._cpu)

    def _done_share(self) -> float | None:
        """Return the completed share of the trial; None if its end is unknown."""
        stop = self._document.get("stop") or {}
        times = self._document.get("iterations") or 1
        shares = []
        if duration_ns := stop.get("duration_ns"):
            outside_ns = self._document.get("warm_up_ns", 0) + self._document.get("cool_down_ns", 0)
            elapsed_ns = (max(self._seconds, default=-1) + 1) * 1_000_000_000
            shares.append(elapsed_ns / ((duration_ns + outside_ns) * times))
        if requests := stop.get("requests"):
            shares.append((self._requests + sum(self._kinds.values())) / (requests * times))
        return min(1.0, max(shares)) if shares else None

    def _take(self, rows: Iterable["_IntervalRow"]) -> None:
        for row in rows:
            self._seconds.setdefault(row.second, _Second(row.second)).take(row)
            if row.outcome == "ok":
                self._requests += row.requests
            elif row.outcome not in NO_FAILURES:
                self._kinds[plain(row.outcome)] += row.requests


def _take_cpu(cpu: dict[str, "_HostCpu"], rows: Iterable["_ProbeRow"]) -> None:
    readings: dict[tuple[str, int], list[_ProbeRow]] = {}
    for row in rows:
        if row.probe == "cpu":
            readings.setdefault((row.host, row.time_unix_ns), []).append(row)
    for (host, time_ns), of_host in readings.items():
        cpu.setdefault(plain(host), _HostCpu()).take(time_ns, of_host)


def _course_of(seconds: Mapping[int, "_Second"], cpu: Mapping[str, "_HostCpu"]) -> _Course:
    shown = sorted(seconds)[-SECONDS_SHOWN:]
    return _Course(
        seconds=[seconds[second].as_json() for second in shown],
        cpu={host: of_host.shares[-SECONDS_SHOWN:] for host, of_host in cpu.items()},
    )


Encoded = bytes
"""A histogram, as the load generator encodes it."""


class _IntervalRow(NamedTuple):
    """The shown columns of a row of intervals."""

    second: int
    stage: str
    outcome: str
    agent: str
    requests: int
    bytes: int
    response: Encoded | None
    service: Encoded | None


class _ProbeRow(NamedTuple):
    """One reading of a probe."""

    probe: str
    host: str
    time_unix_ns: int
    subject: str
    metric: str
    value: float


Row = TypeVar("Row", _IntervalRow, _ProbeRow)


def _rows_of(kind: type[Row], batch: _loadgen.Table) -> list[Row]:
    """Return the rows of a table; KeyError if it lacks a column."""
    return [kind(*values) for values in zip(*(batch[name] for name in kind._fields), strict=True)]


class _Second:
    """The work of one second over all load hosts."""

    def __init__(self, second: int) -> None:
        self.second = second
        self.stage = ""
        self.failed = 0
        self.bytes = 0
        self.by_agent: Counter[str] = Counter()
        self._times = _loadgen.Histogram()
        self._quantiles: tuple[int, int] | None = None

    def take(self, row: _IntervalRow) -> None:
        self.stage = row.stage
        if row.outcome == "ok":
            self._take_good(row)
        elif row.outcome not in NO_FAILURES:
            self.failed += row.requests

    def _take_good(self, row: _IntervalRow) -> None:
        self.by_agent[plain(row.agent)] += row.requests
        self.bytes += row.bytes
        # Requests have a due time, and thus a response time, only under open load.
        times = row.response or row.service
        if times:
            self._times.add(times)
            self._quantiles = None

    def as_json(self) -> dict[str, Any]:
        if self._quantiles is None:
            has = self._times.count > 0
            self._quantiles = (
                (self._times.quantile(0.5), self._times.quantile(0.99)) if has else (0, 0)
            )
        p50, p99 = self._quantiles
        return {
            "second": self.second,
            "stage": self.stage,
            "requests": self.by_agent.total(),
            "failed": self.failed,
            "bytes": self.bytes,
            "p50_ns": p50 or None,
            "p99_ns": p99 or None,
            "agents": dict(self.by_agent),
        }


class _HostCpu:
    """A host's CPU share between two readings, of the cores available to the load."""

    def __init__(self) -> None:
        self.shares: list[tuple[float, float]] = []
        self._begun_ns = 0
        self._before: tuple[float, float] | None = None

    def take(self, time_ns: int, rows: Iterable[_ProbeRow]) -> None:
        rows = list(rows)
        allowed = {row.subject for row in rows if row.metric == "allowed"}
        kinds = [row for row in rows if row.metric.endswith("_ns") and row.subject in allowed]
        total = sum(row.value for row in kinds)
        idle = sum(row.value for row in kinds if row.metric in IDLE)
        if self._before is None:
            self._begun_ns = time_ns
        elif total > self._before[0]:
            share = 1 - (idle - self._before[1]) / (total - self._before[0])
            second = round((time_ns - self._begun_ns) / 1e9, 2)
            self.shares.append((second, round(min(1.0, max(0.0, share)), 4)))
        self._before = (total, idle)


def _ended(record: Record) -> dict[str, Any]:
    """Return the work of the measured time, as the report counts it."""
    counts: Counter[str] = Counter()
    columns = (record.intervals[name] for name in ("stage", "outcome", "requests"))
    for stage, outcome, requests in zip(*columns, strict=True):
        if stage == "measure":
            counts[outcome] += requests
    seconds = (
        sum(
            max(0, entry["measure_end_ns"] - entry["measure_start_ns"])
            for entry in record.summary.get("iterations") or ()
        )
        / 1e9
    )
    return {
        "requests": counts["ok"],
        "failed": sum(count for kind, count in counts.items() if kind not in ("ok", *NO_FAILURES)),
        "rate": counts["ok"] / seconds if seconds > 0 else None,
        "state": record.summary.get("state") or "",
    }


class StreamFollower:
    """Tracks up to which whole batch a stream was read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0
        self._inode = -1
        self._schema: Schema | None = None

    def new_batches(self) -> Iterator[Table]:
        """Yield the batches added since the last call; none for a missing or truncated stream."""
        try:
            size = regular_file.check(self.path)
            inode = os.stat(self.path).st_ino
            if size < self._offset or inode != self._inode:
                self._offset, self._schema, self._inode = 0, None, inode
            reader = StreamReader(
                self.path, BATCH_BYTES_MAX, offset=self._offset, schema=self._schema
            )
        except OSError:
            return
        begin = self._offset
        # An incomplete batch is left for the next call, which continues from here.
        for batch in reader:
            self._offset, self._schema = begin + reader.read_bytes, reader.schema
            yield batch
        self._offset, self._schema = begin + reader.read_bytes, reader.schema
