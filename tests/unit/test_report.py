"""Reports of the synthetic runs: against golden files, and against what readers rely on."""

import csv
import dataclasses
import html
import io
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pyarrow.parquet as pq
import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

from loadstone.analysis import analyse
from loadstone.analysis.judgements.labels import LABELS
from loadstone.analysis.judgements.thresholds import parse_threshold
from loadstone.analysis.rules import find_rule
from loadstone.errors import InputError
from loadstone.published import LAYOUTS, find_layout
from loadstone.report import REPORTS, Options
from loadstone.report.formats.markdown import escaped
from loadstone.results.store import read_run
from tests.unit.synthetic_run import ROUNDS, Folder, trial, write_rounds, write_sweep

SCHEMA = Path(__file__).parents[2] / "docs" / "reference" / "report.schema.json"
HOUR_NS = 3_600 * 10**9


@pytest.fixture(scope="module")
def rounds(tmp_path_factory):
    run = read_run(write_rounds(tmp_path_factory.mktemp("rounds"), seconds=8))
    return run, analyse(run)


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    run = read_run(write_sweep(tmp_path_factory.mktemp("sweep"), seconds=8))
    return run, analyse(run)


def rendered_findings(findings):
    """Findings without the rules' sentences, which are tested with the rules."""
    shown = tuple(finding for finding in findings.findings if finding.rule in {*LABELS, "NOT RUN"})
    return dataclasses.replace(findings, findings=shown)


@pytest.fixture(params=["rounds", "sweep"])
def any_run(request):
    return request.param, *request.getfixturevalue(request.param)


def render(name, run_and_findings, table=None, **options):
    layout = find_layout(table) if table else None
    return REPORTS[name].render(*run_and_findings, Options(is_full=True, layout=layout, **options))


@pytest.mark.parametrize("name", ["terminal", "markdown", "csv", "json", "openmetrics"])
def test_reports_are_as_their_golden_files(any_run, name, golden):
    folder, run, findings = any_run
    report = REPORTS[name]
    content = report.render(run, rendered_findings(findings), Options(is_full=True))
    golden(f"{folder}/{name}{report.suffix}", content)


def test_the_template_of_rounds_is_as_its_golden_file(rounds, golden):
    labels = {"hummingbird": "Hummingbird", "ceph": "Ceph"}
    text = render(
        "markdown", rounds, table="hummingbird", head="4 KB 5 nodes Results", labels=labels
    )
    golden("rounds/table-hummingbird.md", text)


def test_the_template_of_threads_is_as_its_golden_file(sweep, golden):
    golden("sweep/table-cern.txt", render("csv", sweep, table="cern"))


def test_a_narrow_terminal_loses_columns_and_says_so_but_never_a_digit(rounds):
    text = render("terminal", rounds, width=80).decode()
    assert ": Max." in text
    assert "2,072" in text
    for line in text.splitlines():
        assert "…" not in line


def test_every_table_line_of_the_terminal_is_as_wide_as_asked(rounds):
    text = render("terminal", rounds, width=120).decode()
    assert max(len(line) for line in text.splitlines()) <= 120


def test_colour_is_only_there_when_asked_for(rounds):
    assert b"\x1b[" not in render("terminal", rounds)
    assert b"\x1b[" in render("terminal", rounds, color=True)


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("report", ["terminal", "markdown", "csv"])
def test_a_template_keeps_its_tabs_and_blank_cells(sweep, report, width):
    text = render(report, sweep, table="cern", width=width).decode()
    # The thread count that never ran is there, and its cells are blank.
    assert "Threads\t24\nFiles/Sec\t\nMB/Sec\t\n" in text


def test_a_template_names_the_kind_of_its_spread(sweep):
    text = render("csv", sweep, table="cern").decode()
    assert "one-second rates" in text
    assert "MB = 10^6 bytes" in text
    text = render("csv", sweep, table="cern", spread="trials", megabyte="MiB").decode()
    assert "trials' rates" in text
    assert "MB = 2^20 bytes" in text


