"""Runs of one campaign from several clients, reported as one with the client as a parameter."""

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from loadstone.analysis import analyse
from loadstone.cli import main
from loadstone.errors import InputError
from loadstone.report import REPORTS
from loadstone.results.several import merge_runs
from loadstone.results.store import read_run
from tests.unit.synthetic_run import Folder, trial

RATES = {"m5": (500, 700), "c5n": (400, 900)}
CAMPAIGN: Mapping[str, Any] = {"targets": {"ceph": {}, "aws": {}}}


def write_client(path: Path, client: str, **manifest: Any) -> Path:
    folder = Folder(path, "clients", 4)
    for block, rate in enumerate(RATES[client], start=1):
        folder.add(trial(block, "ceph", "put", block=block, size=4096), rate)
    manifest = {"campaign": CAMPAIGN, "campaign_file": "", "run": client} | manifest
    return Path(folder.close(**manifest))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    return {client: write_client(folder / client, client) for client in RATES}


def named(runs: Mapping[str, Path]) -> list[str]:
    return [f"{client}={path}" for client, path in runs.items()]


def test_each_client_keeps_the_numbers_of_its_own_run(runs: Mapping[str, Path]) -> None:
    merged = merge_runs([(client, read_run(path)) for client, path in runs.items()])
    cases = {cell.parameters["client"]: cell for cell in analyse(merged).results}
    assert set(cases) == set(runs)
    for client, path in runs.items():
        (alone,) = analyse(read_run(path)).results
        of_both = cases[client]
        assert of_both.requests_per_s == alone.requests_per_s
        assert of_both.rate == alone.rate
        assert [trial.removeprefix(f"{client}:") for trial in of_both.trials] == [*alone.trials]


def test_a_trial_is_told_apart_by_its_client(runs: Mapping[str, Path]) -> None:
    merged = merge_runs([(client, read_run(path)) for client, path in runs.items()])
    ids = [fact.trial for fact in analyse(merged).trials]
    assert ids == ["m5:0001", "m5:0002", "c5n:0001", "c5n:0002"]
    assert [record.id for record in merged.records] == ids


@pytest.mark.parametrize("form", [name for name, report in REPORTS.items() if not report.is_folder])
def test_every_report_takes_several_runs(
    form: str, runs: Mapping[str, Path], tmp_path: Path
) -> None:
    output = tmp_path / "report"
    assert main(["report", *named(runs), "-f", form, "-o", str(output)]) == 0
    content = output.read_bytes()
    assert all(client.encode() in content for client in runs)


def test_rows_of_all_clients_have_one_head(
    runs: Mapping[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", *named(runs), "-f", "csv"]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert {row["parameter_client"] for row in rows} == set(runs)


def test_charts_of_several_runs_have_all_clients(runs: Mapping[str, Path], tmp_path: Path) -> None:
    assert main(["report", *named(runs), "-f", "svg", "-o", str(tmp_path / "charts")]) == 0
    drawn = "".join(path.read_text() for path in (tmp_path / "charts").iterdir())
    assert "m5" in drawn
    assert "c5n" in drawn


def test_a_client_is_its_host_where_it_has_no_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [
        write_client(tmp_path / client, client, host={"name": f"{client}.example"})
        for client in RATES
    ]
    assert main(["report", *map(str, paths), "-f", "json"]) == 0
    iterations = json.loads(capsys.readouterr().out)["iterations"]
    assert {case["parameters"]["client"] for case in iterations} == {"m5.example", "c5n.example"}


def test_two_campaigns_are_no_report(runs: Mapping[str, Path], tmp_path: Path) -> None:
    other = write_client(tmp_path / "b", "c5n", campaign={"targets": {"aws": {}}})
    with pytest.raises(InputError, match=": targets"):
        merge_runs([("m5", read_run(runs["m5"])), ("c5n", read_run(other))])


def test_descriptions_and_judgements_of_a_campaign_may_differ(
    runs: Mapping[str, Path], tmp_path: Path
) -> None:
    manifest_campaign = {
        **CAMPAIGN,
        "description": "on the small client",
        "expect": {"failures": True},
    }
    other = write_client(tmp_path / "b", "c5n", campaign=manifest_campaign)
    merge_runs([("m5", read_run(runs["m5"])), ("c5n", read_run(other))])


def test_a_run_is_not_counted_twice(runs: Mapping[str, Path]) -> None:
    run = read_run(runs["m5"])
    with pytest.raises(InputError, match="same run"):
        merge_runs([("a", run), ("b", run)])


def test_two_clients_of_one_name_are_refused(runs: Mapping[str, Path]) -> None:
    with pytest.raises(InputError, match='"a"'):
        merge_runs([("a", read_run(path)) for path in runs.values()])


def test_an_altered_file_of_any_run_fails_the_report(
    runs: Mapping[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "b"
    other = write_client(path, "c5n", files={"trials/0001.json": {"bytes": 1, "sha256": "0"}})
    assert main(["report", f"m5={runs['m5']}", f"c5n={other}", "-f", "csv"]) == 1
    assert str(other) in capsys.readouterr().err
