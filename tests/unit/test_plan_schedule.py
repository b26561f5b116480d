"""When a campaign's plan starts, seen from a given instant."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from loadstone.campaign.parse import parse_campaign
from loadstone.campaign.planning.plan import make_plan
from loadstone.campaign.resume import resume
from loadstone.campaign.schema.campaign import Schedule, start_of, suites
from tests.unit.campaign_drivers import DRIVERS, STORE

NINE = datetime(2026, 5, 4, 9, 0, tzinfo=UTC)


def schedule(**keys: object) -> Schedule:
    return Schedule.model_validate(keys)


def starts(schedule: Schedule | None, now: datetime) -> list[datetime]:
    return [start_of(schedule, now, number) for number in range(suites(schedule))]


def test_without_a_schedule_there_is_one_start_now() -> None:
    assert starts(None, NINE) == [NINE]
    assert suites(None) == 1


def test_times_of_day_begin_with_the_next_one_and_are_all_kept() -> None:
    three_days = schedule(times=["20:00", "08:00", "14:00"], days=3)
    planned = starts(three_days, NINE)
    assert len(planned) == suites(three_days) == 9
    assert [start.strftime("%d %H:%M") for start in planned] == [
        "04 14:00", "04 20:00",
        "05 08:00", "05 14:00", "05 20:00",
        "06 08:00", "06 14:00", "06 20:00",
        "07 08:00",
    ]  # fmt: skip


def test_a_start_that_is_due_now_is_taken() -> None:
    assert starts(schedule(times=["09:00"]), NINE) == [NINE]


def test_a_distance_begins_now_and_fills_the_days() -> None:
    planned = starts(schedule(every="8h", days=2), NINE)
    assert planned == [NINE + number * timedelta(hours=8) for number in range(6)]


def test_times_of_day_stay_where_the_clocks_change() -> None:
    zurich = ZoneInfo("Europe/Zurich")
    evening = datetime(2026, 3, 28, 21, 0, tzinfo=zurich)
    planned = starts(schedule(times=["20:00"], days=2), evening)
    assert [start.hour for start in planned] == [20, 20]
    assert [start.utcoffset() for start in planned] == [timedelta(hours=2)] * 2


def test_a_start_without_a_time_zone_is_our_mistake() -> None:
    with pytest.raises(AssertionError):
        starts(None, datetime(2026, 5, 4))


TEXT = (
    "name: test\n" + STORE + "dataset: {objects: 10, size: 1, buckets: 2}\nload: {threads: 1}\n"
    "phases: [put, get, {op: head, size: 2}]\nsweep: {threads: [1, 2, 3, 4]}\n"
)


@pytest.mark.parametrize("clean_up", ["early", "late"])
def test_starts_planned_one_by_one_are_those_planned_at_once(clean_up: str) -> None:
    text = f"{TEXT}clean_up: {clean_up}\nschedule: {{every: 6h}}\n"
    campaign = parse_campaign(text, drivers=DRIVERS, environ={})
    whole, plan = make_plan(campaign, DRIVERS), make_plan(campaign, DRIVERS, starts=1)
    assert plan.later is not None
    assert {trial.suite for trial in plan.trials} == {0}
    trials = [*plan.trials]
    while plan.later.left:
        trials += plan.later.plan_next()
    assert tuple(trials) == whole.trials


def test_a_long_schedule_is_not_planned_before_it_comes() -> None:
    text = f"{TEXT}schedule: {{every: 5s, days: 1000}}\n"
    plan = make_plan(parse_campaign(text, drivers=DRIVERS, environ={}), DRIVERS, starts=1)
    assert plan.later is not None
    assert plan.later.left == 17_280 * 1000 - 1
    assert len(plan.trials) < 50


def test_each_start_has_an_order_of_its_own_or_the_first_ones() -> None:
    for order, is_one in (("new", False), ("same", True)):
        text = f"{TEXT}schedule: {{every: 6h, order: {order}}}\n"
        plan = make_plan(parse_campaign(text, drivers=DRIVERS, environ={}), DRIVERS)
        orders: dict[int, list[int]] = {}
        for trial in plan.trials:
            if trial.is_measured:
                threads = trial.document["case"]["parameters"]["threads"]
                orders.setdefault(trial.suite, []).append(threads)
        assert (len({tuple(order) for order in orders.values()}) == 1) is is_one


def test_repairs_of_a_schedule_leave_the_numbers_of_later_starts_alone() -> None:
    campaign = parse_campaign(f"{TEXT}schedule: {{every: 6h}}\n", drivers=DRIVERS, environ={})
    plan = make_plan(campaign, DRIVERS, starts=1)
    left = resume(plan, set(), started_ids={"0001"})
    repairs = {trial.id for trial in left.trials} - {trial.id for trial in plan.trials}
    assert plan.later is not None
    assert repairs
    assert not repairs & {trial.id for trial in plan.later.plan_next()}
    assert left.later is plan.later
