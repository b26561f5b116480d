"""Hosts that are logged in to: they make a load, are lost, and each mistake names its host."""

import contextlib
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from loadstone.results.store import read_run
from tests.system import campaigns, ssh_network
from tests.system.ssh_network import CONTROLLER, UNROUTED, SshNetwork

LACKS = ssh_network.lacks()
pytestmark = pytest.mark.skipif(LACKS is not None, reason=str(LACKS))
WAIT_S = 120.0

CAMPAIGN = f"""\
name: many
targets: {{t: {{driver: "null"}}}}
hosts:
  launch: ssh
  names: ["client{{1...2}}"]
  command: {sys.executable} -m loadstone
  listen: {CONTROLLER}
dataset: {{objects: 1000, size: 4KiB}}
load: {{threads: 1, cores: 1}}
phases: [{{op: put, duration: 500ms}}]
"""

OTHER_VERSION = f"""\
#!{sys.executable}
import sys
import loadstone
loadstone.__version__ = "9.9.9"
from loadstone.cli import main
sys.argv[0] = "loadstone"
sys.exit(main())
"""


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshNetwork]:
    with ssh_network.ssh_network(tmp_path_factory.mktemp("ssh"), 2) as network:
        yield network


def test_hosts_that_are_logged_in_to_make_one_load(network: SshNetwork, tmp_path: Path) -> None:
    file = campaigns.write(tmp_path, CAMPAIGN)
    finished = network.loadstone("run", file, "-o", tmp_path / "run")
    assert finished.code in campaigns.WENT_WELL, finished.err
    run = read_run(tmp_path / "run")
    assert [host["name"] for host in run.manifest["hosts"]] == ["client1", "client2"]
    (record,) = run.records
    hosts = record.summary["hosts"]
    assert [host["state"] for host in hosts] == ["finished", "finished"]
    assert sum(host["requests"] for host in hosts) == record.summary["requests"] > 0
    assert not network.processes("client1") + network.processes("client2")


def test_a_bench_of_hosts_needs_their_names_alone(network: SshNetwork, tmp_path: Path) -> None:
    finished = network.loadstone(
        "bench", "put", "null", "-t", "1", "-d", "500ms", "--ramp-up", "0s",
        "--hosts", "client1,client2", "--set", f"hosts.command={sys.executable} -m loadstone",
        "--set", "load.cores=1", "-o", tmp_path / "run",
    )  # fmt: skip
    assert finished.code in campaigns.WENT_WELL, finished.err
    (record,) = read_run(tmp_path / "run").records
    assert [host["name"] for host in record.summary["hosts"]] == ["client1", "client2"]
    assert record.trial["load"]["clients"] == 2


@pytest.mark.long(cpu_s=6)
def test_no_key_of_an_agent_is_on_a_command_line(network: SshNetwork, tmp_path: Path) -> None:
    file = campaigns.write(tmp_path, CAMPAIGN.replace("500ms", "10m"))
    process = network.start("run", file, "-o", tmp_path / "run")
    campaigns.wait_for(process, "%")
    lines = b"".join(path.read_bytes() for path in command_lines())
    process.terminate()
    campaigns.end(process)
    assert b"agent" in lines
    assert b"PRIVATE KEY" not in lines
    assert not network.processes("client1") + network.processes("client2")


def test_a_host_that_is_cut_off_is_lost_and_ends_its_load_by_itself(
    network: SshNetwork, tmp_path: Path
) -> None:
    load = "{rate: 100/s, clients_max: 20, cores: 1}"
    text = CAMPAIGN.replace("500ms", "12s").replace("{threads: 1, cores: 1}", load)
    file = campaigns.write(tmp_path, text)
    process = network.start("run", file, "-o", tmp_path / "run")
    for _ in range(5):
        # Both hosts have told of some seconds by then.
        campaigns.wait_for(process, "%")
    try:
        network.cut_off("client2")
        _, err = campaigns.end(process)
        assert process.returncode in campaigns.WENT_WELL, err
        # No word of the controller reaches it any more.
        end = time.monotonic() + WAIT_S
        while network.processes("client2"):
            assert time.monotonic() < end, "its load goes on"
            time.sleep(0.1)
    finally:
        network.mend("client2")
    (record,) = read_run(tmp_path / "run").records
    states = {host["name"]: host["state"] for host in record.summary["hosts"]}
    assert states == {"client1": "finished", "client2": "lost"}
    (lost,) = (host for host in record.summary["hosts"] if host["state"] == "lost")
    assert lost["reason"].endswith(" 3 s")
    assert lost["requests"] > 0


def command_lines() -> Iterator[Path]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        if path.exists():
            yield path


def refused(network: SshNetwork, folder: Path, *changes: str) -> str:
    """Check hosts of which one cannot take part, and return what is said."""
    file = campaigns.write(folder, CAMPAIGN)
    words = [word for change in changes for word in ("--set", change)]
    finished = network.loadstone("hosts", "check", file, *words)
    assert finished.code == 1, finished.out
    assert "Traceback" not in finished.err
    # An agent that had joined ends when its connection does, which may be after the command.
    end = time.monotonic() + WAIT_S
    while left := network.processes("client1") + network.processes("client2"):
        assert time.monotonic() < end, left
        time.sleep(0.1)
    return finished.err


def test_a_name_that_does_not_resolve_is_named(network: SshNetwork, tmp_path: Path) -> None:
    message = refused(network, tmp_path, "hosts.names=[client1, nowhere.invalid]")
    assert "host nowhere.invalid: " in message
    assert "hint:" in message


@pytest.mark.long(cpu_s=6)
def test_a_host_that_does_not_answer_is_named(network: SshNetwork, tmp_path: Path) -> None:
    message = refused(network, tmp_path, "hosts.names=[client1, 10.231.9.77]")
    assert "host 10.231.9.77: " in message


