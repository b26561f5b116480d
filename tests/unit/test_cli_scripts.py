"""Messages while a long script is read."""

import pytest

from loadstone.cli.running import scripts
from loadstone.script.table import Action

ACTIONS = [Action(row, session=0, action="LIST") for row in range(1, 8)]


def test_a_script_that_takes_long_says_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(scripts, "SAID_EVERY_S", 0.0)
    monkeypatch.setattr(scripts, "LOOKED_EVERY", 3)
    assert list(scripts.watched(iter(ACTIONS), "mine.csv")) == ACTIONS
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if '"mine.csv"' in line] == lines
    assert [line.split()[2] for line in lines] == ["3", "6", "all"]


def test_a_script_that_is_read_at_once_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(scripts.watched(iter(ACTIONS), "mine.csv")) == ACTIONS
    assert capsys.readouterr().err == ""
