"""A run that was killed at any moment is read as it is, and goes on where it was."""

import json
import random
import signal
import time
from pathlib import Path

import pytest

from loadstone.results.store import read_run
from tests.system import campaigns
from tests.system.command import ERRORS_AS_JSON, loadstone, start


def contents(folder: Path, names: set[str]) -> dict[str, bytes]:
    # A stream that a kill left beside its record goes away with the resumption.
    files = [
        path
        for path in folder.rglob("*")
        if path.is_file() and path.name[:4] in names and path.suffix != ".arrows"
    ]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


# Every crash point by itself is tried in tests/unit/test_results_crash_points.py.
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.long(cpu_s=12)) for seed in range(1, 6))]


@pytest.mark.parametrize("seed", SEEDS)
def test_finished_trials_outlive_a_kill_at_any_moment_and_are_never_run_again(
    tmp_path: Path, seed: int
) -> None:
    file = campaigns.write(tmp_path, campaigns.QUICK.replace("200ms", "500ms"))
    folder = tmp_path / "run"
    chance = random.Random(seed)
    process = start("run", file, "-o", folder)
    campaigns.wait_for(process, "started")
    finished_files: dict[str, bytes] = {}
    finished: set[str] = set()
    for _ in range(3):
        time.sleep(chance.uniform(0, 3))
        process.kill()
        process.communicate()
        run = read_run(folder)
        assert run.state in ("interrupted", "finished")
        assert finished <= {record.id for record in run.records if record.is_whole}
        assert finished_files == contents(folder, finished)
        for record in run.records:
            rows = record.intervals.to_pylist()
            assert not record.is_whole or sum(row["requests"] for row in rows) > 0
        finished = {record.id for record in run.records if record.is_whole}
        finished_files = contents(folder, finished)
        if run.state == "finished":
            break
        process = start("run", file, "-o", folder, "--resume")
        # Killed between its last trial and its own end, a run has no trial left to start.
        campaigns.wait_for(process, "started", "run folder")
    process.kill()
    process.communicate()
    if read_run(folder).state != "finished":
        result = loadstone("run", file, "-o", folder, "--resume")
        assert result.code == 0, result.err
    run = read_run(folder)
    assert run.state == "finished"
    assert all(record.is_whole for record in run.records)
    assert {trial["id"] for trial in run.plan} == {record.id for record in run.records}
    assert finished_files == contents(folder, finished)
    assert not list(folder.rglob("*.tmp"))
    assert not list(folder.rglob("*.arrows"))


def test_nothing_is_left_of_a_finished_run_and_that_is_no_error(tmp_path: Path) -> None:
    file = campaigns.write(tmp_path, campaigns.QUICK.replace("rounds: 2", "rounds: 1"))
    assert loadstone("run", file, "-o", tmp_path / "run").code == 0
    before = contents(tmp_path / "run", {"mani", "0001"})
    finished = loadstone("run", file, "-o", tmp_path / "run", "--resume")
    assert finished.code == 0, finished.err
    assert "is finished" in finished.err
    assert contents(tmp_path / "run", {"mani", "0001"}) == before


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("plan", [{"id": "0001"}], "trial 0001 "),
        ("started", "yesterday", "'yesterday'"),
    ],
)
def test_a_manifest_that_was_edited_is_not_gone_on_with(
    tmp_path: Path, key: str, value: object, reason: str
) -> None:
    file = campaigns.write(tmp_path, campaigns.QUICK.replace("rounds: 2", "rounds: 1"))
    assert loadstone("run", file, "-o", tmp_path / "run").code == 0
    path = tmp_path / "run" / "manifest.json"
    changed = json.loads(path.read_text()) | {"state": "interrupted", key: value}
    path.write_text(json.dumps(changed))
    finished = loadstone("run", file, "-o", tmp_path / "run", "--resume")
    assert finished.code == 1, finished.err
    assert reason in finished.err


def test_a_folder_that_was_left_before_its_manifest_begins(tmp_path: Path) -> None:
    file = campaigns.write(tmp_path, campaigns.QUICK.replace("rounds: 2", "rounds: 1"))
    for name in ("trials", "probes"):
        (tmp_path / "run" / name).mkdir(parents=True)
    (tmp_path / "run" / ".lock").touch()
    finished = loadstone("run", file, "-o", tmp_path / "run", "--resume")
    assert finished.code == 0, finished.err
    assert read_run(tmp_path / "run").state == "finished"


