"""The page of a history: its numbers are those of the history, and bad names render."""

import re
from dataclasses import replace

import pytest

from loadstone.analysis.accounts.account import RATE
from loadstone.analysis.accounts.history import trace
from loadstone.cli import main
from loadstone.report.formats.history_page import TRENDS_DRAWN, render_history
from tests.unit.test_history import entry, noisy, write_night
from tests.unit.test_report_html import Page, data_of


@pytest.fixture(scope="module")
def history():
    values = noisy([1000.0] * 10 + [800.0] * 6)
    return trace([entry(*point) for point in enumerate(values)])


@pytest.fixture(scope="module")
def page(history):
    return render_history(history, "nightly").decode()


def test_points_and_changes_are_those_of_the_history(page, history):
    (drawn,) = data_of(page)["trends"]
    (trend,) = history.trends
    assert [point["value"] for point in drawn["points"]] == [point.value for point in trend.points]
    assert [(change["run"], change["is_worse"]) for change in drawn["changes"]] == [
        ("night-10", True)
    ]
    assert drawn["expected"] == list(trend.expected)
    assert "night-10 on, 2026-01-11: 1,0" in page
    assert "loadstone: 0.1.0 and 0.2.0" in page


@pytest.mark.parametrize(
    ("levels", "sentence"),
    [
        ([1000.0] * 6, r"\bnone of 1\b"),
        ([1000.0] * 6 + [500.0], r"\b1 of 1\b.*: s3, .*\bget\b"),
        ([1000.0] * 2, "Too few"),
        ([1000.0] * 8 + [500.0] * 4, r"; 1 .* 2026-01-01\."),
    ],
)
def test_the_sentence_answers_for_the_newest_run(levels, sentence):
    page = render_history(trace(map(entry, range(20), noisy(levels))), "nightly").decode()
    assert re.search(sentence, re.search(r'<p class="headline">(.*?)</p>', page)[1])


def test_regressions_are_drawn_first():
    nights = []
    for night in range(7):
        entry_of_night = entry(night, 1000.0)
        (example,) = entry_of_night.account.measurements
        cases = [
            replace(
                example,
                operation=f"op{case:02d}",
                value=500.0 if (night, case) == (6, 50) else 1000.0,
            )
            for case in range(51)
        ]
        nights.append(
            replace(
                entry_of_night, account=replace(entry_of_night.account, measurements=tuple(cases))
            )
        )
    page = render_history(trace(nights), "nightly").decode()
    assert len(data_of(page)["trends"]) == TRENDS_DRAWN
    assert data_of(page)["trends"][0]["newest"] == "worse"
    assert "3 more in" in page


def test_the_page_is_whole_escapes_names_and_fetches_nothing(history):
    page = render_history(history, "</script><img src=x onerror=alert(1)>").decode()
    parsed = Page(page)
    assert parsed.open == []
    assert len(parsed.ids) == len(set(parsed.ids))
    assert all(reference.startswith(("#", "data:,")) for reference in parsed.references)
    assert "<img" not in page


def test_the_ending_of_the_file_names_the_format(tmp_path, capsys):
    for night in range(4):
        write_night(tmp_path / "runs", night, 1000)
    runs, page = str(tmp_path / "runs"), tmp_path / "x.html"
    assert main(["history", runs, "-o", str(page)]) == 0
    assert len(data_of(page.read_text())["trends"]) == 2
    assert main(["history", runs, "--metric", RATE, "-o", str(tmp_path / "x.csv")]) == 0
    assert (tmp_path / "x.csv").read_text().startswith("case,metric,run")
    assert main(["history", runs, "-f", "html"]) == 1
    assert "-o history.html" in capsys.readouterr().err
    assert main(["history", runs, "-o", str(tmp_path / "x.png")]) == 1
