"""Client hosts to log in to: namespaces of network and name on one bridge, with an sshd in each.

Needs root, `ip`, `unshare`, `ssh-keygen` and `sshd`. The controller has a namespace, too:
nothing of the machine's own network is touched.
"""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.system.command import HANGS_AFTER_S, CommandResult

SSHD = "/usr/sbin/sshd"
PROGRAMS = ("ip", "unshare", "ssh-keygen", SSHD)
CONTROLLER = "10.231.9.1"
UNROUTED = "10.231.10.1"
"""An address of the controller to which the hosts have no route."""

SSHD_CONFIG = """\
ListenAddress {address}:22
HostKey {folder}/{name}.host
PidFile none
AuthorizedKeysFile {folder}/authorized
StrictModes no
PermitRootLogin yes
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
SetEnv XDG_STATE_HOME={folder}/{name}.state
"""
SSH_CONFIG = """\
Host client*
  User root
  IdentityFile {folder}/user
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known_hosts
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SshNetwork:
    """A controller and its hosts, each of which is known to ssh by its name."""

    prefix: str
    folder: Path
    names: tuple[str, ...]

    @property
    def ssh_folder(self) -> Path:
        """Files that only the controller has as /etc/ssh."""
        return self.folder / "etc-ssh"

    def start(
        self, *arguments: str | Path, environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """Start `loadstone` on the controller, where commands for hosts are allowed."""
        allowed = ["--allow-commands"] if arguments[0] in ("run", "hosts") else []
        space = ["ip", "netns", "exec", f"{self.prefix}-c"]
        # A namespace is entered with mounts of its own.
        mounts = ["sh", "-c", f'mount --bind {self.ssh_folder} /etc/ssh && exec "$0" "$@"']
        return subprocess.Popen(
            [*space, *mounts, sys.executable, "-m", "loadstone", *map(str, arguments), *allowed],
            env={**os.environ, "HOME": str(self.folder / "home"), "NO_COLOR": "1",
                 "XDG_STATE_HOME": str(self.folder / "controller.state"), **(environment or {})},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def loadstone(
        self, *arguments: str | Path, environment: Mapping[str, str] | None = None
    ) -> CommandResult:
        """Run `loadstone` on the controller to its end."""
        process = self.start(*arguments, environment=environment)
        out, err = process.communicate(timeout=HANGS_AFTER_S)
        return CommandResult(process.returncode, out, err)

    def cut_off(self, name: str) -> None:
        """Cut a host's cable: nothing passes, and no error says so."""
        self._set_cable(name, "down")

    def mend(self, name: str) -> None:
        """Undo `cut_off`."""
        self._set_cable(name, "up")

    def processes(self, name: str) -> list[int]:
        """Return the agents on a host."""
        space = f"{self.prefix}-{self.names.index(name)}"
        finished = subprocess.run(
            ["ip", "netns", "pids", space], capture_output=True, text=True, check=True
        )
        return [int(word) for word in finished.stdout.split() if _is_agent(int(word))]

    def _set_cable(self, name: str, state: str) -> None:
        number = self.names.index(name)
        _ip("-n", f"{self.prefix}-c", "link", "set", f"to{number}", state)


def lacks() -> str | None:
    """Return why this machine cannot carry such a network, or None."""
    if os.geteuid() != 0:
        return "namespaces need root"
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"these programs are missing: {', '.join(missing)}"
    tried = subprocess.run(
        ["unshare", "--net", "--uts", "true"], capture_output=True, text=True, check=False
    )
    return f"cannot make a namespace: {tried.stderr.strip()}" if tried.returncode else None


@contextlib.contextmanager
def ssh_network(folder: Path, hosts: int) -> Iterator[SshNetwork]:
    """Have client1 and so on, which the controller's user may log in to."""
    names = tuple(f"client{number}" for number in range(1, hosts + 1))
    network = SshNetwork(prefix=f"ls{os.getpid()}", folder=folder, names=names)
    network.ssh_folder.mkdir(parents=True)
    (folder / "authorized").write_text(_make_key(folder / "user") + "\n")
    known = []
    with contextlib.ExitStack() as stack:
        control = _space(stack, f"{network.prefix}-c")
        _ip("-n", control, "link", "add", "hub", "type", "bridge")
        _ip("-n", control, "link", "set", "hub", "up")
        for address in (CONTROLLER, UNROUTED):
            _ip("-n", control, "address", "add", f"{address}/24", "dev", "hub")
        for number, name in enumerate(names):
            address = f"10.231.9.{11 + number}"
            space = _space(stack, f"{network.prefix}-{number}")
            cable = f"to{number}"
            _ip("-n", control, "link", "add", cable, "type", "veth", "peer", "name", "eth0",
                "netns", space)  # fmt: skip
            _ip("-n", control, "link", "set", cable, "master", "hub", "up")
            _ip("-n", space, "address", "add", f"{address}/24", "dev", "eth0")
            _ip("-n", space, "link", "set", "eth0", "up")
            key = _make_key(folder / f"{name}.host")
            known.append(f"{name},{address} {key}")
            _start_sshd(stack, network, name, space, address)
        (network.ssh_folder / "ssh_known_hosts").write_text("\n".join(known) + "\n")
        config = SSH_CONFIG.format(folder=folder)
        for number, name in enumerate(names):
            config += f"Host {name}\n  HostName 10.231.9.{11 + number}\n"
        (network.ssh_folder / "ssh_config").write_text(config)
        yield network


def _start_sshd(
    stack: contextlib.ExitStack, network: SshNetwork, name: str, space: str, address: str
) -> None:
    config = network.folder / f"{name}.sshd"
    config.write_text(SSHD_CONFIG.format(address=address, folder=network.folder, name=name))
    Path("/run/sshd").mkdir(exist_ok=True)
    server = subprocess.Popen(
        ["ip", "netns", "exec", space, "unshare", "--uts", "sh", "-c",
         f"hostname {name} && exec {SSHD} -D -e -f {config}"],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    stack.callback(_end, server)
    assert server.stderr is not None
    output = ""
    while "Server listening" not in output:
        line = server.stderr.readline()
        assert line, f"sshd of {name} ended: {output}"
        output += line


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    process.communicate()


def _space(stack: contextlib.ExitStack, name: str) -> str:
    _ip("netns", "add", name)
    stack.callback(_ip, "netns", "del", name)
    _ip("-n", name, "link", "set", "lo", "up")
    return name


def _make_key(path: Path) -> str:
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)]
    subprocess.run(command, check=True)
    return path.with_suffix(path.suffix + ".pub").read_text().strip()


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def _is_agent(number: int) -> bool:
    with contextlib.suppress(OSError):
        return b"agent\0--join" in Path(f"/proc/{number}/cmdline").read_bytes()
    return False
