"""Probes of targets: exporters of any kind, and the state of a Ceph cluster."""

import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from loadstone.analysis.judgements.labels import label_trial
from loadstone.analysis.limits.target_state import find_states
from loadstone.campaign.schema.target_probe import PrometheusProbe
from loadstone.execution.events import TrialProgress
from loadstone.probes import scraper
from loadstone.probes.ceph import digest, is_moving
from loadstone.probes.exporters import Exporters, Readings
from loadstone.probes.scraper import parse, pattern_of, read_exporter
from loadstone.results.record import Record
from loadstone.results.store import read_run
from tests.unit.fake_loadgen import FakeLoadgen
from tests.unit.surroundings import program, run

GOOD = """# HELP ceph_osd_op Operations
# TYPE ceph_osd_op counter
ceph_osd_op{ceph_daemon="osd.1",kind="read"} 5
ceph_osd_op{kind="write",ceph_daemon="osd.1"} 7.5e3
ceph_osd_apply_ms NaN
other 1
"""

Answer = Callable[[http.server.BaseHTTPRequestHandler], None]


def text(body: str, status: int = 200, **headers: str) -> Answer:
    def answer(request: http.server.BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        for name, value in ({"Content-Length": str(len(body.encode()))} | headers).items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(body.encode())

    return answer


def drip(request: http.server.BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.end_headers()
    while True:
        request.wfile.write(b"a")
        request.wfile.flush()
        time.sleep(0.05)


def drip_head(request: http.server.BaseHTTPRequestHandler) -> None:
    while True:
        request.wfile.write(b"H")
        request.wfile.flush()
        time.sleep(0.05)


def flood(request: http.server.BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.end_headers()
    while True:
        request.wfile.write(b"ceph_osd_x 1\n" * 10_000)


ANSWERS: dict[str, Answer] = {
    "/good": text(GOOD),
    "/nothing": text("<html>hello</html>"),
    "/wrong": text("ceph_osd_op{ 5\n"),
    "/gone": text("", 404),
    "/moved": text("", 302, Location="/good"),
    "/cut": text(GOOD, **{"Content-Length": "100000"}),
    "/many": text("".join(f'ceph_osd_op{{i="{i}"}} {i}\n' for i in range(50))),
    "/drip": drip,
    "/drip-head": drip_head,
    "/flood": flood,
}


@pytest.fixture(scope="module")
def exporter() -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *arguments: Any) -> None:
            pass

        def do_GET(self) -> None:
            try:
                if self.path == "/secret":
                    text(f"ceph_osd_op {len(self.headers.get('Authorization', ''))}\n")(self)
                else:
                    ANSWERS[self.path](self)
            except OSError:
                pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def probe(**changes: Any) -> dict[str, Any]:
    usual = {
        "name": "p", "metrics": ["ceph_osd_*"], "every_ns": 60 * 10**9, "timeout_ns": 60 * 10**9,
        "answer_max_bytes": 1 << 20, "series_max": 10, "bearer_token": None, "ca_file": None,
        "urls": (),
    }  # fmt: skip
    return usual | changes


def test_only_the_series_whose_names_are_wanted_are_read_with_their_labels() -> None:
    series = list(parse(GOOD, pattern_of(["ceph_osd_o*", "oth"])))
    assert series == [
        ('ceph_daemon="osd.1",kind="read"', "ceph_osd_op", 5.0),
        ('ceph_daemon="osd.1",kind="write"', "ceph_osd_op", 7500.0),
    ]


def test_a_good_answer_is_rows_of_one_moment(exporter: str) -> None:
    rows = read_exporter(f"{exporter}/good", probe(), None)
    assert {row[0] for row in rows} == {rows[0][0]}
    assert {row[2] for row in rows} == {"prometheus:p"}
    assert [row[4] for row in rows] == [
        "ceph_osd_op", "ceph_osd_op", "ceph_osd_apply_ms", "up", "series",
    ]  # fmt: skip
    assert rows[-2][5] == 1.0
    assert {row[1] for row in rows} == {exporter.removeprefix("http://")}


def test_exporters_of_one_host_and_port_are_told_apart(exporter: str) -> None:
    paths = ("/good", "/absent?of=one", "/absent?of=two")
    urls = [f"{exporter}{path}" for path in paths]
    rows = [row for url in urls for row in read_exporter(url, probe(urls=urls), None)]
    host = exporter.removeprefix("http://")
    assert {row[1] for row in rows} == {
        f"{host}{name}" for name in ("/good", "/absent 1", "/absent 2")
    }


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/wrong", "not understood: "),
        ("/gone", "HTTP 404"),
        ("/moved", "HTTP 302"),
        ("/cut", "bytes early"),
        ("/flood", " 1048576 bytes"),
    ],
)
def test_an_exporter_that_misbehaves_leaves_a_gap_with_its_reason(
    exporter: str, path: str, reason: str
) -> None:
    (row,) = read_exporter(f"{exporter}{path}", probe(), None)
    assert row[4:] == ("up", 0.0)
    assert reason in row[3]


