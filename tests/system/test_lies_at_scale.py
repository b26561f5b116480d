"""Few lies among many writes: each is found and rightly named, and nothing else is.

A million writes in each row: `LOADSTONE_WRITES=1000000 pytest -m long` with this file.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from loadstone.cli import exit_code
from tests.conformance import store_under_test
from tests.system.command import loadstone
from tests.system.test_audit import audit_of, lies_in, named
from tests.system.test_clean_up_counts import KEYS
from tests.system.test_history import STALE
from tests.system.test_session_audits import target_of

WRITES = int(os.environ.get("LOADSTONE_WRITES", "100000"))
LIES_EXPECTED = 10
OBJECTS = 5000


@dataclass(frozen=True)
class Row:
    """A lie, the phases that show it, and how it may be named.

    `writes` of each object are in one round, of which those from number `since` on are to be found.
    """

    phases: str
    kinds: frozenset[str]
    size: str = "1KiB"
    writes: int = 1
    since: int = 0


ROUNDS = {
    "lost_write": Row("[put, delete]", frozenset({"lost"})),
    "corrupt_byte": Row("[put, delete]", frozenset({"corrupt"})),
    # Truncation within the last page cannot be distinguished from damage there.
    "torn": Row(
        "[put, {op: put, name: over}, delete]", frozenset({"torn", "corrupt"}), "64KiB", 2, 1
    ),
    "resurrect": Row("[put, delete]", frozenset({"resurrected"})),
    "lost_metadata": Row("[put, post, delete]", frozenset({"metadata_wrong"})),
}
"""Lies that are found by reading back: each round has objects of its own, which are audited."""

CALLS = {
    # A read is behind only where no write runs beside it: hence few clients on many objects.
    "stale_read": ("{mix: {get: 1, put: 1}, requests: %d}", STALE, 20_000),
    "condition_ignored": (
        "{contend: {keys: 64, clients: 32}, requests: %d}",
        {"condition_ignored", "two_winners", "lost_update", "unordered"}, 64,
    ),
    "several_winners": (
        "{contend: {keys: 64, clients: 32}, requests: %d}",
        {"condition_ignored", "two_winners", "lost_update", "unordered"}, 64,
    ),
}  # fmt: skip
"""Lies that are found in the history of all calls, with how many objects there are."""


def check(lie: str, target: str, url: str, parts: str, kinds: frozenset[str], folder: Path) -> int:
    """Run a campaign against a store that lies; return how many lies there were."""
    log, path = folder / "lies.jsonl", folder / "lies.yaml"
    path.write_text(
        f"name: lies\ntargets: {{store: {target_of(url, target)}}}\nload: {{threads: 4}}\n{parts}"
    )
    finished = loadstone("run", path, "-o", folder / "run", environment=KEYS)
    audit = audit_of(folder / "run")
    lied_about = lies_in(log, ROUNDS[lie].since if lie in ROUNDS else 0).get(lie, set())
    wrong = named(audit)
    assert set().union(*wrong.values()) == lied_about, finished.err
    assert set(wrong) <= kinds
    assert audit["unanswered"] == 0
    # By Swift, a delete of what was lost is answered with 404, and is a failed one.
    assert audit["unknown"] <= len(lied_about)
    assert finished.code == (exit_code.FAILED if lied_about else 0), finished.err
    return len(lied_about)


@pytest.mark.long(cpu_s=60)
@pytest.mark.parametrize("interface", ["s3", "swift"])
@pytest.mark.parametrize("lie", ROUNDS)
def test_the_few_lies_among_many_writes_are_read_back(
    lie: str, interface: str, tmp_path: Path
) -> None:
    row = ROUNDS[lie]
    rounds = WRITES // OBJECTS // row.writes
    parts = (
        f"dataset: {{objects: {OBJECTS}, size: {row.size}, object_prefix: object-}}\n"
        f"phases: {row.phases}\nrounds: {rounds}\naudit: true\n"
    )
    lies = {lie: LIES_EXPECTED / WRITES, "prefix": "object-", "resurrect_after_ms": 1}
    lies["log"] = str(tmp_path / "lies.jsonl")
    with store_under_test.store(faults={"seed": 3, "lies": lies}) as url:
        lies_count = check(lie, interface, url, parts, row.kinds, tmp_path)
    assert lies_count > 0


@pytest.mark.long(cpu_s=60)
@pytest.mark.parametrize(
    ("lie", "interface"), [*((lie, "s3") for lie in CALLS), ("stale_read", "swift")]
)
def test_the_few_lies_among_many_calls_contradict_others(
    lie: str, interface: str, tmp_path: Path
) -> None:
    phase, kinds, objects = CALLS[lie]
    parts = (
        f"dataset: {{objects: {objects}, size: 4KiB, object_prefix: object-}}\n"
        f"phases: [{phase % (2 * WRITES)}]\naudit: {{history: true}}\n"
    )
    # Only conditional writes with a false condition can be lied about.
    lies = {lie: LIES_EXPECTED / WRITES, "prefix": "object-"}
    lies["log"] = str(tmp_path / "lies.jsonl")
    with store_under_test.store(faults={"seed": 3, "lies": lies}) as url:
        lies_count = check(lie, interface, url, parts, frozenset(kinds), tmp_path)
    assert lies_count > 0
