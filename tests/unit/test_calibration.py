"""The instrument's own ceiling: kept, copied, drawn on between what was measured, and doubted."""

import base64
import datetime
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from loadstone._loadgen import Histogram
from loadstone.analysis import Findings, analyse
from loadstone.analysis.accounts.judged_account import read_account
from loadstone.analysis.instrument.own_ceiling import ClientLoad, NoOwnCeilingError, ceiling_of
from loadstone.errors import ResultError
from loadstone.published import find_layout
from loadstone.report import REPORTS, Options
from loadstone.report.result_words import standing_notes
from loadstone.results import calibration
from loadstone.results.calibration import Calibration, CalibrationPoint, Session
from loadstone.results.store import read_run
from tests.unit import synthetic_run

HOST = {
    "name": "client-1",
    "machine": "x86_64",
    "kernel": "6.1",
    "cpu": {"model": "a core", "cores": 8, "cores_allowed": 4, "governor": "performance"},
}
HERE = calibration.conditions_of(HOST)
BEGAN = datetime.datetime.fromtimestamp(synthetic_run.STARTED_UNIX_NS / 1e9, datetime.UTC)


def point(clients: int, size: int, rate: float, cpu_us: float, **changes: Any) -> CalibrationPoint:
    usual: dict[str, Any] = {
        "driver": "s3",
        "operation": "get",
        "clients": clients,
        "bytes_per_request": float(size),
        "requests_per_s": rate,
        "cpu_ns_per_request": cpu_us * 1000,
        "cores": 4,
        "verify": 1.0,
        "connections": "keep_alive",
        "settings": {"payload_signing": "unsigned", "checksum": "none", "tls": False},
        "requests": 1000,
        "duration_s": 1.0,
    }
    return CalibrationPoint(**usual | changes)


# A request costs 10 µs and another for each 4000 bytes; alone 20 µs.
POINTS = (
    point(1, 4_000, 10_000, 20),
    point(100, 4_000, 100_000, 11),
    point(1, 40_000, 5_000, 40),
    point(100, 40_000, 50_000, 20),
)


def calibrated(
    *points: CalibrationPoint, age: datetime.timedelta = datetime.timedelta(hours=1)
) -> Calibration:
    session = Session(measured=BEGAN - age, conditions=HERE, points=points or POINTS)
    return Calibration(host=calibration.identity_of(HOST), build="abc", sessions=(session,))


def load(**changes: Any) -> ClientLoad:
    usual: dict[str, Any] = {
        "driver": "s3",
        "operation": "get",
        "bytes_per_request": 4_000.0,
        "clients": 100,
        "cores": None,
        "verify": 1.0,
        "connections": "keep_alive",
        "settings": {"endpoints": ["http://store.example"]},
        "encryption": None,
        "path_encryption": None,
        "is_on_own_host": False,
    }
    return ClientLoad(**usual | changes)


def rate(**changes: Any) -> float:
    return ceiling_of(calibrated(), load(**changes), HERE).requests_per_s


def test_elsewhere_the_cores_are_the_clients_alone() -> None:
    ceiling = ceiling_of(calibrated(), load(), HERE)
    assert ceiling.basis == "processor time"
    assert ceiling.requests_per_s == pytest.approx(4 / 11e-6)


def test_beside_its_target_the_client_reaches_what_was_reached() -> None:
    ceiling = ceiling_of(calibrated(), load(is_on_own_host=True), HERE)
    assert ceiling.basis == "measured"
    assert ceiling.requests_per_s == pytest.approx(100_000)


def test_between_two_sizes_the_time_of_a_request_grows_with_its_bytes() -> None:
    assert rate(bytes_per_request=22_000.0) == pytest.approx(4 / 15.5e-6)
    shared = rate(bytes_per_request=22_000.0, is_on_own_host=True)
    assert shared == pytest.approx(1 / (0.5 / 100_000 + 0.5 / 50_000))


def test_a_smaller_size_is_never_taken_to_be_faster_than_the_smallest_measured() -> None:
    assert rate(bytes_per_request=1.0) == pytest.approx(rate())


