"""Driver `block` on block devices: a stranger's is left alone, and its bytes are accounted for.

Tried on a loop device, or on those that LOADSTONE_TEST_DEVICES names.
"""

import mmap
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from loadstone import _loadgen
from loadstone.errors import Kind
from tests.conformance import trials
from tests.conformance.devices import DEVICES, LOOP, loop_device, named
from tests.conformance.targets import Place
from tests.conformance.trials import Dataset, Result

# The offset at which data begins.
DATA_START = 1 << 20
BLOCK_BYTES = 4096
OBJECTS, OBJECT_BYTES = 4, 1 << 20
# The engine that suits a device, and whether a reason is given: the host may refuse one.
EITHER_ENGINE = [("io_uring", False), ("psync", True)]


@pytest.fixture(params=named(DEVICES) or [LOOP])
def device(request: pytest.FixtureRequest) -> Iterator[Path]:
    """Give a device that holds somebody's data."""
    if request.param == LOOP:
        with loop_device() as path:
            yield mine(path)
    else:
        yield mine(Path(request.param))


def mine(path: Path) -> Path:
    """Overwrite the start of a device by direct I/O, with bytes that are not loadstone's."""
    with mmap.mmap(-1, BLOCK_BYTES) as page:
        page[:8] = b"precious"
        transfer(path, 0, page, is_write=True)
    return path


def transfer(path: Path, offset: int, page: mmap.mmap, *, is_write: bool = False) -> bytes:
    """Read or write a page of a device past the page cache."""
    device = os.open(path, os.O_RDWR | os.O_DIRECT)
    try:
        moved = (
            os.pwritev(device, [page], offset) if is_write else os.preadv(device, [page], offset)
        )
    finally:
        os.close(device)
    assert moved == len(page)
    return bytes(page)


def page_of(path: Path, offset: int) -> bytes:
    """Read a page of a device past the page cache."""
    with mmap.mmap(-1, BLOCK_BYTES) as page:
        return transfer(path, offset, page)


def whole() -> Dataset:
    """A dataset of some large objects."""
    return Dataset(objects=OBJECTS, buckets=1, size_bytes=OBJECT_BYTES)


def place_on(path: Path, *, is_foreign: bool = True, **settings: Any) -> Place:
    """Describe a device to the driver."""
    ways: dict[str, Any] = {"fill": "write", "read": "read", "range_bytes": BLOCK_BYTES}
    return Place("block", {"path": str(path), **settings}, None, is_foreign=is_foreign, **ways)


def refused(where: Place, dataset: Dataset, kind: Kind) -> None:
    """Fill a device that must be refused, for a reason of this kind."""
    with pytest.raises(_loadgen.TargetError) as caught:
        trials.prepare(where, dataset)
    assert caught.value.kind == kind


