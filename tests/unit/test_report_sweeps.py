"""Charts along a load: curves with call-outs, operations over client × load, published ones too."""

import csv
import io
import itertools
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from loadstone import published
from loadstone.analysis import analyse
from loadstone.analysis.standards.plausibility import judge
from loadstone.report import REPORTS, Options
from loadstone.report.charts import sweeps as charts_of_sweeps
from loadstone.report.charts.operations import PANEL_HEIGHT, Arrangement, charts_of_operations
from loadstone.report.charts.overview import pictures
from loadstone.report.charts.parts.drawing import Picture
from loadstone.report.charts.parts.lettering import Box, Offset, find_room, text_box
from loadstone.report.charts.sweep_points import SweepPoint, Wording
from loadstone.report.formats.account_page import pictures_of_account
from loadstone.results.store import read_run
from tests.unit.synthetic_run import Folder, trial

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SIZES = {102_400: "100 KiB", 2**20: "1 MiB"}


def point(operation: str = "get", rate: float = 10.0, own_limit: str = "", **parameters: object):
    return SweepPoint(
        target="amazon", workload="suite", operation=operation, parameters=parameters, round=1,
        rate=rate, low=rate, high=rate, data="", quantiles_ms={}, labels="none", limit="",
        own_limit=own_limit,
    )  # fmt: skip


def rows_of(picture: Picture) -> list[dict[str, str]]:
    text = picture.specification(with_title=False)["data"]["values"]
    return list(csv.DictReader(io.StringIO(text)))


def write_suite(path: Path) -> Path:
    """Two operations × 2, 4, 8 threads × two sizes × two bucket counts × two encryptions."""
    folder = Folder(path, "suite", seconds=4)
    cases = itertools.product(("put", "get"), (2, 4, 8), SIZES, (1, 4), ("cbc", "gcm"))
    for number, (operation, threads, size, buckets, mode) in enumerate(cases, start=1):
        document = trial(number, "amazon", operation, clients=threads, size=size)
        document["case"]["parameters"] |= {"buckets": buckets, "encryption": f"aes-256-{mode}"}
        folder.add(document, 10 * threads + number)
    return folder.close(campaign={}, campaign_file="")


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    return analyse(read_run(write_suite(tmp_path_factory.mktemp("suite") / "run")))


def test_the_example_of_report_four_has_a_panel_for_each_operation_and_a_line_for_each_size():
    sweep = YAML(typ="safe").load(EXAMPLES / "datasafe-s3.yaml")["sweep"]
    sizes = {"100KiB": 102_400, "1MiB": 2**20, "10MiB": 10 * 2**20}
    sweep["size"] = [sizes[size] for size in sweep["size"]]
    cases = [dict(zip(sweep, values, strict=True)) for values in itertools.product(*sweep.values())]
    points = [point(operation, **case) for operation in ("put", "get") for case in cases]
    found = Arrangement.of(points, loads_min=2)
    assert found == Arrangement(
        load="threads", panel=("operation",), dash="encryption", group=("buckets",)
    )


def test_hosts_and_threads_stand_on_one_axis_as_clients_do_in_report_four():
    limits = {1: "client CPU", 2: "", 4: ""}
    points = [
        point(rate=10.0 * hosts * threads, own_limit=limits[hosts], hosts=hosts, threads=threads,
              size=4096, buckets=buckets)
        for hosts in limits for threads in (16, 64) for buckets in (1, 3)
    ]  # fmt: skip
    found = Arrangement.of(points, loads_min=2)
    assert found == Arrangement(
        load="threads", panel=("operation",), dash=None, group=("hosts", "buckets")
    )
    wording = Wording(rate="requests per second", bars="", client="c")
    (picture,) = charts_of_operations(points, found, wording)
    assert picture.name == "operations-against-threads"
    assert picture.title.rpartition(": ")[2].split(" × ") == ["hosts", "buckets", "threads"]
    assert "Ringed" in picture.caption
    places = list(dict.fromkeys(row["x"] for row in rows_of(picture)))
    assert places[:3] == ["16|1 host|1 bucket", "64|1 host|1 bucket", "16|1 host|3 buckets"]
    ringed = [row["group"] for row in rows_of(picture) if row["own_limit"]]
    assert set(ringed) == {"1 host|1 bucket", "1 host|3 buckets"}


