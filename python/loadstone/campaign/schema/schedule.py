"""When the plan starts again: times of day over some days, or a fixed distance."""

from collections.abc import Iterator
from datetime import datetime, time, timedelta

from loadstone.campaign.schema.campaign import Schedule

_DAY_NS = 86_400_000_000_000


def suites(schedule: Schedule | None) -> int:
    """Return how many starts there are; one without a schedule."""
    if schedule is None:
        return 1
    if schedule.every_ns is not None:
        return max(1, -(-schedule.days * _DAY_NS // schedule.every_ns))
    return len(set(schedule.times)) * schedule.days


def start_of(schedule: Schedule | None, now: datetime, number: int) -> datetime:
    """Return the instant of a start, counted from 0, seen from `now`, which must know its zone.

    Times of day begin with the next one to come: three times for two days are always six starts,
    though they may reach into a third day.
    """
    assert now.tzinfo is not None, "a start needs a time zone"
    if schedule is None:
        return now
    if schedule.every_ns is not None:
        return now + number * timedelta(microseconds=schedule.every_ns / 1000)
    times = sorted(time.fromisoformat(text) for text in set(schedule.times))
    past = sum(datetime.combine(now.date(), one, tzinfo=now.tzinfo) < now for one in times)
    days, place = divmod(past + number, len(times))
    return datetime.combine(now.date() + timedelta(days=days), times[place], tzinfo=now.tzinfo)


def starts(schedule: Schedule | None, now: datetime) -> Iterator[datetime]:
    """Yield the instants of all starts, one after another."""
    return (start_of(schedule, now, number) for number in range(suites(schedule)))
