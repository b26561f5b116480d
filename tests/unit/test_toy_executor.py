"""A kind of trial that has no mix, no dataset and no load is planned, run, judged and reported."""

import datetime
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from loadstone.analysis import analyse
from loadstone.campaign.forecast import Forecast
from loadstone.campaign.parse import parse_campaign
from loadstone.campaign.planning.estimate import estimate
from loadstone.campaign.planning.plan import Plan, make_plan
from loadstone.campaign.planning.trial import PlannedTrial
from loadstone.campaign.resume import resume
from loadstone.cli.running.preview import print_preview
from loadstone.errors import TargetError
from loadstone.execution import cleaning, executors, runner
from loadstone.execution.host import limits as host_limits
from loadstone.execution.interrupt import Interrupt
from loadstone.report import REPORTS
from loadstone.report.options import Options
from loadstone.results.store import RunWriter, read_run
from tests.unit import toy_executor
from tests.unit.campaign_drivers import DRIVERS

CAMPAIGN = """
name: toy
targets: {one: {driver: s3, endpoint: "http://127.0.0.1:1", access_key: a, secret_key: {env: K}}}
dataset: {objects: 100, size: 4KiB}
load: {threads: 4}
phases: [put]
"""


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> toy_executor.Toy:
    """The one line in the table."""
    toy = toy_executor.Toy()
    monkeypatch.setitem(executors.EXECUTORS, "toy", toy)
    return toy


def plan_of(*documents: dict[str, Any]) -> Plan:
    plan = make_plan(parse_campaign(CAMPAIGN, drivers=DRIVERS, environ={}), DRIVERS)
    trials = tuple(PlannedTrial(document=document) for document in documents)
    return replace(plan, trials=trials)


def executed(path: Path, plan: Plan) -> runner.RunEnd:
    started = datetime.datetime.now(datetime.UTC).isoformat()
    manifest = {
        "name": plan.name,
        "run": plan.run,
        "seed": plan.seed,
        "plan": plan.documents(),
        "started": started,
    }
    return runner.execute(plan, RunWriter.create(path, manifest), lambda event: None)


@pytest.fixture
def plan() -> Plan:
    return plan_of(toy_executor.document(1), toy_executor.document(2))


def test_it_is_run_and_read(tmp_path: Path, toy: toy_executor.Toy, plan: Plan) -> None:
    executors.check_documents(plan)
    end = executed(tmp_path / "run", plan)
    assert (end.state, end.failed_requests, end.problems) == ("finished", 0, [])
    run = read_run(tmp_path / "run")
    assert [record.trial["kind"] for record in run.records] == ["toy", "toy"]
    findings = analyse(run)
    [total] = findings.rounds
    assert (total.operation, total.requests) == ("question", 60)
    assert total.requests_per_s == pytest.approx(10)
    assert total.response is not None
    assert total.little is None
    assert [trial.state for trial in findings.trials] == ["finished", "finished"]


def test_every_report_shows_it(tmp_path: Path, toy: toy_executor.Toy, plan: Plan) -> None:
    executed(tmp_path / "run", plan)
    run = read_run(tmp_path / "run")
    findings = analyse(run)
    for report in REPORTS.values():
        if not report.is_folder:
            assert report.render(run, findings, Options()), report.name


def test_it_is_estimated_previewed_and_forecast(
    toy: toy_executor.Toy, plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    cost = estimate(plan.trials, {}, requests_per_s=10)
    assert (cost.trials, cost.requests, cost.time_ns) == (2, 60, 6_000_000_000)
    print_preview(plan, None, None)
    assert "toy" in capsys.readouterr().out
    assert host_limits.demands_of(plan) == []
    forecast = Forecast(plan.trials)
    forecast.observe(plan.trials[0].document, 10, 10**9)
    assert forecast.left_ns() == 6 * 10**9


def test_it_goes_on_where_it_was_and_leaves_nothing(
    tmp_path: Path, toy: toy_executor.Toy, plan: Plan
) -> None:
    executed(tmp_path / "run", plan)
    assert [entry.id for entry in resume(plan, {"0001"}).trials] == ["0002"]
    assert cleaning.what_is_left(tmp_path / "run") == []


def test_mistakes_are_reported_before_anything_runs(toy: toy_executor.Toy) -> None:
    with pytest.raises(TargetError, match=r"toy\.questions"):
        executors.check_documents(plan_of(toy_executor.document(1, questions=0)))
    with pytest.raises(TargetError, match='"riddles"'):
        executors.check_documents(plan_of(toy_executor.document(1, kind="riddles")))


def test_a_request_to_stop_reaches_the_executor(toy: toy_executor.Toy) -> None:
    interrupt = Interrupt()
    interrupt.on_ask(toy._stop)
    interrupt.ask()
    interrupt.on_ask(toy._stop)
    assert toy.stopped == 2


def test_documents_of_earlier_builds_are_operations() -> None:
    document = toy_executor.document(1)
    assert executors.executor_of({**document, "kind": None}) is executors.EXECUTORS["operations"]
