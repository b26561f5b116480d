"""Golden values: each number comes from a published example or another implementation, named beside
it.
"""

import itertools
import math

import numpy as np
import pytest
from scipy import special, stats

from loadstone.analysis.statistics import ratios as statistics
from loadstone.analysis.statistics import significance, student
from loadstone.errors import InputError

# Student's sleep data (Biometrika 6, 1908), as R's `sleep`: hours gained under two drugs.
SLEEP_A = np.array([0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0])
SLEEP_B = np.array([1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4])

# Darwin's maize (Fisher, The Design of Experiments, 1935): cross- minus self-fertilised, 1/8 inch.
DARWIN = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]

# Hollander & Wolfe 1973, table 4.1 (R's help of wilcox.test): no ties, exact two-sided p = 0.2544.
PERMEABILITY_X = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46]
PERMEABILITY_Y = [1.15, 0.88, 0.90, 0.74, 1.21]


def test_the_paired_ratio_is_the_paired_t_interval_of_r_on_a_logarithmic_scale() -> None:
    # R: t.test(extra ~ group, paired): -2.4598858 to -0.7001142 on 9 degrees of freedom.
    ratio = statistics.paired_ratio(np.exp(SLEEP_A), np.exp(SLEEP_B))
    assert ratio.low is not None
    assert ratio.high is not None
    assert math.log(ratio.low) == pytest.approx(0.7001142, abs=1e-6)
    assert math.log(ratio.high) == pytest.approx(2.4598858, abs=1e-6)
    assert math.log(ratio.ratio) == pytest.approx(1.58)
    assert ratio.degrees_of_freedom == 9


def test_the_unpaired_ratio_is_the_welch_interval_of_r_on_a_logarithmic_scale() -> None:
    # R: t.test(extra ~ group): -3.3654832 to 0.2054832 on 17.776 degrees of freedom.
    ratio = statistics.welch_ratio(np.exp(SLEEP_A), np.exp(SLEEP_B))
    assert ratio.low is not None
    assert ratio.high is not None
    assert math.log(ratio.low) == pytest.approx(-0.2054832, abs=1e-6)
    assert math.log(ratio.high) == pytest.approx(3.3654832, abs=1e-6)
    assert ratio.degrees_of_freedom == pytest.approx(17.776, abs=1e-3)


def test_a_single_trial_gives_a_ratio_without_an_interval() -> None:
    for compare in (statistics.paired_ratio, statistics.welch_ratio):
        ratio = compare([100.0], [250.0])
        assert (ratio.ratio, ratio.low, ratio.high) == (pytest.approx(2.5), None, None)


def test_trials_without_any_spread_give_an_interval_of_no_width() -> None:
    ratio = statistics.welch_ratio([2.0, 2.0], [3.0, 3.0])
    assert (ratio.low, ratio.high) == (pytest.approx(1.5), pytest.approx(1.5))


@pytest.mark.parametrize("bad", [[0.0, 1.0], [-1.0], [], [math.inf], [math.nan]])
def test_a_ratio_of_what_is_not_above_zero_is_refused(bad: list[float]) -> None:
    with pytest.raises(InputError):
        statistics.welch_ratio([1.0, 2.0], bad)


def test_pairs_must_match() -> None:
    with pytest.raises(InputError, match=r"\b2\b.*\b1\b"):
        statistics.paired_ratio([1.0, 2.0], [1.0])


def test_the_geometric_mean_does_not_depend_on_which_arm_is_the_base() -> None:
    # Fleming & Wallace 1986, the point of the paper.
    ratios = [0.5, 2.0, 4.0]
    assert statistics.geometric_mean(ratios) == pytest.approx(4 ** (1 / 3))
    inverse = statistics.geometric_mean([1 / ratio for ratio in ratios])
    assert statistics.geometric_mean(ratios) == pytest.approx(1 / inverse)


def test_the_geometric_mean_ratio_is_that_of_the_ratios_of_means() -> None:
    pairs = [([1.0, 3.0], [4.0, 4.0]), ([10.0, 10.0], [5.0, 5.0])]
    ratio = statistics.geometric_mean_ratio(pairs, seed=1)
    assert ratio.ratio == pytest.approx(math.sqrt(2.0 * 0.5))


def test_the_geometric_mean_ratio_turns_round_with_its_arms() -> None:
    generator = np.random.default_rng(3)
    pairs = [(generator.lognormal(0, 0.1, 9), generator.lognormal(1, 0.1, 8)) for _ in range(12)]
    there = statistics.geometric_mean_ratio(pairs, seed=1)
    back = statistics.geometric_mean_ratio([(b, a) for a, b in pairs], seed=1)
    assert there.low is not None
    assert back.high is not None
    assert there.ratio == pytest.approx(1 / back.ratio)
    assert there.low == pytest.approx(1 / back.high, rel=0.003)


