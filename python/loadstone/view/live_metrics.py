"""Metrics of a running run, for Prometheus to scrape.

They are read from the run folder, like those of the live page: load threads and record do not
depend on them, and a scraper that stays away costs nothing.
"""

import contextlib
import io
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any, NamedTuple
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.registry import Collector

from loadstone import _loadgen
from loadstone.documents.outcomes import UNWRITTEN
from loadstone.documents.trial import TrialDocument
from loadstone.errors import InputError, LoadstoneError
from loadstone.results.files.tables import STREAM_SUFFIX
from loadstone.results.layout import TRIALS, plain, plain_manifest, read_manifest
from loadstone.results.store import read_record
from loadstone.view.live_run import LiveRun, StreamFollower, trials_in

BUCKETS_S = (
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
    1.0, 2.5, 5.0, 10.0, 30.0,
)  # fmt: skip
LABELS = ("target", "phase", "operation")
TIMES = ("response", "service")
SCRAPERS_MAX = 16
IDLE_S = 10.0
"""A scraper's connection is closed after this many seconds without traffic."""
SCRAPE_S = 60.0
"""The longest that a scrape may take, however slowly its bytes come."""


class Labels(NamedTuple):
    """Labels of a series. Parameters of a sweep are not labels, because their number is
    unlimited.
    """

    target: str
    phase: str
    operation: str


class _Tally:
    """Counts of requests since the start of their trials, warm-up included."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[Labels, str]] = Counter()
        self.bytes: Counter[Labels] = Counter()
        self.times: dict[tuple[Labels, str], _loadgen.Histogram] = {}

    def take(self, document: TrialDocument, intervals: _loadgen.Table) -> None:
        """Add rows of intervals; KeyError if the table lacks a column."""
        target, phase = document["target"]["name"], document["phase"]
        names = ("operation", "outcome", "requests", "bytes", *TIMES)
        for operation, outcome, requests, size, *times in zip(
            *(intervals[name] for name in names), strict=True
        ):
            if outcome == UNWRITTEN:
                continue
            labels = Labels(target, phase, plain(operation or ""))
            self.requests[labels, plain(outcome)] += requests
            if outcome == "ok":
                self.bytes[labels] += size
                for kind, histogram in zip(TIMES, times, strict=True):
                    if histogram:
                        self._histogram(labels, kind).add(histogram)

    def merge(self, other: "_Tally") -> None:
        """Add another tally."""
        self.requests.update(other.requests)
        self.bytes.update(other.bytes)
        for (labels, kind), histogram in other.times.items():
            self._histogram(labels, kind).merge(histogram)

    def _histogram(self, labels: Labels, kind: str) -> _loadgen.Histogram:
        return self.times.setdefault((labels, kind), _loadgen.Histogram())


class RunMetrics(Collector):
    """The metrics of one run folder; each scrape reads only data added since the last one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._live = LiveRun(folder)
        self._plan: dict[str, TrialDocument] = {}
        self._ended = _Tally()
        self._counted: set[str] = set()
        self._running: dict[str, tuple[StreamFollower, _Tally]] = {}
        self._lock = threading.Lock()

    def describe(self) -> list[Any]:
        """Return nothing, so that registering does not read the folder."""
        return []

    def collect(self) -> Iterator[Any]:
        """Yield the current metric families; none if the folder cannot be read."""
        with self._lock, contextlib.suppress(OSError, LoadstoneError):
            yield from [*self._of_run(), *self._of_requests()]

    def _of_run(self) -> Iterator[Any]:
        state, manifest = self._live.read(), read_manifest(self._folder)
        yield InfoMetricFamily(
            "loadstone_live_run",
            "The run.",
            value={
                "run": str(manifest.get("run")),
                "campaign": str(manifest.get("name")),
                "version": str(manifest.get("loadstone")),
            },
        )
        trials = GaugeMetricFamily("loadstone_live_trials", "Trials of the plan.", labels=["state"])
        trials.add_metric(["done"], state["done"])
        trials.add_metric(["planned"], state["planned"])
        yield trials
        if state["left_ns"] is not None:
            yield GaugeMetricFamily(
                "loadstone_live_left_seconds", "Time to the end of the load.",
                value=state["left_ns"] / 1e9,
            )  # fmt: skip
        cpu = GaugeMetricFamily(
            "loadstone_live_cpu_share", "Busy share of a load host's cores.", labels=["host"]
        )
        for host, shares in (state["trial"] or {}).get("cpu", {}).items():
            if shares:
                cpu.add_metric([host], shares[-1][1])
        yield cpu

    def _of_requests(self) -> Iterator[Any]:
        tally = self._read()
        requests = CounterMetricFamily(
            "loadstone_live_requests", "Requests by outcome.", labels=(*LABELS, "outcome")
        )
        for (labels, outcome), count in tally.requests.items():
            requests.add_metric([*labels, outcome], count)
        size = CounterMetricFamily(
            "loadstone_live_payload_bytes", "Payload of successful requests.", labels=LABELS
        )
        for labels, total in tally.bytes.items():
            size.add_metric(labels, total)
        times = HistogramMetricFamily(
            "loadstone_live_request_seconds",
            "Time of successful requests: service time; under open load also response"
            " time, from when each was due.",
            labels=(*LABELS, "time"),
        )
        for (labels, kind), histogram in tally.times.items():
            buckets = [
                (str(bound), histogram.count_at_or_below(round(bound * 1e9))) for bound in BUCKETS_S
            ]
            times.add_metric(
                [*labels, kind],
                [*buckets, ("+Inf", histogram.count)],
                histogram.mean * histogram.count / 1e9,
            )
        yield from (requests, size, times)

    def _read(self) -> _Tally:
        """Return the sum over all trials; ended ones are read from their records."""
        done, begun = trials_in(self._folder)
        for trial in done:
            if trial not in self._counted:
                self._ended.merge(self._of_ended(trial))
                self._counted.add(trial)
        total = _Tally()
        total.merge(self._ended)
        for trial in begun:
            if trial not in self._counted and (document := self._document(trial)):
                path = self._folder / TRIALS / (trial + STREAM_SUFFIX)
                follower, tally = self._running.setdefault(trial, (StreamFollower(path), _Tally()))
                for batch in follower.new_batches():
                    with contextlib.suppress(KeyError, ValueError):
                        tally.take(document, batch)
                total.merge(tally)
        return total

    def _of_ended(self, trial: str) -> _Tally:
        """Return the tally of a trial's record, or of the followed stream if it is unreadable."""
        _, followed = self._running.pop(trial, (None, _Tally()))
        try:
            record, tally = read_record(self._folder, trial), _Tally()
            tally.take(record.trial, record.intervals)
        except (LoadstoneError, LookupError, ValueError):
            return followed
        return tally

    def _document(self, trial: str) -> TrialDocument | None:
        if trial not in self._plan:
            # A search adds trials while it runs.
            manifest = plain_manifest(read_manifest(self._folder))
            self._plan = {document["id"]: document for document in manifest["plan"]}
        return self._plan.get(trial)