def test_gets_of_three_iterations_say_how_they_were_added_up(rounds):
    text = render("markdown", rounds, table="hummingbird").decode()
    assert "3 iterations" in text


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """A phase of puts and a mix that puts too, on two targets; the plan's order is by lot."""
    folder = Folder(tmp_path_factory.mktemp("mixed") / "run", "mixed", 4)
    rates = {("b", "put"): 900, ("a", "put"): 1751, ("b", "mix"): 300, ("a", "mix"): 740}
    for number, ((target, phase), rate) in enumerate(rates.items(), 1):
        folder.add(trial(number, target, "put", phase=phase), rate)
    campaign = {"targets": {"a": {}, "b": {}}, "report": {"table": "hummingbird"}}
    run = read_run(folder.close(campaign=campaign, campaign_file=""))
    return run, analyse(run)


def test_a_table_of_rounds_tells_phases_of_one_operation_apart(mixed):
    lines = render("markdown", mixed, table="hummingbird").decode().splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if "|" in line]
    assert rows[0][1:] == ["a", "b"]
    assert rows[2][1:] == ["1751", "900"]
    assert rows[3][1:] == ["740", "300"]
    assert "mix" in rows[3][0]


def test_a_table_of_threads_has_a_block_for_each_phase(mixed):
    text = render("csv", mixed, table="cern")
    assert text.decode().count("Files/Sec") == 4


def test_a_target_and_a_round_that_were_not_measured_stay_blank_in_a_table_of_rounds(tmp_path):
    """The second target fails to log in, the first ends after one round: both were planned."""
    folder = Folder(tmp_path / "run", "partly", 4)
    folder.add(trial(1, "a", "put"), 1751)
    for number, (target, round_) in enumerate([("b", 1), ("c", 1), ("b", 2), ("a", 2)], 2):
        folder.skip(trial(number, target, "put", round=round_))
    folder.add(trial(6, "c", "put", round=2), 300)
    campaign = {"targets": {"c": {}, "b": {}, "a": {}}}
    run = read_run(folder.close(campaign=campaign, campaign_file="", state="failed"))
    partly = run, analyse(run)
    lines = render("markdown", partly, table="hummingbird").decode().splitlines()
    rows = [[cell.strip() for cell in line.split("|")[2:-1]] for line in lines if "|" in line]
    assert rows[0] == ["c", "b", "a"]
    assert rows[2:4] == [["", "", "1751"], ["300", "", ""]]
    # A layout with a block for each target says which has none.
    assert b"\nb: planned, and not measured\n" in render("csv", partly, table="cern")
    assert render("csv", partly, table="cern").count(b"not measured") == 1


def test_an_unknown_template_lists_those_there_are(rounds):
    with pytest.raises(InputError, match=", ".join(LAYOUTS)):
        render("markdown", rounds, table="nonsense")


