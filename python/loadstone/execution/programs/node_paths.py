"""Measures the network between nodes: ping and iperf3, from each to each other, one by one.

Both directions are measured, because a path may be slow in one only. iperf3 listens on a node only
for its measurement. It ends with it, or by itself if no client connects.
"""

import shlex
import time
from collections.abc import Callable, Mapping

from loadstone.campaign.schema.node import Node, NodeProbe
from loadstone.documents.node import Bandwidth, PathProbe, Ping
from loadstone.errors import InputError
from loadstone.execution.interrupt import Interrupt
from loadstone.execution.programs.program import Program, run_programs
from loadstone.execution.programs.reaching import (
    CONNECT_TIMEOUT_S,
    command_on,
    new_mark,
    why_failed,
)
from loadstone.formats.node_probes import read_iperf3, read_ping
from loadstone.formats.reading import clean, read_parts, why
from loadstone.results.layout import NodeOutputs

SECOND_NS = 1_000_000_000
PING_APART_S = 0.2
SPARE_S = 20
READY_S = CONNECT_TIMEOUT_S + 5.0
POLL_S = 0.05

INSTALL = "on the nodes, if they are Debian: apt-get install iperf3 iputils-ping"

Say = Callable[[str], None]


def members(nodes: Mapping[str, Node]) -> dict[str, NodeProbe]:
    """Return the nodes between which the network is measured, each with its probe."""
    return {
        name: probe for name, node in nodes.items() for probe in node.probes
        if probe.kind == "network"
    }  # fmt: skip


def expected_s(nodes: Mapping[str, Node]) -> float:
    """Return how long all paths take together."""
    asked = members(nodes)
    return sum(
        (probe.duration_ns / SECOND_NS + probe.pings * PING_APART_S) * (len(asked) - 1)
        for probe in asked.values()
    )


def probe_paths(
    nodes: Mapping[str, Node],
    failed: Mapping[str, str],
    say: Say,
    interrupt: Interrupt,
    outputs: NodeOutputs | None = None,
) -> dict[str, dict[str, PathProbe]]:
    """Return by node the paths from it to each other one; `failed` nodes are not tried again.

    What the programs printed goes into `outputs`.
    """
    asked = members(nodes)
    paths: dict[str, dict[str, PathProbe]] = {}
    for start in asked:
        for end in asked:
            if start != end:
                say(f'probing the network from node "{start}" to "{end}"')
                printed: dict[str, str] = {}
                path = _path(nodes, asked, (start, end), failed, interrupt, printed)
                if outputs is not None and printed:
                    path["outputs"] = outputs.take(printed)
                paths.setdefault(start, {})[end] = path
    return paths


def _path(
    nodes: Mapping[str, Node],
    asked: Mapping[str, NodeProbe],
    ends: tuple[str, str],
    failed: Mapping[str, str],
    interrupt: Interrupt,
    printed: dict[str, str],
) -> PathProbe:
    end = ends[1]
    for name in ends:
        if name in failed:
            return {"failed": f'node "{name}" could not be reached: {failed[name]}'}
    address = asked[end].address or nodes[end].host
    if address is None:
        return {
            "failed": f'node "{end}" is this machine, and its network probe names no address',
            "hint": "probes: [{kind: network, address: …}], as the other nodes reach it",
        }
    address = address.strip("[]")
    path: PathProbe = {"address": address}
    problems: dict[str, InputError] = {}
    try:
        path["ping"] = _ping(nodes, asked, ends, address, interrupt, printed)
    except InputError as error:
        problems["ping"] = error
    try:
        path["bandwidth"] = _bandwidth(nodes, asked, ends, address, interrupt, printed)
    except InputError as error:
        problems["bandwidth"] = error
    for problem in problems.values():
        if problem.hint:
            path["hint"] = problem.hint
    if problems:
        path["failed"] = "; ".join(
            f"{name}: {problem.message}" for name, problem in problems.items()
        )
    return path


def _ping(
    nodes: Mapping[str, Node],
    asked: Mapping[str, NodeProbe],
    ends: tuple[str, str],
    address: str,
    interrupt: Interrupt,
    printed: dict[str, str],
) -> Ping:
    probe = asked[ends[0]]
    limit_s = probe.pings * PING_APART_S + SPARE_S
    words = ["ping", "-n", "-q", "-c", str(probe.pings), "-i", str(PING_APART_S)]
    # Unreachable is an answer, too: exit code 1 with its counts.
    words += ["-w", str(round(limit_s)), address]
    text, code = _run(nodes[ends[0]], words, limit_s, interrupt)
    printed["ping"] = text
    ping = read_ping(text) if code in (0, 1) else None
    if ping is None:
        raise InputError(why(text, code), INSTALL if code == 127 else None)
    if not ping["received"]:
        raise InputError(f"none of {ping['sent']} packets to {address} came back")
    return ping


def _bandwidth(
    nodes: Mapping[str, Node],
    asked: Mapping[str, NodeProbe],
    ends: tuple[str, str],
    address: str,
    interrupt: Interrupt,
    printed: dict[str, str],
) -> Bandwidth:
    probe, port = asked[ends[0]], str(asked[ends[1]].port)
    seconds = max(1, round(probe.duration_ns / SECOND_NS))
    limit_s = seconds + SPARE_S
    # -1: it serves one client and ends. timeout: it ends where none connects.
    serving = ["timeout", str(limit_s + round(READY_S)), "iperf3", "-s", "-1", "-p", port]
    serving += ["-B", address, "--forceflush"]
    server = Program(command_on(nodes[ends[1]], f"exec {shlex.join(serving)}", {}))
    try:
        _wait_for(server, ends[1], port, interrupt)
        words = ["iperf3", "-c", address, "-p", port, "-J", "-t", str(seconds)]
        words += ["-P", str(probe.streams), "--connect-timeout", "5000"]
        text, code = _run(nodes[ends[0]], words, limit_s, interrupt)
        printed["iperf3"] = text
    finally:
        if server.is_running:
            server.stop("stopped")
        server.finish()
    if code == 127:
        raise InputError(why(text, code), INSTALL)
    if "{" not in text:
        raise InputError(why(text, code))
    return {**read_iperf3(text), "streams": probe.streams}


def _wait_for(server: Program, name: str, port: str, interrupt: Interrupt) -> None:
    give_up = time.monotonic() + READY_S
    while "listening" not in server.tail:
        if interrupt.is_asked:
            raise InputError("the run was stopped")
        if not server.is_running or time.monotonic() > give_up:
            printed = clean(server.tail) or "no output"
            is_taken = "in use" in printed
            raise InputError(
                f'iperf3 does not listen on node "{name}" at port {port}: {printed}',
                "give its network probe another port" if is_taken else INSTALL,
            )
        time.sleep(POLL_S)


def _run(node: Node, words: list[str], limit_s: float, interrupt: Interrupt) -> tuple[str, int]:
    mark = new_mark()
    (ended,) = run_programs(
        [command_on(node, f"part said {shlex.join(words)}", {"mark": mark})],
        timeout_s=limit_s + CONNECT_TIMEOUT_S,
        is_stopped=lambda: interrupt.is_asked,
        tick=lambda passed_s: None,
    )
    text = ended.output.decode(errors="replace")
    printed = read_parts(text, mark).get("said")
    if printed is None:
        raise InputError(why_failed(ended, limit_s))
    return printed
