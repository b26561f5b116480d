"""Charts, as the page's scripts make them: along a load, of operations, of times; void ones too."""

import itertools
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from loadstone import published
from loadstone.analysis import analyse
from loadstone.report import REPORTS, Options
from loadstone.report.formats.html import drawn_of_run
from loadstone.report.formats.images import run_script
from loadstone.report.pages.chart_data import proof_data
from loadstone.results.audits import UNANSWERED
from loadstone.results.store import read_run
from tests.unit.drawn_charts import DrawnChart, charts_of, charts_of_account, charts_of_run
from tests.unit.runs_of_all_kinds import write_streams
from tests.unit.synthetic_run import Folder, trial, write_rounds, write_sweep

VOID = "void: must not be used"
SVG = "{http://www.w3.org/2000/svg}"
MARKS = {f"{SVG}{name}" for name in ("circle", "path", "rect", "line")}
OVER_TIME = ["client-cpu", "client-memory", "client-sockets", "client-network"]


def result(operation: str = "get", rate: float = 10.0, limit: str = "", **parameters: Any):
    """Return a row of a result as charts know it."""
    size = parameters.pop("size", 4096)
    return {
        "target": "amazon", "workload": "suite", "operation": operation, "round": None,
        "size": size, "size_words": f"{size} B", "parameters": parameters, "words": "",
        "n": 1, "trials": [json.dumps([operation, size, parameters])], "trial_rates": [rate],
        "rate": rate, "low": None, "high": None, "bytes_per_s": 0, "p50": 1e6, "p90": 2e6,
        "p95": 2e6, "p99": 3e6, "max": 4e6, "requests": 1000, "failed": 0, "limit": limit,
        "is_bound": bool(limit), "is_void": False, "curve": [],
    }  # fmt: skip


def drawn(results: list[dict[str, Any]], load: str | None = "threads") -> dict[str, DrawnChart]:
    data = {"counted": "request", "client": "c", "targets": ["amazon"], "load": load,
            "results": results, "rounds": [], "curves": [], "ceilings": []}  # fmt: skip
    return charts_of(data)


def texts(chart: DrawnChart) -> list[str]:
    return [
        "".join(text.itertext()) for text in ElementTree.fromstring(chart.svg).iter(f"{SVG}text")
    ]


@pytest.fixture(scope="module", params=[write_rounds, write_sweep])
def run(request, tmp_path_factory):
    return read_run(request.param(tmp_path_factory.mktemp("run"), seconds=8))


def check(charts: Mapping[str, DrawnChart]) -> None:
    for chart in charts.values():
        assert chart.title
        assert chart.words
        assert chart.caption.endswith("."), chart.caption
        assert not re.search(r"NaN|undefined|Infinity|var\(|https?://(?!www\.w3\.org)", chart.svg)
        panels = list(ElementTree.fromstring(chart.svg).iter(f"{SVG}svg"))[1:]
        drawn_in = [panel for panel in panels if float(panel.attrib["width"]) > 20]
        assert len(drawn_in) == len(chart.panels)
        for panel in drawn_in:
            assert sum(element.tag in MARKS for element in panel.iter()) > 4


@pytest.mark.parametrize("name", sorted(published.PUBLISHED))
def test_every_chart_of_published_numbers_has_marks_and_words(name):
    charts = charts_of_account(name)
    assert charts
    check(charts)


def test_every_chart_of_a_run_has_marks_and_words(run):
    charts = charts_of_run(run, analyse(run))
    check(charts)
    if run.name == "download-4k":
        first = ["throughput", "latency", "rate-latency", "rate-over-time", "latency-over-time"]
        assert list(charts) == [*first, *OVER_TIME, "distribution"]
    else:
        first = ["throughput", "latency", "rate-over-time", "latency-over-time", "errors-over-time"]
        assert list(charts) == [*first, *OVER_TIME, "distribution"]


