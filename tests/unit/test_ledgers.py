"""Ledger files: appended to, cut off, compacted; and the bound that an audit states."""

import os
import random
import struct
import zlib
from pathlib import Path

import pytest
from scipy import stats  # type: ignore[import-untyped]

from loadstone.analysis.audits import Survival, durability_class, upper_bound
from loadstone.results.files.ledger_file import (
    LEDGERS,
    LedgerWriter,
    check_frames,
    compacted,
    frames_in,
)

PAGE_BYTES = 1024


def frame(page: int, content: bytes, times: tuple[int, int] = (1, 2), kind: int = 1) -> bytes:
    head = struct.pack("<B3xIQQQI", kind, 0, page, *times, len(content))
    return head + struct.pack("<I", zlib.crc32(content, zlib.crc32(head))) + content


def contents(stream: bytes) -> list[tuple[int, int, int, bytes]]:
    """Return pages as they are: number, times and unpacked content."""
    pages = []
    for frame in frames_in(stream):
        content = {1: bytes, 2: lambda byte: byte * PAGE_BYTES, 3: zlib.decompress}.get(frame.kind)
        if content is not None:
            pages.append((frame.page, frame.from_ns, frame.to_ns, content(frame.content)))
    return pages


def test_a_compacted_ledger_has_the_last_of_each_page_and_when_it_first_changed() -> None:
    first, last = bytes([1]) * PAGE_BYTES, os.urandom(PAGE_BYTES)
    stream = frame(7, first[:1], (1, 2), kind=2) + frame(3, first, (2, 3)) + frame(7, last, (3, 4))
    assert contents(compacted(stream)) == [(7, 1, 4, last), (3, 2, 3, first)]
    assert len(compacted(stream)) < len(stream)


def test_attempts_follow_each_other_also_behind_a_frame_that_was_cut_off(tmp_path: Path) -> None:
    writer = LedgerWriter(tmp_path, "0001")
    writer.write(frame(1, bytes(PAGE_BYTES)))
    writer.close()
    with open(writer.path, "ab") as stream:
        stream.write(frame(2, bytes(PAGE_BYTES))[:500])
    again = LedgerWriter(tmp_path, "0001")
    again.write(frame(2, os.urandom(PAGE_BYTES)))
    again.finish(is_whole=True)
    ledger = (tmp_path / LEDGERS / "0001.ledger").read_bytes()
    assert [frame.kind for frame in frames_in(ledger)] == [4, 3, 4, 1, 5]
    assert sum(len(frame.content) + 40 for frame in frames_in(ledger)) == len(ledger)


def test_hosts_send_only_frames_of_pages() -> None:
    sound = frame(1, bytes(PAGE_BYTES)) + frame(2, b"\1", kind=2)
    check_frames(sound)
    damaged = bytearray(sound)
    damaged[100] ^= 1
    for wrong in (sound[:-1], sound + b"x", bytes(damaged), frame(0, b"", kind=5)):
        with pytest.raises(ValueError, match="frame"):
            check_frames(wrong)


def test_the_ledger_of_a_billion_writes_is_no_larger_than_two_bits_each() -> None:
    """Written and deleted in any order, every fourth page; all written is far less."""
    chance, pages = random.Random(1), 60
    entries = [bytes(chance.choices((0b01, 0b10), k=4)) for _ in range(256)]
    packed_bytes = [sum(value << 2 * at for at, value in enumerate(four)) for four in entries]
    mixed = b"".join(
        frame(page, bytes(chance.choices(packed_bytes, k=PAGE_BYTES))) for page in range(pages)
    )
    written = b"".join(frame(page, b"\x55", kind=2) for page in range(pages))
    objects = pages * PAGE_BYTES * 4
    assert len(compacted(mixed)) * 1e9 / objects < 250e6
    assert len(compacted(written)) * 1e9 / objects < 12e6


@pytest.mark.parametrize("wrong", [0, 1, 3, 40])
@pytest.mark.parametrize("looked_at", [50, 18_722, 1_000_000])
def test_the_bound_on_wrong_objects_is_clopper_and_pearsons(wrong: int, looked_at: int) -> None:
    expected = stats.beta.ppf(0.95, wrong + 1, looked_at - wrong)
    assert upper_bound(wrong, looked_at) == pytest.approx(expected, rel=1e-9)


def test_the_bound_of_a_sample_is_that_of_the_literature() -> None:
    assert upper_bound(0, 18_722) == pytest.approx(0.00016, rel=1e-3)
    assert upper_bound(5, 5) == 1.0


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"kill": 3, "power_cut": 0}, "volatile"),
        ({"kill": 0, "power_cut": 9}, "buffered"),
        ({"kill": 0}, "kill-safe"),
        ({"kill": 0, "power_cut": 0}, "synced"),
        ({"power_cut": 0}, "synced"),
        ({"power_cut": 9}, None),
        ({}, None),
    ],
)
def test_the_durability_class_is_the_weakest_that_a_fault_shows(
    wrong: dict[str, int], expected: str | None
) -> None:
    survived = [
        Survival(fault=fault, times=2, times_wrong=1, acknowledged=90, read_back=80, wrong=count)
        for fault, count in wrong.items()
    ]
    unread = Survival(fault="kill", times=0, times_wrong=0, acknowledged=0, read_back=0, wrong=0)
    assert durability_class([unread, *survived]) == expected
