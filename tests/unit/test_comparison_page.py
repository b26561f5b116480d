"""The page of a comparison: its numbers are those of the comparison, and bad data renders."""

import json
import re
from dataclasses import replace

import pytest

from loadstone.analysis.accounts import claims, comparison, judged_account
from loadstone.cli import main
from loadstone.report.formats.comparison_page import render_comparisons
from loadstone.results.store import read_run
from tests.unit.synthetic_run import Folder, trial
from tests.unit.test_report_html import Page, data_of


def write_targets(path, blocks=6):
    """Two targets in interleaved blocks: "other" gets twice as much, and puts as much."""
    folder = Folder(path, "two", seconds=4)
    number = 0
    for block in range(1, blocks + 1):
        for target in ("one", "other"):
            for operation in ("get", "put"):
                number += 1
                rate = 200 if (target, operation) == ("other", "get") else 100
                document = trial(number, target, operation, block=block)
                folder.add(document, rate + block % 2)
    return folder.close(
        campaign={"name": "two", "targets": {"one": {}, "other": {}}}, campaign_file=""
    )


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    account = judged_account.read_account(read_run(write_targets(tmp_path_factory.mktemp("run"))))
    return comparison.compare(account.only("one"), account.only("other"), controls=(account,))


@pytest.fixture(scope="module")
def page(compared):
    return render_comparisons([compared], ()).decode()


def test_ratios_and_intervals_are_those_of_the_comparison(page, compared):
    drawn = data_of(page)["cases"]
    assert len(drawn) == len(compared.comparisons) == 2
    for shown, case in zip(drawn, compared.comparisons, strict=True):
        assert (shown["ratio"], shown["low"], shown["high"]) == (
            case.ratio.ratio,
            case.ratio.low,
            case.ratio.high,
        )
        assert shown["verdict"] == case.verdict


def test_the_sentence_says_in_how_many_cases_it_is_faster(page):
    first = re.search(r'<p class="headline">(.*?)</p>', page)[1]
    assert re.findall(r"\d+", first) == ["2", "1", "3", "1"]
    assert re.search(r"\bother\b.*\bone\b.*\bfaster\b", first)


def test_the_page_is_whole_and_fetches_nothing(page):
    parsed = Page(page)
    assert parsed.open == []
    assert len(parsed.ids) == len(set(parsed.ids))
    assert all(reference.startswith(("#", "data:,")) for reference in parsed.references)


def test_the_ending_of_the_file_names_the_format(tmp_path, capsys):
    run = write_targets(tmp_path / "run", blocks=2)
    assert main(["compare", str(run), "-o", str(tmp_path / "x.html")]) == 0
    page = (tmp_path / "x.html").read_text()
    first = re.search(r'<p class="headline">(.*?)</p>', page)[1]
    assert re.findall(r"\d+", first) == ["2", "2"]
    assert main(["compare", str(run), "-o", str(tmp_path / "x.json")]) == 0
    document = json.loads((tmp_path / "x.json").read_text())
    assert document["a"] == "one"
    assert all(case["verdict"] in first for case in document["comparisons"])
    assert main(["compare", str(run), "-o", str(tmp_path / "x.txt")]) == 1
    assert ".html or .json" in capsys.readouterr().err


def test_arms_without_a_case_in_common_are_an_error(tmp_path, capsys):
    runs = []
    for name, operation in (("a", "get"), ("b", "put")):
        folder = Folder(tmp_path / name, name, seconds=4)
        folder.add(trial(1, "one", operation), 100)
        runs.append(str(folder.close(campaign={"targets": {"one": {}}}, campaign_file="")))
    assert main(["compare", *runs, "-o", str(tmp_path / "x.html")]) == 1
    assert not (tmp_path / "x.html").exists()
    assert "error:" in capsys.readouterr().err


def test_a_page_without_a_ratio_says_why_first(compared):
    spoilt = tuple(
        replace(pair, verdict="void", reasons=("CLIENT_NIC",), p_holm=0.04)
        for pair in compared.comparisons
    )
    void = replace(compared, comparisons=spoilt, geometric_mean=None)
    text = render_comparisons([void], ()).decode()
    headline = text.partition('<p class="headline">')[2].partition("</p>")[0]
    (reason,) = claims.reasons(spoilt)
    assert reason in headline
    assert "0.04" not in text.partition("<tbody>")[2].partition("</tbody>")[0]
