"""Nodes of one role that are unlike: the slowest of them may be what was measured."""

from collections.abc import Iterator, Mapping

from loadstone.analysis.judgements.finding import Evidence, Finding
from loadstone.analysis.judgements.seen import Seen
from loadstone.documents.node import NodeDocument

GIB = 2**30
SERVERS = ("ceph", "radosgw", "swift", "clickhouse", "spark")
"""How packages begin whose versions should agree."""


def find_unlike(seen: Seen) -> Iterator[Finding]:
    """Report the roles whose nodes differ in hardware or versions, and the nodes that failed."""
    nodes: Mapping[str, NodeDocument] = (seen.run.manifest.get("nodes") or {}) if seen.run else {}
    told = {name: node for name, node in nodes.items() if "failed" not in node}
    for name in nodes.keys() - told.keys():
        yield Finding(
            rule="node-not-described",
            statement=f'node "{name}" could not be described: {nodes[name]["failed"]}',
            cases=(name,),
        )
    roles: dict[str, dict[str, NodeDocument]] = {}
    for name, node in told.items():
        for role in node.get("roles") or ():
            roles.setdefault(role, {})[name] = node
    for role, own in roles.items():
        differing = list(_differing(own))
        if differing:
            listed = "; ".join(
                f"{what}: {', '.join(f'{name} {value}' for name, value in values.items())}"
                for what, values in differing
            )
            yield Finding(
                rule="nodes-differ",
                statement=f'the nodes of role "{role}" are unlike ({listed})',
                evidence=tuple(
                    Evidence(metric=what, value=value, place=name)
                    for what, values in differing
                    for name, value in values.items()
                ),
                cases=tuple(own),
            )


def _differing(nodes: Mapping[str, NodeDocument]) -> Iterator[tuple[str, Mapping[str, str]]]:
    facts = {name: _facts(node) for name, node in nodes.items()}
    for what in dict.fromkeys(what for own in facts.values() for what in own):
        # What one of them does not say is no difference.
        values = {name: own[what] for name, own in facts.items() if what in own}
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
