"""Warm-up, steadiness and decay in simulated series of seconds, with the true level known."""

import numpy as np
import pytest

from loadstone.analysis.statistics import change_points, steadiness

HORIZON_S = 1_800
SERIES = 60


def simulate(shape: str, generator: np.random.Generator, seconds: int = HORIZON_S) -> np.ndarray:
    t = np.arange(seconds)
    level = {
        "steady": np.full(seconds, 1000.0),
        "warm-up": 1000 * (1 - np.exp(-t / 60)),
        "decay": 500 + 500 * np.exp(-t / 900),
        "linear decay": 1000 * (1 - 0.2 * t / seconds),
    }[shape]
    return level * (1 + 0.05 * generator.standard_normal(seconds))


def first_steady(x: np.ndarray, seed: int, margin: float) -> int | None:
    """Return after how many rounds of a minute the rule first holds, of 25."""
    for rounds in range(steadiness.ROUNDS, min(25, x.size // 60) + 1):
        if not steadiness.ls1(x[: 60 * rounds], round_s=60, seed=seed, margin=margin):
            return rounds
    return None


def settled(shape: str, final: float, margin: float) -> tuple[list[int], list[float]]:
    generator = np.random.default_rng(41)
    stops, errors = [], []
    for seed in range(SERIES):
        x = simulate(shape, generator)
        rounds = first_steady(x, seed, margin)
        if rounds is not None:
            window = x[60 * (rounds - steadiness.ROUNDS) : 60 * rounds]
            stops.append(60 * rounds)
            errors.append(float(window.mean()) / final - 1)
    return stops, errors


def test_a_steady_target_is_found_steady_at_the_first_chance() -> None:
    stops, errors = settled("steady", 1000, 0.10)
    assert len(stops) == SERIES
    assert np.median(stops) == 300
    assert abs(np.median(errors)) < 0.005


def test_a_warm_up_is_waited_for() -> None:
    stops, errors = settled("warm-up", 1000, 0.10)
    assert len(stops) == SERIES
    assert 420 <= np.median(stops) <= 480
    assert -0.02 < np.median(errors) < 0


def test_the_strict_margin_waits_longer_and_errs_less() -> None:
    stops, errors = settled("warm-up", 1000, 0.05)
    assert 450 <= np.median(stops) <= 600
    assert abs(np.median(errors)) < 0.01


def test_a_slow_decay_is_held_back_and_the_strict_margin_mostly_refuses_it() -> None:
    """LS-1 takes a quarter of an hour where common rules stop after a minute, 95 % too high."""
    stops, _ = settled("decay", 500, 0.10)
    assert np.median(stops) >= 900
    strict, _ = settled("decay", 500, 0.05)
    assert len(strict) <= 0.4 * SERIES


def test_mser_takes_the_warm_up_out_of_the_mean() -> None:
    generator = np.random.default_rng(43)
    raw, cut = [], []
    for _ in range(200):
        x = simulate("warm-up", generator, 1_200)
        steadiness_of = steadiness.mser5(x)
        assert steadiness_of.is_valid
        raw.append(x.mean() / 1000 - 1)
        cut.append(x[steadiness_of.cut :].mean() / 1000 - 1)
    assert np.mean(raw) == pytest.approx(-0.0505, abs=0.001)
    assert abs(np.mean(cut)) < 0.004


def test_mser_cuts_little_from_what_is_steady_and_rejects_a_linear_decay() -> None:
    generator = np.random.default_rng(47)
    steady = [steadiness.mser5(simulate("steady", generator, 1_200)) for _ in range(200)]
    decaying = [steadiness.mser5(simulate("linear decay", generator, 1_200)) for _ in range(200)]
    assert np.median([cut.cut for cut in steady]) < 200
    assert sum(not cut.is_valid for cut in decaying) / 200 >= 0.9


@pytest.mark.parametrize(("shape", "kind"), [("steady", "flat"), ("warm-up", "warm-up")])
def test_trials_are_classified_by_what_they_did(shape: str, kind: str) -> None:
    generator = np.random.default_rng(53)
    kinds = [change_points.classify(simulate(shape, generator, 600)) for _ in range(40)]
    assert kinds.count(kind) >= 36
