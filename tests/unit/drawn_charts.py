"""Charts as the page's own scripts make them, drawn without a browser."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from loadstone import published
from loadstone.analysis import Findings
from loadstone.analysis.accounts.account import Account
from loadstone.report.formats.html import drawn_of_run
from loadstone.report.formats.images import WIDTH, run_script, theme
from loadstone.report.pages.account_rows import account_data
from loadstone.results.record import Run

_SCRIPT = """
const theme = THEME;
return JSON.stringify(allCharts().map((chart) => ({
  name: chart.name, title: chart.title, caption: chart.caption, words: chart.words,
  rows: chart.rows, ceilings: chart.ceilings ?? [],
  legend: Object.fromEntries((chart.legend ?? []).map((item) => [item.label, item.color ?? ""])),
  panels: chart.panels.map((panel) => panel.title),
  svg: fileOf(chart, WIDTH, (name) => theme[name]),
})))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnChart:
    """A chart: the rows that it shows, the titles of its panels, and the colours in its legend."""

    name: str
    title: str
    caption: str
    words: str
    rows: list[dict[str, Any]]
    ceilings: list[dict[str, Any]]
    legend: dict[str, str]
    panels: list[str]
    svg: str


def charts_of(data: Mapping[str, Any]) -> dict[str, DrawnChart]:
    """Return all charts that there are data for, by their names."""
    script = _SCRIPT.replace("THEME", json.dumps(theme())).replace("WIDTH", str(WIDTH))
    drawn = [DrawnChart(**load) for load in json.loads(run_script(data, script))]
    assert len({chart.name for chart in drawn}) == len(drawn)
    return {chart.name: chart for chart in drawn}


def charts_of_run(run: Run, findings: Findings) -> dict[str, DrawnChart]:
    """Return the charts of a run."""
    return charts_of(drawn_of_run(run, findings))


def charts_of_account(account: Account | str) -> dict[str, DrawnChart]:
    """Return the charts of an account, or of a published report by its name."""
    if isinstance(account, str):
        account = published.find(account).account()
    return charts_of(account_data(account))
