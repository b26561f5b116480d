"""Agents by SSH, and joined by hand: real logins on loopback."""

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from loadstone.hosts.agent import IN_USE
from loadstone.hosts.messages import RUN_OVER
from loadstone.results.store import read_run
from tests.system import campaigns
from tests.system.command import CommandResult, loadstone, start
from tests.system.servers import ssh

pytestmark = pytest.mark.real

PROGRAM = f"{sys.executable} -m loadstone"
WAIT_S = 120.0


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ssh.Hosts]:
    with ssh.running(tmp_path_factory.mktemp("ssh"), 3) as servers:
        yield servers


def campaign(folder: Path, hosts: ssh.Hosts, *, command: str = PROGRAM) -> Path:
    return campaigns.write(
        folder,
        f"""\
name: several
targets: {{t: {{driver: "null"}}}}
hosts:
  launch: ssh
  names: {json.dumps(hosts.names)}
  command: {command}
dataset: {{objects: 1000, size: 4KiB}}
load: {{threads: 2, cores: 1}}
phases: [{{op: put, duration: 500ms}}]
""",
    )


def run(hosts: ssh.Hosts, *words: str | Path) -> CommandResult:
    return loadstone(*words, "--allow-commands", environment=hosts.environment)


def test_three_hosts_by_ssh_make_one_load(tmp_path: Path, hosts: ssh.Hosts) -> None:
    finished = run(hosts, "run", campaign(tmp_path, hosts), "-o", tmp_path / "run")
    assert finished.code == 0, finished.err
    (record,) = read_run(tmp_path / "run").records
    summaries = record.summary["hosts"]
    assert [host["name"] for host in summaries] == hosts.names
    assert all(host["state"] == "finished" and host["requests"] for host in summaries)
    checked = run(hosts, "hosts", "check", tmp_path / "campaign.yaml", "-f", "json").json()
    assert [host["name"] for host in checked] == hosts.names


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ('hosts.names=["127.0.0.1:1"]', "Connection refused"),
        ('hosts.names=["nowhere.invalid"]', "nowhere.invalid: "),
        ("hosts.command=/nowhere/loadstone", '"/nowhere/loadstone" '),
        ("hosts.command=/bin/false", "exit code 1"),
    ],
)
def test_obstacles_of_a_host_are_reported_with_its_name(
    tmp_path: Path, hosts: ssh.Hosts, change: str, expected: str
) -> None:
    file = campaign(tmp_path, hosts)
    answer = run(hosts, "run", file, "-o", tmp_path / "run", "--set", change)
    assert answer.code == 1
    assert expected in answer.err
    assert not (tmp_path / "run").exists()
    assert "Traceback" not in answer.err


def test_a_host_whose_key_is_unknown_is_refused(tmp_path: Path, hosts: ssh.Hosts) -> None:
    other = ssh.Hosts(hosts.names, tmp_path / "home")
    (tmp_path / "home" / ".ssh").mkdir(parents=True)
    for name in ("id_ed25519", "id_ed25519.pub"):
        key = hosts.home / ".ssh" / name
        (tmp_path / "home" / ".ssh" / name).write_bytes(key.read_bytes())
    answer = run(other, "hosts", "check", campaign(tmp_path, hosts))
    assert answer.code == 1
    assert "known_hosts" in answer.err


def test_a_user_without_a_key_is_refused(tmp_path: Path, hosts: ssh.Hosts) -> None:
    other = ssh.Hosts(hosts.names, tmp_path / "home")
    (tmp_path / "home" / ".ssh").mkdir(parents=True)
    known = (hosts.home / ".ssh" / "known_hosts").read_text()
    (tmp_path / "home" / ".ssh" / "known_hosts").write_text(known)
    answer = run(other, "hosts", "check", campaign(tmp_path, hosts))
    assert answer.code == 1
    assert "Permission denied" in answer.err


def test_two_names_of_one_host_are_two_agents_too_many(tmp_path: Path, hosts: ssh.Hosts) -> None:
    twice = ssh.Hosts([hosts.names[0], f"root@{hosts.names[0]}"], hosts.home)
    answer = run(hosts, "hosts", "check", campaign(tmp_path, twice))
    assert answer.code == 1
    assert IN_USE in answer.err


def test_hosts_join_by_hand(tmp_path: Path) -> None:
    file = campaigns.write(
        tmp_path,
        """\
name: by-hand
targets: {t: {driver: "null"}}
hosts: {launch: join, names: [one], listen: 127.0.0.1}
dataset: {objects: 100, size: 4KiB}
load: {threads: 1, cores: 1}
phases: [put]
""",
    )
    process = start("run", file, "-o", tmp_path / "run")
    output = campaigns.wait_for(process, "on one:")
    folder = Path(output.partition("invitations are in ")[2].partition(",")[0])
    command = shlex.split(output.rpartition("on one: ")[2])
    assert command[1:3] == ["agent", "--join"]
    agent = subprocess.run(
        [sys.executable, "-m", "loadstone", *command[1:]],
        cwd=folder, capture_output=True, text=True, timeout=WAIT_S, check=False,
        env={"XDG_STATE_HOME": str(tmp_path / "state"), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    campaigns.end(process)
    assert process.returncode == 0
    assert (agent.returncode, agent.stderr.rpartition(": ")[2].strip()) == (0, RUN_OVER)
    assert not folder.exists()
