"""How much of what a load reads was in this host's page cache before it."""

import os
from pathlib import Path

import pytest

from loadstone.analysis.instrument.client_limits import cached_share
from loadstone.results.record import Record
from tests.conformance import trials
from tests.conformance.targets import Place
from tests.conformance.trials import Dataset

SIZE = 256 << 10


def forget(folder: Path, share: float) -> None:
    """Take the first files of a folder, or the first bytes of its only one, out of the cache."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    for path in files:
        with path.open("rb") as file:
            os.fsync(file.fileno())
    if len(files) == 1:
        parts = [(files[0], round(share * files[0].stat().st_size))]
    else:
        objects = [path for path in files if path.stat().st_size == SIZE]
        parts = [(path, 0) for path in objects[: round(share * len(objects))]]
    for path, length in parts if share else ():
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, length, os.POSIX_FADV_DONTNEED)


@pytest.mark.parametrize("driver", ["file", "block"])
def test_the_share_of_the_data_that_is_in_memory_is_seen(driver: str, tmp_path: Path) -> None:
    dataset = Dataset(objects=16, size_bytes=SIZE)
    path = tmp_path if driver == "file" else tmp_path / "image"

    def share(operation: str, *, direct: bool = False) -> float | None:
        settings = {"path": str(path), "direct": direct}
        place = Place(driver, settings, None, range_bytes=SIZE)
        document = trials.document(place, dataset, operation)
        return cached_share(Record(trial=document, summary=trials.run(document).summary))

    write, read = ("put", "get") if driver == "file" else ("write", "read")
    assert share(write) is None, "it reads nothing"
    assert share(read) == 1.0
    for gone in (0.5, 1.0):
        forget(tmp_path, gone)
        in_memory = share(read)
        assert in_memory is not None
        if in_memory == 1.0:
            pytest.skip("this file system lies in memory")
        assert in_memory == pytest.approx(1 - gone, abs=0.1)
    assert share(read, direct=True) is None, "it is passed by"


def test_files_that_a_server_reads_are_not_inspected() -> None:
    assert cached_share(Record(trial={}, summary={})) is None
