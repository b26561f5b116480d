"""Trials in which the client stalled: left out where most trials of their result ran well."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pytest

from loadstone.analysis import analyse
from loadstone.analysis.accounts.comparison import compare
from loadstone.analysis.accounts.run_account import read_account
from loadstone.analysis.answers.answer import answer_of
from loadstone.results.store import read_run
from tests.unit.synthetic_run import SECOND_NS, Folder, trial, trial_rows
from tests.unit.test_headline import closed

SECONDS = 4
# Both cores of the client stood still for half of what was measured.
STALL = {
    "stalls": [
        {"core": core, "seconds": [[1, SECOND_NS], [2, SECOND_NS]]} for core in (None, 0, 1)
    ],
    "cores_watched": 2,
}


def _blocks(path: Path, stalled: Collection[int], *, blocks: int = 5):
    folder = Folder(path / "run", "blocks", seconds=SECONDS)
    for block in range(1, blocks + 1):
        document = trial(block, "one", "get", block=block)
        is_stalled = block in stalled
        rows = trial_rows(document, 50 if is_stalled else 100 + block, SECONDS)
        folder.write(document, rows, changes=STALL if is_stalled else None)
    return analyse(read_run(closed(folder)))


def test_a_stalled_block_leaves_the_others_a_result(tmp_path: Path) -> None:
    findings = _blocks(tmp_path, {3})
    (cell,) = findings.totals
    assert cell.trials == ("0001", "0002", "0004", "0005")
    assert cell.requests_per_s == pytest.approx((101 + 102 + 104 + 105) / 4)
    assert "LEFT_OUT" in cell.labels
    assert "STALLED" not in cell.labels
    (result,) = answer_of(findings).results
    assert not result.is_void
    # The trial itself is still reported for what it is.
    (stalled,) = [one for one in findings.findings if one.rule == "STALLED"]
    assert stalled.cases == ("trial 0003",)


def test_where_half_of_the_blocks_stalled_the_result_is_void(tmp_path: Path) -> None:
    findings = _blocks(tmp_path, {2, 3}, blocks=4)
    (cell,) = findings.totals
    assert len(cell.trials) == 4
    assert "LEFT_OUT" not in cell.labels
    (result,) = answer_of(findings).results
    assert result.is_void


def test_a_run_without_stalls_leaves_nothing_out(tmp_path: Path) -> None:
    (cell,) = _blocks(tmp_path, set()).totals
    assert len(cell.trials) == 5
    assert "LEFT_OUT" not in cell.labels


def test_a_comparison_pairs_the_blocks_that_both_targets_have(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "run", "arms", seconds=SECONDS)
    for block in range(1, 7):
        for number, (target, rate) in enumerate([("one", 100), ("other", 150)]):
            document = trial(2 * block + number, target, "get", block=block)
            is_stalled = (target, block) == ("one", 3)
            # A block is as fast as it is for both: what differs between blocks is no noise.
            rows = trial_rows(document, 20 if is_stalled else rate * (block + 1), SECONDS)
            folder.write(document, rows, changes=STALL if is_stalled else None)
    account = read_account(read_run(closed(folder)))
    one, other = (
        replace(account, measurements=tuple(m for m in account.measurements if m.target == name))
        for name in ("one", "other")
    )
    (case,) = compare(one, other).comparisons
    assert case.verdict == "faster"
    assert (case.ratio.n_a, case.ratio.n_b) == (5, 5)
    assert case.ratio.ratio == pytest.approx(1.5, rel=0.01)
    assert case.ratio.method.startswith("paired")
