"""A schedule of several days: nine starts on a virtual clock, and intervals that count days."""

import datetime
import math
import types
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadstone.analysis import analyse
from loadstone.analysis.statistics.mean import DAY_NS, days_of, interval_over_days
from loadstone.analysis.statistics.ratios import mean_interval
from loadstone.campaign.parse import parse_campaign
from loadstone.campaign.planning.plan import make_plan
from loadstone.execution import runner
from loadstone.execution.events import TrialStarted
from loadstone.execution.interrupt import Interrupt
from loadstone.results.store import RunWriter, read_run
from tests.unit.campaign_drivers import DRIVERS
from tests.unit.fake_loadgen import FakeLoadgen
from tests.unit.synthetic_run import write_rounds

HOUR_NS = 3600 * 10**9
T_2 = 4.302652729749462
"""Student's t of 95 % with two degrees of freedom, as tables print it."""

NINE_STARTS = """
name: test
targets:
  one: {driver: s3, endpoint: "http://127.0.0.1:1", access_key: a, secret_key: {env: KEY}}
dataset: {objects: 100, size: 4KiB, buckets: 10}
load: {threads: 4}
phases: [put]
schedule: {times: ["08:00", "14:00", "20:00"], days: 3}
"""


class Clock:
    """Time that passes while somebody waits, and not otherwise."""

    def __init__(self, start: datetime.datetime) -> None:
        self.start, self.elapsed_s = start, 0.0

    def monotonic(self) -> float:
        return self.elapsed_s

    def now(self, zone: datetime.tzinfo | None = None) -> datetime.datetime:
        return (self.start + datetime.timedelta(seconds=self.elapsed_s)).astimezone(zone)


def test_nine_starts_come_at_their_hours_of_three_days(
    tmp_path: Path, loadgen: FakeLoadgen, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = parse_campaign(NINE_STARTS, drivers=DRIVERS, environ={})
    plan = make_plan(campaign, DRIVERS, starts=1)
    # Noon: the first two starts are of the first of four dates.
    began = datetime.datetime(2026, 3, 2, 12, 0, tzinfo=datetime.UTC).astimezone()
    began = began.replace(hour=12, minute=0)
    clock = Clock(began)
    date_type = types.SimpleNamespace(now=clock.now, fromisoformat=datetime.datetime.fromisoformat)
    monkeypatch.setattr(runner, "datetime", types.SimpleNamespace(
        datetime=date_type, UTC=datetime.UTC, timedelta=datetime.timedelta
    ))  # fmt: skip
    monkeypatch.setattr(runner, "time", types.SimpleNamespace(monotonic=clock.monotonic))
    monkeypatch.setattr(runner, "REST_TICK_S", 600.0)
    interrupt = Interrupt()

    def wait(seconds: float) -> bool:
        clock.elapsed_s += seconds
        return False

    monkeypatch.setattr(interrupt, "wait", wait)
    started: list[tuple[str, datetime.datetime]] = []

    def listen(event: Any) -> None:
        if isinstance(event, TrialStarted):
            started.append((event.document["id"], clock.now()))

    manifest = {
        "name": "test",
        "run": plan.run,
        "seed": plan.seed,
        "plan": plan.documents(),
        "started": began.isoformat(),
    }
    writer = RunWriter.create(tmp_path / "run", manifest)
    end = runner.execute(plan, writer, listen, schedule=campaign.schedule, interrupt=interrupt)
    assert end.state == "finished"
    measured = {
        trial["id"] for trial in read_run(tmp_path / "run").manifest["plan"] if trial["measured"]
    }
    moments = [moment.astimezone() for name, moment in started if name in measured]
    assert [moment.hour for moment in moments] == [14, 20, 8, 14, 20, 8, 14, 20, 8]
    assert len({moment.date() for moment in moments}) == 4
    # Cut in the longest part of the day without a start, they are still days of three.
    starts_ns = [round(moment.timestamp() * 1e9) for moment in moments]
    assert days_of(starts_ns) == [0, 0, 1, 1, 1, 2, 2, 2, 3]


def test_a_run_over_midnight_is_one_day_and_hours_may_be_of_any_zone() -> None:
    midnight = 20_000 * DAY_NS
    contiguous = [midnight - 2 * HOUR_NS + step * HOUR_NS // 2 for step in range(10)]
    assert days_of(contiguous) == [0] * 10
    for zone in range(-12, 13):
        starts = [
            midnight + day * DAY_NS + (hour - zone) * HOUR_NS + day * 60 * 10**9
            for day in range(3) for hour in (8, 14, 20)
        ]  # fmt: skip
        assert days_of(starts) == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert days_of([midnight]) == [0]


def test_an_interval_over_days_is_that_of_the_days_means() -> None:
    rates = [100.0, 102.0, 98.0, 120.0, 121.0, 119.0, 80.0, 79.0, 81.0]
    starts = [day * DAY_NS + hour * HOUR_NS for day in range(3) for hour in (8, 14, 20)]
    interval = interval_over_days(rates, starts)
    means = np.log(rates).reshape(3, 3).mean(axis=1)
    half = T_2 * means.std(ddof=1) / math.sqrt(3)
    assert interval.low is not None
    assert interval.high is not None
    assert (interval.n, interval.days) == (9, 3)
    assert math.log(interval.centre) == pytest.approx(means.mean())
    assert math.log(interval.high) == pytest.approx(means.mean() + half)
    # Trials of one day stay trials.
    assert interval_over_days(rates, [0] * 9) == mean_interval(rates)


def test_days_that_differ_are_covered_where_pooled_trials_are_not() -> None:
    """About 95 % of 95 % intervals over days contain the true value; pooled ones far fewer."""
    chance = np.random.default_rng(7)
    starts = [day * DAY_NS + hour * HOUR_NS for day in range(3) for hour in (8, 14, 20)]
    held = {"days": 0, "pooled": 0}
    for _ in range(1000):
        logs = np.repeat(chance.normal(0, 0.1, 3), 3) + chance.normal(0, 0.02, 9)
        rates = np.exp(logs).tolist()
        both = {"days": interval_over_days(rates, starts), "pooled": mean_interval(rates)}
        for name, interval in both.items():
            assert interval.low is not None
            assert interval.high is not None
            held[name] += interval.low <= 1 <= interval.high
    assert 930 <= held["days"] <= 970
    assert held["pooled"] < 850


def test_a_results_interval_counts_the_days_of_its_trials(tmp_path: Path) -> None:
    write_rounds(tmp_path / "run")
    run = read_run(tmp_path / "run")
    cell = analyse(run, courses=False).rounds[0]
    begun = {record.id: record.summary["started_unix_ns"] for record in run.records}
    assert [trial_rate.started_unix_ns for trial_rate in cell.trial_rates] == [
        begun[trial] for trial in cell.trials
    ]
    rates = tuple(
        replace(
            cell.trial_rates[0],
            requests_per_s=rate,
            started_unix_ns=20_000 * DAY_NS + day * DAY_NS + hour * HOUR_NS,
        )
        for day, rate in enumerate((100.0, 120.0, 80.0))
        for hour in (8, 14)
    )
    rate_over_days = replace(cell, trial_rates=rates).rate
    assert (rate_over_days.n, rate_over_days.days, rate_over_days.is_interval) == (6, 3, True)
    one_day = tuple(replace(trial_rate, started_unix_ns=DAY_NS) for trial_rate in rates)
    rate_in_a_day = replace(cell, trial_rates=one_day).rate
    assert (rate_in_a_day.n, rate_in_a_day.days) == (6, 1)
