"""The public way to read a run works as its page says, and agrees with the reports."""

import re
from pathlib import Path

import pytest

import loadstone
from loadstone.analysis import analyse
from loadstone.errors import InputError, ResultError
from loadstone.results.store import read_run
from tests.unit import synthetic_run

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "python.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthetic_run.write_rounds(tmp_path_factory.mktemp("runs") / "demo", seconds=4)


def test_the_examples_of_the_reference_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pieces = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    assert len(pieces) >= 5
    monkeypatch.chdir(folder.parents[1])
    (folder.parents[1] / "runs").symlink_to(folder.parent)
    names: dict[str, object] = {}
    for piece in pieces:
        exec(piece, names)
    assert "hummingbird-4k finished" in capsys.readouterr().out


def test_it_agrees_with_the_reports(folder: Path) -> None:
    run, findings = loadstone.open_run(folder), analyse(read_run(folder))
    assert run.results == findings.results
    assert run.rounds == findings.rounds
    assert run.iterations == findings.iterations
    assert run.findings == findings.findings
    rates = run.table()["requests_per_s"].to_pylist()
    assert rates == [result.requests_per_s for result in findings.results]


def test_tables_are_those_of_all_trials(folder: Path) -> None:
    run = loadstone.open_run(folder)
    intervals = run.intervals()
    assert set(intervals["trial"].to_pylist()) == {trial.id for trial in run.trials}
    assert intervals.num_rows == sum(trial.intervals.num_rows for trial in run.trials)
    assert run.intervals(["requests"]).column_names == ["trial", "requests"]
    assert run.probes().num_rows == sum(trial.probes.num_rows for trial in run.trials)


def test_histograms_are_those_behind_the_percentiles(folder: Path) -> None:
    run = loadstone.open_run(folder)
    for cell in run.results:
        assert cell.response is not None
        times = run.histogram(cell, "response")
        assert (times.count, times.quantile(0.5)) == (cell.good, cell.response.quantiles["p50"])


def test_agents_of_a_trial_add_up_to_its_cell(folder: Path) -> None:
    run = loadstone.open_run(folder)
    by_trial = {cell.trials: cell for cell in run.rounds}
    for trial in run.trials:
        (only,) = trial.agents
        assert only.requests == by_trial[(trial.id,)].requests


def test_an_invalid_run_or_column_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ResultError):
        loadstone.open_run(tmp_path)
    run = loadstone.open_run(folder)
    for wrong in ({"time": "latency"}, {"colour": "red"}):
        with pytest.raises(InputError):
            run.trials[0].histogram(**wrong)
