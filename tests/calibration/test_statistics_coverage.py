"""Known truth in, same truth out: intervals cover as often as they say; A/A finds nothing."""

import math

import numpy as np
import pytest

from loadstone.analysis.statistics import change_points, significance
from loadstone.analysis.statistics import ratios as statistics

TRIALS = 2_000
NOMINAL = pytest.approx(0.95, abs=0.02)


def covers(ratio: statistics.Ratio, truth: float) -> bool:
    assert ratio.low is not None
    assert ratio.high is not None
    return ratio.low <= truth <= ratio.high


def width(ratio: statistics.Ratio) -> float:
    assert ratio.low is not None
    assert ratio.high is not None
    return math.log(ratio.high / ratio.low)


def test_interleaved_blocks_cover_and_stay_narrow_under_a_drift_that_all_share() -> None:
    generator = np.random.default_rng(1)
    inside, paired_widths, unpaired_widths = 0, [], []
    for _ in range(TRIALS):
        drift = np.exp(generator.normal(0, 0.10, 10))
        a = 100 * drift * generator.lognormal(0, 0.02, 10)
        b = 130 * drift * generator.lognormal(0, 0.02, 10)
        paired = statistics.paired_ratio(a, b)
        inside += covers(paired, 1.3)
        paired_widths.append(width(paired))
        unpaired_widths.append(width(statistics.welch_ratio(a, b)))
    assert inside / TRIALS == NOMINAL
    assert np.median(unpaired_widths) > 3 * np.median(paired_widths)


def test_one_after_the_other_under_a_drift_finds_differences_that_are_not_there() -> None:
    """This is why trials are interleaved: the same analysis of the other order is wrong."""
    generator = np.random.default_rng(2)
    falsely, rightly = 0, 0
    for _ in range(TRIALS // 4):
        drift = np.exp(-np.linspace(0, 0.10, 20))
        values = 100 * drift * generator.lognormal(0, 0.02, 20)
        falsely += not covers(statistics.welch_ratio(values[:10], values[10:]), 1.0)
        order = [generator.permutation(2) for _ in range(10)]
        a = [values[2 * block + int(pick[0])] for block, pick in enumerate(order)]
        b = [values[2 * block + int(pick[1])] for block, pick in enumerate(order)]
        rightly += covers(statistics.paired_ratio(a, b), 1.0)
    assert falsely / (TRIALS // 4) > 0.9
    assert rightly / (TRIALS // 4) == NOMINAL


@pytest.mark.parametrize("n", [3, 5, 10, 20])
def test_unpaired_intervals_cover_with_as_few_as_three_trials(n: int) -> None:
    generator = np.random.default_rng(n)
    inside = 0
    for _ in range(TRIALS):
        a = generator.lognormal(0, 0.05, n)
        b = 0.8 * generator.lognormal(0, 0.05, n)
        inside += covers(statistics.welch_ratio(a, b), 0.8)
    assert inside / TRIALS == NOMINAL


def test_occasional_bad_trials_widen_the_interval_and_it_still_covers() -> None:
    """Ten percent of the trials lose up to half: t on logarithms errs to the safe side only."""
    generator = np.random.default_rng(7)
    inside = 0
    for _ in range(TRIALS):
        arms = [
            generator.lognormal(0, 0.05, 10)
            * np.where(generator.random(10) < 0.1, generator.uniform(0.5, 0.9, 10), 1.0)
            for _ in range(2)
        ]
        inside += covers(statistics.welch_ratio(*arms), 1.0)
    assert 0.93 <= inside / TRIALS <= 0.995


@pytest.mark.long(cpu_s=3)
def test_the_geometric_mean_of_a_suite_covers() -> None:
    generator = np.random.default_rng(9)
    inside, repeats = 0, 1_500
    for seed in range(repeats):
        pairs = [
            (generator.lognormal(0, 0.08, 10), 1.25 * generator.lognormal(0, 0.08, 10))
            for _ in range(22)
        ]
        ratio = statistics.geometric_mean_ratio(pairs, seed=seed, resamples=600)
        inside += covers(ratio, 1.25)
    # Drawing again from ten trials makes their spread √(9/10) of what it is: 93.6 % of 4 000.
    assert 0.92 <= inside / repeats <= 0.97


def autoregressive(generator: np.random.Generator, n: int, phi: float) -> np.ndarray:
    errors = generator.normal(size=n) * math.sqrt(1 - phi**2)
    x = np.empty(n)
    x[0] = generator.normal()
    for i in range(1, n):
        x[i] = phi * x[i - 1] + errors[i]
    return 100 + 5 * x


def test_a_against_a_is_found_different_at_the_stated_rate_only() -> None:
    generator = np.random.default_rng(17)
    paired, unpaired, repeats = 0, 0, 2_000
    for seed in range(repeats):
        a, b = generator.lognormal(0, 0.05, 10), generator.lognormal(0, 0.05, 10)
        paired += significance.sign_flip_p(np.log(a / b), seed=seed) < 0.05
        unpaired += significance.mann_whitney_p(a, b) < 0.05
    assert paired / repeats == pytest.approx(0.05, abs=0.015)
    assert unpaired / repeats == pytest.approx(0.045, abs=0.015)


def test_a_family_of_22_with_no_difference_claims_one_in_at_most_one_suite_of_twenty() -> None:
    generator = np.random.default_rng(19)
    corrected, raw, repeats = 0, 0, 300
    for _ in range(repeats):
        p = [
            significance.mann_whitney_p(generator.normal(size=10), generator.normal(size=10))
            for _ in range(22)
        ]
        raw += min(p) < 0.05
        corrected += min(significance.holm(p)) < 0.05
    assert corrected / repeats <= 0.07
    assert raw / repeats > 0.5


def test_arms_that_differ_by_the_margin_are_called_equivalent_at_most_one_time_in_twenty() -> None:
    generator = np.random.default_rng(23)
    wrongly, rightly, repeats = 0, 0, 1_000
    for _ in range(repeats):
        a = generator.lognormal(0, 0.02, 10)
        wrongly += statistics.are_equivalent(
            a, 1.03 * generator.lognormal(0, 0.02, 10), is_paired=False, margin=0.03
        )
        rightly += statistics.are_equivalent(
            a, generator.lognormal(0, 0.02, 10), is_paired=False, margin=0.03
        )
    assert wrongly / repeats == pytest.approx(0.05, abs=0.02)
    assert rightly / repeats > 0.8


def test_a_series_without_a_change_has_no_change_point() -> None:
    generator = np.random.default_rng(29)
    repeats = 400
    changed = sum(
        bool(change_points.e_divisive(generator.normal(100, 8, 50), seed=seed))
        for seed in range(repeats)
    )
    assert changed / repeats <= 0.01


def test_a_change_of_five_standard_deviations_is_found_where_it_is() -> None:
    generator = np.random.default_rng(31)
    hits = 0
    for seed in range(50):
        x = np.concatenate([generator.normal(100, 2, 20), generator.normal(110, 2, 20)])
        points = change_points.e_divisive(x, seed=seed)
        hits += len(points) == 1 and abs(points[0].index - 20) <= 1
    assert hits >= 47
