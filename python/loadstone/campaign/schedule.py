"""When the plan starts again: times of day over some days, or a fixed distance."""

from datetime import datetime, time, timedelta

from loadstone.campaign.schema import Schedule

_DAY_NS = 86_400_000_000_000


def suites(schedule: Schedule | None) -> int:
    """Return how many starts there are; one without a schedule."""
    if schedule is None:
        return 1
    if schedule.every_ns is not None:
        return max(1, -(-schedule.days * _DAY_NS // schedule.every_ns))
    return len(set(schedule.times)) * schedule.days


def starts(schedule: Schedule | None, now: datetime) -> list[datetime]:
    """Return the instants of all starts, seen from `now`, which must know its time zone.

    Times of day begin with the next one to come: three times for two days are always six starts,
    though they may reach into a third day.
    """
    assert now.tzinfo is not None, "a start without a time zone would be somebody's guess"
    if schedule is None:
        return [now]
    count = suites(schedule)
    if schedule.every_ns is not None:
        distance = timedelta(microseconds=schedule.every_ns / 1000)
        return [now + number * distance for number in range(count)]
    times = sorted(time.fromisoformat(text) for text in set(schedule.times))
    found: list[datetime] = []
    day = now.date()
    while len(found) < count:
        for time_of_day in times:
            start = datetime.combine(day, time_of_day, tzinfo=now.tzinfo)
            if start >= now and len(found) < count:
                found.append(start)
        day += timedelta(days=1)
    return found