def test_a_larger_size_goes_on_with_the_line_and_is_marked() -> None:
    ceiling = ceiling_of(calibrated(), load(bytes_per_request=400_000.0), HERE)
    assert ceiling.is_extended
    assert ceiling.requests_per_s == pytest.approx(4 / 110e-6)
    with pytest.raises(NoOwnCeilingError, match="40000 bytes"):
        rate(bytes_per_request=40_000.0 * 17)


def test_a_single_size_is_drawn_on_without_a_fixed_part() -> None:
    calibration_of_one_size = calibrated(point(100, 4_000, 100_000, 11))
    ceiling = ceiling_of(calibration_of_one_size, load(bytes_per_request=8_000.0), HERE)
    assert ceiling.is_extended
    assert ceiling.requests_per_s == pytest.approx(4 / 22e-6)


def test_few_clients_are_bound_by_the_time_of_a_request() -> None:
    assert rate(clients=1) == pytest.approx(10_000)
    assert rate(clients=3) == pytest.approx(30_000)
    assert rate(clients=1, is_on_own_host=True) == pytest.approx(10_000)
    assert rate(clients=1000, is_on_own_host=True) == pytest.approx(100_000)


def test_fewer_cores_have_a_lower_ceiling() -> None:
    assert rate(cores=1) == pytest.approx(1 / 11e-6)
    limited = {**HERE, "cgroup_cpu.max": "50000 100000"}
    session = replace(calibrated().sessions[0], conditions=limited)
    narrow = replace(calibrated(), sessions=(session,))
    assert ceiling_of(narrow, load(), limited).requests_per_s == pytest.approx(0.5 / 11e-6)


