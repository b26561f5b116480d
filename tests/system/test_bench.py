"""`loadstone bench`: one workload from flags, without a server and on the embedded store."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from loadstone import _loadgen
from loadstone.cli import exit_code
from loadstone.results.store import read_run
from tests.conformance import store_under_test
from tests.conformance.store_under_test import ACCESS_KEY, PASSWORD, PROJECT, SECRET_KEY, USER
from tests.system.command import loadstone

DRIVERS = {driver["name"] for driver in _loadgen.drivers()}
KEYS = {"AWS_ACCESS_KEY_ID": "tester", "AWS_SECRET_ACCESS_KEY": "not-to-be-told"}


@pytest.fixture
def store() -> Iterator[str]:
    config = {
        "port": 0,
        "access_key": KEYS["AWS_ACCESS_KEY_ID"],
        "secret_key": KEYS["AWS_SECRET_ACCESS_KEY"],
    }
    running = _loadgen.Store(json.dumps(config))
    yield f"http://{running.address}"
    running.stop()


@pytest.mark.parametrize("interface", ["s3", "swift"])
def test_proxies_of_the_environment_are_not_used(tmp_path: Path, interface: str) -> None:
    """The requests go to a port without a listener."""
    names = ("http_proxy", "https_proxy", "all_proxy")
    proxies = {name: "http://127.0.0.1:9" for lower in names for name in (lower, lower.upper())}
    with store_under_test.store() as url:
        address, keys = {
            "s3": (url, {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}),
            "swift": (
                f"swift+{url}/auth/v1.0",
                {"ST_USER": f"{PROJECT}:{USER}", "ST_KEY": PASSWORD},
            ),
        }[interface]
        words = ("bench", "put", address, "-t", "1", "-n", "10", "-o", tmp_path / "run")
        loadstone(*words, environment=keys | proxies)
    put, *_ = read_run(tmp_path / "run").records
    assert (put.summary["requests"], put.summary["failed"]) == (10, 0)


def test_flags_make_a_normal_run(tmp_path: Path) -> None:
    finished = loadstone(
        "bench", "put,get", "null:", "-t", "3", "-s", "64KiB", "-n", "500", "-i", "2", "-b", "5",
        "-o", tmp_path / "run",
    )  # fmt: skip
    assert finished.code == 0, finished.err
    put, get = read_run(tmp_path / "run").records
    assert put.trial["load"] == {"kind": "closed", "clients": 3}
    assert put.trial["dataset"]["size"] == {"kind": "fixed", "bytes": 65_536}
    assert put.trial["dataset"]["buckets"] == 5
    assert put.summary["requests"] == 500
    assert get.summary["requests"] == 1000
    assert len(get.summary["iterations"]) == 2
    assert "put" in finished.out


def test_an_object_store_is_measured_verified_and_left_clean(tmp_path: Path, store: str) -> None:
    finished = loadstone(
        "bench", "put,get,delete", store, "-t", "8", "-n", "2000", "-b", "3", "--verify", "100%",
        "-o", tmp_path / "run", "-f", "json",
        environment=KEYS,
    )  # fmt: skip
    assert finished.code == 0, finished.err
    run = read_run(tmp_path / "run")
    phases = {record.trial["phase"]: record.summary for record in run.records}
    assert [phases[name]["requests"] for name in ("put", "get", "delete")] == [2000, 2000, 2000]
    assert sum(summary["failed"] for summary in phases.values()) == 0
    assert phases["get"]["verified_bytes"] == 2000 * 4096
    assert len(phases["clean-up"]["buckets_deleted"]) == 3
    cases = {case["operation"]: case for case in finished.json()["iterations"]}
    assert cases["get"]["requests"] == 2000
    for path in (tmp_path / "run").rglob("*"):
        assert path.is_dir() or KEYS["AWS_SECRET_ACCESS_KEY"].encode() not in path.read_bytes()


def test_failed_requests_make_the_exit_code_unless_they_are_expected(
    tmp_path: Path, store: str
) -> None:
    words = ("bench", "get", store, "-n", "50", "--set", "prepare=never")
    finished = loadstone(*words, "-o", tmp_path / "run", environment=KEYS)
    assert finished.code == 1
    assert "50 failed" in finished.err
    expected = (*words, "--set", "expect.failures=true", "-o", tmp_path / "expected")
    assert loadstone(*expected, environment=KEYS).code == 0


def test_wrong_keys_are_told_and_end_in_failure(tmp_path: Path, store: str) -> None:
    wrong = {**KEYS, "AWS_SECRET_ACCESS_KEY": "guessed"}
    finished = loadstone("bench", "put", store, "-o", tmp_path / "run", environment=wrong)
    assert finished.code == 1
    assert 'error: target "s3"' in finished.err
    assert "Traceback" not in finished.err


@pytest.mark.skipif("file" not in DRIVERS, reason="built without the driver for directories")
def test_a_directory_is_a_target(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    finished = loadstone(
        "bench", "put,get,delete", tmp_path / "data", "-n", "200", "-o", tmp_path / "run"
    )
    assert finished.code == 0, finished.err
    assert read_run(tmp_path / "run").state == "finished"


def test_a_report_that_does_not_exist_is_refused_before_any_load(tmp_path: Path) -> None:
    finished = loadstone("bench", "put", "null", "-f", "stone-tablet", "-o", tmp_path / "run")
    assert finished.code == 1
    assert "stone-tablet" in finished.err
    assert not (tmp_path / "run").exists()


def test_a_target_that_is_not_there_leaves_no_run_folder(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "none"
    finished = loadstone("bench", "put", f"file:{tmp_path}/absent", "-n", "10", "-o", folder)
    assert finished.code == 1
    assert "run folder:" not in finished.err
    assert not folder.parent.exists()


@pytest.mark.parametrize("driver", ["s3", "file"])
def test_keys_are_spread_over_prefixes_and_all_of_them_are_removed(
    tmp_path: Path, driver: str
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    prefix = "o/{shard:01x}/" if driver == "s3" else "o-{shard:01x}-"
    with store_under_test.store() as url:
        target = f"{url}/shards" if driver == "s3" else str(data)
        keys = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
        finished = loadstone(
            "bench", "put,get,copy,delete", target, "-n", "64", "-t", "4", "-o", tmp_path / "run",
            "--object-prefix", prefix, "--keep-data", "--log-requests", environment=keys,
        )  # fmt: skip
        assert finished.code == 0, finished.err
        put, get, *_ = read_run(tmp_path / "run").records
        assert (put.summary["failed"], get.summary["verified_requests"]) == (0, 64)

        def names() -> set[str]:
            if driver == "file":
                return {path.name for path in data.rglob("o-*")}
            page = store_under_test.s3(url).list_objects_v2(Bucket="shards")
            return {entry["Key"] for entry in page["Contents"] if entry["Key"].startswith("o/")}

        copies = names()
        assert len(copies) == 64
        shards = {name.removesuffix(".copy")[2] for name in copies}
        assert len(shards) == 16
        assert loadstone("clean", tmp_path / "run", "--yes", environment=keys).code == 0
        assert [path.name for path in data.iterdir()] == []


def test_connections_leave_from_the_addresses_that_are_named(tmp_path: Path) -> None:
    keys = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
    with store_under_test.store() as url:
        words = ("bench", "put", url, "-n", "10", "-t", "2", "--cpus", "0", "--source")
        finished = loadstone(
            *words, "127.0.0.2,127.0.0.3", "-o", tmp_path / "run", environment=keys
        )
        assert finished.code == 0, finished.err
        # TEST-NET-1 is nobody's address.
        finished = loadstone(*words, "192.0.2.1", "-o", tmp_path / "none", environment=keys)
        assert finished.code != 0
        assert not (tmp_path / "none").exists()


def test_a_cpu_that_this_host_has_not_is_refused(tmp_path: Path) -> None:
    finished = loadstone(
        "bench", "get", "null:", "-n", "10", "--cpus", "1023", "-o", tmp_path / "run"
    )
    assert finished.code != 0
    assert "load.cpus" in finished.err


def test_a_numa_node_that_is_not_there_is_refused_and_those_that_are_there_are_named() -> None:
    nodes = Path("/sys/devices/system/node/online").read_text().strip()
    refused = loadstone("bench", "put", "null:", "-n", "10", "--numa", "999")
    assert refused.code == exit_code.FAILED
    assert f"{nodes}\n" in refused.err


TWO_NODES = """\
set -e
nodes=/sys/devices/system/node
mount -t tmpfs nodes $nodes
mkdir $nodes/node0 $nodes/node1
echo $0 > $nodes/node0/cpulist
echo $1 > $nodes/node1/cpulist
shift
exec "$@"
"""
"""Shows this host as one of two NUMA nodes of one CPU each, to a command alone."""


def test_load_threads_are_bound_to_the_cpus_of_their_numa_nodes(tmp_path: Path) -> None:
    cpus = [str(cpu) for cpu in sorted(os.sched_getaffinity(0))]
    if len(cpus) < 2:
        pytest.skip("this host has one CPU")
    first, second = cpus[:2]
    apart = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", TWO_NODES]
    if subprocess.run([*apart, first, second, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no mounts of our own are allowed here")
    load = [sys.executable, "-m", "loadstone", "bench", "put", "null:", "--rate", "100", "-d", "1h"]
    words = [*apart, first, second, *load, "--numa", "1,0", "-o", str(tmp_path / "run")]
    bound: dict[str, str] = {}
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while set(bound.values()) != {first, second} and process.poll() is None:
            time.sleep(0.05)
            bound = bound_threads(process.pid)
        process.send_signal(signal.SIGINT)
    assert bound == {"load-0": second, "load-1": first}


def bound_threads(process: int) -> dict[str, str]:
    """Return the CPUs that each load thread of a process may run on, as the kernel writes them."""
    bound = {}
    for task in Path(f"/proc/{process}/task").glob("*"):
        with contextlib.suppress(OSError):
            name = (task / "comm").read_text().strip()
            if name.startswith("load-"):
                status = (task / "status").read_text()
                bound[name] = status.partition("Cpus_allowed_list:")[2].split()[0]
    return bound
