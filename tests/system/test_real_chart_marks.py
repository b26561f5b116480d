"""A chart as a file and on its page is one picture: the same marks at the same places."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loadstone import published
from loadstone.analysis import analyse
from loadstone.cli.account_reports import print_accounts
from loadstone.report import REPORTS, Options
from loadstone.report.formats.html import drawn_of_run
from loadstone.report.formats.images import run_script
from loadstone.report.pages.account_rows import account_data
from loadstone.results.store import read_run
from tests.system.browser import MISSING, Browser, open_browser
from tests.unit.synthetic_run import write_rounds, write_sweep
from tests.unit.test_bottleneck import write_skyhook

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(shutil.which("chromium") is None, reason=MISSING),
]

# Each mark by its kind, the group that it stands in, and where and how it is drawn.
MARKS = """
const ATTRIBUTES = ["d", "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "width", "height",
  "fill", "stroke", "stroke-dasharray", "fill-opacity", "transform"];
// Two builds of V8 may differ in the last digit of a logarithm.
const rounded = (text) => text?.replace(/-?\\d+\\.\\d+/g, (number) => (+number).toFixed(2));
const marksOf = (svg) => [...svg.querySelectorAll("circle, path, rect, line, text")]
  .filter((mark) => !mark.closest(".tip") && !mark.closest("clipPath, defs"))
  .map((mark) => [mark.tagName.toLowerCase(), mark.parentNode.getAttribute("class") ?? "",
    mark.textContent,
    ...ATTRIBUTES.map((name) => rounded(mark.getAttribute(name)) ?? "")]);
"""
ON_PAGE = f"""(() => {{ {MARKS}
  return [...document.querySelectorAll("figure")].filter((one) => !one.closest("[hidden]"))
    .map((one) => [one.id, [...one.querySelectorAll("[data-chart] svg")]
      .map((svg) => [Number(svg.getAttribute("width")), marksOf(svg)])]);
}})()"""
IN_FILE = f"""{MARKS}
  const widths = WIDTHS;
  return JSON.stringify(allCharts().map((chart) => [chart.name, chart.panels
    .map((panel, at) => [widths[chart.name][at], drawPanel(panel, widths[chart.name][at], "")])
    .map(([width, svg]) => [width, marksOf(svg)])]));
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with open_browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def check(browser: Browser, page: Path, data: dict[str, Any], width: int) -> dict[str, int]:
    """Compare all charts of a page with those without one; return how many marks each has."""
    browser.open(page.as_uri(), width=width)
    browser.wait_for("document.documentElement.dataset.drawn === 'yes'")
    assert browser.messages == []
    shown = dict(browser.evaluate(ON_PAGE))
    widths = {name: [panel[0] for panel in panels] for name, panels in shown.items()}
    drawn = dict(json.loads(run_script(data, IN_FILE.replace("WIDTHS", json.dumps(widths)))))
    assert drawn.keys() == shown.keys()
    for name, panels in shown.items():
        assert panels, name
        for (_, on_page), (_, in_file) in zip(panels, drawn[name], strict=True):
            differing = [pair for pair in zip(on_page, in_file, strict=False) if pair[0] != pair[1]]
            assert differing == [], name
            assert len(on_page) == len(in_file), name
    return {name: sum(len(marks) for _, marks in panels) for name, panels in shown.items()}


@pytest.mark.parametrize("write", [write_rounds, write_sweep, write_skyhook])
@pytest.mark.parametrize("width", [1400, 390])
def test_charts_of_a_run_are_those_of_its_page(
    browser: Browser, tmp_path: Path, write: Any, width: int
) -> None:
    seconds = {} if write is write_skyhook else {"seconds": 8}
    run = read_run(write(tmp_path / "run", **seconds))
    findings = analyse(run)
    page = tmp_path / "page.html"
    page.write_bytes(REPORTS["html"].render(run, findings, Options()))
    counts = check(browser, page, drawn_of_run(run, findings), width)
    assert {"throughput", "latency", "rate-over-time", "distribution"} <= set(counts)
    assert min(counts.values()) > 8


@pytest.mark.parametrize("name", sorted(published.PUBLISHED))
def test_charts_of_published_numbers_are_those_of_their_page(
    browser: Browser, tmp_path: Path, name: str
) -> None:
    page = tmp_path / "page.html"
    print_accounts([f"published:{name}"], "html", page)
    account = published.find(name).account()
    assert check(browser, page, account_data(account), 1400)
