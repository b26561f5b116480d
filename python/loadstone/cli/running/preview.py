"""Prints the plan, its surroundings and its cost for `--dry-run`."""

import datetime
import json
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from loadstone import units
from loadstone.campaign.parameters import describe_value, varied_values
from loadstone.campaign.planning.kinds import kind_of
from loadstone.campaign.planning.plan import Plan, make_plan
from loadstone.campaign.planning.trial import PlannedTrial
from loadstone.campaign.schema.campaign import Campaign, Schedule, start_of, suites
from loadstone.campaign.schema.hosts import Hosts
from loadstone.campaign.schema.node import Node
from loadstone.cli import fail_if
from loadstone.cli.messages import say
from loadstone.cli.running.reuse import reused_by
from loadstone.cli.running.scripts import making_scripts
from loadstone.cli.running.session import tell_of_locks
from loadstone.cli.running.stores import making_lists, store_sizes, warn_of_cuts
from loadstone.cli.screen.output import print_table
from loadstone.documents.mix import operations_of
from loadstone.documents.trial import TrialDocument
from loadstone.execution.executors import absent_secrets, check_documents
from loadstone.execution.host import limits as host_limits
from loadstone.execution.host.settling import wait_max_s
from loadstone.execution.payload_files import PayloadFiles

if TYPE_CHECKING:
    from loadstone.analysis.judgements.thresholds import Threshold
import shlex
import shutil

from loadstone.campaign.planning.ceiling_plan import PACKAGES, PlannedCeiling
from loadstone.campaign.schema.hook import Hook
from loadstone.campaign.schema.node import NodeProbe
from loadstone.campaign.schema.target_probe import TargetProbes
from loadstone.cli.running import consent
from loadstone.cli.running.nodes import expected_s

# A plan fits into 80 × 24, however many trials it has.
WIDTH = 80
PHASES_SHOWN = 5
PARAMETERS_SHOWN = 5
STARTS_SHOWN = 3
STARTS_LISTED = 12
ORDERS_OF_CASES = {"random": "drawn from seed {seed}", "as_written": "as written"}
ORDERS = {"new": "an order of its own", "same": "the same order"}


def preview(
    campaign: Campaign,
    rate: float | None = None,
    bandwidth: float | None = None,
    *,
    thresholds: Sequence["Threshold"] = (),
    are_trials_listed: bool = False,
) -> None:
    """Plan a campaign and print what it would do; nothing of the plan is kept."""
    with making_scripts(campaign) as scripts, making_lists(campaign) as lists:
        plan = make_plan(
            campaign, reused=reused_by(campaign), starts=1, scripts=scripts,
            stores=store_sizes(campaign), lists=lists, payload_files=PayloadFiles(campaign),
        )  # fmt: skip
        fail_if.check_thresholds(thresholds, plan.documents())
        warn_of_cuts(lists)
        print_preview(
            plan,
            rate,
            bandwidth,
            schedule=campaign.schedule,
            nodes=campaign.nodes,
            order=campaign.order,
            hosts=campaign.hosts,
            are_trials_listed=are_trials_listed,
        )


def print_preview(
    plan: Plan,
    rate: float | None,
    bandwidth: float | None,
    *,
    schedule: Schedule | None = None,
    nodes: Mapping[str, Node] | None = None,
    order: str = "random",
    hosts: Hosts | None = None,
    are_trials_listed: bool = False,
) -> None:
    """Print what a plan measures and what it costs, on one screen, and its trials if requested."""
    check_documents(plan)
    measured = [planned for planned in plan.trials if planned.is_measured]
    varied = {
        name: [describe_value(name, value) for value in values]
        for name, values in varied_values(map(_parameters, measured)).items()
    }
    _print_head(plan, measured)
    if are_trials_listed:
        _print_trials(plan.trials, varied)
    else:
        _print_phases(measured)
        _print_varied(varied)
        # The order of queries is printed with them.
        if not any(document.get("queries") for document in plan.documents()):
            _print_order(measured, varied, ORDERS_OF_CASES[order].format(seed=plan.seed))
    print_surroundings(plan, nodes or {}, hosts)
    _print_cost(plan, rate, bandwidth)
    for absent in absent_secrets(plan):
        # A plan may be previewed on a host that will not run it.
        say(f"warning: {absent}", sys.stdout)
    for worry in host_limits.check(plan):
        say(f"warning: {worry.text}\nhint: {worry.hint}", sys.stdout)
    tell_of_locks(plan, sys.stdout)
    _print_starts(schedule, STARTS_LISTED if are_trials_listed else STARTS_SHOWN)
    if not are_trials_listed:
        print("\n--trials lists each trial")


