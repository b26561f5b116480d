"""SSH servers on loopback, each with a state of its own, as hosts that agents are started on."""

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.system.servers.processes import ServerError, free_ports

WAIT_S = 30.0

CONFIGURATION = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized
PidFile none
UsePAM no
StrictModes no
PermitRootLogin prohibit-password
SetEnv XDG_STATE_HOME={folder}/state{number}
"""


@dataclass(frozen=True)
class Hosts:
    """Names that ssh knows, and the home directory whose keys log in to them."""

    names: list[str]
    home: Path

    @property
    def environment(self) -> dict[str, str]:
        """Have ssh look there: by itself it goes by the user's entry in passwd, not by HOME."""
        folder = self.home / "bin"
        folder.mkdir(exist_ok=True)
        words = ["-F", "/dev/null", "-oIdentitiesOnly=yes",
                 f"-oIdentityFile={self.home}/.ssh/id_ed25519",
                 f"-oUserKnownHostsFile={self.home}/.ssh/known_hosts",
                 "-oGlobalKnownHostsFile=/dev/null"]  # fmt: skip
        program = folder / "ssh"
        program.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} {" ".join(words)} "$@"\n')
        program.chmod(0o755)
        return {"PATH": f"{folder}:{os.environ['PATH']}"}


@contextlib.contextmanager
def running(folder: Path, number: int) -> Iterator[Hosts]:
    """Start so many servers, which let one key in as the user that runs the tests."""
    program = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        raise ServerError("sshd is not installed: python -m tests.system.servers install sshd")
    home = folder / "home"
    (home / ".ssh").mkdir(parents=True, mode=0o700)
    for path in (home / ".ssh" / "id_ed25519", folder / "host_key"):
        made = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)]
        subprocess.run(made, check=True)
    shutil.copy(home / ".ssh" / "id_ed25519.pub", folder / "authorized")
    # sshd's directory for privilege separation, normally created by the package's service.
    Path("/run/sshd").mkdir(exist_ok=True)
    kind, key, *_ = (folder / "host_key.pub").read_text().split()
    first = free_ports(number)
    ports = range(first, first + number)
    with contextlib.ExitStack() as stack:
        for index, port in enumerate(ports):
            text = CONFIGURATION.format(port=port, folder=folder, number=index)
            (folder / f"sshd{index}").write_text(text)
            server = subprocess.Popen([program, "-D", "-f", str(folder / f"sshd{index}")])
            stack.callback(server.wait)
            stack.callback(server.terminate)
            _wait_for(port)
        known = "".join(f"[127.0.0.1]:{port} {kind} {key}\n" for port in ports)
        (home / ".ssh" / "known_hosts").write_text(known)
        yield Hosts([f"127.0.0.1:{port}" for port in ports], home)


def _wait_for(port: int) -> None:
    end = time.monotonic() + WAIT_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
