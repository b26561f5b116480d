"""Ceilings and hooks through the command line: refused, interrupted, taken up again."""

import json
import os
import signal
import stat
import time
from pathlib import Path

import pytest

from loadstone.cli.messages import FORM
from tests.system import campaigns
from tests.system.command import ERRORS_AS_JSON, CommandResult, loadstone, start

DATA = Path(__file__).parents[1] / "data" / "importers"
CAMPAIGN = """
name: around
targets: {nowhere: {driver: "null"}}
dataset: {objects: 100, size: 4KiB}
load: {threads: 2}
phases: [{op: get, requests: 100}]
ceilings:
  - {kind: network, host: osd, streams: 1, directions: receive}
"""


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    return folder


def program(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def run(folder: Path, programs: Path, *more: str | Path) -> CommandResult:
    path = f"{programs}:{os.environ['PATH']}"
    return loadstone("run", *more, "-o", folder, environment={"PATH": path})


def test_a_missing_program_is_told_before_there_is_a_run_folder(
    tmp_path: Path, programs: Path
) -> None:
    file = campaigns.write(tmp_path, CAMPAIGN)
    words = (*ERRORS_AS_JSON, "run", file, "-o", tmp_path / "run")
    finished = loadstone(*words, environment={"PATH": str(programs)})
    assert finished.code == 1
    (error,) = finished.errors
    assert error["kind"] == "program-absent"
    for name in ('"network"', '"iperf3"'):
        assert name in error["message"]
    assert error["hint"].endswith(": apt-get install iperf3")
    assert not (tmp_path / "run").exists()


def test_a_ceiling_that_failed_is_measured_when_the_run_is_resumed(
    tmp_path: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, folder = campaigns.write(tmp_path, CAMPAIGN), tmp_path / "run"
    why = "no route to osd"
    program(programs, "iperf3", f'echo "{why}" >&2; exit 1')
    finished = run(folder, programs, file)
    assert finished.code == 1
    for fact in ('"network", receive, 1 ', f" 1: {why}"):
        assert fact in finished.err
    assert len(list((folder / "trials").glob("*.json"))) == 1
    monkeypatch.setenv(FORM, "json")
    other = run(folder, programs, file, "--resume", "--set=ceilings.network.port=1")
    monkeypatch.delenv(FORM)
    assert other.code == 1
    assert "ceilings" in other.err
    assert other.kinds == ["other-plan"]
    program(programs, "iperf3", f"cat {DATA}/iperf3-4streams-reverse.json")
    finished = run(folder, programs, file, "--resume")
    assert finished.code == 0, finished.err
    (record,) = [json.loads(path.read_text()) for path in (folder / "ceilings").glob("*.json")]
    assert record["measurements"][0]["bounds"] == "read"
    # The load does not use that path, but its data rate is compared with it anyway.
    assert "receive, 1 stream" in loadstone("report", folder, "--full").out


def test_ctrl_c_ends_the_program_of_a_ceiling_and_the_run(tmp_path: Path, programs: Path) -> None:
    file, folder = campaigns.write(tmp_path, CAMPAIGN), tmp_path / "run"
    program(programs, "iperf3", f"echo $$ > {tmp_path}/number; exec sleep 1000")
    path = f"{programs}:{os.environ['PATH']}"
    process = start("run", file, "-o", folder, environment={**os.environ, "PATH": path})
    campaigns.wait_for(process, "ceiling network of nowhere: started")
    while not (number := _number(tmp_path / "number")):
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    campaigns.end(process)
    assert process.returncode == 130
    assert not Path(f"/proc/{number}").exists()
    assert not list((folder / "ceilings").glob("*.json"))


def _number(path: Path) -> str:
    return path.read_text().strip() if path.exists() else ""
