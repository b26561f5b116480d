"""A search for a capacity in a campaign: its keys, and the plan that it makes."""

import pytest

from loadstone.campaign.parse import parse_campaign
from loadstone.campaign.planning.plan import Plan, make_plan
from loadstone.campaign.search import Measure, Observation
from loadstone.campaign.search_step import read_step, step_document
from loadstone.cli.running.preview import print_preview
from loadstone.errors import CampaignError
from tests.unit.campaign_drivers import DRIVERS

CAMPAIGN = """
name: slo
targets:
  one: {driver: s3, endpoint: "http://127.0.0.1:1", access_key: a, secret_key: {env: KEY}}
dataset: {objects: 100, size: 4KiB}
LOAD
phases: [{op: get, PHASE}]
"""


def plan_of(phase: str, load: str = "") -> Plan:
    text = CAMPAIGN.replace("PHASE", phase).replace("LOAD", load)
    return make_plan(parse_campaign(text, drivers=DRIVERS, environ={}), DRIVERS)


def mistakes_of(phase: str, load: str = "") -> str:
    with pytest.raises(CampaignError) as caught:
        plan_of(phase, load)
    return str(caught.value)


@pytest.mark.parametrize(
    ("phase", "fact"),
    [
        ("capacity: {errors: 1%}", "phases.0.capacity: found none"),
        ("capacity: {p99: 1s, p50: 1s}", "p50 and p99"),
        ("capacity: {p99: 1s, min: 10, max: 10}", "phases.0.capacity.max: found 10,"),
        ("capacity: {p99: 1s, vary: threads, max: 2.5}", "phases.0.capacity.max: found 2.5,"),
        ("capacity: {p99: 1s, width: 0.1%}", "0.5% to 50%"),
        ("capacity: {p99: 1s, trial: 5s, coarse_trial: 6s}", "phases.0.capacity.coarse_trial: "),
        ("capacity: {p99: 1s}, duration: 5s", "phases.0.duration: "),
        ("capacity: {p99: 1s}, iterations: 2", "phases.0.iterations: "),
        ("capacity: {p99: 1s}, load: {threads: 4}", "phases.0.load: found threads,"),
    ],
)
def test_values_that_do_not_fit_are_refused_with_the_allowed_ones(phase: str, fact: str) -> None:
    assert fact in mistakes_of(phase)


def test_operations_that_happen_only_once_cannot_be_searched() -> None:
    text = CAMPAIGN.replace("op: get, PHASE", "op: delete, capacity: {p99: 1s}").replace("LOAD", "")
    with pytest.raises(CampaignError, match="only once"):
        parse_campaign(text, drivers=DRIVERS, environ={})


def test_a_sweep_over_what_is_searched_is_refused() -> None:
    message = mistakes_of("capacity: {p99: 1s}", "load: {rate: 5/s}\nsweep: {rate: [1, 2]}")
    assert "no rate" in message


def test_a_search_needs_no_load_and_starts_where_a_coarse_trial_is_long_enough() -> None:
    (search,) = [trial for trial in plan_of("capacity: {p99: 50ms}").trials if trial.is_search]
    assert search.document["search"]["loads"]["start"] == pytest.approx(120)
    assert search.document["case"]["parameters"] == {"size": 4096}
    (search,) = [
        trial
        for trial in plan_of(
            "capacity: {p99: 50ms}", "load: {rate: 300/s, arrivals: constant}"
        ).trials
        if trial.is_search
    ]
    assert search.document["search"]["loads"]["start"] == 300
    assert search.document["load"]["arrivals"] == "constant"


def test_a_step_is_a_trial_of_its_own_with_the_load_it_was_given() -> None:
    (search,) = [planned for planned in plan_of("capacity: {p99: 2s}").trials if planned.is_search]
    measure = Measure(load=2000, duration_s=60, stage="fine")
    step = step_document(search.document, measure, 7)
    assert step["id"] == f"{search.id}-007"
    assert step["case"]["parameters"] == {"rate": 2000, "size": 4096}
    assert step["load"]["rate_per_s"] == 2000
    assert step["load"]["clients_max"] == 16_000
    assert (step["stop"]["duration_ns"], step["warm_up_ns"]) == (60 * 10**9, 10 * 10**9)
    assert step["on_error"]["action"] == "continue"
    observation = Observation(latency_ns=10**9, errors=0, achieved=1)
    trial = read_step(search.document, step, observation)
    assert (trial.load, trial.duration_s, trial.elapsed_s, trial.is_good) == (2000, 60, 70, True)


def test_a_trial_at_a_low_rate_is_long_enough_for_its_percentile() -> None:
    (search,) = [trial for trial in plan_of("capacity: {p99: 2s}").trials if trial.is_search]
    step = step_document(search.document, Measure(load=10, duration_s=10, stage="coarse"), 1)
    assert step["stop"]["duration_ns"] == pytest.approx(120 * 10**9)
    assert step["search"]["duration_s"] == 10


def test_a_dry_run_shows_how_long_a_search_may_take(capsys: pytest.CaptureFixture[str]) -> None:
    print_preview(plan_of("capacity: {p99: 50ms, max: 4000/s}"), None, None)
    shown = capsys.readouterr().out
    assert "… to 4000/s" in shown
    assert "p99 ≤ 50.0 ms" in shown
    # Beside the search, and in the sum of the plan.
    assert shown.count("100 trials") == shown.count("1 h 56 min") == 2


def test_a_coarse_trial_is_never_longer_than_a_deciding_one() -> None:
    for trial, seconds in (("2s", 2), ("60s", 10)):
        plan = plan_of(f"capacity: {{p99: 1s, trial: {trial}}}")
        (search,) = [planned for planned in plan.trials if planned.is_search]
        assert search.document["search"]["goal"]["coarse_trial_s"] == seconds
