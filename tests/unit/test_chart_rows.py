"""A chart encodes columns that its rows have: of others Vega draws nothing, and says nothing."""

import ast
import importlib
import inspect
import re
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import altair as alt
import pytest

import loadstone.report.charts
from loadstone import published
from loadstone.analysis import analyse
from loadstone.analysis.standards.plausibility import judge
from loadstone.report.charts.overview import evidence_pictures, pictures
from loadstone.report.charts.parts import drawing
from loadstone.report.charts.parts.drawing import ChartRow, Picture, TimedRow, panels
from loadstone.report.formats.account_page import pictures_of_account
from loadstone.results.store import read_run
from tests.unit.chart_columns import check_columns, strange
from tests.unit.synthetic_run import write_rounds, write_sweep

CHARTS = Path(str(loadstone.report.charts.__file__)).parent
MODULES = [
    importlib.import_module(
        ".".join(("loadstone.report.charts", *path.relative_to(CHARTS).with_suffix("").parts))
    )
    for path in sorted(CHARTS.rglob("*.py"))
]
ENCODED = re.compile(r"(\w+):[QNOT]$")
OF_AXIS = {"value", "label"}
"""What an expression for the labels of an axis knows besides columns."""


def columns_of(kinds: Iterable[type[ChartRow]]) -> set[str]:
    return {name for kind in kinds for name in inspect.get_annotations(kind)} | {"panel", "series"}


def rows_known_to(module: ModuleType) -> set[type[ChartRow]]:
    """Return the kinds of rows that a module has to do with, and what they are made from."""
    known = [one for one in vars(module).values() if inspect.isclass(one)]
    of_rows = [one for one in known if issubclass(one, ChartRow)]
    return {base for one in of_rows for base in one.__mro__ if issubclass(base, ChartRow)}


def encoded_by(module: ModuleType) -> set[str]:
    """Return the columns that a module's text speaks of."""
    tree = ast.parse(inspect.getsource(module))
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    found: set[str] = set()
    for text in texts:
        if isinstance(text, str):
            found |= {match[1] for match in [ENCODED.fullmatch(text)] if match}
            found |= set(re.findall(r"datum\.(\w+)", text)) - OF_AXIS
    return found


def test_a_column_that_no_row_has_is_found() -> None:
    rows = [TimedRow(panel="", series="one", trial="0001", elapsed=1.0)]
    chart = alt.Chart().mark_line().encode(x="elapsed:Q", y="speed:Q")
    picture = Picture(name="a", title="", caption="", chart=panels(chart, rows, height=9))
    assert list(strange(picture.specification(with_title=False), set())) == ["speed"]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.split("charts")[-1])
def test_a_module_encodes_columns_of_its_own_rows(module: ModuleType) -> None:
    known = rows_known_to(module)
    if module is drawing:
        # Axes that all charts share: which of them have the column, their pictures tell below.
        known = set().union(*map(rows_known_to, MODULES))
        assert len(known) > 12
    assert encoded_by(module) - columns_of(known) == set()


@pytest.mark.parametrize("name", sorted(published.PUBLISHED))
def test_charts_of_published_numbers_encode_what_their_rows_have(name: str) -> None:
    account = published.find(name).account()
    check_columns(pictures_of_account(account, judge(account)))


@pytest.mark.parametrize("write", [write_rounds, write_sweep])
def test_charts_of_runs_encode_what_their_rows_have(write: Any, tmp_path: Path) -> None:
    found = analyse(read_run(write(tmp_path / "run", seconds=8)))
    drawn = (*pictures(found), *evidence_pictures(found))
    assert len(drawn) > 5
    check_columns(drawn)
