"""`loadstone report` and `loadstone analyse` read a run by one loop, and so say the same of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from loadstone.analysis import analyse
from loadstone.analysis.accounts.judged_account import read_account
from loadstone.analysis.judgements.finding import Finding
from loadstone.analysis.judgements.judgement import judge_measured
from loadstone.analysis.measured.reading import read_measured
from loadstone.cli.commands.results.analyse import _judge
from loadstone.results.files import tables
from loadstone.results.record import Run
from loadstone.results.store import read_run
from tests.unit import synthetic_run


def contradict(path: Path) -> str:
    """Let a trial's summary count more requests than its intervals do; return the trial's id."""
    edited = sorted((path / "trials").glob("*.json"))[0]
    record = json.loads(edited.read_text())
    record["summary"]["requests"] += 1
    edited.write_text(json.dumps(record))
    return str(record["trial"]["id"])


def halve(path: Path) -> None:
    """Make the last trial of a sweep one that ran with one thing halved."""
    edited = sorted((path / "trials").glob("*.json"))[-1]
    record = json.loads(edited.read_text())
    trial = record["trial"]
    of = {**trial["case"]["parameters"], "threads": 16}
    trial["intervention"] = {"kind": "half_clients", "of": of}
    edited.write_text(json.dumps(record))


def whole(path: Path) -> None:
    """Leave a run as it is."""


@pytest.mark.parametrize("edit", [whole, contradict, halve])
@pytest.mark.parametrize("write", [synthetic_run.write_rounds, synthetic_run.write_sweep])
def test_both_commands_say_the_same(tmp_path: Path, write: Any, edit: Any) -> None:
    path = write(tmp_path / "run", seconds=4)
    edit(path)
    run = read_run(path)
    findings = analyse(run)
    judged = judge_measured(run, read_measured(run))
    assert judged.iterations == findings.iterations
    assert judged.rounds == findings.rounds
    assert judged.changes == findings.changes
    _, judged_findings = _judge(str(path), (), {})
    assert set(map(key, judged_findings)) <= set(map(key, findings.findings))
    assert labels_of(run) == {label for result in findings.results for label in result.labels} - {
        "n=1"
    }


def test_a_trial_that_contradicts_itself_is_labelled_for_both(tmp_path: Path) -> None:
    path = synthetic_run.write_rounds(tmp_path / "run", seconds=4)
    trial = contradict(path)
    run = read_run(path)
    # Its case goes without that round.
    assert f"trial {trial}" not in {
        measurement.place for measurement in read_account(run).measurements
    }
    cells = [cell for cell in analyse(run).rounds if "CONTRADICTORY" in cell.labels]
    assert [cell.trials for cell in cells] == [(trial,)]


def test_tables_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading takes most of the time and memory of a long run."""
    run = read_run(synthetic_run.write_sweep(tmp_path / "run", seconds=4))
    opened: list[str] = []
    read = tables.read_table

    def count(path: Any, *arguments: Any, **options: Any) -> Any:
        opened.append(str(path))
        return read(path, *arguments, **options)

    monkeypatch.setattr(tables, "read_table", count)
    read_measured(run)
    assert opened
    assert len(opened) == len(set(opened))


def key(finding: Finding) -> tuple[object, ...]:
    return finding.rule, finding.severity, finding.statement, finding.cases


def labels_of(run: Run) -> set[str]:
    return {label for measurement in read_account(run).measurements for label in measurement.labels}
