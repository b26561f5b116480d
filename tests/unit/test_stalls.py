"""A client that stalled while it measured: when that voids a trial, and its message."""

import dataclasses
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from loadstone.analysis.instrument import stalls
from loadstone.analysis.judgements import labels
from loadstone.analysis.limits import searches
from loadstone.analysis.rules import find_rule
from loadstone.campaign.search import Goal
from loadstone.results.record import Record
from loadstone.results.store import read_run
from tests.unit import synthetic_run

S = 1_000_000_000
TRIAL = {"id": "0001", "measured": True}


def _record(
    stalls_found: list[dict], *, cores: int = 2, start_s: int = 2, end_s: int = 8
) -> Record:
    window = {"measure_start_ns": start_s * S, "measure_end_ns": end_s * S, "end_ns": end_s * S}
    summary = {"iterations": [window], "stalls": stalls_found, "cores_watched": cores}
    return Record(trial=TRIAL, summary=summary, intervals_path=Path("none"))


def _all_cores(seconds: list[list[int]], cores: int = 2) -> list[dict]:
    return [{"core": core, "seconds": seconds} for core in (None, *range(cores))]


def test_a_client_that_stood_still_for_half_of_the_window_makes_the_trial_invalid() -> None:
    record = _record(_all_cores([[3, S], [4, S], [5, S]]))
    stall = stalls.stall_of(record)
    assert stall is not None
    assert stall.share == pytest.approx(0.5)
    assert (stall.seconds, stall.cores) == ((3, 4, 5), (0, 1))
    assert "STALLED" in labels.label_trial(record)
    assert find_rule("STALLED").severity == "problem"
    (finding,) = stalls.find_stalls([record])
    assert (finding.rule, finding.severity) == ("STALLED", "problem")
    assert "3-5" in finding.statement
    assert "0-1" in finding.statement


def test_a_moment_is_noise_and_its_second_is_named() -> None:
    record = _record(_all_cores([[7, S // 10]]))
    assert "NOISY" in labels.label_trial(record)
    assert "STALLED" not in labels.label_trial(record)
    (finding,) = stalls.find_stalls([record])
    assert (finding.rule, finding.severity) == ("NOISY", "caution")
    assert "seconds 7" in finding.statement


def test_stalls_outside_the_measured_stage_do_not_count() -> None:
    record = _record(_all_cores([[0, S], [1, S], [8, S]]))
    assert stalls.stall_of(record) is None
    assert labels.label_trial(record) == ()


def test_one_core_of_many_counts_by_its_share_of_the_client() -> None:
    hogged = [{"core": 5, "seconds": [[second, S] for second in range(2, 8)]}]
    of_two, of_many = (stalls.stall_of(_record(hogged, cores=cores)) for cores in (2, 64))
    assert of_two is not None
    assert of_many is not None
    assert of_two.share == pytest.approx(1 / 2)
    assert of_many.share == pytest.approx(1 / 64)
    assert (of_two.is_invalid, of_many.is_invalid) == (True, False)
    assert of_many.cores == (5,)


def test_a_trial_that_is_not_measured_and_one_of_before_are_left_alone() -> None:
    record = _record(_all_cores([[3, S]]))
    unmeasured = Record(trial={**TRIAL, "measured": False}, summary=record.summary)
    assert labels.label_trial(unmeasured) == ()
    before = Record(trial=TRIAL, summary={"iterations": record.summary["iterations"]})
    assert stalls.stall_of(before) is None


def test_a_search_knows_of_a_core_that_stood_still_beside_the_hiccup_thread(tmp_path: Path) -> None:
    run = read_run(synthetic_run.write_rounds(tmp_path / "run", seconds=6))
    record, goal = run.records[0], Goal(latency_ns_max=1)
    (window,) = record.summary["iterations"]
    first = window["measure_start_ns"] // S + 1
    assert searches.observe(record, goal).stalled < 0.01
    of_one_core = [{"core": 1, "seconds": [[first, S], [first + 1, S]]}]
    summary = {**record.summary, "stalls": of_one_core, "cores_watched": 2}
    still = dataclasses.replace(record, summary=summary)
    assert searches.observe(still, goal).stalled == pytest.approx(1 / 6, rel=0.01)


def test_throttling_by_a_control_group_is_a_limit_and_not_a_stall(tmp_path: Path) -> None:
    record = _record(_all_cores([[3, S], [4, S], [5, S]]))
    rows = [(second * S, "c", "cgroup", "", "throttled_ns", second * S / 2) for second in range(9)]
    columns = [list(column) for column in zip(*rows, strict=True)]
    path = tmp_path / "probes.parquet"
    pq.write_table(pa.table(columns, schema=synthetic_run.PROBES), path)
    assert stalls.stall_of(dataclasses.replace(record, probes_path=path)) is None
    columns[-1] = [value / 4 for value in columns[-1]]
    pq.write_table(pa.table(columns, schema=synthetic_run.PROBES), path)
    left = stalls.stall_of(dataclasses.replace(record, probes_path=path))
    assert left is not None
    assert left.share == pytest.approx(1 / 3)
