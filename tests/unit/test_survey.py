"""Descriptions of machines: a physical one, a small container, hostile ones."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadstone.campaign.schema.node import Node
from loadstone.cli import main
from loadstone.execution.interrupt import Interrupt
from loadstone.execution.programs import node_probes
from loadstone.formats.reading import TEXT_MAX
from loadstone.formats.survey import ENTRIES_MAX, READERS, read_survey
from loadstone.results.store import read_run
from tests.unit.synthetic_run import Folder, trial

MARK = "==mark"

LSCPU = """\
Architecture:        x86_64
CPU(s):              32
Thread(s) per core:  2
Core(s) per socket:  8
Socket(s):           2
Model name:          Intel(R) Xeon(R) CPU E5-2630 v3 @ 2.40GHz
CPU max MHz:         3200.0000
"""
DMIDECODE = """\
Handle 0x0020, DMI type 17, 40 bytes
Memory Device
	Size: 16 GB
	Type: DDR4
	Speed: 2133 MT/s
	Part Number: M393A2G40DB0

Handle 0x0021, DMI type 17, 40 bytes
Memory Device
	Size: No Module Installed
	Type: Unknown
"""
CARDS = """\
name=eno49
speed=10000
mtu=9000
state=up
driver=bnx2x
firmware=bc 7.14.79
model=HP FlexFabric 10Gb 2-port 533FLR-T Adapter

name=eno50
speed=-1
mtu=1500
state=down
driver=bnx2x
firmware=
model=

