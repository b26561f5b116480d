"""Agents on this machine make one load: together, divided, lost, and never left behind."""

import asyncio
import contextlib
import csv
import hashlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from loadstone import _loadgen, units
from loadstone.campaign.parse import parse_campaign
from loadstone.campaign.planning.plan import make_plan
from loadstone.errors import HostError
from loadstone.execution import runner
from loadstone.hosts import agent, executor
from loadstone.hosts.carrier import Carrier
from loadstone.hosts.session import HostSession
from loadstone.hosts.stream import join
from loadstone.results.store import read_run
from loadstone.results.writer import RunWriter
from loadstone.steady_clock import SteadyClock
from tests.system import campaigns
from tests.system.command import ERRORS_AS_JSON, loadstone, start

CAMPAIGN = """\
name: many
targets: {t: {driver: "null"}}
hosts: {launch: local, count: 2}
dataset: {objects: 1000, size: 4KiB}
load: {threads: 1, cores: 1}
phases: [{op: put, duration: 500ms}]
"""
LONG = (
    CAMPAIGN.replace("500ms", "10m")
    .replace("count: 2", "count: 3")
    # Leaves the machine to other work: an agent that gets no processor says nothing, and is lost.
    .replace("{threads: 1, cores: 1}", "{rate: 200/s, clients_max: 100, cores: 1}")
)
WAIT_S = 120.0


def test_a_load_of_two_hosts_is_one_record(tmp_path: Path) -> None:
    file = campaigns.write(tmp_path, CAMPAIGN + "log_requests: true\n")
    finished = loadstone("run", file, "-o", tmp_path / "run")
    assert finished.code in campaigns.WENT_WELL, finished.err
    assert ": local1, local2" in finished.err
    run = read_run(tmp_path / "run")
    assert [host["name"] for host in run.manifest["hosts"]] == ["local1", "local2"]
    (record,) = run.records
    assert record.trial["load"] == {"kind": "closed", "clients": 2}
    hosts = record.summary["hosts"]
    assert [(host["name"], host["state"]) for host in hosts] == [
        ("local1", "finished"), ("local2", "finished"),
    ]  # fmt: skip
    assert sum(host["requests"] for host in hosts) == record.summary["requests"]
    assert all(host["clock_bound_ns"] > 0 for host in hosts)
    # Each looked at itself before the load; this driver leaves nothing behind.
    assert [host["host_state"]["residues"] for host in hosts] == [[], []]
    rows = record.read_intervals(["agent", "requests"]).to_pylist()
    for host in hosts:
        mine = [row["requests"] for row in rows if row["agent"] == host["name"]]
        assert sum(mine) == host["requests"] > 0
    assert {row["host"] for row in record.probes.to_pylist()} == {"local1", "local2"}
    logged = Counter(agent for table in record.read_requests() for agent in table["agent"])
    assert logged == {host["name"]: host["requests"] for host in hosts}
    report = loadstone("report", tmp_path / "run", "-f", "json").json()
    assert [host["name"] for host in report["trials"][0]["hosts"]] == ["local1", "local2"]
    assert "Client hosts" in loadstone("report", tmp_path / "run", "--full").out
    check_rows_of_agents(tmp_path / "run", report["results"][0])


def check_rows_of_agents(run: Path, result: dict[str, Any]) -> None:
    """Each agent has a row of its own in each report, and all of them add up to the result."""
    agents = result["agents"]
    assert [agent["agent"] for agent in agents] == ["local1", "local2"]
    for key in ("requests", "good_requests", "failed_requests", "bytes"):
        assert sum(agent[key] for agent in agents) == result[key]
    rates = [agent["requests_per_s"] for agent in agents]
    assert sum(rates) == pytest.approx(result["requests_per_s"])
    assert all(agent["service_ns"]["p50"] > 0 for agent in agents)
    whole, *rows = csv.DictReader(io.StringIO(loadstone("report", run, "-f", "csv").out))
    assert whole["agent"] == ""
    assert [row["agent"] for row in rows] == ["local1", "local2"]
    assert [float(row["requests_per_s"]) for row in rows] == pytest.approx(rates)
    assert [int(row["service_p50_ns"]) for row in rows] == [
        agent["service_ns"]["p50"] for agent in agents
    ]
    page = loadstone("report", run, "-f", "html").out
    for text in (loadstone("report", run).out, loadstone("report", run, "--full").out, page):
        for rate in rates:
            assert units.format_number(rate) in text