def _print_head(plan: Plan, measured: Sequence[PlannedTrial]) -> None:
    trials = Counter(_case_of(planned) for planned in measured)
    counts = sorted(set(trials.values()))
    times = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}" if counts else ""
    repeated = f" × {times} {'repetition' if times == '1' else 'repetitions'}" if times else ""
    beside = len(plan.trials) - len(measured)
    rest = f" + {units.format_count(beside)} that prepare and clean up" if beside else ""
    total = units.counted(len(plan.trials), "trial")
    print(f"{plan.name}: {units.counted(len(trials), 'case')}{repeated}{rest} = {total}\n")


def _case_of(planned: PlannedTrial) -> str:
    document = planned.document
    return json.dumps([document["phase"], document.get("case")], sort_keys=True)


def _print_phases(measured: Sequence[PlannedTrial]) -> None:
    """Print a row for each phase, with the first and last value of swept parameters."""
    phases: dict[str, list[PlannedTrial]] = {}
    for planned in measured:
        phases.setdefault(planned.phase, []).append(planned)
    rows = []
    for name, trials in list(phases.items())[:PHASES_SHOWN]:
        does = dict.fromkeys(_does(planned.document) for planned in trials)
        # Sorted by number: a plan shuffles its cases, and "10,536" sorts before "2,664" as text.
        loads = sorted({(_load_number(planned), _load(planned)) for planned in trials})
        ends = sorted({(_end_numbers(planned), _end(planned)) for planned in trials})
        columns = (does, [load for _, load in loads], [end for _, end in ends])
        rows.append((name, *map(_span, columns), units.format_count(len(trials))))
    print_table(("phase", "does", "load", "ends", "trials"), rows)
    if len(phases) > len(rows):
        print(f"and {units.counted(len(phases) - len(rows), 'phase')} more")


def _span(values: Iterable[str]) -> str:
    """Return a single value, or the range of several."""
    ordered = list(values)
    return ordered[0] if len(ordered) == 1 else f"{ordered[0]} … {ordered[-1]}"


def _parameters(planned: PlannedTrial) -> dict[str, Any]:
    case = planned.document.get("case") or {}
    names = {key: case[key] for key in ("target", "workload") if case.get(key) is not None}
    return {**names, **(case.get("parameters") or {})}


def _print_varied(varied: Mapping[str, Sequence[str]]) -> None:
    if not varied:
        return
    print()
    width = _width_of_names(varied)
    for name, values in list(varied.items())[:PARAMETERS_SHOWN]:
        count = f"{len(values)} × "
        room = WIDTH - width - 2 - len(count)
        print(f"{name:<{width}}  {count}{_fitting(values, room)}")
    if len(varied) > PARAMETERS_SHOWN:
        print(f"and {units.counted(len(varied) - PARAMETERS_SHOWN, 'parameter')} more")


def _width_of_names(varied: Mapping[str, Sequence[str]]) -> int:
    return max(len(name) for name in ("order", *varied))