class _MetricsServer(ThreadingMixIn, WSGIServer):
    """Serves few scrapers at once, because threads and descriptors are shared with the load."""

    daemon_threads = True

    def __init__(self, family: socket.AddressFamily, address: tuple[str, int]) -> None:
        self.address_family = family
        self._seats = threading.BoundedSemaphore(SCRAPERS_MAX)
        self._deadlines: dict[socket.socket, float] = {}
        super().__init__(address, _MetricsRequest)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a separate thread, or close the connection if too many are open."""
        if self._seats.acquire(blocking=False):
            self._deadlines[request] = time.monotonic() + SCRAPE_S
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer the request and release its slot."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            del self._deadlines[request]
            self._seats.release()

    def service_actions(self) -> None:
        """End scrapes that have taken too long; this is called every half second."""
        for request, deadline in list(self._deadlines.items()):
            if time.monotonic() > deadline:
                # Its thread may have closed it meanwhile.
                with contextlib.suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore scrapers that disconnect."""


class _MetricsRequest(WSGIRequestHandler):
    timeout = IDLE_S

    def log_message(self, *_: Any) -> None:
        """Log nothing."""

    def get_stderr(self) -> Any:
        """Keep errors caused by a scraper's headers off the run's screen."""
        return io.StringIO()


def listener(address: str) -> _MetricsServer:
    """Return a server that listens at an address (HOST:PORT) but does not answer yet.

    Raises InputError if it cannot listen there.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise InputError.of_value(address, "an address to listen at: HOST:PORT")
    try:
        facts = socket.getaddrinfo(
            host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, _, _, _, endpoint = facts[0]
        return _MetricsServer(family, (str(endpoint[0]), int(port)))
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a valid host name"
        raise InputError(
            f"metrics cannot be served at {address}: {reason}",
            "name an address of this host and a free port; port 0 takes one",
        ) from error


@contextlib.contextmanager
def serving_metrics(folder: Path, address: str) -> Iterator[str]:
    """Serve the metrics of a run at an address (HOST:PORT), and yield their URL.

    Raises InputError if it cannot listen there. Clients are not authenticated.
    """
    server = listener(address)
    registry = CollectorRegistry()
    registry.register(RunMetrics(folder))
    server.set_app(make_wsgi_app(registry))
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        yield f"http://{address.rpartition(':')[0]}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