def test_void_and_bound_results_are_marked_in_every_chart(run):
    data = drawn_of_run(run, analyse(run))
    for row in (*data["results"], *data["timelines"]):
        row["is_void"] = row is data["results"][0] or row.get("trial") in row.get("trials", [])
    void = set(data["results"][0]["trials"])
    for line in data["timelines"]:
        line["is_void"] = line["trial"] in void
    data["results"][1] |= {"is_bound": True, "limit": "client CPU"}
    for chart in charts_of(data).values():
        if chart.name not in ("errors-over-time", "rate-latency"):
            assert VOID in chart.legend, chart.name
            assert "#b3261e" in chart.svg, chart.name
    rates = charts_of(data)["throughput"]
    assert any("at least" in words for words in rates.legend)
    is_sweep = data["load"] is not None
    assert ("client CPU" in texts(rates)) == is_sweep
    assert any(words.startswith("≥ ") for words in texts(rates)) != is_sweep


def test_a_field_of_a_heatmap_is_hatched_or_crossed_and_has_its_unit():
    results = [result(rate=10.0 * n, threads=n, size=size) for n in (1, 2, 4) for size in (1, 2)]
    for row in results:
        row["bytes_per_s"] = row["rate"] * 2**20
    results[0] |= {"is_bound": True, "limit": "client CPU"}
    results[1]["is_void"] = True
    chart = drawn(results)["heatmap"]
    assert "≥ 10.0 MiB/s" in texts(chart)
    assert VOID in chart.legend
    assert chart.svg.count('fill="url(#lines)"') == 1
    # A cell twice would lie over itself.
    assert "heatmap" not in drawn([*results, result(threads=1, size=1)])


def test_few_trials_are_shown_themselves_and_many_by_their_interval(tmp_path):
    for count, has_interval in ((2, False), (6, True)):
        folder = Folder(tmp_path / f"run{count}", "repeated", seconds=4)
        for number in range(1, count + 1):
            document = trial(number, "ceph", "get")
            document["block"] = number
            folder.add(document, 100 + 10 * number)
        run = read_run(folder.close(campaign={}, campaign_file=""))
        data = drawn_of_run(run, analyse(run))
        (row,) = data["results"]
        assert (row["low"] is not None) == has_interval
        assert len(row["trial_rates"]) == count
        assert ("intervals" in charts_of(data)["throughput"].caption) == has_interval


def test_names_of_a_campaign_stay_words_in_a_file():
    name = "a<b>&\"c'"
    results = [result() | {"target": name}, result() | {"target": "other", "trials": ["2"]}]
    chart = drawn(results, load=None)["throughput"]
    assert name in texts(chart)


def test_a_png_shows_words_without_the_fonts_of_the_host(run):
    findings = analyse(run)
    files = REPORTS["png"].render_files(run, findings, Options())
    assert list(files) == [f"{name}.png" for name in charts_of_run(run, findings)]
    assert all(content.startswith(b"\x89PNG\r\n") for content in files.values())
    import resvg_py

    svg = REPORTS["svg"].render_files(run, findings, Options())["throughput.svg"].decode()
    blank = resvg_py.svg_to_bytes(svg_string=svg, zoom=2, skip_system_fonts=True)
    assert len(files["throughput.png"]) > 1.1 * len(blank)


def test_hosts_and_threads_stand_on_one_axis_as_clients_do_in_report_four():
    limits = {1: "client CPU", 2: "", 4: ""}
    results = [
        result(rate=10.0 * hosts * threads, limit=limits[hosts], hosts=hosts, threads=threads,
               buckets=buckets)
        for hosts in limits for threads in (16, 64) for buckets in (1, 3)
    ]  # fmt: skip
    chart = drawn(results)["throughput"]
    assert chart.title.rpartition(": ")[2].split(" × ") == ["hosts", "buckets", "threads"]
    assert "Ringed" in chart.caption
    places = list(dict.fromkeys(row["x"] for row in chart.rows))
    assert set(places) == {
        f"{threads}|{hosts} host{'s' * (hosts > 1)}, {buckets} bucket{'s' * (buckets > 1)}"
        for hosts in limits for threads in (16, 64) for buckets in (1, 3)
    }  # fmt: skip
    ringed = {row["group"] for row in chart.rows if row["is_bound"]}
    assert ringed == {"1 host, 1 bucket", "1 host, 3 buckets"}