def _print_order(
    measured: Sequence[PlannedTrial], varied: Mapping[str, Sequence[str]], words: str
) -> None:
    """Print the order of the cases in the first block, if one parameter distinguishes them."""
    if not varied:
        return
    width = _width_of_names(varied)
    if len(varied) == 1:
        (name,) = varied
        first = measured[0].document["block"]
        values = dict.fromkeys(
            describe_value(name, _parameters(planned)[name])
            for planned in measured
            if planned.document["block"] == first and name in _parameters(planned)
        )
        words = f"{_fitting(list(values), WIDTH - width - len(words) - 4)}: {words}"
    print(f"{'order':<{width}}  {words}")


def _fitting(values: Sequence[str], room: int) -> str:
    """Return values separated by commas; if they do not fit, the first ones and the last."""
    for shown in range(len(values), 1, -1):
        gap = [] if shown == len(values) else ["…"]
        text = ", ".join([*values[: shown - 1], *gap, values[-1]])
        if len(text) <= room:
            return text
    return f"{values[0]}, …"[:room]


def _print_trials(trials: Sequence[PlannedTrial], varied: Mapping[str, Sequence[str]]) -> None:
    # Target and load have their own columns, whether they vary or not.
    swept = [name for name in varied if name not in ("target", "threads", "rate")]
    rows = []
    for planned in trials:
        document = planned.document
        parameters = _parameters(planned) if planned.is_measured else {}
        pause = units.format_duration(planned.pause_before_ns) if planned.pause_before_ns else ""
        rows.append(
            (
                document["id"],
                document["target"]["name"],
                document["phase"] if planned.is_measured else f"({document['phase']})",
                _does(document),
                *(
                    describe_value(key, parameters[key]) if key in parameters else ""
                    for key in swept
                ),
                str(document["round"]),
                str(document["block"]),
                _load(planned),
                _end(planned),
                pause,
            )
        )
    head = ("trial", "target", "phase", "does", *swept)
    print_table((*head, "round", "block", "load", "ends", "rest before"), rows)


def _does(document: TrialDocument) -> str:
    return ", ".join(operations_of(document)) or kind_of(document)


def _load(planned: PlannedTrial) -> str:
    if planned.is_search:
        return _search_load(planned.document)
    load = planned.document.get("load") or {}
    return str(load.get("clients") or (f"{load['rate_per_s']:g}/s" if load else ""))


def _load_number(planned: PlannedTrial) -> float:
    """Return the load as a number: threads, requests per second, or the start of a search."""
    if planned.is_search:
        loads = planned.document["search"]["loads"]
        return loads["low"] or loads["start"] or 0
    load = planned.document.get("load") or {}
    return load.get("clients") or load.get("rate_per_s") or 0


def _print_cost(plan: Plan, rate: float | None, bandwidth: float | None) -> None:
    cost = plan.estimate(requests_per_s=rate, bytes_per_s=bandwidth)
    print()
    lines = [
        ("requests", f"{cost.requests:,}"),
        (
            "bytes",
            f"{units.format_bytes(cost.bytes_written)} written,"
            f" {units.format_bytes(cost.bytes_read)} read",
        ),
    ]
    rests = f", with rests of {units.format_duration(cost.pauses_ns)}" if cost.pauses_ns else ""
    least = (
        units.format_duration(cost.time_ns_min)
        if cost.time_ns_min
        else "unknown without a rate (loadstone run --assume-rate)"
    )
    lines.append(("time, at least", least + rests))
    if cost.time_ns is not None:
        lines.append(("time, at the rates given", units.format_duration(cost.time_ns)))
    if cost.trials_by_time and rate is None and bandwidth is None:
        ended = units.counted(cost.trials_by_time, "trial")
        lines.append(("not counted", f"requests and bytes of {ended} that end by time"))
    if cost.searches:
        bound = (
            f"{units.counted(cost.search_trials_max, 'trial')} and about "
            + units.format_duration(cost.search_time_ns_max)
        )
        lines.append(("searches", f"{cost.searches}, at most {bound}, on top of the above"))
    lines += [
        (f"space on {name}", units.format_bytes(size))
        for name, size in cost.peak_bytes.items()
        if size
    ]
    measured = [planned.document for planned in plan.trials if planned.is_measured]
    is_watched = bool(plan.probes.prometheus)
    wait_s = max(
        (wait_max_s(document, is_target_watched=is_watched) for document in measured), default=0.0
    )
    if wait_s:
        wait = units.format_duration(wait_s * 1e9)
        lines.append(("waits, at most", f"{wait} before a trial, not counted above"))
    connections = host_limits.describe(plan)
    lines += [("connections", connections)] if connections is not None else []
    width = max(len(name) for name, _ in lines)
    for name, value in lines:
        text = f"{name:<{width}}  {value}"
        print(textwrap.fill(text, WIDTH, subsequent_indent=" " * (width + 2)))


