"""The observations of Skyhook once more, with known truth: which ceiling do the results touch?"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from loadstone.analysis import Findings, analyse
from loadstone.analysis.accounts.judged_account import read_account
from loadstone.analysis.judgements.finding import Finding
from loadstone.analysis.limits.measured_ceilings import ceilings_of
from loadstone.analysis.limits.observed import CEILING_PASSED, CEILING_TOUCHED
from loadstone.analysis.rules import limit_in_words
from loadstone.report import REPORTS, Options
from loadstone.report.formats.document import document
from loadstone.report.formats.html import drawn_of_run
from loadstone.results.record import Run
from loadstone.results.store import read_run
from tests.unit.drawn_charts import DrawnChart, charts_of_run
from tests.unit.synthetic_run import STARTED_UNIX_NS, Folder, trial

MIB = 2**20
SIZE = 4 * MIB
GBIT = 1e9 / 8

# Requests of 4 MiB a second against threads: one OSD ends at half of what four reach together.
RATES = {
    ("four-osds", "get"): {1: 84, 4: 150, 8: 210, 10: 225},
    ("one-osd", "get"): {1: 80, 4: 100, 8: 108, 10: 109},
    ("four-osds", "put"): {1: 40, 4: 60, 8: 70, 10: 72},
}
NETWORK = 7.61 * GBIT
DEVICE = 2540e6
PATH = "network path (iperf3)"
OSDS = "OSDs by themselves (ceph tell osd bench)"
BENCH = {"four-osds": 1100e6, "one-osd": 460e6}


def measurement(name: str, bounds: str, rate: float, **changes: Any) -> dict[str, Any]:
    usual = {
        "name": name, "bounds": bounds, "parameters": {}, "bytes_per_s": rate,
        "bytes_per_s_min": None, "bytes_per_s_max": None, "bytes_per_second": [],
        "requests_per_s": None, "service": None, "tool": "t", "tool_version": "1",
        "commands": [["t"]], "outputs": ["C001-1.txt"],
    }  # fmt: skip
    return usual | changes


def add_ceiling(
    folder: Path, number: int, kind: str, targets: list[str], measurements: list[dict[str, Any]],
    **changes: Any,
) -> None:  # fmt: skip
    (folder / "ceilings").mkdir(exist_ok=True)
    ceiling = {
        "id": f"C{number:03d}", "name": kind, "kind": kind, "targets": targets, "count": 1,
        "moment": "before all trials",
    }  # fmt: skip
    record = {
        "ceiling_format": 1,
        "ceiling": ceiling | changes,
        "measurements": measurements,
        "started_unix_ns": STARTED_UNIX_NS,
        "ended_unix_ns": STARTED_UNIX_NS,
    }
    (folder / "ceilings" / f"C{number:03d}.json").write_text(json.dumps(record))


def write_skyhook(path: Path, *, network: float = NETWORK, device: float = DEVICE) -> Path:
    folder = Folder(path, "skyhook-rados", 70)
    number = 0
    for (target, operation), rates in RATES.items():
        for threads, rate in rates.items():
            number += 1
            folder.add(trial(number, target, operation, clients=threads, size=SIZE), rate)
    both = ["one-osd", "four-osds"]
    add_ceiling(
        path, 1, "network", both,
        [
            measurement("receive, 1 stream", "read", network / 2),
            measurement(
                "receive, 10 streams", "read", network,
                bytes_per_s_min=6.5 * GBIT, bytes_per_s_max=8.25 * GBIT,
            ),
            measurement("send, 10 streams", "write", network),
        ],
    )  # fmt: skip
    add_ceiling(path, 2, "device", both, [measurement("read", "read", device)])
    for offset, (target, rate) in enumerate(BENCH.items()):
        add_ceiling(
            path, 3 + offset, "rados_bench", [target],
            [
                measurement("seq, 1 thread", "read", rate / 3),
                measurement("seq, 10 threads", "read", rate),
                measurement("write, 10 threads", "write", rate / 2),
            ],
        )  # fmt: skip
    add_ceiling(
        path, 5, "osd_bench", ["four-osds"],
        [
            measurement("osd.0 alone", "write", 350e6, parameters={"osds": [0]}),
            measurement("2 OSDs together", "write", 305e6, parameters={"osds": [0, 1]}),
        ],
    )  # fmt: skip
    campaign = {"name": "skyhook-rados", "targets": {"one-osd": {}, "four-osds": {}}}
    return folder.close(campaign=campaign, campaign_file="")


@pytest.fixture(scope="module")
def skyhook(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return read_run(write_skyhook(tmp_path_factory.mktemp("skyhook") / "run"))


@pytest.fixture(scope="module")
def findings(skyhook: Run) -> Findings:
    return analyse(skyhook)


def bottleneck(findings: Findings, target: str, operation: str) -> Finding:
    (bottleneck_of,) = [
        finding
        for finding in findings.findings
        if finding.rule == "bottleneck"
        and [case.startswith(target) and f", {operation} " in case for case in finding.cases]
        == [True]
    ]
    return bottleneck_of


def shares(finding: Finding) -> dict[str, float]:
    """Return the share of each ceiling, the lowest ceiling first."""
    return {
        evidence.metric.removeprefix("share of "): float(evidence.value)
        for evidence in finding.evidence
    }


def touched(finding: Finding) -> list[str]:
    """Return the ceilings that a result comes up to without passing them."""
    return [
        name
        for name, share in shares(finding).items()
        if CEILING_TOUCHED <= share <= CEILING_PASSED
    ]


def rate(requests: int) -> float:
    return requests * SIZE / MIB


def test_four_osds_touch_the_network_and_both_numbers_stand_in_one_unit(
    findings: Findings,
) -> None:
    finding = bottleneck(findings, "four-osds", "get")
    share = rate(225) * MIB / NETWORK
    assert shares(finding)[PATH] == pytest.approx(share)
    assert touched(finding) == [PATH] == list(shares(finding))[:1]
    assert finding.severity == "caution"
    # Both stand in one unit, and the path in that of links besides, with the range it was seen in.
    for number in ("900 MiB/s", f"{share:.0%}", "907 MiB/s = 7.61 Gbit/s", "775 MiB/s", "983 MiB/s",
                   "1,049 MiB/s", "2,422 MiB/s", "+7%"):  # fmt: skip
        assert number in finding.statement


def test_one_osd_touches_the_store_and_not_the_network(findings: Findings) -> None:
    finding = bottleneck(findings, "one-osd", "get")
    assert touched(finding) == ["rados bench"]
    assert shares(finding)["rados bench"] == pytest.approx(0.994, abs=0.001)
    assert finding.severity == "note"


def test_the_value_of_the_osds_is_what_they_do_together(findings: Findings) -> None:
    finding = bottleneck(findings, "four-osds", "put")
    assert touched(finding) == [OSDS]
    assert shares(finding)[OSDS] == pytest.approx(rate(72) * MIB / 305e6)


def test_a_result_above_a_ceiling_was_not_held_up_by_it(tmp_path: Path) -> None:
    path = write_skyhook(tmp_path / "run", device=100e6)
    finding = bottleneck(analyse(read_run(path)), "four-osds", "get")
    assert touched(finding) == [PATH]
    assert shares(finding)["device (fio)"] == pytest.approx(rate(225) * MIB / 100e6)


def test_far_below_every_ceiling_none_is_named(tmp_path: Path) -> None:
    path = write_skyhook(tmp_path / "run", network=100 * GBIT)
    finding = bottleneck(analyse(read_run(path)), "four-osds", "get")
    assert touched(finding) == []
    assert max(shares(finding).values()) == pytest.approx(0.858, abs=0.001)


def test_so_many_devices_side_by_side_let_through_so_much_more(tmp_path: Path) -> None:
    path = write_skyhook(tmp_path / "run", network=100 * GBIT)
    add_ceiling(path, 2, "device", ["four-osds"], [measurement("read", "read", 240e6)], count=4)
    finding = bottleneck(analyse(read_run(path)), "four-osds", "get")
    assert touched(finding) == ["device (fio)"]
    assert shares(finding)["device (fio)"] == pytest.approx(rate(225) * MIB / (4 * 240e6))
    assert "4 ×" in finding.statement


def test_devices_and_osds_write_every_copy_and_the_path_carries_one(tmp_path: Path) -> None:
    path = write_skyhook(tmp_path / "run")
    together = [measurement("2 OSDs together", "write", 900e6, parameters={"osds": [0, 1]})]
    add_ceiling(path, 5, "osd_bench", ["four-osds"], together, replication={"four-osds": 3})
    both = ["one-osd", "four-osds"]
    device = [measurement("write", "write", 2000e6)]
    add_ceiling(path, 6, "device", both, device, replication={"four-osds": 2.0})
    account = read_account(read_run(path))
    writes = {
        (ceiling.name, ceiling.targets): ceiling.bytes_per_s
        for ceiling in account.ceilings
        if ceiling.bounds == "write" and ceiling.resource != "network"
    }
    assert writes[
        "OSDs by themselves (ceph tell osd bench) ÷ 3 for its copies", ("four-osds",)
    ] == (pytest.approx(300e6))
    assert writes["device (fio)", ("one-osd",)] == 2000e6
    assert writes["device (fio) ÷ 2 for its copies", ("four-osds",)] == 1000e6
    finding = bottleneck(analyse(read_run(path)), "four-osds", "put")
    share = shares(finding)["OSDs by themselves (ceph tell osd bench) ÷ 3 for its copies"]
    assert share == pytest.approx(rate(72) * MIB / 300e6)


def test_the_verdict_of_a_cell_names_the_ceiling_that_it_touches(findings: Findings) -> None:
    verdicts = {
        case: finding.statement.partition(" in ")[0].partition(" (grade")[0]
        for finding in findings.findings
        if finding.rule == "verdict"
        for case in finding.cases
    }
    by_words = {
        limit: [case for case, named in verdicts.items() if named == limit]
        for limit in set(verdicts.values())
    }
    network, software = map(limit_in_words, ("NETWORK_PATH", "TARGET_SOFTWARE"))
    assert any("four-osds" in case and "10 threads" in case for case in by_words[network])
    assert any("one-osd" in case and "10 threads" in case for case in by_words[software])
    assert not any("one-osd" in case for case in by_words[network])


def test_a_ceiling_measured_twice_is_the_mean_of_its_values(tmp_path: Path) -> None:
    path = write_skyhook(tmp_path / "run")
    again = [measurement("receive, 10 streams", "read", NETWORK / 2, bytes_per_s_min=1.0)]
    targets = ["one-osd", "four-osds"]
    add_ceiling(path, 6, "network", targets, again, moment="after all trials")
    account = read_account(read_run(path))
    network = next(
        ceiling
        for ceiling in account.ceilings
        if ceiling.resource == "network" and ceiling.bounds == "read"
    )
    assert network.bytes_per_s == pytest.approx(NETWORK * 0.75)
    assert network.low == 1.0


def test_a_run_without_ceilings_has_no_such_finding_table_or_chart(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "run", "plain", 70)
    for number, threads in enumerate((1, 4, 8), start=1):
        folder.add(trial(number, "a", "get", clients=threads, size=SIZE), 10 * threads)
    run = read_run(folder.close(campaign={"name": "plain"}, campaign_file=""))
    findings = analyse(run)
    assert findings.ceilings == ()
    assert not [finding for finding in findings.findings if finding.rule == "bottleneck"]
    assert not [name for name in charts_of_run(run, findings) if name.startswith("data-")]


@pytest.fixture(scope="module")
def charts(skyhook: Run, findings: Findings) -> dict[str, DrawnChart]:
    return charts_of_run(skyhook, findings)


def test_the_chart_against_threads_has_the_means_and_every_ceiling_of_its_target(
    charts: dict[str, DrawnChart],
) -> None:
    chart = charts["data-against-load"]
    points = {
        row["load"]: row["bytes_per_s"] / MIB
        for row in chart.rows
        if row["panel"] == "four-osds, get"
    }
    assert points == pytest.approx(
        {threads: rate(n) for threads, n in RATES["four-osds", "get"].items()}, rel=1e-4
    )
    near = {
        ceiling["title"]: {c["name"]: c["limit"] for c in ceiling["near"]}
        for ceiling in chart.ceilings
    }
    lines = near["four-osds, get"]
    assert set(lines) == {"network path (iperf3)", "rados bench", "device (fio)"}
    assert lines["network path (iperf3)"] == pytest.approx(NETWORK, rel=1e-3)
    assert lines["device (fio)"] == pytest.approx(DEVICE, rel=1e-3)
    assert any(words.startswith("device (fio), 2,422 MiB/s = ") for words in chart.legend)
    assert "device (fio)" not in near["four-osds, put"]


def test_a_ceiling_far_above_is_named_and_not_drawn_where_it_is_not(tmp_path: Path) -> None:
    run = read_run(write_skyhook(tmp_path / "run", device=50e9))
    charts = charts_of_run(run, analyse(run))
    for name in ("data-against-load", "data-over-time"):
        drawn = {ceiling["name"] for panel in charts[name].ceilings for ceiling in panel["near"]}
        assert drawn
        assert "device (fio)" not in drawn
        assert "not drawn: " in charts[name].caption
        assert "device (fio), 47,684 MiB/s" in charts[name].caption


def test_a_rate_beside_threads_and_ceilings_out_of_sight_still_make_charts(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "run", "mixed", 6)
    for number, threads in enumerate((1, 2, 4), start=1):
        folder.add(trial(number, "one", "get", clients=threads, size=SIZE), 10 * threads)
    paced = trial(4, "one", "get", clients=1, size=SIZE)
    paced["case"] |= {"workload": "paced", "parameters": {"rate_per_s": 100.0, "size": SIZE}}
    folder.add(paced, 100)
    add_ceiling(tmp_path / "run", 1, "device", ["one"], [measurement("read", "read", 50e12)])
    run = read_run(folder.close(campaign={}, campaign_file=""))
    charts = charts_of_run(run, analyse(run))
    assert {row["load"] for row in charts["data-against-load"].rows} == {1, 2, 4}
    assert len({row["series"] for row in charts["data-over-time"].rows}) == 4


def test_over_time_each_thread_count_is_a_line_below_the_ceilings(
    charts: dict[str, DrawnChart],
) -> None:
    chart = charts["data-over-time"]
    of_panel = [row for row in chart.rows if row["panel"] == chart.panels[0]]
    assert len({row["trial"] for row in of_panel}) == len({row["key"] for row in of_panel}) > 2
    drawn = {
        c["name"]
        for ceiling in chart.ceilings
        if "one-osd" in ceiling["title"]
        for c in ceiling["near"]
    }
    assert not drawn or "rados bench" in drawn


@pytest.mark.parametrize("name", ["terminal", "markdown", "html"])
def test_every_readable_report_shows_the_ceilings_and_the_sentence(
    skyhook: Run, findings: Findings, name: str
) -> None:
    text = REPORTS[name].render(skyhook, findings, Options(width=200, is_full=True)).decode()
    assert "Ceilings" in text
    assert "receive, 10 streams" in text
    assert "7.61" in text
    assert bottleneck(findings, "four-osds", "get").statement in " ".join(text.split())


def test_the_first_screen_names_the_ceilings_that_results_touch(
    skyhook: Run, findings: Findings
) -> None:
    screen = REPORTS["terminal"].render(skyhook, findings, Options(width=80)).decode()
    held = [
        finding
        for finding in findings.findings
        if finding.rule == "bottleneck" and touched(finding)
    ]
    assert len(held) == 3
    lines = screen.splitlines()
    shown = [
        finding
        for finding in held
        if any(finding.statement.partition(":")[0] in line for line in lines)
    ]
    assert len(shown) == 2
    assert len(lines) <= 24


def test_the_json_report_has_every_measurement_and_suits_its_schema(
    skyhook: Run, findings: Findings
) -> None:
    import jsonschema

    report = document(skyhook, findings)
    path = Path(__file__).parents[2] / "docs" / "reference" / "report.schema.json"
    jsonschema.Draft202012Validator(json.loads(path.read_text())).validate(report)
    values = [ceiling for ceiling in report["ceilings"] if ceiling["is_value"]]
    assert len(report["ceilings"]) == 12
    assert len(values) == len(ceilings_of(findings.ceilings)) == 8


def test_hooks_are_marked_in_charts_over_time_and_listed_with_what_they_said(
    tmp_path: Path,
) -> None:
    path = write_skyhook(tmp_path / "run")
    why = "no such daemon"
    entry = {
        "hook": "restart", "at": "30s", "trial": "0001", "phase": "get", "command": ["r"],
        "on_failure": "label", "state": "ended", "exit_code": 1, "said": why,
        "started_unix_ns": STARTED_UNIX_NS + 30 * 10**9,
        "ended_unix_ns": STARTED_UNIX_NS + 31 * 10**9,
    }  # fmt: skip
    early = entry | {"hook": "drop", "started_unix_ns": STARTED_UNIX_NS - 10**9}
    (path / "hooks.jsonl").write_text(json.dumps(early) + "\n" + json.dumps(entry) + "\n")
    run = read_run(path)
    with_hooks = analyse(run)
    (mark,) = drawn_of_run(run, with_hooks)["marks"]
    assert (mark["elapsed_s"], mark["trial"]) == (30.0, "0001")
    assert mark["words"].startswith("restart: ")
    assert mark["words"].endswith(" 1")
    chart = charts_of_run(run, with_hooks)["rate-over-time"]
    assert mark["words"] in chart.svg
    assert "Marked" in chart.caption
    text = REPORTS["markdown"].render(run, with_hooks, Options()).decode()
    assert why in text
    assert re.search(r"\bdrop at 30s: [a-z ]+ 1; restart\b", text)
    labels = {trial.trial: trial.labels for trial in with_hooks.trials}
    assert labels["0001"] == ("HOOK",)
    assert labels["0002"] == ()


def test_a_target_has_one_colour_in_all_charts_whichever_was_measured_first(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "run", "order", 6)
    for number, target in enumerate(("late", "early"), start=1):
        folder.add(trial(number, target, "get", clients=1, size=SIZE), 1000 * number)
    campaign = {"targets": {"early": {}, "late": {}}}
    run = read_run(folder.close(campaign=campaign, campaign_file=""))
    charts = charts_of_run(run, analyse(run))
    for name in ("throughput", "rate-over-time", "latency-over-time"):
        assert charts[name].legend == {"early": "var(--series-0)", "late": "var(--series-1)"}, name