@pytest.mark.parametrize("path", ["/drip", "/drip-head"])
def test_an_answer_that_has_no_end_is_cut_off_at_its_time_and_is_a_gap(
    exporter: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It does not count as complete if the clock was read late either.
    monkeypatch.setattr(scraper.time, "monotonic", lambda: 0.0)
    (row,) = read_exporter(f"{exporter}{path}", probe(timeout_ns=5 * 10**8), None)
    assert row[4:] == ("up", 0.0)
    assert "0.5 s" in row[3]


def test_an_exporter_that_is_not_there_leaves_a_gap() -> None:
    (row,) = read_exporter("http://127.0.0.1:1/metrics", probe(), None)
    assert "refused" in row[3].lower()


def test_an_answer_without_a_wanted_name_and_one_with_too_many_are_told_by_their_count(
    exporter: str,
) -> None:
    rows = read_exporter(f"{exporter}/nothing", probe(), None)
    assert [(row[4], row[5]) for row in rows] == [("up", 1.0), ("series", 0.0)]
    rows = read_exporter(f"{exporter}/many", probe(), None)
    assert len(rows) == 12
    assert (rows[-1][4], rows[-1][5]) == ("series", 11.0)


def test_a_process_of_its_own_reads_all_and_one_bad_exporter_holds_up_no_other(
    exporter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "12345")
    exporters = Exporters(
        [
            PrometheusProbe.model_validate(
                {
                    "urls": [f"{exporter}{path}" for path in ("/good", "/drip", "/secret")],
                    "metrics": "ceph_osd_op",
                    "every": "250ms",
                    "bearer_token": {"env": "TOKEN"},
                }
            )
        ]
    )
    exporters.start()
    readings = Readings()
    rows: list[dict[str, Any]] = []
    give_up = time.monotonic() + 600
    token = len("Bearer 12345")
    moments: set[int] = set()
    values: set[float] = set()
    drip: str | None = None
    # On a busy machine a good answer may be late too, now and then; but not for ever.
    while time.monotonic() < give_up and not (len(moments) >= 3 and token in values and drip):
        for batch in exporters.take():
            readings.count(batch)
            rows += batch.to_pylist()
        moments = {row["time_unix_ns"] for row in rows if row["subject"].endswith('kind="read"')}
        values = {row["value"] for row in rows if row["metric"] == "ceph_osd_op"}
        drip = next((why for key, why in readings.gaps().items() if key.endswith("/drip")), None)
        time.sleep(0.05)
    exporters.stop()
    assert len(moments) >= 3
    assert token in values
    assert drip is not None
    assert "0.25 s" in drip or "too long" in drip
    assert max(row["value"] for row in rows if row["metric"] == "scraper_cpu_ns") > 0


def test_without_exporters_no_process_is_started() -> None:
    exporters = Exporters([])
    exporters.start()
    assert exporters.take() == []
    exporters.stop()


def test_the_rows_of_a_trial_stand_beside_the_clients(
    tmp_path: Path, loadgen: FakeLoadgen, exporter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = (
        f"probes: {{prometheus: {{urls: '{exporter}/good', metrics: ceph_osd_op, every: 250ms}}}}\n"
    )
    started: list[Exporters] = []
    start = Exporters.start
    monkeypatch.setattr(Exporters, "start", lambda self: (started.append(self), start(self)))

    def listen(event: Any) -> None:
        # The fake load lasts until the scraper has started and read what it is to read.
        if isinstance(event, TrialProgress):
            give_up = time.monotonic() + 600
            while not any("ceph_osd_op" in str(batch["metric"]) for batch in started[0]._batches):
                assert time.monotonic() < give_up
                time.sleep(0.02)

    assert run(tmp_path / "run", campaign, listen).state == "finished"
    tables = [record.probes for record in read_run(tmp_path / "run").records]
    whole = [row for table in tables for row in table.to_pylist()]
    names = {row["probe"] for row in whole}
    assert {"prometheus:prometheus", "cpu"} <= names
    kinds = {row["subject"] for row in whole if row["metric"] == "ceph_osd_op"}
    assert any('kind="write"' in kind for kind in kinds)


# Ceph

STATUS: dict[str, Any] = {
    "fsid": "f",
    "health": {"status": "HEALTH_OK", "checks": {}},
    "pgmap": {"pgs_by_state": [{"state_name": "active+clean", "count": 8}]},
}
ILL: dict[str, Any] = {
    "fsid": "f",
    "health": {
        "status": "HEALTH_WARN",
        "checks": {"OSD_DOWN": {"severity": "HEALTH_WARN", "summary": {"message": "1 osds down"}}},
    },
    "pgmap": {
        "pgs_by_state": [{"state_name": "active+undersized+degraded", "count": 3}],
        "degraded_objects": 12,
    },
}
ANSWERS_OF_CEPH: dict[str, Any] = {
    "df": {
        "stats": {"total_bytes": 1000, "total_used_raw_bytes": 250},
        "pools": [{"name": "p", "stats": {"stored": 100, "objects": 5, "percent_used": 0.3}}],
    },
    "osd df": {
        "nodes": [
            {"id": 0, "device_class": "nvme", "utilization": 25.0, "status": "up", "pgs": 8},
            {"id": 1, "device_class": "nvme", "utilization": 35.0, "status": "up", "pgs": 8},
        ]
    },
    "osd perf": {
        "osdstats": {
            "osd_perf_infos": [
                {"id": 0, "perf_stats": {"commit_latency_ms": 3, "apply_latency_ms": 4}}
            ]
        }
    },
    "osd dump": {
        "erasure_code_profiles": {"ec": {"k": "4", "m": "2"}},
        "pools": [
            {"pool_name": "p", "size": 3, "min_size": 2, "pg_num": 8, "crush_rule": 1},
            {"pool_name": "e", "size": 6, "erasure_code_profile": "ec", "crush_rule": 0},
        ],
    },
    "osd crush rule dump": [{"rule_id": 1, "steps": [{"op": "take", "item_name": "default~nvme"}]}],
    "versions": {"overall": {"ceph version 18.2": 4}},
}


def ceph(folder: Path, status: dict[str, Any]) -> None:
    # The longest question first: "osd df" ends with another one, "df".
    answers = sorted(
        (ANSWERS_OF_CEPH | {"status": status}).items(), key=lambda answer: -len(answer[0])
    )
    cases = [f"*' {name} -f json'*) echo '{json.dumps(answer)}';;" for name, answer in answers]
    script = f'case " $*" in {" ".join(cases)} *) echo unknown >&2; exit 22;; esac'
    program(folder, "ceph", script)


def test_health_fill_redundancy_and_devices_are_part_of_every_trial(
    tmp_path: Path, loadgen: FakeLoadgen, programs: Path
) -> None:
    ceph(programs, STATUS)
    assert run(tmp_path / "run", "probes: {ceph: true}\n").state == "finished"
    records = [record for record in read_run(tmp_path / "run").records if record.trial["measured"]]
    for record in records:
        for when in ("before", "after"):
            state = record.target_state[when]["ceph"]
            assert (state["health"], state["fill"], state["osds_up"]) == ("HEALTH_OK", 0.25, 2)
            assert state["classes"] == {"nvme": 2}
            assert state["fill_of_fullest_osd"] == 0.35
            assert state["latency_ms"] == {"0": {"commit": 3, "apply": 4}}
            # Only the pool of the target.
            assert state["pools"] == {
                "p": {
                    "size": 3, "min_size": 2, "pg_num": 8, "crush_rule": 1, "class": "nvme",
                    "redundancy": "3 copies", "objects": 5, "stored_bytes": 100, "fill": 0.3,
                }
            }  # fmt: skip
        assert not {"UNHEALTHY", "REBALANCING"} & set(label_trial(record))
    unmeasured = [
        record for record in read_run(tmp_path / "run").records if not record.trial["measured"]
    ]
    assert all(record.target_state == {} for record in unmeasured)


def test_a_cluster_that_is_not_well_labels_its_trials_in_its_own_words(
    tmp_path: Path, loadgen: FakeLoadgen, programs: Path
) -> None:
    ceph(programs, ILL)
    run(tmp_path / "run", "probes: {ceph: true}\n")
    records = [record for record in read_run(tmp_path / "run").records if record.trial["measured"]]
    assert all({"UNHEALTHY", "REBALANCING"} <= set(label_trial(record)) for record in records)
    (finding,) = find_states(records)
    assert "HEALTH_WARN, OSD_DOWN: 1 osds down" in finding.statement


def test_missing_answers_of_ceph_are_absent_and_the_trials_continue(
    tmp_path: Path, loadgen: FakeLoadgen, programs: Path
) -> None:
    program(programs, "ceph", "echo denied >&2; exit 13")
    assert run(tmp_path / "run", "probes: {ceph: true}\n").state == "finished"
    record = next(
        record for record in read_run(tmp_path / "run").records if record.trial["measured"]
    )
    assert record.target_state == {}
    assert record.absent_probes["ceph status"] == "denied"
    assert "UNHEALTHY" not in label_trial(record)


def test_a_ceph_that_hangs_costs_its_time_limit_and_no_more(
    tmp_path: Path, loadgen: FakeLoadgen, programs: Path
) -> None:
    program(programs, "ceph", "sleep 1000")
    end = run(tmp_path / "run", "probes: {ceph: {timeout: 200ms}}\n")
    assert end.state == "finished"
    record = next(
        record for record in read_run(tmp_path / "run").records if record.trial["measured"]
    )
    assert record.absent_probes["ceph status"] == "timeout"


def test_erasure_coding_is_told_by_its_parts_and_a_missing_answer_is_no_zero() -> None:
    digested = digest({"map": ANSWERS_OF_CEPH["osd dump"]}, ["e"])
    assert digested["pools"]["e"]["redundancy"] == "4+2"
    assert "health" not in digested
    assert "fill" not in digested
    assert not is_moving(digested)
    assert is_moving(digest({"status": ILL}, []))


@pytest.mark.parametrize(
    ("answers", "place"),
    [
        ({"status": "well"}, "status"),
        ({"status": {"pgmap": {"pgs_by_state": [{"state_name": "a", "count": "many"}]}}}, "count"),
        ({"status": {"pgmap": {"misplaced_objects": "x"}}}, "status.pgmap.misplaced_objects"),
        ({"usage": {"pools": [{}]}}, "usage.pools.0.name"),
        ({"osds": {"nodes": [{"id": 1, "utilization": "full"}]}}, "osds.nodes.0.utilization"),
        ({"rules": {}}, "rules"),
    ],
)
def test_an_invalid_answer_of_ceph_is_refused_with_its_place(
    answers: dict[str, Any], place: str
) -> None:
    with pytest.raises(ValueError, match=place):
        digest(answers, [])


def test_a_failed_hook_labels_its_trial_by_its_last_attempt() -> None:
    entry = {"hook": "drop", "at": "before_trial", "trial": "1", "state": "ended", "exit_code": 1}
    trial = {"id": "1"}
    failed = Record(trial=trial, summary={}, hooks=[entry])
    assert label_trial(failed) == ("HOOK",)
    again = Record(trial=trial, summary={}, hooks=[entry, entry | {"exit_code": 0}])
    assert label_trial(again) == ()
    late = Record(trial=trial, summary={}, hooks=[entry | {"state": "not reached"}])
    assert label_trial(late) == ("HOOK",)
    (finding,) = find_states([failed])
    assert "drop at before_trial" in finding.statement
    assert "exit code 1" in finding.statement