def all_blocks(
    where: Place, dataset: Dataset, operation: str, bytes_each: int = BLOCK_BYTES
) -> Result:
    """Read or write each block of the dataset once."""
    stop = {"requests": -(-dataset.bytes // bytes_each), "duration_ns": None}
    trial = trials.document(where, dataset, operation, stop=stop)
    trial["options"]["range_bytes"] = bytes_each
    return trials.run(trial)


def check_engine(features: Mapping[str, str], *, is_blocking: bool) -> None:
    """The record says which engine it was; blocking calls have a reason unless they were chosen."""
    right = [("psync", False)] if is_blocking else EITHER_ENGINE
    assert (features["engine"], "io_uring" in features) in right, features


def test_a_strangers_device_is_refused_until_it_is_allowed_and_again_after_clean_up(
    device: Path,
) -> None:
    dataset, stranger = whole(), place_on(device, is_foreign=False)
    refused(stranger, dataset, "not-ours")
    assert page_of(device, 0).startswith(b"precious")
    trials.prepare(place_on(device), dataset)
    assert page_of(device, 0).startswith(b'{"loadstone":2,')
    trials.prepare(stranger, dataset)
    trials.clean_up(stranger, dataset)
    assert page_of(device, 0) == bytes(BLOCK_BYTES)
    refused(stranger, dataset, "not-ours")


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"engine": "psync"},
        {"engine": "psync", "direct": False},
        {"fsync": "each", "fsync_every": 16},
        {"fsync": "each", "fsync_every": 16, "fsync_data": True, "engine": "psync"},
        {"dsync": True},
    ],
    ids=lambda settings: "-".join(f"{name}:{value}" for name, value in settings.items()) or "plain",
)
def test_every_byte_comes_back(device: Path, settings: dict[str, Any]) -> None:
    dataset, where = whole(), place_on(device, **settings)
    is_blocking = settings.get("engine") == "psync"
    for bytes_each in (BLOCK_BYTES << 4, OBJECT_BYTES):
        written = all_blocks(where, dataset, "write", bytes_each)
        assert written.outcomes() == {"ok": dataset.bytes // bytes_each}
        check_engine(written.summary["features"], is_blocking=is_blocking)
        read = all_blocks(where, dataset, "read", bytes_each)
        assert read.outcomes() == {"ok": dataset.bytes // bytes_each}
        assert read.summary["verified_bytes"] == dataset.bytes
    trials.clean_up(where, dataset)


def test_one_flipped_bit_is_found(device: Path) -> None:
    dataset, where = whole(), place_on(device)
    all_blocks(where, dataset, "write", OBJECT_BYTES)
    offset = DATA_START + OBJECT_BYTES + 5 * BLOCK_BYTES
    with mmap.mmap(-1, BLOCK_BYTES) as page:
        transfer(device, offset, page)
        page[2000] ^= 1
        transfer(device, offset, page, is_write=True)
    read = all_blocks(where, dataset, "read", OBJECT_BYTES)
    assert read.outcomes() == {"ok": OBJECTS - 1, "corrupt": 1}
    trials.clean_up(where, dataset)


@pytest.mark.parametrize("object_bytes", [OBJECT_BYTES, OBJECT_BYTES - 1000])
def test_deletes_free_exactly_their_own_space(device: Path, object_bytes: int) -> None:
    where = place_on(device)
    dataset = Dataset(objects=OBJECTS, buckets=1, size_bytes=object_bytes)
    all_blocks(where, dataset, "write", OBJECT_BYTES)
    beyond = DATA_START + OBJECTS * OBJECT_BYTES
    with mmap.mmap(-1, BLOCK_BYTES) as page:
        page[:8] = b"precious"
        transfer(device, beyond, page, is_write=True)
    deleted = trials.run(trials.document(where, dataset, "delete"))
    assert deleted.outcomes() == {"ok": OBJECTS}, deleted.summary["error_examples"]
    features = deleted.summary["features"]
    # A call that blocks does it where the device knows nothing better.
    only_discards = "delete" in features
    assert features.get("delete") == ("BLKDISCARD" if only_discards else None)
    check_engine(features, is_blocking=only_discards)
    # The content after a discard is undefined.
    if not only_discards:
        for number in range(OBJECTS):
            for offset in (0, OBJECT_BYTES - BLOCK_BYTES):
                page = page_of(device, DATA_START + number * OBJECT_BYTES + offset)
                assert page == bytes(BLOCK_BYTES)
    assert page_of(device, beyond).startswith(b"precious")
    if not only_discards:
        read = all_blocks(where, dataset, "read", OBJECT_BYTES)
        assert "ok" not in read.outcomes()
    trials.clean_up(where, dataset)


def test_a_dataset_larger_than_the_device_is_refused(device: Path) -> None:
    with device.open("rb") as file:
        length = file.seek(0, os.SEEK_END)
    dataset = Dataset(objects=1, buckets=1, size_bytes=length)
    with pytest.raises(_loadgen.TargetError, match=f" {length} bytes"):
        all_blocks(place_on(device), dataset, "write", 1 << 20)
    assert page_of(device, 0).startswith(b"precious")


def test_a_device_that_somebody_uses_is_refused_though_it_is_allowed(device: Path) -> None:
    """The test opens the device exclusively, like a mount."""
    holder = os.open(device, os.O_RDONLY | os.O_EXCL)
    try:
        refused(place_on(device), whole(), "in-use")
    finally:
        os.close(holder)
    assert page_of(device, 0).startswith(b"precious")


def test_a_device_that_is_let_go_of_in_a_moment_is_waited_for(device: Path) -> None:
    """The kernel does so after a trial that has ended, or a program that was killed."""
    dataset, where = whole(), place_on(device)
    holder = os.open(device, os.O_RDONLY | os.O_EXCL)
    letting_go = threading.Timer(0.3, os.close, [holder])
    letting_go.start()
    try:
        trials.prepare(where, dataset)
    finally:
        letting_go.join()
    trials.clean_up(where, dataset)
