"""Ceilings and probes by the real programs: iperf3, fio, rados bench, ceph."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.system.command import loadstone, trials_of
from tests.system.servers.ceph import Cluster
from tests.system.servers.processes import free_ports

pytestmark = pytest.mark.real

LOCAL = """
name: local
targets: {{dir: {{driver: file, path: {folder}/data}}}}
dataset: {{objects: 20, size: 1MiB}}
load: {{threads: 2}}
phases: [put, {{op: get, duration: 2s}}]
ceilings:
  - kind: network
    host: 127.0.0.1
    port: {port}
    start_server: true
    duration: 2s
    streams: [1, 3]
  - kind: device
    options: {{filename: {folder}/blob, rw: read, bs: 1m, size: 16m, time_based: true, runtime: 1}}
  - kind: mount
    directory: {folder}/data
    file_size: 8MiB
    duration: 1s
    jobs: 2
    direct: {direct}
hooks:
  - {{at: 1s, phases: get, name: fault, run: [sleep, "0.2"]}}
"""

RADOS = """
name: rados
targets: {{pool: {{driver: rados, pool: bench, conf: {conf}, keyring: {keyring}, replication: 3}}}}
dataset: {{objects: 20, size: 1MiB}}
load: {{threads: 2}}
phases: [put, get]
ceilings:
  - {{kind: rados_bench, threads: [1, 4], operations: [write, seq, rand], size: 1MiB, duration: 2s}}
  - {{kind: osd_bench, total_size: 12MiB, block_size: 1MiB}}
probes: {{ceph: true}}
"""


def ceilings_of(folder: Path) -> dict[str, list[dict[str, Any]]]:
    paths = sorted((folder / "ceilings").glob("*.json"))
    records = [json.loads(path.read_text()) for path in paths]
    return {record["ceiling"]["name"]: record["measurements"] for record in records}


@pytest.mark.skipif(
    shutil.which("iperf3") is None or shutil.which("fio") is None,
    reason="iperf3 or fio is not installed here: make servers",
)
@pytest.mark.parametrize("direct", ["true", "false"])
def test_network_device_and_mount_are_measured_on_this_host(tmp_path: Path, direct: str) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "blob").write_bytes(b"x" * (16 << 20))
    campaign, folder = tmp_path / "campaign.yaml", tmp_path / "run"
    port = free_ports(1)
    campaign.write_text(LOCAL.format(folder=tmp_path, port=port, direct=direct))
    finished = loadstone("run", campaign, "-o", folder, "--allow-commands")
    assert finished.code == 0, finished.out + finished.err
    ceilings = ceilings_of(folder)
    assert [ceiling["parameters"] for ceiling in ceilings["network"]] == [
        {"direction": direction, "streams": streams}
        for direction in ("send", "receive")
        for streams in (1, 3)
    ]
    for network in ceilings["network"]:
        # On a busy machine iperf3's last second may end in an interval of its own.
        assert len(network["bytes_per_second"]) in (2, 3)
        assert network["bytes_per_s_min"] <= network["bytes_per_s_max"]
        # The receiver has at most the sent bytes, minus those in transit.
        assert 0 < network["bytes_per_s"] <= network["bytes_per_s_max"] * 1.1
    (device,) = ceilings["device"]
    assert device["bytes_per_s"] == pytest.approx(device["requests_per_s"] * (1 << 20), rel=0.01)
    assert device["service"]
    assert [(ceiling["bounds"], ceiling["parameters"]["rw"]) for ceiling in ceilings["mount"]] == [
        ("write", "write"), ("read", "read"), ("write", "randwrite"), ("read", "randread"),
    ]  # fmt: skip
    # The files of the mount ceiling and of the load are removed.
    assert not [path for path in (tmp_path / "data").iterdir() if "loadstone-" in path.name]
    report = loadstone("report", folder, "-f", "json").json()
    assert {ceiling["kind"] for ceiling in report["ceilings"]} == {"network", "device", "mount"}
    assert [hook["hook"] for hook in report["hooks"]] == ["fault"]
    assert any(finding["rule"] == "bottleneck" for finding in report["findings"])


def test_the_stores_own_benchmarks_and_its_state_are_part_of_a_run(
    ceph_server: Cluster, tmp_path: Path
) -> None:
    campaign, folder = tmp_path / "campaign.yaml", tmp_path / "run"
    campaign.write_text(RADOS.format(**ceph_server.endpoints["rados"]))
    finished = loadstone("run", campaign, "-o", folder)
    assert finished.code == 0, finished.out + finished.err
    ceilings = ceilings_of(folder)
    assert [ceiling["parameters"]["operation"] for ceiling in ceilings["rados_bench"]] == [
        "write", "seq", "rand",
    ] * 2  # fmt: skip
    assert all(ceiling["bytes_per_s"] > 0 for ceiling in ceilings["rados_bench"])
    alone, together = ceilings["osd_bench"][:-1], ceilings["osd_bench"][-1]
    assert together["parameters"]["osds"] == [ceiling["parameters"]["osds"][0] for ceiling in alone]
    assert len(together["outputs"]) == len(alone) > 1
    # Nothing of the benchmarks is left in the pool.
    login = ceph_server.endpoints["rados"]
    listing = ["rados", "-c", login["conf"], "-k", login["keyring"], "-p", "bench", "ls", "--all"]
    left = subprocess.run(listing, capture_output=True, text=True, check=True, timeout=60).stdout
    assert "benchmark" not in left
    assert "loadstone" not in left
    for record in trials_of(folder):
        if record["trial"]["measured"]:
            state = record["target_state"]["before"]["ceph"]
            assert state["health"].startswith("HEALTH_")
            assert state["pools"]["bench"]["redundancy"] == "3 copies"
            assert state["osds_up"] == len(alone)
            assert 0 <= state["fill"] < 1
            assert state["versions"]
            assert record["absent_probes"].keys().isdisjoint({"ceph status", "ceph osd df"})
