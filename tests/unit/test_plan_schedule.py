"""When a campaign's plan starts, seen from a given instant."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from loadstone.campaign.schedule import starts, suites
from loadstone.campaign.schema import Schedule

NINE = datetime(2026, 5, 4, 9, 0, tzinfo=UTC)


def schedule(**keys: object) -> Schedule:
    return Schedule.model_validate(keys)


def test_without_a_schedule_there_is_one_start_now() -> None:
    assert starts(None, NINE) == [NINE]
    assert suites(None) == 1


def test_times_of_day_begin_with_the_next_one_and_are_all_kept() -> None:
    three_days = schedule(times=["20:00", "08:00", "14:00"], days=3)
    found = starts(three_days, NINE)
    assert len(found) == suites(three_days) == 9
    assert [start.strftime("%d %H:%M") for start in found] == [
        "04 14:00", "04 20:00",
        "05 08:00", "05 14:00", "05 20:00",
        "06 08:00", "06 14:00", "06 20:00",
        "07 08:00",
    ]  # fmt: skip


def test_a_start_that_is_due_now_is_taken() -> None:
    assert starts(schedule(times=["09:00"]), NINE) == [NINE]


def test_a_distance_begins_now_and_fills_the_days() -> None:
    found = starts(schedule(every="8h", days=2), NINE)
    assert found == [NINE + number * timedelta(hours=8) for number in range(6)]


def test_times_of_day_stay_where_the_clocks_change() -> None:
    zurich = ZoneInfo("Europe/Zurich")
    evening = datetime(2026, 3, 28, 21, 0, tzinfo=zurich)
    found = starts(schedule(times=["20:00"], days=2), evening)
    assert [start.hour for start in found] == [20, 20]
    assert [start.utcoffset() for start in found] == [timedelta(hours=2)] * 2


def test_a_start_without_a_time_zone_is_our_mistake() -> None:
    with pytest.raises(AssertionError):
        starts(None, datetime(2026, 5, 4))
