"""Probes of nodes: output of ping, iperf3 and fio, wrong mounts, leftovers."""

import errno
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadstone.campaign.schema.node import Node, NodeProbe
from loadstone.cli import main
from loadstone.errors import InputError
from loadstone.execution.interrupt import Interrupt
from loadstone.execution.programs import node_paths, node_probes
from loadstone.formats.node_probes import (
    is_kind_of,
    read_fio,
    read_iperf3,
    read_mount,
    read_ping,
    read_room,
)
from loadstone.report.formats.terminal import render_tables
from loadstone.report.options import Options
from loadstone.report.tables.node_probes import deployment, probe_tables
from loadstone.results.layout import OUTPUT_BYTES_MAX, NodeOutputs, read_manifest
from tests.unit.test_survey import write_run

PING = """\
PING 10.0.0.2 (10.0.0.2) 56(84) bytes of data.

--- 10.0.0.2 ping statistics ---
10 packets transmitted, 9 received, 10% packet loss, time 1800ms
rtt min/avg/max/mdev = 0.211/0.250/0.301/0.020 ms
"""
MOUNTINFO = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:40 / /mnt/ceph rw,noatime shared:2 - ceph 10.0.0.1:6789:/theflash-0 rw,name=a,secret=AQB,acl
31 22 0:41 / /mnt/with\\040space rw shared:3 - fuse.ceph-fuse ceph-fuse rw,user_id=0
32 30 0:42 / /mnt/ceph rw shared:4 - nfs4 filer:/x rw
"""


def fio_document(direction: str, **changed: Any) -> dict[str, Any]:
    idle = {"total_ios": 0, "io_bytes": 0, "iops": 0.0, "bw_bytes": 0, "runtime": 0}
    done = {
        "total_ios": 1000, "io_bytes": 4096000, "iops": 500.0, "bw_bytes": 2048000, "runtime": 2000,
        "clat_ns": {"percentile": {"50.000000": 1000, "99.000000": 9000}},
    }  # fmt: skip
    job = {"jobname": "probe", "error": 0, "read": idle, "write": idle, direction: done}
    return {"fio version": "fio-3.33", "jobs": [job | changed]}


def test_the_output_of_ping_is_read_with_its_losses() -> None:
    assert read_ping(PING) == {
        "sent": 10, "received": 9, "min_ms": 0.211, "avg_ms": 0.25, "max_ms": 0.301,
    }  # fmt: skip
    small = "3 packets transmitted, 3 packets received\nround-trip min/avg/max = 1/2/3 ms"
    assert read_ping(small)["avg_ms"] == 2.0
    assert read_ping("5 packets transmitted, 0 received, 100% packet loss") == {
        "sent": 5, "received": 0,
    }  # fmt: skip


def test_the_error_of_iperf3_is_reported() -> None:
    with pytest.raises(InputError, match="unable"):
        read_iperf3('{"start": {}, "error": "unable to connect to server"}')


def test_fio_is_read_behind_its_notes() -> None:
    rates = read_fio("fio: this is a note\n" + json.dumps(fio_document("read")) + "\nbye")
    assert rates.write is None
    assert rates.read == {
        "bytes_per_s": 2048000, "requests_per_s": 500.0, "latency_ns": {"p50": 1000, "p99": 9000},
    }  # fmt: skip
    with pytest.raises(InputError, match="error 5"):
        read_fio(json.dumps(fio_document("read", error=5)))


@given(st.text(max_size=200) | st.recursive(
    st.none() | st.floats() | st.text(max_size=9) | st.integers(),
    lambda values: st.dictionaries(st.sampled_from(["jobs", "end", "read", "error", "x"]), values)
    | st.lists(values, max_size=3), max_leaves=8,
).map(json.dumps))  # fmt: skip
def test_any_output_of_a_program_is_read_or_refused(text: str) -> None:
    for read in (read_ping, read_iperf3, read_fio, lambda text: read_mount(text, "/x")):
        try:
            read(text)
        except InputError as error:
            assert error.message


def test_a_mount_is_what_the_kernel_says_and_the_last_one_covers_the_others() -> None:
    assert read_mount(MOUNTINFO, "/data/x").file_system == "ext4"
    assert read_mount(MOUNTINFO, "/mnt/cephalopod").mounted_at == "/"
    assert read_mount(MOUNTINFO, "/mnt/with space/a").file_system == "fuse.ceph-fuse"
    assert read_mount(MOUNTINFO, "/mnt/ceph/a").source == "filer:/x"
    covered = read_mount("\n".join(MOUNTINFO.splitlines()[:2]), "/mnt/ceph")
    assert covered.source == "10.0.0.1:6789:/theflash-0"
    assert "AQB" not in str(covered)


@pytest.mark.parametrize(
    ("claimed", "file_system", "is_it"),
    [
        ("ceph", "ceph", True), ("ceph", "fuse.ceph-fuse", True), ("nfs", "nfs4", True),
        ("xfs", "ext4", False), ("ceph", "fuse.sshfs", False), ("nfs4", "nfs", False),
    ],
)  # fmt: skip
def test_a_file_system_is_known_however_it_is_mounted(
    claimed: str, file_system: str, *, is_it: bool
) -> None:
    assert is_kind_of(claimed, file_system) is is_it


def test_free_room_is_read_where_names_hold_spaces() -> None:
    text = "Filesystem 1024-blocks Used Available Capacity Mounted on\na b 100 40 60 40% /mnt/a b"
    assert read_room(text) == 60 * 1024


@pytest.mark.parametrize(
    ("keys", "where"),
    [
        ({"kind": "mount"}, "path"),
        ({"kind": "device", "path": "/dev/sdb", "file_size": 4096}, "file_size"),
        ({"kind": "network", "path": "/x"}, "path"),
        ({"kind": "mount", "path": "x"}, "absolute"),
        ({"kind": "mount", "path": "/a:/b"}, "absolute"),
        ({"kind": "mount", "path": "/a/../b"}, "absolute"),
        ({"kind": "mount", "path": "/a", "file_size": "1MiB"}, "one block"),
        ({"kind": "mount", "path": "/a", "file_system": "-t x"}, "type"),
        ({"kind": "network", "address": "-oProxyCommand=x"}, "host"),
    ],
)
def test_a_probe_that_would_do_another_thing_is_refused(keys: dict[str, Any], where: str) -> None:
    with pytest.raises(ValueError, match=where):
        NodeProbe(**keys)


Install = Callable[[str], None]


@pytest.fixture
def fio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Replace fio by a program."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def install(text: str) -> None:
        (folder / "fio").write_text(text)
        (folder / "fio").chmod(0o755)

    return install


WRITES = """\
#!/bin/sh
[ "$1" = --version ] && { echo fio-3.33; exit 0; }
for word; do case $word in
    --directory=*) folder=${word#*=};;
    --rw=*) kind=${word#*=};;
esac; done
: >"$folder/probe.0"
: >"$folder/probe.1"
"""
FAILS = 'echo "fio: io_u error on file $folder/probe.0: No space left on device"\nexit 1\n'
ANSWERS = f"""\
case $kind in *write) cat <<'X'
{json.dumps(fio_document("write"))}
X
;; *) cat <<'X'
{json.dumps(fio_document("read"))}
X
;; esac
"""


def probed(path: Path, **keys: Any) -> dict[str, Any]:
    usual = {"kind": "mount", "duration": "1s", "file_size": "4MiB", "jobs": 2}
    probe = NodeProbe(**{**usual, "path": str(path), **keys})
    ((probed_path,),) = node_probes.probe_storage(
        {"a": Node(probes=(probe,))}, {}, lambda text: None, Interrupt()
    ).values()
    return probed_path


def test_a_mount_is_measured_and_nothing_is_left(tmp_path: Path, fio: Install) -> None:
    fio(WRITES + ANSWERS)
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "mine").write_text("kept")
    measured = probed(tmp_path / "m")
    assert "failed" not in measured
    assert measured["write"]["bytes_per_s"] == measured["read"]["bytes_per_s"] == 2048000
    assert (measured["total_bytes"], measured["jobs"], measured["depth"]) == (8 << 20, 2, 16)
    assert os.listdir(tmp_path / "m") == ["mine"]


def test_a_program_that_fails_is_quoted_and_nothing_is_left(tmp_path: Path, fio: Install) -> None:
    fio(WRITES + FAILS)
    measured = probed(tmp_path)
    assert os.strerror(errno.ENOSPC) in measured["failed"]
    assert not [name for name in os.listdir(tmp_path) if name.startswith("loadstone")]


def test_a_foreign_file_keeps_the_directory_and_is_said(tmp_path: Path, fio: Install) -> None:
    fio(WRITES + ': >"$folder/foreign"\n' + ANSWERS)
    (tmp_path / "m").mkdir()
    measured = probed(tmp_path / "m")
    (directory,) = (tmp_path / "m").iterdir()
    assert os.listdir(directory) == ["foreign"]
    assert str(directory) in measured["left_behind"]
    assert measured["read"]["requests_per_s"] == 500.0


def test_a_mount_that_is_another_thing_is_not_written_to(tmp_path: Path, fio: Install) -> None:
    fio("#!/bin/sh\nexit 9\n")
    (tmp_path / "m").mkdir()
    measured = probed(tmp_path / "m", file_system="ceph")
    assert measured["failed"].endswith("not ceph")
    assert measured["claimed"] == "ceph"
    assert os.listdir(tmp_path / "m") == []


def test_files_that_do_not_fit_are_not_begun(tmp_path: Path, fio: Install) -> None:
    fio(WRITES + ANSWERS)
    measured = probed(tmp_path, file_size="1024PiB")
    assert "free" in measured["failed"]
    assert not [name for name in os.listdir(tmp_path) if name.startswith("loadstone")]


def test_fio_that_is_absent_is_said_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in ("sh", "cat", "readlink", "df", "head", "test"):
        directory = next(
            Path(path) for path in ("/bin", "/usr/bin") if (Path(path) / name).exists()
        )
        (bare / name).symlink_to(directory / name)
    monkeypatch.setenv("PATH", str(bare))
    measured = probed(tmp_path)
    assert "fio: " in measured["failed"]
    assert "apt-get install" in measured["hint"]


def test_a_file_is_not_read_as_a_device(tmp_path: Path, fio: Install) -> None:
    fio("#!/bin/sh\nexit 9\n")
    probe = NodeProbe(kind="device", path=str(tmp_path))
    ((measured,),) = node_probes.probe_storage(
        {"a": Node(probes=(probe,))}, {}, lambda text: None, Interrupt()
    ).values()
    assert "block device" in measured["failed"]


def test_an_interrupt_leaves_no_directory(tmp_path: Path, fio: Install) -> None:
    fio(WRITES + "exec sleep 60\n")
    (tmp_path / "m").mkdir()
    (tmp_path / "c.yaml").write_text(campaign(
        f"here: {{probes: [{{kind: mount, path: {tmp_path}/m, duration: 1s, file_size: 4MiB, "
        "jobs: 2}]}"
    ))  # fmt: skip
    with subprocess.Popen(
        [sys.executable, "-m", "loadstone", "nodes", str(tmp_path / "c.yaml")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        while process.poll() is None and not list((tmp_path / "m").glob("loadstone-*/probe.1")):
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert process.returncode != 0
    assert os.listdir(tmp_path / "m") == []


def campaign(nodes: str) -> str:
    return (
        'name: n\ntargets: {a: {driver: "null"}}\ndataset: {objects: 1, size: 4KiB}\n'
        f"load: {{threads: 1}}\nphases: [{{op: get, requests: 5}}]\nnodes:\n  {nodes}\n"
    )


def test_a_node_without_an_address_is_not_part_of_a_path() -> None:
    nodes = {
        "a": Node(probes=(NodeProbe(kind="network"),)),
        "b": Node(host="b", probes=(NodeProbe(kind="network"),)),
    }
    paths = node_paths.probe_paths(nodes, {"b": "no route"}, lambda text: None, Interrupt())
    assert ": no route" in paths["a"]["b"]["failed"]
    paths = node_paths.probe_paths(
        {**nodes, "b": Node(probes=nodes["b"].probes)}, {}, lambda text: None, Interrupt()
    )
    assert "address" in paths["a"]["b"]["failed"]


def described(rates: dict[str, float]) -> dict[str, Any]:
    """Return nodes in a ring, each with a mount and a path to each other one."""
    mount = {
        "kind": "mount", "path": "/mnt/x", "file_system": "ceph", "source": "mon:/x", "jobs": 4,
        "depth": 16, "direct": True, "seconds": 10.0, "block_bytes": 4 << 20,
        "small_block_bytes": 4096, "file_bytes": 1 << 30, "total_bytes": 4 << 30,
        "memory_bytes": 56 << 30,
    }  # fmt: skip
    return {
        name: {
            "roles": ["osd"],
            "probes": [
                {
                    **mount,
                    "write": {"bytes_per_s": 315e6 * rate, "requests_per_s": 2500.0},
                    "read": {"bytes_per_s": 1.5e9, "requests_per_s": 26000.0},
                }
            ],
            "paths": {
                other: {
                    "address": other,
                    "ping": {"sent": 10, "received": 10, "avg_ms": 0.25},
                    "bandwidth": {"bits_per_s": 19e9},
                }
                for other in rates
                if other != name
            },
        }
        for name, rate in rates.items()
    }


def test_the_list_of_nodes_has_the_layout_that_a_published_report_has() -> None:
    text = deployment(described({"node0": 1, "node1": 1, "node2": 1}))
    assert "    * Network between nodes\n        * Ping avg: 0.250ms\n" in text
    assert "        * Bandwidth: 19.0 Gbit/s\n" in text
    assert "    * Mounted ceph on 3 nodes:\n        * Write: IOPS=2.50k, BW=315MB/s\n" in text
    assert "        * Read: IOPS=26.0k, BW=1.50GB/s\n" in text
    assert "    * node0\n        * osd\n        * Mount mon:/x: /mnt/x\n" in text


def test_devices_and_mounts_fit_a_terminal_and_say_how_they_were_measured() -> None:
    nodes = described({"node0.lab": 1, "node1.lab": 1})
    first, other = (node["probes"][0] for node in nodes.values())
    first["path"] = other["path"] = "/mnt/cephfs/theflash-0"
    alike = render_tables(list(probe_tables(nodes))[:1], Options(width=80))
    assert max(map(len, alike.splitlines())) <= 80
    assert "No room" not in alike
    assert "All: " in alike
    other["seconds"] = 33
    [table, *_] = probe_tables(nodes)
    assert [note for note in table.notes if note.startswith("node1.lab /mnt") and "33 s" in note]
    assert not [note for note in table.notes if note.startswith("All: ")]


def test_the_network_is_a_matrix_and_a_list_where_nodes_are_many() -> None:
    _, ping, bandwidth = probe_tables(described({"a": 1, "b": 1, "c": 1}))
    assert [row[0] for row in ping.rows] == ["a", "b", "c"]
    assert ping.rows[0] == ("a", "", "0.250", "0.250")
    assert bandwidth.rows[2] == ("c", "19.0", "19.0", "")
    _, listed = probe_tables(described({f"n{number}": 1 for number in range(9)}))
    assert len(listed.rows) == 9 * 8


def rules_of(tmp_path: Path, nodes: dict[str, Any], capsys: Any) -> dict[str, Any]:
    assert main(["report", write_run(tmp_path / "run", nodes), "-f", "json"]) == 0
    findings = json.loads(capsys.readouterr().out)["findings"]
    return {finding["rule"]: finding for finding in findings}


def test_a_slow_node_is_a_finding_and_equal_ones_are_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "odd").mkdir()
    odd = rules_of(tmp_path / "odd", described({"a": 1, "b": 1, "c": 0.4}), capsys)
    assert odd["nodes-perform-unlike"]["cases"] == ["c /mnt/x"]
    assert "120 MiB/s" in odd["nodes-perform-unlike"]["statement"]
    (tmp_path / "even").mkdir()
    even = rules_of(tmp_path / "even", described({"a": 1, "b": 0.9, "c": 1}), capsys)
    assert "nodes-perform-unlike" not in even


def test_anomalies_of_node_probes_are_findings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = described({"a": 1, "b": 1})
    nodes["a"]["probes"][0]["direct"] = False
    asked = ("block_bytes", "small_block_bytes", "jobs", "depth", "direct", "seconds")
    nodes["b"]["probes"] = [
        {"kind": "mount", "path": "/x", "claimed": "ceph", "file_system": "ext4",
         "failed": "/x is ext4 (/dev/vda mounted at /), and not ceph",
         **{name: nodes["a"]["probes"][0][name] for name in asked}},
    ]  # fmt: skip
    why = "ping: none of 10 packets to a came back"
    nodes["b"]["paths"]["a"] = {"failed": why}
    finding_of = rules_of(tmp_path, nodes, capsys)
    assert {"node-probe-cached", "mount-is-another", "node-probe-failed"} <= finding_of.keys()
    assert finding_of["mount-is-another"]["severity"] == "problem"
    assert main(["report", str(tmp_path / "run"), "-f", "markdown"]) == 0
    shown = capsys.readouterr().out
    assert "/mnt/x\\*" in shown
    rows = [line.partition(why) for line in shown.splitlines() if why in line]
    assert any(" to a " in before for before, _, _ in rows)


def test_facts_kept_by_a_run_are_printed_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_run(tmp_path / "run", described({"a": 1, "b": 1}))
    assert main(["nodes", run, "-f", "csv"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "node,fact,value"
    assert "a,paths.b.bandwidth.bits_per_s,19000000000.0" in lines
    assert main(["nodes", run, "-f", "markdown"]) == 0
    assert re.match(r"\* Deployment\b.*\b2 nodes\b", capsys.readouterr().out)
    assert main(["nodes", run, "-f", "html"]) != 0
    assert 'found "html"' in capsys.readouterr().err


def test_a_run_keeps_what_the_programs_of_probes_printed(tmp_path: Path, fio: Install) -> None:
    """A failed one, too; and the reader sees when a file of them is another."""
    why = "fio: out of luck"
    lines = f"[ $kind = randread ] && {{ echo '{why}'; exit 1; }}\n{ANSWERS}"
    fio(WRITES + lines)
    (tmp_path / "m").mkdir()
    probe = f"{{kind: mount, path: {tmp_path}/m, duration: 1s, file_size: 4MiB, jobs: 2}}"
    (tmp_path / "c.yaml").write_text(campaign(f"here: {{probes: [{probe}]}}"))
    run = tmp_path / "run"
    assert main(["run", str(tmp_path / "c.yaml"), "-o", str(run), "--quiet"]) == 0
    (probe_row,) = read_manifest(run)["nodes"]["here"]["probes"]
    assert why in probe_row["failed"]
    steps = ("lay", "write", "read", "randwrite", "randread")
    assert probe_row["outputs"] == [f"nodes/N001-{step}.txt" for step in steps]
    outputs = [run / name for name in probe_row["outputs"]]
    assert json.loads(outputs[1].read_text()) == fio_document("write")
    assert outputs[4].read_text() == f"{why}\n"
    assert {path.stat().st_mode & 0o777 for path in outputs} == {0o600}
    assert main(["report", str(run)]) == 0
    outputs[1].write_text("{}")
    assert main(["report", str(run)]) == 1


def test_a_long_output_of_a_program_loses_its_end_and_says_so(tmp_path: Path) -> None:
    outputs = NodeOutputs()
    assert outputs.take({}) == []
    [name] = outputs.take({"iperf3": "x" * (OUTPUT_BYTES_MAX + 9)})
    outputs.write(tmp_path)
    text = (tmp_path / name).read_text()
    assert text.endswith(f"x\n(the first {OUTPUT_BYTES_MAX} of {OUTPUT_BYTES_MAX + 9} bytes)\n")
    assert len(text) < OUTPUT_BYTES_MAX + 100


def test_a_plan_lists_its_probes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "c.yaml").write_text(campaign("here: {probes: [{kind: mount, path: /x}]}"))
    assert main(["run", str(tmp_path / "c.yaml"), "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "writes 4 GiB" in shown
    assert "40.0 s or" in shown
