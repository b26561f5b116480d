"""The search for the largest load under an objective, against targets whose limit is known."""

import dataclasses
import math

import numpy as np
import pytest

from loadstone.campaign import search

GOAL = search.Goal(latency_ns_max=10_000_000)
BETWEEN = search.Loads(start=10, low=10, high=10_000)


def run(
    limit: float,
    *,
    load_min: float = 10,
    load_max: float = 10_000,
    disturbed: float = 0.0,
    softness: float = 0.0,
    seed: int = 1,
    goal: search.Goal = GOAL,
) -> tuple[search.FoundCapacity, list[search.SearchTrial]]:
    """Search a target that meets the goal up to its limit, but for disturbed trials."""
    generator = np.random.default_rng(seed)
    trials: list[search.SearchTrial] = []
    while True:
        loads = search.Loads(start=load_min, low=load_min, high=load_max)
        step = search.next_step(goal, trials, loads)
        if isinstance(step, search.FoundCapacity):
            return step, trials
        assert load_min <= step.load <= load_max
        is_good = step.load <= limit * (1 + softness * generator.normal())
        is_good = is_good and generator.random() >= disturbed
        trials.append(
            search.SearchTrial(
                load=step.load, duration_s=step.duration_s, stage=step.stage, is_good=bool(is_good)
            )
        )


@pytest.mark.parametrize("limit", [11, 77, 900, 5_000, 9_990])
def test_a_sharp_limit_is_found_within_one_percent(limit: float) -> None:
    result, trials = run(limit)
    assert result.is_confirmed
    assert result.lower is not None
    assert result.upper is not None
    assert 0.99 * limit <= result.lower <= limit < result.upper
    assert (result.upper - result.lower) / result.upper <= GOAL.width
    assert result.trials == len(trials) <= 45


def find(limit: float, loads: search.Loads, goal: search.Goal = GOAL) -> search.FoundCapacity:
    trials: list[search.SearchTrial] = []
    while isinstance(step := search.next_step(goal, trials, loads), search.Measure):
        assert loads.floor <= step.load <= loads.ceiling
        assert not loads.is_whole or step.load == int(step.load)
        trials.append(
            search.SearchTrial(
                load=step.load,
                duration_s=step.duration_s,
                stage=step.stage,
                is_good=step.load <= limit,
                elapsed_s=step.duration_s,
            )
        )
    return step


@pytest.mark.parametrize("limit", [1.7, 40, 100, 950, 123_456])
def test_bounds_that_were_not_given_are_found(limit: float) -> None:
    result = find(limit, search.Loads(start=100))
    assert result.lower is not None
    assert 0.985 * limit <= result.lower <= limit


def test_a_target_far_below_the_start_is_given_up_on() -> None:
    result = find(0.5, search.Loads(start=100))
    assert (result.lower, result.upper) == (None, 100 / 64)
    assert result.end == "lowest fails"


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 64, 200])
def test_threads_are_whole_and_found_exactly_where_they_are_few(limit: int) -> None:
    result = find(limit, search.Loads(start=1, low=1, high=1000, is_whole=True))
    assert result.is_confirmed
    assert result.lower is not None
    assert result.lower == limit if limit < 100 else 0.985 * limit <= result.lower <= limit


def test_a_search_that_takes_too_long_gives_up_with_the_bounds_it_has() -> None:
    goal = search.Goal(latency_ns_max=1, time_max_s=600)
    result = find(950, search.Loads(start=100), goal)
    assert (result.is_confirmed, result.end) == (False, "gave up")
    assert "10 min" in result.reason


def test_a_limit_outside_the_range_is_said_so() -> None:
    below, _ = run(5)
    assert (below.lower, below.upper, below.end) == (None, 10, "lowest fails")
    above, _ = run(1e6)
    assert (above.lower, above.upper) == (10_000, None)
    assert above.end == "highest passes"


def test_one_disturbed_trial_in_ten_moves_the_answer_by_a_few_percent() -> None:
    answers = [run(900, disturbed=0.1, seed=seed)[0].lower or 0 for seed in range(200)]
    low, middle, high = np.percentile(answers, [5, 50, 95])
    assert low >= 850
    assert 885 <= middle <= 900
    assert high <= 900


def test_a_limit_that_wavers_is_answered_below_its_middle() -> None:
    answers = [
        run(900, disturbed=0.1, softness=0.01, seed=seed)[0].lower or 0 for seed in range(200)
    ]
    assert np.percentile(answers, 5) >= 830
    assert np.percentile(answers, 95) <= 905