@pytest.mark.parametrize(
    "load",
    [
        "threads: 3",
        pytest.param("rate: 300/s, clients_max: 60", marks=pytest.mark.long(cpu_s=6)),
    ],
)
def test_any_number_of_hosts_writes_the_same_objects(tmp_path: Path, load: str) -> None:
    written = {hosts: objects_of(tmp_path / str(hosts), hosts, load) for hosts in (1, 5)}
    assert len(written[1]) == 300
    assert written[1] == written[5]


def objects_of(folder: Path, hosts: int, load: str) -> dict[str, str]:
    """Put a dataset from so many hosts, and return the digest of each object by its name."""
    folder.mkdir()
    text = f"""\
name: same
targets: {{t: {{driver: file, path: {folder / "data"}}}}}
hosts: {{launch: local, count: {hosts}}}
dataset: {{objects: 300, size: {{uniform: [1KiB, 9KiB]}}, buckets: 3}}
load: {{{load}, per: total}}
keep_data: true
phases: [put]
"""
    (folder / "data").mkdir()
    campaign = parse_campaign(text, environ={})
    assert campaign.hosts is not None
    plan = make_plan(campaign, run="5" * 32)
    manifest = {"run": plan.run, "name": "same", "plan": plan.documents(), "seed": plan.seed,
                **runner.circumstances()}  # fmt: skip
    with (
        HostSession(campaign.hosts, plan.run, print) as session,
        RunWriter.create(folder / "run", manifest) as writer,
    ):
        end = runner.execute(plan, writer, lambda event: None, table=session.executors())
    assert (end.state, end.failed_requests) == ("finished", 0), end.problems
    files = [path for path in (folder / "data").rglob("*") if path.is_file()]
    return {
        str(path.relative_to(folder / "data")): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
        if not path.name.startswith(".")
    }


@contextlib.contextmanager
def long_run(folder: Path, *changes: str) -> Iterator[Any]:
    """Start a load of three hosts that would go on for ten minutes, and wait until it is on."""
    file = campaigns.write(folder, LONG)
    words = [word for change in changes for word in ("--set", change)]
    process = start("run", file, "-o", folder / "run", "--allow-commands", *words)
    try:
        campaigns.wait_for(process, "%")
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def test_a_host_that_is_killed_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    with long_run(tmp_path, "phases=[{op: put, duration: 15s}]") as process:
        agents = agents_of(process.pid)
        for _ in range(5):
            # All hosts have told of some seconds by then.
            campaigns.wait_for(process, "%")
        assert listened_on_by(process.pid)
        assert not any(map(listened_on_by, agents))
        os.kill(agents[1], signal.SIGKILL)
        _, err = campaigns.end(process)
    record, host = lost_host(tmp_path)
    assert record.summary["state"] == "finished"
    assert "ended" in host["reason"]
    assert host["requests"] > 0
    # The loss was printed when it happened, before the line of the trial's end, which names it too.
    news, *_, last = [line for line in err.splitlines() if "local2" in line and "lost" in line]
    assert host["reason"] in news
    assert "requests in" in last
    report = loadstone("report", tmp_path / "run", "-f", "json").json()
    assert "HOST_LOST" in report["trials"][0]["labels"]
    assert not any(is_running(number) for number in agents)


def test_a_lost_host_is_launched_again_for_the_next_trial(tmp_path: Path) -> None:
    phases = [f"{{name: put{number}, op: put, duration: 8s}}" for number in (1, 2)]
    with long_run(tmp_path, f"phases=[{', '.join(phases)}]") as process:
        for _ in range(3):
            campaigns.wait_for(process, "%")
        os.kill(agents_of(process.pid)[1], signal.SIGKILL)
        _, err = campaigns.end(process)
    assert process.returncode in campaigns.WENT_WELL, err
    first, second = (
        [host["state"] for host in record.summary["hosts"]]
        for record in read_run(tmp_path / "run").records
    )
    assert first == ["finished", "lost", "finished"]
    assert second == ["finished"] * 3
    assert err.count("local2") >= 3


def test_a_host_that_cannot_be_launched_again_is_named_and_the_others_go_on(
    tmp_path: Path,
) -> None:
    command = tmp_path / "loadstone-here"
    command.write_text(
        f"#!/bin/sh\n[ ! -e {tmp_path}/broken ] || exit 7\n"
        f'exec {sys.executable} -m loadstone "$@"\n'
    )
    command.chmod(0o755)
    phases = [f"{{name: put{number}, op: put, duration: 5s}}" for number in (1, 2, 3)]
    changes = (f"phases=[{', '.join(phases)}]", f"hosts.command={command}")
    with long_run(tmp_path, *changes) as process:
        (tmp_path / "broken").touch()
        os.kill(agents_of(process.pid)[1], signal.SIGKILL)
        _, err = campaigns.end(process)
    assert process.returncode in campaigns.WENT_WELL, err
    # Once: it is not tried again at each trial.
    assert err.count("exit code 7") == 1
    for record in read_run(tmp_path / "run").records:
        states = [host["state"] for host in record.summary["hosts"]]
        assert sorted(states) == ["finished", "finished", "lost"]


