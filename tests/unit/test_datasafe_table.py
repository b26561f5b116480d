"""The layout of the published long run: its numbers are written as its program writes them."""

import pytest

from loadstone.report.tables.datasafe import java_double


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (35.0, "35.0"),
        (552.8199999999999, "552.8199999999999"),
        (0.001, "0.001"),
        (0.00084, "8.4E-4"),
        (9e-5, "9.0E-5"),
        (9999999.5, "9999999.5"),
        (12345678.9, "1.23456789E7"),
        (-12345678.9, "-1.23456789E7"),
        (0.0, "0.0"),
    ],
)
def test_a_number_is_written_as_java_writes_a_double(value: float, text: str) -> None:
    assert java_double(value) == text
