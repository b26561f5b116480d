"""A plan is run in order, and whatever goes wrong leaves a folder that says what."""

import datetime
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loadstone.campaign.parse import parse_campaign
from loadstone.campaign.planning.plan import Plan, make_plan
from loadstone.errors import ResultError
from loadstone.execution import interrupt as interrupt_module
from loadstone.execution import runner
from loadstone.execution.events import (
    Event,
    HostNews,
    Resting,
    TrialEnded,
    TrialFailed,
    TrialProgress,
    TrialSkipped,
    TrialStarted,
)
from loadstone.execution.host.settling import Settling
from loadstone.execution.interrupt import Interrupt
from loadstone.results.store import RunWriter, read_run
from tests.unit.campaign_drivers import DRIVERS
from tests.unit.fake_loadgen import Control, FakeLoadgen, refusal
from tests.unit.sample_runs import interval

CAMPAIGN = """
name: test
targets:
  one: {driver: s3, endpoint: "http://127.0.0.1:1", access_key: a, secret_key: {env: KEY}}
  two: {driver: s3, endpoint: "http://127.0.0.1:2", access_key: a, secret_key: {env: KEY}}
dataset: {objects: 100, size: 4KiB, buckets: 10}
load: {threads: 4}
phases: [put, get, delete]
"""


@pytest.fixture
def events() -> list[Event]:
    return []


def plan_of(text: str = CAMPAIGN) -> Plan:
    return make_plan(parse_campaign(text, drivers=DRIVERS, environ={}), DRIVERS)


def create(path: Path, plan: Plan) -> RunWriter:
    started = datetime.datetime.now(datetime.UTC).isoformat()
    manifest = {
        "name": plan.name,
        "run": plan.run,
        "seed": plan.seed,
        "plan": plan.documents(),
        "started": started,
    }
    return RunWriter.create(path, manifest)


def ids(plan: Plan, target: str) -> list[str]:
    return [trial.id for trial in plan.trials if trial.document["target"]["name"] == target]


def refuse(message: str, hint: str | None = None) -> Callable[[Control], None]:
    def behave(control: Control) -> None:
        raise refusal(message, hint)

    return behave


def test_every_trial_is_run_in_order_and_kept(
    tmp_path: Path, loadgen: FakeLoadgen, events: list[Event]
) -> None:
    plan = plan_of()
    end = runner.execute(plan, create(tmp_path / "run", plan), events.append)
    assert (end.state, end.failed_requests, end.problems) == ("finished", 0, [])
    assert [document["id"] for document in loadgen.documents] == [t.id for t in plan.trials]
    run = read_run(tmp_path / "run")
    assert run.state == "finished"
    assert [record.id for record in run.records] == [trial.id for trial in plan.trials]
    assert all(record.intervals.num_rows == 3 for record in run.records)
    assert all(record.probes.num_rows > 0 for record in run.records)
    assert run.manifest["not_run"] == []
    kinds = [type(event) for event in events if event is not None]
    assert kinds[:3] == [TrialStarted, TrialProgress, TrialProgress]
    assert kinds.count(TrialEnded) == len(plan.trials)


