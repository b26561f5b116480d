"""Nodes reached by a real ssh: an sshd of our own on loopback."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from loadstone.campaign.schema.node import Node
from loadstone.execution.interrupt import Interrupt
from loadstone.execution.programs import node_probes, reaching
from tests.system.servers.processes import free_ports

pytestmark = pytest.mark.real

SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
CONFIGURATION = """\
ListenAddress 127.0.0.1
Port {port}
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
PidFile none
StrictModes no
UsePAM no
"""


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[int]:
    if SSHD is None:
        pytest.skip("no sshd here (Debian: openssh-server)")
    for name in ("host", "user"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name)], check=True
        )
    Path("/run/sshd").mkdir(exist_ok=True)
    port = free_ports(1)
    configuration = tmp_path / "sshd_config"
    configuration.write_text(CONFIGURATION.format(port=port, folder=tmp_path))
    log = (tmp_path / "log").open("w")
    with subprocess.Popen([SSHD, "-D", "-e", "-f", str(configuration)], stderr=log) as server:
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield port
        server.terminate()


def with_keys(monkeypatch: pytest.MonkeyPatch, folder: Path, *, known: bool) -> None:
    """Let ssh use this key alone, and know the host or not."""
    hosts = folder / "known"
    text = (folder / "host.pub").read_text() if known else ""
    hosts.write_text(f"* {text}" if known else "")
    ssh_command = (
        "ssh", "-F", "none", "-i", str(folder / "user"), "-oIdentitiesOnly=yes",
        f"-oUserKnownHostsFile={hosts}", "-oGlobalKnownHostsFile=/dev/null", *reaching.SSH[1:],
    )  # fmt: skip
    monkeypatch.setattr(reaching, "SSH", ssh_command)


def test_a_node_behind_ssh_says_what_this_machine_says(
    sshd: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_keys(monkeypatch, tmp_path, known=True)
    asked = {
        "here": Node(roles=("osd",)),
        "there": Node(host="127.0.0.1", port=sshd, user="root", roles=("osd",)),
    }
    surveyed = node_probes.survey(asked, Interrupt())
    alike = ("kernel", "machine", "name", "system", "cpu", "memory_bytes", "disks", "packages")
    assert {key: surveyed["there"].get(key) for key in alike} == {
        key: surveyed["here"].get(key) for key in alike
    }
    assert surveyed["there"]["host"] == "127.0.0.1"


def test_a_host_that_is_not_known_is_not_trusted(
    sshd: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_keys(monkeypatch, tmp_path, known=False)
    asked = {"there": Node(host="127.0.0.1", port=sshd, user="root")}
    failed = node_probes.survey(asked, Interrupt())["there"]["failed"]
    assert "Host key verification failed" in failed  # others' words


def test_a_key_that_is_refused_is_said(
    sshd: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_keys(monkeypatch, tmp_path, known=True)
    (tmp_path / "user.pub").write_text("")
    asked = {"there": Node(host="127.0.0.1", port=sshd, user="root")}
    assert "Permission denied" in node_probes.survey(asked, Interrupt())["there"]["failed"]
