"""A campaign whose phase runs a script, from file to report; and scripts that are refused."""

import base64
import csv
import io
import json
import re
import signal
import stat
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives.keywrap import InvalidUnwrap

from loadstone.analysis.cells.actions import OUT_OF_LINE
from loadstone.analysis.cells.sessions import read_session_actions
from loadstone.analysis.measured.rows import Rows
from loadstone.cli import exit_code
from loadstone.report.tables.script_actions import BY_USER_TYPE
from loadstone.results.store import read_run
from tests.conformance import store_under_test
from tests.conformance.envelopes import Keys, opened
from tests.system import campaigns
from tests.system.command import loadstone, start, trials_of

USERS = """\
name: users
targets:
  store: {{driver: s3, endpoint: "{url}", access_key: {{env: KEY}}, secret_key: {{env: SECRET}}}}
  folder: {{driver: file, path: "{folder}"}}
dataset: {{size: 4KiB, buckets: 2}}
load: {{threads: 3}}
phases:
  - {{name: users, script: {{generator: users, settings: {{users: 4, actions: 50}}}}}}
"""
OF_A_FOLDER = """\
name: users
targets:
  folder: {{driver: file, path: "{folder}"}}
dataset: {{size: 4KiB, buckets: 2}}
load: {{threads: 3}}
phases:
  - name: users
    script:
      generator: users
"""
LONG = f"""\
{OF_A_FOLDER}\
      settings: {{{{users: 4, actions: {{actions}}, recipients: [1, 3]}}}}
"""
PUBLISHED = Path(__file__).parents[1] / "data" / "published"
TRACES = Path(__file__).parents[1] / "data" / "traces"
SECRETS = {"KEY": store_under_test.ACCESS_KEY, "SECRET": store_under_test.SECRET_KEY}


def test_users_become_a_run_and_a_report(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    with store_under_test.store() as url:
        text = USERS.format(url=url, folder=folder)
        text = text.replace("actions: 50", "actions: 50, recipients: [1, 3]")
        file = campaigns.write(tmp_path, text)
        finished = loadstone("run", file, "-o", tmp_path / "run", environment=SECRETS)
        left = store_under_test.s3(url).list_buckets()["Buckets"]
    assert finished.code == 0, finished.err
    assert left == []
    assert list(folder.iterdir()) == []
    report = loadstone("report", tmp_path / "run", "-f", "json").json()
    by_target: dict[str, dict[str, int]] = {}
    for action in report["actions"]:
        counts = by_target.setdefault(action["target"], {})
        counts[action["action"]] = action["good_actions"]
        assert action["actions"] == action["good_actions"]
    # One script for both targets: each user once, and the same sequence for each thread.
    assert by_target["store"] == by_target["folder"]
    counts = by_target["store"]
    assert counts["CREATE_USER"] == 4
    assert counts["AUDIT"] == 3 * 4 * 2
    assert sum(counts.values()) - counts["CREATE_USER"] - counts["AUDIT"] == 3 * 50
    for action in report["actions"]:
        # Users are made one by one, and all else comes after them.
        if action["action"] == "CREATE_USER":
            by_whole_time = action["good_actions"] / action["duration_s"]
            assert by_whole_time < action["completed_per_s"] <= action["busy_per_s"]
    # Each action's rate is by the time of its turn, in which neither users are made nor audits run.
    for record in read_run(tmp_path / "run").records:
        if not record.trial["measured"]:
            continue
        rows = Rows(record.actions, {"operation": "action"})
        in_line = rows.pick(~np.isin(rows["operation"].tolist(), OUT_OF_LINE))
        turn_s = (int(in_line["ended_ns"].max()) - int(in_line["began_ns"].min())) / 1e9
        for action in report["actions"]:
            is_own = action["target"] == record.trial["target"]["name"]
            if is_own and action["action"] not in OUT_OF_LINE:
                assert turn_s < action["duration_s"]
                assert action["completed_per_s"] * turn_s == pytest.approx(action["good_actions"])
    trials = [trial for trial in trials_of(tmp_path / "run") if trial["trial"]["measured"]]
    assert len({trial["trial"]["script"]["requests"]["sha256"] for trial in trials}) == 1
    # Targets, and runs, are compared by actions, or by the requests that these are made of.
    comparison = loadstone("compare", tmp_path / "run", "-f", "json").json()
    assert comparison["metric"] == "actions_per_s"
    rates = {
        (action["target"], action["action"]): action["completed_per_s"]
        for action in report["actions"]
    }
    compared = {
        comparison["case"]["operation"]: comparison for comparison in comparison["comparisons"]
    }
    assert compared.keys() == {f"{name} (users)" for name in counts}
    for name in counts:
        change = compared[f"{name} (users)"]
        assert change["a"] == pytest.approx(rates[comparison["a"], name])
        assert change["b"] == pytest.approx(rates[comparison["b"], name])
    arguments = ("-f", "json", "--metric", "requests_per_s")
    of_requests = loadstone("compare", tmp_path / "run", *arguments).json()["comparisons"]
    operations = {change["case"]["operation"] for change in of_requests}
    assert operations >= {"put (users)", "get (users)"}
    # Each report has a row for each.
    page, text = tmp_path / "report.html", tmp_path / "report.md"
    for path in (page, text):
        assert loadstone("report", tmp_path / "run", "-o", path).code == 0
    for printed in (finished.out, page.read_text(), text.read_text()):
        assert all(name in printed for name in ("CREATE_USER", "READ", "SHARE", "WRITE"))
    as_published = loadstone("report", tmp_path / "run", "--table", "datasafe", "-f", "markdown")
    assert_is_like_the_published_log(as_published.out)
    assert_rate_of_users_is_of_one_client(as_published.out, report["actions"])


TYPES = f"""\
{OF_A_FOLDER}\
      settings:
        actions: 200
        types:
          readers: {{{{share: 3, mix: {{{{READ: 4, LIST: 1}}}}}}}}
          writers: {{{{share: 2, mix: {{{{WRITE: 2, SHARE: 2, READ: 1}}}}}}}}
"""


def test_reports_have_rows_for_each_space_and_type_of_user(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    file = campaigns.write(tmp_path, TYPES.format(folder=folder))
    run = tmp_path / "run"
    finished = loadstone("run", file, "-o", run)
    assert finished.code == 0, finished.err
    report = loadstone("report", run, "-f", "json").json()
    groups = report["action_groups"]
    assert all(group["errors"] == {} for group in groups)
    counts = {
        (group["user_type"], group["action"], group["space"]): group["actions"] for group in groups
    }
    of_readers = {key[1:]: n for key, n in counts.items() if key[0] == "readers"}
    assert of_readers["READ", "inbox"] == 3 * 96
    assert of_readers["LIST", "inbox"] == 3 * 24
    assert of_readers["ALL", None] == 3 * 120
    assert of_readers["CREATE_USER", None] == 6
    assert of_readers["AUDIT", "private"] == of_readers["AUDIT", "inbox"] == 3 * 6
    for row in report["actions"]:
        assert (row["space"], row["user_type"]) == (None, None)
        of_action = [group for group in groups if group["action"] == row["action"]]
        for name in ("actions", "good_actions", "requests", "bytes"):
            assert row[name] == sum(group[name] for group in of_action), (row["action"], name)
        timed = sum(group["service_ns"]["count"] for group in of_action)
        assert row["service_ns"]["count"] == timed
    # ALL is what a type's users did, or all of them, but for their making and audits.
    for name in ("readers", "writers"):
        whole = sum(
            n for (kind, action, _), n in counts.items()
            if kind == name and action not in ("ALL", "CREATE_USER", "AUDIT")
        )  # fmt: skip
        assert counts[name, "ALL", None] == whole
    (total,) = report["action_totals"]
    assert (total["action"], total["user_type"]) == ("ALL", None)
    assert total["actions"] == sum(counts[name, "ALL", None] for name in ("readers", "writers"))
    full = loadstone("report", run, "--full").out
    page, text = tmp_path / "report.html", tmp_path / "report.md"
    for path in (page, text):
        assert loadstone("report", run, "-o", path).code == 0
    for printed in (full, page.read_text(), text.read_text()):
        assert BY_USER_TYPE in printed
        assert "readers" in printed
    table = loadstone("report", run, "-f", "csv", "--table", "actions").out
    rows = list(csv.DictReader(io.StringIO(table), delimiter="\t"))
    assert {row["counted_by"] for row in rows} == {"action", "space_and_user_type", "user_type"}
    actions_of = {
        (row["user_type"], row["action"], row["space"]): int(row["actions"]) for row in rows
    }
    assert actions_of["readers", "READ", "inbox"] == counts["readers", "READ", "inbox"]
    assert actions_of["", "READ", ""] == next(
        action["actions"] for action in report["actions"] if action["action"] == "READ"
    )
    compared = loadstone("compare", run, run, "-f", "json").json()["by_user_type"]["comparisons"]
    rates = {
        (group["user_type"], f"{group['action']} (users)", group["space"]): group["completed_per_s"]
        for group in groups
    }
    names = ("user_type", "operation", "space")
    measured_rates = {tuple(map(change["case"].get, names)): change["a"] for change in compared}
    assert measured_rates == pytest.approx(rates)
    compared_in_words = loadstone("compare", run, run, "--full").out
    assert all(kind in compared_in_words for kind in ("readers", "writers"))


def test_a_page_shows_what_sessions_did_when_where_requests_are_logged(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    text = LONG.format(folder=folder, actions=60)
    page = tmp_path / "report.html"
    for is_logged in (False, True):
        file = campaigns.write(tmp_path, text + "log_requests: true\n" * is_logged)
        finished = loadstone("run", file, "-o", tmp_path / f"run-{is_logged}")
        assert finished.code == 0, finished.err
        assert loadstone("report", tmp_path / f"run-{is_logged}", "-o", page).code == 0
        shown = page.read_text()
        data = json.loads(shown.partition('id="data">')[2].partition("</script>")[0])
        assert (data["sessions"] is not None) is is_logged
        assert ("<code>log_requests: true</code>" in shown) is not is_logged
    (record,) = [
        record for record in read_run(tmp_path / "run-True").records if record.operations_path
    ]
    script = pa.ipc.open_file(tmp_path / "run-True" / record.trial["script"]["requests"]["path"])
    known = script.schema.metadata
    assert known is not None
    names = json.loads(known[b"actions"])
    rows = script.read_all().to_pylist()
    by_session: dict[int, list[str]] = {}
    for row in rows:
        if row["is_last"]:
            by_session.setdefault(row["session"], []).append(names[row["action"]])
    first = int(known[b"first_sessions"])
    actions_of_session: dict[int, list[str]] = {}
    last_ns: dict[int, int] = {}
    for session_action in read_session_actions(record):
        actions_of_session.setdefault(session_action.session, []).append(session_action.action)
        assert (
            last_ns.get(session_action.session, 0)
            <= session_action.sent_ns
            <= session_action.ended_ns
        )
        assert session_action.outcome == "ok"
        last_ns[session_action.session] = session_action.ended_ns
    # A copy for each of three threads: all that each did, in its order, and nothing else.
    assert actions_of_session == {session: by_session[first - 1 + session] for session in (1, 2, 3)}


def test_a_report_says_what_share_of_an_action_is_the_clients_cryptography(tmp_path: Path) -> None:
    with store_under_test.store() as url:
        text = USERS.format(url=url, folder=tmp_path)
        # A directory's driver does not encrypt.
        text = re.sub(r"  folder: .*\n", "", text)
        text = text.replace("actions: 50", "actions: 50, recipients: [1, 3]")
        text = text.replace("{driver: s3,", "{driver: s3, payload_signing: signed,")
        text += "sweep: {encryption: [none, aes-256-cbc, aes-256-gcm]}\n"
        text = text.replace("size: 4KiB", "size: 256KiB")
        file = campaigns.write(tmp_path, text)
        finished = loadstone("run", file, "-o", tmp_path / "run", environment=SECRETS)
    assert finished.code == 0, finished.err
    report = loadstone("report", tmp_path / "run", "-f", "json").json()
    action_of = {
        (action["parameters"]["encryption"], action["action"]): action
        for action in report["actions"]
    }
    for encryption in ("none", "aes-256-cbc", "aes-256-gcm"):
        names = ("WRITE", "READ", "LIST", "SHARE")
        write, read, listed, share = (action_of[encryption, name] for name in names)
        # Bodies of puts are hashed for their signature, encrypted or not.
        assert write["hashing_ns"]["count"] == write["good_actions"]
        # The bodies of the others are empty, and signed too.
        assert read["hashing_ns"]["min"] < write["hashing_ns"]["min"] / 10
        assert listed["encryption_ns"] is listed["wrapping_ns"] is None
        assert listed["crypto_share"] < write["crypto_share"]
        for action in (write, read):
            spent = action["encryption_ns"]
            assert (spent is None) == (encryption == "none")
            if spent is not None:
                assert spent["count"] == action["good_actions"]
                assert 0 < spent["mean"] < action["service_ns"]["mean"]
                assert 0 < action["crypto_share"] < 1
            wrapping = action["wrapping_ns"]
            assert (wrapping is None) == (encryption == "none")
            if wrapping is not None:
                assert wrapping["count"] == action["good_actions"]
                assert 0 < wrapping["mean"] < action["service_ns"]["mean"]
        if encryption != "none":
            # By a public key for each recipient; of what one keeps by one's own key.
            assert share["wrapping_ns"]["min"] > 2 * write["wrapping_ns"]["min"]
    assert "Crypto" in loadstone("report", tmp_path / "run", "--full").out
    assert "Crypto" in loadstone("report", tmp_path / "run", "-f", "markdown").out


SHARED = """\
session,action,user,space,object,size,recipients
0,CREATE_USER,alice,,,,
0,CREATE_USER,bob,,,,
1,WRITE,alice,private,mine,70000,
1,READ,alice,private,mine,,
2,SHARE,alice,,letter,5000,bob;alice
2,READ,bob,inbox,letter,,
2,WRITE,,,plain,3000,
"""


@pytest.mark.parametrize("hosts", ["", "hosts: {launch: local, count: 2}\n"], ids=["one", "two"])
@pytest.mark.parametrize("cipher", ["aes-256-cbc", "aes-256-gcm"])
def test_keys_are_wrapped_for_the_user_whose_space_it_is(
    tmp_path: Path, cipher: str, hosts: str
) -> None:
    """Stored objects can be opened elsewhere with the reader's keys; no file of the run has a
    key.
    """
    (tmp_path / "shared.csv").write_text(SHARED)
    script = tmp_path / "shared.csv"
    with store_under_test.store() as url:
        text = USERS.format(url=url, folder=tmp_path)
        text = re.sub(r"  folder: .*\n", "", text)
        text = re.sub(r"script: .*\}\}\}", f"script: {{file: {script}}}}}", text)
        text = text.replace("size: 4KiB, buckets: 2", f"buckets: 1, encryption: {cipher}")
        file = campaigns.write(tmp_path, text + hosts + "keep_data: true\nseed: 11\n")
        finished = loadstone("run", file, "-o", tmp_path / "run", environment=SECRETS)
        assert finished.code == 0, finished.err
        s3 = store_under_test.s3(url)
        (bucket,) = (bucket["Name"] for bucket in s3.list_buckets()["Buckets"])
        stored = {
            entry["Key"]: s3.get_object(Bucket=bucket, Key=entry["Key"])["Body"].read()
            for entry in s3.list_objects_v2(Bucket=bucket)["Contents"]
        }
    keys = Keys(trials_of(tmp_path / "run")[0]["trial"]["run"], seed=11)
    alice, bob = 0, 1
    readers = {
        "alice/private/mine": keys.of_owner(alice),
        "alice/keystore": keys.of_owner(alice),
        "bob/profile/public": keys.of_owner(bob),
        "bob/inbox/letter": keys.of_inbox(bob),
        "alice/inbox/letter": keys.of_inbox(alice),
        "plain": keys.of_run(),
    }
    for name, reader in readers.items():
        (stored_body,) = (body for key, body in stored.items() if key.endswith(name))
        assert opened(stored_body, cipher, reader)[:4] == b"LDS\x01", name
        for other in readers.values():
            is_alike = bool(other.inbox) == bool(reader.inbox)
            if is_alike and (other.key, other.inbox) != (reader.key, reader.inbox):
                with pytest.raises(InvalidUnwrap):
                    opened(stored_body, cipher, replace(other, number=reader.number))
    secrets = {reader.key or reader.inbox for reader in readers.values()}
    for path in (tmp_path / "run").rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        for secret in secrets:
            assert secret is not None
            for form in (secret, secret.hex().encode(), base64.b64encode(secret)):
                assert form not in content, path


def assert_is_like_the_published_log(printed: str) -> None:
    """Lines and the order of their keys are those of the published log, numbers apart."""
    blocks = [block for block in printed.split("\n\n") if "==== Statistics" in block]
    assert len(blocks) == 2
    lines = (PUBLISHED / "datasafe-log.txt").read_text().split("\n\n")[0].splitlines()
    for block in blocks:
        for ours, published in zip(block.splitlines(), lines, strict=True):
            keys = re.findall(r"(\d+)=", ours)
            assert keys == [key for key in ("50", "99", "90", "75", "95") if key in keys]
            assert shape(ours) == shape(published)
    rates = [line for line in printed.splitlines() if line.startswith("Threads\t")]
    assert rates == ["Threads\t4kb"] * 10


def assert_rate_of_users_is_of_one_client(printed: str, actions: list[dict[str, Any]]) -> None:
    """Users are made by one client, so that their rate is not multiplied by the threads."""
    rows = [line.split("\t") for line in printed.splitlines()]
    rates = [cells[-3] for cells in rows if cells[0] == "CREATE_USER" and len(cells) == 6]
    of_users = (action for action in actions if action["action"] == "CREATE_USER")
    assert sorted(rates) == sorted(f"{action['busy_per_s']:.4g}" for action in of_users)


def shape(line: str) -> str:
    """Return a line without its numbers, its target, and its percentiles."""
    line = re.sub(r"stat=\{[^}]*\}", "stat={}", line)
    return re.sub(r"\d+(\.\d+)?|AMAZON|STORE|FOLDER", "N", line)


def test_an_interrupted_script_is_run_again_by_resume(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    file = campaigns.write(tmp_path, LONG.format(folder=folder, actions=8_000))
    run = tmp_path / "run"
    process = start("run", file, "-o", run)
    campaigns.wait_for(process, "users round 1")
    process.send_signal(signal.SIGINT)
    output = process.communicate()
    assert process.returncode == 130, output
    script_files = list((run / "scripts").iterdir())
    assert script_files
    modes = {stat.S_IMODE(path.stat().st_mode) for path in script_files}
    assert (stat.S_IMODE((run / "scripts").stat().st_mode), modes) == (0o700, {0o600})
    again = loadstone("run", file, "-o", run, "--resume")
    assert again.code == 0, again.err
    assert list(folder.iterdir()) == []
    actions = loadstone("report", run, "-f", "json").json()["actions"]
    assert actions
    assert all(action["actions"] == action["good_actions"] for action in actions)


def test_a_resumed_script_finds_the_objects_that_it_had_changed(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    rows = ["1,READ,a,4096,exists,0", "1,WRITE,a,4096,,1000000", "1,DELETE,b,4096,exists,2000000"]
    rows += [f"1,READ,a,4096,,{due_s}000000000" for due_s in range(1, 4)]
    (tmp_path / "s.csv").write_text(
        "\n".join(("session,action,object,size,expect,due_ns", *rows, ""))
    )
    file = campaigns.write(
        tmp_path,
        f"name: test\ntargets: {{files: {{driver: file, path: {folder}}}}}\n"
        "dataset: {size: 4KiB}\nload: {threads: 1}\n"
        "phases: [{script: {file: s.csv, speed: 1}}]\n",
    )
    run = tmp_path / "run"
    process = start("run", file, "-o", run)
    campaigns.wait_for(process, "script round 1")
    while process.poll() is None and list(folder.rglob("*b")):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    output = process.communicate()
    assert process.returncode == exit_code.INTERRUPTED, output
    again = loadstone("run", file, "-o", run, "--resume")
    assert again.code == 0, again.err
    assert not list(folder.iterdir())


def test_a_script_of_a_run_that_was_changed_is_refused(tmp_path: Path) -> None:
    """The documents name the files by hash: what runs is what was planned."""
    folder = tmp_path / "data"
    folder.mkdir()
    file = campaigns.write(tmp_path, LONG.format(folder=folder, actions=8_000))
    process = start("run", file, "-o", tmp_path / "run")
    campaigns.wait_for(process, "users round 1")
    process.send_signal(signal.SIGINT)
    process.communicate()
    for path in (tmp_path / "run" / "scripts").iterdir():
        path.write_bytes(path.read_bytes()[:-1] + b"x")
    again = loadstone("run", file, "-o", tmp_path / "run", "--resume")
    assert again.code == 1
    assert "sha256" in again.err.lower().replace("-", "")


@pytest.mark.parametrize(
    ("row", "column"),
    [("1,READ,a,", "object"), ("1,SHARE,a,10", "recipients"), ("1,WRITE,a,", "size")],
)
def test_a_wrong_script_is_refused_before_anything_is_made(
    tmp_path: Path, row: str, column: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.csv").write_text(f"session,action,object,size\n1,WRITE,b,10\n{row}\n")
    Path("data").mkdir()
    text = LONG.format(folder="data", actions=1)
    file = campaigns.write(tmp_path, text[: text.index("generator:")] + "file: own.csv\n")
    finished = loadstone("run", file, "-o", "run")
    assert finished.code == 1
    for place in ('"own.csv"', "row 2", f'column "{column}"'):
        assert place in finished.err
    assert not Path("run").exists()
    assert list(Path("data").iterdir()) == []


def test_bench_runs_sessions_from_one_line(tmp_path: Path) -> None:
    with store_under_test.store() as url:
        keys = {
            "AWS_ACCESS_KEY_ID": store_under_test.ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": store_under_test.SECRET_KEY,
        }
        words = ("bench", "sessions", url, "-t", "2", "-n", "40")
        planned = loadstone(*words, "--dry-run", environment=keys)
        assert planned.code == 0, planned.err
        finished = loadstone(*words, "-o", tmp_path / "run", environment=keys)
        assert finished.code == 0, finished.err
        assert store_under_test.s3(url).list_buckets()["Buckets"] == []
    actions = loadstone("report", tmp_path / "run", "-f", "json").json()["actions"]
    counts = {action["action"]: action["good_actions"] for action in actions}
    assert sum(counts.values()) == 2 * 40 + counts["CREATE_USER"] + counts["AUDIT"]


def test_a_log_of_a_server_is_replayed_at_its_times(tmp_path: Path) -> None:
    """Objects that it reads are prepared; no action is early, and its lateness is recorded."""
    folder, script = tmp_path / "data", tmp_path / "trace.parquet"
    folder.mkdir()
    converted = loadstone(
        "script", "convert", "s3-log", TRACES / "versitygw.log", "-o", script,
        "--size", "4KiB",
    )  # fmt: skip
    assert converted.code == 0, converted.err
    text = LONG.format(folder=folder, actions=1)
    # Its path begins at the campaign's folder, wherever this runs.
    text = text[: text.index("generator:")] + f"file: {script.name}\n      speed: 2\n"
    finished = loadstone("run", campaigns.write(tmp_path, text), "-o", tmp_path / "run")
    assert finished.code == 0, finished.err
    assert list(folder.iterdir()) == []
    due_ns = pq.read_table(script).column("due_ns").to_pylist()
    actions = loadstone("report", tmp_path / "run", "-f", "json").json()["actions"]
    assert sum(action["good_actions"] for action in actions) == len(due_ns)
    assert sum(action["lag_ns"]["count"] for action in actions) == len(due_ns)
    (trial,) = [planned for planned in trials_of(tmp_path / "run") if planned["trial"]["measured"]]
    (replay,) = loadstone("report", tmp_path / "run", "-f", "json").json()["replays"]
    assert (replay["actions_done"], replay["actions_planned"]) == (len(due_ns), len(due_ns))
    assert replay["lateness_ns"]["count"] == len(due_ns)
    assert replay["recorded_s"] == pytest.approx(max(due_ns) / 2e9)
    (entry,) = trial["summary"]["iterations"]
    assert entry["end_ns"] - entry["measure_start_ns"] >= max(due_ns) / 2


def test_a_replay_says_what_it_has_of_its_trace(tmp_path: Path) -> None:
    """Rows that are malformed and left out are counted and located, in the script and the run."""
    folder, script, log = tmp_path / "data", tmp_path / "trace.parquet", tmp_path / "access.log"
    folder.mkdir()
    lines = (TRACES / "versitygw.log").read_text().splitlines()
    lines.insert(3, "no line of a log")
    log.write_text("\n".join(lines) + "\n")
    words = ("script", "convert", "s3-log", log, "-o", script, "--size", "4KiB")
    refused = loadstone(*words)
    assert refused.code == 1
    assert f'"{log}", line 4' in refused.err
    assert not script.exists()
    converted = loadstone(*words, "--malformed", "skip")
    assert converted.code == 0, converted.err
    origin = loadstone("script", "show", script, "--json").json()["origin"]
    assert origin["malformed"] == 1
    (example,) = origin["malformed_examples"]
    assert "line 4" in example
    lost = sum(origin["left_out"].values())
    assert lost
    assert origin["rows_read"] == origin["actions"] + lost + 1
    assert origin["rows_read"] == sum("log starts" not in line for line in lines)
    assert origin["span_ns"] == max(pq.read_table(script).column("due_ns").to_pylist())
    text = LONG.format(folder=folder, actions=1)
    text = text[: text.index("generator:")] + f"file: {script}\n"
    finished = loadstone("run", campaigns.write(tmp_path, text), "-o", tmp_path / "run")
    assert finished.code == 0, finished.err
    (replay,) = loadstone("report", tmp_path / "run", "-f", "json").json()["replays"]
    assert replay["origin"] == origin
    # Without a speed only the order of each session is the trace's.
    assert (replay["speed"], replay["recorded_s"], replay["lateness_ns"]) == (None, None, None)
    for form in ("terminal", "markdown", "html"):
        shown = loadstone("report", tmp_path / "run", "-f", form, "--full").out
        assert f"{origin['actions']:,} of {origin['rows_read']:,}" in shown
        assert "line 4" in shown
