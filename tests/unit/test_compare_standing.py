"""Claims of comparisons on numbers that are bounds, void, or not distinguishable."""

from dataclasses import replace

import pytest

from loadstone import units
from loadstone.analysis.accounts import claims, comparison
from loadstone.analysis.accounts.account import Account
from loadstone.analysis.judgements.standing import Standing, worst_of
from loadstone.report.result_words import MARKS, compared_note, compared_words
from tests.unit.test_compare import arm, only, rates


@pytest.mark.parametrize("label", ["INSTRUMENT_CPU", "CLIENT_NIC"])
def test_a_number_that_the_client_limited_voids_the_comparison(label: str) -> None:
    b = arm("b", {"get": rates(200)})
    a = as_bound(arm("a", {"get": rates(100)}), label)
    case = only(comparison.compare(a, b))
    assert (case.verdict, case.standings) == ("no ratio", ("bound", "valid"))
    # Two bounds of the client are not compared either.
    assert only(comparison.compare(a, as_bound(b, label))).verdict == "no ratio"


@pytest.mark.parametrize(
    ("standings", "worst"),
    [((), "valid"), (("valid", "bound"), "bound"), (("bound", "void", "valid"), "void")],
)
def test_a_number_of_several_results_is_worth_as_much_as_the_worst(
    standings: tuple[Standing, ...], worst: Standing
) -> None:
    assert worst_of(standings) == worst


def test_bounds_that_both_arms_share_stand_in_a_ratio() -> None:
    a, b = (arm(name, {"get": rates(rate)}) for name, rate in (("a", 100), ("b", 200)))
    shared = [as_bound(account_of_arm, "SHARED_HOST") for account_of_arm in (a, b)]
    compared = comparison.compare(*shared)
    assert only(compared).verdict == "faster"
    case = only(compared)
    means = [f"{MARKS['bound']}{units.format_number(mean)}" for mean in (case.a, case.b)]
    assert compared_words(compared, case) == tuple(means)
    assert compared_note(compared, compared.comparisons)
    across = only(comparison.compare(a, shared[1]))
    assert across.verdict == "no ratio"
    assert claims.ACROSS in claims.reasons([across])


def as_bound(account: Account, rule: str) -> Account:
    bounds = [replace(m, standing="bound", reasons=(rule,)) for m in account.measurements]
    return replace(account, measurements=tuple(bounds))


def test_an_interval_that_touches_one_claims_nothing() -> None:
    """Mann-Whitney may see a difference that the interval does not."""
    a = arm("a", {"get": [100.0, 101.0, 102.0, 103.0, 104.0, 105.0]})
    b = arm("b", {"get": [106.0, 107.0, 108.0, 109.0, 110.0, 400.0]})
    case = only(comparison.compare(a, b))
    assert case.p_holm is not None
    assert case.p_holm < comparison.ALPHA
    assert case.ratio.low is not None
    assert case.ratio.low < 1 < case.ratio.ratio
    assert case.verdict == "not resolved"
