"""A run that was killed at any moment is read as it is, and goes on where it was."""

import random
import time
from pathlib import Path

import pytest

from loadstone.results.store import read_run
from tests.system import campaigns
from tests.system.command import loadstone


def contents(folder: Path, names: set[str]) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file() and path.name[:4] in names]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.parametrize("seed", range(6))
def test_finished_trials_outlive_a_kill_at_any_moment_and_are_never_run_again(
    tmp_path: Path, seed: int
) -> None:
    file = campaigns.write(tmp_path, campaigns.QUICK)
    folder = tmp_path / "run"
    chance = random.Random(seed)
    process = campaigns.start("run", file, "-o", folder)
    campaigns.wait_for(process, "started")
    kept: dict[str, bytes] = {}
    finished: set[str] = set()
    for _ in range(3):
        time.sleep(chance.uniform(0, 3))
        process.kill()
        process.communicate()
        run = read_run(folder)
        assert run.state in ("interrupted", "finished")
        assert finished <= {record.id for record in run.records if record.is_whole}
        assert kept == contents(folder, finished)
        for record in run.records:
            rows = record.intervals.to_pylist()
            assert not record.is_whole or sum(row["requests"] for row in rows) > 0
        finished = {record.id for record in run.records if record.is_whole}
        kept = contents(folder, finished)
        if run.state == "finished":
            break
        process = campaigns.start("run", file, "-o", folder, "--resume")
        # Killed between its last trial and its own end, a run has no trial left to start.
        campaigns.wait_for(process, "started", "run folder")
    process.kill()
    process.communicate()
    if read_run(folder).state != "finished":
        said = loadstone("run", file, "-o", folder, "--resume")
        assert said.code == 0, said.err
    run = read_run(folder)
    assert run.state == "finished"
    assert all(record.is_whole for record in run.records)
    assert {trial["id"] for trial in run.plan} == {record.id for record in run.records}
    assert kept == contents(folder, finished)
    assert not list(folder.rglob("*.tmp"))
    assert not list(folder.rglob("*.arrows"))


def test_a_finished_run_is_not_resumed(tmp_path: Path) -> None:
    file = campaigns.write(tmp_path, campaigns.QUICK.replace("rounds: 2", "rounds: 1"))
    assert loadstone("run", file, "-o", tmp_path / "run").code == 0
    said = loadstone("run", file, "-o", tmp_path / "run", "--resume")
    assert said.code == 1
    assert "is finished" in said.err


def test_another_campaign_does_not_go_on_with_a_run(tmp_path: Path) -> None:
    file = campaigns.write(tmp_path, campaigns.LONG)
    process = campaigns.start("run", file, "-o", tmp_path / "run")
    campaigns.wait_for(process, "%")
    process.kill()
    process.communicate()
    file.write_text(campaigns.LONG.replace("threads: 4", "threads: 5"))
    said = loadstone("run", file, "-o", tmp_path / "run", "--resume")
    assert said.code == 1
    assert "was planned differently" in said.err
    assert read_run(tmp_path / "run").state == "interrupted"


def test_what_is_no_run_is_not_resumed(tmp_path: Path) -> None:
    file = campaigns.write(tmp_path, campaigns.QUICK)
    said = loadstone("run", file, "-o", tmp_path / "nothing", "--resume")
    assert said.code == 1
    assert "there is no such folder" in said.err
    assert loadstone("run", file, "--resume").err.startswith("error: --resume needs the run folder")
