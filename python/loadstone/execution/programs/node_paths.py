"""Measures the network between nodes by ping and iperf3, one directed pair at a time.

Both directions are measured, because a path may be slow in one only. iperf3 listens on a node only
during its measurement, and ends by itself if no client connects.
"""

import itertools
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
    """Return how long all paths take together, in seconds."""
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
    """Return each node's paths to the other nodes; `failed` nodes are not tried again.

    The output of the programs goes into `outputs`.
    """
    asked = members(nodes)
    paths: dict[str, dict[str, PathProbe]] = {}
    for start, end in itertools.permutations(asked, 2):
        say(f'probing the network from node "{start}" to "{end}"')
        path = _Path(nodes, asked, start, end, interrupt)
        probed = path.probe(failed)
        if outputs is not None and path.printed:
            probed["outputs"] = outputs.take(path.printed)
        paths.setdefault(start, {})[end] = probed
    return paths


class _Path:
    """The network path from one node to another, and the output of the programs."""

    def __init__(
        self,
        nodes: Mapping[str, Node],
        asked: Mapping[str, NodeProbe],
        start: str,
        end: str,
        interrupt: Interrupt,
    ) -> None:
        self.printed: dict[str, str] = {}
        self._start, self._end = nodes[start], nodes[end]
        self._names = (start, end)
        self._probe = asked[start]
        self._port = str(asked[end].port)
        self._address = (asked[end].address or nodes[end].host or "").strip("[]")
        self._interrupt = interrupt

    def probe(self, failed: Mapping[str, str]) -> PathProbe:
        """Measure this direction; a failed measurement is replaced by its reason."""
        for name in self._names:
            if name in failed:
                return {"failed": f'node "{name}" could not be reached: {failed[name]}'}
        if not self._address:
            return {
                "failed": f'node "{self._names[1]}" is this machine, and its network probe names no'
                " address",
                "hint": "probes: [{kind: network, address: …}], as the other nodes reach it",
            }
        path: PathProbe = {"address": self._address}
        problems: dict[str, InputError] = {}
        try:
            path["ping"] = self._ping()
        except InputError as error:
            problems["ping"] = error
        try:
            path["bandwidth"] = self._bandwidth()
        except InputError as error:
            problems["bandwidth"] = error
        for problem in problems.values():
            if problem.hint:
                path["hint"] = problem.hint
        if problems:
            reasons = (f"{name}: {problem.message}" for name, problem in problems.items())
            path["failed"] = "; ".join(reasons)
        return path

    def _ping(self) -> Ping:
        limit_s = self._probe.pings * PING_APART_S + SPARE_S
        words = ["ping", "-n", "-q", "-c", str(self._probe.pings), "-i", str(PING_APART_S)]
        words += ["-w", str(round(limit_s)), self._address]
        text, code = self._run(words, limit_s)
        self.printed["ping"] = text
        # Exit code 1 (unreachable) also has statistics.
        ping = read_ping(text) if code in (0, 1) else None
        if ping is None:
            raise InputError(why(text, code), INSTALL if code == 127 else None)
        if not ping["received"]:
            raise InputError(f"none of {ping['sent']} packets to {self._address} came back")
        return ping

    def _bandwidth(self) -> Bandwidth:
        seconds = max(1, round(self._probe.duration_ns / SECOND_NS))
        limit_s = seconds + SPARE_S
        # -1: serve one client, then end. timeout: end if none connects.
        serving = ["timeout", str(limit_s + round(READY_S)), "iperf3", "-s", "-1"]
        serving += ["-p", self._port, "-B", self._address, "--forceflush"]
        server = Program(command_on(self._end, f"exec {shlex.join(serving)}", {}))
        try:
            self._wait_for(server)
            words = ["iperf3", "-c", self._address, "-p", self._port, "-J", "-t", str(seconds)]
            words += ["-P", str(self._probe.streams), "--connect-timeout", "5000"]
            text, code = self._run(words, limit_s)
            self.printed["iperf3"] = text
        finally:
            if server.is_running:
                server.stop("stopped")
            server.finish()
        if code == 127:
            raise InputError(why(text, code), INSTALL)
        if "{" not in text:
            raise InputError(why(text, code))
        return {**read_iperf3(text), "streams": self._probe.streams}

    def _wait_for(self, server: Program) -> None:
        give_up = time.monotonic() + READY_S
        while "listening" not in server.tail:
            if self._interrupt.is_asked:
                raise InputError("the run was stopped")
            if not server.is_running or time.monotonic() > give_up:
                printed = clean(server.tail) or "no output"
                is_taken = "in use" in printed
                raise InputError(
                    f'iperf3 does not listen on node "{self._names[1]}" at port {self._port}:'
                    f" {printed}",
                    "give its network probe another port" if is_taken else INSTALL,
                )
            time.sleep(POLL_S)

    def _run(self, words: list[str], limit_s: float) -> tuple[str, int]:
        """Run a program on the first node; return its output and its exit code."""
        mark = new_mark()
        (ended,) = run_programs(
            [command_on(self._start, f"part said {shlex.join(words)}", {"mark": mark})],
            timeout_s=limit_s + CONNECT_TIMEOUT_S,
            is_stopped=lambda: self._interrupt.is_asked,
        )
        printed = read_parts(ended.output.decode(errors="replace"), mark).get("said")
        if printed is None:
            raise InputError(why_failed(ended, limit_s))
        return printed
