"""Comparisons of scripts' users by their types: cases of their own, beside those of all users."""

import re
from dataclasses import replace

import pytest

from loadstone.analysis.accounts import claims, comparison
from loadstone.analysis.accounts.account import ACTION_RATE, Account, Measurement
from loadstone.cli.commands.results import compare
from loadstone.report.formats.comparison_page import render_comparisons
from tests.unit.test_compare import arm, rates

TYPES = ("readers", "writers")


def users(name: str, reads: dict[str, float], seed: int) -> Account:
    """Return an arm whose users of each type read at a rate, and do all else at ten a second."""
    everybody = arm(
        name, {"READ (users)": rates(sum(reads.values()), seed=seed)}, metric=ACTION_RATE
    )
    of_types: list[Measurement] = []
    for place, (kind, rate) in enumerate(reads.items()):
        rates_of_operation = {
            "READ (users)": rates(rate, seed=seed + place),
            "ALL (users)": [10.0 + rate] * 10,
        }
        for measurement in arm(name, rates_of_operation, metric=ACTION_RATE).measurements:
            group = {"user_type": kind} | (
                {"space": "inbox"} if "READ" in measurement.operation else {}
            )
            of_types.append(replace(measurement, parameters={**measurement.parameters, **group}))
    return replace(everybody, of_user_types=tuple(of_types))


@pytest.fixture
def compared() -> comparison.Comparison:
    a = users("monday", {"readers": 100, "writers": 50}, 1)
    b = users("tuesday", {"readers": 150, "writers": 50, "guests": 5}, 11)
    return comparison.compare(a, b)


def test_each_type_has_its_rows_and_a_correction_of_its_own(
    compared: comparison.Comparison,
) -> None:
    assert [pair.case["operation"] for pair in compared.comparisons] == ["READ (users)"]
    by_type = compared.by_user_type
    assert by_type is not None
    verdicts = {
        (pair.case["user_type"], pair.case["operation"]): pair.verdict
        for pair in by_type.comparisons
    }
    assert verdicts["readers", "READ (users)"] == "faster"
    assert verdicts["writers", "READ (users)"] in ("equivalent", "not resolved")
    assert {kind for kind, _ in verdicts} == set(TYPES)
    (reading,) = (
        pair for pair in by_type.comparisons
        if (pair.case["user_type"], pair.case.get("space")) == ("readers", "inbox")
    )  # fmt: skip
    assert reading.ratio.ratio == pytest.approx(1.5, rel=0.03)
    # ALL is the sum of others, so that there is no mean over the rows.
    assert by_type.geometric_mean is None
    assert {case["user_type"] for case in by_type.only_b} == {"guests"}
    # All users together are compared in the same way as without types.
    plain = [
        replace(account, of_user_types=())
        for account in (
            users("monday", {"readers": 100, "writers": 50}, 1),
            users("tuesday", {"readers": 150, "writers": 50, "guests": 5}, 11),
        )
    ]
    assert replace(compared, by_user_type=None) == comparison.compare(*plain)


def test_arms_without_a_type_in_common_have_no_such_rows() -> None:
    a, b = users("a", {"readers": 100}, 1), users("b", {"guests": 100}, 2)
    assert comparison.compare(a, b).by_user_type is None
    assert comparison.compare(a, replace(b, of_user_types=())).by_user_type is None


def test_rows_of_types_are_printed_drawn_and_in_the_document(
    compared: comparison.Comparison, capsys: pytest.CaptureFixture[str]
) -> None:
    compare._print(compared, is_control=False, is_full=False)
    assert "readers" not in capsys.readouterr().out
    assert compared.by_user_type is not None
    compare._print_types(compared.by_user_type, is_full=True)
    printed = capsys.readouterr().out
    left = len(compared.by_user_type.only_b)
    assert re.search(rf"\b{left} cases\b.*\b{compared.b}\b", printed)
    document = claims.to_json(compared)["by_user_type"]
    assert isinstance(document, dict)
    assert len(document["comparisons"]) == 4
    page = render_comparisons([compared], ()).decode()
    for text in (printed, page):
        assert all(kind in text for kind in TYPES)


def test_one_type_can_be_asked_for(compared: comparison.Comparison) -> None:
    a = users("a", {"readers": 100, "writers": 50}, 1)
    narrowed = compare._narrowed(a, [("user_type", "readers")])
    assert narrowed.measurements == a.measurements
    assert {of_user_type.parameters["user_type"] for of_user_type in narrowed.of_user_types} == {
        "readers"
    }
    compare._check_facts([("user_type", "readers")], [(a, a)])
