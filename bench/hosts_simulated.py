"""Measures the controller's cost of many agents, fed with interval streams in wire format.

    python bench/hosts_simulated.py --agents 100 1000 --seconds 30

Each agent sends once a second: four operations, each with three histograms, as the load generator
makes them. The measurement covers the controller's own thread: decoding messages, counting, merging
for the live view, and writing to the run folder, but not TLS and the loop that reads sockets.
"""

import argparse
import json
import queue
import random
import resource
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadstone._loadgen import Histogram, Table
from loadstone.documents.summary import Summary
from loadstone.hosts import executor as of_hosts
from loadstone.hosts import messages
from loadstone.hosts.carrier import HostMessage
from loadstone.hosts.clock import Clock
from loadstone.hosts.executor import OnHosts
from loadstone.hosts.stream import pack, unpack
from loadstone.results.record import INTERVAL_SCHEMA
from loadstone.results.writer import RunWriter, TrialWriter
from loadstone.steady_clock import SteadyClock

OPERATIONS = ("get", "put", "head", "delete")
VARIANTS = 8
TIMES = 2_000
"""Number of response times in each histogram of a second."""

EMPTY: Summary = {"started_unix_ns": 0, "ended_unix_ns": 1, "state": "finished", "reason": None,
         "requests": 0, "failed": 0, "bytes": 0, "iterations": []}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of a number of agents, for each second of load."""

    agents: int
    cpu_s: float
    message_bytes: int
    rss_mib: float


class Streams:
    """Replaces the carrier: hosts that send recorded messages."""

    def __init__(self, hosts: Sequence[str], seconds: int, rows: Sequence[Sequence[bytes]]) -> None:
        """`rows` are packed batches of the first host: for each variant, one per second."""
        self._recorded = hosts[0].encode()
        self.hosts = frozenset(hosts)
        self.inbox: Any = self
        self.cpu_s = 0.0
        self.clock = SteadyClock()
        self._seconds = seconds
        self._order = tuple(hosts)
        self._ready: queue.SimpleQueue[HostMessage] = queue.SimpleQueue()
        self._attempt = 0
        self._packed = [
            [_packed(batch, second) for second, batch in enumerate(variant)] for variant in rows
        ]
        self._next = 0

    @property
    def message_bytes(self) -> int:
        """The length of one message in bytes."""
        return len(self._packed[0][0])

    def ask(self, hosts: Iterable[str], asked: messages.FromController) -> None:
        """Answer at once that a host is ready."""
        if isinstance(asked, messages.Trial):
            self._attempt = asked.attempt
            for host in hosts:
                self._ready.put(
                    HostMessage(host=host, name="ready", body={"attempt": self._attempt})
                )

    def qsize(self) -> int:
        """Return the number of queued messages: one per host, for one second each."""
        return len(self._order)

    def get(self, timeout: float = 0) -> HostMessage:
        """Return the next message: all hosts for one second after the other, then their ends."""
        if not self._ready.empty():
            return self._ready.get()
        second, index = divmod(self._next, len(self._order))
        self._next += 1
        host = self._order[index]
        if second < self._seconds:
            variant = self._packed[index % len(self._packed)]
            # Each host only reports its own rows; names have equal length.
            name, body = unpack(variant[second].replace(self._recorded, host.encode()))
            return HostMessage(host=host, name=name, body={**body, "attempt": self._attempt})
        if second == self._seconds:
            end = messages.End(attempt=self._attempt, absent_probes={}, summary=EMPTY,
                               clock_step_ns=0, left=None)  # fmt: skip
            return HostMessage(host=host, name="end", body=messages.body(end))
        raise queue.Empty

    def get_nowait(self) -> HostMessage:
        """Return the next message; at most as many as hosts send in half a second."""
        if self._ready.empty() and self._next % max(1, len(self._order) // 2) == 0:
            raise queue.Empty
        return self.get()

    def read_clocks(self, hosts: Iterable[str]) -> dict[str, Clock]:
        """Return clocks equal to the controller's."""
        return {host: Clock(offset_ns=0, bound_ns=1, round_trip_ns=2) for host in hosts}

    def forget(self) -> None:
        """Do nothing."""

    def drop(self, host: str) -> None:
        """Drop no host: none is lost here."""