def _print_starts(schedule: Schedule | None, limit: int) -> None:
    """Print when a schedule starts the plan; the preview shows its first start."""
    if schedule is None:
        return
    now = datetime.datetime.now().astimezone()
    count = suites(schedule)
    starts = units.counted(count, "start")
    print(f"\n{starts}, each with all of the above, its cases in {ORDERS[schedule.order]}:")
    shown = range(count) if count <= limit else [*range(limit - 1), count - 1]
    for number in shown:
        gap = "… " if number > 0 and number - 1 not in shown else ""
        print(f"{gap:>4}{number + 1:>6,}  {start_of(schedule, now, number):%Y-%m-%d %H:%M:%S}")


def _search_load(document: TrialDocument) -> str:
    """Return the loads of a search, "100 to 4,000/s"; an unknown bound is left open."""
    loads, per = (
        document["search"]["loads"],
        "" if document["search"]["vary"] == "threads" else "/s",
    )
    if loads["low"] is None and loads["high"] is None:
        return f"from {loads['start']:g}{per}"
    ends = ["…" if loads[key] is None else f"{loads[key]:g}" for key in ("low", "high")]
    return f"{ends[0]} to {ends[1]}{per}"


def _end_numbers(planned: PlannedTrial) -> tuple[int, int]:
    """Return the requests and nanoseconds that end a trial, 0 for a missing limit."""
    stop, iterations = planned.document["stop"], planned.document.get("iterations", 1)
    requests, duration_ns = stop.get("requests") or 0, stop.get("duration_ns") or 0
    return requests * iterations, duration_ns * iterations


def _end(planned: PlannedTrial) -> str:
    document = planned.document
    if planned.is_search:
        return _search_end(document)
    stop = document["stop"]
    parts = []
    requests, duration_ns = stop.get("requests"), stop.get("duration_ns")
    if requests is not None:
        parts.append(units.counted(requests, "request"))
    if duration_ns is not None:
        parts.append(units.format_duration(duration_ns))
    iterations = document.get("iterations", 1)
    return " or ".join(parts) + (f", {iterations} times" if iterations != 1 else "")


def _search_end(document: TrialDocument) -> str:
    goal, quantile = document["search"]["goal"], document["search"]["quantile"].replace("_", ".")
    limit = units.format_duration(goal["latency_ns_max"])
    time_max = units.format_duration(goal["time_max_s"] * 1e9)
    return f"{quantile} ≤ {limit}; at most {units.counted(goal['trials_max'], 'trial')}, {time_max}"


def print_surroundings(plan: Plan, nodes: Mapping[str, Node], hosts: Hosts | None) -> None:
    """Print everything that runs beside or between the trials, if there is anything."""
    if any(node.probes for node in nodes.values()):
        _print_node_probes(nodes)
    for target in plan.cards:
        print(f"\ncard of {target['name']}: before all trials, in buckets of its own")
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
        (name, probe.kind, probe.path or probe.address or node.host or "", _probe_does(probe))
        for name, node in nodes.items()
        for probe in node.probes
    ]
    print_table(("node", "probe", "of", "does"), rows)
    takes = units.format_duration(round(expected_s(nodes) * 1e9))
    print(f"probes of nodes take {takes} or more, on top of the trials")


def _probe_does(probe: NodeProbe) -> str:
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
