"""Agents on this machine: for tries and tests, and to see what several processes change."""

import contextlib
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import IO, Any

from loadstone.campaign.schema.systems.hosts import Hosts
from loadstone.errors import HostError
from loadstone.hosts.connection.invitation import Invitation

END_S = 8.0
SAID_BYTES = 2000


class Local:
    """Processes of this machine, each of which ends when its standard input does."""

    def __init__(self, hosts: Hosts, environment: Mapping[str, str]) -> None:
        self._environment = environment
        words = (hosts.command or "").split()
        self._command = words or [sys.executable, "-m", "loadstone"]
        self._agents: dict[str, tuple[subprocess.Popen[bytes], IO[Any]]] = {}

    def start(self, invitations: Sequence[Invitation]) -> list[str]:
        """Start an agent for each invitation, which goes through a private pipe."""
        for invitation in invitations:
            said = tempfile.TemporaryFile()  # noqa: SIM115, read when the agent has ended
            try:
                agent = subprocess.Popen(
                    [*self._command, "agent", "--join", "-"],
                    stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=said,
                    env=self._environment,
                    # Ctrl-C is for the controller, which ends its agents in order.
                    start_new_session=True,
                )  # fmt: skip
            except OSError as error:
                said.close()
                raise HostError(
                    f'host {invitation.host}: start "{self._command[0]}": {error.strerror}',
                    "hosts.command says how loadstone is called",
                    kind="program-absent" if isinstance(error, FileNotFoundError) else None,
                ) from error
            assert agent.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                agent.stdin.write(invitation.text().encode())
                agent.stdin.flush()
            self._agents[invitation.host] = agent, said
        return []

    def ended(self) -> Mapping[str, str]:
        """Return the hosts whose agents have ended, with what they said."""
        return {
            host: _end(agent.returncode, said)
            for host, (agent, said) in self._agents.items()
            if agent.poll() is not None
        }

    def stop(self) -> None:
        """Close the agents' input, and end those that do not go."""
        for agent, _ in self._agents.values():
            if agent.stdin is not None:
                with contextlib.suppress(OSError):
                    agent.stdin.close()
        for agent, said in self._agents.values():
            try:
                agent.wait(END_S)
            except subprocess.TimeoutExpired:
                agent.send_signal(signal.SIGKILL)
                agent.wait()
            said.close()
        self._agents.clear()


def _end(code: int, said: IO[Any]) -> str:
    said.seek(0)
    text = said.read().decode(errors="replace").strip()[-SAID_BYTES:]
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    return text.removeprefix("error: ") or f"its agent ended with {how}"
