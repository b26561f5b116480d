"""Before a load: has what earlier trials left behind gone?

Local ports that rest, connections that are closing, dirty pages and a queue at the target's disks
slow the next trial, which then looks like an effect of its own load. Each quantity is looked at,
waited for within a bound, and kept with the trial. A quantity for which a wait was in vain belongs
to something else that goes on, so that no later trial waits for it.
"""

import ipaddress
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from loadstone import units
from loadstone.campaign.drivers import addresses_of, facts_of
from loadstone.documents.mix import writes_data
from loadstone.documents.summary import HostState, Residue, Summary
from loadstone.documents.trial import TrialDocument
from loadstone.execution.host.limits import Demand, demand_of, read_limits
from loadstone.execution.programs.program import run_programs
from loadstone.probes import memory, sockets
from loadstone.probes.proc import AbsentError

TICK_S = 0.5

PORTS_SETTLED_SHARE = 0.05
"""So many of the local ports may rest on any host that is in use."""

CLOSING_SETTLED_SHARE, CLOSING_SETTLED_MIN = 0.10, 16
"""Of a trial's own clients, so many connections may still be closing."""

DIRTY_SETTLED_SHARE, DIRTY_SETTLED_MIN_BYTES = 0.01, 64 << 20
"""Of the memory, so much may be dirty; the kernel writes back by itself above a tenth."""

DISK_REQUESTS_SETTLED_MAX = 2
"""So many requests may be under way at a disk that serves nobody but its own host."""

PORTS_WAIT_S, CLOSING_WAIT_S, DIRTY_WAIT_S, DISK_WAIT_S = 65.0, 10.0, 60.0, 30.0
"""Most time that a trial waits for each. TIME_WAIT takes 60 s, a constant of the kernel."""

HOST_WAIT_MAX_S = PORTS_WAIT_S + CLOSING_WAIT_S + DIRTY_WAIT_S
"""Most time that a load host waits before one trial."""


def wait_max_s(document: TrialDocument, *, is_target_watched: bool) -> float:
    """Return the most time that a trial waits for the residue of earlier trials."""
    quantities = Settling().quantities_of(document)
    return sum(quantity.wait_s for quantity in quantities) + DISK_WAIT_S * is_target_watched


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """One thing that an earlier trial may have left, and how much of it counts as settled.

    `words` say until when a trial waits, with {} for the value; `help_along` does what makes it go.
    `expect` returns a value from under the last load while a newer one is due: worth a wait, and
    never kept.
    """

    name: str
    words: str
    settled_max: float
    wait_s: float
    read: Callable[[], float | None]
    expect: Callable[[], float | None] = lambda: None
    describe: Callable[[float], str] = units.format_number
    help_along: Callable[[Callable[[], bool]], None] | None = None

    def look(self) -> tuple[float | None, float]:
        """Return how much there is, where that is known, and how much there may be."""
        value = self.read()
        return value, (self.expect() if value is None else value) or 0.0


Rest = Callable[[float], bool]
"""Waits for a number of seconds, and returns whether the run is to stop."""

Tell = Callable[[float, str], None]
"""Reports a wait: the remaining seconds at most, and the reason."""


Hosts = Callable[[], set[str]]
"""Returns the addresses of a target's hosts; none where its names lead to none."""


