"""The load generator and the programs that unit tests of an execution put in place of real ones."""

import os
from pathlib import Path

import pytest

from loadstone.execution import operations
from tests.unit.fake_loadgen import FakeLoadgen


@pytest.fixture
def loadgen(monkeypatch: pytest.MonkeyPatch) -> FakeLoadgen:
    fake = FakeLoadgen()
    monkeypatch.setattr(operations, "_loadgen", fake)
    return fake


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder at the front of the path, for programs that do what a test says."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder
