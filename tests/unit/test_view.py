"""The local page over a folder of runs: its content, its access control, hostile input."""

import http.client
import json
import os
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from loadstone._loadgen import Schema
from loadstone.analysis import analyse
from loadstone.cli import main
from loadstone.results.files.tables import StreamWriter
from loadstone.results.record import INTERVAL_SCHEMA, PROBE_SCHEMA
from loadstone.results.store import read_run
from loadstone.view.live_run import LiveRun, StreamFollower
from loadstone.view.page_server import PageServer
from loadstone.view.run_list import RunList
from tests.unit.synthetic_run import Folder, trial
from tests.unit.test_report_html import Page

HOSTILE = "<img src=x onerror=alert(1)>\"'&\x1b[31m"


def write_run(path, name="nightly", rate=100):
    made = Folder(path, name, 4)
    for number in range(2):
        made.add(trial(number, "s3", ("get", "put")[number]), rate)
    return made.close(campaign={"name": name, "targets": {"s3": {}}}, campaign_file="")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    runs = tmp_path_factory.mktemp("runs")
    write_run(runs / "first")
    write_run(runs / "second", rate=200)
    write_run(runs / HOSTILE.replace("/", ""), name=HOSTILE)
    write_run(runs / "to-rename").rename(os.fsdecode(os.fsencode(runs) + b"/not-\xff-text"))
    for name, text in (("empty", ""), ("half", '{"format": 1, "state": "run')):
        (runs / name).mkdir()
        (runs / name / "manifest.json").write_text(text)
    outside = tmp_path_factory.mktemp("outside")
    write_run(outside / "secret-run")
    (runs / "led-out").symlink_to(outside / "secret-run")
    return runs


@pytest.fixture(scope="module")
def server(folder):
    with PageServer(folder) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def ask(server, path, *, method="GET", token=None, host="localhost"):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    headers = {} if host is None else {"Host": host}
    connection.putrequest(
        method, f"/{server.token if token is None else token}{path}", skip_host=True
    )
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    return answer, answer.read().decode()


def identity(folder, name):
    return next(entry.id for entry in RunList(folder).read() if entry.folder == name)


def test_runs_are_listed_and_those_that_cannot_be_read_say_why(server):
    answer, page = ask(server, "/")
    assert answer.status == 200
    parsed = Page(page)
    assert parsed.open == []
    assert page.count('type="checkbox"') == 4
    assert page.count('<span class="chip void">') == 2
    assert "secret-run" not in page
    assert "led-out" not in page
    assert all("//" not in reference for reference in parsed.references)


def test_a_hostile_name_is_text(server, folder):
    for path in ("/", *(f"/{kind}/{entry.id}" for kind in ("run", "live") for entry in RunList(folder).read())):  # fmt: skip  # noqa: E501
        _, page = ask(server, path)
        assert "<img src=x" not in page
        assert "\x1b" not in page


def test_reports_and_comparisons_are_those_of_the_commands(server, folder):
    first, second = identity(folder, "first"), identity(folder, "second")
    answer, page = ask(server, f"/run/{first}")
    assert answer.status == 200
    assert "result-table" in page
    answer, page = ask(server, f"/compare?run={second}&run={first}")
    assert answer.status == 200
    assert "second" in page
    assert Page(page).open == []


@pytest.mark.parametrize("names", ["", "?run=a", "?run=a&run=b&run=c", "?run=../x&run=/etc"])
def test_a_comparison_of_anything_but_two_runs_is_refused(server, names):
    assert ask(server, f"/compare{names}")[0].status in (400, 404)


@pytest.mark.parametrize(
    "path",
    [
        "/run/../../../../etc/passwd", "/run/..%2f..%2fetc%2fpasswd", "/run//etc/passwd",
        "/run/first", "/run/first/manifest.json", "/live/../first.json", "/live/first.json",
        "/manifest.json", "/first", "/run/", "/run/led-out", "/run/%00", "//etc/passwd",
    ],
)  # fmt: skip
def test_a_path_reaches_no_file(server, path):
    answer, page = ask(server, path)
    assert answer.status == 404
    assert page == ask(server, "/nothing")[1]


@pytest.mark.parametrize("token", ["", "x", "wrong" * 6, "%C3%A9", "..", "%2e%2e"])
def test_without_the_token_nothing_is_shown(server, token):
    answer, page = ask(server, "/", token=token)
    assert answer.status == 403
    assert "first" not in page


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200), ("localhost:8080", 200), ("LOCALHOST", 200), ("[::1]:9", 200),
        ("evil.example", 403), ("evil.example:80", 403), ("127.0.0.1.evil.example", 403),
        ("localhost.evil.example", 403), ("127.0.0.1:80@evil.example", 403), ("", 403),
        (None, 403),
    ],
)  # fmt: skip
def test_a_name_of_another_site_for_this_address_is_refused(server, host, status):
    assert ask(server, "/", host=host)[0].status == status


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_nothing_but_reading_is_understood(server, method):
    assert ask(server, "/", method=method)[0].status == 501


def test_only_the_page_s_own_scripts_may_run(server, folder):
    answer, page = ask(server, f"/run/{identity(folder, 'first')}")
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    scripts = policy.partition("script-src ")[2].partition(";")[0]
    assert "unsafe" not in scripts
    assert scripts.count("sha256-") == 2
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert server.token not in page


SCHEMA = Schema(pa.schema([("value", pa.int64()), ("text", pa.string())]))


def batch(number):
    return SCHEMA.of_columns([[number], ["x" * number]])


def test_a_stream_is_followed_from_any_cut(tmp_path):
    """No batch is sent twice or left out, whichever part of it has arrived."""
    whole = tmp_path / "whole"
    stream = StreamWriter(whole.parent, whole.name, SCHEMA)
    for number in range(5):
        stream.write(batch(number))
    stream.close()
    content = whole.read_bytes()
    grown = tmp_path / "grown.arrows"
    follower = StreamFollower(grown)
    assert list(follower.new_batches()) == []
    grown.write_bytes(b"")
    values = []
    for end in range(0, len(content) + 1, 7):
        with grown.open("ab") as file:
            file.write(content[grown.stat().st_size : end])
        values += [new_batch["value"][0] for new_batch in follower.new_batches()]
    assert values == [0, 1, 2, 3, 4]


def rows(second, *, hosts=("a", "b"), failed=0):
    from loadstone import _loadgen

    times = _loadgen.Histogram()
    times.record(1_000_000, 99)
    times.record(9_000_000, 1)
    row = {
        "stage": "measure", "second": second, "requests": 100, "bytes": 4096,
        "response": None, "service": times.encode(),
    }  # fmt: skip
    interval_rows = [{**row, "agent": host, "outcome": "ok"} for host in hosts]
    if failed:
        bad = {"outcome": "http_503", "requests": failed, "service": None}
        interval_rows.append({**row, "agent": "a", **bad})
    return INTERVAL_SCHEMA.of_rows(interval_rows)


def test_a_run_that_goes_on_is_told_by_second_and_host(tmp_path):
    run = write_run(tmp_path / "run")
    finished = sorted(path.stem for path in (run / "trials").glob("*.json"))
    unfinished = finished[-1]
    for suffix in (".json", ".parquet"):
        (run / "trials" / f"{unfinished}{suffix}").unlink()
    stream = StreamWriter(run, f"trials/{unfinished}.arrows", INTERVAL_SCHEMA)
    live = LiveRun(run)
    state = live.read()
    assert (state["done"], state["planned"]) == (1, 2)
    assert state["trial"]["seconds"] == []
    stream.write(rows(0))
    stream.write(rows(1, failed=7))
    trial = live.read()["trial"]
    assert [second["requests"] for second in trial["seconds"]] == [200, 200]
    assert trial["seconds"][1]["agents"] == {"a": 100, "b": 100}
    assert trial["seconds"][0]["p50_ns"] == pytest.approx(1_000_000, rel=0.01)
    assert (trial["failed"], trial["kinds"]) == (7, {"http_503": 7})
    stream.write(rows(2))
    stream.close()
    assert [second["second"] for second in live.read()["trial"]["seconds"]] == [0, 1, 2]


def test_the_course_of_a_run_goes_on_through_its_trials_and_stays_at_its_end(tmp_path):
    run = write_run(tmp_path / "run")
    unfinished = sorted(path.stem for path in (run / "trials").glob("*.json"))[-1]
    record, table = (run / "trials" / f"{unfinished}{end}" for end in (".json", ".parquet"))
    contents = record.read_bytes(), table.read_bytes()
    record.unlink(), table.unlink()
    stream = StreamWriter(run, f"trials/{unfinished}.arrows", INTERVAL_SCHEMA)
    live = LiveRun(run)
    stream.write(rows(0))
    course = live.read()["course"]
    before = len(course["seconds"]) - 1
    assert before > 0
    assert course["begins"] == [0, before]
    assert [second["at"] for second in course["seconds"]] == [*range(before + 1)]
    assert course["seconds"][-1]["requests"] == 200
    stream.close()
    stream.path.unlink()
    record.write_bytes(contents[0]), table.write_bytes(contents[1])
    # A follower keeps the seconds that it has read, and a later one reads them from the records.
    assert live.read()["course"]["seconds"] == course["seconds"]
    state = LiveRun(run).read()
    assert (state["trial"], state["done"], state["left_ns"]) == (None, 2, 0)
    assert len(state["course"]["seconds"]) == 2 * before


def test_the_course_has_the_cpu_of_trials_that_nobody_followed(tmp_path):
    run = write_run(tmp_path / "run")
    first = sorted(path.stem for path in (run / "trials").glob("*.json"))[0]
    samples = [
        {"time_unix_ns": second * 10**9, "host": "a", "probe": "cpu", "subject": "0",
         "metric": metric, "value": value}
        for second in range(3)
        for metric, value in (
            ("allowed", 1.0), ("user_ns", second * 0.25e9), ("idle_ns", second * 0.75e9),
        )
    ]  # fmt: skip
    table = pa.table(PROBE_SCHEMA.of_rows(samples))
    pq.write_table(table, run / "probes" / f"{first}.parquet")
    assert LiveRun(run).read()["course"]["cpu"] == [[1.0, "a", 0.25], [2.0, "a", 0.25]]


def test_an_incomplete_folder_is_reported_as_incomplete(folder, server, tmp_path):
    for name in ("empty", "half"):
        run_id = identity(folder, name)
        assert ask(server, f"/run/{run_id}")[0].status == 422
        answer, text = ask(server, f"/live/{run_id}.json")
        assert answer.status == 200
        assert json.loads(text)["problem"]
    run = write_run(tmp_path / "run")
    for record in (run / "trials").glob("*.json"):
        record.write_text(record.read_text()[:100])
    assert all("problem" in trial for trial in LiveRun(run).read()["finished"])


def test_a_finished_trial_counts_its_measured_time_as_the_report_does(tmp_path):
    run = write_run(tmp_path / "run")
    table = next((run / "trials").glob("*.parquet"))
    rows_of_trial = pq.read_table(table)
    stages = ["warm_up", *rows_of_trial["stage"].to_pylist()[1:]]
    place = rows_of_trial.schema.get_field_index("stage")
    pq.write_table(rows_of_trial.set_column(place, "stage", pa.array(stages)), table)
    counts = {result.trials[0]: result.requests for result in analyse(read_run(run)).rounds}
    assert len(set(counts.values())) == 2
    finished = reversed(LiveRun(run).read()["finished"])
    assert [trial["requests"] for trial in finished] == [counts[name] for name in sorted(counts)]


def test_the_command_names_the_mistake(tmp_path, capsys):
    assert main(["view", str(tmp_path / "absent")]) == 1
    assert str(tmp_path / "absent") in capsys.readouterr().err