@dataclass(slots=True)
class Settling:
    """Looks before each trial of one session on one host."""

    _in_vain: set[str] = field(default_factory=set)
    _written_bytes: int = 0

    def note(self, document: TrialDocument, summary: Summary) -> None:
        """Add the bytes that a trial wrote: it cannot have left more dirty pages than that."""
        is_here = facts_of(document["target"]["driver"]).address.kind == "path"
        if is_here and document.get("mix") and writes_data(document):
            self._written_bytes += summary.get("bytes") or 0

    def quantities_of(self, document: TrialDocument) -> list[Quantity]:
        """Return the quantities that a trial's own host checks before its load."""
        facts = facts_of(document["target"]["driver"])
        settings = document["target"].get("settings") or {}
        quantities: list[Quantity] = []
        if facts.connects and document.get("load"):
            quantities += _of_connections(demand_of(document), addresses_of(facts, settings))
        if facts.address.kind == "path":
            known: Mapping[str, Any] = settings
            paths = [str(known[name]) for name in facts.address.settings if known.get(name)]
            quantities += _of_pages(
                paths, self._written_bytes, is_directory=facts.place == "directory"
            )
        return quantities

    def settle(self, quantities: Sequence[Quantity], rest: Rest, tell: Tell) -> HostState:
        """Wait until all quantities have settled, each within its bound, and return what was seen.

        Quantities that cannot be read here are left out.
        """
        began = time.monotonic()
        looks = {quantity.name: quantity.look() for quantity in quantities}
        first = {name: value for name, (value, _) in looks.items()}
        last = {**first}
        unsettled = [
            quantity
            for quantity in quantities
            if looks[quantity.name][1] > quantity.settled_max and quantity.name not in self._in_vain
        ]
        for quantity in unsettled:
            last[quantity.name] = self._wait_for(quantity, looks[quantity.name], rest, tell)
        if (dirty_bytes := last.get("dirty_bytes")) is not None:
            # The next trial has to wait for the remaining dirty pages, too.
            self._written_bytes = round(dirty_bytes)
        residues = []
        for quantity in quantities:
            before_wait, before_load = first[quantity.name], last[quantity.name]
            if before_load is not None:
                residues.append(
                    Residue(
                        quantity=quantity.name,
                        before_wait=before_load if before_wait is None else before_wait,
                        before_load=before_load,
                        settled_max=quantity.settled_max,
                    )
                )
        waited_ns = round((time.monotonic() - began) * 1e9) if unsettled else 0
        return {"waited_ns": waited_ns, "residues": residues}

    def _wait_for(
        self, quantity: Quantity, look: tuple[float | None, float], rest: Rest, tell: Tell
    ) -> float | None:
        """Return how much of a quantity is left when it has settled, or after its bound.

        None where that is not known.
        """
        end = time.monotonic() + quantity.wait_s
        value, pending = look
        why = quantity.words.format(quantity.describe(pending))
        tell(quantity.wait_s, why)
        if quantity.help_along is not None:
            quantity.help_along(lambda: rest(0.0))
            value, pending = quantity.look()
        while pending > quantity.settled_max:
            left_s = end - time.monotonic()
            if left_s <= 0:
                self._in_vain.add(quantity.name)
                break
            tell(left_s, why)
            if rest(min(left_s, TICK_S)):
                break
            value, pending = quantity.look()
        return value


def disk_queue(
    read: Callable[[], float | None], expect: Callable[[], float | None] = lambda: None
) -> Quantity:
    """Return the requests that wait at the busiest of a target's disks that are watched."""
    return Quantity(
        name="target_disk_requests",
        words="until the target's disks have caught up: {} requests are under way at one",
        settled_max=DISK_REQUESTS_SETTLED_MAX,
        wait_s=DISK_WAIT_S,
        read=read,
        expect=expect,
    )


