"""Agents over SSH, with the keys, the known hosts and the configuration that ssh has.

The invitation goes through the encrypted session into the agent's standard input: it is on no
command line and in no file. The agent leaves when its session ends.
"""

import asyncio
import contextlib
import os
import re
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import asyncssh

from loadstone.campaign.schema.systems.hosts import Hosts
from loadstone.hosts.connection.invitation import Invitation

CONNECT_S = 20.0
ALIVE_S = 2
ALIVE_MISSED_MAX = 3
SAID_BYTES = 2000
STOP_S = 8.0


class Ssh:
    """One session for each host, in a thread with a loop of its own."""

    def __init__(self, hosts: Hosts, environment: Mapping[str, str]) -> None:
        self._command = hosts.command or "loadstone"
        self._ended: dict[str, str] = {}
        self._sessions: dict[str, asyncio.Task[None]] = {}
        self._is_over: asyncio.Event | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="ssh", daemon=True)

    def start(self, invitations: Sequence[Invitation]) -> list[str]:
        """Open a session to each host, all at once, and start an agent in it."""
        asyncssh.set_log_level("CRITICAL")
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(invitations), self._loop).result()
        return []

    def ended(self) -> Mapping[str, str]:
        """Return the hosts whose sessions have ended, or never began, with the reason."""
        return dict(self._ended)

    def stop(self) -> None:
        """Close all sessions: the agents' input ends, and so do they."""
        if self._thread.is_alive():
            with contextlib.suppress(TimeoutError):
                asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(STOP_S)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(STOP_S)

    async def _start(self, invitations: Sequence[Invitation]) -> None:
        self._is_over = asyncio.Event()
        for invitation in invitations:
            self._sessions[invitation.host] = asyncio.create_task(self._serve(invitation))

    async def _stop(self) -> None:
        assert self._is_over is not None
        self._is_over.set()
        if self._sessions:
            _, late = await asyncio.wait(self._sessions.values(), timeout=STOP_S * 0.7)
            for session in late:
                session.cancel()

    async def _serve(self, invitation: Invitation) -> None:
        host = invitation.host
        try:
            self._ended[host] = await self._session(invitation)
        except TimeoutError:
            self._ended[host] = _told(
                host, f"no answer within {CONNECT_S:g} s",
                "is the host up, and does a firewall let port 22 pass?",
            )  # fmt: skip
        except asyncssh.PermissionDenied as error:
            self._ended[host] = _told(
                host, f"the key or the user was refused: {error.reason}",
                "log in once by hand, with the same user: ssh must need no password",
            )  # fmt: skip
        except asyncssh.HostKeyNotVerifiable as error:
            self._ended[host] = _told(
                host, f"its key is not a known one: {error.reason}",
                "log in once by hand and compare the key: known_hosts keeps it",
            )  # fmt: skip
        except ValueError as error:
            # What asyncssh says of files: a key, its public half, known_hosts, the configuration.
            self._ended[host] = _told(
                host, f"a file of ssh cannot be used: {error}",
                "look into ~/.ssh: each key and its .pub must belong together",
            )  # fmt: skip
        except (asyncssh.Error, OSError) as error:
            self._ended[host] = _told(host, _reason(error), f"does this log in: ssh {host}")

    async def _session(self, invitation: Invitation) -> str:
        async with asyncio.timeout(CONNECT_S):
            connection = await asyncssh.connect(
                **_address(invitation.host),
                keepalive_interval=ALIVE_S,
                keepalive_count_max=ALIVE_MISSED_MAX,
            )
        assert self._is_over is not None
        over = asyncio.create_task(self._is_over.wait())
        async with connection:
            agent: Any = await connection.create_process(f"{self._command} agent --join -")
            agent.stdin.write(invitation.text())
            said = asyncio.create_task(agent.stderr.read())
            ended = asyncio.create_task(agent.wait_closed())
            await asyncio.wait({over, ended}, return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                agent.stdin.write_eof()
                await asyncio.wait({ended}, timeout=STOP_S * 0.6)
            over.cancel()
            text = str(await said).strip() if ended.done() else ""
            said.cancel()
            code = agent.exit_status
        return self._reason(invitation.host, code, text)

    def _reason(self, host: str, code: int | None, text: str) -> str:
        if code == 127 or "No such file" in text:
            return _told(
                host, f'"{self._command}" was not found there',
                "hosts.command says how loadstone is called on the hosts: give its whole path",
            )  # fmt: skip
        if "no such command" in text or "No module named" in text:
            return _told(
                host, f'"{self._command}" is no loadstone that can be an agent: {text[-200:]}',
                "install the controller's version there: pip install loadstone",
            )  # fmt: skip
        if text.startswith("error: "):
            return text.removeprefix("error: ")
        how = f"exit code {code}" if code is not None else "its session broke"
        return f"host {host}: its agent ended: {how}{': ' if text else ''}{text[-SAID_BYTES:]}"


def _reason(error: Exception) -> str:
    number = getattr(error, "errno", None)
    if isinstance(error, OSError) and isinstance(number, int) and number > 0:
        return os.strerror(number)
    return str(getattr(error, "reason", None) or error)


def _told(host: str, what: str, hint: str) -> str:
    return f"host {host}: start an agent by ssh: {what}\nhint: {hint}"


def _address(name: str) -> dict[str, Any]:
    """Return what "user@host:port" says, each part but the host as far as it is there."""
    found = re.fullmatch(r"(?:([^@]+)@)?([^:]+)(?::(\d+))?", name)
    if found is None:
        return {"host": name}
    parts: dict[str, Any] = {"host": found[2]}
    if found[1]:
        parts["username"] = found[1]
    if found[3]:
        parts["port"] = int(found[3])
    return parts
