"""Histories: of a sound store no call is contradicted, and each lie that shows in one is named."""

import json
from pathlib import Path
from typing import Any

import pytest

from loadstone.cli import exit_code
from tests.conformance import store_under_test
from tests.system.command import Said, loadstone
from tests.system.test_audit import audit_of
from tests.system.test_clean_up_counts import KEYS

LOAD = ("-t", "16", "-s", "4KiB", "-n", "200", "--object-prefix", "object-", "--seed", "5")
MIX = "get=45,put=15,delete=10"
CONTENDED = (
    "name: swaps\ntargets: {{store: {{driver: s3, endpoint: '{url}'}}}}\n"
    "dataset: {{objects: 8, size: 4KiB, object_prefix: object-}}\nload: {{threads: 8}}\n"
    "phases: [{{contend: {{keys: 4, clients: 8}}, requests: 2000}}]\n"
    "audit: {{history: true}}\n"
)


def bench(url: str, run: Path, operations: str, *options: str) -> Said:
    return loadstone(
        "bench", operations, url, *LOAD, "--audit-history", *options, "-o", run, environment=KEYS
    )


def history_of(audit: dict[str, Any]) -> dict[str, Any]:
    (history,) = audit["histories"]
    assert isinstance(history, dict)
    return history


@pytest.mark.parametrize("interface", ["s3", "swift"])
@pytest.mark.parametrize("operations", ["get=3,put=1", MIX])
def test_no_call_of_a_sound_store_is_contradicted(
    operations: str, interface: str, tmp_path: Path
) -> None:
    with store_under_test.store() as url:
        port = url.rsplit(":", 1)[1]
        address = {"s3": url, "swift": f"swift+http://127.0.0.1:{port}/auth/v1.0"}[interface]
        said = bench(address, tmp_path / "run", operations, "-d", "1s")
    assert said.code == 0, (said.out, said.err)
    audit = audit_of(tmp_path / "run")
    history = history_of(audit)
    assert (audit["wrong"], audit["findings"], history["undecided"]) == (0, [], 0)
    assert (history["objects"], history["model"]) == (200, "linear")
    assert history["calls"] > 1000


# So many that a busy host, which makes a tenth of the calls, still tells a dozen.
LIES = {
    "lost_write": ("get=6,put=1", 0.01, {"lost", "stale"}),
    "stale_read": ("get=6,put=1", 0.002, {"lost", "stale"}),
    "resurrect": (MIX, 0.03, {"resurrected"}),
    "corrupt_byte": ("get=6,put=1", 0.01, {"corrupt"}),
}


@pytest.mark.parametrize("lie", LIES)
def test_each_lie_that_a_read_can_show_is_found_and_named(lie: str, tmp_path: Path) -> None:
    operations, rate, kinds = LIES[lie]
    log = tmp_path / "lies.jsonl"
    lies = {lie: rate, "prefix": "object-", "log": str(log), "resurrect_after_ms": 1}
    with store_under_test.store(faults={"seed": 3, "lies": lies}) as url:
        said = bench(url, tmp_path / "run", operations, "-d", "2s")
    assert said.code == exit_code.FAILED
    lied_about = {
        (lie["bucket"], lie["key"]) for lie in map(json.loads, log.read_text().splitlines())
    }
    audit = audit_of(tmp_path / "run")
    contradicted = {(finding["bucket"], finding["key"]) for finding in audit["findings"]}
    assert {finding["kind"] for finding in audit["findings"]} <= kinds
    # A lie does not show when the object is overwritten before it is read.
    assert contradicted <= lied_about
    assert len(contradicted) > len(lied_about) / 3
    # One call contradicts the put of the fill, which came before the history.
    assert all(1 <= len(finding["calls"]) <= 3 for finding in audit["findings"])
    report = loadstone("report", tmp_path / "run", "-f", "json").json()
    assert {result["standing"] for result in report["results"]} == {"void"}


@pytest.mark.parametrize("lie", [None, "condition_ignored", "several_winners"])
def test_contended_writes_are_won_by_one_of_those_on_the_same_condition(
    lie: str | None, tmp_path: Path
) -> None:
    path, log = tmp_path / "swaps.yaml", tmp_path / "lies.jsonl"
    lies = {} if lie is None else {lie: 0.05, "prefix": "object-", "log": str(log)}
    with store_under_test.store(faults={"seed": 3, "lies": lies}) as url:
        path.write_text(CONTENDED.format(url=url))
        said = loadstone("run", path, "-o", tmp_path / "run", environment=KEYS)
    audit = audit_of(tmp_path / "run")
    kinds = {finding["kind"] for finding in audit["findings"]}
    assert history_of(audit)["undecided"] == 0
    if lie is None:
        assert (said.code, kinds) == (0, set())
        return
    assert said.code == exit_code.FAILED
    named = {"two_winners", "lost_update", "condition_ignored"}
    assert kinds & named
    # What is left of a key without those that are named may have no order.
    unnamed = [finding for finding in audit["findings"] if finding["kind"] not in named]
    assert all(finding["kind"] in ("unordered", "lost", "stale") for finding in unnamed)
    assert len(unnamed) < len(audit["findings"]) / 4


def test_writes_that_failed_may_have_been_done_or_not(tmp_path: Path) -> None:
    errors = {"put": {"rate": 0.05, "status": 500}, "delete": {"rate": 0.05, "status": 500}}
    with store_under_test.store(faults={"seed": 5, "errors": errors}) as url:
        bench(url, tmp_path / "run", MIX, "-d", "1s")
    audit = audit_of(tmp_path / "run")
    assert audit["findings"] == []


def test_what_holds_no_version_is_refused_when_planning(tmp_path: Path) -> None:
    with store_under_test.store() as url:
        said = bench(url, tmp_path / "run", MIX, "-s", "8", "--dry-run")
    assert said.code == exit_code.FAILED