def test_a_search_costs_some_thirty_trials() -> None:
    counts = [run(900, disturbed=0.1, seed=seed)[0].trials for seed in range(100)]
    assert np.median(counts) <= 35
    assert max(counts) < GOAL.trials_max


def test_the_next_step_depends_on_the_trials_alone() -> None:
    _, trials = run(900, disturbed=0.1, seed=7)
    for count in range(len(trials)):
        step = search.next_step(GOAL, trials[:count], BETWEEN)
        assert isinstance(step, search.Measure)
        assert (step.load, step.stage) == (trials[count].load, trials[count].stage)


def test_the_stages_come_in_order_and_confirming_trials_are_fresh() -> None:
    result, trials = run(900)
    stages = [trial.stage for trial in trials]
    assert stages == sorted(stages, key=["coarse", "fine", "confirm"].index)
    confirming = [trial for trial in trials if trial.stage == "confirm"]
    assert len(confirming) == GOAL.confirm_good_min
    assert {trial.load for trial in confirming} == {result.lower}
    assert {trial.duration_s for trial in trials if trial.stage == "coarse"} == {10}


def test_a_bound_that_cannot_be_confirmed_is_lowered() -> None:
    trials = list(run(900)[1])
    confirmed = [trial for trial in trials if trial.stage != "confirm"]
    load = trials[-1].load
    bad = search.SearchTrial(load=load, duration_s=60, stage="confirm", is_good=False)
    step = search.next_step(GOAL, [*confirmed, bad], BETWEEN)
    assert isinstance(step, search.Measure)
    assert step.load == load
    step = search.next_step(GOAL, [*confirmed, bad, bad], BETWEEN)
    assert isinstance(step, search.Measure)
    assert step.load == pytest.approx(0.98 * load, rel=1e-4)


def test_a_search_that_cannot_end_gives_up() -> None:
    result, _ = run(900, disturbed=0.5, goal=search.Goal(latency_ns_max=1, trials_max=20))
    assert result.trials <= 20
    if not result.is_confirmed:
        assert result.end == "gave up"


def durations(is_good: bool, duration_s: float, total_s: float) -> list[search.SearchTrial]:
    return [
        search.SearchTrial(load=1, duration_s=duration_s, stage="fine", is_good=is_good)
        for _ in range(round(total_s / duration_s))
    ]


@pytest.mark.parametrize(
    ("good_full", "bad_full", "good_short", "bad_short", "expected"),
    [
        # MLRsearch 1.2.1 (FD.io CSIT): TargetStat.estimates(), 60 s trials, 180 s, e = 0.5.
        (0, 60, 90, 0, "undecided"),
        (0, 60, 30, 20, "undecided"),
        (180, 60, 0, 20, "lower"),
        (120, 120, 10, 10, "lower"),
        (0, 120, 20, 20, "upper"),
        (120, 0, 10, 0, "lower"),
        (0, 120, 10, 150, "upper"),
        (60, 180, 0, 20, "upper"),
        (180, 60, 20, 90, "lower"),
        (120, 60, 10, 10, "lower"),
        (60, 120, 20, 150, "upper"),
        (0, 60, 90, 20, "undecided"),
        (60, 120, 90, 10, "upper"),
        (0, 0, 30, 0, "undecided"),
        (180, 180, 10, 90, "upper"),
        (60, 0, 0, 90, "undecided"),
        (120, 180, 30, 150, "upper"),
        (180, 180, 90, 10, "lower"),
        (0, 0, 10, 90, "undecided"),
        (180, 0, 30, 150, "lower"),
        (60, 60, 10, 150, "upper"),
        (60, 0, 10, 90, "undecided"),
        (180, 120, 10, 150, "upper"),
    ],
)
def test_loads_are_classified_as_by_the_reference_implementation(
    good_full: float, bad_full: float, good_short: float, bad_short: float, expected: str
) -> None:
    trials = [
        *durations(True, 60, good_full),
        *durations(False, 60, bad_full),
        *durations(True, 10, good_short),
        *durations(False, 10, bad_short),
    ]
    assert search.classify(GOAL, trials) == expected


def stalled(load: float, stage: search.Stage) -> search.SearchTrial:
    return search.SearchTrial(load=load, duration_s=60, stage=stage, is_good=False, is_stalled=True)


