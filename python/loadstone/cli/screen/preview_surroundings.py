"""Prints the ceilings, hooks and probes of a plan for `--dry-run`."""

import shlex
import shutil
from collections.abc import Mapping, Sequence

from loadstone import units
from loadstone.campaign.planning.ceiling_plan import PACKAGES, PlannedCeiling
from loadstone.campaign.planning.plan import Plan
from loadstone.campaign.schema.hook import Hook
from loadstone.campaign.schema.hosts import Hosts
from loadstone.campaign.schema.node import Node, NodeProbe
from loadstone.campaign.schema.target_probe import TargetProbes
from loadstone.cli import consent
from loadstone.cli.nodes import expected_s
from loadstone.cli.screen.output import print_table


def print_surroundings(plan: Plan, nodes: Mapping[str, Node], hosts: Hosts | None) -> None:
    """Print everything that runs beside or between the trials, if there is anything."""
    if any(node.probes for node in nodes.values()):
        _print_node_probes(nodes)
    if plan.ceilings:
        _print_ceilings(plan.ceilings)
    if plan.hooks:
        print("\nhooks, in this order at each point:")
        print_table(("hook", "at", "only for", "within", "if it fails", "command"), _hooks(plan))
    commands = [*consent.commands_of(plan), *consent.of_hosts(hosts)]
    if commands:
        print("\nrun by the campaign, which asks before the first time:")
        print_table(("key", "command"), commands)
    if plan.probes.prometheus or plan.probes.ceph:
        print("\nwatched at the targets:")
        print_table(("probe", "what", "when"), _probes(plan.probes))


def _print_node_probes(nodes: Mapping[str, Node]) -> None:
    print("\nprobes of nodes, before all trials:")
    rows = [
        (name, probe.kind, probe.path or probe.address or node.host or "", _does(probe))
        for name, node in nodes.items()
        for probe in node.probes
    ]
    print_table(("node", "probe", "of", "does"), rows)
    takes = units.format_duration(round(expected_s(nodes) * 1e9))
    print(f"probes of nodes take {takes} or more, on top of the trials")


def _does(probe: NodeProbe) -> str:
    match probe.kind:
        case "network":
            return "ping and iperf3 to each other node"
        case "device":
            return "fio reads it"
        case "mount":
            size = units.format_bytes(probe.jobs * probe.file_size)
            return f"fio writes {size} into a directory of its own, and removes it"


def _print_ceilings(ceilings: Sequence[PlannedCeiling]) -> None:
    rows = []
    for planned in ceilings:
        document = planned.document
        for step in document["steps"]:
            takes = step["expected_ns"]
            rows.append(
                (
                    planned.id,
                    document["name"],
                    ", ".join(document["targets"]),
                    planned.before or "the end",
                    step["name"],
                    units.format_duration(takes) if takes else "",
                    " & ".join(shlex.join(command) for command in step["commands"]),
                )
            )
    print("\nceilings:")
    head = ("ceiling", "name", "of", "before trial", "measures", "takes", "command")
    print_table(head, rows)
    total_ns = sum(planned.expected_ns for planned in ceilings)
    print(f"ceilings take {units.format_duration(total_ns)} or more, on top of the trials")
    programs = dict.fromkeys(name for planned in ceilings for name in planned.programs)
    for name in programs:
        if shutil.which(name) is None:
            package = f": apt-get install {PACKAGES[name]}" if name in PACKAGES else ""
            print(f'missing on this host: "{name}"{package}')


def _hooks(plan: Plan) -> list[tuple[str, ...]]:
    return [
        (
            hook.label,
            hook.at if isinstance(hook.at, str) else f"{units.format_duration(hook.at)} into it",
            _filter(hook),
            units.format_duration(hook.timeout_ns),
            hook.on_failure,
            shlex.join(hook.run) if hook.run else f"shell: {hook.shell}",
        )
        for hook in plan.hooks
    ]


def _filter(hook: Hook) -> str:
    names = ("targets", "workloads", "phases", "rounds", "blocks")
    conditions = [
        f"{name} {', '.join(map(str, values))}" for name in names if (values := getattr(hook, name))
    ]
    return "; ".join(conditions)


def _probes(probes: TargetProbes) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [
        (
            probe.name,
            f"{', '.join(probe.metrics)} of {', '.join(probe.urls)}",
            f"every {units.format_duration(probe.every_ns)}",
        )
        for probe in probes.prometheus
    ]
    rows += [
        (
            "ceph",
            f"cluster of {', '.join(probe.targets) or 'all targets'}",
            "before and after each measured trial",
        )
        for probe in probes.ceph
    ]
    return rows