def test_hosts_alone_are_a_load_along_which_a_line_runs():
    points = [point(hosts=hosts, threads=16, size=4096) for hosts in (1, 2, 4)]
    assert Arrangement.of(points, loads_min=2) is None


def test_twelve_thread_counts_are_a_curve_and_no_categories():
    points = [point(threads=n, size=size) for n in range(1, 13) for size in SIZES]
    assert Arrangement.of(points, loads_min=2) is None


def test_threads_beside_a_rate_are_no_categories_of_one_axis():
    points = [point(threads=n, size=size) for n in (1, 4) for size in SIZES]
    assert Arrangement.of(points, loads_min=2) is not None
    points.append(point(rate_per_s=100.0, size=min(SIZES)))
    assert Arrangement.of(points, loads_min=2) is None


def test_sizes_of_a_law_stand_behind_the_others_in_the_legend():
    law = "4 KiB or 1 MiB"
    points = [point(threads=n, size=size) for n in (1, 4) for size in (law, 2**20, 102_400)]
    found = Arrangement.of(points, loads_min=2)
    assert found is not None
    wording = Wording(rate="requests per second", bars="", client="c")
    (picture,) = charts_of_operations(points, found, wording)
    ordered = sorted((int(row["size"]), row["series"]) for row in rows_of(picture))
    assert list(dict(ordered).values()) == ["100 KiB", "1 MiB", f"size {law}"]


def test_a_suite_is_drawn_by_operation_on_one_logarithmic_axis(suite):
    drawn = {picture.name: picture for picture in pictures(suite)}
    picture = drawn["operations-against-threads"]
    assert "× buckets × threads" in picture.title
    rows = rows_of(picture)
    assert {row["panel"] for row in rows} == {"put", "get"}
    assert {row["series"] for row in rows} == set(SIZES.values())
    assert {row["dash"] for row in rows} == {"encryption aes-256-cbc", "encryption aes-256-gcm"}
    text = str(picture.specification(with_title=False))
    assert "'type': 'log'" in text
    assert "client-1 (16 cores)" in text
    assert "throughput-against-threads" not in drawn


def test_no_line_runs_between_loads_of_different_groups(suite):
    picture = next(one for one in pictures(suite) if one.name.startswith("operations-"))
    assert {row["group"] for row in rows_of(picture)} == {"1 bucket", "4 buckets"}
    assert "'field': 'group'" in str(picture.specification(with_title=False)["spec"]["layer"][1])


def test_every_number_that_is_written_is_the_rate_of_its_point(suite):
    picture = next(one for one in pictures(suite) if one.name.startswith("operations-"))
    written = [row for row in rows_of(picture) if row["side"]]
    assert len(written) > 20
    for row in written:
        assert float(row["shown"].replace(",", "")) == pytest.approx(float(row["value"]), rel=0.01)


def test_numbers_and_call_outs_find_room_or_none():
    edge = Box(left=0, top=0, right=400, bottom=PANEL_HEIGHT)
    above, below = Offset(right=0, down=-12), Offset(right=0, down=13)
    place = (200.0, 100.0)
    assert find_room("123", place, (above, below), [], edge) == above
    taken = [text_box("99", 200, 88)]
    assert find_room("123", place, (above, below), taken, edge) == below
    assert find_room("123", place, (above, below), [edge], edge) is None
    assert find_room("123", (200.0, 3.0), (above,), [], edge) is None


def called(points: list[SweepPoint]) -> list[charts_of_sweeps.SweepRow]:
    rows = charts_of_sweeps._rows(points, "threads")
    return charts_of_sweeps._with_callouts(rows, (0.0, 40.0), is_log=False)


