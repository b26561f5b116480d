"""Trials of two arms that ran in the same interleaved blocks, side by side."""

from collections.abc import Sequence

from loadstone.analysis.accounts.account import Measurement


def of_common_blocks(
    a: Sequence[Measurement], b: Sequence[Measurement]
) -> tuple[list[Measurement], list[Measurement]]:
    """Return the trials of blocks that both arms have, where there are two or more of these.

    A block that one arm lacks, for its trial was left out or never ran, is no pair.
    """
    common = {one.block for one in a} & {one.block for one in b}
    if None in common or len(common) < 2:
        return list(a), list(b)
    return [one for one in a if one.block in common], [one for one in b if one.block in common]


def in_blocks(
    a: Sequence[Measurement], b: Sequence[Measurement]
) -> tuple[list[float], list[float]] | None:
    """Return the values of both arms block by block, or None where they did not run in blocks."""
    blocks_a = {one.block: one.value for one in a}
    blocks_b = {one.block: one.value for one in b}
    if None in blocks_a or blocks_a.keys() != blocks_b.keys() or len(blocks_a) != len(a):
        return None
    if len(blocks_b) != len(b):
        return None
    return list(blocks_a.values()), [blocks_b[block] for block in blocks_a]