def test_failures_before_an_interruption_count_at_the_end_of_the_whole(tmp_path: Path) -> None:
    # Nothing was put, so that every get of the first phase fails; the second goes well.
    text = """\
name: gaps
targets: {here: {driver: file, path: DIRECTORY}}
dataset: {objects: 20, size: 4KiB, prefix: "gaps-"}
load: {threads: 1}
phases: [{op: put, requests: 5}, get, {op: put, name: again}, {op: get, name: long, duration: 10m}]
prepare: never
"""
    (tmp_path / "data").mkdir()
    file = campaigns.write(tmp_path, text.replace("DIRECTORY", str(tmp_path / "data")))
    folder = tmp_path / "run"
    process = start("run", file, "-o", folder)
    campaigns.wait_for(process, "here long round 1")
    process.send_signal(signal.SIGINT)
    campaigns.end(process)
    assert process.returncode == 130
    failed = read_run(folder).manifest["failed_requests"]
    assert failed == 15
    # The rest of the plan is made short by hand: only its failures before matter here.
    manifest = json.loads((folder / "manifest.json").read_text())
    for document in manifest["plan"]:
        if document["phase"] == "long":
            document["stop"]["duration_ns"] = 100_000_000
    for phase in manifest["campaign"]["phases"]:
        if isinstance(phase, dict) and phase.get("name") == "long":
            phase["duration"] = "100ms"
    (folder / "manifest.json").write_text(json.dumps(manifest))
    file.write_text(file.read_text().replace("10m", "100ms"))
    for _ in range(2):
        finished = loadstone("run", file, "-o", folder, "--resume")
        assert finished.code == 1, finished.err
        run = read_run(folder)
        assert (run.state, run.manifest["failed_requests"]) == ("finished", failed)


def test_problems_of_earlier_sessions_remain_in_the_run(tmp_path: Path) -> None:
    text = """\
name: away
targets: {here: {driver: file, path: DIRECTORY}}
dataset: {objects: 20, size: 4KiB}
load: {threads: 1}
phases: [put, get]
"""
    file = campaigns.write(tmp_path, text.replace("DIRECTORY", str(tmp_path / "data")))
    folder = tmp_path / "run"
    assert loadstone("run", file, "-o", folder).code == 1
    (problem,) = read_run(folder).manifest["problems"]
    (tmp_path / "data").mkdir()
    for _ in range(2):
        # Each trial has run well since, which is what the exit code speaks of.
        finished = loadstone("run", file, "-o", folder, "--resume")
        assert finished.code == 0, finished.err
        manifest = read_run(folder).manifest
        assert (manifest["state"], manifest["failed"]) == ("finished", {})
        assert manifest["problems"] == [problem]


def test_changed_keys_of_the_measurement_are_refused(tmp_path: Path) -> None:
    file, folder = interrupted(tmp_path)
    before = contents(folder, {"mani"})
    for key, value in (
        ("round_pause", "1s"),
        ("hooks", "[{run: ['true'], at: before_run}]"),
        ("schedule", "{every: 1h}"),
    ):
        file.write_text(f"{campaigns.LONG}{key}: {value}\n")
        finished = loadstone("run", file, "-o", folder, "--resume")
        assert finished.code == 1
        assert key in finished.err.splitlines()[0]
        assert "loadstone clean" in finished.err
        assert contents(folder, {"mani"}) == before


def test_changed_keys_of_judgement_are_recorded_with_both_texts(tmp_path: Path) -> None:
    file, folder = interrupted(tmp_path)
    file.write_text(campaigns.LONG + "expect: {failures: true}\n")
    process = start("run", file, "-o", folder, "--resume")
    campaigns.wait_for(process, "%")
    process.send_signal(signal.SIGINT)
    campaigns.end(process)
    manifest = read_run(folder).manifest
    (change,) = manifest["changes"]
    assert change["keys"] == {
        "expect": {"before": {"failures": False}, "after": {"failures": True}}
    }
    assert change["campaign_file"] == {"before": campaigns.LONG, "after": file.read_text()}
    assert change["time"] > manifest["started"]
    assert manifest["campaign"]["expect"] == {"failures": True}
    # A default that is written out is no change.
    file.write_text(campaigns.LONG + "expect: {failures: true}\nblocks: 1\n")
    process = start("run", file, "-o", folder, "--resume")
    campaigns.wait_for(process, "%")
    process.send_signal(signal.SIGINT)
    campaigns.end(process)
    assert [set(change["keys"]) for change in read_run(folder).manifest["changes"]] == [
        {"expect"},
        set(),
    ]


def interrupted(folder: Path) -> tuple[Path, Path]:
    """Return a campaign file, and the folder of a run of it that was interrupted."""
    file = campaigns.write(folder, campaigns.LONG)
    process = start("run", file, "-o", folder / "run")
    campaigns.wait_for(process, "%")
    process.send_signal(signal.SIGINT)
    campaigns.end(process)
    return file, folder / "run"


def test_another_campaign_does_not_go_on_with_a_run(tmp_path: Path) -> None:
    file = campaigns.write(tmp_path, campaigns.LONG)
    process = start("run", file, "-o", tmp_path / "run")
    campaigns.wait_for(process, "%")
    process.kill()
    process.communicate()
    file.write_text(campaigns.LONG.replace("clients_max: 20", "clients_max: 21"))
    finished = loadstone(*ERRORS_AS_JSON, "run", file, "-o", tmp_path / "run", "--resume")
    assert finished.code == 1
    assert finished.kinds == ["other-plan"]
    assert read_run(tmp_path / "run").state == "interrupted"


def test_a_folder_without_a_run_is_not_resumed(tmp_path: Path) -> None:
    file = campaigns.write(tmp_path, campaigns.QUICK)
    finished = loadstone(*ERRORS_AS_JSON, "run", file, "-o", tmp_path / "nothing", "--resume")
    assert finished.code == 1
    assert finished.kinds == ["no-run"]
    (refused,) = loadstone(*ERRORS_AS_JSON, "run", file, "--resume").errors
    assert "--resume" in refused["message"]
    assert "-o" in f"{refused['message']} {refused['hint']}"
