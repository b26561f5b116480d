"""Published reports and logs of other tools as pages, Markdown and charts."""

from pathlib import Path

import pytest

from loadstone import published
from loadstone.analysis.accounts.account import RATE
from loadstone.analysis.accounts.level import level_of
from loadstone.analysis.grouping import grouped
from loadstone.analysis.judgements.standing import worst_of
from loadstone.analysis.naming import describe_parameters
from loadstone.analysis.statistics.mean import INTERVAL_TRIALS_MIN
from loadstone.analysis.statistics.ratios import TOGETHER
from loadstone.cli import main
from loadstone.cli.account_reports import print_accounts
from loadstone.errors import InputError
from loadstone.published.tables.layouts import ActionLog, ActionStatistics, statistics_log
from loadstone.report.formats.account import FINDINGS_TITLE
from loadstone.report.pages.account_rows import account_data
from tests.unit.drawn_charts import charts_of_account

DATA = Path(__file__).parent.parent / "data" / "published"


def write_log(path: Path, factor: float) -> Path:
    logs = [
        ActionLog(
            time="07:57:55.523",
            provider="AMAZON",
            threads=threads,
            size_kib=size,
            actions=[
                ActionStatistics(
                    time="07:57:55.532",
                    action=action,
                    quantiles={"50": "35.0", "99": "113.7", "90": "79.0", "75": "57.0", "95": "87"},
                    rate_per_thread=repr(factor * 100 / size),
                )
                for action in ("WRITE", "READ")
            ],
        )
        for threads in (2, 4)
        for size in (100, 1024)
    ]
    path.write_text(statistics_log(logs, "a.Logger"))
    return path


def test_every_published_report_has_charts_of_its_own(tmp_path: Path) -> None:
    expected = {
        "hummingbird": "throughput",
        "theflash": "ratios",
        "theflash-ceph": "query-seconds",
        "cern": "throughput",
        "datasafe": "latency",
        "skyhook": "data-against-load",
    }
    for name, chart in expected.items():
        (tmp_path / name).mkdir()
        print_accounts([f"published:{name}"], "svg", tmp_path / name)
        names = [path.stem for path in (tmp_path / name).glob("*.svg")]
        assert any(name.startswith(chart) for name in names), (name, names)


def test_each_query_has_its_mean_with_an_interval_and_every_time_beside_it() -> None:
    rows = charts_of_account("theflash")["query-seconds"].rows
    assert len(rows) == 44
    assert sum(len(row["times_ns"]) for row in rows) == 429
    (q01,) = [row for row in rows if (row["query"], row["arm"]) == ("Q01", "Ceph")]
    assert q01["low_ns"] < q01["value_ns"] < q01["high_ns"]
    assert q01["runs"] == 9


def test_the_ratio_of_each_query_is_coloured_only_where_a_difference_is_shown() -> None:
    chart = charts_of_account("theflash")["ratios"]
    slower = {row["name"] for row in chart.rows if row["kind"] == "worse"}
    assert slower == {"Q01", "Q02", "Q03", "Q04", "Q11", "Q21", "Q22"}
    assert {row["name"] for row in chart.rows if row["kind"] == "same"} == {"Q14", "Q15"}
    # A chart that is seen by itself says so too.
    assert "1.249 (95 % CI 1.216 to 1.283)" in chart.panels[0]
    assert chart.panels[0] in chart.svg


