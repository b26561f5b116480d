"""Cells add up agents exactly: from hosts' messages through the record to the analysis."""

import queue
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from loadstone._loadgen import Histogram
from loadstone.analysis import analyse
from loadstone.analysis.cells.cell import Cell
from loadstone.campaign.parse import parse_campaign
from loadstone.campaign.planning.plan import make_plan
from loadstone.documents.python_types import Live
from loadstone.execution import runner
from loadstone.execution.executors import EXECUTORS
from loadstone.hosts import messages
from loadstone.hosts.carrier import HostMessage
from loadstone.hosts.clock import Clock
from loadstone.hosts.executor import OnHosts
from loadstone.hosts.merging import SUMS
from loadstone.results.record import INTERVAL_SCHEMA
from loadstone.results.store import read_run
from loadstone.results.writer import RunWriter
from loadstone.steady_clock import SteadyClock

SECOND_NS = 1_000_000_000
SECONDS = 4
HOSTS_MAX = 5

CAMPAIGN = """\
name: pooled
targets: {t: {driver: "null"}}
hosts: {launch: local, count: HOSTS}
dataset: {objects: 1000, size: 4KiB}
load: {threads: 10, per: total}
phases: [{mix: {get: 0.5, put: 0.5}, duration: 4s}]
"""


@dataclass(frozen=True, slots=True)
class Request:
    """One request that a host made."""

    host: int
    second: int
    operation: str
    outcome: str
    time_ns: int


@dataclass(frozen=True, slots=True)
class Span:
    """From when to when a host was at work, and when the first of its clients had no more of it."""

    begin_ns: int
    first_done_ns: int
    end_ns: int


