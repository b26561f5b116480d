"""`loadstone run`, from a file to a run folder and a report."""

import errno
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from loadstone.results.store import read_run
from tests.system import campaigns
from tests.system.command import ERRORS_AS_JSON, errors_in, loadstone, start


def test_a_campaign_becomes_a_run_and_a_report(tmp_path: Path) -> None:
    file = campaigns.write(tmp_path, campaigns.QUICK)
    finished = loadstone("run", file, "-o", tmp_path / "run")
    assert finished.code == 0, finished.err
    run = read_run(tmp_path / "run")
    assert run.state == "finished"
    assert [record.id for record in run.records] == [f"{number:04d}" for number in range(1, 9)]
    assert all(record.summary["requests"] > 0 for record in run.records)
    for record in run.records:
        rows = record.read_intervals(["requests", "stage", "outcome"]).to_pylist()
        assert sum(row["requests"] for row in rows) == record.summary["requests"]
    manifest = run.manifest
    assert manifest["campaign_file"] == campaigns.QUICK
    assert manifest["command"].startswith("loadstone run")
    assert manifest["host"]["cpu"]["cores"] >= 1
    assert manifest["versions"]["load_generator"]
    assert "put" in finished.out
    assert "get" in finished.out
    assert "[8/8] two" in finished.err
    assert str(tmp_path / "run") in finished.err


def test_the_report_can_be_made_again_from_the_folder(tmp_path: Path) -> None:
    file = campaigns.write(tmp_path, campaigns.QUICK)
    first = loadstone("run", file, "-o", tmp_path / "run")
    assert loadstone("report", tmp_path / "run").out == first.out
    document = loadstone("report", tmp_path / "run", "-f", "json").json()
    assert len(document["iterations"]) >= 8


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    file = campaigns.write(tmp_path, campaigns.QUICK)
    finished = loadstone("run", file, "-o", tmp_path / "run", "--dry-run", "--trials")
    assert finished.code == 0
    assert "0008" in finished.out
    assert not (tmp_path / "run").exists()


def test_a_value_set_on_the_command_line_takes_the_place_of_the_files(tmp_path: Path) -> None:
    file = campaigns.write(tmp_path, campaigns.QUICK)
    finished = loadstone("run", file, "-o", tmp_path / "run", "--set", "rounds=1")
    assert finished.code == 0
    assert len(read_run(tmp_path / "run").records) == 4


def test_a_run_is_never_written_over_another(tmp_path: Path) -> None:
    file = campaigns.write(tmp_path, campaigns.QUICK)
    assert loadstone("run", file, "-o", tmp_path / "run", "--set", "rounds=1").code == 0
    before = (tmp_path / "run" / "manifest.json").read_bytes()
    finished = loadstone(*ERRORS_AS_JSON, "run", file, "-o", tmp_path / "run")
    assert finished.code == 1
    assert finished.kinds == ["run-exists"]
    assert "Traceback" not in finished.err
    assert (tmp_path / "run" / "manifest.json").read_bytes() == before


def test_without_a_folder_the_run_gets_one_that_sorts_by_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = campaigns.write(tmp_path, campaigns.QUICK.replace("rounds: 2", "rounds: 1"))
    monkeypatch.chdir(tmp_path)
    assert loadstone("run", file).code == 0
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.startswith("20")
    assert "-quick-" in folder.name
    assert read_run(folder).state == "finished"


def test_one_target_that_fails_does_not_stop_the_other(tmp_path: Path) -> None:
    text = campaigns.QUICK.replace(
        'one: {driver: "null"}',
        'one: {driver: s3, endpoint: "http://127.0.0.1:9", access_key: a, secret_key: {env: K}}',
    )
    file = campaigns.write(tmp_path, text)
    words = (*ERRORS_AS_JSON, "run", file, "-o", tmp_path / "run")
    finished = loadstone(*words, environment={"K": "hush"})
    assert finished.code == 1
    (error,) = finished.errors
    assert error["kind"] == "unreachable"
    assert 'target "one"' in error["message"]
    assert "Traceback" not in finished.err
    run = read_run(tmp_path / "run")
    assert run.state == "failed"
    assert {record.trial["target"]["name"] for record in run.records} == {"two"}
    assert len(run.manifest["failed"]) == 1
    assert set(run.manifest["skipped"]) & set(run.manifest["failed"]) == set()
    planned = {trial["id"] for trial in run.plan}
    ran = {record.id for record in run.records}
    assert planned == ran | run.manifest["skipped"].keys() | run.manifest["failed"].keys()


def test_a_campaign_that_is_not_there_is_one_error(tmp_path: Path) -> None:
    finished = loadstone("run", tmp_path / "none.yaml")
    assert finished.code == 1
    assert finished.err.startswith("error: ")
    assert "none.yaml" in finished.err
    assert "Traceback" not in finished.err