def test_json_follows_the_published_schema(any_run):
    _, run, findings = any_run
    schema = json.loads(SCHEMA.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    document = json.loads(REPORTS["json"].render(run, findings, Options()))
    jsonschema.validate(document, schema)


def test_json_has_the_rates_that_were_made(rounds):
    document = json.loads(render("json", rounds))
    rates = {
        (case["target"], case["operation"], case["round"]): case["requests_per_s"]
        for case in document["rounds"]
    }
    for (target, operation), pair in ROUNDS.items():
        for index, rate in enumerate(pair):
            assert rates[target, operation, index + 1] == pytest.approx(rate)


def test_csv_and_parquet_hold_the_same_rows(rounds):
    rows = list(csv.DictReader(io.StringIO(render("csv", rounds).decode())))
    table = pq.read_table(io.BytesIO(render("parquet", rounds))).to_pylist()
    assert len(rows) == len(table) == 20
    for text, typed in zip(rows, table, strict=True):
        assert list(text) == list(typed)
        assert float(text["requests_per_s"]) == pytest.approx(typed["requests_per_s"])
        assert text["response_p99_9_ns"] == str(typed["response_p99_9_ns"] or "")


def test_decimal_commas_leave_csv_readable(rounds):
    text = render("csv", rounds, decimal_comma=True).decode()
    (first, *_) = csv.DictReader(io.StringIO(text), delimiter=";")
    assert float(first["little"].replace(",", ".")) == pytest.approx(1, abs=0.01)


def test_a_stock_reader_reads_every_request_of_the_histogram_log(rounds, tmp_path):
    path = tmp_path / "run.hlog"
    path.write_bytes(render("hlog", rounds))
    reader = HistogramLogReader(str(path), HdrHistogram(1, HOUR_NS, 3))
    counts, longest = {}, {}
    while (interval := reader.get_next_interval_histogram()) is not None:
        tag = interval.get_tag()
        counts[tag] = counts.get(tag, 0) + interval.get_total_count()
        longest[tag] = max(longest.get(tag, 0), interval.get_max_value())
    assert reader.base_time_sec == 1_767_254_400
    # Two rounds of eight seconds, three iterations each.
    assert counts["hummingbird.get.4096.response.ok"] == sum(ROUNDS["hummingbird", "get"]) * 24
    assert counts["ceph.get.4096.response.throttled"] == 3 * 24
    cell = next(c for c in rounds[1].rounds if (c.target, c.operation) == ("ceph", "delete"))
    assert longest["ceph.delete.4096.response.ok"] >= cell.headline.max_ns * 0.999


def test_the_histogram_log_has_the_format_head_and_maxima_in_milliseconds(rounds):
    lines = render("hlog", rounds).decode().splitlines()
    assert "#[Histogram log format version 1.3]" in lines  # others' words
    assert lines[4] == (
        '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"'
    )
    first = next(line for line in lines if line.startswith("Tag="))
    tag, start, length, longest, _ = first.split(",")
    assert (tag, start, length) == ("Tag=hummingbird.put.4096.response.ok", "0.000", "1.000")
    assert 500 < float(longest) < 5000


def test_openmetrics_ends_as_it_must_and_has_one_sample_a_case(rounds):
    text = render("openmetrics", rounds).decode()
    assert text.endswith("# EOF\n")
    samples = re.findall(r"^loadstone_requests_per_second\{.*\} ([\d.]+)$", text, re.MULTILINE)
    assert len(samples) == 20


@pytest.mark.parametrize(
    ("condition", "tags"),
    [("put p99 > 1ns", {"failure"}), ("put p99 > 1h", set()), ("rename p99 > 1h", {"error"})],
)
def test_junit_has_a_test_for_each_case_of_a_threshold(rounds, condition, tags):
    text = render("junit", rounds, thresholds=(parse_threshold(condition),))
    _, suite = ElementTree.fromstring(text)
    assert suite.get("name") == condition
    assert int(suite.get("tests")) == len(suite) > 0
    assert {child.tag for case in suite for child in case} == tags
    assert int(suite.get("failures")) == (len(suite) if tags == {"failure"} else 0)


def test_a_report_of_several_files_asks_for_a_folder(rounds):
    with pytest.raises(InputError, match="several files") as raised:
        render("svg", rounds)
    assert str(raised.value.hint).endswith(": -f svg -o DIR")


def test_every_report_has_a_line_of_its_own():
    for name, report in REPORTS.items():
        assert report.name == name
        assert report.summary
        assert report.suffix.startswith(".")


def test_numbers_that_must_not_be_used_are_named_at_the_top(tmp_path):
    folder = write_rounds(tmp_path / "run", seconds=4)
    path = folder / "trials" / "0001.json"
    entry = json.loads(path.read_text())
    entry["summary"]["mismatches"] = {"corrupt": 2}
    path.write_text(json.dumps(entry))
    run = read_run(folder)
    text = REPORTS["terminal"].render(run, analyse(run), Options(is_full=True)).decode()
    first = text.split("Results")[0]
    assert "Void (1 of 6)" in first
    assert find_rule("CORRUPT").short in first


REFERENCE = "".join((SCHEMA.parent / name).read_text() for name in ("reports.md", "findings.md"))


@pytest.mark.parametrize("name", [*REPORTS, *LABELS, *LAYOUTS])
def test_every_report_label_and_layout_is_in_the_reference(name):
    assert f"`{name}`" in REFERENCE or f"**{name}**" in REFERENCE


def test_markdown_shows_what_a_stranger_wrote_and_links_to_nothing() -> None:
    text = "[a](http://b) ![c](d) <img src=e> &lt; `f` | *g*"
    shown = escaped(text)
    assert re.search(r"(?<!\\)[\[\]`|*]|<|&(?!lt;|amp;)", shown) is None
    assert html.unescape(shown.replace("\\", "")) == text
