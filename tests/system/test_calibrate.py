"""`loadstone calibrate`: the client's own ceiling is measured, kept, and compared with a run."""

import errno
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
from loadstone.execution.programs.null_servers import null_servers
from loadstone.results.calibration import NOT_CALIBRATED
from loadstone.results.layout import read_manifest
from tests.system.command import loadstone, start

QUICK = ("--duration", "200ms", "--warm-up", "50ms", "-f", "json")
IO_URING_SETUP = "425"


@pytest.fixture
def state(tmp_path: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(tmp_path / "state")}


@pytest.fixture
def store() -> Iterator[str]:
    config = {"port": 0, "access_key": "tester", "secret_key": "not-to-be-told"}
    running = _loadgen.Store(json.dumps(config))
    yield f"http://{running.address}"
    running.stop()


KEYS = {"AWS_ACCESS_KEY_ID": "tester", "AWS_SECRET_ACCESS_KEY": "not-to-be-told"}


def test_a_run_says_how_much_of_its_ceiling_it_used(
    tmp_path: Path, state: dict[str, str], store: str
) -> None:
    finished = loadstone(
        "calibrate", "s3", "-s", "4KiB", "-t", "1,8", "--operations", "put,get", *QUICK,
        environment=state,
    )  # fmt: skip
    assert finished.code == 0, finished.err
    shown = finished.json()
    (session,) = shown["sessions"]
    loads = {(point["operation"], point["clients"]) for point in session["points"]}
    assert loads == {("put", 1), ("put", 8), ("get", 1), ("get", 8)}
    for point in session["points"]:
        assert point["requests_per_s"] > 0
        assert point["cpu_ns_per_request"] > 0
        assert point["bytes_per_request"] == 4096
        assert point["verify"] == 1.0
    assert json.loads(Path(shown["path"]).read_text())["sessions"] == shown["sessions"]
    assert loadstone("calibrate", "s3", "--show", "-f", "json", environment=state).json() == shown

    finished = loadstone(
        "bench", "put,get", store, "-t", "8", "-s", "4KiB", "-n", "2000", "-o", tmp_path / "run",
        "-f", "json", environment=KEYS | state,
    )  # fmt: skip
    assert finished.code == 0, finished.err
    copied = read_manifest(tmp_path / "run")["calibration"]
    assert copied["sessions"] == shown["sessions"]
    assert copied["age_s"] >= 0
    for cell in finished.json()["rounds"]:
        instrument = cell["instrument"]
        assert instrument["share_of_ceiling"] > 0
        assert instrument["share_of_ceiling"] == pytest.approx(
            cell["requests_per_s"] / instrument["ceiling_requests_per_s"]
        )
        assert instrument["no_ceiling"] is None
        assert instrument["hiccup_ns_p99_9"] > 0
    again = loadstone("report", tmp_path / "run", "-f", "markdown")
    assert "| Ceiling, %" in again.out


def test_a_load_that_does_nothing_is_its_own_ceiling(tmp_path: Path, state: dict[str, str]) -> None:
    finished = loadstone("calibrate", "null", "-s", "4KiB", "-t", "1", *QUICK, environment=state)
    assert finished.code == 0, finished.err
    finished = loadstone(
        "bench", "get", "null:", "-t", "1", "-s", "4KiB", "-d", "300ms", "-o", tmp_path / "run",
        "-f", "json", environment=state,
    )  # fmt: skip
    (cell,) = finished.json()["rounds"]
    # Both did the same; how far apart they lie on a busy host has no bound.
    assert cell["instrument"]["ceiling_basis"] == "measured"
    assert cell["instrument"]["share_of_ceiling"] > 0.01


def test_every_driver_can_be_calibrated_and_leaves_nothing_behind(state: dict[str, str]) -> None:
    before = set(Path("/dev/shm").iterdir())
    finished = loadstone(
        "calibrate", "-s", "4KiB", "-t", "2", "--target-set", "payload_signing=signed", *QUICK,
        environment=state,
    )  # fmt: skip
    assert finished.code == 0, finished.err
    points = finished.json()["sessions"][0]["points"]
    assert {point["driver"] for point in points} == {"null", "s3", "swift", "file", "block"}
    assert {point["operation"] for point in points} == {
        "put", "get", "head", "delete", "read", "write"
    }  # fmt: skip
    signing = {
        point["settings"].get("payload_signing") for point in points if point["driver"] == "s3"
    }
    assert signing == {"signed"}
    left = {path.name for path in set(Path("/dev/shm").iterdir()) - before}
    assert not {name for name in left if name.startswith("loadstone-calibration-")}


def test_a_run_without_a_calibration_says_what_to_do(tmp_path: Path, state: dict[str, str]) -> None:
    finished = loadstone(
        "bench", "put", tmp_path, "-t", "2", "-n", "20", "-o", tmp_path / "run", environment=state
    )
    assert finished.code == 0, finished.err
    full = loadstone("report", tmp_path / "run", "--full")
    assert "loadstone calibrate file --sizes 4KiB --threads 1,2" in " ".join(full.out.split())
    assert read_manifest(tmp_path / "run")["calibration"] == {
        "absent": "this host has not been calibrated"
    }


