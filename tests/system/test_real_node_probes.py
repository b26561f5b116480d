"""Probes of nodes by ssh, in namespaces of network: real ping, iperf3 and fio on them."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.system import ssh_network
from tests.system.command import HANGS_AFTER_S, CommandResult
from tests.system.ssh_network import SshNetwork

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        any(shutil.which(name) is None for name in ("fio", "iperf3", "ping")),
        reason="no fio, iperf3 and ping here (Debian: fio iperf3 iputils-ping)",
    ),
]

CAMPAIGN = (
    'name: n\ntargets: {a: {driver: "null"}}\ndataset: {objects: 1, size: 4KiB}\n'
    "load: {threads: 1}\nphases: [{op: get, requests: 5}]\nnodes:\n"
)
NODE = """\
  {name}:
    host: {name}
    roles: [osd]
    probes:
      - {{kind: network, address: {address}, duration: 1s, pings: 3, port: {port}}}
      - {{kind: mount, path: {folder}/{name}, duration: 1s, file_size: 16MiB, jobs: 2{more}}}
"""


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshNetwork]:
    if lacks := ssh_network.lacks():
        pytest.skip(lacks)
    folder = tmp_path_factory.mktemp("nodes")
    with ssh_network.ssh_network(folder, hosts=3) as made, pytest.MonkeyPatch.context() as patch:
        # ssh asks the system for its user's home, and not the environment.
        wrapper = folder / "bin" / "ssh"
        wrapper.parent.mkdir()
        known = made.ssh_folder / "ssh_known_hosts"
        wrapper.write_text(
            f"#!/bin/sh\nexec {shutil.which('ssh')} -F {made.ssh_folder}/ssh_config"
            f' -oUserKnownHostsFile={known} "$@"\n'
        )
        wrapper.chmod(0o755)
        patch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")
        yield made


def make_mounts(network: SshNetwork, folder: Path) -> None:
    for name in network.names:
        (folder / name).mkdir()


def ask(
    network: SshNetwork,
    folder: Path,
    *words: str,
    names: Sequence[str],
    port: int = 5201,
    more: str = "",
) -> CommandResult:
    campaign = CAMPAIGN
    for number, name in enumerate(names):
        campaign += NODE.format(
            name=name, address=f"10.231.9.{11 + number}", port=port, folder=folder, more=more
        )
    (folder / "c.yaml").write_text(campaign)
    return network.loadstone("nodes", str(folder / "c.yaml"), *words)


def test_each_node_is_measured_and_every_path_both_ways(
    network: SshNetwork, tmp_path: Path
) -> None:
    make_mounts(network, tmp_path)
    finished = ask(network, tmp_path, "-f", "json", names=network.names)
    assert finished.code == 0, finished.err
    nodes: dict[str, Any] = json.loads(finished.out)
    assert list(nodes) == list(network.names)
    for name, node in nodes.items():
        (mount,) = node["probes"]
        assert mount["read"]["requests_per_s"] > 0
        assert mount["write"]["bytes_per_s"] > 0
        assert mount["tool"].startswith("fio-")
        assert node["paths"].keys() == nodes.keys() - {name}
        for path in node["paths"].values():
            assert path["ping"]["received"] == 3
            assert path["bandwidth"]["bits_per_s"] > 0
        assert os.listdir(tmp_path / name) == []


def test_a_path_that_is_slow_in_one_direction_is_seen_in_that_one(
    network: SshNetwork, tmp_path: Path
) -> None:
    make_mounts(network, tmp_path)
    # Only traffic from the bridge to the first node is slowed down.
    space = ["ip", "netns", "exec", f"{network.prefix}-c", "tc", "qdisc"]
    limit = ["tbf", "rate", "50mbit", "burst", "64kb", "latency", "50ms"]
    added = subprocess.run(
        [*space, "add", "dev", "to0", "root", *limit], capture_output=True, text=True, check=False
    )
    if added.returncode:
        pytest.skip(f"the kernel has no such queue: {added.stderr.strip()}")
    try:
        finished = ask(network, tmp_path, "-f", "json", names=network.names[:2])
    finally:
        subprocess.run([*space, "del", "dev", "to0", "root"], check=True)
    nodes = json.loads(finished.out)
    first, second, _ = network.names
    towards = nodes[second]["paths"][first]["bandwidth"]["bits_per_s"]
    back = nodes[first]["paths"][second]["bandwidth"]["bits_per_s"]
    assert towards < 60e6
    assert back > 2 * towards


def test_a_port_that_is_taken_and_a_mount_that_is_another_thing_are_said(
    network: SshNetwork, tmp_path: Path
) -> None:
    make_mounts(network, tmp_path)
    # sshd listens there.
    names = network.names[:2]
    finished = ask(network, tmp_path, names=names, port=22, more=", file_system: ceph")
    assert finished.code == 1
    warned = finished.err.split("warning: ")
    taken = [warning for warning in warned if "iperf3" in warning and "port 22:" in warning]
    assert len(taken) == 2
    assert all("another port" in warning.partition("hint: ")[2] for warning in taken)
    others = [warning for warning in warned if "not ceph" in warning]
    assert len(others) == 2
    assert all("mounted" in other.partition("hint: ")[2] for other in others)
    assert "client1  osd" in finished.out
    assert all(os.listdir(tmp_path / name) == [] for name in network.names)


def test_a_directory_that_is_not_there_and_a_node_out_of_reach_stop_no_other(
    network: SshNetwork, tmp_path: Path
) -> None:
    network.cut_off("client3")
    try:
        finished = ask(network, tmp_path, "-f", "json", names=network.names)
    finally:
        network.mend("client3")
    assert finished.code == 1
    nodes = json.loads(finished.out)
    away = nodes["client3"]["failed"]
    assert nodes["client3"]["probes"][0]["failed"].endswith(f": {away}")
    assert nodes["client1"]["probes"][0]["failed"].startswith(f"{tmp_path / 'client1'} ")
    assert "file_system" not in nodes["client1"]["probes"][0]
    assert nodes["client1"]["paths"]["client2"]["bandwidth"]["bits_per_s"] > 0
    assert nodes["client1"]["paths"]["client3"]["failed"].endswith(f": {away}")


def test_a_node_whose_caller_dies_removes_its_files(network: SshNetwork, tmp_path: Path) -> None:
    (tmp_path / "client1").mkdir()
    (tmp_path / "c.yaml").write_text(
        CAMPAIGN
        + NODE.format(name="client1", address="10.231.9.11", port=5201, folder=tmp_path, more="")
    )
    with network.start("nodes", str(tmp_path / "c.yaml")) as process:
        while process.poll() is None and not list((tmp_path / "client1").glob("*/probe.1")):
            time.sleep(0.05)
        assert process.poll() is None
        # The program itself and the ssh that it started.
        for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
            os.kill(int(child), signal.SIGKILL)
        process.kill()
        process.communicate()
    assert list((tmp_path / "client1").iterdir())
    give_up = time.monotonic() + HANGS_AFTER_S
    while list((tmp_path / "client1").iterdir()):
        assert time.monotonic() < give_up
        time.sleep(0.2)
