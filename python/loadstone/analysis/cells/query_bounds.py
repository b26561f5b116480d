"""What the storage and the network path of a target do by themselves, as a run measured it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from loadstone.analysis.limits.measured_ceilings import ceilings_of, read_measured_ceilings
from loadstone.analysis.node_probes import is_cached
from loadstone.results.record import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryBound:
    """The bytes per second that a query's reading cannot exceed, and what measured that."""

    resource: str
    name: str
    bytes_per_s: float


def bounds_of_targets(run: Run) -> Mapping[str, tuple[QueryBound, ...]]:
    """Return the bounds of each target: ceilings of the campaign, and probes of nodes' mounts.

    A node's mount is a target's where the target's path lies below it. Which node the client is
    does not stand in a record, so the fastest such node counts.
    """
    targets: Mapping[str, Any] = (run.manifest.get("campaign") or {}).get("targets") or {}
    measured = [one for one in ceilings_of(read_measured_ceilings(run)) if one.bounds == "read"]
    found: dict[str, list[QueryBound]] = {name: [] for name in targets}
    for one in measured:
        resource = "network" if one.resource == "network" else "storage"
        for target in one.targets or targets:
            bound = QueryBound(resource=resource, name=one.name, bytes_per_s=one.bytes_per_s)
            found.setdefault(target, []).append(bound)
    for name, target in targets.items():
        probes = list(_probes_of(run, str(target.get("path") or "")))
        if probes:
            found[name].append(max(probes, key=lambda one: one.bytes_per_s))
    return {name: tuple(bounds) for name, bounds in found.items()}


def _probes_of(run: Run, path: str) -> Iterator[QueryBound]:
    nodes: Mapping[str, Any] = run.manifest.get("nodes") or {}
    for name, node in nodes.items():
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
                )