@contextlib.contextmanager
def holding(file: Path, text: str) -> Iterator[None]:
    """Let a file hold another text for a while."""
    right = file.read_text()
    file.write_text(text)
    try:
        yield
    finally:
        file.write_text(right)


def test_a_refused_key_is_named(network: SshNetwork, tmp_path: Path) -> None:
    other = (network.folder / "client1.host.pub").read_text()
    with holding(network.folder / "authorized", other):
        message = refused(network, tmp_path)
    assert "host client1: " in message
    assert "Permission denied" in message


def test_a_host_with_another_key_than_the_known_one_is_named(
    network: SshNetwork, tmp_path: Path
) -> None:
    known = network.ssh_folder / "ssh_known_hosts"
    with holding(known, known.read_text().splitlines()[0] + "\n"):
        message = refused(network, tmp_path)
    assert "host client2: " in message
    assert "known_hosts" in message
    assert "host client1" not in message


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("/nowhere/loadstone", '"/nowhere/loadstone" '),
        ("{lonely} -m loadstone", "No module named"),  # others' words: Python's
        ("{other}", " 9.9.9"),
        ("{shy}", "exit code 3"),
    ],
)
def test_a_command_that_is_not_an_agent_is_named(
    network: SshNetwork, tmp_path: Path, command: str, expected: str
) -> None:
    programs = {
        "lonely": f"{Path(sys.executable).resolve()} -I",
        "other": script(tmp_path / "other", OTHER_VERSION),
        "shy": script(tmp_path / "shy", "#!/bin/sh\nexit 3\n"),
    }
    message = refused(network, tmp_path, "hosts.names=[client1]",
                   f"hosts.command={command.format(**programs)}")  # fmt: skip
    assert "client1" in message
    assert expected in message


def test_the_address_to_listen_on_is_that_from_which_ssh_reaches_the_hosts(
    network: SshNetwork, tmp_path: Path
) -> None:
    """The addresses are only in ssh's configuration: the names do not resolve."""
    file = campaigns.write(tmp_path, CAMPAIGN.replace(f"  listen: {CONTROLLER}\n", ""))
    finished = network.loadstone("run", file, "-o", tmp_path / "run")
    assert finished.code in campaigns.WENT_WELL, finished.err
    (record,) = read_run(tmp_path / "run").records
    assert [host["state"] for host in record.summary["hosts"]] == ["finished"] * 2


def test_a_host_behind_another_is_reached_as_ssh_is_set_up(
    network: SshNetwork, tmp_path: Path
) -> None:
    config = network.ssh_folder / "ssh_config"
    jump = "Host client2\n  ProxyJump client1\n"
    with holding(config, jump + config.read_text()):
        file = campaigns.write(tmp_path, CAMPAIGN)
        finished = network.loadstone("hosts", "check", file, "-f", "json")
        assert finished.code in campaigns.WENT_WELL, finished.err
        assert [host["name"] for host in finished.json()] == ["client1", "client2"]
        # If the hosts cannot tell this machine's address, the campaign must name it.
        campaigns.write(tmp_path, CAMPAIGN.replace(f"  listen: {CONTROLLER}\n", ""))
        finished = network.loadstone("hosts", "check", file)
    assert finished.code == 1
    assert "host client2: " in finished.err
    assert "hosts.listen" in finished.err


def test_a_new_host_is_accepted_where_ssh_is_set_up_so(network: SshNetwork, tmp_path: Path) -> None:
    config, known = network.ssh_folder / "ssh_config", network.ssh_folder / "ssh_known_hosts"
    accept = "StrictHostKeyChecking accept-new\n"
    with holding(config, accept + config.read_text()), holding(known, ""):
        file = campaigns.write(tmp_path, CAMPAIGN)
        finished = network.loadstone("hosts", "check", file, "-f", "json")
    assert finished.code in campaigns.WENT_WELL, finished.err
    accepted = network.folder / "known_hosts"
    assert "client1" in accepted.read_text() or "10.231.9.11" in accepted.read_text()
    accepted.unlink()


def test_all_hosts_that_fail_are_named_however_long_each_takes(
    network: SshNetwork, tmp_path: Path
) -> None:
    """One fails at once, and the other when ssh has waited long enough."""
    message = refused(network, tmp_path, "hosts.names=[nowhere.invalid, 10.231.9.77]")
    assert "host nowhere.invalid: " in message
    assert "host 10.231.9.77: " in message


def test_an_agent_s_missing_file_is_not_a_missing_loadstone(
    network: SshNetwork, tmp_path: Path
) -> None:
    words = "cannot open: No such file or directory"
    command = script(tmp_path / "strange", f"#!/bin/sh\necho '{words}' >&2\nexit 4\n")
    message = refused(network, tmp_path, "hosts.names=[client1]", f"hosts.command={command}")
    assert words in message
    assert "exit code 4" in message


def test_a_host_without_a_way_back_is_named(network: SshNetwork, tmp_path: Path) -> None:
    message = refused(network, tmp_path, "hosts.names=[client1]", f"hosts.listen={UNROUTED}")
    assert "host client1: " in message
    assert UNROUTED in message
    assert "hosts.listen" in message


@pytest.mark.long(cpu_s=6)
def test_an_address_that_is_the_hosts_own_is_named(network: SshNetwork, tmp_path: Path) -> None:
    message = refused(network, tmp_path, "hosts.names=[client1]", "hosts.listen=127.0.0.1")
    assert "host client1" in message
    assert "127.0.0.1" in message
    assert "hosts.listen" in message


def script(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o755)
    assert shutil.which(str(path))
    return str(path)
