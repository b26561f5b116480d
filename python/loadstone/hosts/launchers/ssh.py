"""Agents by the system's ssh, with its configuration, keys, known hosts and jump hosts.

The invitation goes through the encrypted session into the agent's standard input: it is on no
command line and in no file. The agent exits with its session.
"""

import contextlib
import re
import socket
import subprocess

from loadstone.campaign.schema.hosts import Hosts, SshName
from loadstone.errors import HostError
from loadstone.execution.programs.reaching import SSH
from loadstone.hosts.launchers.processes import Processes

OPTIONS = (
    "-T",
    "-oServerAliveInterval=2",
    "-oServerAliveCountMax=3",
    "-oLogLevel=ERROR",
    # A shared connection must neither start here nor end with the agent.
    "-oControlMaster=no",
    "-oClearAllForwardings=yes",
    "-oRemoteCommand=none",
    "-oEscapeChar=none",
)
"""ssh uses the first value of an option, so these precede those for reaching a node."""

CONFIGURATION_S = 10.0
ANY_PORT = 9

SSH_FAILED = 255
NOT_FOUND = 127

# others' words: OpenSSH's, in which any failure of its own is exit code 255.
HINTS = (
    ("Permission denied", "log in once by hand, with the same user: ssh must need no password"),
    ("Host key verification failed",
     "log in once by hand and compare the key, which known_hosts keeps; or have"
     " StrictHostKeyChecking accept-new in ssh's configuration"),
    ("timed out", "is the host up, and does a firewall let ssh's port pass?"),
)  # fmt: skip


class Ssh(Processes):
    """A session for each host, held by an ssh process."""

    absent_hint = "install OpenSSH's client here"

    def words(self, host: str) -> list[str]:
        """Return the command that logs in to a host and starts an agent there."""
        return [*_login(host), f"{self._command} agent --join -"]

    def why(self, host: str, code: int, text: str) -> str:
        """Return why a session ended: the message of ssh, the shell, or the agent."""
        if code == SSH_FAILED:
            by_hand = f"does this log in: {' '.join(['ssh', *_destination(host)])}"
            hint = next((hint for words, hint in HINTS if words in text), by_hand)
            return (
                f"host {host}: start an agent by ssh: {text or 'its session broke'}\nhint: {hint}"
            )
        if code == NOT_FOUND:
            return (
                f'host {host}: start an agent by ssh: "{self._command}" was not found there: {text}'
                "\nhint: hosts.command is the command that starts loadstone on the hosts: give"
                " its full path"
            )
        if re.search(r"No module named '?loadstone|no such command", text):
            return (
                f'host {host}: start an agent by ssh: "{self._command}" cannot be an agent of'
                f" this loadstone: {text[-200:]}\nhint: install the controller's version there:"
                " pip install loadstone"
            )
        if text.startswith("error: "):
            return text.removeprefix("error: ")
        return f"host {host}: its agent ended: exit code {code}{': ' if text else ''}{text}"

    @property
    def _command(self) -> str:
        return self.hosts.command or "loadstone"


def own_address(hosts: Hosts) -> str:
    """Return this machine's address from which ssh reaches all hosts, by ssh's configuration.

    Raises HostError if it differs between hosts.
    """
    hint = "name the one address of this machine that the hosts reach: hosts.listen"
    addresses: dict[str, str] = {}
    for host in hosts.all_names:
        settings = _configuration(host)
        jumps = {settings.get(name, "none") for name in ("proxyjump", "proxycommand")}
        if jumps != {"none"}:
            raise HostError(
                f"host {host}: ssh reaches it by {', '.join(sorted(jumps - {'none'}))}, so this"
                " machine's own address is not known from it",
                hint,
            )
        address = _address_towards(settings.get("hostname", host))
        if address is not None:
            addresses.setdefault(address, host)
    if len(addresses) > 1:
        ways = ", ".join(f"{host} from {address}" for address, host in addresses.items())
        raise HostError(f"this machine reaches its hosts from several addresses: {ways}", hint)
    # If no host is reachable, ssh itself reports the reason for each.
    return next(iter(addresses), "127.0.0.1")


def _login(host: str) -> list[str]:
    program, *usual = SSH
    return [program, *OPTIONS, *usual, *_destination(host)]


def _destination(host: str) -> list[str]:
    name = SshName.parse(host)
    words = ["-l", name.user] if name.user else []
    words += ["-p", str(name.port)] if name.port else []
    return [*words, "--", name.host]


def _configuration(host: str) -> dict[str, str]:
    """Return ssh's settings for a host, with lower-case names."""
    words = [SSH[0], "-G", *_destination(host)]
    try:
        ssh = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True,
            timeout=CONFIGURATION_S,
        )  # fmt: skip
    except FileNotFoundError as error:
        raise HostError(
            f'host {host}: start "{SSH[0]}": {error.strerror}', Ssh.absent_hint,
            kind="program-absent",
        ) from error  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        text = str(getattr(error, "stderr", None) or error).strip()
        raise HostError(
            f"host {host}: read ssh's configuration: {text}", f"try it by hand: ssh -G {host}"
        ) from error
    pairs = (line.split(maxsplit=1) for line in ssh.stdout.splitlines())
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def _address_towards(name: str) -> str | None:
    """Return this machine's address on the route to a name; no packet is sent."""
    try:
        ways = socket.getaddrinfo(name, None, type=socket.SOCK_DGRAM)
    except OSError:
        return None
    for family, kind, protocol, _, (address, _, *scope) in ways:
        with contextlib.suppress(OSError), socket.socket(family, kind, protocol) as way:
            way.connect((address, ANY_PORT, *scope))
            return str(way.getsockname()[0]).partition("%")[0]
    return None
