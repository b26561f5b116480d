"""Runs a local process for each agent, which gets its invitation through a pipe and exits with it:
the agent itself (launcher `local`), or a connection to it.
"""

import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import IO, Any

from loadstone.campaign.schema.hosts import Hosts
from loadstone.errors import HostError
from loadstone.hosts.invitation import Invitation

END_S = 8.0
TEXT_BYTES = 2000


class Processes:
    """Base of launchers that start one program per host: the agent itself, or a connection to
    it.
    """

    absent_hint = ""
    """Hint for a program that cannot be started."""

    def __init__(self, hosts: Hosts, environment: Mapping[str, str]) -> None:
        self.hosts = hosts
        self._environment = environment
        self._agents: dict[str, tuple[subprocess.Popen[bytes], IO[Any]]] = {}

    def words(self, host: str) -> list[str]:
        """Return the command line that starts the agent of a host."""
        raise NotImplementedError

    def why(self, host: str, code: int, text: str) -> str:
        """Return why an agent exited, from its exit code and the end of its standard error."""
        raise NotImplementedError

    def start(self, invitations: Sequence[Invitation]) -> list[str]:
        """Start an agent for each invitation, replacing one that has exited."""
        for invitation in invitations:
            words = self.words(invitation.host)
            errors = tempfile.TemporaryFile()  # noqa: SIM115, read when the agent has ended
            try:
                agent = subprocess.Popen(
                    words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=errors,
                    env=self._environment,
                    # Ctrl-C must only reach the controller, which stops its agents in order.
                    start_new_session=True,
                )  # fmt: skip
            except OSError as error:
                errors.close()
                raise HostError(
                    f'host {invitation.host}: start "{words[0]}": {error.strerror}',
                    self.absent_hint,
                    kind="program-absent" if isinstance(error, FileNotFoundError) else None,
                ) from error
            assert agent.stdin is not None
            # The pipe stays open: closing it ends the agent.
            with contextlib.suppress(BrokenPipeError):
                agent.stdin.write(invitation.text().encode())
                agent.stdin.flush()
            if invitation.host in self._agents:
                _close(*self._agents[invitation.host])
            self._agents[invitation.host] = agent, errors
        return []

    def ended(self) -> Mapping[str, str]:
        """Return the hosts whose agents have exited, with the reason."""
        return {
            host: self.why(host, agent.returncode, _last_text(errors))
            for host, (agent, errors) in self._agents.items()
            if agent.poll() is not None
        }

    def news(self) -> list[str]:
        """Return nothing: an agent's output is part of the reason for its exit."""
        return []

    def stop(self) -> None:
        """Close the agents' input, and kill those that do not exit."""
        for agent, _ in self._agents.values():
            if agent.stdin is not None:
                with contextlib.suppress(OSError):
                    agent.stdin.close()
        end = time.monotonic() + END_S
        for agent, errors in self._agents.values():
            try:
                agent.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                agent.kill()
            _close(agent, errors)
        self._agents.clear()


def _close(agent: subprocess.Popen[bytes], errors: IO[Any]) -> None:
    agent.wait()
    errors.close()
    if agent.stdin is not None:
        with contextlib.suppress(OSError):
            agent.stdin.close()


def _last_text(errors: IO[Any]) -> str:
    errors.seek(0)
    return str(errors.read().decode(errors="replace").strip()[-TEXT_BYTES:])


class Local(Processes):
    """Processes of this machine, each of which exits when its standard input is closed."""

    absent_hint = "hosts.command is the command that starts loadstone"

    def words(self, host: str) -> list[str]:
        """Return the command that starts an agent here."""
        words = (self.hosts.command or "").split()
        return [*(words or [sys.executable, "-m", "loadstone"]), "agent", "--join", "-"]

    def why(self, host: str, code: int, text: str) -> str:
        """Return an agent's output, or how it exited."""
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return text.removeprefix("error: ") or f"its agent ended with {how}"
