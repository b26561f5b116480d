"""Whether an open load's rate counts requests due in the window, or answered in it."""

import math

import numpy as np
import pytest

from loadstone.analysis.measured.part import is_by_answers
from loadstone.analysis.measured.rows import Rows
from loadstone.results.record import INTERVAL_SCHEMA

SECOND_NS = 10**9


def answered(seconds: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> Rows:
    """Return rows of requests by the second they were answered in."""
    values, counts = np.unique(np.floor(seconds).astype(int), return_counts=True)
    rows = zip(values.tolist(), counts.tolist(), strict=True)
    return Rows(
        INTERVAL_SCHEMA.of_rows(
            [{"second": int(at), "requests": int(count), "outcome": "ok"} for at, count in rows]
        )
    )


def by_answers(due, served) -> bool:
    """Tell whether the rate of requests due and answered so is that of the answers."""
    window = (2_000_000, int((2e-3 + math.ceil(due[-1])) * SECOND_NS))
    median_ns = float(np.median(served - due)) * SECOND_NS
    entry = {"start_ns": window[0], "end_ns": int(served.max() * SECOND_NS)}
    rows = answered(served)
    return is_by_answers(rows, rows, window, entry, median_ns)


def arrivals(rate: float, length_s: float, seed: int):
    generator = np.random.default_rng(seed)
    due = np.cumsum(generator.exponential(1 / rate, int(2 * rate * length_s)))
    return due[due < length_s]


def queued(due, capacity: float):
    """Return when a store answers that takes one request after the other."""
    done, times = 0.0, []
    for moment in due:
        done = max(moment, done) + 1 / capacity
        times.append(done + 0.01)
    return np.array(times)


@pytest.mark.parametrize("length_s", [2, 5, 60])
@pytest.mark.parametrize("rate", [400, 800])
def test_a_store_that_is_overrun_is_measured_by_its_answers(rate: float, length_s: float) -> None:
    due = arrivals(rate, length_s, seed=1)
    assert by_answers(due, queued(due, capacity=256))


@pytest.mark.parametrize("length_s", [3, 10, 60])
@pytest.mark.parametrize("latency_s", [0.001, 0.1, 0.6])
def test_a_store_that_keeps_up_is_measured_by_what_was_due(
    latency_s: float, length_s: float
) -> None:
    for seed in range(20):
        due = arrivals(300, length_s, seed)
        served = due + np.random.default_rng(seed).exponential(latency_s, len(due))
        if length_s < 5 * latency_s:
            continue
        assert not by_answers(due, served), seed


def test_one_straggler_is_no_backlog() -> None:
    due = arrivals(300, 20, seed=3)
    served = due + 0.01
    served[-1] += 30
    assert not by_answers(due, served)


def test_after_a_warm_up_as_much_is_under_way_at_both_ends() -> None:
    due = arrivals(300, 10, seed=4)
    rows = answered(due[due >= 5] + 0.01)
    entry = {"start_ns": 0, "end_ns": 10 * SECOND_NS}
    window = (5 * SECOND_NS, 10 * SECOND_NS)
    assert is_by_answers(rows, rows, window, entry, 0.01 * SECOND_NS)
    assert not is_by_answers(rows, rows, (0, 10 * SECOND_NS), entry, 0.01 * SECOND_NS)


@pytest.mark.parametrize("length_s", [2, 3, 6])
def test_a_backlog_of_a_short_warm_up_is_not_part_of_the_rate(length_s: int) -> None:
    for seed in range(20):
        due = arrivals(91, 1 + length_s, seed)
        served = queued(due, capacity=64)
        of_window = due >= 1
        window = (SECOND_NS, (1 + length_s) * SECOND_NS)
        entry = {"start_ns": 0, "end_ns": int(served.max() * SECOND_NS)}
        median_ns = float(np.median((served - due)[of_window])) * SECOND_NS
        counted, rows = answered(served[of_window]), answered(served)
        assert is_by_answers(counted, rows, window, entry, median_ns), seed


def test_a_record_without_its_end_is_measured_by_what_was_due() -> None:
    due = arrivals(400, 5, seed=5)
    rows = answered(queued(due, capacity=100))
    assert not is_by_answers(rows, rows, (0, 5 * SECOND_NS), {}, 0.0)