def test_equivalence_is_the_one_of_statsmodels() -> None:
    # statsmodels 0.15: ttost_paired and ttost_ind(usevar="unequal") on logarithms, ± ln 1.03, have
    # p = 5.99e-06 and 0.0104.
    a = [1003.0, 1041, 987, 1012, 995, 1020, 1008, 1031]
    b = [1001.0, 1052, 980, 1020, 1003, 1015, 1012, 1040]
    for is_paired in (True, False):
        assert statistics.are_equivalent(a, b, is_paired=is_paired, margin=0.03)
    far = [1.04 * x for x in b]
    assert not statistics.are_equivalent(a, far, is_paired=True, margin=0.03)


def test_equivalence_is_two_one_sided_tests_at_five_percent() -> None:
    generator = np.random.default_rng(8)
    outcomes = set()
    for _ in range(300):
        a, b = generator.lognormal(0, 0.03, 8), generator.lognormal(0.01, 0.03, 8)
        p_values = [
            stats.ttest_ind(
                np.log(b) + shift, np.log(a), equal_var=False, alternative=alternative
            ).pvalue
            for shift, alternative in ((math.log(1.03), "greater"), (-math.log(1.03), "less"))
        ]
        is_equivalent = statistics.are_equivalent(a, b, is_paired=False, margin=0.03)
        assert is_equivalent == (max(p_values) < 0.05)
        outcomes.add(is_equivalent)
    assert outcomes == {True, False}


@pytest.mark.parametrize(("spread", "blocks"), [(0.02, 5), (0.05, 14), (0.30, 399)])
def test_the_number_of_blocks_follows_from_the_spread_of_a_pilot(
    spread: float, blocks: int
) -> None:
    # The two first rows are those of the methodology, whose formula holds t at its limit's order.
    assert abs(statistics.repetitions_needed(spread) - blocks) <= 1


def test_planned_blocks_reach_their_width_and_one_fewer_does_not() -> None:
    for spread in (0.01, 0.02, 0.03, 0.05, 0.06, 0.3, 0.9):
        n = statistics.repetitions_needed(spread)

        def width(count: int, spread: float = spread) -> float:
            return float(stats.t.ppf(0.975, count - 1)) * spread / math.sqrt(count)

        assert width(n) <= math.log(1.03)
        assert n == 2 or width(n - 1) > math.log(1.03)


def test_flipping_signs_gives_fishers_own_number() -> None:
    # Fisher counted 863 of the 32 768 sums as large or larger on one side.
    assert significance.sign_flip_p(DARWIN, seed=1) == pytest.approx(2 * 863 / 32768, abs=1e-12)


def test_sign_flips_are_counted_one_by_one_however_the_pairs_tie() -> None:
    chance = np.random.default_rng(8)
    for pairs in range(1, 13):
        for whole in (chance.integers(-3, 4, pairs), chance.integers(-10_000, 10_000, pairs)):
            # Thirds cannot be told exactly by a machine; their counts of whole numbers can.
            total = abs(int(whole.sum()))
            beyond = sum(
                abs(int(np.dot(signs, whole))) >= total
                for signs in itertools.product([-1, 1], repeat=pairs)
            )
            assert significance.sign_flip_p(whole / 3, seed=1) == beyond / 2**pairs


def test_drawn_sign_flips_come_close_to_all_of_them_and_are_never_zero() -> None:
    most = significance.EXACT_SIGN_FLIPS
    many = [*DARWIN, *DARWIN, 1.0][: most + 1]
    drawn = significance.sign_flip_p(many, seed=1)
    # One pair more that is as good as nothing leaves the exact number of all the others.
    assert drawn == pytest.approx(significance.sign_flip_p(many[:most], seed=1), abs=0.004)
    assert drawn != significance.sign_flip_p(many, seed=2)
    assert 0 < significance.sign_flip_p([1.0] * 40, seed=1) <= 1e-4
    long = [*DARWIN] * 6
    normal = 2 * stats.norm.sf(abs(sum(long)) / math.sqrt(sum(d * d for d in long)))
    assert significance.sign_flip_p(long, seed=1) == pytest.approx(normal, abs=0.004)


@pytest.mark.parametrize(("n", "least"), [(3, 0.25), (5, 0.0625), (6, 0.03125)])
def test_below_six_pairs_nothing_is_significant(n: int, least: float) -> None:
    assert significance.sign_flip_p([1.0] * n, seed=1) == least


