"""The load generator and the programs that unit tests of an execution put in place of real ones."""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from loadstone.execution import operations
from tests.unit.fake_loadgen import FakeLoadgen

MEMORY = Path("/dev/shm")
ROOM_BYTES = 1 << 30


@pytest.fixture
def tmp_path(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """Make a folder in memory, if there is room: on a disk tests wait for syncs half the time."""
    name = re.sub(r"\W+", "_", request.node.name)[:30]
    if not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < ROOM_BYTES:
        yield tmp_path_factory.mktemp(name)
        return
    with tempfile.TemporaryDirectory(
        prefix=f"{name}-", dir=MEMORY, ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder)


@pytest.fixture
def loadgen(monkeypatch: pytest.MonkeyPatch) -> FakeLoadgen:
    fake = FakeLoadgen()
    monkeypatch.setattr(operations, "_loadgen", fake)
    return fake


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder at the front of the path, for programs that behave as a test asks."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder
