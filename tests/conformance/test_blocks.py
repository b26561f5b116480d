"""Driver `block` on what only blocks have: objects as large as whole devices."""

import contextlib
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from loadstone import _loadgen
from tests.conformance import trials
from tests.conformance.devices import loop_device
from tests.conformance.targets import Place
from tests.conformance.trials import Dataset

# More than a number of 32 bits holds, and far more than one request may move.
HUGE_BYTES = 5 << 30
BLOCK_BYTES = 4096
# Longer than a freeze takes on any machine: the load is stopped when it has shown enough.
LONGEST_NS = 600 * trials.SECOND_NS
# Enough for each of four buffers to be reused.
WRITES_AFTER = 64


@pytest.mark.parametrize("engine", ["io_uring", "psync"])
def test_an_object_larger_than_any_block_is_deleted_at_once_and_cleaned_up(
    tmp_path: Path, engine: str
) -> None:
    """Deleting moves no data, so it needs neither memory nor a block for the object."""
    path = tmp_path / "blocks"
    # Sparse, so that the test needs no room.
    with path.open("xb") as file:
        file.truncate(HUGE_BYTES + (2 << 20))
    settings = {"path": str(path), "direct": False, "engine": engine}
    place = Place("block", settings, None, fill="write", read="read", range_bytes=BLOCK_BYTES)
    dataset = Dataset(objects=1, buckets=1, size_bytes=HUGE_BYTES)
    stop = {"requests": 4, "duration_ns": None}
    trial = trials.document(place, dataset, "write", stop=stop, allow_foreign=True)
    try:
        written = trials.run(trial)
    except _loadgen.TargetError as error:
        if "make an io_uring" in str(error):
            pytest.skip(str(error))
        raise
    assert written.outcomes() == {"ok": 4}
    assert path.stat().st_blocks
    trial = trials.document(place, dataset, "delete", allow_foreign=True)
    trial["options"]["range_bytes"] = None
    assert trials.run(trial).outcomes() == {"ok": 1}
    assert not path.stat().st_blocks
    clean_up = trials.document(place, dataset, "delete", phase="clean-up", allow_foreign=True)
    clean_up["options"]["range_bytes"] = None
    clean_up["load"]["clients"] = 64
    assert trials.run(clean_up).summary["state"] == "finished"
    assert path.exists(), "it was there before"


def test_a_block_larger_than_the_largest_is_refused(tmp_path: Path) -> None:
    place = Place("block", {"path": str(tmp_path / "blocks")}, None)
    trial = trials.document(place, Dataset(objects=1, size_bytes=HUGE_BYTES), "read")
    trial["options"]["range_bytes"] = None
    with pytest.raises(ValueError, match=rf"options\.range_bytes: .*{HUGE_BYTES}"):
        trials.run(trial)


@pytest.fixture
def file_system(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of its own, which can be frozen."""
    with loop_device() as device, contextlib.ExitStack() as stack:
        mounted = tmp_path / "mounted"
        mounted.mkdir()
        for command in (["mkfs.ext4", "-q", str(device)], ["mount", str(device), str(mounted)]):
            try:
                subprocess.run(command, capture_output=True, text=True, check=True)
            except (OSError, subprocess.CalledProcessError) as error:
                output = getattr(error, "stderr", "") or str(error)
                pytest.skip(f"no file system can be mounted here: {output.strip()}")
        stack.callback(subprocess.run, ["umount", str(mounted)], check=True)
        yield mounted


def test_a_buffer_that_was_lost_to_a_timeout_is_filled_anew(file_system: Path) -> None:
    """Writes to a frozen file system time out; those that come later write what they should."""
    path = file_system / "blocks"
    settings = {"path": str(path), "direct": False, "engine": "io_uring"}
    place = Place("block", settings, None, fill="write", read="read", range_bytes=BLOCK_BYTES)
    # With nothing but duplicates a buffer is not filled again while it holds what is asked for.
    dataset = Dataset(objects=4, buckets=1, size_bytes=1 << 20, duplicate=1.0)
    try:
        trials.prepare(place, dataset)
    except _loadgen.TargetError as error:
        if "make an io_uring" in str(error):
            pytest.skip(str(error))
        raise
    writes = trials.document(place, dataset, "write", timeout_ns=200_000_000)
    writes["options"]["range_bytes"] = dataset.size_bytes
    writes["stop"] = {"requests": None, "duration_ns": LONGEST_NS}
    freezing = Freezing(file_system)
    try:
        result = trials.run(writes, freezing.control, watch=freezing.watch)
    finally:
        freezing.thaw()
    assert set(result.outcomes()) == {"ok", "timeout"}, result.summary["error_examples"]
    read = trials.document(place, dataset, "read")
    read["options"]["range_bytes"] = dataset.size_bytes
    result = trials.run(read)
    assert result.outcomes() == {"ok": dataset.objects}, result.summary["error_examples"]


class Freezing:
    """Freezes a file system under a load once it writes, until a request has timed out.

    It ends the load when every buffer has been written from since.
    """

    def __init__(self, mounted: Path) -> None:
        self.control = _loadgen.Control()
        self._mounted = mounted
        self._is_frozen = False
        self._good_when_thawed: int | None = None

    def watch(self, live: Mapping[str, Any]) -> None:
        """Take the next step, if it is time."""
        good = live["requests"] - live["failed"]
        if self._good_when_thawed is not None:
            if good >= self._good_when_thawed + WRITES_AFTER:
                self.control.stop()
        elif not self._is_frozen and good:
            subprocess.run(["fsfreeze", "--freeze", str(self._mounted)], check=True)
            self._is_frozen = True
        elif self._is_frozen and live["failed"]:
            self.thaw()
            self._good_when_thawed = good

    def thaw(self) -> None:
        """Let writes through again."""
        if self._is_frozen:
            self._is_frozen = False
            subprocess.run(["fsfreeze", "--unfreeze", str(self._mounted)], check=True)