def test_ctrl_c_keeps_what_was_measured(state: dict[str, str]) -> None:
    process = start(
        "calibrate", "null", "-s", "4KiB", "-t", "1,2,3,4", "--duration", "500ms",
        environment={**os.environ, **state, "NO_COLOR": "1"},
    )  # fmt: skip
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("[3/8]"):
            break
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate()
    assert process.returncode == 130
    assert "kept in" in out
    finished = loadstone("calibrate", "null", "--show", "-f", "json", environment=state)
    points = finished.json()["sessions"][0]["points"]
    assert 2 <= len(points) < 8


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("tape",), ('"tape"', "s3, swift")),
        (("s3", "--operations", "list"), ('"list"', "delete, get")),
        (("block", "--operations", "put"), ("driver block: ", "put", "read, write")),
        (("null", "-t", "0"), ("found 0, ", "flight")),
        (("null", "-d", "1ms"), ('"1.00 ms"', "100ms")),
        (("null", "-s", ""), ("drivers, sizes",)),
        (("null", "-s", "0"), ("found 0, ", "byte")),
        (("swift", "--target-set", "payload_signing=signed"), ('setting "payload_signing"',)),
        (("file", "--directory", "/proc"), ('"/proc"', "tmpfs")),
        (("file", "--directory", "/no/such"), ('"/no/such"', os.strerror(errno.ENOENT))),
        (("null", "--show"), (NOT_CALIBRATED,)),
    ],
)
def test_drivers_without_calibration_are_refused(
    state: dict[str, str], arguments: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    finished = loadstone("calibrate", *arguments, environment=state)
    assert finished.code == 1
    assert all(fact in finished.err for fact in expected)


def test_an_unknown_format_is_refused(state: dict[str, str]) -> None:
    refused = loadstone("calibrate", "null", "-f", "yaml", environment=state)
    assert refused.code == 2
    assert all(fact in refused.err for fact in ("'yaml'", "'terminal', 'json'"))


def test_the_servers_end_with_the_process_that_started_them() -> None:
    document = {
        "format": 1, "id": "0001", "run": "0" * 32, "seed": 1, "phase": "get",
        "target": {"name": "t", "driver": "null", "settings": {}},
        "dataset": {
            "bucket_prefix": "b", "buckets": 1, "objects": 1, "object_prefix": "o",
            "size": {"kind": "fixed", "bytes": 10},
        },
        "mix": [{"operation": "get"}], "load": {"kind": "closed", "clients": 1},
        "stop": {"requests": 1},
    }  # fmt: skip
    with null_servers([document]) as (address,):
        assert _answers(address)
    give_up = time.monotonic() + 600
    while _answers(address):
        assert time.monotonic() < give_up, f"{address} still answers"
        time.sleep(0.05)


def _answers(address: str) -> bool:
    import socket

    host, _, port = address.partition(":")
    with socket.socket() as connection:
        return connection.connect_ex((host, int(port))) == 0


def test_a_host_without_io_uring_is_told_once_and_recorded(tmp_path: Path) -> None:
    campaign = tmp_path / "blocks.yaml"
    campaign.write_text(
        f"name: blocks\ntargets: {{device: {{driver: block, path: {tmp_path}/file,"
        " direct: false}}\ndataset: {objects: 4, size: 64KiB}\nload: {threads: 4}\n"
        "phases: [{op: write, range: 4KiB}, {op: read, range: 4KiB}]\n"
    )
    command = [sys.executable, "-m", "loadstone", "run", str(campaign), "-o", f"{tmp_path}/run"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.system.seccomp", IO_URING_SETUP, *command],
        env={**os.environ, "NO_COLOR": "1"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(f"io_uring ({os.strerror(errno.EPERM)}") == 1
    whole = loadstone("report", tmp_path / "run", "--full")
    assert whole.out.count("refuses io_uring") == 1
    for path in (tmp_path / "run" / "trials").glob("*.json"):
        features = json.loads(path.read_text())["summary"]["features"]
        assert features["engine"] == "psync"
        assert "not permitted" in features["io_uring"]


def test_a_server_that_stores_nothing_can_be_benched_from_elsewhere(tmp_path: Path) -> None:
    server = subprocess.Popen(
        [sys.executable, "-m", "loadstone", "serve", "--null", "--port", "0",
         "--object-size", "64KiB"],
        stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    try:
        assert server.stdout is not None
        line = server.stdout.readline()
        assert "stores nothing" in line
        finished = loadstone(
            "bench", "put,get", line.split()[2], "-t", "4", "-s", "64KiB", "-n", "500",
            "--verify", "0", "--keep-data", "-o", tmp_path / "run", "-f", "json", environment=KEYS,
        )  # fmt: skip
        assert finished.code == 0, finished.err
        rates = {cell["operation"]: cell for cell in finished.json()["rounds"]}
        assert rates["get"]["bytes"] == 500 * 65_536
    finally:
        server.terminate()
        server.communicate()
    for wrong in (("--object-size", "1MiB"), ("--null", "--data", str(tmp_path))):
        assert loadstone("serve", *wrong).code == 1
