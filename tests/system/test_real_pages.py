"""Pages in a browser: charts, filters, sorting, and the width of a phone."""

import json
import re
import shutil
import subprocess

import pytest

from loadstone.analysis import analyse
from loadstone.report import REPORTS, Options
from loadstone.results.store import read_run
from tests.unit.synthetic_run import write_rounds, write_sweep

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        shutil.which("chromium") is None,
        reason="no chromium to open a page with: apt-get install chromium",
    ),
]

# A reader's actions, and the resulting page content, as JSON in the page's title.
ACTIONS = """
<script type="module">
const text = (selector) => [...document.querySelectorAll(selector)].map((one) => one.textContent);
const found = { wide: document.documentElement.scrollWidth > innerWidth };
const figures = [...document.querySelectorAll("figure")].filter((one) => !one.closest("[hidden]"));
found.charts = figures.map((one) => one.id);
found.drawn = figures.filter((one) => one.querySelector("svg[role=img]")).length;
found.broken = figures.some((one) => one.innerHTML.includes("NaN"));
document.querySelector("#result-table th:nth-child(3) button").click();
found.sorted = text("#result-table tbody tr:not([hidden]) td:nth-child(3)");
const filters = [...document.querySelectorAll("#filters select")];
for (const [place, value] of Object.entries(CHOICES)) {
  filters[place].value = value;
  filters[place].dispatchEvent(new Event("change"));
}
found.filtered = text("#result-table tbody tr:not([hidden]) td:first-child");
found.bars = document.querySelectorAll("#throughput [data-chart] rect").length;
const before = getComputedStyle(document.body).backgroundColor;
document.getElementById("theme").click();
found.themes = [before, getComputedStyle(document.body).backgroundColor];
document.title = JSON.stringify(found);
</script>
"""


def opened(page: str, tmp_path, *, choices: dict[int, str], width: int = 1400):
    path = tmp_path / "report.html"
    actions = ACTIONS.replace("CHOICES", json.dumps(choices))
    path.write_text(page.replace("</body>", f"{actions}</body>"))
    command = [
        "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width},900",
        "--virtual-time-budget=10000", "--dump-dom", path.as_uri(),
    ]  # fmt: skip
    drawn = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    title = re.search(r"<title>(.*?)</title>", drawn, re.DOTALL)[1]
    return json.loads(title.replace("&amp;", "&").replace("&quot;", '"'))


def page_of(folder):
    run = read_run(folder)
    return REPORTS["html"].render(run, analyse(run), Options()).decode()


@pytest.mark.parametrize("width", [1400, 520])
def test_filters_and_sorting_act_on_table_and_charts(tmp_path, width):
    page = page_of(write_rounds(tmp_path / "run", seconds=6))
    state = opened(page, tmp_path, choices={1: "get", 2: "2"}, width=width)
    assert not state["wide"], "no sideways scrolling"
    assert not state["broken"]
    assert state["drawn"] == len(state["charts"]) >= 9
    rates = [float(rate.rstrip("/s").replace(",", "")) for rate in state["sorted"]]
    assert rates == sorted(rates, reverse=True)
    assert len(rates) == 6
    assert sorted(state["filtered"]) == ["ceph", "hummingbird"]
    assert state["bars"] == 2
    assert state["themes"][0] != state["themes"][1]


def test_a_sweep_is_drawn_along_its_load(tmp_path):
    state = opened(page_of(write_sweep(tmp_path / "run", seconds=6)), tmp_path, choices={})
    assert {"throughput", "latency", "rate-latency", "distribution"} <= set(state["charts"])
    assert "heatmap" not in state["charts"]
    assert state["drawn"] == len(state["charts"])
    assert not state["broken"]