@pytest.mark.long(cpu_s=12)
def test_a_host_that_stands_still_is_lost_and_makes_no_load_when_it_wakes(tmp_path: Path) -> None:
    with long_run(tmp_path, "phases=[{op: put, duration: 8s}]") as process:
        sleeper = agents_of(process.pid)[1]
        os.kill(sleeper, signal.SIGSTOP)
        time.sleep(5)
        os.kill(sleeper, signal.SIGCONT)
        campaigns.end(process)
    _, host = lost_host(tmp_path)
    assert host["reason"].endswith(" 3 s")
    wait_until(lambda: not os.path.exists(f"/proc/{sleeper}"))


@contextlib.contextmanager
def joined_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> Iterator[tuple[Any, list[subprocess.Popen[bytes]]]]:
    """Start a load of three hosts, each of whose agents ends with its own standard input."""
    text = LONG.replace("launch: local, count: 3", "launch: join, names: [a, b, c]")
    file = campaigns.write(folder, text.replace("[a, b, c]", "[a, b, c], listen: 127.0.0.1"))
    # Invitations are written where the run is started.
    monkeypatch.chdir(folder)
    process = start("run", file, "-o", folder / "run", "--set", change)
    agents: list[subprocess.Popen[bytes]] = []
    try:
        campaigns.wait_for(process, "c.invitation")
        for invitation in sorted(folder.glob("invitations-*/*.invitation")):
            agents.append(
                subprocess.Popen(
                    [sys.executable, "-m", "loadstone", "agent", "--join", "-"],
                    env={**os.environ, "XDG_STATE_HOME": str(folder / invitation.stem)},
                    stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                )
            )  # fmt: skip
            agent_input = agents[-1].stdin
            assert agent_input is not None
            agent_input.write(invitation.read_bytes())
            agent_input.flush()
        campaigns.wait_for(process, "%")
        yield process, agents
    finally:
        for child in (process, *agents):
            if child.poll() is None:
                child.kill()
                child.wait()


def test_a_host_whose_launcher_goes_away_is_lost_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = "phases=[{op: put, duration: 8s}]"
    with joined_run(tmp_path, monkeypatch, change) as (process, agents):
        assert agents[1].stdin is not None
        agents[1].stdin.close()
        _, err = campaigns.end(process)
        assert [agent.wait(WAIT_S) for agent in agents] == [0, 1, 0]
    assert process.returncode in campaigns.WENT_WELL, err
    record, host = lost_host(tmp_path)
    assert (record.summary["state"], host["name"]) == ("finished", "b")
    assert agent.LAUNCHER_GONE in host["reason"] or "ended" in host["reason"]
    assert sum(host["requests"] for host in record.summary["hosts"]) == record.summary["requests"]


@pytest.mark.long(cpu_s=15)
def test_a_controller_that_slept_past_the_lease_keeps_what_was_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = "phases=[{op: put, duration: 5s}, {op: get, duration: 30s}]"
    with joined_run(tmp_path, monkeypatch, change) as (process, agents):
        campaigns.wait_for(process, "[2/2]")
        campaigns.wait_for(process, "%")
        process.send_signal(signal.SIGSTOP)
        # All load has ended long before the trial's end.
        assert [agent.wait(WAIT_S) for agent in agents] == [1, 1, 1]
        process.send_signal(signal.SIGCONT)
        _, err = campaigns.end(process)
    assert process.returncode == 1, err
    assert executor.ALL_LOST in err
    assert "Traceback" not in err
    run = read_run(tmp_path / "run")
    assert run.state == "interrupted"
    assert [record.is_whole for record in run.records] == [True, False]