def test_mann_whitney_is_exact_on_a_published_example() -> None:
    p = significance.mann_whitney_p(PERMEABILITY_X, PERMEABILITY_Y)
    assert p == pytest.approx(0.2544, abs=5e-5)


def test_mann_whitney_counts_ties_as_all_divisions_do() -> None:
    a, b = [1.0, 2, 2, 3, 5, 5], [2.0, 5, 5, 6, 7]
    pooled = np.array([*a, *b])
    ranks = stats.rankdata(pooled)
    sums = [sum(ranks[list(chosen)]) for chosen in itertools.combinations(range(11), 6)]
    rank_sum = ranks[:6].sum()
    lower = np.mean([total <= rank_sum for total in sums])
    upper = np.mean([total >= rank_sum for total in sums])
    assert significance.mann_whitney_p(a, b) == pytest.approx(2 * min(lower, upper))


def test_mann_whitney_without_ties_is_the_exact_method_of_scipy() -> None:
    generator = np.random.default_rng(2)
    for n_a, n_b in [(2, 2), (4, 7), (10, 9)]:
        a, b = generator.normal(size=n_a), generator.normal(0.8, size=n_b)
        theirs = stats.mannwhitneyu(a, b, method="exact").pvalue
        assert significance.mann_whitney_p(a, b) == pytest.approx(theirs)


def test_large_samples_go_over_to_the_approximation_without_a_jump() -> None:
    generator = np.random.default_rng(4)
    a, b = generator.normal(size=44), generator.normal(0.4, size=44)
    exact = significance.mann_whitney_p(a, b)
    approximate = stats.mannwhitneyu(a, b, method="asymptotic").pvalue
    assert exact == pytest.approx(approximate, rel=0.05)


def test_the_approximation_of_large_samples_is_scipys() -> None:
    generator = np.random.default_rng(5)
    a, b = generator.normal(size=60), generator.normal(0.3, size=70)
    for x, y in ((a, b), (b, a), (np.round(a, 1), np.round(b, 1)), (np.ones(50), np.ones(50))):
        theirs = stats.mannwhitneyu(x, y, method="asymptotic").pvalue
        assert significance.mann_whitney_p(x, y) == pytest.approx(theirs, rel=1e-12)


def test_the_smallest_reachable_p_is_that_of_the_benchstat_table() -> None:
    p_of = [round(significance.smallest_p(n, n), 3) for n in (2, 3, 4, 5)]
    assert p_of == [0.333, 0.1, 0.029, 0.008]
    assert significance.mann_whitney_p([1, 2], [3, 4]) == pytest.approx(1 / 3)


def test_the_effect_size_is_u_over_the_number_of_pairs() -> None:
    u = stats.mannwhitneyu(PERMEABILITY_Y, PERMEABILITY_X).statistic
    assert significance.a12(PERMEABILITY_X, PERMEABILITY_Y) == pytest.approx(u / 50)
    assert significance.a12([1, 1], [1, 1]) == 0.5


def test_holm_is_that_of_statsmodels() -> None:
    # statsmodels 0.15: multipletests(p, method="holm").
    p = [0.01, 0.04, 0.03, 0.005, 0.55, 0.02]
    assert significance.holm(p) == pytest.approx([0.05, 0.09, 0.09, 0.03, 0.55, 0.08])
    assert significance.holm([]) == []


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 5, 9, 10, 99, 100, 999, 1000])
@pytest.mark.parametrize("p", [0.001, 0.05, 0.3, 0.5, 0.75, 0.95, 0.975, 0.99, 0.999])
def test_the_closed_quantile_of_t_is_scipys(freedom: int, p: float) -> None:
    assert student.quantile(p, freedom) == pytest.approx(
        float(special.stdtrit(freedom, p)), rel=1e-12, abs=1e-15
    )


@pytest.mark.parametrize("freedom", [1, 1.5, 2, 3.7, 29.3, 250.5, 3000, 1e5])
def test_tails_and_far_quantiles_of_t_are_scipys(freedom: float) -> None:
    for t in (-50, -3, -1e-3, 0, 1e-6, 0.5, 2.2, 8, 40, 200):
        tail_and_quantile = student.below(t, freedom), student.above(t, freedom)
        theirs = float(special.stdtr(freedom, t)), float(special.stdtr(freedom, -t))
        assert tail_and_quantile == pytest.approx(theirs, rel=1e-9, abs=1e-300)
    for p in (1e-9, 1e-5, 0.025, 0.5, 0.7, 0.9999, 1 - 1e-7):
        theirs_at = float(special.stdtrit(freedom, p))
        assert student.quantile(p, freedom) == pytest.approx(theirs_at, rel=1e-9, abs=1e-12)
    assert student.above(float("inf"), freedom) == 0
    assert student.below(float("inf"), freedom) == 1