class CountingOutput:
    """The output of the trial, and its record: counts and writes the interval rows."""

    def __init__(self, trial: TrialWriter) -> None:
        """Write into a trial's record."""
        self.rows = 0
        self.lives = 0
        self.trial = self
        self._record = trial

    def begin(self, stop: object) -> None:
        """Ignore the function that stops a trial."""

    def write_intervals(self, rows: Table) -> None:
        """Write rows as a run does."""
        self.rows += rows.num_rows
        self._record.write_intervals(rows)

    def progress(self, live: object) -> None:
        """Count the updates of the live view."""
        self.lives += 1

    def probes(self) -> None:
        """Write no probes."""


def feed(agents: int, seconds: int, folder: Path) -> Cost:
    """Feed the streams of this many agents to a controller, as fast as it accepts them."""
    hosts = [f"client{number:05}" for number in range(1, agents + 1)]
    dice = random.Random(1)
    rows = [recorded(hosts[0], seconds, dice) for _ in range(VARIANTS)]
    streams = Streams(hosts, seconds, rows)
    document = {
        "id": "0001", "phase": "mix", "hosts": agents, "measured": True, "round": 1,
        "load": {"kind": "closed", "clients": agents}, "stop": {"duration_ns": seconds * 10**9},
        "target": {"name": "t", "driver": "null"},
        "on_error": {"action": "continue", "limit": None},
    }  # fmt: skip
    with RunWriter.create(folder, {"run": "1" * 32, "name": "simulated", "plan": [document]}) as to:
        # Each half second of the streams is one turn, with an update of the live view, as in a run.
        of_hosts.TELL_S = 0.0
        output = CountingOutput(to.begin_trial(document))
        executor: Any = OnHosts(streams, hosts, None, stops_on_loss=False)  # type: ignore[arg-type]
        began = time.thread_time()
        summary = executor.run(document, output)
        cpu_s = time.thread_time() - began
    wanted = agents * seconds * len(OPERATIONS)
    assert output.rows == wanted, f"{output.rows} rows of {wanted}"
    assert all(host["state"] == "finished" for host in summary["hosts"])
    assert output.lives >= 2 * seconds
    return Cost(
        agents=agents,
        cpu_s=cpu_s / seconds,
        message_bytes=streams.message_bytes,
        rss_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )


def recorded(agent: str, seconds: int, dice: random.Random) -> list[bytes]:
    """Return the packed rows of an agent, second by second."""
    return [
        INTERVAL_SCHEMA.of_rows(
            [_row(agent, operation, second, dice) for operation in OPERATIONS]
        ).pack()
        for second in range(seconds)
    ]


def _row(agent: str, operation: str, second: int, dice: random.Random) -> dict[str, Any]:
    times = {}
    for name in ("response", "service", "first_byte"):
        recorder = Histogram()
        for _ in range(TIMES):
            recorder.record(int(dice.lognormvariate(13.8, 0.7)))
        times[name] = recorder.encode()
    return {
        "agent": agent, "stage": "measure", "iteration": 1, "operation": operation,
        "outcome": "ok", "second": second, "requests": TIMES, "objects": TIMES,
        "bytes": TIMES * 4096, "lag": None, **times,
    }  # fmt: skip


def _packed(rows: bytes, second: int) -> bytes:
    live = {
        "elapsed_ns": (second + 1) * 10**9, "iteration": 1, "iterations": 1, "stage": "measure",
        "requests": TIMES, "failed": 0, "unwritten": 0, "lost_races": 0, "bytes": 0,
        "requests_last_s": TIMES, "bytes_last_s": 0,
        "p50_ns": 1, "p99_ns": 2, "progress": 0.5,
    }  # fmt: skip
    return pack("figures", {"rows": rows, "live": json.dumps(live)})


def main(words: Sequence[str]) -> None:
    """Print a row for each number of agents."""
    asked = argparse.ArgumentParser()
    asked.add_argument("--agents", type=int, nargs="+", default=[100, 1000])
    asked.add_argument("--seconds", type=int, default=30)
    chosen = asked.parse_args(words)
    print("agents  of a core  per agent  message    memory")
    for agents in chosen.agents:
        with tempfile.TemporaryDirectory() as folder:
            cost = feed(agents, chosen.seconds, Path(folder) / "run")
        print(
            f"{cost.agents:6}  {cost.cpu_s:8.1%}  {cost.cpu_s / agents * 1e6:6.0f} us"
            f"  {cost.message_bytes / 1024:4.1f} KiB  {cost.rss_mib:5.0f} MiB"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