def test_residue_of_earlier_trials_is_recorded_and_reported(
    tmp_path: Path, loadgen: FakeLoadgen, events: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    residue = {
        "quantity": "ports_resting",
        "before_wait": 900,
        "before_load": 800,
        "settled_max": 5,
    }
    state = {"waited_ns": 7, "residues": [residue]}
    monkeypatch.setattr(Settling, "settle", lambda *_: state)
    plan = plan_of(CAMPAIGN.replace("[put, get, delete]", "[get]"))
    runner.execute(plan, create(tmp_path / "run", plan), events.append)
    measured = {trial.id for trial in plan.trials if trial.is_measured}
    assert len(measured) < len(plan.trials)
    state_of = {
        record.id: record.summary.get("host_state") for record in read_run(tmp_path / "run").records
    }
    assert {name for name, trial_state in state_of.items() if trial_state == state} == measured
    trials_with_news = [event.document["id"] for event in events if isinstance(event, HostNews)]
    assert set(trials_with_news) == measured


def test_the_load_generator_gets_the_very_document_of_the_plan(
    tmp_path: Path, loadgen: FakeLoadgen
) -> None:
    plan = plan_of()
    runner.execute(plan, create(tmp_path / "run", plan), lambda event: None)
    assert loadgen.documents == json.loads(json.dumps(plan.documents()))
    assert loadgen.documents == list(read_run(tmp_path / "run").plan)


def test_a_target_that_fails_ends_its_own_trials_only(
    tmp_path: Path, loadgen: FakeLoadgen, events: list[Event]
) -> None:
    plan = plan_of()
    broken, whole = ids(plan, "one"), ids(plan, "two")
    why, do = "bucket gone", "make it again"
    loadgen.behave[broken[1]] = refuse(why, do)
    end = runner.execute(plan, create(tmp_path / "run", plan), events.append)
    assert end.state == "failed"
    (problem,) = end.problems
    assert problem.message.partition(": ")[::2] == ('target "one"', why)
    assert problem.hint == do
    run = read_run(tmp_path / "run")
    assert [record.id for record in run.records] == sorted([broken[0], *whole])
    assert list(run.manifest["failed"]) == [broken[1]]
    assert list(run.manifest["skipped"]) == broken[2:]
    assert run.manifest["not_run"] == []
    assert [event.document["id"] for event in events if isinstance(event, TrialFailed)] == [
        broken[1]
    ]
    skipped = [event.document["id"] for event in events if isinstance(event, TrialSkipped)]
    assert skipped == broken[2:]
    assert not list((tmp_path / "run").rglob(f"{broken[1]}.*"))


def test_a_skipped_trial_is_not_rested_for(
    tmp_path: Path, loadgen: FakeLoadgen, events: list[Event]
) -> None:
    plan = plan_of(CAMPAIGN.replace("[put,", "[{op: put, pause_after: 1h},").replace("two", "aaa"))
    for trial in plan.trials:
        loadgen.behave[trial.id] = refuse("no")
    runner.execute(plan, create(tmp_path / "run", plan), events.append)
    assert not any(isinstance(event, Resting) for event in events)


def test_a_trial_that_was_stopped_is_kept_and_ends_the_targets_trials(
    tmp_path: Path, loadgen: FakeLoadgen
) -> None:
    plan = plan_of()
    first = ids(plan, "one")[0]
    loadgen.behave[first] = lambda control: {
        "state": "stopped",
        "reason": "3 requests failed",
        "failed": 3,
    }
    end = runner.execute(plan, create(tmp_path / "run", plan), lambda event: None)
    assert end.state == "failed"
    assert end.failed_requests == 3
    assert "3 requests failed" in str(end.problems[0])
    run = read_run(tmp_path / "run")
    assert run.records[0].labels == ("STOPPED",)
    assert set(run.manifest["skipped"]) == set(ids(plan, "one")[1:])


def test_failed_requests_are_counted_and_are_no_problem_of_the_target(
    tmp_path: Path, loadgen: FakeLoadgen
) -> None:
    plan = plan_of()
    loadgen.behave[plan.trials[0].id] = lambda control: {"failed": 7}
    end = runner.execute(plan, create(tmp_path / "run", plan), lambda event: None)
    assert (end.state, end.failed_requests) == ("finished", 7)


def test_an_interrupted_trial_is_kept_and_the_rest_is_not_run(
    tmp_path: Path, loadgen: FakeLoadgen
) -> None:
    plan = plan_of()
    interrupt = Interrupt()
    second = plan.trials[1].id
    loadgen.behave[second] = lambda control: interrupt.ask()
    end = runner.execute(
        plan, create(tmp_path / "run", plan), lambda event: None, interrupt=interrupt
    )
    assert end.state == "interrupted"
    run = read_run(tmp_path / "run")
    assert run.state == "interrupted"
    assert [(record.id, record.labels) for record in run.records] == [
        (plan.trials[0].id, ()),
        (second, ("INTERRUPTED",)),
    ]
    assert run.manifest["not_run"] == [trial.id for trial in plan.trials[1:]]
    assert run.manifest["skipped"] == {}


def test_a_trial_that_was_cut_off_by_itself_is_named_and_the_others_go_on(
    tmp_path: Path, loadgen: FakeLoadgen
) -> None:
    plan = plan_of()
    second = plan.trials[1].id
    why = "all client hosts were lost"
    loadgen.behave[second] = lambda control: {"state": "interrupted", "reason": why}
    end = runner.execute(plan, create(tmp_path / "run", plan), lambda event: None)
    assert (end.state, end.is_cut_unasked) == ("interrupted", True)
    assert f"trial {second} " in end.problems[0].message
    assert end.problems[0].message.endswith(f": {why}")
    run = read_run(tmp_path / "run")
    assert run.manifest["not_run"] == [second]
    assert len(run.records) == len(plan.trials)


def test_an_interruption_that_comes_after_the_last_trial_changes_nothing(
    tmp_path: Path, loadgen: FakeLoadgen
) -> None:
    plan = plan_of()
    interrupt = Interrupt()

    def listen(event: Event) -> None:
        if isinstance(event, TrialEnded) and event.document["id"] == plan.trials[-1].id:
            interrupt.ask()

    end = runner.execute(plan, create(tmp_path / "run", plan), listen, interrupt=interrupt)
    assert end.state == "finished"


def test_a_rest_can_be_interrupted(tmp_path: Path, loadgen: FakeLoadgen) -> None:
    plan = plan_of(CAMPAIGN.replace("[put,", "[{op: put, pause_after: 1h},"))
    interrupt = Interrupt()

    def listen(event: Event) -> None:
        if isinstance(event, Resting):
            assert event.seconds <= 3600
            threading.Timer(0.3, interrupt.ask).start()

    end = runner.execute(plan, create(tmp_path / "run", plan), listen, interrupt=interrupt)
    assert end.state == "interrupted"
    assert end.not_run


def test_a_resumed_run_keeps_to_the_days_of_its_first_start(
    tmp_path: Path, loadgen: FakeLoadgen, events: list[Event]
) -> None:
    text = CAMPAIGN + "schedule: {every: 1h, days: 1}\n"
    campaign = parse_campaign(text, drivers=DRIVERS, environ={})
    plan = make_plan(campaign, DRIVERS)
    started = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=22, minutes=30)
    manifest = {
        "name": "test",
        "run": plan.run,
        "seed": plan.seed,
        "plan": plan.documents(),
        "started": started.isoformat(),
    }
    writer = RunWriter.create(tmp_path / "run", manifest)
    interrupt = Interrupt()

    def listen(event: Event) -> None:
        events.append(event)
        if isinstance(event, Resting):
            interrupt.ask()

    runner.execute(plan, writer, listen, schedule=campaign.schedule, interrupt=interrupt)
    (rest,) = [event for event in events if isinstance(event, Resting)]
    assert 0 < rest.seconds <= 1800
    ran = {event.document["id"] for event in events if isinstance(event, TrialEnded)}
    assert ran == {trial.id for trial in plan.trials if trial.suite <= 22}


