"""The rate of an open load that its target did not keep up with is what the target did."""

import math

import numpy as np
import pytest

from loadstone.analysis.instrument.backlog import window_of_work
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


def measured(due, served) -> tuple[float, float]:
    """Return the rate of the work and the window's length, of requests due and answered so."""
    window = (2_000_000, int((2e-3 + math.ceil(due[-1])) * SECOND_NS))
    median_ns = float(np.median(served - due)) * SECOND_NS
    entry = {"start_ns": window[0], "end_ns": int(served.max() * SECOND_NS)}
    rows = answered(served)
    start_ns, end_ns = window_of_work(rows, rows, window, entry, median_ns)
    return len(due) / (end_ns - start_ns) * SECOND_NS, (end_ns - start_ns) / SECOND_NS


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
def test_a_store_that_is_overrun_shows_its_own_rate(rate: float, length_s: float) -> None:
    due = arrivals(rate, length_s, seed=1)
    found, lasted_s = measured(due, queued(due, capacity=256))
    assert found == pytest.approx(256, rel=0.03)
    assert lasted_s > 1.2 * length_s


@pytest.mark.parametrize("length_s", [3, 10, 60])
@pytest.mark.parametrize("latency_s", [0.001, 0.1, 0.6])
def test_a_store_that_keeps_up_is_measured_over_the_window(
    latency_s: float, length_s: float
) -> None:
    for seed in range(20):
        due = arrivals(300, length_s, seed)
        served = due + np.random.default_rng(seed).exponential(latency_s, len(due))
        if length_s < 5 * latency_s:
            continue
        _, lasted_s = measured(due, served)
        assert lasted_s == pytest.approx(length_s), seed


def test_one_straggler_does_not_stretch_the_time() -> None:
    due = arrivals(300, 20, seed=3)
    served = due + 0.01
    served[-1] += 30
    _, lasted_s = measured(due, served)
    assert lasted_s == pytest.approx(20)


def test_what_a_warm_up_left_behind_is_not_the_windows_work() -> None:
    due = arrivals(400, 10, seed=4)
    served = queued(due, capacity=256)
    late = due >= 5
    window = (5 * SECOND_NS, 10 * SECOND_NS)
    median_ns = float(np.median((served - due)[late])) * SECOND_NS
    entry = {"start_ns": 0, "end_ns": int(served.max() * SECOND_NS)}
    of_window, of_both = answered(served[late]), answered(served)
    start_ns, end_ns = window_of_work(of_window, of_both, window, entry, median_ns)
    rate = late.sum() / (end_ns - start_ns) * SECOND_NS
    assert rate == pytest.approx(256, rel=0.02)


def test_a_record_without_its_end_keeps_its_window() -> None:
    due = arrivals(400, 5, seed=5)
    rows = answered(queued(due, capacity=100))
    assert window_of_work(rows, rows, (0, 5 * SECOND_NS), {}, 0.0) == (0, 5 * SECOND_NS)
