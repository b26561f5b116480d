"""Replays of findings: they show the same fault again, and find none in a store that has it not."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from loadstone.cli import exit_code
from tests.conformance import store_under_test
from tests.system.command import loadstone, trials_of
from tests.system.test_audit import audit_of
from tests.system.test_clean_up_counts import KEYS

LOAD = ("-t", "4", "-n", "40", "-b", "2", "--object-prefix", "object-")
# Lies about these keys alone: 1 and 10 to 19.
PREFIX = "object-1"
SEQUENCES = {
    "lost_write": ("put", "lost", "missing"),
    "stale_read": ("put,put", "stale", "stale"),
    "corrupt_byte": ("put", "corrupt", "corrupt"),
    "resurrect": ("put,delete", "resurrected", "extra"),
}


def outcomes_of(run: Path, replay: str, url: str, folder: Path) -> tuple[int, set[str]]:
    """Run a replay against a store; return the exit code and the errors."""
    target = f"targets.s3.endpoints={url}"
    finished = loadstone("run", run / replay, "--set", target, "-o", folder, environment=KEYS)
    failed = {
        outcome
        for trial in trials_of(folder)
        if trial["trial"]["measured"]
        for outcome in trial["summary"]["error_examples"] | trial["summary"]["mismatches"]
    }
    return finished.code, failed


def replayed(findings: Iterable[dict[str, Any]], kind: str) -> dict[str, Any]:
    return next(finding for finding in findings if finding["kind"] == kind)


@pytest.mark.parametrize("lie", SEQUENCES)
def test_a_replay_shows_the_fault_again_and_finds_none_in_a_sound_store(
    lie: str, tmp_path: Path
) -> None:
    operations, kind, outcome = SEQUENCES[lie]
    run = tmp_path / "run"
    lies = {lie: 1.0, "prefix": PREFIX, "resurrect_after_ms": 1}
    with store_under_test.store(faults={"seed": 3, "lies": lies}) as url:
        words = ("bench", operations, url, *LOAD, "-s", "64KiB", "--audit", "-o", run)
        finished = loadstone(*words, environment=KEYS)
        finding = replayed(audit_of(run)["findings"], kind)
        assert finding["replay"] in finished.out.replace("\n", "")
        code, failed = outcomes_of(run, finding["replay"], url, tmp_path / "again")
        assert (code, failed) == (exit_code.FAILED, {outcome})
    script = (run / finding["replay"]).with_suffix(".csv").read_text()
    assert {line.split(",")[2] for line in script.splitlines()[1:]} == {finding["key"]}
    with store_under_test.store() as url:
        assert outcomes_of(run, finding["replay"], url, tmp_path / "sound") == (0, set())


CONTENDED = """\
name: swaps
targets: {{s3: {{driver: s3, endpoints: '{url}'}}}}
dataset: {{objects: 8, size: 4KiB, object_prefix: object-}}
load: {{threads: 8}}
phases: [{{contend: {{keys: 4, clients: 8}}, requests: 800}}]
audit: {{history: true}}
"""


def test_a_replay_of_a_race_repeats_it_and_says_so(tmp_path: Path) -> None:
    run, path = tmp_path / "run", tmp_path / "swaps.yaml"
    lies = {"several_winners": 0.3, "prefix": "object-"}
    with store_under_test.store(faults={"seed": 3, "lies": lies}) as url:
        path.write_text(CONTENDED.format(url=url))
        loadstone("run", path, "-o", run, environment=KEYS)
        finding = next(f for f in audit_of(run)["findings"] if f["kind"] == "two_winners")
        code, _ = outcomes_of(run, finding["replay"], url, tmp_path / "again")
        assert code == exit_code.FAILED
        kinds = {f["kind"] for f in audit_of(tmp_path / "again")["findings"]}
        assert "two_winners" in kinds
    comments = [line for line in (run / finding["replay"]).read_text().splitlines() if "#" in line]
    assert any("timing" in line for line in comments)
    with store_under_test.store() as url:
        assert outcomes_of(run, finding["replay"], url, tmp_path / "sound")[0] == 0