def test_later_starts_are_planned_listed_and_run_as_they_come(
    tmp_path: Path, loadgen: FakeLoadgen, events: list[Event]
) -> None:
    text = CAMPAIGN + "schedule: {every: 8h, days: 1}\n"
    campaign = parse_campaign(text, drivers=DRIVERS, environ={})
    whole, plan = make_plan(campaign, DRIVERS), make_plan(campaign, DRIVERS, starts=1)
    started = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=12)
    manifest = {
        "name": "test",
        "run": plan.run,
        "seed": plan.seed,
        "plan": plan.documents(),
        "started": started.isoformat(),
    }
    writer = RunWriter.create(tmp_path / "run", manifest)
    interrupt = Interrupt()

    def listen(event: Event) -> None:
        if isinstance(event, Resting):
            interrupt.ask()

    end = runner.execute(plan, writer, listen, schedule=campaign.schedule, interrupt=interrupt)
    # The second start was due, the third is not: it is planned, and was not run.
    assert end.state == "interrupted"
    manifest = read_run(tmp_path / "run").manifest
    assert manifest["plan"] == whole.documents()
    assert manifest["starts"] == 3
    third = [trial.id for trial in whole.trials if trial.suite == 2]
    assert manifest["not_run"] == third
    ran = [document["id"] for document in loadgen.documents]
    assert ran == [trial.id for trial in whole.trials if trial.suite < 2]


def test_a_full_disk_stops_the_load_and_the_run_counts_as_interrupted(
    tmp_path: Path, loadgen: FakeLoadgen, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of()
    second = plan.trials[1].id

    def fill(control: Control) -> None:
        def full(*arguments: Any) -> None:
            raise ResultError("disk full")

        monkeypatch.setattr("loadstone.results.writer.TrialWriter.write_intervals", full)

    loadgen.behave[second] = fill
    with pytest.raises(ResultError, match="disk full"):
        runner.execute(plan, create(tmp_path / "run", plan), lambda event: None)
    assert len(loadgen.documents) == 2
    run = read_run(tmp_path / "run")
    assert run.state == "interrupted"
    assert run.manifest["problems"] == ["disk full"]
    assert run.records[0].is_whole
    assert not run.records[1].is_whole
    RunWriter.reopen(tmp_path / "run").close()


def test_an_error_of_ours_is_not_taken_for_the_targets(
    tmp_path: Path, loadgen: FakeLoadgen
) -> None:
    def listen(event: Event) -> None:
        if isinstance(event, TrialProgress):
            raise ZeroDivisionError

    plan = plan_of()
    with pytest.raises(ZeroDivisionError):
        runner.execute(plan, create(tmp_path / "run", plan), listen)
    assert read_run(tmp_path / "run").state == "interrupted"


def test_requests_are_logged_one_by_one_where_the_campaign_asks_for_it(
    tmp_path: Path, loadgen: FakeLoadgen
) -> None:
    plan = plan_of(CAMPAIGN + "log_requests: true\n")
    runner.execute(plan, create(tmp_path / "run", plan), lambda event: None)
    logged = [
        [rows for batch in record.read_requests() for rows in batch.to_pylist()]
        for record in read_run(tmp_path / "run").records
    ]
    # The load generator's observation, once for each measured trial.
    measured = [trial.document["phase"] in ("put", "get", "delete") for trial in plan.trials]
    assert logged == [interval(0).to_pylist() if is_logged else [] for is_logged in measured]
    assert measured.count(True) == 6


def test_no_thread_and_no_signal_handler_outlives_a_run(
    tmp_path: Path, loadgen: FakeLoadgen
) -> None:
    import signal

    handlers = [signal.getsignal(number) for number in interrupt_module.SIGNALS]
    before = set(threading.enumerate())
    plan = plan_of()
    runner.execute(plan, create(tmp_path / "run", plan), lambda event: None)
    assert [signal.getsignal(number) for number in interrupt_module.SIGNALS] == handlers
    assert set(threading.enumerate()) <= before