def test_many_lines_are_panels_dashes_and_groups_over_categories():
    cases = list(itertools.product((2, 4, 8), (1024, 2048), range(1, 7), ("cbc", "gcm")))
    results = [
        result(operation, rate=10.0 * n, threads=n, size=size, buckets=buckets, encryption=mode)
        for operation in ("put", "get")
        for n, size, buckets, mode in cases
    ]
    chart = drawn(results)["throughput"]
    assert chart.panels == ["put", "get"]
    assert {row["series"] for row in chart.rows} == {"1024 B", "2048 B"}
    assert {row["variant"] for row in chart.rows} == {"cbc", "gcm"}
    assert {row["group"] for row in chart.rows} == {
        f"{n} bucket{'s' * (n > 1)}" for n in range(1, 7)
    }


def test_sizes_and_operations_have_scales_of_their_own_along_a_load():
    results = [
        result(operation, rate=rate * n, threads=n, size=size)
        for operation, rate in (("put", 1.0), ("get", 900.0))
        for size in (1024, 2048)
        for n in range(1, 13)
    ]
    chart = drawn(results)["throughput"]
    assert chart.panels == ["put, 1024 B", "put, 2048 B", "get, 1024 B", "get, 2048 B"]
    assert {"12", "10k"} <= set(texts(chart))


def test_a_result_under_another_kind_of_load_is_told_and_not_drawn():
    results = [result(rate=10.0 * n, threads=n) for n in (1, 2, 4)]
    paced = result(rate=100.0, rate_per_s=100.0)
    assert len(drawn([*results, paced])["throughput"].rows) == 3
    assert "Not drawn: 1" in drawn([*results, paced])["throughput"].caption
    assert "Not drawn" not in drawn(results)["throughput"].caption


def test_the_clients_own_limit_is_called_out_once_on_each_line_and_apart():
    limits = {1: "", 8: "client sockets", 16: "client sockets", 40: "client sockets"}
    results = [
        result(rate=400.0 + 10 * n + buckets, limit=limit, threads=n, buckets=buckets)
        for n, limit in limits.items()
        for buckets in (1, 2, 3, 4, 5)
    ]
    root = ElementTree.fromstring(drawn(results)["throughput"].svg)
    called = [text for text in root.iter(f"{SVG}text") if text.text == "client sockets"]
    places = [text.attrib["transform"] for text in called]
    assert len(places) == len(set(places)) == 5


def test_numbers_find_room_or_none():
    script = """
    const frame = { left: 0, right: 400, top: 0, bottom: 200 };
    const offsets = [[0, -12], [0, 13]];
    const place = [200, 100];
    const taken = [];
    return JSON.stringify([
      findRoom("123", place, offsets, taken, frame),
      findRoom("123", place, offsets, taken, frame),
      findRoom("123", place, offsets, taken, frame),
      findRoom("123", [200, 3], [[0, -12]], [], frame),
    ]);
    """
    document = json.loads(run_script({"results": []}, script))
    assert document == [[200, 88], [200, 113], None, None]


def test_a_swept_level_of_filling_is_a_load():
    results = [result(rate=10.0, fill_percent=n) for n in (10, 50, 90)]
    assert drawn(results, load="fill_percent")["throughput"].title.endswith("fill percent")


