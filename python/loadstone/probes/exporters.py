"""Metrics of exporters at the target: a separate process reads them, this module collects them."""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from loadstone._loadgen import StreamReader, Table
from loadstone.campaign.schema.target_probe import PrometheusProbe

if TYPE_CHECKING:
    from loadstone.probes.scraper import ExporterDocument

PREFIX = "prometheus:"
"""The prefix of these probes' names in tables."""

QUIT_S = 2.0
BATCHES_MAX = 10_000
RECENT = 4
"""Number of readings of each exporter that are kept between trials."""

DISK_REQUESTS = "node_disk_io_now"
SOON_NS = 5_000_000_000
"""The longest that a trial waits for a new reading, in nanoseconds; exporters with longer intervals
are not used for the current state.
"""

INHERITED = (
    "HOME",
    "LANG",
    "LC_",
    "LD_",
    "PATH",
    "PYTHON",
    "SSL_CERT_",
    "TMPDIR",
    "TZ",
    "VIRTUAL_ENV",
)
"""Environment variables that the scraper inherits, without secrets."""


class Exporters:
    """Starts the scraper and collects its rows; it never blocks its caller."""

    def __init__(self, probes: Sequence[PrometheusProbe]) -> None:
        self._probes = probes
        self._process: subprocess.Popen[bytes] | None = None
        self._batches: list[Table] = []
        self._recent: deque[Table] = deque(
            maxlen=RECENT * max(1, sum(len(probe.urls) for probe in probes))
        )
        self._lock = threading.Lock()
        self._reader: threading.Thread | None = None

    def start(self) -> None:
        """Start the scraper, if there are exporters."""
        if not self._probes or self._process is not None:
            return
        self._process = subprocess.Popen(
            [sys.executable, "-m", "loadstone.probes.scraper"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # Ctrl-C must not end it: it stops when its input is closed.
            start_new_session=True,
            env={name: os.environ[name] for name in os.environ if name.startswith(INHERITED)},
        )
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(_document(self._probes))
            self._process.stdin.flush()
        self._reader = threading.Thread(target=self._read, name="exporters", daemon=True)
        self._reader.start()

    def take(self) -> list[Table]:
        """Return what was read since the last call."""
        with self._lock:
            batches, self._batches = self._batches, []
        return batches

    def keep(self, batch: Table) -> None:
        """Keep a batch of rows, one per value of an exporter."""
        with self._lock:
            # Batches are taken during trials only: between them, drop the oldest.
            self._batches = [*self._batches[-BATCHES_MAX:], batch]
            self._recent.append(batch)

    def disk_requests(self, since_unix_ns: int = 0) -> float | None:
        """Return the requests in flight at the busiest disk, from readings after a time.

        None if there was no reading since.
        """
        return self._disk_requests(lambda probe, read_ns: read_ns >= since_unix_ns)

    def disk_requests_due(self) -> float | None:
        """Return the same from the last reading, if the next one is due soon."""
        now_ns = time.time_ns()
        every_ns = {f"{PREFIX}{probe.name}": probe.every_ns for probe in self._probes}

        def is_due(probe: str, read_ns: int) -> bool:
            next_ns = every_ns.get(probe, SOON_NS)
            return next_ns <= SOON_NS and now_ns - read_ns <= 2 * next_ns

        return self._disk_requests(is_due)

    def _disk_requests(self, is_current: Callable[[str, int], bool]) -> float | None:
        with self._lock:
            recent = list(self._recent)
        newest: dict[tuple[str, str], float] = {}
        names = ("time_unix_ns", "probe", "metric", "host", "subject", "value")
        for batch in recent:
            for read_ns, probe, metric, host, subject, value in zip(
                *(batch[name] for name in names), strict=True
            ):
                if metric == DISK_REQUESTS and is_current(probe, read_ns):
                    newest[host, subject] = value
        return max(newest.values(), default=None)

    def stop(self) -> None:
        """End the scraper."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            process.wait(QUIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if self._reader is not None:
            self._reader.join(QUIT_S)

    def _read(self) -> None:
        process = self._process
        assert process is not None
        assert process.stdout is not None
        with process.stdout as source:
            # Ends with the stream, which may be truncated when the process is killed.
            for batch in StreamReader.of_descriptor(source.fileno()):
                self.keep(batch)


class Readings:
    """Counts the readings of one trial, and its gaps."""

    def __init__(self) -> None:
        self._read: dict[str, int] = {}
        self._gaps: dict[str, int] = {}
        self._reasons: dict[str, str] = {}

    def count(self, batch: Table) -> None:
        """Count the readings in some rows."""
        columns = (batch[name] for name in ("metric", "probe", "host", "value", "subject"))
        for metric, probe, host, value, subject in zip(*columns, strict=True):
            if metric != "up" or not probe.startswith(PREFIX):
                continue
            key = f"{probe} {host}"
            self._read[key] = self._read.get(key, 0) + 1
            if not value:
                self._gaps[key] = self._gaps.get(key, 0) + 1
                self._reasons[key] = subject

    def gaps(self) -> dict[str, str]:
        """Return the number of gaps of each exporter, with the reason of the last one."""
        return {
            key: f"{count} of {self._read[key]} readings failed: {self._reasons[key]}"
            for key, count in self._gaps.items()
        }


def _document(probes: Iterable[PrometheusProbe]) -> bytes:
    entries: list[ExporterDocument] = [
        {
            "name": probe.name,
            "urls": probe.urls,
            "metrics": probe.metrics,
            "every_ns": probe.every_ns,
            "timeout_ns": probe.timeout_ns or probe.every_ns,
            "answer_max_bytes": probe.answer_max_bytes,
            "series_max": probe.series_max,
            "bearer_token": _by_value(probe.bearer_token),
            "ca_file": probe.ca_file,
        }
        for probe in probes
    ]
    return json.dumps(entries).encode() + b"\n"


def _by_value(reference: dict[str, str] | None) -> dict[str, str] | None:
    """Return a token of the environment by value, as the scraper does not inherit it."""
    if reference is None or "env" not in reference:
        return reference
    value = os.environ.get(reference["env"])
    return None if value is None else {"value": value}
