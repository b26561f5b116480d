"""Scripts on several hosts of this machine: the same objects and counts, and no false finding."""

import hashlib
import os
import shutil
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from loadstone.campaign.parse import parse_campaign
from loadstone.campaign.planning.plan import make_plan
from loadstone.execution import runner
from loadstone.hosts.session import HostSession
from loadstone.results.record import Record
from loadstone.results.store import read_run
from loadstone.results.writer import RunWriter
from loadstone.script.planned import ScriptMaker
from tests.conformance import store_under_test
from tests.system import campaigns
from tests.system.command import loadstone, settled, start, trials_of
from tests.system.test_hosts import agents_of, is_running

USERS = """\
name: users
targets: {{t: {{driver: file, path: "{data}"}}}}
hosts: {{launch: local, count: {hosts}}}
dataset: {{size: 4KiB, buckets: 2}}
load: {{threads: 6, per: total}}
keep_data: true
phases:
  - name: users
    script: {{generator: users, settings: {{users: 4, actions: 60, recipients: [1, 3]}}}}
"""
OWN_DIRECTORY = """\
name: own
targets: {{t: {{driver: file, path: "{data}"}}}}
hosts: {{launch: local, count: {hosts}}}
dataset: {{buckets: 1}}
load: {{threads: 2}}
phases:
  - {{name: own, script: {{file: "{script}", speed: 1}}}}
"""
SECOND_NS = 1_000_000_000
FINDINGS = {"missing", "extra", "stale", "phantom"}


def counts(record: Record) -> dict[tuple[str, str], int]:
    """Add up the actions of a trial by name and outcome, over all hosts."""
    total: dict[tuple[str, str], int] = {}
    for row in record.actions.to_pylist():
        key = row["action"], row["outcome"]
        total[key] = total.get(key, 0) + row["requests"]
    return total


def measured(folder: Path) -> Record:
    """Return the one measured trial of a run."""
    (record,) = (record for record in read_run(folder).records if record.trial["measured"])
    return record


def test_a_script_on_any_number_of_hosts_leaves_the_same_objects(tmp_path: Path) -> None:
    runs = {hosts: run_on(tmp_path / str(hosts), hosts) for hosts in (1, 2, 3)}
    objects, actions = runs[1]
    assert len(objects) > 20
    assert {outcome for _, outcome in actions} == {"ok"}
    assert actions["CREATE_USER", "ok"] == 4
    assert sum(actions.values()) - actions["CREATE_USER", "ok"] - actions["AUDIT", "ok"] == 6 * 60
    for hosts in (2, 3):
        assert runs[hosts][0] == objects
        assert runs[hosts][1] == actions


