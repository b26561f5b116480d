"""What a run does now, read from its folder alone: rates, times, failures and CPU by second."""

import contextlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from loadstone import _loadgen, regular_file
from loadstone._loadgen import Schema, StreamReader, Table
from loadstone.campaign.parameters import describe_parameters
from loadstone.documents.manifest import Manifest
from loadstone.documents.summary import Summary
from loadstone.documents.trial import TrialDocument
from loadstone.errors import LoadstoneError, ResultError
from loadstone.results.documents import check_record
from loadstone.results.files.tables import BATCH_BYTES_MAX, STREAM_SUFFIX
from loadstone.results.layout import (
    PARTIAL_SUFFIX,
    PROBES,
    RECORD_SUFFIX,
    TRIALS,
    plain,
    read_manifest,
    read_plain,
)

SECONDS_SHOWN = 300
FINISHED_SHOWN = 12
IDLE = ("idle_ns", "iowait_ns")


class LiveRun:
    """Follows one run; asked again, it reads only what has come since."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._plan: dict[str, TrialDocument] = {}
        self._trial: _LiveTrial | None = None
        self._finished: dict[str, dict[str, Any]] = {}

    def read(self) -> dict[str, Any]:
        """Return the state of things as JSON holds it."""
        trials = self.folder / TRIALS
        names = {path.name for path in trials.iterdir()} if trials.is_dir() else set()
        done = sorted(
            name.removesuffix(RECORD_SUFFIX)
            for name in names
            if name.endswith(RECORD_SUFFIX) and not name.endswith(PARTIAL_SUFFIX)
        )
        begun = sorted(
            name.removesuffix(STREAM_SUFFIX) for name in names if name.endswith(STREAM_SUFFIX)
        )
        now = next((one for one in reversed(begun) if one not in set(done)), None)
        unknown = not self._plan or (now is not None and now not in self._plan)
        if unknown:
            # A search adds trials as it goes.
            manifest: Manifest = plain(read_manifest(self.folder))
            self._plan = {one["id"]: one for one in manifest["plan"]}
        if now is None:
            self._trial = None
        elif self._trial is None or self._trial.id != now:
            self._trial = _LiveTrial(self.folder, now, self._plan.get(now) or {})
        return {
            "planned": len(self._plan),
            "done": len(done),
            "trial": self._trial.read() if self._trial is not None else None,
            "finished": [self._finished_words(one) for one in reversed(done[-FINISHED_SHOWN:])],
        }

    def _finished_words(self, trial: str) -> dict[str, Any]:
        if trial not in self._finished:
            words: dict[str, Any] = {"what": trial_words(self._plan.get(trial) or {"id": trial})}
            try:
                path = self.folder / TRIALS / (trial + RECORD_SUFFIX)
                words |= _ended(check_record(path, read_plain(path))["summary"])
            except (LoadstoneError, LookupError):
                words["problem"] = "its record cannot be read"
            self._finished[trial] = words
        return self._finished[trial]


class _LiveTrial:
    """The trial that runs."""

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
                self._take_probes(_rows_of(_ProbeRow, batch))
        for second in sorted(self._seconds)[:-SECONDS_SHOWN]:
            del self._seconds[second]
        shown = [self._seconds[second] for second in sorted(self._seconds)]
        agents = sorted({agent for one in shown for agent in one.by_agent})
        load = self._document.get("load") or {}
        return {
            "id": self.id,
            "what": trial_words(self._document or {"id": self.id}),
            "times": "response" if load.get("kind") == "open" else "service",
            "duration_ns": (self._document.get("stop") or {}).get("duration_ns"),
            "requests": self._requests,
            "failed": sum(self._kinds.values()),
            "kinds": dict(self._kinds.most_common(8)),
            "agents": agents,
            "seconds": [one.as_json() for one in shown],
            "cpu": {host: one.shares[-SECONDS_SHOWN:] for host, one in self._cpu.items()},
        }

    def _take(self, rows: Iterable["_IntervalRow"]) -> None:
        for row in rows:
            second = self._seconds.setdefault(row.second, _Second(row.second))
            second.stage = row.stage
            if row.outcome == "ok":
                self._requests += row.requests
                second.take_good(row)
            elif row.outcome != "unwritten":
                self._kinds[plain(row.outcome)] += row.requests
                second.failed += row.requests

    def _take_probes(self, rows: Iterable["_ProbeRow"]) -> None:
        readings: dict[tuple[str, int], list[_ProbeRow]] = {}
        for row in rows:
            if row.probe == "cpu":
                readings.setdefault((row.host, row.time_unix_ns), []).append(row)
        for (host, time_ns), own in readings.items():
            self._cpu.setdefault(plain(host), _HostCpu()).take(time_ns, own)


Encoded = bytes
"""A histogram, as the load generator encodes it."""


class _IntervalRow(NamedTuple):
    """What is shown of a row of intervals."""

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
    """Return the rows of a table; KeyError where it lacks a column."""
    return [kind(*values) for values in zip(*(batch[name] for name in kind._fields), strict=True)]


class _Second:
    """What was done in one second, over all load hosts."""

    def __init__(self, second: int) -> None:
        self.second = second
        self.stage = ""
        self.failed = 0
        self.bytes = 0
        self.by_agent: Counter[str] = Counter()
        self._times = _loadgen.Histogram()
        self._quantiles: tuple[int, int] | None = None

    def take_good(self, row: _IntervalRow) -> None:
        self.by_agent[plain(row.agent)] += row.requests
        self.bytes += row.bytes
        # Only under open load has a request a time at which it was due.
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
    """How busy a host's cores were between two readings, of those that the load may use."""

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


def trial_words(document: TrialDocument) -> str:
    """Return what a trial is, in a few words."""
    target = (document.get("target") or {}).get("name")
    words = [str(one) for one in (target, document.get("phase")) if one]
    if document.get("measured"):
        words.append(f"round {document.get('round', 1)}")
    if document.get("block", 1) > 1:
        words.append(f"block {document['block']}")
    parameters = (document.get("case") or {}).get("parameters") or {}
    said = ", ".join(filter(None, (" ".join(words), describe_parameters(parameters))))
    return said or f"trial {document.get('id', '')}"


def _ended(summary: Summary) -> dict[str, Any]:
    times = summary.get("iterations") or []
    seconds = sum(max(0, entry["end_ns"] - entry["start_ns"]) for entry in times) / 1e9
    failed = summary.get("failed", 0)
    good = summary.get("requests", 0) - failed - summary.get("unwritten", 0)
    return {
        "requests": good,
        "failed": failed,
        "rate": good / seconds if seconds > 0 else None,
        "state": summary.get("state") or "",
    }


class StreamFollower:
    """Remembers how far a stream was read, by whole batches."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0
        self._inode = -1
        self._schema: Schema | None = None

    def new_batches(self) -> Iterator[Table]:
        """Yield the batches that came since; a stream that is not there, or is cut, yields less."""
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
        # What has not been written whole is left: the next call begins where this one ended.
        for batch in reader:
            self._offset, self._schema = begin + reader.read_bytes, reader.schema
            yield batch
        self._offset, self._schema = begin + reader.read_bytes, reader.schema
