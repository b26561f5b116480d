"""A published campaign, scaled down, through the command line against real servers."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.system.command import assert_secret_absent, loadstone, trials_of

pytestmark = pytest.mark.real

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "hummingbird-4k.yaml"
OBJECTS, ITERATIONS, ROUNDS = 40, 3, 2
SCALE = [
    "--set=dataset.objects=40",
    "--set=dataset.containers=4",
    "--set=load.threads=4",
    "--set=round_pause=0",
    "--set=phases.put.pause_after=0",
    "--set=phases.get.pause_after=0",
]


def test_the_hummingbird_campaign_runs_on_swift_and_s3(
    swift_server: dict[str, dict[str, str]],
    versitygw_server: dict[str, str],
    tmp_path: Path,
) -> None:
    """Swift by Keystone and by TempAuth, and S3, side by side: all rounds and iterations."""
    login, other = swift_server["keystone"], swift_server["tempauth"]
    secrets = {
        "OS_PASSWORD": login["password"],
        "ST_KEY": other["password"],
        "AWS_ACCESS_KEY_ID": versitygw_server["access_key"],
        "AWS_SECRET_ACCESS_KEY": versitygw_server["secret_key"],
    }
    folder = tmp_path / "run"
    finished = loadstone(
        *["run", EXAMPLE, "-o", folder, *SCALE],
        *_swift("hummingbird", {**login, "storage_policy": "ec"}),
        # Another account, so that the two targets do not share their containers.
        *_swift("swift", other),
        "--set=targets.swift.password.env=ST_KEY",
        f"--set=targets.ceph.endpoint={versitygw_server['endpoint']}",
        "--set=targets.ceph.region=us-east-1",
        environment=secrets,
    )
    assert finished.code == 0, finished.out + finished.err
    for secret in (login["password"], other["password"], versitygw_server["secret_key"]):
        assert_secret_absent(secret, finished, folder)
    _check_counts(trials_of(folder))
    table = loadstone("report", folder, "-f", "terminal", "--full")
    assert table.code == 0
    for name in ("Hummingbird", "Ceph", "Swift"):
        assert name in finished.out + table.out
    assert re.search(r"\bput\b", table.out, re.IGNORECASE)


def _swift(target: str, login: dict[str, str]) -> list[str]:
    keys = ("auth_url", "user", "project", "storage_policy")
    return [f"--set=targets.{target}.{key}={login[key]}" for key in keys if key in login]


def _check_counts(trials: list[dict[str, Any]]) -> None:
    measured = [trial for trial in trials if trial["trial"]["measured"]]
    for target in ("hummingbird", "swift", "ceph"):
        mine = [trial for trial in measured if trial["trial"]["target"]["name"] == target]
        counts: dict[str, list[int]] = {}
        for trial in mine:
            summary = trial["summary"]
            assert summary["failed"] == 0, summary["error_examples"]
            counts.setdefault(trial["trial"]["phase"], []).append(summary["requests"])
        assert counts == {
            "put": [OBJECTS] * ROUNDS,
            "get": [OBJECTS * ITERATIONS] * ROUNDS,
            "delete": [OBJECTS] * ROUNDS,
        }
        reads = [trial["summary"] for trial in mine if trial["trial"]["phase"] == "get"]
        assert all(summary["verified_bytes"] == summary["bytes"] for summary in reads)
