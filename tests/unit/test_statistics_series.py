"""Golden values for statistics of ordered series, and the gates of a trial."""

import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from loadstone.analysis.judgements import validity
from loadstone.analysis.statistics import change_points, steadiness
from loadstone.errors import InputError

# Annual flow of the Nile at Aswan, 1871 to 1970 (Cobb 1978): the level falls after 1898, index 28.
NILE = [
    1120, 1160, 963, 1210, 1160, 1160, 813, 1230, 1370, 1140, 995, 935, 1110, 994, 1020, 960, 1180,
    799, 958, 1140, 1100, 1210, 1150, 1250, 1260, 1220, 1030, 1100, 774, 840, 874, 694, 940, 833,
    701, 916, 692, 1020, 1050, 969, 831, 726, 456, 824, 702, 1120, 1100, 832, 764, 821, 768, 845,
    864, 862, 698, 845, 744, 796, 1040, 759, 781, 865, 845, 944, 984, 897, 822, 1010, 771, 676,
    649, 846, 812, 742, 801, 1040, 860, 874, 848, 890, 744, 749, 838, 1050, 918, 986, 797, 923,
    975, 815, 1020, 906, 901, 1170, 912, 746, 919, 718, 714, 740,
]  # fmt: skip


def noise(n: int, seed: int) -> np.ndarray:
    """Return near-normal numbers from a generator that any language can repeat."""
    state, out = seed, []
    for _ in range(n):
        total = 0.0
        for _ in range(12):
            state = (1103515245 * state + 12345) % 2**31
            total += state / 2**31
        out.append(total - 6)
    return np.array(out)


def autoregressive(n: int, phi: float) -> np.ndarray:
    errors, x = noise(n, 1), np.zeros(n)
    for i in range(n):
        x[i] = (phi * x[i - 1] if i else 0) + errors[i]
    return x


def test_autocorrelation_is_the_textbook_one() -> None:
    # Box & Jenkins: of 1..5 at lag 1, Σ(x_t - 3)(x_{t+1} - 3) / Σ(x_t - 3)² = 4/10.
    assert steadiness.autocorrelation([1, 2, 3, 4, 5], 1) == pytest.approx(0.4)
    assert steadiness.autocorrelation([1, 2, 3, 4, 5], 2) == pytest.approx(-0.1)
    assert steadiness.autocorrelation([7.0] * 5, 1) == 0.0


def test_batch_means_drop_what_is_left_over_in_front() -> None:
    assert list(steadiness.batch_means([99, 1, 3, 5, 7], 2)) == [2, 6]


def test_mser_is_the_argmin_of_its_formula() -> None:
    generator = np.random.default_rng(1)
    for _ in range(20):
        x = 1000 * (1 - np.exp(-np.arange(300) / 40)) * (1 + 0.05 * generator.normal(size=300))
        z = [float(np.mean(x[i : i + 5])) for i in range(0, 300, 5)]
        scores = []
        for d in range(len(z) - 4):
            rest = z[d:]
            centre = sum(rest) / len(rest)
            scores.append(sum((value - centre) ** 2 for value in rest) / len(rest) ** 2)
        chosen = scores.index(min(scores))
        cut = steadiness.mser5(x)
        assert cut.is_valid == (chosen <= len(z) / 2)
        assert cut.cut == (5 * chosen if cut.is_valid else 0)


def test_mser_refuses_a_series_that_is_too_short() -> None:
    with pytest.raises(InputError, match="at least 25"):
        steadiness.mser5([1.0] * 24)


def test_pelt_finds_the_segments_that_ruptures_finds() -> None:
    # ruptures 1.1: Pelt(CostNormal(add_small_diag=False), min_size=3, jump=1).
    steps = np.concatenate(
        [100 + noise(60, 3), 110 + noise(50, 5), 110 + 4 * noise(70, 7), 95 + 2 * noise(40, 9)]
    )
    loose = 3 * math.log(len(steps))
    assert [end for _, end in change_points.pelt(steps)] == [60, 180, 220]
    assert [end for _, end in change_points.pelt(steps, penalty=loose)] == [60, 110, 180, 220]
    assert [end for _, end in change_points.pelt(NILE)] == [100]
    segments = change_points.pelt(NILE, penalty=3 * math.log(100))
    assert [end for _, end in segments] == [28, 97, 100]


def test_pelt_finds_what_trying_all_cuts_finds() -> None:
    chance = np.random.default_rng(1)
    for number in range(60):
        levels = [chance.normal(chance.uniform(50, 200), chance.uniform(0.5, 20), 50)] * 2
        levels += [chance.normal(chance.uniform(50, 200), 5, chance.integers(1, 60))] * 2
        series = np.concatenate(levels)[: chance.integers(6, 220)]
        # With a small penalty most ends are cuts, so that a start pruned too early shows.
        penalty = (2.0, 8.0, 15 * math.log(series.size))[number % 3]
        assert change_points.pelt(series, penalty=penalty) == _best_of_all_cuts(series, penalty)


def _best_of_all_cuts(values: NDArray[np.float64], penalty: float) -> list[tuple[int, int]]:
    sums = np.concatenate([[0.0], np.cumsum(values)])
    squares = np.concatenate([[0.0], np.cumsum(values**2)])
    best, cuts = [-penalty, math.inf, math.inf], [[0], [0], [0]]
    for end in range(3, values.size + 1):
        starts = np.arange(end - 2)
        length = end - starts
        mean = (sums[end] - sums[starts]) / length
        variance = np.maximum((squares[end] - squares[starts]) / length - mean**2, 1e-12)
        totals = np.array(best)[starts] + length * (np.log(variance) + 1) + penalty
        chosen = int(np.argmin(totals))
        best.append(float(totals[chosen]))
        cuts.append([*cuts[chosen], end])
    return list(itertools.pairwise(cuts[-1]))


