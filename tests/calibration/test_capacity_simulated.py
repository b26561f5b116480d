"""A search for a capacity on the virtual clock: a queue whose capacity is known comes back."""

import base64
import datetime
import json
import math
from pathlib import Path

import pytest
from scipy import optimize

from loadstone import _loadgen
from loadstone.analysis import analyse
from loadstone.analysis.limits.searches import CapacitySearch, describe_answer, observe
from loadstone.campaign.parse import parse_campaign
from loadstone.campaign.planning.plan import Plan, make_plan
from loadstone.execution import runner
from loadstone.execution.events import Event, TrialEnded
from loadstone.execution.interrupt import Interrupt
from loadstone.report.tables.capacity import STALLED, steps_table
from loadstone.results.store import read_run
from loadstone.results.writer import RunWriter
from tests.unit.drawn_charts import charts_of_run

DRIVERS = _loadgen.drivers(with_tests=True)
SERVERS, MEAN_S, LIMIT_S = 4, 0.01, 0.1
CAMPAIGN = """
name: search
targets: {model: {driver: simulated, latency: exponential, mean_ns: 10000000, servers: 4}}
dataset: {objects: 1000, size: 4KiB}
load: {rate: 100/s, cores: 1}
phases:
  - {op: get, capacity: {p99: 100ms, width: 2%, VARIED trial: 60s, majority_of: 3}}
"""


def share_longer(rate: float, seconds: float) -> float:
    """P(response > t) of M/M/c: exponential service on c servers, Poisson arrivals, one queue."""
    mu, c = 1 / MEAN_S, SERVERS
    load, rho = rate / mu, rate / (c * mu)
    erlang = load**c / math.factorial(c) / (1 - rho)
    waits = erlang / (sum(load**k / math.factorial(k) for k in range(c)) + erlang)
    spare = c * mu - rate
    both = mu * (math.exp(-mu * seconds) - math.exp(-spare * seconds)) / (spare - mu)
    return (1 - waits) * math.exp(-mu * seconds) + waits * (math.exp(-spare * seconds) + both)


CAPACITY = optimize.brentq(
    lambda rate: share_longer(rate, LIMIT_S) - 0.01, 1, 0.999 * SERVERS / MEAN_S
)


def plan_of(varied: str = "") -> Plan:
    text = CAMPAIGN.replace("VARIED", varied)
    return make_plan(parse_campaign(text, drivers=DRIVERS, environ={}), DRIVERS)


def create(folder: Path, plan: Plan) -> RunWriter:
    started = datetime.datetime.now(datetime.UTC).isoformat()
    return RunWriter.create(
        folder,
        {
            "name": plan.name,
            "run": plan.run,
            "seed": plan.seed,
            "plan": plan.documents(),
            "started": started,
        },
    )


def search(folder: Path, plan: Plan) -> CapacitySearch:
    with create(folder, plan) as writer:
        end = runner.execute(plan, writer, lambda event: None, observe=observe)
    # Loads beyond the capacity fail, and the run has not: that is what was looked for.
    assert (end.state, end.failed_requests, end.not_run) == ("finished", 0, [])
    (search,) = analyse(read_run(folder)).searches
    return search


def test_the_capacity_of_a_queue_comes_back_with_its_bounds(tmp_path: Path) -> None:
    capacity = search(tmp_path / "run", plan_of())
    assert capacity.is_over
    assert capacity.is_confirmed
    assert capacity.lower is not None
    assert capacity.upper is not None
    assert 0.94 * CAPACITY <= capacity.lower <= 1.02 * CAPACITY
    assert capacity.lower < capacity.upper <= 1.04 * CAPACITY
    assert capacity.rate is not None
    assert capacity.rate.low is not None
    assert capacity.rate.high is not None
    # The rate achieved at the capacity equals the capacity: nothing failed and nothing was left
    # over.
    assert capacity.rate.value == pytest.approx(capacity.lower, rel=0.02)
    assert capacity.latency_ns is not None
    assert capacity.latency_ns <= 1.1 * LIMIT_S * 1e9


