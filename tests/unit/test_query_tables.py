"""The tables of queries: no spread is rounded to nothing."""

from dataclasses import replace

import pytest

from loadstone.report.tables.query_results import _time
from tests.unit.test_query_limits import times


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        ((0.0121, 0.0124, 0.0127), "0.01240 (0.01210–0.01270)"),
        ((0.12, 0.13, 0.16), "0.136 (0.120–0.160)"),
        ((12.3, 12.31, 12.34), "12.317 (12.300–12.340)"),
        ((12.0, 14.0, 17.0), "14.2 (12.0–17.0)"),
        ((0.5, 0.5), "0.500 (0.500–0.500)"),
        ((0.5,), "0.500"),
    ],
)
def test_a_time_has_the_digits_that_its_spread_needs(
    seconds: tuple[float, ...], shown: str
) -> None:
    assert _time(replace(times(0.1, 0), by_block=dict(enumerate(seconds)))) == shown
