"""Surveys and probes the machines that a campaign names, and prints progress."""

from collections.abc import Mapping

from loadstone import units
from loadstone.campaign.schema.campaign import Campaign
from loadstone.campaign.schema.node import Node
from loadstone.cli.messages import say
from loadstone.documents.node import NodeDocument, PathProbe, StorageProbe
from loadstone.execution import secrets
from loadstone.execution.interrupt import Interrupt
from loadstone.execution.programs import node_paths, node_probes
from loadstone.execution.programs.node_probes import survey
from loadstone.results.layout import NodeOutputs


def describe(
    campaign: Campaign, *, with_probes: bool = True, outputs: NodeOutputs | None = None
) -> dict[str, NodeDocument]:
    """Return the surveys of the campaign's nodes, with the results of their probes.

    Print a warning for each failure. The output of programs goes into `outputs`.
    """
    say(f"describing {len(campaign.nodes)} nodes")
    secrets.keep_from_programs(campaign.document())
    nodes = survey(campaign.nodes, Interrupt())
    failed = {name: node["failed"] for name, node in nodes.items() if "failed" in node}
    for name, why in failed.items():
        where = f" ({nodes[name]['host']})" if nodes[name]["host"] else ""
        say(f'warning: node "{name}"{where}: {why}')
    if with_probes:
        _probe(campaign, nodes, failed, outputs)
    return nodes


def _probe(
    campaign: Campaign,
    nodes: dict[str, NodeDocument],
    failed: dict[str, str],
    outputs: NodeOutputs | None,
) -> None:
    seconds = expected_s(campaign.nodes)
    if not seconds:
        return
    lasts = units.format_duration(round(seconds * 1e9))
    say(f"probing nodes: {lasts} of measurements, plus the time to write the files of mounts")
    interrupt = Interrupt()
    asked = (campaign.nodes, failed, say, interrupt, outputs)
    for name, probes in node_probes.probe_storage(*asked).items():
        nodes[name]["probes"] = probes
        for probe in probes:
            where = f'node "{name}", {probe["kind"]} {probe["path"]}'
            _warn(where, probe)
            if "left_behind" in probe:
                say(f"warning: {where}: {probe['left_behind']}")
    for name, paths in node_paths.probe_paths(*asked).items():
        nodes[name]["paths"] = paths
        for other, path in paths.items():
            _warn(f'network from node "{name}" to "{other}"', path)


def expected_s(nodes: Mapping[str, Node]) -> float:
    """Return the total duration of all nodes' probes in seconds."""
    storage = (
        node_probes.expected_s(probe)
        for node in nodes.values()
        for probe in node.probes
        if probe.kind != "network"
    )
    return sum(storage) + node_paths.expected_s(nodes)


def _warn(what: str, probe: StorageProbe | PathProbe) -> None:
    if "failed" in probe:
        say(f"warning: {what}: {probe['failed']}")
        if "hint" in probe:
            say(f"hint: {probe['hint']}")
