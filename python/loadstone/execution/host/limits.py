"""Checks whether this host has enough descriptors and local ports for a plan's connections."""

import resource
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loadstone.campaign.drivers import facts_of
from loadstone.documents.trial import TrialDocument
from loadstone.errors import LoadstoneError
from loadstone.probes import sockets

if TYPE_CHECKING:
    # An agent reports its host's limits, and needs no planner.
    from loadstone.campaign.planning.plan import Plan

PROC = Path("/proc")
SPARE_DESCRIPTORS = 64
"""Descriptors that a load generator needs besides its connections; the same number as in
limits.rs.
"""

_PORTS_USUAL = (32_768, 60_999)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of this host: open files of a process, local ports, and ports in TIME_WAIT."""

    descriptors: int
    first_port: int
    last_port: int
    time_wait: int
    tcp_tw_reuse: int

    @property
    def ports(self) -> int:
        """Number of local ports for connections to one address."""
        return self.last_port - self.first_port + 1

    def rest_s(self, *, is_loopback: bool) -> int:
        """Return for how many seconds a port stays in TIME_WAIT after its connection."""
        return sockets.port_rest_s(self.tcp_tw_reuse, is_loopback=is_loopback)


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """Demand of one trial: concurrent connections, and new ones per second if planned."""

    trial: str
    target: str
    clients: int
    endpoints: int
    is_loopback: bool
    is_per_request: bool
    requests: int | None
    rate_per_s: float | None
    duration_s: float | None

    @property
    def to_one(self) -> int:
        """Number of connections to one endpoint."""
        return -(-self.clients // self.endpoints)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """An exceeded limit, with a hint; only a warning unless `is_certain`."""

    text: str
    hint: str
    is_certain: bool


def read_limits() -> Limits:
    """Return the limits of this host; default values for those that cannot be read."""
    first, last = _numbers("sys/net/ipv4/ip_local_port_range", 2) or _PORTS_USUAL
    reuse = _numbers("sys/net/ipv4/tcp_tw_reuse", 1) or (sockets.TCP_TW_REUSE_USUAL,)
    return Limits(
        # The load generator raises its soft limit to the hard one.
        descriptors=_descriptors(),
        first_port=first,
        last_port=last,
        time_wait=_time_wait(),
        tcp_tw_reuse=reuse[0],
    )


def demands_of(plan: "Plan") -> list[Demand]:
    """Return the demands of the trials of a plan that have connections."""
    documents = [document for document in plan.documents() if document.get("load")]
    return [
        demand_of(document)
        for document in documents
        if facts_of(document["target"]["driver"]).connects
    ]


def shortages(demands: list[Demand], limits: Limits) -> list[Shortage]:
    """Return the exceeded limits, each once, for the trial that exceeds it most."""
    worst_of_kinds = []
    for look in (_too_many_files, _too_many_ports, _too_many_a_second):
        worst = next(look(demands, limits), None)
        worst_of_kinds += [worst] if worst is not None else []
    return worst_of_kinds


def check(plan: "Plan") -> list[Shortage]:
    """Refuse a plan that exceeds a limit of this host; return the warnings."""
    short = shortages(demands_of(plan), read_limits())
    certain = [shortage for shortage in short if shortage.is_certain]
    if certain:
        text = "\n".join(shortage.text for shortage in certain)
        raise LoadstoneError(text, "; ".join(shortage.hint for shortage in certain))
    return short


def describe(plan: "Plan") -> str | None:
    """Return the connections of a plan for `--dry-run`; None if it has none."""
    demands = demands_of(plan)
    if not demands:
        return None
    limits = read_limits()
    most = max(demands, key=lambda demand: demand.clients)
    nearest = max(demands, key=lambda demand: demand.to_one)
    return (
        f"at most {most.clients:,} + {SPARE_DESCRIPTORS} of {limits.descriptors:,} descriptors,"
        f" and {nearest.to_one:,} to one endpoint of {limits.ports:,} ports"
    )


def _too_many_files(demands: list[Demand], limits: Limits) -> Iterator[Shortage]:
    for demand in sorted(demands, key=lambda demand: -demand.clients):
        if demand.clients + SPARE_DESCRIPTORS > limits.descriptors:
            yield Shortage(
                text=(
                    f"{_name(demand)}: {demand.clients:,} connections and {SPARE_DESCRIPTORS} other"
                    f" files need {demand.clients + SPARE_DESCRIPTORS:,} descriptors; this process"
                    f" may open {limits.descriptors:,}"
                ),
                hint="raise the limit (ulimit -Hn) or ask for fewer threads",
                is_certain=True,
            )


def _too_many_ports(demands: list[Demand], limits: Limits) -> Iterator[Shortage]:
    for demand in sorted(demands, key=lambda demand: -demand.to_one):
        if demand.to_one > limits.ports:
            yield Shortage(
                text=(
                    f"{_name(demand)}: {demand.clients:,} connections over {demand.endpoints}"
                    f" endpoint{'s' * (demand.endpoints > 1)} are {demand.to_one:,} to one"
                    f" endpoint; this host has {_ports(limits)}"
                ),
                hint="widen net.ipv4.ip_local_port_range, name more endpoints, or ask for fewer"
                " threads",
                is_certain=True,
            )


def _too_many_a_second(demands: list[Demand], limits: Limits) -> Iterator[Shortage]:
    """Check connections that serve one request each, because their ports stay in TIME_WAIT
    afterwards.
    """
    for demand in sorted(demands, key=lambda demand: -(demand.rate_per_s or 0)):
        rest_s = limits.rest_s(is_loopback=demand.is_loopback)
        # All ports in TIME_WAIT may belong to the next trial's endpoint. Ports that the kernel
        # reuses after a second do not delay it.
        resting = limits.time_wait if rest_s == sockets.TIME_WAIT_S else 0
        free = max(0, limits.ports - resting) * demand.endpoints
        if not demand.is_per_request or (demand.requests is not None and demand.requests <= free):
            continue
        endpoints = f"{demand.endpoints} endpoint{'s' * (demand.endpoints > 1)}"
        sum_of_ports = (
            f"({limits.ports:,} local ports - {resting:,} in TIME_WAIT) × {endpoints} = {free:,}"
        )
        if demand.rate_per_s is None:
            rate = round(free / rest_s)
            when = f"above {rate:,} requests/s" if rate else "until those are free"
            yield Shortage(
                text=(
                    f"{_name(demand)}: one connection for each request: {sum_of_ports}; each port"
                    f" may stay in TIME_WAIT for {rest_s} s: {when} ports may run out"
                ),
                hint="keep connections open, or limit the rate",
                is_certain=False,
            )
            continue
        needed = demand.rate_per_s * min(rest_s, demand.duration_s or rest_s) + demand.clients
        if needed > free:
            yield Shortage(
                text=(
                    f"{_name(demand)}: one connection for each request:"
                    f" {demand.rate_per_s:,.0f}/s × {min(rest_s, demand.duration_s or rest_s):g} s"
                    f" in TIME_WAIT + {demand.clients:,} in flight need {needed:,.0f} ports;"
                    f" {sum_of_ports}"
                ),
                hint="keep connections open, name more endpoints, or lower the rate",
                is_certain=True,
            )


def demand_of(document: TrialDocument) -> Demand:
    """Return the demand of a trial that has connections."""
    load, stop = document["load"], document["stop"]
    settings: Mapping[str, object] = document["target"].get("settings") or {}
    # Clients spread over the first setting that names servers.
    names = facts_of(document["target"]["driver"]).address.settings
    endpoints: Any = next((settings[name] for name in names if settings.get(name)), [])
    addresses = endpoints if isinstance(endpoints, list) else [endpoints]
    is_open = load["kind"] == "open"
    requests = stop.get("requests")
    duration_ns = stop.get("duration_ns")
    return Demand(
        trial=document["id"],
        target=document["target"]["name"],
        # The steps of a search are not planned yet; each is checked before it runs.
        clients=(load.get("clients_max") if is_open else load.get("clients")) or 0,
        endpoints=max(1, len(addresses)),
        is_loopback=bool(addresses)
        and all(sockets.is_loopback(str(address)) for address in addresses),
        is_per_request=document.get("connections") == "per_request",
        requests=None if requests is None else requests * document.get("iterations", 1),
        rate_per_s=load.get("rate_per_s") if is_open else document.get("rate_limit_per_s"),
        duration_s=None if duration_ns is None else duration_ns / 1e9,
    )


def _name(demand: Demand) -> str:
    return f'trial {demand.trial} of target "{demand.target}"'


def _ports(limits: Limits) -> str:
    # A client host reports the number of its ports, but not their range.
    span = f", {limits.first_port} to {limits.last_port}" if limits.first_port > 1 else ""
    return f"{limits.ports:,} local ports{span}"


def _descriptors() -> int:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return 2**31 if hard == resource.RLIM_INFINITY else hard


def _time_wait() -> int:
    try:
        text = (PROC / "net/sockstat").read_text(encoding="ascii")
    except OSError:
        return 0
    words = next((line.split() for line in text.splitlines() if line.startswith("TCP:")), [])
    return int(words[words.index("tw") + 1]) if "tw" in words else 0


def _numbers(name: str, count: int) -> tuple[int, ...] | None:
    try:
        numbers = tuple(map(int, (PROC / name).read_text(encoding="ascii").split()))
    except (OSError, ValueError):
        return None
    return numbers if len(numbers) == count else None
