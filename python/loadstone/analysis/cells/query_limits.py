"""The limit of a query: memory, processors, storage or network, with the evidence.

It follows from the query's own use and the measured limits of its path; otherwise it is unknown.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from loadstone import units
from loadstone.analysis.limits.measured_ceilings import ceilings_of, read_measured_ceilings
from loadstone.campaign.planning.kinds import LOAD, OUT_OF_MEMORY
from loadstone.documents.node import NodeDocument, is_cached
from loadstone.documents.python_types import TargetSettings
from loadstone.results.record import Run

NETWORK_FILE_SYSTEMS = frozenset(
    {"beegfs", "ceph", "cifs", "glusterfs", "gpfs", "lustre", "nfs", "nfs3", "nfs4", "smb3"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryBound:
    """The bytes per second that a query's reading cannot exceed, and its source.

    `latency_ns` is that of a small read or of a ping, if measured.
    """

    resource: str
    name: str
    bytes_per_s: float
    latency_ns: float | None = None


def bounds_of_targets(run: Run) -> Mapping[str, tuple[QueryBound, ...]]:
    """Return the bounds of each target: ceilings of the campaign, and probes of its nodes.

    A node's mount serves a target if the target's path lies below it. Records need not say which
    node the client is, so the fastest such node counts.
    """
    targets = (run.manifest.get("campaign") or {}).get("targets") or {}
    measured = [
        ceiling for ceiling in ceilings_of(read_measured_ceilings(run)) if ceiling.bounds == "read"
    ]
    bounds: dict[str, list[QueryBound]] = {name: [] for name in targets}
    for ceiling in measured:
        resource = "network" if ceiling.resource == "network" else "storage"
        for name in ceiling.targets or targets:
            bound = QueryBound(
                resource=resource, name=ceiling.name, bytes_per_s=ceiling.bytes_per_s
            )
            bounds.setdefault(name, []).append(bound)
    far = _targets_over_a_network(run)
    for name, target in targets.items():
        probes = list(_probes_of(run, target.get("path") or ""))
        paths = list(_paths_to(run, target)) if name in far else []
        for candidates in (probes, paths):
            if candidates:
                bounds[name].append(max(candidates, key=lambda bound: bound.bytes_per_s))
    return {name: tuple(of_target) for name, of_target in bounds.items()}


def _probes_of(run: Run, path: str) -> Iterator[QueryBound]:
    for name, node in _nodes(run).items():
        for probe in node.get("probes") or ():
            is_below = f"{path}/".startswith(probe["path"].rstrip("/") + "/")
            # A mount that was read from memory bounds nothing.
            if (
                probe["kind"] == "mount"
                and path
                and is_below
                and "read" in probe
                and not is_cached(probe)
            ):
                yield QueryBound(
                    resource="storage",
                    name=f"fio on {name}, {probe['path']}",
                    bytes_per_s=float(probe["read"]["bytes_per_s"]),
                    latency_ns=(probe["read"].get("latency_ns") or {}).get("p50"),
                )


def _targets_over_a_network(run: Run) -> frozenset[str]:
    """Return the targets that other hosts serve: by their addresses, or by what is mounted."""
    return frozenset(
        str(record.trial["target"]["name"])
        for record in run.records
        if record.trial["phase"] == LOAD
        and (
            record.summary.get("target_on_own_host") is False
            or (record.summary.get("filesystem") or "").removeprefix("fuse.").removesuffix("-fuse")
            in NETWORK_FILE_SYSTEMS
        )
    )


def _paths_to(run: Run, target: TargetSettings) -> Iterator[QueryBound]:
    """Yield the network's bounds from the nodes that may serve a target to the client.

    If a node has the target's address, only its paths count.
    """
    nodes = _nodes(run)
    clients = [name for name, node in nodes.items() if node.get("host") is None] or [
        name for name, node in nodes.items() if "client" in (node.get("roles") or ())
    ]
    hosts = set(_hosts_of(target))
    named = [
        name
        for name, node in nodes.items()
        if hosts & {name, node.get("host"), *_addresses_of(nodes, name)}
    ]
    for start in named or nodes:
        for end in clients:
            path = (nodes[start].get("paths") or {}).get(end)
            if start != end and path and "bandwidth" in path:
                ping = path.get("ping")
                ping_ms = ping.get("avg_ms") if ping else None
                yield QueryBound(
                    resource="network",
                    name=f"iperf3 and ping from {start} to {end}",
                    bytes_per_s=float(path["bandwidth"]["bits_per_s"]) / 8,
                    latency_ns=ping_ms * 1e6 if ping_ms is not None else None,
                )


def _nodes(run: Run) -> Mapping[str, NodeDocument]:
    return run.manifest.get("nodes") or {}


def _addresses_of(nodes: Mapping[str, NodeDocument], name: str) -> Iterator[str]:
    """Yield the addresses at which other nodes reached a node."""
    for node in nodes.values():
        path = (node.get("paths") or {}).get(name)
        if path and "address" in path:
            yield str(path["address"])


def _hosts_of(target: TargetSettings) -> Iterator[str]:
    addresses = target.get("endpoints") or ()
    for address in (addresses,) if isinstance(addresses, str) else addresses:
        host = urlsplit(address).hostname
        if host:
            yield host


WAITS = "waits for storage"
BUSY = 0.8
"""The busy share of the engine's threads from which on its processors are the limit."""
IDLE = 0.5
"""The busy share of one processor below which a query mostly waits."""
STALLED = 0.2
"""The share of a query's time stalled for memory from which on memory is the limit."""
LEAST_BYTES = 16 << 20
"""Fewer bytes may be written, or read again, for other reasons than memory."""
EXCEEDED = 1.1
"""A path that carried this much more than its measured limit is not limited by it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryMemory:
    """Medians of memory use while a query ran.

    `stalled` is the share of its time in which some work waited for memory (the kernel's PSI).
    `spilled_bytes` are None for an engine that also writes data that would fit. `reread_bytes` were
    dropped by the kernel shortly before they were read, apart from caches emptied on purpose.
    `allowed_bytes` is the campaign's limit for the engine.
    """

    stalled: float | None = None
    major_faults: int | None = None
    peak_bytes: int | None = None
    spilled_bytes: int | None = None
    reread_bytes: int | None = None
    allowed_bytes: int | None = None

    def words(self) -> str:
        """Return the measured use in words."""
        facts = []
        if self.stalled is not None:
            facts.append(f"work stalled for memory {self.stalled:.0%} of the time")
        if self.major_faults:
            facts.append(units.counted(self.major_faults, "major fault"))
        if self.spilled_bytes:
            facts.append(f"wrote {units.format_bytes(self.spilled_bytes)}")
        if self.reread_bytes:
            facts.append(f"read {units.format_bytes(self.reread_bytes)} again")
        if self.peak_bytes:
            of = f" of {units.format_bytes(self.allowed_bytes)}" if self.allowed_bytes else ""
            facts.append(f"held {units.format_bytes(self.peak_bytes)}{of}")
        return ", ".join(facts)


UNKNOWN_MEMORY = QueryMemory()


@dataclass(frozen=True, kw_only=True)
class QueryUse:
    """The resources that a query used, and what bounds them.

    CPU seconds and bytes read from the storage are medians over its right runs; bytes are None if
    they could not be counted. `threads` is the limit of the engine, or the host's cores. `bounds`
    are measured limits of the target.
    """

    cpu_s: float | None
    read_bytes: int | None
    threads: int | None
    failures: Mapping[str, int]
    messages: Sequence[str]
    bounds: Sequence[QueryBound] = ()
    memory: QueryMemory = UNKNOWN_MEMORY


def limit_of(use: QueryUse, seconds: float | None) -> tuple[str, str]:
    """Return the limit of a query that took so long, and the evidence; empty if unknown."""
    if use.failures.get(OUT_OF_MEMORY):
        return "memory", next(iter(use.messages), "")
    if not seconds:
        return "", ""
    memory = use.memory
    if (memory.stalled or 0.0) >= STALLED:
        return "memory", memory.words()
    if use.cpu_s is None:
        return "", ""
    busy = use.cpu_s / seconds
    used = f"{busy:.2g} of {units.counted(use.threads or 1, 'processor')} busy"
    if use.threads and busy >= BUSY * use.threads:
        return "engine CPU", used
    read_bytes = use.read_bytes or 0
    needless = max(memory.spilled_bytes or 0, memory.reread_bytes or 0)
    if needless >= max(LEAST_BYTES, read_bytes / 2):
        return "memory", f"{used}, read {units.format_bytes(read_bytes)}, {memory.words()}"
    return _limit_of_path(use, seconds, busy, used)


def _limit_of_path(use: QueryUse, seconds: float, busy: float, used: str) -> tuple[str, str]:
    rate = (use.read_bytes or 0) / seconds
    bounds = [bound for bound in use.bounds if rate <= EXCEEDED * bound.bytes_per_s]
    slowest = min(bounds, key=lambda bound: bound.bytes_per_s, default=None)
    share = rate / slowest.bytes_per_s if slowest is not None else 0.0
    read = f"read {units.format_byte_rate(rate)}"
    if slowest is not None:
        read += f" of {units.format_byte_rate(slowest.bytes_per_s)} ({slowest.name})"
    if slowest is not None and share >= BUSY:
        return f"{slowest.resource} bandwidth", read
    if busy < IDLE and use.read_bytes:
        # Idle processors and a path that could carry more: each read is waited for.
        if slowest is None or share >= IDLE:
            return WAITS, f"{used}, {read}"
        resource, waits = _slower(bounds)
        return f"{resource} latency", f"{used}, {read}{waits}"
    if BUSY <= busy <= 1 / BUSY and (use.threads or 0) > 1:
        return "one CPU", used
    return "", ""


def _slower(bounds: Sequence[QueryBound]) -> tuple[str, str]:
    """Return whether network or storage dominates a read's latency, and both in words.

    A probe of the storage waits for the network, there and back, and for its own queue. So the
    network certainly dominates if a ping takes half of that.
    """
    known = {bound.resource: bound for bound in bounds if bound.latency_ns is not None}
    waits = "".join(
        f", {units.format_duration(bound.latency_ns or 0)} a {_asked(bound)} ({bound.name})"
        for bound in known.values()
    )
    network, storage = known.get("network"), known.get("storage")
    if network is None or storage is None:
        return "storage", waits
    is_network = (network.latency_ns or 0) >= (storage.latency_ns or 0) / 2
    return "network" if is_network else "storage", waits


def _asked(bound: QueryBound) -> str:
    return "ping" if bound.resource == "network" else "small read"
