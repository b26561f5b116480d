"""Pairing of the trials of interleaved blocks for comparisons."""

from dataclasses import replace

from loadstone.analysis.accounts import comparison
from tests.unit.test_compare import arm, only, rates


def test_a_block_that_one_arm_lacks_is_no_pair() -> None:
    a = arm("a", {"get": rates(100)}, run="r", is_blocked=True)
    b = arm("b", {"get": rates(100, n=9)}, run="r", is_blocked=True)
    case = only(comparison.compare(a, b))
    assert case.ratio.method == "paired-t"
    assert (case.ratio.n_a, case.ratio.n_b) == (9, 9)


def test_arms_without_blocks_in_common_are_not_paired() -> None:
    a = arm("a", {"get": rates(100)}, run="r", is_blocked=True)
    b = arm("b", {"get": rates(100)}, run="r", is_blocked=True)
    later = [
        replace(measurement, block=(measurement.block or 0) + 100) for measurement in b.measurements
    ]
    case = only(comparison.compare(a, replace(b, measurements=tuple(later))))
    assert case.ratio.method == "welch-t"
