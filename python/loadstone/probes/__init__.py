"""Readings of this host while the load runs, once a second on the load's clock.

A probe is one module and one line in PROBES. It keeps its files open. Counters are recorded as the
kernel gives them; readers compute differences. Missing sources are recorded as absent, with the
reason, and never as zero.
"""

import contextlib
import socket
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Protocol, Self

from loadstone._loadgen import Table
from loadstone.probes import cgroup, cpu, disk, memory, network, pressure, process, sockets, tcp
from loadstone.probes.proc import AbsentError
from loadstone.results.record import PROBE_SCHEMA
from loadstone.steady_clock import SteadyClock

__all__ = ["PROBES", "AbsentError", "Collector", "Probe", "read_once"]

Reading = tuple[str, str, float]
"""Subject (a core, a card, a disk, or empty), metric with its unit, value."""

PERIOD_NS = 1_000_000_000


class Probe(Protocol):
    """A source of readings. Opening raises `AbsentError` if this host does not have it."""

    SUMMARY: str

    def read(self) -> Iterable[Reading]:
        """Return the values of this moment."""

    def close(self) -> None:
        """Close what was opened."""


def read_once(kind: type[Probe]) -> dict[str, float]:
    """Return one reading of a probe with one subject; empty if this host does not have it."""
    try:
        probe = kind()
    except AbsentError:
        return {}
    try:
        return {metric: value for _, metric, value in probe.read()}
    finally:
        probe.close()


PROBES: Mapping[str, type[Probe]] = {
    "cpu": cpu.Cpu,
    "process": process.Process,
    "sockets": sockets.Sockets,
    "network": network.Network,
    "tcp": tcp.Tcp,
    "memory": memory.Memory,
    "pressure": pressure.Pressure,
    "cgroup": cgroup.Cgroup,
    "disk": disk.Disk,
}


class Collector:
    """Reads all probes once a second, from one thread, until it is left.

    The thread's own cost is a reading too: metric `collector_cpu_ns` of probe `process`.
    """

    def __init__(
        self,
        wanted: Mapping[str, type[Probe]] | None = None,
        host: str | None = None,
        clock: SteadyClock | None = None,
    ) -> None:
        """Collect readings under a `host` name, with times of `clock`.

        Times do not change if the host's clock is set meanwhile.
        """
        self._clock = clock or SteadyClock()
        self.absent: dict[str, str] = {}
        self._wanted = PROBES if wanted is None else wanted
        self._host = host or socket.gethostname()
        self._probes: dict[str, Probe] = {}
        self._batches: list[Table] = []
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="probes", daemon=True)

    def __enter__(self) -> Self:
        for name, kind in self._wanted.items():
            try:
                self._probes[name] = kind()
            except AbsentError as reason:
                self.absent[name] = str(reason)
        self._read()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._read()
        for probe in self._probes.values():
            probe.close()

    def take(self) -> list[Table]:
        """Return what was read since the last call."""
        with self._lock:
            batches, self._batches = self._batches, []
        return batches

    def _run(self) -> None:
        due_ns = time.monotonic_ns() + PERIOD_NS
        while not self._ended.wait(max(0, due_ns - time.monotonic_ns()) / 1e9):
            self._read()
            # On absolute ticks, so that the readings do not drift against the load's seconds.
            due_ns += PERIOD_NS * max(1, -((due_ns - time.monotonic_ns()) // PERIOD_NS))

    def _read(self) -> None:
        if not self._wanted:
            return
        rows: list[tuple[str, Reading]] = []
        now_ns = self._clock.unix_ns()
        for name, probe in list(self._probes.items()):
            try:
                rows += [(name, reading) for reading in probe.read()]
            except OSError as error:
                # If a card or a group disappears, only its probe ends, not the run.
                self._drop(name, f"stopped: {error.strerror}")
            except (ValueError, LookupError) as error:
                # The same if a kernel has an unknown format.
                self._drop(name, f"not understood: {error!r}")
        rows.append(("process", ("", "collector_cpu_ns", float(time.thread_time_ns()))))
        batch = PROBE_SCHEMA.of_columns(
            [
                [now_ns] * len(rows),
                [self._host] * len(rows),
                [name for name, _ in rows],
                [reading[0] for _, reading in rows],
                [reading[1] for _, reading in rows],
                [reading[2] for _, reading in rows],
            ]
        )
        with self._lock:
            self._batches.append(batch)

    def _drop(self, name: str, reason: str) -> None:
        self.absent[name] = reason
        with contextlib.suppress(OSError):
            self._probes.pop(name).close()
