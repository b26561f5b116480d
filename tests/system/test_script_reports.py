"""Runs of users' actions from several clients: their tables and charts as one report."""

import shutil
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from rich.table import Table

from loadstone.analysis import Findings, analyse
from loadstone.analysis.judgements.result import Result
from loadstone.published.tables import charts
from loadstone.published.tables.charts import datasafe_data
from loadstone.report.answer import screen_of
from loadstone.report.options import Options
from loadstone.report.pages.chart_data import result_row
from loadstone.results.record import Run
from loadstone.results.several import merge_runs
from loadstone.results.store import RunWriter, read_run
from tests.conformance import store_under_test
from tests.system import campaigns
from tests.system.command import loadstone
from tests.unit.drawn_charts import DrawnChart, charts_of

# All of them look at the same runs, which one process makes.
pytestmark = pytest.mark.xdist_group("script reports")

CAMPAIGN = """\
name: datasafe
targets:
  amazon: {{driver: s3, endpoint: "{url}", access_key: {{env: KEY}}, secret_key: {{env: SECRET}}}}
  ceph: {{driver: s3, endpoint: "{url}", access_key: {{env: KEY}}, secret_key: {{env: SECRET}}}}
dataset: {{prefix: "{{target}}-{{size}}-{{buckets}}b-"}}
phases:
  - name: users
    script: {{generator: users, settings: {{users: 3, actions: 80, recipients: [1, 2]}}}}
sweep:
  threads: [2, 4]
  size: [1KiB, 4KiB]
  buckets: [1, 2]
  encryption: [aes-256-cbc, aes-256-gcm]
"""
MODES = ["aes-256-cbc", "aes-256-gcm"]
CLIENTS = {"m5.large": 2, "m5.xlarge": 4, "c5n.large": 2}
SAME_AS = {"c5n.large": "m5.xlarge"}
"""Trials of another client, under another name: as many trials need not run again."""
ACTIONS = ["write", "read", "share", "list", "delete"]
LABELS = {"m5": "GP", "c5n": "CO"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Yield a run of each client, with the cores that real hosts would have reported."""
    folder = tmp_path_factory.mktemp("clients")
    secrets = {"KEY": store_under_test.ACCESS_KEY, "SECRET": store_under_test.SECRET_KEY}
    runs = {}
    with store_under_test.store() as url:
        file = campaigns.write(folder, CAMPAIGN.format(url=url))
        for client, cores in CLIENTS.items():
            runs[client] = folder / client
            if client in SAME_AS:
                shutil.copytree(runs[SAME_AS[client]], runs[client])
            else:
                finished = loadstone("run", file, "-o", runs[client], environment=secrets)
                assert finished.code == 0, finished.err
            with RunWriter.lock(runs[client]) as writer:
                host = writer.manifest["host"]
                cpu = {**host["cpu"], "cores": cores}
                run = writer.manifest["run"][::-1] if client in SAME_AS else writer.manifest["run"]
                writer.amend({"run": run, "host": {**host, "cpu": cpu}})
    return runs


@pytest.fixture(scope="module")
def merged(folders: dict[str, Path]) -> tuple[Run, Findings]:
    run = merge_runs([(client, read_run(path)) for client, path in folders.items()])
    return run, analyse(run, courses=False)


@pytest.fixture(scope="module")
def drawn(merged: tuple[Run, Findings]) -> dict[str, DrawnChart]:
    options = Options(labels=LABELS)
    return charts_of(datasafe_data(*merged, options))


def heads_of(table: Table) -> list[str]:
    return [str(column.header) for column in table.columns]


def test_there_are_the_ten_charts_of_the_report_and_each_as_the_better_one(
    drawn: dict[str, DrawnChart],
) -> None:
    theirs = [*ACTIONS, "single-bucket-gp", "single-bucket-co"]
    for client in CLIENTS:
        theirs += [f"multi-bucket-{client}", f"modes-{client}", f"buckets-ceph-{client}"]
    better = [f"{name}-{kind}" for name in theirs for kind in ("completed", "latency")]
    assert set(drawn) == {*theirs, *better}


def test_a_chart_of_one_cipher_names_it(drawn: dict[str, DrawnChart]) -> None:
    named = {
        name: [mode for mode in MODES if mode in drawn[name].caption]
        for name in (*ACTIONS, "single-bucket-gp", "multi-bucket-m5.large")
    }
    assert set(map(tuple, named.values())) == {(MODES[0],)}


def test_a_chart_has_the_published_rate_of_every_client_and_load(
    drawn: dict[str, DrawnChart], merged: tuple[Run, Findings]
) -> None:
    _, findings = merged
    rows = drawn["write"].rows
    places = [f"{cores}-core, {threads} thr" for threads in (2, 4) for cores in (2, 4)]
    assert {row["x"] for row in rows} == set(places)
    # The one client of four cores is of GP.
    assert len(rows) == len(CLIENTS) * 2 * 2
    (of_client,) = [
        row for row in rows
        if (row["x"], row["series"], row["variant"]) == ("4-core, 4 thr", "4 KiB", "GP")
    ]  # fmt: skip
    case = {"client": "m5.xlarge", "threads": 4, "size": 4096, "buckets": 1}
    (action,) = [
        fact for fact in findings.actions
        if fact.action == "WRITE" and fact.cell.target == "amazon"
        and fact.cell.parameters == {**case, "encryption": "aes-256-cbc"}
    ]  # fmt: skip
    assert action.busy_per_s is not None
    assert of_client["value"] == pytest.approx(4 * action.busy_per_s, rel=1e-4)


@pytest.mark.parametrize(
    ("name", "series", "dashes", "places"),
    [
        ("single-bucket-gp", {a.upper() for a in ACTIONS}, {"1 KiB", "4 KiB"}, 4),
        ("multi-bucket-m5.large", {a.upper() for a in ACTIONS}, {"1 KiB", "4 KiB"}, 2),
        ("buckets-ceph-m5.large", {a.upper() for a in ACTIONS}, {"1 KiB", "4 KiB"}, 4),
        (
            "modes-c5n.large",
            {f"{size} KiB, {action}" for size in (1, 4) for action in ("WRITE", "SHARE")},
            {"aes-256-cbc", "aes-256-gcm"},
            2,
        ),
    ],
)
def test_lines_differ_as_those_of_the_report(
    drawn: dict[str, DrawnChart], name: str, series: set[str], dashes: set[str], places: int
) -> None:
    rows = drawn[name].rows
    assert {row["series"] for row in rows} == series
    assert {row["variant"] for row in rows} == dashes
    assert len({row["x"] for row in rows}) == places


def test_the_better_chart_has_what_was_completed_by_wall_time(
    drawn: dict[str, DrawnChart], merged: tuple[Run, Findings]
) -> None:
    _, findings = merged
    rows = drawn["single-bucket-co-completed"].rows
    assert {row["panel"] for row in rows} == {action.upper() for action in ACTIONS}
    expected = {
        fact.completed_per_s
        for fact in findings.actions
        if fact.completed_per_s
        and fact.action.lower() in ACTIONS
        and fact.cell.target == "amazon"
        and fact.cell.parameters["client"] == "c5n.large"
        and fact.cell.parameters["buckets"] == 1
        and fact.cell.parameters["encryption"] == "aes-256-cbc"
    }
    assert {row["value"] for row in rows} == expected


@pytest.mark.parametrize("standing", ["is_void", "is_bound"])
def test_a_chart_in_the_published_form_marks_what_the_result_is(
    merged: tuple[Run, Findings], standing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def marked(result: Result, *rest: Any) -> dict[str, Any]:
        return {**result_row(result, *rest), standing: result.operation == "WRITE"}

    monkeypatch.setattr(charts, "result_row", marked)
    layout = charts.datasafe_data(*merged, Options(labels=LABELS))["layout"]
    of_one_action = {chart["name"]: chart["rows"] for chart in layout if chart["name"] in ACTIONS}
    assert {name: {row[standing] for row in rows} for name, rows in of_one_action.items()} == {
        name: {name == "write"} for name in of_one_action
    }


def test_charts_of_a_layout_are_files(folders: dict[str, Path], tmp_path: Path) -> None:
    named = [f"{client}={path}" for client, path in folders.items()]
    finished = loadstone("report", *named[:1], "--table", "datasafe", "-f", "svg", "-o", tmp_path)
    assert finished.code == 0, finished.err
    assert {f"{name}.svg" for name in ACTIONS} <= {path.name for path in tmp_path.iterdir()}
    assert all(path.read_text().startswith("<svg") for path in tmp_path.iterdir())


def test_a_narrow_screen_leaves_rates_out_and_not_what_failed(folders: dict[str, Path]) -> None:
    run = read_run(folders["m5.large"])
    findings = analyse(run, courses=False)
    # A single case has space for each of its actions.
    (first, *_) = findings.action_totals
    case = (first.cell.target, first.cell.parameters)
    actions_of_case = tuple(
        action
        for action in findings.actions
        if (action.cell.target, action.cell.parameters) == case
    )
    totals = tuple(cell for cell in findings.rounds if cell.target == first.cell.target)
    small = replace(findings, rounds=totals, action_totals=(first,), actions=actions_of_case)
    dropped = []
    # How wide a table is depends on what was measured.
    for width in range(160, 20, -1):
        body = screen_of(run, small, width=width).body
        lead, table = (part for part in body if isinstance(part, Table))
        assert heads_of(lead)[0] == "Actions"
        assert heads_of(table)[-1] == "Failed"
        dropped.append({"Busy", "Crypto"} - {*heads_of(table)})
    assert [name for name, _ in groupby(dropped)] == [set(), {"Busy"}, {"Busy", "Crypto"}]


def test_a_screen_of_many_cases_leads_with_what_all_actions_come_to(
    folders: dict[str, Path],
) -> None:
    run = read_run(folders["m5.large"])
    screen = screen_of(run, analyse(run, courses=False), width=80)
    # The first actions of the first case would not represent the others.
    (table,) = (part for part in screen.body if isinstance(part, Table))
    assert "Actions" in heads_of(table)
    assert any("Each action" in str(line) for line in screen.body)


def test_several_clients_have_a_part_of_the_table_each(folders: dict[str, Path]) -> None:
    named = [f"{client}={path}" for client, path in folders.items()]
    finished = loadstone("report", *named, "--table", "datasafe", "-f", "markdown")
    assert finished.code == 0, finished.err
    heads = [line for line in finished.out.splitlines() if line.startswith("# ")]
    # Targets × buckets × modes × clients.
    assert len(heads) == len(set(heads)) == 2 * 2 * 2 * len(CLIENTS)
    for client in CLIENTS:
        assert sum(client in head for head in heads) == 8
    blocks = [part for part in finished.out.split("\n\n") if "==== Statistics" in part]
    assert len(blocks) == 8 * len(CLIENTS) * 4
