"""`loadstone demo`: the main job, end to end, on the embedded store."""

import os
from pathlib import Path

import pytest

from loadstone import _loadgen
from loadstone.results.store import read_run
from tests.system.command import loadstone

DRIVERS = {driver["name"] for driver in _loadgen.drivers()}


@pytest.mark.skipif(
    not {"s3", "swift", "file"} <= DRIVERS, reason="built without the drivers of the demo"
)
def test_the_demo_measures_three_targets_and_leaves_a_page(tmp_path: Path) -> None:
    finished = loadstone("demo", "-o", tmp_path / "run", "--objects", "500")
    assert finished.code == 0, finished.err
    lines = finished.out.splitlines()
    assert len(lines) <= 24, finished.out
    rows = [line.split()[:2] for line in lines if "/s" in line and "Rate:" not in line]
    assert rows == [[t, o] for t in ("s3", "swift", "directory") for o in ("put", "get", "delete")]
    assert str(tmp_path / "run" / "report.html") in finished.out
    page = (tmp_path / "run" / "report.html").read_text()
    assert len(page) > 100_000
    assert 'id="asked"' not in page
    run = read_run(tmp_path / "run")
    assert run.state == "finished"
    measured = [record for record in run.records if record.trial["measured"]]
    assert len(measured) == 3 * 2 * 3
    assert all(record.summary["failed"] == 0 for record in run.records)
    assert os.listdir(tmp_path) == ["run"]


@pytest.mark.skipif(
    not {"s3", "swift", "file"} <= DRIVERS, reason="built without the drivers of the demo"
)
def test_the_demo_can_interleave_blocks(tmp_path: Path) -> None:
    finished = loadstone("demo", "-o", tmp_path / "run", "--objects", "50", "--blocks", "2")
    assert finished.code == 0, finished.err
    measured = [
        record.trial for record in read_run(tmp_path / "run").records if record.trial["measured"]
    ]
    assert [trial["block"] for trial in measured] == [1] * 9 + [2] * 9
