"""The cost of analysis grows with the number of trials, and no faster: counted, not timed."""

from collections.abc import Callable
from pathlib import Path

import pytest

from loadstone.analysis import analyse
from loadstone.analysis.cells import summary
from loadstone.analysis.measured.part import read_parts
from loadstone.analysis.measured.rows import Rows
from loadstone.results.record import INTERVAL_SCHEMA, Run
from loadstone.results.store import read_run
from tests.unit.synthetic_run import Folder, trial


def write_run(path: Path, trials: int) -> Run:
    folder = Folder(path, "many", 3)
    for number in range(trials):
        folder.add(trial(number + 1, "one", "get", clients=4, block=number + 1), 300 + number)
    return read_run(folder.close(campaign={"targets": {"one": {}}}, campaign_file=""))


def counted(monkeypatch: pytest.MonkeyPatch, name: str) -> list[str]:
    calls: list[str] = []
    real: Callable[..., object] = getattr(summary, name)

    def spy(*arguments: object) -> object:
        calls.append(name)
        return real(*arguments)

    monkeypatch.setattr(summary, name, spy)
    return calls


def test_a_cell_of_one_iteration_is_made_once_however_many_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = []
    for trials in (3, 6):
        run = write_run(tmp_path / str(trials), trials)
        calls = counted(monkeypatch, "_cell")
        findings = analyse(run)
        monkeypatch.undo()
        assert (findings.iterations[0].iteration, findings.rounds[0].iteration) == (1, None)
        counts.append(len(calls))
    few, many = counts
    # Results are of all trials of a case: more of these make no more of them.
    assert many == few > 0


def test_a_part_keeps_histograms_packed(tmp_path: Path) -> None:
    (record,) = write_run(tmp_path / "run", 1).records
    (part,) = read_parts(record, Rows(record.intervals))
    histograms = [histogram for histogram in part.histograms.values() if histogram is not None]
    assert histograms
    assert all(isinstance(histogram, bytes) and len(histogram) < 50_000 for histogram in histograms)


def test_times_that_are_the_same_are_added_up_once(tmp_path: Path) -> None:
    """Under closed load a request's intended start is its start."""
    (record,) = write_run(tmp_path / "run", 1).records
    rows = record.intervals.to_pylist()
    assert all(row["response"] == row["service"] for row in rows)
    (first,) = read_parts(record, Rows(record.intervals))
    assert first.histograms["response"] is first.histograms["service"]
    # One second without a response time: the two are no longer the same.
    rows[-1]["response"] = None
    (two,) = read_parts(record, Rows(INTERVAL_SCHEMA.of_rows(rows)))
    assert two.histograms["service"] == first.histograms["service"]
    assert two.histograms["response"] not in (None, two.histograms["service"])
