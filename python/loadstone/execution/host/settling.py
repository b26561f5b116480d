"""Waits before a load until the residue of earlier trials is gone.

Ports in TIME_WAIT, closing connections, dirty pages and queued requests at the target's disks slow
the next trial, whose own load would be blamed. Each quantity is read, given bounded time to settle,
and recorded with the trial. If waiting for a quantity had no effect, it has another cause, and no
later trial waits for it.
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
from loadstone.probes import memory, read_once, sockets
from loadstone.probes.proc import AbsentError

TICK_S = 0.5

PORTS_SETTLED_SHARE = 0.05
"""This share of the local ports may be in TIME_WAIT on any host in use."""

CLOSING_SETTLED_SHARE, CLOSING_SETTLED_MIN = 0.10, 16
"""This share of a trial's own clients, or this number, may have connections that still close."""

DIRTY_SETTLED_SHARE, DIRTY_SETTLED_MIN_BYTES = 0.01, 64 << 20
"""This share of the memory may be dirty; above a tenth the kernel starts to write back by
itself.
"""

DISK_REQUESTS_SETTLED_MAX = 2
"""This many requests may be queued at a disk that serves only its own host."""

PORTS_WAIT_S, CLOSING_WAIT_S, DIRTY_WAIT_S, DISK_WAIT_S = 65.0, 10.0, 60.0, 30.0
"""Longest wait of a trial for each, in seconds. TIME_WAIT takes 60 s, a constant of the kernel."""

HOST_WAIT_MAX_S = PORTS_WAIT_S + CLOSING_WAIT_S + DIRTY_WAIT_S
"""Longest wait of a load host before one trial, in seconds."""


def wait_max_s(document: TrialDocument, *, is_target_watched: bool) -> float:
    """Return the longest time in seconds that a trial waits for the residue of earlier trials."""
    quantities = Settling().quantities_of(document)
    return sum(quantity.wait_s for quantity in quantities) + DISK_WAIT_S * is_target_watched


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """A residue of earlier trials, and the amount that counts as settled.

    `words` describe the end of the wait, with {} for the value; `help_along` speeds it up. `expect`
    returns a reading taken during the last load while a newer one is due: it may start a wait, but
    is never recorded.
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
        """Return the amount, if known, and its upper bound."""
        value = self.read()
        return value, (self.expect() if value is None else value) or 0.0


Rest = Callable[[float], bool]
"""Waits for a number of seconds, and returns whether the run is to stop."""

Tell = Callable[[float, str], None]
"""Reports a wait: the maximum remaining seconds, and the reason."""


Hosts = Callable[[], set[str]]
"""Returns the addresses of a target's hosts; empty if its names cannot be resolved."""


@dataclass(slots=True)
class Settling:
    """Checks the residue before each trial of one session on one host."""

    _in_vain: set[str] = field(default_factory=set)
    _written_bytes: int = 0

    def note(self, document: TrialDocument, summary: Summary) -> None:
        """Add the bytes that a trial wrote: it cannot have left more dirty pages than that."""
        is_here = facts_of(document["target"]["driver"]).address.kind == "path"
        if is_here and document.get("mix") and writes_data(document):
            self._written_bytes += summary.get("bytes") or 0

    def quantities_of(self, document: TrialDocument) -> list[Quantity]:
        """Return the quantities to check on the trial's own host before its load."""
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
        """Wait until all quantities have settled, each within its bound, and return the readings.

        Quantities that cannot be read are left out.
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
        """Return a quantity's value when it has settled, or at its bound; None if unknown."""
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
    """Return the queue length of the busiest monitored disk of a target, as a quantity."""
    return Quantity(
        name="target_disk_requests",
        words="until the target's disks have caught up: {} requests are queued at one",
        settled_max=DISK_REQUESTS_SETTLED_MAX,
        wait_s=DISK_WAIT_S,
        read=read,
        expect=expect,
    )


def _of_connections(demand: Demand, addresses: Sequence[str]) -> Iterator[Quantity]:
    limits = read_limits()
    clients = demand.to_one
    # A trial with a duration opens an unknown number of connections: assume all ports.
    requests = limits.ports if demand.requests is None else -(-demand.requests // demand.endpoints)
    needed = requests if demand.is_per_request else clients
    free = sockets.PORTS_QUICK_SHARE * limits.ports - needed
    # Names are resolved only if there is a residue, not before each trial.
    hosts = cache(lambda: _hosts_of(addresses))
    settled_max = max(int(PORTS_SETTLED_SHARE * limits.ports), int(free))
    yield Quantity(
        name="ports_resting",
        words=f"until local ports are free: {{}} of {limits.ports:,} are in TIME_WAIT",
        settled_max=settled_max,
        wait_s=PORTS_WAIT_S,
        read=lambda: _ports_resting(hosts, limits.tcp_tw_reuse, settled_max),
        describe=lambda value: f"{value:,.0f}",
    )
    closing_max = max(CLOSING_SETTLED_MIN, int(CLOSING_SETTLED_SHARE * clients))
    yield Quantity(
        name="connections_closing",
        words="until connections are closed: {} of earlier trials are closing",
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
        words="until written data is on the target: {} is only in memory",
        settled_max=max(DIRTY_SETTLED_MIN_BYTES, int(DIRTY_SETTLED_SHARE * pages["total_bytes"])),
        wait_s=DIRTY_WAIT_S,
        read=read,
        describe=lambda value: units.format_bytes(round(value)),
        help_along=help_along,
    )


def _memory() -> Mapping[str, float]:
    return read_once(memory.Memory)


def _hosts_of(addresses: Sequence[str]) -> set[str]:
    """Return the hosts of a target's addresses, if their names can be resolved.

    Ports are left out: some targets tell a client only at log-in which port serves their data.
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
    """Return the number of local ports in TIME_WAIT to the target's most used port."""
    held = _held()
    if held is None or held["tw"] <= settled_max:
        # The total is cheap to read; if it is small, their destinations do not matter.
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
    # Connections closed on this host but not by the peer count as orphans at first, and later as
    # TIME_WAIT.
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
