"""Which trials of interleaved blocks are compared in pairs."""

from dataclasses import replace

from loadstone.analysis.accounts import comparison
from tests.unit.test_compare import arm, only, rates


def test_a_block_that_one_arm_lacks_is_no_pair() -> None:
    a = arm("a", {"get": rates(100)}, run="r", is_blocked=True)
    b = arm("b", {"get": rates(100, n=9)}, run="r", is_blocked=True)
    found = only(comparison.compare(a, b))
    assert found.ratio.method == "paired-t"
    assert (found.ratio.n_a, found.ratio.n_b) == (9, 9)


def test_arms_without_blocks_in_common_are_not_paired() -> None:
    a = arm("a", {"get": rates(100)}, run="r", is_blocked=True)
    b = arm("b", {"get": rates(100)}, run="r", is_blocked=True)
    later = [
        replace(measurement, block=(measurement.block or 0) + 100) for measurement in b.measurements
    ]
    found = only(comparison.compare(a, replace(b, measurements=tuple(later))))
    assert found.ratio.method == "welch-t"