def test_the_published_sweep_calls_out_the_clients_limits_that_its_numbers_show():
    chart = charts_of_account("cern")["throughput"]
    assert {row["limit"] for row in chart.rows if row["is_bound"]} == {
        "client network",
        "client sockets",
    }
    assert {"client network", "client sockets"} <= set(texts(chart))
    # As far as was planned, measured or not.
    assert texts(chart).count("200") >= len(chart.panels)


def test_a_small_chart_keeps_its_ticks_apart():
    many = [result(rate=1.0 * n, threads=n) for n in range(1, 41)]
    chart = drawn(many)["throughput"]
    ticks = [text for text in texts(chart) if text.isdigit()]
    assert "1" in ticks
    assert "40" in ticks
    assert len(ticks) < 40


def test_moments_of_a_history_differ():
    script = (
        'return JSON.stringify([moments(["2026-01-01T17:34:10", "2026-01-01T17:34:50"]),'
        ' moments(["2026-01-01T17:34", "2026-01-02T17:34"]),'
        ' moments(["2026-01-01T17:34", "2026-01-01T18:34", "2026-01-02T17:34"])])'
    )
    seconds, days, both = json.loads(run_script({"results": []}, script))
    assert seconds == ["17:34:10", "17:34:50"]
    assert days == ["01-01", "01-02"]
    assert len(set(both)) == 3


def test_trials_of_many_cases_have_files_of_their_own(tmp_path: Path):
    folder = Folder(tmp_path / "run", "many", seconds=4)
    for number in range(1, 15):
        document = trial(number, "amazon", "get", clients=number)
        folder.add(document, 100)
    run = read_run(folder.close(campaign={}, campaign_file=""))
    charts = charts_of_run(run, analyse(run))
    over_time = [name for name in charts if name.startswith("rate-over-time")]
    assert len(over_time) == 14
    shown = {row["trial"] for name in over_time for row in charts[name].rows}
    assert len(shown) == 14
    page = REPORTS["html"].render(run, analyse(run), Options()).decode()
    assert page.count('<tr data-target="amazon"') == 14


def test_a_proof_draws_each_call_in_the_lane_of_its_client():
    def call(client, operation, version, begin, end, outcome="ok"):
        return {
            "client": client, "operation": operation, "version": version, "outcome": outcome,
            "from_unix_ns": begin, "to_unix_ns": end,
        }  # fmt: skip

    calls = [
        call(4, "put", 2**40 + 7, 1000, 2000),
        call(6, "put", 2**40 + 9, 3000, 2**64 - 1, UNANSWERED),
        call(4, "get", 2**40 + 7, 5000, 5500),
        call(9, "get", None, 6000, 6400, "torn"),
    ]
    finding = {"kind": "stale", "bucket": "b", "key": "k", "number": 1, "times": 1, "calls": calls}
    proof = proof_data(finding)
    assert [(row["lane"], row["label"]) for row in proof["calls"]] == [
        ("client 4", "put A"),
        ("client 6", "put unanswered"),
        ("client 4", "get A"),
        ("client 9", "get torn"),
    ]
    # A call without an answer is drawn to the last end that is known.
    assert [row["end"] for row in proof["calls"]] == [1000, 5400, 4500, 5400]
    charts = charts_of({"results": None, "proofs": [proof]})
    check(charts)
    assert charts["proofs"].panels == ["stale: b/k"]
    assert {"client 4", "client 6", "client 9", "get torn"} <= set(texts(charts["proofs"]))


def test_queries_in_streams_have_a_chart_of_their_own(tmp_path: Path) -> None:
    run = read_run(write_streams(tmp_path / "run"))
    findings = analyse(run)
    (chart,) = charts_of_run(run, findings).values()
    assert findings.queries is not None
    (runs,) = findings.queries.streams
    assert chart.name == "stream-seconds"
    assert {row["query"]: row["runs"] for row in chart.rows} == {
        name: len(times) for name, times in runs.times_s.items()
    }
    assert all(row["low_ns"] is None for row in chart.rows)
