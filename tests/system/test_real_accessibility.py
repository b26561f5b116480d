"""Pages for everybody: axe-core finds nothing wrong, the keyboard reaches all, phones fit."""

import importlib.util
import re
from pathlib import Path

import pytest

from loadstone.analysis.accounts import comparison, judged_account
from loadstone.analysis.accounts.history import trace
from loadstone.card.table import QUESTIONS
from loadstone.documents.card import Card, CardRow
from loadstone.report.formats.card_page import render_cards
from loadstone.report.formats.comparison_page import render_comparisons
from loadstone.report.formats.history_page import render_history
from loadstone.results.store import read_run
from loadstone.view.rendering import PageRenderer
from loadstone.view.run_list import RunList
from tests.system.browser import MISSING, PROGRAM, open_browser
from tests.system.test_real_pages import page_of
from tests.unit.runs_of_all_kinds import RUNS
from tests.unit.synthetic_run import write_rounds, write_sweep
from tests.unit.test_comparison_page import write_targets
from tests.unit.test_history import entry, noisy

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(PROGRAM is None, reason=MISSING),
]

# Found and not imported: the rest of the package is for a browser's driver that is not used here.
AXE = importlib.util.find_spec("axe_playwright_python")
OF_KINDS = ("hosts", "script", "queries", "streams", "search", "void by the client")
PAGES = ("rounds", "sweep", "comparison", "history", "runs", "card", *OF_KINDS)
DRAWN = "document.documentElement.dataset.drawn"


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    account = judged_account.read_account(read_run(write_targets(folder / "two")))
    compared = comparison.compare(account.only("one"), account.only("other"), controls=(account,))
    nights = trace(map(entry, range(16), noisy([1000.0] * 10 + [800.0] * 6)))
    made = {
        "rounds": page_of(write_rounds(folder / "rounds", seconds=6)).encode(),
        "sweep": page_of(write_sweep(folder / "sweep", seconds=6)).encode(),
        "comparison": render_comparisons([compared], ()),
        "history": render_history(nights, "nightly"),
        "runs": PageRenderer(RunList(folder)).index().body,
        "card": render_cards([card_of_noes()]),
    }
    made |= {name: page_of(RUNS[name](folder / name)).encode() for name in OF_KINDS}
    assert tuple(made) == PAGES
    for name, content in made.items():
        (folder / f"{name}.html").write_bytes(content)
    return folder


def card_of_noes() -> Card:
    """Return a card with the most words: each answer is a no, with a detail and what it means."""
    rows: list[CardRow] = [
        {"group": group, "name": question.name, "question": question.text, "answer": "no",
         "detail": "412 PreconditionFailed", "means": question.means, "usual": False}
        for group, questions in QUESTIONS.items()
        for question in questions
    ]  # fmt: skip
    return {
        "target": "http://store.example.org:9000", "protocol": "S3", "server": "a server",
        "place": "place", "when": "2026-01-01T00:00:00+00:00", "seconds": 1.5, "requests": 240,
        "loadstone": "0", "rows": rows,
    }  # fmt: skip


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with open_browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


def violations(browser):
    if AXE is None or AXE.origin is None:
        pytest.skip("axe-core is not installed here: make servers")
    script = Path(AXE.origin).with_name("axe.min.js").read_text(encoding="utf-8")
    browser.evaluate(f"{script}; true")
    return browser.evaluate(
        "axe.run(document).then((found) => found.violations.map((one) =>"
        " `${one.id}: ${one.nodes.length} × ${one.nodes[0].html.slice(0, 160)}"
        " ${one.nodes[0].failureSummary}`))"
    )


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize(
    ("width", "is_dark"),
    [(1400, False), (1400, True), (390, False)],
    ids=["light", "dark", "phone"],
)
def test_axe_finds_nothing_wrong(browser, pages, name, width, is_dark):
    browser.open((pages / f"{name}.html").as_uri(), width=width, is_dark=is_dark)
    browser.wait_for(DRAWN)
    browser.evaluate("for (const one of document.querySelectorAll('details')) one.open = true; 1")
    assert violations(browser) == []
    assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert not browser.messages


def test_a_phone_shows_all_of_a_card(browser, pages):
    browser.open((pages / "card.html").as_uri(), width=390)
    browser.wait_for(DRAWN)
    scroll = "document.querySelector('#result-table').parentElement"
    assert browser.evaluate(f"{scroll}.scrollWidth <= {scroll}.clientWidth")


def test_axe_finds_what_is_wrong(browser, pages):
    """The check is no check if it misses a picture without words and grey on grey."""
    browser.open((pages / "history.html").as_uri())
    browser.wait_for(DRAWN)
    browser.evaluate(
        "document.querySelector('main').insertAdjacentHTML('beforeend',"
        ' \'<img src="data:,"><p style="color: #aaa; background: #bbb">grey</p>\'); 1'
    )
    rules_broken = " ".join(violations(browser))
    assert "image-alt" in rules_broken
    assert "color-contrast" in rules_broken


def test_the_keyboard_skips_to_the_results_and_sorts_them(browser, pages):
    browser.open((pages / "rounds.html").as_uri())
    browser.wait_for(DRAWN)
    browser.press("Tab", 9)
    assert browser.evaluate("document.activeElement.className") == "skip"
    browser.press("Enter", 13, "\r")
    browser.wait_for("location.hash === '#results'")
    for _ in range(40):
        browser.press("Tab", 9)
        if browser.evaluate("document.activeElement.closest('#result-table th') !== null"):
            break
    browser.press("Enter", 13, "\r")
    head = "document.activeElement.closest('th').getAttribute('aria-sort')"
    assert browser.evaluate(head) in ("ascending", "descending")


@pytest.mark.parametrize("name", [name for name in PAGES if name != "card"])
def test_a_page_prints_its_answer_on_two_sheets(browser, pages, name, tmp_path):
    browser.open((pages / f"{name}.html").as_uri(), media="print", width=794)
    browser.wait_for(DRAWN)
    browser.paper(tmp_path / "page.pdf")
    printed = (tmp_path / "page.pdf").read_bytes()
    assert printed.startswith(b"%PDF")
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 2
    assert browser.evaluate("getComputedStyle(document.body).backgroundColor") == (
        "rgb(255, 255, 255)"
    )