def test_the_clients_own_limit_is_called_out_once_on_each_line():
    limits = {1: "", 8: "client sockets", 16: "client sockets", 40: "client sockets"}
    points = [
        point(threads=n, buckets=buckets, rate=10 * n + buckets, own_limit=limit)
        for n, limit in limits.items()
        for buckets in (1, 5)
    ]
    rows = called(points)
    assert [row.x for row in rows if row.callout] == [8, 8]
    assert {row.series for row in rows if row.callout} == {"1 bucket", "5 buckets"}
    assert {row.callout for row in rows} == {"", "CLIENT SOCKETS"}


def test_call_outs_stand_apart_from_each_other():
    points = [
        point(threads=n, buckets=buckets, rate=400 + n + buckets, own_limit="client bandwidth")
        for n in (1, 8, 16, 40)
        for buckets in (1, 2, 3, 4, 5)
    ]
    rows = called(points)
    width, top = charts_of_sweeps.panel_width(1), max(row.high for row in rows) * 1.12
    boxes = [
        text_box(
            row.callout,
            row.callout_x / 40 * width,
            (1 - row.callout_y / top) * charts_of_sweeps.PANEL_HEIGHT,
        )
        for row in rows
        if row.callout
    ]
    assert len(boxes) == 5
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))


def test_too_many_lines_for_colours_become_panels():
    points = [
        point(threads=n, buckets=buckets, connections=kind)
        for n in (1, 2, 4)
        for buckets in range(1, 7)
        for kind in ("keep_alive", "per_request")
    ]
    rows = charts_of_sweeps._rows(points, "threads")
    assert len({row.series for row in rows}) == 2
    assert len({row.panel for row in rows}) == 6


def test_many_cases_share_panels_in_the_other_charts(tmp_path):
    folder = Folder(tmp_path / "run", "many", seconds=4)
    cases = itertools.product((2, 4, 8), range(1, 31))
    for number, (threads, buckets) in enumerate(cases, start=1):
        document = trial(number, "amazon", "get", clients=threads)
        document["case"]["parameters"]["buckets"] = buckets
        folder.add(document, 100)
    run = read_run(folder.close(campaign={}, campaign_file=""))
    for picture in pictures(analyse(run)):
        if picture.name in ("latency-distribution", "throughput-over-time"):
            assert {row["panel"] for row in rows_of(picture)} == {"get"}
            assert "in buckets" in picture.caption
    page = REPORTS["html"].render(run, analyse(run), Options()).decode()
    assert page.count('<tr data-target="amazon"') == 90
    assert 'class="scroll tall"' in page


def test_the_published_sweep_calls_out_the_clients_limits_that_its_numbers_show():
    account = published.find("cern").account()
    (picture,) = pictures_of_account(account, judge(account))
    rows = rows_of(picture)
    assert len(rows) == 12 + 10 + 4 + 10
    called_out = {(row["panel"], row["x"]): row["callout"] for row in rows if row["callout"]}
    assert called_out == {
        ("uploads of 10 MB, upload, 10 MiB", "16"): "CLIENT BANDWIDTH",
        ("downloads of 4 KB, download, 4 KiB", "12"): "CLIENT SOCKETS",
    }
    assert "source" in picture.caption
    # Loads that were planned and never printed stay in sight, and empty.
    assert "[1, 200]" in str(picture.specification(with_title=False)).replace(".0", "")


def test_the_published_suite_is_drawn_with_the_one_load_it_prints():
    account = published.find("datasafe").account()
    picture, latency = pictures_of_account(account, judge(account))
    assert "p99" in latency.title
    rows = rows_of(picture)
    assert {row["panel"] for row in rows} == {"write", "share", "list", "delete", "read"}
    shown = {(row["panel"], row["series"]): row["shown"].strip() for row in rows}
    assert shown["write", "10 MiB"] == "3.46"
