"""A run reads, verifies, and does not change the objects that another run kept."""

import json
from pathlib import Path

import pytest

from loadstone.results.store import read_run
from tests.system.command import loadstone


@pytest.fixture
def kept_run(tmp_path: Path) -> tuple[Path, Path]:
    """Return a run that kept its objects, and the directory that holds them."""
    data = tmp_path / "data"
    data.mkdir()
    finished = loadstone(
        "bench", "put", data, "-n", "30", "-s", "8KiB", "-b", "3", "-t", "2", "--seed", "7",
        "--keep-data", "-o", tmp_path / "kept",
    )  # fmt: skip
    assert finished.code == 0, finished.err
    return tmp_path / "kept", data


def contents(data: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in data.rglob("*") if path.is_file()}


@pytest.mark.parametrize("seed", [7, 8])
def test_kept_objects_are_read_and_checked_and_stay(
    tmp_path: Path, kept_run: tuple[Path, Path], seed: int
) -> None:
    run, data = kept_run
    before = contents(data)
    finished = loadstone(
        "bench", "get,head,list", data, "-t", "2", "--seed", str(seed), "--reuse", run,
        "-o", tmp_path / "read",
    )  # fmt: skip
    assert finished.code == 0, finished.err
    records = read_run(tmp_path / "read").records
    assert [record.trial["phase"] for record in records] == ["get", "head", "list"]
    get = records[0].summary
    assert (get["requests"], get["verified_requests"], get["failed"]) == (30, 30, 0)
    assert not get["mismatches"]
    assert contents(data) == before
    # The run that only read has nothing to remove; the other one removes all of it.
    assert loadstone("clean", tmp_path / "read", "--yes").code == 0
    assert contents(data) == before
    assert loadstone("clean", run, "--yes").code == 0
    assert contents(data) == {}


def test_deletes_of_reused_objects_are_recorded_in_the_other_run(
    tmp_path: Path, kept_run: tuple[Path, Path]
) -> None:
    """The maker's folder knows, so none reads what is gone; its clean-up still takes the rest."""
    run, data = kept_run
    finished = loadstone(
        "bench", "delete", data, "-t", "2", "--reuse", run, "-o", tmp_path / "deletes"
    )
    assert finished.code == 0, finished.err
    deleting = json.loads((tmp_path / "deletes" / "manifest.json").read_text())["run"]
    assert json.loads((run / "manifest.json").read_text())["deleted_by"] == [deleting]
    again = loadstone("bench", "get", data, "--reuse", run, "-o", tmp_path / "no")
    assert again.code == 1
    assert deleting in again.err
    assert not (tmp_path / "no").exists()
    assert loadstone("clean", tmp_path / "deletes", "--yes").code == 0
    assert len(list(data.iterdir())) == 3, "the directories are the maker's"
    cleaned = loadstone("clean", run, "--yes")
    assert cleaned.code == 0, cleaned.err
    assert "3 buckets gone" in cleaned.out
    assert not list(data.iterdir())


def test_damage_of_kept_objects_is_found(tmp_path: Path, kept_run: tuple[Path, Path]) -> None:
    run, data = kept_run
    victim = next(path for path in sorted(data.rglob("bench-*")) if path.is_file())
    bytes_there = bytearray(victim.read_bytes())
    bytes_there[5000] ^= 1
    victim.write_bytes(bytes_there)
    finished = loadstone(
        "bench", "get", data, "-t", "2", "--reuse", run, "-o", tmp_path / "read",
    )  # fmt: skip
    assert finished.code == 1
    assert read_run(tmp_path / "read").records[0].summary["failed"] == 1


def test_phases_that_write_are_refused_on_what_another_run_kept(
    tmp_path: Path, kept_run: tuple[Path, Path]
) -> None:
    run, data = kept_run
    before = contents(data)
    for operation in ("put", "get=1,put=1"):
        finished = loadstone("bench", operation, data, "--reuse", run, "-o", tmp_path / "no")
        assert finished.code == 1
        assert "reuse" in finished.err
    other = loadstone("bench", "get", data, "-n", "31", "--reuse", run, "-o", tmp_path / "no")
    assert other.code == 1
    assert "30 objects" in other.err
    assert contents(data) == before
    assert not (tmp_path / "no").exists()


def test_a_run_is_named_by_its_identity_too(
    tmp_path: Path, kept_run: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, data = kept_run
    (tmp_path / "runs").mkdir()
    run.rename(tmp_path / "runs" / "kept")
    name = json.loads((tmp_path / "runs" / "kept" / "manifest.json").read_text())["run"]
    monkeypatch.chdir(tmp_path)
    finished = loadstone("bench", "get", data, "-t", "2", "--reuse", name, "-o", tmp_path / "read")
    assert finished.code == 0, finished.err
    assert loadstone("bench", "get", data, "--reuse", "0" * 32).code == 1
