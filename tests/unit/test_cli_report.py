"""The command report: which layout, which format, and which files."""

import csv
import json
from pathlib import Path

import pytest

from loadstone.cli import main
from tests.unit.synthetic_run import Folder, trial


def write_run(path: Path, rate: int = 500) -> Path:
    """A small run whose campaign names the layout of its table."""
    folder = Folder(path, "small", 4)
    folder.add(trial(1, "ceph", "put", size=4096), rate)
    campaign = {"targets": {"ceph": {}}, "report": {"table": "hummingbird", "head": "Small"}}
    return Path(folder.close(campaign=campaign, campaign_file=""))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_run(tmp_path_factory.mktemp("runs") / "one"))


def test_rows_for_a_program_stay_rows_where_the_campaign_names_a_table(
    run: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", run, "-f", "csv"]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert [row["operation"] for row in rows] == ["put"]
    assert main(["report", run, "-o", str(tmp_path / "x.csv")]) == 0
    assert len(list(csv.DictReader((tmp_path / "x.csv").read_text().splitlines()))) == 1
    assert main(["report", run, "-f", "markdown"]) == 0
    assert capsys.readouterr().out.startswith("| Small")
    # Markdown in a file of values is refused, also where it was asked for.
    assert main(["report", run, "-f", "csv", "--table", "hummingbird"]) == 1


@pytest.mark.parametrize(("option", "allowed"), [("--spread", "trials"), ("--megabyte", "MiB")])
def test_a_look_that_there_is_not_is_refused(
    run: str, capsys: pytest.CaptureFixture[str], option: str, allowed: str
) -> None:
    assert main(["report", run, option, "other"]) == 2
    assert allowed in capsys.readouterr().err


def test_no_table_can_be_asked_for(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", run, "--table", "none"]) == 0
    assert "| Small" not in capsys.readouterr().out


@pytest.mark.parametrize("form", ["json", "openmetrics", "parquet", "svg", "png"])
def test_a_layout_that_a_report_has_not_is_refused_and_not_passed_over(
    run: str, form: str, tmp_path: Path
) -> None:
    path = tmp_path / "x"
    assert main(["report", run, "-f", form, "--table", "cern", "-o", str(path)]) == 1
    assert not path.exists()
    # The campaign's layout applies to text reports only; formats for programs keep their rows.
    assert main(["report", run, "-f", form, "-o", str(path)]) == 0
    assert main(["report", run, "-f", form, "--table", "none", "-o", str(path)]) == 0


@pytest.mark.parametrize("suffix", ["html", "htm", "md", "json", "csv", "yaml"])
def test_the_ending_of_a_file_tells_its_format(run: str, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"x.{suffix}"
    assert main(["report", run, "-o", str(path)]) == 0
    text = path.read_text()
    if suffix == "json":
        assert json.loads(text)["iterations"]
    assert text.startswith("<!doctype html>") == (suffix in ("html", "htm"))
    assert main(["report", "published:cern", "-o", str(tmp_path / "p.html")]) == 0
    assert (tmp_path / "p.html").read_text().startswith("<!doctype html>")


def test_an_ending_of_no_report_is_refused(run: str, tmp_path: Path) -> None:
    path = tmp_path / "x.pdf"
    assert main(["report", run, "-o", str(path)]) == 1
    assert not path.exists()
    assert main(["report", run, "-f", "json", "-o", str(path)]) == 0


def test_charts_are_no_one_file(run: str, tmp_path: Path) -> None:
    assert main(["report", run, "-o", str(tmp_path / "x.png")]) == 1
    assert not (tmp_path / "x.png").exists()
