"""What a chart encodes that its data lack: Vega draws nothing of it, and says nothing."""

import re
from collections.abc import Iterable
from typing import Any

from loadstone.report.charts.parts.drawing import Picture


def strange(node: Any, columns: set[str]) -> Iterable[str]:
    """Yield what a specification encodes that is no column of its data."""
    if isinstance(node, list):
        for one in node:
            yield from strange(one, columns)
    if isinstance(node, dict):
        if "values" in node.get("data", {}):
            columns = set(node["data"]["format"]["parse"])
        said = {str(node["field"])} if "field" in node else set()
        said |= set(re.findall(r"datum\.(\w+)", str(node.get("filter", ""))))
        yield from said - columns
        for name, one in node.items():
            if name != "data":
                yield from strange(one, columns)


def check_columns(drawn: Iterable[Picture]) -> None:
    """Require that charts encode columns of their data alone."""
    charts = {one.name: one.specification(with_title=False) for one in drawn}
    assert {name: set(strange(one, set())) for name, one in charts.items()} == {
        name: set() for name in charts
    }