def test_a_host_lost_in_a_put_of_the_dataset_ends_the_run_and_resume_repeats_it(
    tmp_path: Path,
) -> None:
    """A later get would find objects missing, and blame the store."""
    (tmp_path / "data").mkdir()
    text = CAMPAIGN.replace('"null"', f"file, path: {tmp_path / 'data'}").replace(
        "phases: [{op: put, duration: 500ms}]", "phases: [put, get]"
    )
    slow = "load={rate: 250/s, clients_max: 20, cores: 1, per: total}"
    file = campaigns.write(tmp_path, text)
    process = start("run", file, "-o", tmp_path / "run", "--set", slow)
    campaigns.wait_for(process, "%")
    os.kill(agents_of(process.pid)[1], signal.SIGKILL)
    _, err = campaigns.end(process)
    assert process.returncode == 1
    assert "local2" in err
    run = read_run(tmp_path / "run")
    assert not run.records
    assert run.state in ("failed", "interrupted")
    # The plan must not change; only its durations are reduced to nothing.
    finished = loadstone("run", file, "-o", tmp_path / "run", "--set", slow, "--resume")
    assert finished.code in campaigns.WENT_WELL, finished.err
    phases = [record for record in read_run(tmp_path / "run").records if record.trial["measured"]]
    assert [phase.trial["phase"] for phase in phases] == ["put", "get"]
    assert [(phase.summary["requests"], phase.summary["failed"]) for phase in phases] == [
        (1000, 0)
    ] * 2


def test_a_lost_host_ends_the_trial_where_the_campaign_says_so(tmp_path: Path) -> None:
    with long_run(tmp_path, "hosts.on_lost=stop") as process:
        agents = agents_of(process.pid)
        os.kill(agents[0], signal.SIGKILL)
        _, err = campaigns.end(process)
    assert process.returncode == 1
    assert "local1" in err
    record, host = lost_host(tmp_path)
    assert host["name"] == "local1"
    assert record.labels == ("STOPPED_ON_LOSS",)
    report = loadstone("report", tmp_path / "run", "-f", "json").json()
    assert "STOPPED" not in report["trials"][0]["labels"]
    assert not any(is_running(number) for number in agents)


def test_all_load_ends_when_the_controller_is_killed(tmp_path: Path) -> None:
    with long_run(tmp_path) as process:
        agents = agents_of(process.pid)
        assert len(agents) == 3
        process.kill()
        process.wait()
        wait_until(lambda: not any(is_running(number) for number in agents))
    file = tmp_path / "campaign.yaml"
    run = read_run(tmp_path / "run")
    assert run.state == "interrupted"
    # Data that the hosts had reported is kept, and the run continues.
    (record,) = run.records
    assert record.read_intervals(["requests"]).num_rows
    process = start("run", file, "-o", tmp_path / "run", "--resume")
    campaigns.wait_for(process, "%")
    agents = agents_of(process.pid)
    process.send_signal(signal.SIGINT)
    _, err = campaigns.end(process)
    assert process.returncode == 130, err
    assert not any(is_running(number) for number in agents)


def test_an_uninvited_host_is_refused_by_both_sides() -> None:
    with Carrier("a" * 32, "127.0.0.1") as ours, Carrier("b" * 32, "127.0.0.1") as others:
        stranger = others.invite("client1", is_alone=False)
        wrong = replace(stranger, controller=ours.address)
        with pytest.raises(HostError) as caught:
            asyncio.run(agent.serve(wrong, until_input_ends=False))
        assert caught.value.kind == "certificates"
        # One that trusts our authority, but has a certificate of another.
        forged = replace(wrong, authority=ours.invite("x", is_alone=False).authority)
        with pytest.raises(HostError) as caught:
            asyncio.run(agent.serve(forged, until_input_ends=False))
        assert caught.value.kind == "certificates"
        assert ours.inbox.empty()


def test_a_controller_that_is_gone_is_named() -> None:
    with Carrier("a" * 32, "127.0.0.1") as carrier:
        late = carrier.invite("client1", is_alone=False)
    with pytest.raises(HostError) as caught:
        asyncio.run(agent.serve(late, until_input_ends=False))
    assert caught.value.kind == "unreachable"
    assert "host client1: " in caught.value.message
    assert late.controller.removeprefix("tls://") in caught.value.message


@pytest.mark.parametrize(
    ("ahead_s", "words"),
    [(-26 * 3600, "1 d 2 h behind"), (400 * 86_400, "400 d ahead of"), (3600, None)],
)
def test_a_clock_that_is_a_day_off_is_named_with_by_how_much(
    ahead_s: int, words: str | None
) -> None:
    class Set(SteadyClock):
        def unix_ns(self) -> int:
            return super().unix_ns() + ahead_s * 10**9

    async def join_once() -> None:
        (await join(carrier.invite("client1", is_alone=False), Set())).abort()

    with Carrier("a" * 32, "127.0.0.1") as carrier:
        if words is None:
            asyncio.run(join_once())
            return
        with pytest.raises(HostError) as caught:
            asyncio.run(join_once())
    assert caught.value.kind == "clock"
    # It takes some time to join.
    assert re.search(rf"host client1: .*\b{words}", caught.value.message)


