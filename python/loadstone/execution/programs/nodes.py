"""Describes the machines that a campaign names: one program sent to each, all at once.

The system's own ssh reaches them, so its configuration, keys and known hosts hold; it never asks
anything. A machine that does not answer is recorded with the reason, and stops nothing.
"""

import secrets as chance
import shlex
from collections.abc import Mapping
from importlib import resources
from typing import Any

from loadstone.campaign.schema.systems.node import Node
from loadstone.execution import secrets
from loadstone.execution.interrupt import Interrupt
from loadstone.execution.programs.program import Ended, run_programs
from loadstone.formats.survey import TEXT_MAX, read_survey

TIMEOUT_S = 60.0
CONNECT_TIMEOUT_S = 10

SSH = (
    "ssh",
    "-oBatchMode=yes",
    f"-oConnectTimeout={CONNECT_TIMEOUT_S}",
    "-oServerAliveInterval=5",
    "-oForwardAgent=no",
    "-oForwardX11=no",
    "-oPermitLocalCommand=no",
)


def survey(nodes: Mapping[str, Node], interrupt: Interrupt) -> dict[str, Any]:
    """Return what each machine says of itself, with its host and roles, by the campaign's names.

    One that could not be asked has "failed", the reason, instead.
    """
    mark = f"=={chance.token_hex(8)}"
    found = run_programs(
        [_command(node, mark) for node in nodes.values()],
        timeout_s=TIMEOUT_S,
        is_stopped=lambda: interrupt.is_asked,
        tick=lambda passed_s: None,
    )
    return {
        name: {"host": node.host, "roles": list(node.roles), **_read(ended, mark)}
        for (name, node), ended in zip(nodes.items(), found, strict=True)
    }


def _command(node: Node, mark: str) -> list[str]:
    settings = {
        "mark": mark,
        "sudo": "sudo -n" if node.sudo else "",
        # What a monitor knows of pools; others need not be allowed to ask.
        "pools": "yes" if "mon" in node.roles else "",
    }
    program = resources.files("loadstone.execution.programs").joinpath("survey.sh").read_text()
    head = "; ".join(f"{key}={shlex.quote(value)}" for key, value in settings.items())
    script = f"{head}\n{program}"
    if node.host is None:
        return ["sh", "-c", script]
    words = [*SSH]
    words += ["-l", node.user] if node.user else []
    words += ["-p", str(node.port)] if node.port else []
    return [*words, "--", node.host.strip("[]"), f"exec sh -c {shlex.quote(script)}"]


def _read(ended: Ended, mark: str) -> dict[str, Any]:
    text = ended.output.decode(errors="replace")
    if mark in text:
        return read_survey(text, mark)
    said = secrets.hide(" ".join(ended.said.split())[-TEXT_MAX:], ())
    match ended.state:
        case "timeout":
            return {"failed": f"no answer within {TIMEOUT_S:.0f} s"}
        case "stopped":
            return {"failed": "the run was stopped before it answered"}
        case _:
            return {"failed": said or f"ended with exit code {ended.exit_code} and said nothing"}
