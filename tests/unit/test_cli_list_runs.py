"""`loadstone list runs`: the runs of a folder."""

from pathlib import Path

import pytest

from loadstone import cli
from tests.unit.synthetic_run import Folder, trial


def test_runs_are_listed_with_what_they_are_and_a_damaged_one_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("second", "first"):
        folder = Folder(tmp_path / name, f"campaign-{name}", 4)
        folder.add(trial(1, "ceph", "put", size=4096), 100)
        folder.close(campaign={"name": f"campaign-{name}"}, campaign_file="")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "manifest.json").write_text("{")
    (tmp_path / "other").mkdir()
    assert cli.main(["list", "runs", str(tmp_path)]) == 0
    rows = capsys.readouterr().out.splitlines()[2:]
    assert len(rows) == 3
    assert sum("campaign-first" in row and str(tmp_path / "first") in row for row in rows) == 1
    assert sum("finished" in row for row in rows) == 2
    (damaged,) = [row for row in rows if "finished" not in row]
    assert f'"{tmp_path / "damaged" / "manifest.json"}"' in damaged


def test_a_folder_without_runs_is_an_error(tmp_path: Path) -> None:
    assert cli.main(["list", "runs", str(tmp_path)]) == 1


def test_the_newest_run_is_listed_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, started in (("old", "2026-01-01T00:00:00Z"), ("new", "2026-02-01T00:00:00Z")):
        folder = Folder(tmp_path / name, "campaign", 4)
        folder.close(campaign={"name": "campaign"}, campaign_file="", started=started)
    assert cli.main(["list", "runs", str(tmp_path)]) == 0
    rows = capsys.readouterr().out.splitlines()[2:]
    assert [row.split()[0] for row in rows] == ["2026-02-01", "2026-01-01"]