def test_every_trial_of_a_search_is_kept_and_only_its_answer_is_a_result(tmp_path: Path) -> None:
    capacity = search(tmp_path / "run", plan_of())
    run = read_run(tmp_path / "run")
    findings = analyse(run)
    assert len(run.records) == len(capacity.steps)
    assert [step.stage for step in capacity.steps].count("coarse") > 3
    assert [fact.trial for fact in findings.trials] == [step.trial for step in capacity.steps]
    (cell,) = findings.rounds
    assert cell.trials == capacity.confirming
    assert cell.parameters["rate"] == capacity.lower
    (finding,) = (each for each in findings.findings if each.rule == "capacity")
    assert "holds p99 ≤ 100 ms" in finding.statement


def test_a_trial_in_which_the_client_stood_still_is_left_out_and_told(tmp_path: Path) -> None:
    whole = search(tmp_path / "run", plan_of())
    assert not any(step.is_left_out for step in whole.steps)
    run = read_run(tmp_path / "run")
    charts = charts_of_run(run, analyse(run))
    assert {"search-steps", "search-latency"} <= set(charts)
    assert STALLED not in charts["search-steps"].legend
    bad = next(step for step in whole.steps if not step.is_good)
    path = tmp_path / "run" / "trials" / f"{bad.trial}.json"
    document = json.loads(path.read_text())
    # As if a sleeping thread had been late by 200 ms each second.
    late = _loadgen.Histogram()
    late.record(200_000_000, round(bad.duration_s))
    document["summary"]["hiccup"] = base64.b64encode(late.encode()).decode()
    path.write_text(json.dumps(document))
    run = read_run(tmp_path / "run")
    findings = analyse(run)
    (again,) = findings.searches
    assert [step.trial for step in again.steps if step.is_left_out] == [bad.trial]
    (left_out,) = [step.observation for step in again.steps if step.is_left_out]
    assert 0.15 <= left_out.stalled <= 0.2
    assert ", 1 of " in describe_answer(again)
    table = steps_table(findings)
    assert table is not None
    assert [row[-1] for row in table.rows].count(STALLED) == 1
    charts = charts_of_run(run, findings)
    for name in ("search-steps", "search-latency"):
        assert STALLED in charts[name].legend


def test_threads_are_searched_as_well_as_rates(tmp_path: Path) -> None:
    capacity = search(tmp_path / "run", plan_of("vary: threads, min: 1, max: 64,"))
    assert capacity.is_confirmed
    assert capacity.lower is not None
    assert capacity.lower == int(capacity.lower)
    # A closed load of n on four servers: up to n = 4 none waits, and p99 is 46 ms; 64 wait long.
    assert 8 <= capacity.lower <= 30


def test_an_objective_that_nothing_meets_ends_the_search(tmp_path: Path) -> None:
    text = CAMPAIGN.replace("p99: 100ms", "p99: 1ms").replace("VARIED", "min: 50/s,")
    plan = make_plan(parse_campaign(text, drivers=DRIVERS, environ={}), DRIVERS)
    capacity = search(tmp_path / "run", plan)
    assert (capacity.lower, capacity.upper, capacity.end) == (None, 50, "lowest fails")
    assert capacity.objective.startswith("p99 ≤ 1.00 ms,")
    for fact in (capacity.objective, "50.0/s", capacity.reason):
        assert fact in describe_answer(capacity)


def test_a_search_that_was_stopped_goes_on_where_it_was(tmp_path: Path) -> None:
    whole = search(tmp_path / "whole", plan_of())
    plan, interrupt, ended = plan_of(), Interrupt(), []

    def stop_after_five(event: Event) -> None:
        if isinstance(event, TrialEnded):
            ended.append(event.document["id"])
            if len(ended) == 5:
                interrupt.ask()

    with create(tmp_path / "run", plan) as writer:
        end = runner.execute(plan, writer, stop_after_five, interrupt=interrupt, observe=observe)
    assert (end.state, end.not_run) == ("interrupted", ["0001"])
    (half,) = analyse(read_run(tmp_path / "run")).searches
    assert (half.is_over, len(half.steps)) == (False, 5)
    again: list[str] = []
    with RunWriter.reopen(tmp_path / "run") as writer:
        end = runner.execute(
            plan,
            writer,
            lambda event: (
                again.append(event.document["id"]) if isinstance(event, TrialEnded) else None
            ),
            observe=observe,
        )
    assert end.state == "finished"
    assert not set(ended) & set(again)
    (capacity,) = analyse(read_run(tmp_path / "run")).searches
    # The virtual clock and the seed make both searches the same, trial by trial.
    assert [step.load for step in capacity.steps] == [step.load for step in whole.steps]
    assert (capacity.lower, capacity.upper) == (whole.lower, whole.upper)
