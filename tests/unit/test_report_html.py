"""The page and the charts: whole, offline, small, and with the answer first."""

import json
import re
from html.parser import HTMLParser

import pytest

from loadstone.analysis import analyse
from loadstone.analysis.answers.answer import answer_of
from loadstone.analysis.answers.headline import headline_of
from loadstone.published import find_layout
from loadstone.report import REPORTS, Options
from loadstone.report.opening import opening
from loadstone.report.pages.frame import SCRIPTS, joined_scripts
from loadstone.results.store import read_run
from tests.unit.synthetic_run import Folder, trial, trial_rows, write_rounds, write_sweep

LOADING_ATTRIBUTES = {
    "src",
    "href",
    "srcset",
    "data",
    "poster",
    "action",
    "background",
    "xlink:href",
}
VOID_ELEMENTS = {"meta", "link", "br", "hr", "img", "input"}


class Page(HTMLParser):
    """Fetched addresses, unclosed elements, and the text that a reader sees."""

    def __init__(self, text):
        super().__init__()
        self.references, self.open, self.words, self.ids = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.references += [value for name, value in attributes if name in LOADING_ATTRIBUTES]
        self.ids += [value for name, value in attributes if name == "id"]
        if tag not in VOID_ELEMENTS:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.words.append(data)


@pytest.fixture(scope="module", params=[write_rounds, write_sweep])
def run(request, tmp_path_factory):
    return read_run(request.param(tmp_path_factory.mktemp("run"), seconds=8))


@pytest.fixture(scope="module")
def page(run):
    return REPORTS["html"].render(run, analyse(run), Options()).decode()


def test_the_page_refers_to_nothing_outside_itself(page):
    for reference in Page(page).references:
        assert reference.startswith(("#", "data:,")), reference
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)[1]
    assert "url(" not in style
    assert "@import" not in style


def data_of(page):
    text = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(text[1])


def test_charts_show_the_findings_of_the_analysis(page, run):
    findings = analyse(run)
    answer = answer_of(findings)
    drawn = data_of(page)
    assert len(drawn["results"]) == len(answer.results) > 0
    for shown, result in zip(drawn["results"], answer.results, strict=True):
        assert (shown["target"], shown["n"]) == (result.target, len(result.trial_rates))
        assert shown["rate"] == pytest.approx(result.requests_per_s, rel=1e-4)
        assert (shown["low"] is not None, shown["standing"]) == (
            result.rate.is_interval,
            result.standing,
        )
        assert shown["p99"] == result.headline.quantiles["p99"]
        assert shown["trial_rates"] == pytest.approx(
            [rate.requests_per_s for rate in result.trial_rates], rel=1e-4
        )
    assert len(drawn["timelines"]) == len(findings.timelines)
    assert len(drawn["rounds"]) == (12 if run.name == "hummingbird-4k" else 0)


def test_the_table_is_sorted_by_what_the_analysis_found(page, run):
    rates = [float(value) for value in re.findall(r'data-value="([^"]+)">[^<]*/s</td>', page)]
    shown = [result.requests_per_s for result in answer_of(analyse(run)).results]
    # To the last digit: rates that differ less would be in any order.
    assert [rate for rate in shown if rate in rates] == shown


def test_the_first_screen_says_the_headline_and_its_tiles(page, run):
    findings = analyse(run)
    headline = headline_of(findings, answer_of(findings))
    text = " ".join(" ".join(Page(page).words).split())
    assert headline.sentence in text
    for tile in headline.tiles:
        assert tile.value in text
        assert tile.note in text


@pytest.mark.parametrize("template", SCRIPTS)
def test_no_two_modules_of_a_page_declare_one_name(template):
    names = re.findall(
        r"^(?:async )?(?:function|const|let|class) +(\w+)", joined_scripts(template), re.MULTILINE
    )
    assert len(names) == len(set(names)), sorted(n for n in names if names.count(n) > 1)
    assert not re.search(r"^(import|export) ", joined_scripts(template), re.MULTILINE)


