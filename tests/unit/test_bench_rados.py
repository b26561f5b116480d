"""The cost of a write beside rados bench, from both programs' output of each second."""

import pytest
from rados_vs_rados_bench import Case, steady
from trials import Step

CASE = Case("write", 4096, 16)


def steps(seconds: int, late_s: float) -> list[Step]:
    """Tell of 1000 requests and 0.25 s of CPU in each second, the start-up's second of CPU before.

    CPU time is looked at somewhat late, and the last look misses threads that have ended.
    """
    steady_steps = [
        Step(1000 * by_s, by_s, 1 + 0.25 * (by_s + late_s), by_s + late_s)
        for by_s in range(1, seconds + 1)
    ]
    return [*steady_steps[:-1], steady_steps[-1]._replace(cpu_s=0.01)]


@pytest.mark.parametrize("late_s", [0.0, 0.04])
def test_the_start_and_the_last_look_are_left_out(late_s: float) -> None:
    cost = steady(CASE, steps(6, late_s))
    assert (cost.cpu_us, cost.per_s) == pytest.approx((250.0, 1000.0))


def test_large_writes_need_one_second_between_the_first_and_the_last_look() -> None:
    cost = steady(Case("write", 4 << 20, 16), steps(3, 0.0))
    assert (cost.cpu_us, cost.per_s) == pytest.approx((250.0, 1000.0))


def test_too_short_a_run_is_refused() -> None:
    with pytest.raises(SystemExit, match="choose more --seconds"):
        steady(CASE, steps(4, 0.0))


def test_cpu_time_that_falls_is_refused() -> None:
    falling = [*steps(6, 0.0), Step(7000, 7, 0.02, 7)]
    with pytest.raises(SystemExit, match="CPU time"):
        steady(CASE, falling)