def test_e_divisive_finds_the_change_of_the_nile() -> None:
    # Also what signal-processing-algorithms 2.1.6 (MongoDB) returns: [28].
    (point,) = change_points.e_divisive(NILE, seed=1)
    assert point.index == 28
    assert (point.before, point.after) == (pytest.approx(1097.75), pytest.approx(849.972, abs=1e-3))
    assert point.magnitude == pytest.approx(-0.2257, abs=1e-4)


def test_e_divisive_finds_two_changes_and_leaves_out_the_small_one() -> None:
    # signal-processing-algorithms 2.1.6 returns [25, 45].
    y = np.concatenate([100 + noise(25, 3), 110 + noise(20, 5), 104 + noise(30, 7)])
    assert [point.index for point in change_points.e_divisive(y, seed=1)] == [25, 45]
    small = np.concatenate([100 + noise(25, 3), 120 + noise(20, 5), 116 + noise(30, 7)])
    assert [point.index for point in change_points.e_divisive(small, seed=1)] == [25]


def test_a_long_history_is_searched_in_windows() -> None:
    history = np.concatenate([100 + noise(130, 3), 120 + noise(130, 5)])
    assert [point.index for point in change_points.e_divisive(history, seed=1)] == [130]


@pytest.mark.parametrize(
    ("levels", "kind"),
    [
        ([100, 100, 100, 100], "flat"),
        ([60, 80, 100, 100], "warm-up"),
        ([140, 100, 100, 100], "slowdown"),
        ([100, 100, 100, 100, 60], "no steady state"),
        ([100, 60, 100, 100], "warm-up"),
    ],
)
def test_a_trial_is_classified_by_its_segments(levels: list[int], kind: str) -> None:
    x = np.concatenate([level + noise(50, 11 + i) for i, level in enumerate(levels)])
    assert change_points.classify(x) == kind


def test_the_drift_of_a_straight_line_is_its_change_over_the_window() -> None:
    drift = steadiness.drift(np.linspace(95, 105, 300))
    assert drift.relative == pytest.approx(0.1, rel=0.05)


def test_ls1_says_what_did_not_hold() -> None:
    ramp = np.linspace(500, 1000, 300)
    failures = steadiness.ls1(ramp, round_s=60, seed=1)
    assert any("rounds differ" in failure for failure in failures)
    assert any("drift" in failure and "±10%" in failure for failure in failures)
    step = np.concatenate([np.full(150, 1000.0), np.full(150, 1060.0)]) + noise(300, 3)
    assert steadiness.ls1(step, round_s=60, seed=1)
    assert not steadiness.ls1(1000 + noise(300, 3), round_s=60, seed=1)


def test_a_rate_that_never_changes_is_steady() -> None:
    assert not steadiness.ls1(np.full(300, 1000.0), round_s=60, seed=1)


def test_a_stopped_target_is_not_steady() -> None:
    assert steadiness.ls1(np.zeros(300), round_s=60, seed=1)


def test_little_s_law_is_the_ratio_of_rate_and_time_to_the_clients() -> None:
    assert validity.little_ratio(
        clients=10, requests_per_s=880, service_s_mean=0.01
    ) == pytest.approx(0.88)
    assert validity.little_ratio(clients=10, requests_per_s=None, service_s_mean=0.01) is None
    assert validity.in_flight_ratio(
        in_flight_mean=11, requests_per_s=1000, service_s_mean=0.01
    ) == pytest.approx(1.1)


def test_an_open_load_is_held_to_its_rate_and_its_lag() -> None:
    assert validity.is_achieved(offered_per_s=100, achieved_per_s=99.2)
    assert not validity.is_achieved(offered_per_s=100, achieved_per_s=98)
    assert validity.is_on_time(lag_p99_ns=90_000, service_p99_ns=1_000_000)
    assert validity.is_on_time(lag_p99_ns=110_000, service_p99_ns=1_000_000) is False
    assert validity.is_on_time(lag_p99_ns=400_000, service_p99_ns=10_000_000)
    assert validity.is_on_time(lag_p99_ns=None, service_p99_ns=1) is None


def test_failures_are_held_to_a_thousandth() -> None:
    assert validity.failed_share(good=999, failed=1) == validity.FAILED_MAX
    assert validity.failed_share(good=0, failed=0) is None


def test_a_quantile_needs_ten_values_beyond_it_to_be_shown() -> None:
    assert validity.may_print_quantile(0.99, 1000)
    assert not validity.may_print_quantile(0.99, 999)


@pytest.mark.parametrize("seed", range(5))
def test_the_drift_has_the_error_of_scipys_line(seed: int) -> None:
    values = 100 + np.random.default_rng(seed).normal(0, 3, 30)
    fit = stats.linregress(np.arange(30.0), values)
    drift = steadiness.drift(values)
    half = stats.t.ppf(0.95, 28) * fit.stderr
    scale = 29 / values.mean()
    assert drift.relative == pytest.approx(fit.slope * scale, rel=1e-12)
    assert drift.low == pytest.approx((fit.slope - half) * scale, rel=1e-12)
    assert drift.high == pytest.approx((fit.slope + half) * scale, rel=1e-12)


def test_a_change_of_level_has_scipys_p_of_welch() -> None:
    left = np.array([10.0, 11, 9, 10.5, 9.5, 10.2, 9.9, 10.1])
    right = np.array([13.0, 15, 12, 14, 13.5, 12.5, 14.5, 13.2])
    (point,) = change_points.e_divisive(np.concatenate([left, right]), seed=1)
    assert point.index == left.size
    expected = stats.ttest_ind(left, right, equal_var=False).pvalue
    assert point.p == pytest.approx(expected, rel=1e-12)
