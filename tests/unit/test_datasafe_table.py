"""The layout of the published long run: its numbers are written as its program writes them."""

from pathlib import Path

import pytest

from loadstone import importers
from loadstone.analysis.accounts.account import Account, Measurement
from loadstone.formats.imported import Hints
from loadstone.published.tables.datasafe import java_double

PUBLISHED = Path(__file__).parents[1] / "data" / "published"


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


def read(path: Path) -> tuple[Measurement, ...]:
    imported = importers.find("datasafe").read([path], Hints())
    assert isinstance(imported, Account)
    return imported.measurements


def test_a_datasafe_log_may_lack_percentiles_that_few_actions_stand_behind(
    tmp_path: Path,
) -> None:
    path = tmp_path / "log.txt"
    text = (PUBLISHED / "datasafe-log.txt").read_text()
    path.write_text(text.replace("99=113.73, ", "", 1))
    whole = read(PUBLISHED / "datasafe-log.txt")
    less = read(path)
    assert len(less) == len(whole) - 1
    assert [measurement.text for measurement in whole if measurement.text == "113.73"] == ["113.73"]
    assert "113.73" not in [measurement.text for measurement in less]
