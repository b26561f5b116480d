"""What the storage and the network path of a target do by themselves, as a run measured it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from loadstone.analysis.limits.measured_ceilings import ceilings_of, read_measured_ceilings
from loadstone.analysis.node_probes import is_cached
from loadstone.campaign.planning.query_plan import LOAD
from loadstone.documents.node import NodeDocument
from loadstone.documents.trial import TargetSettings
from loadstone.results.record import Run

NETWORK_FILE_SYSTEMS = frozenset(
    {"beegfs", "ceph", "cifs", "glusterfs", "gpfs", "lustre", "nfs", "nfs3", "nfs4", "smb3"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryBound:
    """The bytes per second that a query's reading cannot exceed, and what measured that.

    `latency_ns` is what a small read, or a ping, takes there; None where that was not measured.
    """

    resource: str
    name: str
    bytes_per_s: float
    latency_ns: float | None = None


def bounds_of_targets(run: Run) -> Mapping[str, tuple[QueryBound, ...]]:
    """Return the bounds of each target: ceilings of the campaign, and probes of its nodes.

    A node's mount is a target's where the target's path lies below it; which node the client is
    need not stand in a record, so the fastest such node counts.
    """
    targets = (run.manifest.get("campaign") or {}).get("targets") or {}
    measured = [one for one in ceilings_of(read_measured_ceilings(run)) if one.bounds == "read"]
    found: dict[str, list[QueryBound]] = {name: [] for name in targets}
    for one in measured:
        resource = "network" if one.resource == "network" else "storage"
        for name in one.targets or targets:
            bound = QueryBound(resource=resource, name=one.name, bytes_per_s=one.bytes_per_s)
            found.setdefault(name, []).append(bound)
    far = _targets_over_a_network(run)
    for name, target in targets.items():
        probes = list(_probes_of(run, target.get("path") or ""))
        paths = list(_paths_to(run, target)) if name in far else []
        for seen in (probes, paths):
            if seen:
                found[name].append(max(seen, key=lambda one: one.bytes_per_s))
    return {name: tuple(bounds) for name, bounds in found.items()}


def _probes_of(run: Run, path: str) -> Iterator[QueryBound]:
    for name, node in _nodes(run).items():
        for one in node.get("probes") or ():
            is_below = f"{path}/".startswith(one["path"].rstrip("/") + "/")
            # A mount that was read from memory bounds nothing.
            if (
                one["kind"] == "mount"
                and path
                and is_below
                and "read" in one
                and not is_cached(one)
            ):
                yield QueryBound(
                    resource="storage",
                    name=f"fio on {name}, {one['path']}",
                    bytes_per_s=float(one["read"]["bytes_per_s"]),
                    latency_ns=(one["read"].get("latency_ns") or {}).get("p50"),
                )


def _targets_over_a_network(run: Run) -> frozenset[str]:
    """Return the targets that other hosts serve: by their addresses, or by what is mounted."""
    return frozenset(
        str(record.trial["target"]["name"])
        for record in run.records
        if record.trial["phase"] == LOAD
        and (
            record.summary.get("target_on_own_host") is False
            or _plain_type(record.summary.get("filesystem")) in NETWORK_FILE_SYSTEMS
        )
    )


def _plain_type(file_system: str | None) -> str:
    return (file_system or "").removeprefix("fuse.").removesuffix("-fuse")


def _paths_to(run: Run, target: TargetSettings) -> Iterator[QueryBound]:
    """Yield what the network carries to the client, from the nodes that may serve a target.

    From the node of the target's address alone, where one is named so.
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
            one = (nodes[start].get("paths") or {}).get(end)
            if start != end and one and "bandwidth" in one:
                ping = one.get("ping")
                ping_ms = ping.get("avg_ms") if ping else None
                yield QueryBound(
                    resource="network",
                    name=f"iperf3 and ping from {start} to {end}",
                    bytes_per_s=float(one["bandwidth"]["bits_per_s"]) / 8,
                    latency_ns=ping_ms * 1e6 if ping_ms is not None else None,
                )


def _nodes(run: Run) -> Mapping[str, NodeDocument]:
    return run.manifest.get("nodes") or {}


def _addresses_of(nodes: Mapping[str, NodeDocument], name: str) -> Iterator[str]:
    """Yield the addresses at which other nodes reached a node."""
    for node in nodes.values():
        one = (node.get("paths") or {}).get(name)
        if one and "address" in one:
            yield str(one["address"])


def _hosts_of(target: TargetSettings) -> Iterator[str]:
    addresses = target.get("endpoints") or ()
    for address in (addresses,) if isinstance(addresses, str) else addresses:
        host = urlsplit(address).hostname
        if host:
            yield host