def _of_connections(demand: Demand, addresses: Sequence[str]) -> Iterator[Quantity]:
    limits = read_limits()
    clients = demand.to_one
    # A trial with a duration opens an unknown number of connections: take all ports.
    requests = limits.ports if demand.requests is None else -(-demand.requests // demand.endpoints)
    needed = requests if demand.is_per_request else clients
    free = sockets.PORTS_QUICK_SHARE * limits.ports - needed
    # Names are looked up where something is left, and not before each trial.
    hosts = cache(lambda: _hosts_of(addresses))
    settled_max = max(int(PORTS_SETTLED_SHARE * limits.ports), int(free))
    yield Quantity(
        name="ports_resting",
        words=f"until local ports are free: {{}} of {limits.ports:,} rest after connections before",
        settled_max=settled_max,
        wait_s=PORTS_WAIT_S,
        read=lambda: _ports_resting(hosts, limits.tcp_tw_reuse, settled_max),
        describe=lambda value: f"{value:,.0f}",
    )
    closing_max = max(CLOSING_SETTLED_MIN, int(CLOSING_SETTLED_SHARE * clients))
    yield Quantity(
        name="connections_closing",
        words="until connections are closed: {} of the trials before are closing",
        settled_max=closing_max,
        wait_s=CLOSING_WAIT_S,
        read=lambda: _connections_closing(hosts, closing_max),
        describe=lambda value: f"{value:,.0f}",
    )


def _of_pages(
    paths: Sequence[str], written_bytes: int, *, is_directory: bool
) -> Iterator[Quantity]:
    pages = _memory()
    if "total_bytes" not in pages:
        return
    flush = ["sync", "-f"] if is_directory else ["sync"]

    def help_along(is_over: Callable[[], bool]) -> None:
        run_programs(
            [[*flush, path] for path in paths],
            timeout_s=DIRTY_WAIT_S,
            is_stopped=is_over,
        )

    def read() -> float | None:
        now = _memory()
        # Dirty pages of other programs do not count.
        return min(now.get("dirty_bytes", 0.0) + now.get("writeback_bytes", 0.0), written_bytes)

    yield Quantity(
        name="dirty_bytes",
        words="until what was written is on the target: {} is in memory alone",
        settled_max=max(DIRTY_SETTLED_MIN_BYTES, int(DIRTY_SETTLED_SHARE * pages["total_bytes"])),
        wait_s=DIRTY_WAIT_S,
        read=read,
        describe=lambda value: units.format_bytes(round(value)),
        help_along=help_along,
    )


def _memory() -> Mapping[str, float]:
    try:
        probe = memory.Memory()
    except AbsentError:
        return {}
    try:
        return {metric: value for _, metric, value in probe.read()}
    finally:
        probe.close()


def _hosts_of(addresses: Sequence[str]) -> set[str]:
    """Return the hosts that a target's addresses lead to, as far as names can be looked up.

    Not with their ports: some targets tell only when a client logs in at which one their data is.
    """
    resolved: set[str] = set()
    for address in addresses:
        try:
            host = urlsplit(address if "://" in address else f"//{address}").hostname
            known = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except (OSError, ValueError):
            continue
        resolved |= {str(end[0]) for *_, end in known}
    return resolved


def _ports_resting(hosts: Hosts, tcp_tw_reuse: int, settled_max: float) -> float | None:
    """Return how many local ports rest after connections to one port of a target, the busiest."""
    held = _held()
    if held is None or held["tw"] <= settled_max:
        # The sum is cheap to read; where they led to is not, and does not matter then.
        return None if held is None else float(held["tw"])
    return _busiest(
        connection
        for connection in sockets.connections()
        if connection.state == sockets.TIME_WAIT
        and connection.timer_s > sockets.TIME_WAIT_S - _rest_s(connection, tcp_tw_reuse)
        and (connection.remote[0] in hosts() or not hosts())
    )


def _rest_s(connection: sockets.Connection, tcp_tw_reuse: int) -> int:
    address = ipaddress.ip_address(connection.remote[0])
    return sockets.port_rest_s(tcp_tw_reuse, is_loopback=address.is_loopback)


def _connections_closing(hosts: Hosts, settled_max: float) -> float | None:
    held = _held()
    # The kernel counts connections that closed here, and whose other end has not, as orphans; after
    # a while as those in TIME_WAIT.
    if held is None or held["orphan"] + held["tw"] <= settled_max:
        return None if held is None else 0.0
    return _busiest(
        connection
        for connection in sockets.connections()
        if connection.state in sockets.CLOSING and (connection.remote[0] in hosts() or not hosts())
    )


def _busiest(connections: Iterable[sockets.Connection]) -> float:
    return float(max(Counter(connection.remote for connection in connections).values(), default=0))


def _held() -> Mapping[str, int] | None:
    try:
        probe = sockets.Sockets()
    except AbsentError:
        return None
    try:
        figures: dict[str, Any] = {metric: value for _, metric, value in probe.read()}
        return {"tw": int(figures["time_wait"]), "orphan": int(figures["orphaned"])}
    finally:
        probe.close()
