"""Sweeps: where throughput saturates, which model holds, and where none does."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import optimize

from loadstone.analysis.statistics import scaling
from loadstone.errors import InputError

LOADS = [1, 4, 8, 12, 16, 20, 24, 40, 70, 100, 150, 200]
UPLOADS_4K = [7.3, 25.1, 33.9, 36.4, 36.7, 42.9, 43, 47.3, 49.6, 50.9, 52.3, 51.2]
UPLOADS_10M = [1.7, 6.1, 9.1, 10.3, 10.7, 10.8, 10.9, 11, 11.1, 10.9]
DOWNLOADS_10M = [2.2, 7.7, 8.7, 9.5, 9.4, 9.3, 9.28, 9.8, 9.7, 9.7]
DOWNLOADS_4K = [51.7, 186.8, 358.2, 423.5]

# Throughput of the SPEC SDM benchmark against virtual users, as in R's package `usl`.
SDM_LOADS = [1, 18, 36, 72, 108, 144, 216]
SDM_RATES = [64.9, 995.9, 1652.4, 1853.2, 1828.9, 1775.0, 1702.2]


def points(loads: list[float], rates: list[float]) -> list[scaling.ScalingPoint]:
    return [scaling.ScalingPoint(load=n, rate=x) for n, x in zip(loads, rates, strict=False)]


@pytest.mark.parametrize(
    ("rates", "load", "knee"),
    [(UPLOADS_4K, 100, 7.16), (UPLOADS_10M, 16, 6.53), (DOWNLOADS_10M, 12, 4.45)],
)
def test_the_saturation_point_is_the_first_load_at_95_percent(
    rates: list[float], load: float, knee: float
) -> None:
    saturation = scaling.saturation(points(LOADS, rates))
    assert saturation.load == load
    assert saturation.knee == pytest.approx(knee, abs=0.01)
    assert saturation.is_reached
    assert not saturation.is_certain


def test_intervals_move_the_saturation_point_to_where_it_is_certain() -> None:
    sweep = [
        scaling.ScalingPoint(load=1, rate=50, low=48),
        scaling.ScalingPoint(load=2, rate=96, low=90),
        scaling.ScalingPoint(load=4, rate=100, low=97),
    ]
    saturation = scaling.saturation(sweep)
    assert (saturation.load, saturation.is_certain) == (4, True)


def test_a_sweep_that_still_rises_has_not_reached_saturation() -> None:
    saturation = scaling.saturation(points(LOADS, DOWNLOADS_4K))
    assert not saturation.is_reached
    assert saturation.load_of_max == 12


@pytest.mark.parametrize(
    ("rates", "knee"),
    [(UPLOADS_4K, 20), (UPLOADS_10M, 12), (DOWNLOADS_10M, 12), (DOWNLOADS_4K, None)],
)
def test_kneedle_on_a_logarithmic_axis_is_that_of_kneed(
    rates: list[float], knee: float | None
) -> None:
    # kneed 0.9: KneeLocator(log2(N), X, S=1, curve="concave").knee
    assert scaling.kneedle(points(LOADS, rates)) == knee


def test_a_flat_sweep_has_no_knee() -> None:
    assert scaling.kneedle(points([1, 2, 4], [10, 10, 10])) is None


@pytest.mark.parametrize(
    ("gamma", "alpha", "beta"), [(100, 0.05, 0.001), (20, 0.3, 0.0), (7, 0.0, 0.0002), (3, 0, 0)]
)
def test_the_law_is_recovered_from_points_that_follow_it(
    gamma: float, alpha: float, beta: float
) -> None:
    loads = np.array([1, 2, 4, 8, 16, 32, 64, 128], dtype=float)
    rates = gamma * loads / (1 + alpha * (loads - 1) + beta * loads * (loads - 1))
    parameters = scaling.usl_parameters(loads, rates)
    assert parameters == (
        pytest.approx(gamma, rel=1e-4),
        pytest.approx(alpha, abs=1e-5),
        pytest.approx(beta, abs=1e-7),
    )
    model = scaling.fit(points(list(loads), list(rates)))
    assert model.kind == "usl"
    assert model.residual_max < 1e-3


def test_the_law_of_a_published_benchmark_agrees_with_the_package_usl() -> None:
    # R usl on the same data: alpha 0.0277, beta 0.000104, peak at 96.5. It fits X, this ln X.
    model = scaling.fit(points(SDM_LOADS, SDM_RATES))
    assert model.kind == "usl"
    assert model.beta == pytest.approx(0.000104, rel=0.15)
    assert model.peak == pytest.approx(96.5, rel=0.06)


@pytest.mark.parametrize("rates", [UPLOADS_4K, DOWNLOADS_10M])
def test_a_link_s_ceiling_is_not_forced_into_the_law(rates: list[float]) -> None:
    model = scaling.fit(points(LOADS, rates))
    assert model.kind == "two lines"
    assert model.why_not_usl is not None
    assert "residuals" in model.why_not_usl
    assert model.ceiling == pytest.approx(max(rates), rel=0.2)


def test_too_few_loads_are_not_fitted() -> None:
    model = scaling.fit(points(LOADS, DOWNLOADS_4K))
    assert model.kind == "two lines"
    assert model.why_not_usl is not None
    assert model.why_not_usl.startswith("4 loads")
    assert model.why_not_usl.endswith(" 6")


def test_two_lines_are_recovered() -> None:
    loads = [1.0, 2, 4, 8, 16, 32, 64]
    model = scaling.fit(points(loads, [min(10 * n, 100.0) for n in loads]))
    assert model.kind == "two lines"
    assert model.gamma == pytest.approx(10)
    assert model.ceiling == pytest.approx(100)
    assert model.residual_max < 1e-9


@pytest.mark.parametrize(
    "sweep", [[], [(1.0, 5.0)], [(1.0, 5.0), (1.0, 6.0)], [(1.0, 0.0), (2.0, 1.0)]]
)
def test_an_invalid_sweep_is_refused(sweep: list[tuple[float, float]]) -> None:
    with pytest.raises(InputError):
        scaling.saturation([scaling.ScalingPoint(load=n, rate=x) for n, x in sweep])


def test_the_law_has_its_peak_where_its_derivative_is_zero() -> None:
    model = scaling.fit(points(SDM_LOADS, SDM_RATES))
    assert model.peak is not None
    n = model.peak * np.array([0.99, 1.0, 1.01])
    around = n / (1 + model.alpha * (n - 1) + model.beta * n * (n - 1))
    assert around[1] == max(around)
    assert math.isfinite(model.peak)


@pytest.mark.parametrize("seed", range(12))
def test_no_law_is_nearer_than_the_one_found(seed: int) -> None:
    generator = np.random.default_rng(seed)
    loads = np.array([1, 2, 4, 8, 16, 32, 64, 100.0])
    alpha, beta = (0, 0.02, 0.4)[seed % 3], (0, 1e-5, 1e-2)[seed // 3 % 3]
    shape = loads / (1 + alpha * (loads - 1) + beta * loads * (loads - 1))
    rates = 900 * shape * np.exp(generator.normal(0, 0.05, size=loads.size))

    def residuals(parameters: Any) -> Any:
        log_gamma, a, b = parameters
        return log_gamma + np.log(loads / (1 + a * (loads - 1) + b * loads * (loads - 1)) / rates)

    theirs = min(
        optimize.least_squares(
            residuals, [math.log(900), start, 1e-4], bounds=([-np.inf, 0, 0], np.inf),
            x_scale=[1, 0.1, 1e-3], xtol=1e-12, ftol=1e-12,
        ).cost
        for start in (1e-3, 0.1, 0.5)
    )  # fmt: skip
    gamma, *others = scaling.usl_parameters(loads, rates)
    ours = residuals([math.log(gamma), *others])
    assert float(ours @ ours) / 2 <= theirs * (1 + 1e-6) + 1e-12