def test_a_page_of_times_opens_with_how_they_compare(tmp_path: Path) -> None:
    print_accounts(["published:theflash"], "html", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    answer = (
        f"Ceph takes 1.249 times as long as SSD, the {TOGETHER} of 22 cases (95 % CI 1.216 to"
        " 1.283); of them 7 longer, 2 equal within 3 %, 13 not told apart."
    )
    assert page.index(answer) < page.index('<section id="findings">')
    assert "1 finding" in page


def test_the_name_of_a_report_is_enough_to_show_it(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["published", "theflash"]) == 0
    shown = capfd.readouterr().out
    assert "429 numbers" in shown
    assert "SSD, Ceph" in shown
    assert main(["published", "theflash", "-f", "md"]) == 1
    assert "published:NAME" in capfd.readouterr().err
    assert main(["published", "nothing"]) == 1
    assert '"nothing"' in capfd.readouterr().err


def test_times_of_a_single_system_have_no_ratio() -> None:
    assert list(charts_of_account("theflash-ssd")) == ["query-seconds"]


def test_ceilings_are_drawn_in_the_units_of_the_results_and_no_line_joins_two_points() -> None:
    chart = charts_of_account("skyhook")["data-against-load"]
    printed = {
        row["load"]: row["bytes_per_s"] / 2**20 for row in chart.rows if "is_said" not in row
    }
    assert printed == pytest.approx({1: 350.0, 10: 950.0}, rel=1e-4)
    assert {row["load"] for row in chart.rows if "is_said" in row} == {4, 8, 10}
    (panel,) = [ceiling["near"] for ceiling in chart.ceilings]
    near = {ceiling["name"]: ceiling["limit"] / 2**20 for ceiling in panel}
    assert near["network path between client and store"] == pytest.approx(907.2, abs=0.1)
    # The store's own bench writes, and bounds no read.
    assert not [name for name in near if "OSD" in name]
    assert near["NVMe device"] == pytest.approx(2422.3, abs=0.1)
    assert "no point" in chart.caption
    assert 'class="line"' not in chart.svg


def test_a_page_and_markdown_hold_the_tables_to_the_byte_and_the_findings(tmp_path: Path) -> None:
    print_accounts(["published:cern"], "html", tmp_path / "cern.html")
    page = (tmp_path / "cern.html").read_text()
    assert "socket-limit" in page
    assert "423.5 ± 6.6" in page
    for name in published.PUBLISHED:
        print_accounts([f"published:{name}"], "markdown", tmp_path / f"{name}.md")
        text = (tmp_path / f"{name}.md").read_text()
        assert published.find(name).render().strip("\n") in text, name
        assert text.startswith(f"# {published.find(name).title}")
        assert f"## {FINDINGS_TITLE}" in text
    tabs = (tmp_path / "cern.md").read_text()
    assert "```text\nThreads\t1\t4" in tabs


@pytest.mark.parametrize("name", sorted(published.PUBLISHED))
def test_charts_and_comparisons_of_a_published_report_have_the_same_numbers(name: str) -> None:
    account = published.find(name).account()
    rows = {
        (row["target"], row["workload"], row["operation"], row["round"], row["words"]): row
        for row in account_data(account)["results"]
        if row["rate"] is not None
    }
    cases = grouped(account.of(RATE), lambda m: (m.target, m.case))
    assert len(rows) == len(cases)
    for trials in cases.values():
        first = trials[0]
        words = describe_parameters(first.parameters)
        row = rows[first.target, first.workload, first.operation, first.round, words]
        assert row["rate"] == pytest.approx(level_of(trials), rel=1e-4)
        assert row["standing"] == worst_of(trial.standing for trial in trials)
        assert (row["is_bound"], row["is_void"]) == (row["standing"] == "bound", False)
        has_ends = len(trials) >= INTERVAL_TRIALS_MIN or first.spread is not None
        assert (row["low"] is not None) == has_ends
    if name == "hummingbird":
        assert {row["standing"] for row in rows.values()} == {"valid", "bound"}


def test_a_missing_metric_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="several files"):
        print_accounts(["published:cern"], "png", None)
    with pytest.raises(InputError, match='"hlog"') as caught:
        print_accounts(["published:cern"], "hlog", None)
    assert "markdown" in str(caught.value.hint)
    with pytest.raises(InputError, match="at once"):
        print_accounts(["published:cern", "published:skyhook"], "html", None)


def test_logs_of_several_clients_stand_beside_each_other_with_their_threads(
    tmp_path: Path,
) -> None:
    names = [
        f"datasafe:{client}={write_log(tmp_path / f'{client}.log', factor)}"
        for client, factor in (("m5.large", 1.0), ("c5n.large", 1.5))
    ]
    (tmp_path / "charts").mkdir()
    print_accounts(names, "svg", tmp_path / "charts")
    text = (tmp_path / "charts" / "throughput.svg").read_text()
    for word in ("client × threads", "m5.large", "c5n.large", "below: client"):
        assert word in text


def test_logs_of_one_client_are_repetitions(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    days = [str(write_log(tmp_path / f"day-{n}.log", n)) for n in (1, 2)]
    assert main(["import", "datasafe", *days]) == 0
    table = capfd.readouterr().out
    assert table.splitlines()[:3] == [
        "WRITE",
        "Threads\t100kb\t1mb",
        f"2\t{(2 * 1 + 2 * 2) / 2}\t{(2 * 100 / 1024 + 2 * 200 / 1024) / 2}",
    ]
    assert main(["report", *(f"datasafe:{day}" for day in days), "-f", "json"]) == 0
    assert '"repetition": 2' in capfd.readouterr().out


def test_a_client_is_named_for_all_logs_or_for_none(tmp_path: Path) -> None:
    first, second = (write_log(tmp_path / name, 1.0) for name in ("a.log", "b.log"))
    with pytest.raises(InputError, match="some logs"):
        print_accounts([f"datasafe:m5.large={first}", f"datasafe:{second}"], "terminal", None)


def test_a_log_of_queries_can_be_a_page(tmp_path: Path) -> None:
    names = [f"tpch:{s}={DATA / f'theflash-{s.lower()}-raw.md'}" for s in ("SSD", "Ceph")]
    print_accounts(names, "html", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "1.249" in page
    assert "cold-first-run" in page


def test_a_file_of_requests_is_to_be_imported_first(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "fio:disk.json"]) == 1
    assert "loadstone import fio disk.json -o RUN" in capfd.readouterr().err