def test_an_address_of_another_machine_cannot_be_listened_on() -> None:
    with pytest.raises(HostError, match=r"listen on 192\.0\.2\.1"), Carrier("a" * 32, "192.0.2.1"):
        pass


def test_hosts_are_checked_without_a_load(tmp_path: Path) -> None:
    file = campaigns.write(tmp_path, CAMPAIGN)
    (host,) = loadstone("hosts", "check", file, "--set", "hosts.count=1", "-f", "json").json()
    assert host["name"] == "local1"
    assert host["cores"] >= 1
    assert host["clock_bound_ns"] > 0
    assert host["descriptors"] > 0
    finished = loadstone(
        "hosts", "check", file, "--allow-commands", "--set", "hosts.command=/nowhere/loadstone"
    )
    assert finished.code == 1
    assert "local1" in finished.err
    assert "/nowhere/loadstone" in finished.err


def lost_host(folder: Path) -> tuple[Any, dict[str, Any]]:
    (record,) = read_run(folder / "run").records
    (host,) = (host for host in record.summary["hosts"] if host["state"] == "lost")
    return record, host


def agents_of(controller: int) -> list[int]:
    """Return the processes that a controller has started, in the order of their start."""
    agents = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[1]) == controller:
                agents.append(int(path.parent.name))
    return sorted(agents)


def listened_on_by(number: int) -> list[str]:
    """Return the addresses that a process listens on for TCP, as the kernel writes them."""
    sockets = set()
    for path in Path(f"/proc/{number}/fd").iterdir():
        with contextlib.suppress(OSError):
            sockets.add(path.readlink().name.removeprefix("socket:[").removesuffix("]"))
    tables = (Path(f"/proc/{number}/net/{name}") for name in ("tcp", "tcp6"))
    rows = [line.split() for path in tables for line in path.read_text().splitlines()[1:]]
    return [row[1] for row in rows if row[3] == "0A" and row[9] in sockets]


def is_running(number: int) -> bool:
    """Tell whether a process is there and no zombie, whose parent has not asked for it."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(holds: Any) -> None:
    """Wait for something that has to come; it hangs if it does not."""
    end = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


CANARY = "canary-hosts-7d1f0a93b5c8e246"
SENT = """\
name: sent
targets:
  t: {driver: s3, endpoint: ENDPOINT, access_key: {file: KEYFILE}, secret_key: {env: CANARY_SECRET}}
hosts: {launch: local, count: 2, secrets: send}
dataset: {objects: 200, size: 4KiB}
load: {threads: 1, cores: 1}
phases: [{op: put, duration: 4s}]
"""


def test_a_secret_that_is_sent_is_in_no_process_but_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = _loadgen.Store(json.dumps({"access_key": "user", "secret_key": CANARY}))
    (tmp_path / "key").write_text("user\n")
    monkeypatch.setenv("CANARY_SECRET", CANARY)
    text = SENT.replace("ENDPOINT", f"http://127.0.0.1:{store.port}")
    file = campaigns.write(tmp_path, text.replace("KEYFILE", str(tmp_path / "key")))
    try:
        process = start("run", file, "-o", tmp_path / "run")
        campaigns.wait_for(process, "%")
        agents = agents_of(process.pid)
        # Its name would be there, had an agent inherited it; so would it in a command line.
        readable = b"".join(
            Path(f"/proc/{agent}/{kind}").read_bytes()
            for agent in agents
            for kind in ("environ", "cmdline")
        )
        out, err = campaigns.end(process)
    finally:
        store.stop()
    assert process.returncode in campaigns.WENT_WELL, err
    assert len(agents) == 2
    assert b"agent" in readable
    assert b"CANARY_SECRET" not in readable
    assert CANARY.encode() not in readable
    assert CANARY not in out + err
    (record,) = (
        record for record in read_run(tmp_path / "run").records if record.trial["measured"]
    )
    # Signed with it, or the store would have refused them.
    assert all(host["requests"] for host in record.summary["hosts"])
    assert record.summary["failed"] == 0
    for path in (tmp_path / "run").rglob("*"):
        assert not path.is_file() or CANARY.encode() not in path.read_bytes(), path


def test_a_secret_to_send_that_is_not_there_is_named(tmp_path: Path) -> None:
    text = SENT.replace("ENDPOINT", "http://127.0.0.1:9").replace("KEYFILE", str(tmp_path / "key"))
    (tmp_path / "key").write_text("user")
    file = campaigns.write(tmp_path, text)
    finished = loadstone(*ERRORS_AS_JSON, "run", file, "-o", tmp_path / "run")
    assert finished.code == 1
    assert finished.kinds == ["secret-absent"]
    assert '"CANARY_SECRET"' in finished.errors[0]["message"]