def test_every_mistake_of_a_bad_file_is_told_at_once(tmp_path: Path) -> None:
    text = campaigns.QUICK.replace("rounds: 2", "rounds: many").replace("op: get", "op: fetch")
    finished = loadstone("run", campaigns.write(tmp_path, text))
    assert finished.code == 1
    assert "campaign.yaml:7: rounds" in finished.err
    assert "fetch" in finished.err


def no_file_beyond(limit: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))


def test_a_full_disk_stops_the_run_and_keeps_what_had_ended(tmp_path: Path) -> None:
    file = campaigns.write(tmp_path, campaigns.LONG.replace("10m", "300ms", 1))
    # Files may not grow past this: the first trial's fit, those of the long one do not.
    limit = 50_000
    done = subprocess.run(
        [sys.executable, "-m", "loadstone", *ERRORS_AS_JSON, "run", file, "-o", tmp_path / "run"],
        capture_output=True,
        text=True,
        preexec_fn=lambda: no_file_beyond(limit),
        timeout=900,
        check=False,
    )
    assert done.returncode == 1
    assert {error["kind"] for error in errors_in(done.stderr)} == {"no-space"}
    assert "Traceback" not in done.stderr
    run = read_run(tmp_path / "run")
    assert run.state == "interrupted"
    assert [record.is_whole for record in run.records] == [True, True, False]
    assert run.records[-1].intervals.num_rows > 0
    assert not list((tmp_path / "run").rglob("*.tmp"))


SMALL_DISK = """
mkdir -p {disk}
mount -t tmpfs -o size=160k tmpfs {disk} || exit 77
{python} -m loadstone --errors json run {file} -o {disk}/run
code=$?
cp -r {disk}/run {kept}
exit $code
"""


def test_a_disk_without_room_is_told_by_its_name_and_the_run_stays_readable(
    tmp_path: Path,
) -> None:
    file = campaigns.write(tmp_path, campaigns.LONG.replace("10m", "300ms", 1))
    script = SMALL_DISK.format(
        disk=tmp_path / "disk", python=sys.executable, file=file, kept=tmp_path / "kept"
    )
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, check=False
    )
    if done.returncode in (77, 127) or "unshare" in done.stderr:
        pytest.skip("no file system may be mounted here")
    assert done.returncode == 1
    error = errors_in(done.stderr)[-1]
    assert error["kind"] == "no-space"
    assert os.strerror(errno.ENOSPC) in error["message"]
    folder = tmp_path / "disk" / "run"
    assert f"run folder: {folder}" in done.stderr
    assert f"-o {folder} --resume" in done.stderr
    run = read_run(tmp_path / "kept")
    assert run.state == "interrupted"
    assert run.records[0].is_whole
    assert not run.records[-1].is_whole
    assert json.loads((tmp_path / "kept" / "manifest.json").read_text())["plan"]


def test_two_processes_never_write_one_run(tmp_path: Path) -> None:
    file = campaigns.write(tmp_path, campaigns.LONG)
    first = start("run", file, "-o", tmp_path / "run")
    try:
        campaigns.wait_for(first, "%")
        second = loadstone(*ERRORS_AS_JSON, "run", file, "-o", tmp_path / "run", "--resume")
        assert second.code == 1
        assert second.kinds == ["run-in-use"]
        assert f"(pid {first.pid} " in second.errors[0]["message"]
    finally:
        first.kill()
        first.communicate()


def test_a_run_can_be_reported_on_while_it_goes_on(tmp_path: Path) -> None:
    file = campaigns.write(tmp_path, campaigns.LONG)
    process = start("run", file, "-o", tmp_path / "run")
    try:
        campaigns.wait_for(process, "%")
        campaigns.wait_for(process, "%")
        finished = loadstone("report", tmp_path / "run")
        assert finished.code == 0, finished.err
        assert "put" in finished.out
        assert read_run(tmp_path / "run").records[0].labels == ("RUNNING",)
        assert process.poll() is None
    finally:
        process.kill()
        process.communicate()


def test_clients_of_an_open_load_on_files_share_its_arrivals(tmp_path: Path) -> None:
    """The requests are the first arrivals of the whole load, however many clients wait for them."""
    (tmp_path / "data").mkdir()
    campaign = f"""
name: open
targets: {{files: {{driver: file, path: {tmp_path / "data"}}}}}
dataset: {{objects: 50, size: 1KiB}}
load: {{rate: 1000/s, clients_max: 200}}
phases: [put]
log_requests: true
"""
    file = campaigns.write(tmp_path, campaign)
    finished = loadstone("run", file, "-o", tmp_path / "run")
    assert finished.code in campaigns.WENT_WELL, finished.err
    put = read_run(tmp_path / "run").records[0]
    due_ns = sorted(due for log in put.read_requests() for due in log["intended_ns"])
    assert len(due_ns) == put.summary["requests"] == 50
    assert put.summary["failed"] == 0, "arrivals beyond the requests are not part of the load"
    # Drawn from the seed, so it does not depend on the machine: 50 arrivals at 1,000/s.
    assert due_ns[-1] - due_ns[0] == pytest.approx(50e6, rel=0.4)