def searched_by_a_client_that_stands_still(*, is_reported: bool) -> search.FoundCapacity:
    """Search for 900 where every second trial is spoiled, and the client knows or does not."""
    trials: list[search.SearchTrial] = []
    while isinstance(step := search.next_step(GOAL, trials, BETWEEN), search.Measure):
        is_still = len(trials) % 2 == 1
        trials.append(
            search.SearchTrial(
                load=step.load,
                duration_s=step.duration_s,
                stage=step.stage,
                is_good=step.load <= 900 and not is_still,
                is_stalled=is_reported and is_still,
            )
        )
    assert step.trials == len(trials)
    return step


def test_a_client_that_stands_still_in_every_second_trial_finds_the_limit_all_the_same() -> None:
    result = searched_by_a_client_that_stands_still(is_reported=True)
    assert result.is_confirmed
    assert result.lower is not None
    assert 0.99 * 900 <= result.lower <= 900
    misled = searched_by_a_client_that_stands_still(is_reported=False)
    assert not misled.is_confirmed or misled.lower is None or misled.lower < 0.9 * 900


def test_a_client_that_always_stalls_counts_in_the_end() -> None:
    counted = search.are_counted([stalled(10, "fine")] * 5)
    assert counted == (False,) * search.STALLED_MAX + (True,) * (5 - search.STALLED_MAX)
    # Each load and each stage has its own few.
    others = [stalled(10, "fine"), stalled(10, "confirm"), stalled(9, "fine")]
    assert search.counted(others) == ()


def searched_by_a_client_that_stands_still_above(
    load: float, *, goal: search.Goal = GOAL, times: float = math.inf
) -> search.FoundCapacity:
    """Search where trials above a load are bad, the first few at each of them because the client
    stalls, and all other trials succeed.
    """
    trials: list[search.SearchTrial] = []
    while isinstance(step := search.next_step(goal, trials, BETWEEN), search.Measure):
        is_good = step.load <= load
        already = sum(trial.load == step.load for trial in trials)
        trials.append(
            search.SearchTrial(
                load=step.load,
                duration_s=step.duration_s,
                stage=step.stage,
                is_good=is_good,
                is_stalled=not is_good and already < times,
            )
        )
    return step


def test_a_client_that_always_stands_still_confirms_no_failure() -> None:
    result = searched_by_a_client_that_stands_still_above(0)
    assert (result.lower, result.upper, result.is_confirmed) == (None, 10, False)
    assert (result.end, result.is_doubted) == ("lowest fails", True)
    # A passing load is certain; the client may have caused a failure.
    result = searched_by_a_client_that_stands_still_above(900)
    assert result.is_confirmed
    assert result.lower is not None
    assert 0.99 * 900 <= result.lower <= 900
    assert (result.end, result.is_doubted) == ("confirmed", True)
    assert result.reason.endswith(search.DOUBT)


def test_a_bound_is_not_doubted_where_trials_missed_it_with_the_client_well() -> None:
    result = searched_by_a_client_that_stands_still_above(900, times=search.STALLED_MAX + 1)
    assert (result.end, result.is_doubted) == ("confirmed", False)


def test_a_search_that_gives_up_doubts_what_only_spoiled_trials_missed() -> None:
    goal = dataclasses.replace(GOAL, trials_max=40)
    result = searched_by_a_client_that_stands_still_above(900, goal=goal)
    assert result.upper is not None
    assert (result.is_confirmed, result.is_doubted) == (False, True)
    assert (result.end, result.trials) == ("gave up", 40)


def test_standing_still_spoils_a_trial_by_the_share_that_may_be_slower() -> None:
    def is_stalled(share: float, quantile: float, latency_ns: int = 20_000_000) -> bool:
        goal = search.Goal(latency_ns_max=10_000_000, quantile=quantile)
        observation = search.Observation(latency_ns=latency_ns, errors=0, achieved=1, stalled=share)
        return search.is_stalled(goal, observation)

    assert is_stalled(0.006, 0.99)
    assert not is_stalled(0.004, 0.99)
    assert not is_stalled(0.006, 0.9)
    # A trial that met the objective is valid in spite of a stall.
    assert not is_stalled(0.006, 0.99, latency_ns=1)


def test_a_trial_is_good_only_when_all_of_the_goal_is_met() -> None:
    def good(latency_ns: float | None, errors: float = 0.0, achieved: float = 1.0) -> bool:
        observation = search.Observation(latency_ns=latency_ns, errors=errors, achieved=achieved)
        return search.is_good(GOAL, observation)

    assert good(10_000_000)
    assert not good(10_000_001)
    assert not good(None)
    assert not good(1, errors=0.0011)
    assert not good(1, achieved=0.98)
