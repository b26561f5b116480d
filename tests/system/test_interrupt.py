"""Ctrl-C, whenever it comes, ends a run soon and leaves it readable."""

import os
import signal
import socket
import time
from pathlib import Path

import pytest

from loadstone.results.store import read_run
from tests.system import campaigns
from tests.system.command import loadstone, start

# The load ends within two seconds of the signal on a machine that has nothing else to do; the
# campaigns of these tests would go on for ten minutes and more.
END_WITHIN_S = 30.0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_load_ends_soon_and_the_trial_is_kept(tmp_path: Path, number: signal.Signals) -> None:
    file = campaigns.write(tmp_path, campaigns.LONG)
    process = start("run", file, "-o", tmp_path / "run")
    campaigns.wait_for(process, "%")
    asked_ns = time.time_ns()
    process.send_signal(number)
    _, err = campaigns.end(process)
    assert process.returncode == 130
    assert f"loadstone run {file} -o {tmp_path / 'run'} --resume" in err
    assert "Traceback" not in err
    run = read_run(tmp_path / "run")
    assert run.state == "interrupted"
    (record,) = run.records
    assert record.labels == ("INTERRUPTED",)
    assert record.summary["state"] == "interrupted"
    assert record.summary["ended_unix_ns"] - asked_ns < END_WITHIN_S * 1e9
    rows = record.read_intervals(["requests"]).to_pylist()
    assert sum(row["requests"] for row in rows) == record.summary["requests"] > 0
    assert run.manifest["not_run"] == [trial["id"] for trial in run.plan]


def test_a_rest_is_interrupted_too(tmp_path: Path) -> None:
    text = campaigns.QUICK.replace("{op: put,", "{op: put, pause_after: 1h,")
    file = campaigns.write(tmp_path, text)
    process = start("run", file, "-o", tmp_path / "run")
    campaigns.wait_for(process, "resting")
    process.send_signal(signal.SIGINT)
    campaigns.end(process)
    assert process.returncode == 130
    run = read_run(tmp_path / "run")
    assert run.state == "interrupted"
    assert all(record.is_whole for record in run.records)
    assert run.manifest["not_run"]


# It replaces a launcher, and starts an agent that never joins.
LAUNCHER = "#!/bin/sh\nsleep 1000 & echo $! >$PIDS; wait\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("launch", ["join, names: [a, b]", "mpirun, count: 2"])
def test_while_hosts_join_a_signal_leaves_no_invitation_and_no_process(
    launch: str, number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher, pids = tmp_path / "mpirun", tmp_path / "pids"
    launcher.write_text(LAUNCHER)
    launcher.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    hosts = f"hosts: {{launch: {launch}, listen: 127.0.0.1}}\n"
    file = campaigns.write(tmp_path, campaigns.QUICK + hosts)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PIDS": str(pids)}
    process = start("run", file, "-o", tmp_path / "run", environment=environment)
    has_begun = (
        (lambda: pids.exists() and pids.read_text())
        if "mpirun" in launch
        else (lambda: list(tmp_path.glob("invitations-*/b.*")))
    )
    while not has_begun():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(number)
    _, err = campaigns.end(process)
    assert process.returncode == 130, err
    assert {path.name for path in tmp_path.iterdir()} <= {"campaign.yaml", "mpirun", "pids"}
    for pid in pids.read_text().split() if pids.exists() else ():
        assert "sleep" not in command_of(pid)


def command_of(pid: str) -> str:
    """Return the command line of a process; none of one that has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def test_a_target_that_never_answers_is_interrupted_too(tmp_path: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(1)
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        text = campaigns.LONG.replace(
            'one: {driver: "null"}',
            f'one: {{driver: s3, endpoint: "{address}", access_key: a, secret_key: {{env: HOME}}}}',
        )
        file = campaigns.write(tmp_path, text)
        process = start("run", file, "-o", tmp_path / "run")
        campaigns.wait_for(process, "started")
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        campaigns.end(process)
    assert process.returncode == 130
    assert read_run(tmp_path / "run").state == "interrupted"


def test_a_second_signal_ends_the_process_at_once_and_loses_nothing_written(
    tmp_path: Path,
) -> None:
    file = campaigns.write(tmp_path, campaigns.LONG)
    process = start("run", file, "-o", tmp_path / "run")
    campaigns.wait_for(process, "%")
    campaigns.wait_for(process, "%")
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        time.sleep(0.01)
    campaigns.end(process)
    assert process.returncode == 130
    run = read_run(tmp_path / "run")
    assert run.state == "interrupted"
    assert run.records[0].intervals.num_rows > 0
    assert not run.records[0].is_whole


def test_an_interrupted_run_is_resumed_to_its_end(tmp_path: Path) -> None:
    file = campaigns.write(tmp_path, campaigns.QUICK)
    process = start("run", file, "-o", tmp_path / "run")
    campaigns.wait_for(process, "[3/8] one get round 1")
    process.send_signal(signal.SIGINT)
    campaigns.end(process)
    before = {record.id for record in read_run(tmp_path / "run").records if record.is_whole}
    assert before >= {"0001", "0002"}
    finished = loadstone("run", file, "-o", tmp_path / "run", "--resume")
    assert finished.code == 0, finished.err
    run = read_run(tmp_path / "run")
    assert run.state == "finished"
    assert all(record.is_whole for record in run.records)
    assert {f"{number:04d}" for number in range(1, 9)} <= {record.id for record in run.records}
    assert len(run.manifest["resumed"]) == 1
