"""A plan's estimate of its cost."""

import pytest

from loadstone.campaign.parse import parse_campaign
from loadstone.campaign.planning.estimate import Estimate
from loadstone.campaign.planning.plan import make_plan
from tests.unit.campaign_drivers import DRIVERS

SECOND = 1_000_000_000


def estimated(
    text: str, *, requests_per_s: float | None = None, bytes_per_s: float | None = None
) -> Estimate:
    head = "name: test\ntargets: {s: {driver: s3, endpoint: x, replication: 3}}\n"
    campaign = parse_campaign(head + text, drivers=DRIVERS, environ={})
    plan = make_plan(campaign, DRIVERS)
    return plan.estimate(requests_per_s=requests_per_s, bytes_per_s=bytes_per_s)


DATASET = "dataset: {objects: 1000, size: 4KiB, buckets: 10}\nload: {threads: 4}\n"


def test_requests_and_bytes_are_those_of_all_rounds_and_iterations() -> None:
    cost = estimated(DATASET + "rounds: 2\nphases: [put, {op: get, iterations: 3}, {op: delete}]\n")
    # The clean-up after a delete finds no objects, only the buckets.
    assert cost.requests == 2 * (1000 + 3000 + 1000 + 10)
    assert cost.bytes_written == 2 * 1000 * 4096
    assert cost.bytes_read == 2 * 3000 * 4096
    assert (cost.trials, cost.trials_measured) == (8, 6)


def test_space_is_the_most_that_lies_there_at_once_times_the_replication() -> None:
    dataset_bytes = 1000 * 4096 * 3
    assert estimated(DATASET + "rounds: 2\nphases: [put, delete]\n").peak_bytes == {
        "s": 2 * dataset_bytes
    }
    sweep = DATASET + "phases: [put]\nsweep: {threads: [1, 2, 3]}\n"
    assert estimated(sweep).peak_bytes == {"s": dataset_bytes}
    assert estimated(sweep + "clean_up: late\n").peak_bytes == {"s": 3 * dataset_bytes}


def test_time_is_at_least_rests_and_durations() -> None:
    cost = estimated(
        DATASET
        + "phases: [{op: put, pause_after: 60s},"
        + " {op: get, duration: 10s, iterations: 2, warm_up: 3s, cool_down: 2s}]\n"
    )
    assert cost.pauses_ns == 60 * SECOND
    assert cost.time_ns_min == 85 * SECOND
    assert cost.time_ns is None
    assert cost.trials_by_time == 1


def test_time_under_assumed_rates_is_that_of_the_slower_limit() -> None:
    text = DATASET + "phases: [put, {op: delete, pause_after: 1s}, head]\nprepare: never\n"
    by_requests = estimated(text, requests_per_s=100)
    assert by_requests.time_ns is not None
    # 3000 requests, 10 buckets to delete twice, and the rest.
    assert by_requests.time_ns == pytest.approx((3010 / 100 + 1) * SECOND, rel=0.01)
    by_bytes = estimated(text, bytes_per_s=4096)
    assert by_bytes.time_ns is not None
    assert by_bytes.time_ns == pytest.approx(1001 * SECOND)


def test_trials_that_end_by_the_clock_are_counted_at_a_known_rate() -> None:
    get = "phases: [{op: get, duration: 10s}]\nprepare: never\n"
    assert estimated(DATASET + get).requests == 0
    assert estimated(DATASET + get, requests_per_s=50).requests == 500
    open_load = DATASET.replace("threads: 4", "rate: 20/s")
    cost = estimated(open_load + get)
    assert cost.requests == 200
    assert cost.bytes_read == 200 * 4096


def test_a_put_by_the_clock_takes_the_space_of_what_it_can_write() -> None:
    put = "phases: [{op: put, duration: 10s}]\n"
    assert estimated(DATASET + put, requests_per_s=50).peak_bytes == {"s": 500 * 4096 * 3}
    assert estimated(DATASET + put, requests_per_s=5000).peak_bytes == {"s": 1000 * 4096 * 3}


def test_a_mix_is_weighed_and_ranges_count_what_they_read() -> None:
    cost = estimated(DATASET + "phases: [{mix: {get: 3, put: 1}, requests: 100}]\n")
    assert cost.bytes_read == 75 * 4096
    assert cost.bytes_written == (1000 + 25) * 4096
    ranges = "phases: [{op: multi_range_get, range: 100, range_count: 4}]\nprepare: never\n"
    assert estimated(DATASET + ranges).bytes_read == 1000 * 400
    parts = "phases: [{op: upload_part, part_size: 5MiB, requests: 100}]\nprepare: never\n"
    assert estimated(DATASET.replace("4KiB", "1GiB") + parts).bytes_written == 100 * 5 * 2**20