def run_on(folder: Path, hosts: int) -> tuple[dict[str, str], Mapping[tuple[str, str], int]]:
    """Run users on so many hosts; return the digest of each object, and the counts of actions."""
    data = folder / "data"
    data.mkdir(parents=True)
    campaign = parse_campaign(USERS.format(data=data, hosts=hosts), environ={})
    assert campaign.hosts is not None
    plan = make_plan(campaign, run="5" * 32, scripts=ScriptMaker(folder, beside=folder))
    manifest = {"run": plan.run, "name": "users", "plan": plan.documents(), "seed": plan.seed,
                **runner.circumstances()}  # fmt: skip
    with (
        HostSession(campaign.hosts, plan.run, print) as session,
        RunWriter.create(folder / "run", manifest) as writer,
    ):
        shutil.copytree(folder / "scripts", folder / "run" / "scripts")
        end = runner.execute(plan, writer, lambda event: None, table=session.executors())
    assert (end.state, end.failed_requests) == ("finished", 0), end.problems
    record = measured(folder / "run")
    made = [host["requests"] for host in record.summary["hosts"]]
    assert len(made) == hosts
    assert all(made)
    assert sum(made) == record.trial["stop"]["requests"]
    objects = {
        str(path.relative_to(data)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in data.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }
    return objects, counts(record)


def test_the_number_of_hosts_is_swept_with_one_script(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    text = USERS.format(data=tmp_path / "data", hosts=2).replace("keep_data: true\n", "")
    file = campaigns.write(tmp_path, text + "sweep: {hosts: [1, 2]}\n")
    finished = loadstone("run", file, "-o", tmp_path / "run")
    assert finished.code == 0, finished.err
    assert list((tmp_path / "data").iterdir()) == []
    trials = [trial for trial in trials_of(tmp_path / "run") if trial["trial"]["measured"]]
    assert sorted(len(trial["summary"]["hosts"]) for trial in trials) == [1, 2]
    assert len({trial["trial"]["script"]["requests"]["sha256"] for trial in trials}) == 1
    actions = loadstone("report", tmp_path / "run", "-f", "json").json()["actions"]
    good: dict[int, dict[str, int]] = {}
    for action in actions:
        assert action["actions"] == action["good_actions"]
        good.setdefault(action["parameters"]["hosts"], {})[action["action"]] = action[
            "good_actions"
        ]
    assert good[1] == good[2]


def script_of(folder: Path, rows: Iterator[str]) -> Path:
    path = folder / "own.csv"
    path.write_text("session,action,object,size,due_ns\n" + "\n".join(rows) + "\n")
    return path


def test_an_audit_finds_what_was_deleted_behind_its_back(tmp_path: Path) -> None:
    """The second host audits the objects that the first one wrote."""
    data = tmp_path / "data"
    data.mkdir()
    end_ns = 6 * SECOND_NS
    rows = [
        "0,WRITE,a/gone,10,0",
        "0,WRITE,a/stays,10,0",
        "1,WRITE,b/stays,10,0",
        f"1,READ,b/stays,10,{end_ns}",
        f"2,AUDIT,b/,,{end_ns}",
        f"3,AUDIT,a/,,{end_ns}",
    ]
    script = script_of(tmp_path, iter(rows))
    file = campaigns.write(tmp_path, OWN_DIRECTORY.format(data=data, hosts=2, script=script))
    process = start("run", file, "-o", tmp_path / "run")
    try:
        gone = None
        while gone is None:
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
            gone = next((path for path in data.rglob("*gone") if path.is_file()), None)
        gone.unlink()
        _, err = campaigns.end(process)
    finally:
        process.kill()
        process.wait()
    actions = counts(measured(tmp_path / "run"))
    assert actions == {
        ("WRITE", "ok"): 3, ("READ", "ok"): 1, ("AUDIT", "ok"): 1, ("AUDIT", "missing"): 1,
    }, err  # fmt: skip


def test_a_failed_request_of_one_host_puts_no_false_finding_into_anothers_audit(
    tmp_path: Path,
) -> None:
    faults = {"seed": 7, "errors": {"put": {"rate": 0.3}}}
    with store_under_test.store(faults=faults) as url:
        keys = "access_key: {env: KEY}, secret_key: {env: SECRET}"
        target = f'{{driver: s3, endpoint: "{url}", {keys}}}'
        text = USERS.format(data="", hosts=3).replace('{driver: file, path: ""}', target)
        file = campaigns.write(tmp_path, text.replace("keep_data: true\n", ""))
        secrets = {"KEY": store_under_test.ACCESS_KEY, "SECRET": store_under_test.SECRET_KEY}
        finished = loadstone("run", file, "-o", tmp_path / "run", environment=secrets)
    record = measured(tmp_path / "run")
    outcomes = {outcome for _, outcome in counts(record)}
    assert "ok" in outcomes
    assert any(outcome not in ("ok", "unwritten") for outcome in outcomes), finished.err
    assert not outcomes & FINDINGS, finished.err
    assert len(record.summary["hosts"]) == 3


SESSIONS, WRITES, LENGTH_S = 6, 40, 12


def rows_of_writers() -> Iterator[str]:
    """Sessions that write under prefixes of their own, and audits, each by another host."""
    for session in range(SESSIONS):
        for number in range(WRITES):
            due_ns = number * LENGTH_S * SECOND_NS // WRITES
            yield f"{session},WRITE,s{session}/{number},10,{due_ns}"
    for session in range(SESSIONS):
        audited = (session + 1) % SESSIONS
        yield f"{SESSIONS + session},AUDIT,s{audited}/,,{LENGTH_S * SECOND_NS}"


@pytest.mark.parametrize(
    "on_lost", ["continue", pytest.param("stop", marks=pytest.mark.long(cpu_s=4))]
)
def test_a_host_that_is_killed_leaves_no_false_finding(tmp_path: Path, on_lost: str) -> None:
    data = tmp_path / "data"
    data.mkdir()
    script = script_of(tmp_path, rows_of_writers())
    file = campaigns.write(tmp_path, OWN_DIRECTORY.format(data=data, hosts=3, script=script))
    process = start("run", file, "-o", tmp_path / "run", "--set", f"hosts.on_lost={on_lost}")
    try:
        while not list(data.rglob("*s1*4")):
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        agents = agents_of(process.pid)
        os.kill(agents[1], signal.SIGKILL)
        _, err = campaigns.end(process)
    finally:
        process.kill()
        process.wait()
    record = measured(tmp_path / "run")
    states: list[Any] = [host["state"] for host in record.summary["hosts"]]
    assert states[1] == "lost"
    assert not any(is_running(number) for number in agents)
    actions = counts(record)
    assert {outcome for _, outcome in actions} == {"ok"}, err
    if on_lost == "stop":
        assert process.returncode == 1
        assert record.summary["state"] == "stopped"
        return
    assert settled(process.returncode, err) == 0, err
    assert states == ["finished", "lost", "finished"]
    # The others ran their sessions and their audits, among them those of what the lost one wrote.
    assert actions["AUDIT", "ok"] == 4
    assert 4 * WRITES <= actions["WRITE", "ok"] < 6 * WRITES
    report = loadstone("report", tmp_path / "run", "-f", "json").json()
    assert any("HOST_LOST" in trial["labels"] for trial in report["trials"])
    assert list(data.iterdir()) == []
