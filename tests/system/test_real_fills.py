"""Fills of stores that tell their size: a pool of a real Ceph, and a small file system."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from loadstone.results.store import read_run
from tests.system.command import loadstone
from tests.system.servers.ceph import Cluster

pytestmark = pytest.mark.real

CAMPAIGN = """\
name: filled
targets: {{a: {target}}}
dataset: {{objects: 50, size: 4KiB, prefix: "filled-{{run}}-"}}
load: {{threads: 2}}
phases: [put, get]
fill_size: 1MiB
sweep: {{fill: [0%, {level}%]}}
"""


def run_filled(tmp_path: Path, target: Mapping[str, Any], level: int) -> dict[str, list[float]]:
    """Run it, and return how full the store was before each trial, by the phase of these."""
    text = CAMPAIGN.format(target=json.dumps(target), level=level)
    (tmp_path / "c.yaml").write_text(text)
    finished = loadstone("run", str(tmp_path / "c.yaml"), "-o", str(tmp_path / "run"), "-q")
    assert finished.code == 0, finished.err
    shares_of_phase: dict[str, list[float]] = {}
    for record in read_run(tmp_path / "run").records:
        when = "after" if record.trial["phase"] == "fill" else "before"
        store = (record.target_state.get(when) or {}).get("store")
        if store is not None:
            share = 100 * store["used_bytes"] / store["total_bytes"]
            shares_of_phase.setdefault(record.trial["phase"], []).append(share)
    shown = loadstone("report", str(tmp_path / "run"), "-f", "json").out
    assert "fill-missed" not in {finding["rule"] for finding in json.loads(shown)["findings"]}
    return shares_of_phase


def test_a_pool_is_filled_to_its_level_and_emptied(ceph_server: Cluster, tmp_path: Path) -> None:
    target = {"driver": "rados", "pool": "bench", "conf": str(ceph_server.conf),
              "keyring": str(ceph_server.keyring)}  # fmt: skip
    shares = run_filled(tmp_path, target, level=2)
    assert shares["fill"][0] == pytest.approx(2, abs=0.2)
    assert shares["get"][-1] == pytest.approx(2, abs=0.3)
    finished = loadstone("clean", str(tmp_path / "run"), "--yes")
    assert finished.code == 0


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of 300 MiB in a file."""
    if os.geteuid() != 0 or shutil.which("mkfs.ext4") is None:
        pytest.skip("a file system of its own needs root and mkfs.ext4")
    image, path = tmp_path / "image", tmp_path / "small"
    with image.open("wb") as file:
        file.truncate(300 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", str(image)], check=True)
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-o", "loop", str(image), str(path)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no loop devices here: {mounted.stderr.strip()}")
    yield path
    subprocess.run(["umount", str(path)], check=True)


def test_a_file_system_is_filled_to_its_level_and_emptied(small: Path, tmp_path: Path) -> None:
    (small / "data").mkdir()
    shares = run_filled(tmp_path, {"driver": "file", "path": str(small / "data")}, level=40)
    assert shares["fill"][0] == pytest.approx(40, abs=1)
    assert shares["put"] == [pytest.approx(0, abs=1), pytest.approx(40, abs=1)]
    assert list((small / "data").iterdir()) == []


def test_files_that_do_not_fit_are_refused_before_anything_is_written(
    small: Path, tmp_path: Path
) -> None:
    (small / "data").mkdir()
    text = CAMPAIGN.format(
        target=json.dumps({"driver": "file", "path": str(small / "data")}), level=40
    ).replace("40%", "400MiB")
    (tmp_path / "c.yaml").write_text(text)
    finished = loadstone("run", str(tmp_path / "c.yaml"), "-o", str(tmp_path / "run"))
    assert finished.code != 0
    assert "90% full" in finished.err
    assert list((small / "data").iterdir()) == []
