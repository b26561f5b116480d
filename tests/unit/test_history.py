"""Many runs of one campaign: inserted changes are found, and noise is not taken for one."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from loadstone.analysis.accounts.account import RATE, Account, Measurement
from loadstone.analysis.accounts.history import Entry, Newest, trace
from loadstone.analysis.naming import metric_words
from loadstone.cli import main
from tests.unit.synthetic_run import Folder, trial

BEGUN = datetime(2026, 1, 1, 3, tzinfo=UTC)


def entry(night: int, value: float, *, metric: str = RATE, **changes: object) -> Entry:
    measurement = Measurement(
        target="s3", workload="nightly", operation="get", parameters={}, metric=metric, value=value
    )
    account = Account(
        name="run",
        title="run",
        measurements=(replace(measurement, **changes),),  # type: ignore[arg-type]
        comparable={"s3": {"loadstone": "0.1.0" if night < 10 else "0.2.0"}},
    )
    started = (BEGUN + timedelta(days=night)).isoformat()
    return Entry(name=f"night-{night:02d}", started=started, account=account)


def noisy(levels: list[float], seed: int = 1, spread: float = 0.01) -> list[float]:
    generator = np.random.default_rng(seed)
    return [level * float(generator.lognormal(0, spread)) for level in levels]


@pytest.mark.parametrize(
    ("metric", "factor", "is_worse"),
    [(RATE, 0.8, True), (RATE, 1.3, False), ("service_ns_p99", 1.3, True)],
)
def test_a_change_of_level_is_found_at_its_run_with_what_else_changed_there(
    metric: str, factor: float, is_worse: bool
) -> None:
    values = noisy([1000.0] * 10 + [1000.0 * factor] * 6)
    history = trace([entry(*point, metric=metric) for point in enumerate(values)], metrics=[metric])
    (trend,) = history.trends
    (change,) = trend.changes
    assert (change.run, change.is_worse, change.runs_since) == ("night-10", is_worse, 6)
    assert change.magnitude == pytest.approx(factor - 1, abs=0.03)
    assert [difference.field for difference in change.differing] == ["loadstone"]
    assert trend.is_regressed(6) == is_worse
    assert not trend.is_regressed(5)


@pytest.mark.parametrize(
    ("last", "newest"), [(0.85, "worse"), (1.2, "better"), (1.03, "as before"), (0.97, "as before")]
)
def test_the_newest_run_is_held_against_the_level_before_it(last: float, newest: Newest) -> None:
    values = [*noisy([1000.0] * 6), 1000 * last]
    (trend,) = trace(map(entry, range(7), values)).trends
    assert (trend.newest, trend.changes) == (newest, ())
    assert trend.is_regressed(1) == (newest == "worse")


def test_noise_alone_is_seldom_a_change_or_a_bad_night() -> None:
    trends = [
        trace(map(entry, range(20), noisy([1000.0] * 20, seed, spread=0.05))).trends[0]
        for seed in range(100)
    ]
    assert sum(bool(trend.changes) for trend in trends) <= 3
    # Two sides at 1 %: five in a hundred are three standard deviations too many.
    assert sum(trend.newest != "as before" for trend in trends) <= 5


def test_runs_are_taken_in_the_order_of_their_time_and_rounds_are_repetitions() -> None:
    entries = [entry(night, 100 + night) for night in (2, 0, 1)]
    twice = entries[0].account.measurements[0]
    rounds = (replace(twice, value=100, round=1), replace(twice, value=400, round=2))
    entries[0] = replace(entries[0], account=replace(entries[0].account, measurements=rounds))
    (trend,) = trace(entries).trends
    assert [point.value for point in trend.points] == pytest.approx([100, 101, 200])
    assert [point.trials for point in trend.points] == [1, 1, 2]
    assert trend.newest == "unknown"


def test_cases_stand_sorted_whatever_order_a_plan_ran_them_in() -> None:
    drawn = [("s3", 16384, 2), ("s3", 4096, 16), ("dir", 4096, 2), ("s3", 4096, 2)]
    example = entry(0, 100).account.measurements[0]
    ran = tuple(
        replace(example, target=target, parameters={"size": size, "threads": threads})
        for target, size, threads in drawn
    )
    night = entry(0, 100)
    night = replace(night, account=replace(night.account, measurements=ran))
    cases = [dict(trend.case) for trend in trace([night]).trends]
    assert [(case["target"], case["size"], case["threads"]) for case in cases] == [
        ("s3", 4096, 2),
        ("s3", 4096, 16),
        ("s3", 16384, 2),
        ("dir", 4096, 2),
    ]


def test_bounds_and_invalid_numbers_are_left_out_and_counted() -> None:
    bad = entry(5, 10, standing="bound", reasons=("INSTRUMENT_LIMITED",))
    history = trace([*map(entry, range(5), [1000.0] * 5), bad])
    assert history.left_out == {"INSTRUMENT_LIMITED": 1}
    assert [len(trend.points) for trend in history.trends] == [5]


def test_a_night_in_which_the_target_failed_is_not_judged_by_its_other_trials() -> None:
    night = entry(5, 1000)
    (first,) = night.account.measurements
    trials = (
        replace(first, standing="void", reasons=("OUTAGE",)),
        replace(first, value=1100, repetition=2),
    )
    night = replace(night, account=replace(night.account, measurements=trials))
    history = trace([*map(entry, range(5), [1000.0] * 5), night])
    (trend,) = history.trends
    assert history.left_out == {"OUTAGE": 1}
    assert [point.trials for point in trend.points] == [1] * 5


def write_night(folder: Path, night: int, rate: float, name: str = "nightly") -> None:
    made = Folder(folder / f"night-{night:02d}", name, 5)
    made.add(trial(0, "s3", "get"), rate)
    made.close(campaign={"name": name, "targets": {"s3": {}}}, campaign_file="")
    manifest = json.loads((made.path / "manifest.json").read_text())
    manifest["started"] = (BEGUN + timedelta(days=night)).isoformat()
    (made.path / "manifest.json").write_text(json.dumps(manifest))


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nights")
    for night in range(12):
        write_night(folder, night, 1000 if night < 8 else 700)
    return folder


def test_a_nightly_job_fails_from_the_change_on_and_for_as_long_as_it_asks(
    nights: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["history", str(nights), "--metric", RATE, "--check"]
    trial_name = "s3, hummingbird-4k, get 4 KiB"
    assert main([*arguments, "--recent", "4"]) == 3
    output = capsys.readouterr().out
    assert "night-08" in output
    heading, _ = [line for line in output.splitlines() if metric_words(RATE) in line]
    assert "higher" in heading
    assert "less" not in heading
    assert RATE not in output
    last = output.splitlines()[-1]
    assert "4 runs" in last
    assert trial_name in last
    assert main([*arguments, "--recent", "3"]) == 0
    assert trial_name not in capsys.readouterr().out.splitlines()[-1]


def test_every_format_holds_every_value(nights: Path, tmp_path: Path) -> None:
    for form in ("json", "csv"):
        assert main(["history", str(nights), "-f", form, "-o", str(tmp_path / form)]) == 0
    document = json.loads((tmp_path / "json").read_text())
    rates = next(trend for trend in document["trends"] if trend["metric"] == RATE)
    assert len(rates["points"]) == len(document["runs"]) == 12
    assert [change["run"] for change in rates["changes"]] == ["night-08"]
    rows = (tmp_path / "csv").read_text().splitlines()
    assert len(rows) == 1 + 12 * len(document["trends"])


def test_several_campaigns_need_a_name_and_broken_runs_are_named(
    nights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_night(tmp_path, 0, 100, name="other")
    assert main(["history", str(nights), str(tmp_path)]) == 1
    assert "--campaign" in capsys.readouterr().err
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "manifest.json").write_text("{")
    assert main(["history", str(nights), str(tmp_path), "--campaign", "other"]) == 0
    output = capsys.readouterr()
    assert "broken" in output.err
    assert "1 run," in output.out
    assert main(["history", str(nights), "--campaign", "else"]) == 1
    assert main(["history", str(tmp_path), "--metric", "nothing"]) == 1
    empty = tmp_path / "empty"
    empty.mkdir()
    assert main(["history", str(empty)]) == 1