def test_the_table_of_a_published_layout_is_a_table(run):
    options = Options(layout=find_layout("hummingbird"))
    if run.name == "hummingbird-4k":
        page = REPORTS["html"].render(run, analyse(run), options).decode()
        asked = page.split('id="asked"')[1].split("</table>")[0]
        assert asked.count("<tr>") == 7
        assert "|" not in asked


def test_a_failed_target_is_named_first(tmp_path):
    folder = Folder(tmp_path / "run", "two", seconds=4)
    folder.add(trial(1, "minio", "get"), 700)
    broken = trial(2, "ceph", "get")
    rows = [
        row
        for row in trial_rows(broken, 100, 4, failed_per_s=50, kind="connect")
        if row["outcome"] != "ok"
    ]
    examples = {"connect": "connection refused <b>"}
    folder.write(broken, rows, changes={"error_examples": examples})
    run = read_run(folder.close(campaign={}, campaign_file=""))
    page = REPORTS["html"].render(run, analyse(run), Options()).decode()
    first = re.search(r'<p class="headline">(.*?)</p>', page)[1]
    assert first.startswith("ceph failed: 200 × connect: connection refused &lt;b&gt;")
    assert "minio" in first
    assert "700/s" in first


def test_every_element_is_closed_and_every_anchor_exists(page):
    parsed = Page(page)
    assert parsed.open == []
    assert len(parsed.ids) == len(set(parsed.ids))
    for reference in parsed.references:
        if reference.startswith("#"):
            assert reference[1:] in parsed.ids


def test_the_page_stays_below_three_megabytes(page):
    assert len(page.encode()) < 3_000_000


def test_the_answer_stands_before_the_charts_and_the_evidence(page):
    text = " ".join(Page(page).words)
    words = ("Best get rate", "Rate: geometric mean", "What to know", "Every trial")
    begin = text.index("Best get rate")
    places = [text.find(word, begin) for word in words]
    assert places == sorted(places)


def test_without_usable_results_no_rate_comes_first(tmp_path):
    folder = Folder(tmp_path / "run", "void", seconds=4)
    # More requests in flight than clients: the books do not agree.
    broken = trial(1, "ceph", "get")
    rows = trial_rows(broken, 900, 4)
    broken["load"]["clients"] = 1
    folder.write(broken, rows)
    run = read_run(folder.close(campaign={}, campaign_file=""))
    first = opening(run, analyse(run))
    assert first.headline.standing == "void"
    assert "/s" not in first.headline.sentence


def test_the_page_carries_its_evidence(page, run):
    text = " ".join(Page(page).words)
    for words in (run.manifest["run"], "client-1", "Example CPU", "name: ", "no /proc/pressure"):
        assert words in text


def test_names_from_a_campaign_cannot_become_markup(tmp_path):
    folder = Folder(tmp_path / "run", "<script>alert(1)</script>", seconds=4)
    folder.add(trial(1, "</script><b>", "get"), 100)
    folder.close(campaign={}, campaign_file="</pre><script>")
    run = read_run(folder.path)
    page = REPORTS["html"].render(run, analyse(run), Options()).decode()
    assert "<script>alert" not in page
    assert Page(page).open == []


def test_a_run_without_results_still_makes_a_page(tmp_path):
    folder = Folder(tmp_path / "run", "nothing", seconds=4)
    folder.skip(trial(1, "ceph", "get"))
    folder.close(campaign={}, campaign_file="")
    run = read_run(folder.path)
    for name in ("html", "terminal", "markdown", "json", "csv", "hlog", "openmetrics"):
        content = REPORTS[name].render(run, analyse(run), Options(is_full=True))
        if name in ("html", "terminal", "markdown"):
            assert "no result" in content.decode()


@pytest.mark.long(cpu_s=5)
def test_a_hundred_trials_of_an_hour_still_make_a_small_page(tmp_path):
    folder = Folder(tmp_path / "run", "long", seconds=240)
    for number in range(1, 101):
        document = trial(number, "ceph", "get", clients=number)
        folder.add(document, 50)
    folder.close(campaign={}, campaign_file="")
    run = read_run(folder.path)
    assert len(REPORTS["html"].render(run, analyse(run), Options())) < 3_000_000