"""
COLUMNS = ("NAME", "TYPE", "SIZE", "ROTA", "TRAN", "MODEL", "MOUNTPOINT", "PKNAME")
BLOCKS = (
    ("sda", "disk", "3000592982016", "1", "sas", "MB3000FCWDH", "", ""),
    ("sda1", "part", "3000591450112", "1", "", "", "/srv/node/sda1", "sda"),
    ("nvme0n1", "disk", "256060514304", "0", "nvme", "Toshiba THNSN5256GPU7", "", ""),
    ("loop0", "loop", "1000", "0", "", "", "/snap", ""),
)
LSBLK = "\n".join(
    " ".join(f'{key}="{value}"' for key, value in zip(COLUMNS, block, strict=True))
    for block in BLOCKS
)
POOLS = json.dumps(
    [
        {"pool_name": "data", "pg_num": 64, "size": 3, "erasure_code_profile": ""},
        {"pool_name": "cold", "pg_num": 128, "size": 6, "erasure_code_profile": "k4m2"},
    ]
)
PHYSICAL = {
    "kernel": "Linux 4.4.0-62-generic x86_64",
    "name": "storage1",
    "system": 'NAME="Ubuntu"\nPRETTY_NAME="Ubuntu 16.04.2 LTS"',
    "chassis": "sys_vendor=HP\nproduct_name=ProLiant DL380 Gen9\nbios_version=P89",
    "cpu": LSCPU,
    "memory": "MemTotal:       65866164 kB\nMemFree: 1 kB",
    "modules": DMIDECODE,
    "cards": CARDS,
    "disks": LSBLK,
    "firmware": "sda=HPD8\nnvme0n1=51035KLA",
    "raid": "Smart Array Gen9 Controllers (rev 01)",
    "mounts": "/dev/sda1 /srv/node/sda1 xfs rw,noatime,logbufs=8 0 0\n"
    "mon:/ /mnt/c ceph rw,name=admin,secret=AQB,acl 0 0\nproc /proc proc rw 0 0",
    "packages": "ceph-osd 10.2.5\nvim 8\nfio 3.1\nlinux-image-4.4.0-62-generic 4.4.0-62.83",
    "pools": POOLS,
}


def printed(parts: dict[str, Any]) -> str:
    text = "Welcome to this machine\n"
    for name, part in parts.items():
        output, code = part if isinstance(part, tuple) else (part, 0)
        text += f"\n{MARK} begin {name}\n{output}\n\n{MARK} end {name} {code}\n"
    return text


def test_a_physical_machine_says_all_that_the_reports_print() -> None:
    facts = read_survey(printed(PHYSICAL), MARK)
    assert facts["chassis"] == "HP ProLiant DL380 Gen9"
    assert facts["system"] == "Ubuntu 16.04.2 LTS"
    assert facts["cpu"] == {
        "model": "Intel(R) Xeon(R) CPU E5-2630 v3 @ 2.40GHz",
        "threads": 32,
        "sockets": 2,
        "cores": 16,
        "mhz_max": 3200.0,
    }
    assert facts["memory_bytes"] == 65866164 * 1024
    (module,) = facts["memory_modules"]
    assert module == {"size": "16 GB", "type": "DDR4", "speed": "2133 MT/s", "part": "M393A2G40DB0"}
    card = facts["network"]["eno49"]
    assert (card["firmware"], card["speed_mbit_per_s"], card["mtu"]) == ("bc 7.14.79", 10000, 9000)
    assert "speed_mbit_per_s" not in facts["network"]["eno50"]
    disk = facts["disks"]["sda"]
    assert (disk["firmware"], disk["rotates"], disk["mounts"]) == ("HPD8", True, ["/srv/node/sda1"])
    assert facts["disks"]["nvme0n1"]["bytes"] == 256060514304
    assert facts["raid"] == ["Smart Array Gen9 Controllers (rev 01)"]  # others' words
    assert facts["packages"].keys() == {"ceph-osd", "fio", "linux-image-4.4.0-62-generic"}
    assert [(pool["copies"], pool["erasure_code"]) for pool in facts["pools"]] == [
        (3, None),
        (None, "k4m2"),
    ]
    assert "not_read" not in facts


def test_mounts_keep_their_options_and_no_secret() -> None:
    mounts = read_survey(printed(PHYSICAL), MARK)["mounts"]
    assert [mount["type"] for mount in mounts] == ["xfs", "ceph"]
    assert mounts[0]["options"] == "rw,noatime,logbufs=8"
    assert mounts[1]["options"] == "rw,name=admin,secret=(hidden),acl"


def test_limits_of_a_small_container_are_named_with_reasons() -> None:
    parts = {
        **PHYSICAL,
        "cpu": ("lscpu: not found", 127),
        "modules": ("sudo: a password is required", 1),
        "packages": ("", 127),
        "chassis": "",
    }
    del parts["mounts"], parts["pools"]
    facts = read_survey(printed(parts), MARK)
    assert facts["not_read"] == {
        "chassis": "the machine does not report it",
        "cpu": "lscpu: not found",
        "modules": "sudo: a password is required",
        "packages": "not installed",
        "mounts": "the output of the machine ended before it",
    }


def test_an_invalid_part_stops_no_other() -> None:
    facts = read_survey(printed({**PHYSICAL, "memory": "MemTotal: lots", "pools": "{"}), MARK)
    assert facts["not_read"].keys() == {"memory", "pools"}
    pools = read_survey(printed({"pools": '[{"pool_name": "a", "pg_num": "many"}]'}), MARK)
    assert "0.pg_num: " in pools["not_read"]["pools"]
    assert facts["name"] == "storage1"


@given(st.dictionaries(st.sampled_from([*READERS]), st.text(max_size=300)))
def test_nothing_that_a_machine_prints_is_an_error(parts: dict[str, str]) -> None:
    json.dumps(read_survey(printed(parts), MARK))


def test_a_machine_cannot_fill_a_record_or_steer_a_terminal() -> None:
    many = "\n".join(f"/dev/d{n} /m{n} xfs rw,{'x' * 9999} 0 0" for n in range(3 * ENTRIES_MAX))
    facts = read_survey(printed({"mounts": many, "name": "a\x1b[2Jb"}), MARK)
    assert len(facts["mounts"]) == ENTRIES_MAX
    assert max(len(mount["options"]) for mount in facts["mounts"]) <= TEXT_MAX
    assert "\x1b" not in facts["name"]


def test_this_machine_describes_itself() -> None:
    (facts,) = node_probes.survey({"here": Node(roles=("client",))}, Interrupt()).values()
    assert facts["kernel"].startswith("Linux")
    assert facts["memory_bytes"] > 0
    assert facts["host"] is None
    assert facts["roles"] == ["client"]


def test_the_program_is_plain_shell() -> None:
    program = Path(node_probes.__file__).parent / "survey.sh"
    subprocess.run(["sh", "-n", str(program)], check=True)


@pytest.mark.parametrize("host", ["-oProxyCommand=x", "a b", "a;b", "", "$(x)"])
def test_host_names_are_not_flags_or_commands(host: str) -> None:
    with pytest.raises(ValueError, match="host"):
        Node(host=host)


def test_a_node_out_of_reach_is_said_and_the_others_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    campaign = tmp_path / "campaign.yaml"
    campaign.write_text(
        'name: n\ntargets: {a: {driver: "null"}}\ndataset: {objects: 1, size: 4KiB}\n'
        "load: {threads: 1}\nphases: [{op: get, requests: 5}]\n"
        "nodes: {here: {roles: [client]}, gone: {host: 127.0.0.1, port: 1, roles: [osd]}}\n"
    )
    assert main(["nodes", str(campaign)]) == 1
    shown = capsys.readouterr()
    assert '"gone" (127.0.0.1): ' in shown.err
    assert "client" in shown.out
    # A run goes on without it, and keeps both.
    assert main(["run", str(campaign), "-o", str(tmp_path / "run"), "-q"]) == 0
    nodes = read_run(tmp_path / "run").manifest["nodes"]
    assert set(nodes) == {"here", "gone"}
    assert main(["report", str(tmp_path / "run"), "-f", "json"]) == 0
    document = json.loads(capsys.readouterr().out.partition("\n{")[2].join(("{", "")))
    assert "node-not-described" in {finding["rule"] for finding in document["findings"]}


def write_run(path: Path, nodes: dict[str, Any]) -> str:
    folder = Folder(path, "nodes", 4)
    folder.add(trial(1, "ceph", "put", size=4096), 500)
    return str(folder.close(campaign={"targets": {"ceph": {}}}, campaign_file="", nodes=nodes))


def test_nodes_of_one_role_that_are_unlike_are_a_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    facts = read_survey(printed(PHYSICAL), MARK)
    newer = {**facts, "packages": {"ceph-osd": "12.2.1"}, "name": "other"}
    nodes = {
        "one": {"roles": ["osd"], **facts},
        "two": {"roles": ["osd"], **newer},
        "client": {"roles": ["client"], **newer},
    }
    assert main(["report", write_run(tmp_path / "run", nodes), "-f", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    (unlike,) = [finding for finding in document["findings"] if finding["rule"] == "nodes-differ"]
    assert {evidence["value"] for evidence in unlike["evidence"]} == {"10.2.5", "12.2.1"}
    assert set(unlike["cases"]) == {"one", "two"}
    assert main(["report", str(tmp_path / "run"), "-f", "markdown"]) == 0
    assert "HP ProLiant DL380 Gen9" in capsys.readouterr().out