REQUESTS = st.lists(
    st.builds(
        Request,
        st.integers(0, HOSTS_MAX - 1),
        st.integers(0, SECONDS - 1),
        st.sampled_from(["get", "put"]),
        st.sampled_from(["ok", "ok", "ok", "timeout"]),
        st.integers(1_000, 10 * SECOND_NS),
    ),
    min_size=1,
    max_size=150,
)
TIMES = st.lists(
    st.tuples(
        st.integers(0, SECOND_NS // 5),
        st.integers(SECONDS * SECOND_NS, SECONDS * SECOND_NS + SECOND_NS // 5),
    ),
    min_size=HOSTS_MAX,
    max_size=HOSTS_MAX,
)
"""Start and end of each host."""


@settings(max_examples=10, deadline=None, phases=[Phase.reuse, Phase.generate])
@given(requests=REQUESTS, hosts=st.integers(2, HOSTS_MAX), times=TIMES, dice=st.randoms())
def test_hosts_leave_the_cells_that_one_recorder_of_all_requests_would(
    requests: list[Request], hosts: int, times: list[tuple[int, int]], dice: Any
) -> None:
    spans = [Span(late, end, end) for late, end in times[:hosts]]
    of_hosts: list[list[Request]] = [[] for _ in range(hosts)]
    for request in requests:
        of_hosts[request.host % hosts].append(request)
    many = cells(of_hosts, spans, dice)
    whole = Span(
        begin_ns=min(span.begin_ns for span in spans),
        first_done_ns=min(span.first_done_ns for span in spans),
        end_ns=max(span.end_ns for span in spans),
    )
    alone = cells([requests], [whole], dice)
    assert many == alone
    assert sum(cell["requests"] for cell in many) == len(requests)


def cells(
    of_hosts: Sequence[Sequence[Request]], spans: Sequence[Span], dice: Any
) -> list[dict[str, Any]]:
    """Run a trial whose hosts say that they have made these requests, and read its record."""
    text = CAMPAIGN.replace("HOSTS", str(len(of_hosts)))
    campaign = parse_campaign(text, environ={})
    assert campaign.hosts is not None
    plan = make_plan(campaign, run="5" * 32)
    names = campaign.hosts.all_names
    recorded = RecordedHosts(dict(zip(names, map(rows_of, of_hosts), strict=True)), spans, dice)
    executor = OnHosts(recorded, names, EXECUTORS["operations"], stops_on_loss=True)  # type: ignore[arg-type]
    manifest = {"run": plan.run, "name": "pooled", "plan": plan.documents(), "seed": plan.seed,
                **runner.circumstances()}  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        with RunWriter.create(path, manifest) as writer:
            runner.execute(plan, writer, lambda event: None, table={"operations": executor})
        findings = analyse(read_run(path))
    return [figures(cell) for cell in findings.iterations if cell.operation in ("get", "put")]


def figures(cell: Cell) -> dict[str, Any]:
    """Return the cell of requests and times."""
    names = ("phase", "operation", "requests", "good", "objects", "bytes", "errors", "duration_s",
             "requests_per_s", "bytes_per_s", "first_done_s", "last_done_s", "response", "service",
             "first_byte", "spread_of_seconds")  # fmt: skip
    return {name: getattr(cell, name) for name in names}


def rows_of(requests: Iterable[Request]) -> dict[int, list[dict[str, Any]]]:
    """Return the rows of a host's recorder, by second."""
    times: dict[tuple[int, str, str], list[int]] = {}
    for request in requests:
        times.setdefault((request.second, request.operation, request.outcome), []).append(
            request.time_ns
        )
    rows: dict[int, list[dict[str, Any]]] = {}
    for (second, operation, outcome), times_ns in times.items():
        recorded = Histogram()
        for time_ns in times_ns:
            recorded.record(time_ns)
        encoded = recorded.encode()
        row = {
            "stage": "measure", "iteration": 1, "operation": operation, "outcome": outcome,
            "second": second, "requests": len(times_ns), "objects": len(times_ns),
            "bytes": 4096 * len(times_ns), "response": encoded, "service": encoded,
            "first_byte": encoded, "lag": None,
        }  # fmt: skip
        rows.setdefault(second, []).append(row)
    return rows


class RecordedHosts:
    """The place of the carrier: hosts whose seconds come in any order between each other."""

    def __init__(
        self,
        rows: Mapping[str, Mapping[int, Sequence[Mapping[str, Any]]]],
        spans: Sequence[Span],
        dice: Any,
    ) -> None:
        """`spans` are those of the hosts, in their order."""
        self.hosts = frozenset(rows)
        self.clock = SteadyClock()
        self.inbox: queue.Queue[HostMessage] = queue.Queue()
        self._rows = rows
        self._spans = dict(zip(rows, spans, strict=True))
        self._dice = dice
        self._attempt = 0
        self._begun: set[str] = set()

    def ask(self, hosts: Iterable[str], asked: messages.FromController) -> None:
        """Answer at once that a host is ready, and send all rows when all have begun."""
        for host in hosts:
            if isinstance(asked, messages.Trial):
                self._attempt = asked.attempt
                self._say(host, messages.Ready(attempt=self._attempt))
            elif isinstance(asked, messages.Go):
                self._begun.add(host)
                if self._begun == self.hosts:
                    self._say_all()

    def read_clocks(self, hosts: Iterable[str]) -> dict[str, Clock]:
        """Say that clocks differ by a second each."""
        return {
            host: Clock(offset_ns=number * SECOND_NS, bound_ns=1, round_trip_ns=2)
            for number, host in enumerate(hosts)
        }

    def forget(self) -> None:
        """There is nothing to forget."""

    def drop(self, host: str) -> None:
        """Drop no host: none is lost here."""

    def _say(self, host: str, message: messages.FromAgent) -> None:
        self.inbox.put(
            HostMessage(host=host, name=messages.word(type(message)), body=messages.body(message))
        )

    def _say_all(self) -> None:
        left = {host: sorted(rows) for host, rows in self._rows.items()}
        while left:
            host = self._dice.choice(sorted(left))
            if left[host]:
                second = left[host].pop(0)
                named = [{"agent": host, **row} for row in self._rows[host][second]]
                rows = INTERVAL_SCHEMA.of_rows(named)
                self._say(host, messages.Figures(attempt=self._attempt, rows=rows, live=LIVE))
            else:
                del left[host]
                end = messages.End(attempt=self._attempt, summary=self._summary(host),
                                   absent_probes={}, clock_step_ns=0, left=None)  # fmt: skip
                self._say(host, end)

    def _summary(self, host: str) -> Any:
        span = self._spans[host]
        rows = [row for second in self._rows[host].values() for row in second]
        counts = {
            "requests": sum(row["requests"] for row in rows),
            "failed": sum(row["requests"] for row in rows if row["outcome"] != "ok"),
            "bytes": sum(row["bytes"] for row in rows),
        }
        times = {"iteration": 1, "start_ns": span.begin_ns, "measure_start_ns": span.begin_ns,
                 "measure_end_ns": span.end_ns, "end_ns": span.end_ns,
                 "first_done_ns": span.first_done_ns, "in_flight_ns": 0}  # fmt: skip
        return {**dict.fromkeys(SUMS, 0), "state": "finished", "reason": None,
                "ended_unix_ns": self.clock.unix_ns(), "iterations": [times], **counts}  # fmt: skip


LIVE: Live = {
        "elapsed_ns": 1, "iteration": 1, "iterations": 1, "stage": "measure", "requests": 0,
        "unwritten": 0,
        "lost_races": 0,
        "failed": 0, "bytes": 0, "requests_last_s": 0, "bytes_last_s": 0, "p50_ns": 0, "p99_ns": 0,
        "progress": 0.5}  # fmt: skip
