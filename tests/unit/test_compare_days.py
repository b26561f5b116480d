"""Comparisons over several days."""

from dataclasses import replace

import numpy as np
import pytest

from loadstone.analysis.accounts import claims, comparison
from loadstone.analysis.accounts.account import Account
from loadstone.analysis.statistics import ratios as statistics
from tests.unit.test_compare import arm, only, rates


def on_days(account: Account, days: int, starts: int) -> Account:
    """Return an account whose trials began at fixed hours of several days."""
    hour_ns = 3600 * 10**9
    begun = [
        replace(
            measurement, started_unix_ns=hour_ns * (24 * (20_000 + at // starts) + 8 + at % starts)
        )
        for at, measurement in enumerate(account.measurements)
    ]
    assert len(begun) == days * starts
    return replace(account, measurements=tuple(begun))


def test_three_days_are_three_clusters_in_a_ratio_of_pairs() -> None:
    """A day's effect on the ratio does not average out with more starts on that day."""
    generator = np.random.default_rng(3)
    base = 1000 * generator.lognormal(0, 0.05, 9)
    of_day = np.repeat([1.10, 1.20, 1.35], 3)
    values = {"a": list(base), "b": list(base * of_day * generator.lognormal(0, 0.001, 9))}
    a, b = (arm(name, {"put": values[name]}, run="r", is_blocked=True) for name in values)
    plain = only(comparison.compare(a, b))
    case = only(comparison.compare(on_days(a, 3, 3), on_days(b, 3, 3)))
    logs = np.log(np.array(values["b"]) / np.array(values["a"])).reshape(3, 3).mean(1)
    half = statistics.t_quantile(0.95, 2) * logs.std(ddof=1) / np.sqrt(3)
    assert case.ratio.low == pytest.approx(np.exp(logs.mean() - half))
    assert case.ratio.high == pytest.approx(np.exp(logs.mean() + half))
    assert (case.ratio.n_a, case.ratio.days, case.ratio.degrees_of_freedom) == (9, 3, 2)
    assert (plain.verdict, case.verdict) == ("faster", "not resolved")
    words = claims.sentence(comparison.compare(on_days(a, 3, 3), on_days(b, 3, 3)), case)
    assert "t(2)" in words
    assert "9 blocks" in words
    assert "3 days" in words


def test_days_count_in_arms_that_are_no_pairs_where_both_have_several() -> None:
    a, b = arm("a", {"put": rates(1000, n=9)}), arm("b", {"put": rates(1300, n=9, seed=2)})
    case = only(comparison.compare(on_days(a, 3, 3), on_days(b, 3, 3), factors=["name"]))
    assert (case.ratio.n_a, case.ratio.n_b, case.ratio.days) == (9, 9, 3)
    one_day = only(comparison.compare(on_days(a, 1, 9), on_days(b, 3, 3), factors=["name"]))
    assert one_day.ratio.days == 1
    assert case.ratio.method == one_day.ratio.method == "welch-t"
    assert "days" in case.ratio.method_words
    assert "days" not in one_day.ratio.method_words
