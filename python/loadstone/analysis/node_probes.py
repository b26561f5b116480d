"""Findings on nodes: failed probes, wrong mounts, slow devices and paths, unequal hardware."""

import statistics
from collections.abc import Iterator, Mapping

from loadstone import units
from loadstone.analysis.judgements.finding import Evidence, Finding
from loadstone.analysis.judgements.run_view import RunView
from loadstone.documents.node import NodeDocument, StorageProbe, is_cached

SLOW = 0.7
"""The share of the median of equal things below which one is slow; short probes vary less."""

Rates = dict[tuple[str, str], dict[str, float]]


def find_of_probes(view: RunView) -> Iterator[Finding]:
    """Report failed, cached and slow probes of nodes."""
    nodes: Mapping[str, NodeDocument] = (view.run.manifest.get("nodes") or {}) if view.run else {}
    for name, node in nodes.items():
        for probe in node.get("probes") or ():
            yield from _of_storage(name, probe)
        for other, path in (node.get("paths") or {}).items():
            if "failed" in path:
                yield Finding(
                    "node-probe-failed",
                    f'network from node "{name}" to "{other}": {path["failed"]}',
                    cases=(name, other),
                )
    yield from _slow(nodes)


def _of_storage(name: str, probe: StorageProbe) -> Iterator[Finding]:
    what = f'node "{name}", {probe["kind"]} {probe["path"]}'
    claimed, mounted = probe.get("claimed"), probe.get("file_system")
    if "failed" in probe:
        # A mount is only measured if it is of the claimed kind.
        is_another = claimed is not None and mounted is not None and "total_bytes" not in probe
        yield Finding(
            "mount-is-another" if is_another else "node-probe-failed",
            f"{what}: {probe['failed']}",
            cases=(name,),
        )
    elif is_cached(probe):
        total, memory = probe["total_bytes"], probe["memory_bytes"]
        yield Finding(
            "node-probe-cached",
            f"{what}: read through the page cache, files of {units.format_bytes(total)}"
            f" in a memory of {units.format_bytes(memory)}",
            evidence=(Evidence("files", total, memory, unit="B", place=name),),
            cases=(name,),
        )


def _slow(nodes: Mapping[str, NodeDocument]) -> Iterator[Finding]:
    for (what, unit), rates in _rates(nodes).items():
        if len(rates) < 3:
            # With two nodes, either may be the slow one.
            continue
        middle = statistics.median(rates.values())
        slow = {place: rate for place, rate in rates.items() if rate < SLOW * middle}
        if slow:
            show = units.format_bit_rate if unit == "bit/s" else units.format_byte_rate
            listed = ", ".join(f"{place} {show(rate)}" for place, rate in slow.items())
            yield Finding(
                "nodes-perform-unlike",
                f"{what}: {listed}, where the median of {len(rates)} is {show(middle)}",
                evidence=tuple(
                    Evidence(what, rate, middle, unit=unit, place=place)
                    for place, rate in slow.items()
                ),
                cases=tuple(slow),
            )


def _rates(nodes: Mapping[str, NodeDocument]) -> Rates:
    """Group rates of equal things: paths; devices and mounts of one kind and test."""
    rates: Rates = {}
    for name, node in nodes.items():
        for other, path in (node.get("paths") or {}).items():
            if "bandwidth" in path:
                like = rates.setdefault(("bandwidth between nodes", "bit/s"), {})
                like[f"{name} to {other}"] = path["bandwidth"]["bits_per_s"]
        for probe in node.get("probes") or ():
            if "failed" in probe:
                continue
            kind = (
                probe.get("file_system") or f"device of {units.format_bytes(probe.get('bytes', 0))}"
            )
            for direction, moved in (("write", probe.get("write")), ("read", probe.get("read"))):
                if moved:
                    like = rates.setdefault((f"{direction} of {kind}, {_way(probe)}", "B/s"), {})
                    like[f"{name} {probe['path']}"] = moved["bytes_per_s"]
    return rates


def _way(probe: StorageProbe) -> str:
    return f"{units.counted(probe['jobs'], 'job')} of {units.format_bytes(probe['block_bytes'])}"


GIB = 2**30
SERVERS = ("ceph", "radosgw", "swift", "clickhouse", "spark")
"""Prefixes of packages whose versions should be equal."""


def find_unlike(view: RunView) -> Iterator[Finding]:
    """Report roles whose nodes differ in hardware or versions, and nodes that failed."""
    nodes: Mapping[str, NodeDocument] = (view.run.manifest.get("nodes") or {}) if view.run else {}
    described = {name: node for name, node in nodes.items() if "failed" not in node}
    for name in nodes.keys() - described.keys():
        yield Finding(
            "node-not-described",
            f'node "{name}" could not be described: {nodes[name]["failed"]}',
            cases=(name,),
        )
    roles: dict[str, dict[str, NodeDocument]] = {}
    for name, node in described.items():
        for role in node.get("roles") or ():
            roles.setdefault(role, {})[name] = node
    for role, members in roles.items():
        differing = list(_differing(members))
        if differing:
            listed = "; ".join(
                f"{what}: {', '.join(f'{name} {value}' for name, value in values.items())}"
                for what, values in differing
            )
            yield Finding(
                "nodes-differ",
                f'the nodes of role "{role}" are unlike ({listed})',
                evidence=tuple(
                    Evidence(what, value, place=name)
                    for what, values in differing
                    for name, value in values.items()
                ),
                cases=tuple(members),
            )


def _differing(nodes: Mapping[str, NodeDocument]) -> Iterator[tuple[str, Mapping[str, str]]]:
    facts = {name: _facts(node) for name, node in nodes.items()}
    for what in dict.fromkeys(what for facts_of_node in facts.values() for what in facts_of_node):
        # A missing fact is no difference.
        values = {
            name: facts_of_node[what]
            for name, facts_of_node in facts.items()
            if what in facts_of_node
        }
        if len(set(values.values())) > 1:
            yield what, values


def _facts(node: NodeDocument) -> dict[str, str]:
    cpu = node.get("cpu") or {}
    facts: dict[str, object] = {
        "processor": cpu.get("model"),
        "cores": cpu.get("cores"),
        "kernel": node.get("kernel"),
        "system": node.get("system"),
    }
    if node.get("memory_bytes"):
        facts["memory, GiB"] = round(node["memory_bytes"] / GIB)
    speeds = sorted(
        card["speed_mbit_per_s"]
        for card in (node.get("network") or {}).values()
        if card.get("speed_mbit_per_s")
    )
    facts["cards, Mbit/s"] = " + ".join(map(str, speeds)) or None
    kinds = sorted(str(disk.get("model")) for disk in (node.get("disks") or {}).values())
    facts["disks"] = " + ".join(kinds) or None
    facts |= {
        name: version
        for name, version in (node.get("packages") or {}).items()
        if name.startswith(SERVERS)
    }
    return {what: str(value) for what, value in facts.items() if value is not None}