def test_open_load_has_as_many_in_flight_as_it_takes() -> None:
    assert rate(clients=None) == pytest.approx(4 / 11e-6)
    assert rate(clients=None, is_on_own_host=True) == pytest.approx(100_000)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"driver": "swift"}, "driver swift"),
        ({"operation": "list"}, "list on s3"),
        ({"settings": {"payload_signing": "signed"}}, "payload_signing signed"),
        ({"settings": {"endpoints": ["https://store.example"]}}, "TLS"),
        ({"connections": "per_request"}, "per request"),
        ({"encryption": "aes-256-gcm"}, "aes-256-gcm"),
        ({"path_encryption": "aes-256-siv"}, "aes-256-siv"),
    ],
)
def test_an_uncalibrated_load_has_no_ceiling(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(NoOwnCeilingError, match=why):
        rate(**changes)


def test_a_range_costs_what_a_whole_object_of_its_size_costs() -> None:
    assert rate(operation="range_get") == rate()


def test_reads_that_checked_less_do_not_stand_for_reads_that_check_all() -> None:
    unchecked = calibrated(*(replace(measured_point, verify=0.0) for measured_point in POINTS))
    with pytest.raises(NoOwnCeilingError, match="100%"):
        ceiling_of(unchecked, load(), HERE)
    assert ceiling_of(calibrated(), load(verify=0.5), HERE).requests_per_s == pytest.approx(rate())


def test_other_conditions_are_named() -> None:
    now = {**HERE, "cpu_governor": "powersave"}
    with pytest.raises(NoOwnCeilingError, match="cpu governor") as caught:
        ceiling_of(calibrated(), load(), now)
    for value in ("performance", "powersave"):
        assert value in str(caught.value)


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def test_a_calibration_is_copied_for_its_host_and_build_only(state: Path) -> None:
    assert calibration.copy_for(HOST, "abc", ["s3"])["absent"] == calibration.NOT_CALIBRATED
    calibration.keep(HOST, "abc", calibrated().sessions[0])
    copied = calibration.parse(calibration.copy_for(HOST, "abc", ["s3"]))
    assert copied.sessions == calibrated().sessions
    assert calibration.copy_for(HOST, "def", ["s3"])["absent"] == calibration.OTHER_BUILDS_ONLY
    elsewhere = {**HOST, "name": "client-2"}
    absent = calibration.copy_for(elsewhere, "abc", ["s3"])["absent"]
    assert absent == calibration.NOT_CALIBRATED
    assert "swift" in calibration.copy_for(HOST, "abc", ["swift"])["absent"]


def test_a_new_session_takes_the_place_of_the_same_loads_only(state: Path) -> None:
    calibration.keep(HOST, "abc", calibrated().sessions[0])
    renewed = Session(
        measured=BEGAN, conditions=HERE, points=(replace(POINTS[0], requests_per_s=11_000.0),)
    )
    path = calibration.keep(HOST, "abc", renewed)
    old, new = calibration.read(path).sessions
    assert old.points == POINTS[1:]
    assert new == renewed
    assert [sibling.name for sibling in path.parent.iterdir()] == [path.name]


def test_the_higher_of_two_measurements_stands_with_its_date() -> None:
    slow = replace(POINTS[0], requests_per_s=9_000.0)
    fast = replace(POINTS[1], requests_per_s=120_000.0)
    new = Session(measured=BEGAN, conditions=HERE, points=(slow, fast))
    before = calibrated(POINTS[0], POINTS[1])
    ((session, old, lower),) = before.standing_against(new)
    assert (session, old, lower) == (before.sessions[0], POINTS[0], slow)
    first, second = before.with_session(new).sessions
    assert (first.measured, first.points) == (before.sessions[0].measured, (POINTS[0],))
    assert (second.measured, second.points) == (BEGAN, (fast,))
    only_slow = replace(new, points=(slow,))
    assert before.with_session(only_slow).sessions == before.sessions


def test_a_higher_one_that_is_old_or_of_other_conditions_gives_way() -> None:
    slow = replace(POINTS[0], requests_per_s=9_000.0)
    new = Session(measured=BEGAN, conditions=HERE, points=(slow,))
    old = calibrated(POINTS[0], age=datetime.timedelta(days=8))
    assert old.with_session(new).sessions == (new,)
    other = replace(new, conditions={**HERE, "cpu_governor": "powersave"})
    assert calibrated(POINTS[0]).with_session(other).sessions == (other,)


@pytest.mark.parametrize(
    ("part", "changes", "reason"),
    [
        ("points", {"clients": "many"}, "sessions.0.points.0.clients: "),
        ("points", {"driver": None}, "sessions.0.points.0.driver: "),
        ("session", {"measured": "2026-01-01T08:00:00"}, "sessions.0.measured: "),
    ],
)
def test_a_calibration_that_was_edited_is_named_and_stops_no_run(
    state: Path, part: str, changes: dict[str, Any], reason: str
) -> None:
    path = calibration.keep(HOST, "abc", calibrated().sessions[0])
    document = json.loads(path.read_text())
    session = document["sessions"][0]
    (session["points"][0] if part == "points" else session).update(changes)
    path.write_text(json.dumps(document))
    with pytest.raises(ResultError, match=re.escape(reason)):
        calibration.read(path)
    assert reason in calibration.copy_for(HOST, "abc", ["s3"])["absent"]


def test_a_calibration_that_was_cut_off_stops_no_run(state: Path) -> None:
    path = calibration.keep(HOST, "abc", calibrated().sessions[0])
    path.write_text(path.read_text()[:100])
    assert "cut off" in calibration.copy_for(HOST, "abc", ["s3"])["absent"]
    calibration.keep(HOST, "abc", calibrated().sessions[0])
    assert "absent" not in calibration.copy_for(HOST, "abc", ["s3"])


def hiccups(late_ns: int) -> str:
    times = Histogram()
    times.record(late_ns, 10_000)
    return base64.b64encode(times.encode()).decode()


def run_of(
    path: Path, calibration_found: object, *, good: int = 50_000, **summary: Any
) -> Findings:
    """One trial of gets on an S3 store elsewhere, with a calibration in the run's manifest."""
    folder = synthetic_run.Folder(path / "run", "known", seconds=4)
    document = synthetic_run.trial(1, "store", "get", clients=100, size=4_000)
    folder.add(document, good, wobble=0, changes=summary)
    folder.close(campaign={}, campaign_file="name: known\n")
    manifest = json.loads((folder.path / "manifest.json").read_text())
    manifest |= {"host": HOST, "calibration": calibration_found}
    (folder.path / "manifest.json").write_text(json.dumps(manifest))
    return analyse(read_run(folder.path))


HOST_2 = {**HOST, "name": f"{HOST['name']}-2"}


@pytest.mark.parametrize(
    ("machines", "used"),
    [
        # Each has 11 µs of processor time for a request on four cores; the busier one counts.
        ((HOST, HOST_2), 75_000 * 11e-6 / 4),
        # Both agents are on one machine, whose ceiling they use up together.
        ((HOST, HOST), 100_000 * 11e-6 / 4),
    ],
)
def test_client_hosts_have_ceilings_of_their_own(
    tmp_path: Path, machines: tuple[dict[str, Any], ...], used: float
) -> None:
    folder = synthetic_run.Folder(tmp_path / "run", "known", seconds=4)
    document = synthetic_run.trial(1, "store", "get", clients=200, size=4_000) | {"hosts": 2}
    hosts = [
        {"name": f"client{number}", "state": "finished", "clients": 100, "failed": 0,
         "requests": requests, "target_on_own_host": False}
        for number, requests in enumerate((300_000, 100_000))
    ]  # fmt: skip
    folder.add(document, 100_000, wobble=0, changes={"hosts": hosts})
    folder.close(campaign={}, campaign_file="name: known\n")
    manifest = json.loads((folder.path / "manifest.json").read_text())
    joined = [
        {"name": host["name"], "fingerprint": machine, "calibration": calibrated().document()}
        for host, machine in zip(hosts, machines, strict=True)
    ]
    manifest |= {"host": HOST, "calibration": {"absent": "not here"}, "hosts": joined}
    (folder.path / "manifest.json").write_text(json.dumps(manifest))
    (cell,) = analyse(read_run(folder.path)).rounds
    assert cell.instrument is not None
    assert cell.instrument.share == pytest.approx(used)
    assert cell.instrument.ceiling_per_s * cell.instrument.share == pytest.approx(100_000)
    joined[1]["calibration"] = {"absent": "this host has not been calibrated"}
    (folder.path / "manifest.json").write_text(json.dumps(manifest))
    findings = analyse(read_run(folder.path))
    assert findings.rounds[0].instrument is None
    (not_calibrated,) = [
        finding for finding in findings.findings if finding.rule == "not-calibrated"
    ]
    assert "client1" in not_calibrated.statement


def rendered(path: Path, findings: Findings, name: str) -> str:
    report = next(report for report in REPORTS.values() if report.name == name)
    return report.render(read_run(path / "run"), findings, Options(is_full=True)).decode()


def test_a_run_says_how_near_the_ceiling_it_was(tmp_path: Path) -> None:
    findings = run_of(tmp_path, calibrated().document(), good=100_000)
    (cell,) = findings.rounds
    assert cell.instrument is not None
    assert cell.instrument.share == pytest.approx(100_000 * 11e-6 / 4)
    assert cell.instrument.age_s == pytest.approx(3600)
    assert not {"NEAR_CEILING", "INSTRUMENT_LIMITED"} & set(cell.labels)
    assert "not-calibrated" not in {finding.rule for finding in findings.findings}
    assert "≥" not in rendered(tmp_path, findings, "terminal")


def test_threads_that_used_more_of_their_cores_were_nearer_the_ceiling(tmp_path: Path) -> None:
    used_ns = [3_000_000_000, 3_000_000_000, 3_000_000_000, 3_000_000_000]
    (cell,) = run_of(tmp_path, calibrated().document(), thread_cpu_ns=used_ns).rounds
    assert cell.instrument is not None
    # Four threads, four cores, four seconds.
    assert cell.instrument.share == pytest.approx(0.75)


def test_half_the_ceiling_is_a_caution(tmp_path: Path) -> None:
    (cell,) = run_of(tmp_path, calibrated().document(), good=200_000).rounds
    assert "NEAR_CEILING" in cell.labels


def test_near_the_ceiling_a_rate_is_a_bound_in_every_readable_report(tmp_path: Path) -> None:
    findings = run_of(tmp_path, calibrated().document(), good=300_000)
    (cell,) = findings.rounds
    assert "INSTRUMENT_LIMITED" in cell.labels
    for name in ("terminal", "markdown", "html"):
        assert "≥ 300,000" in rendered(tmp_path, findings, name), name
    (row,) = json.loads(rendered(tmp_path, findings, "json"))["rounds"]
    assert row["instrument"]["share_of_ceiling"] == pytest.approx(0.825)
    assert row["requests_per_s"] == 300_000
    assert row["verdict"]["limit"].startswith("INSTRUMENT_")


def test_a_bound_stands_below_a_published_layout_and_takes_part_in_no_ratio(
    tmp_path: Path,
) -> None:
    findings = run_of(tmp_path, calibrated().document(), good=300_000)
    report = next(report for report in REPORTS.values() if report.name == "markdown")
    (note,) = standing_notes(findings.rounds)
    for table in ("hummingbird", "cern"):
        run = read_run(tmp_path / "run")
        text = report.render(
            run, findings, Options(layout=find_layout(table), is_full=True)
        ).decode()
        assert note in text, table
    measurements = read_account(read_run(tmp_path / "run")).measurements
    assert {measurement.standing for measurement in measurements} == {"bound"}
    assert all("INSTRUMENT_LIMITED" in measurement.reasons for measurement in measurements)


def test_without_a_calibration_one_line_says_so_with_the_command(tmp_path: Path) -> None:
    why = "this host is new"
    findings = run_of(tmp_path, {"absent": why})
    (not_calibrated,) = [
        finding for finding in findings.findings if finding.rule == "not-calibrated"
    ]
    assert why in not_calibrated.statement
    assert "loadstone calibrate s3 --sizes 4000 --threads 1,100" in not_calibrated.statement


def test_an_old_calibration_is_used_and_doubted(tmp_path: Path) -> None:
    old = calibrated(age=datetime.timedelta(days=9)).document()
    findings = run_of(tmp_path, old)
    assert findings.rounds[0].instrument is not None
    (old_calibration,) = [
        finding for finding in findings.findings if finding.rule == "calibration-old"
    ]
    (age,) = old_calibration.evidence
    assert (age.metric, age.value) == ("age", pytest.approx(9, abs=0.01))


def test_operations_side_by_side_use_up_the_ceiling_together(tmp_path: Path) -> None:
    folder = synthetic_run.Folder(tmp_path / "run", "known", seconds=2)
    document = synthetic_run.trial(1, "store", "get", clients=100, size=4_000)
    document["mix"] = [{"operation": "get", "weight": 1.0}, {"operation": "put", "weight": 1.0}]
    gets = synthetic_run.trial_rows(document, 80_000, 2, wobble=0)
    rows = gets + [{**row, "operation": "put"} for row in gets]
    folder.write(document, rows)
    folder.close(campaign={}, campaign_file="name: known\n")
    manifest = json.loads((folder.path / "manifest.json").read_text())
    puts = tuple(replace(measured_point, operation="put") for measured_point in POINTS)
    manifest |= {"host": HOST, "calibration": calibrated(*POINTS, *puts).document()}
    (folder.path / "manifest.json").write_text(json.dumps(manifest))
    findings = analyse(read_run(folder.path))
    shares = [cell.instrument.share for cell in findings.rounds if cell.instrument is not None]
    assert shares == pytest.approx([160_000 * 11e-6 / 4] * 2)


def test_hiccups_comparable_with_the_p99_make_it_noisy(tmp_path: Path) -> None:
    quiet, noisy = tmp_path / "quiet", tmp_path / "noisy"
    # A hundred clients at 50,000 a second wait 2 ms on average, and their p99 is above.
    (cell,) = run_of(quiet, None, hiccup=hiccups(50_000)).rounds
    assert "NOISY" not in cell.labels
    assert cell.jitter.hiccup_ns_p99_9 == pytest.approx(50_000, rel=0.001)
    waits = [400_000_000, 0]
    findings = run_of(noisy, None, hiccup=hiccups(5_000_000), thread_run_delay_ns=waits)
    (cell,) = findings.rounds
    assert "NOISY" in cell.labels
    assert cell.jitter.run_delay_share == pytest.approx(0.1)
    (trial,) = findings.trials
    assert trial.jitter == cell.jitter
    assert trial.little == pytest.approx(1.0, abs=0.02)
    page = rendered(noisy, findings, "html")
    assert "Hiccup" in page
    assert "Waited" in page
