"""Runs a shell program on a node: this machine, or another by the system's own ssh.

ssh's configuration, keys and known hosts apply; it never prompts.
"""

import secrets as chance
import shlex
from collections.abc import Mapping
from importlib import resources

from loadstone.campaign.schema.node import Node
from loadstone.execution import secrets
from loadstone.execution.programs.program import Ended
from loadstone.formats.reading import TEXT_MAX

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

_PROGRAMS = resources.files("loadstone.execution.programs")


def new_mark() -> str:
    """Return a random word that no machine prints by chance."""
    return f"=={chance.token_hex(8)}"


def shell_file(name: str) -> str:
    """Return a shell program of this package, to be sent to a node."""
    return _PROGRAMS.joinpath(name).read_text()


def command_on(node: Node, program: str, settings: Mapping[str, str]) -> list[str]:
    """Return the command that runs a shell program on a node, with its variables set."""
    head = "; ".join(f"{key}={shlex.quote(value)}" for key, value in settings.items())
    script = f"{head}\n{shell_file('parts.sh')}\n{program}"
    if node.host is None:
        return ["sh", "-c", script]
    words = [*SSH]
    words += ["-l", node.user] if node.user else []
    words += ["-p", str(node.port)] if node.port else []
    return [*words, "--", node.host.strip("[]"), f"exec sh -c {shlex.quote(script)}"]


def why_failed(ended: Ended, timeout_s: float) -> str:
    """Return why a node's output cannot be parsed."""
    match ended.state:
        case "timeout":
            return f"no answer within {timeout_s:.0f} s"
        case "stopped":
            return "the run was stopped before it answered"
        case _:
            printed = secrets.hide(" ".join(ended.tail.split())[-TEXT_MAX:], ())
            return printed or f"ended with exit code {ended.exit_code} and printed nothing"
