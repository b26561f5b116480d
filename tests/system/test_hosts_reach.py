"""Hosts that a target does not answer, or refuses, are named before any load, by run and check."""

import contextlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from loadstone.results.store import read_run
from tests.system import campaigns, ssh_network
from tests.system.ssh_network import CONTROLLER, SshNetwork
from tests.system.test_hosts_that_fail import SETTABLE_CLOCK, set_clock

LACKS = ssh_network.lacks()
pytestmark = pytest.mark.skipif(LACKS is not None, reason=str(LACKS))

PORT = 9123
STORE = "10.231.9.2"
"""An address of the controller's that carries the store alone, so that its way can be cut."""

NOWHERE = "02:00:00:00:00:99"
STORE_KEYS = {"LOADSTONE_ACCESS_KEY": "testing", "LOADSTONE_SECRET_KEY": "testing-secret"}
KEYS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing-secret"}
CAMPAIGN = f"""\
name: reach
targets: {{t: {{driver: s3, endpoint: "http://{STORE}:{PORT}"}}}}
hosts:
  launch: ssh
  names: [client1, client2]
  command: COMMAND
  listen: {CONTROLLER}
dataset: {{objects: 40, size: 4KiB}}
load: {{threads: 2, cores: 1}}
phases: [put, get]
"""


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshNetwork]:
    with ssh_network.ssh_network(tmp_path_factory.mktemp("ssh"), 2) as network:
        space = f"{network.prefix}-c"
        subprocess.run(
            ["ip", "-n", space, "address", "add", f"{STORE}/24", "dev", "hub"], check=True
        )
        store = network.start("serve", "--bind", STORE, "--port", str(PORT), environment=STORE_KEYS)
        try:
            assert store.stdout is not None
            assert store.stdout.readline()
            yield network
        finally:
            store.terminate()
            store.communicate()


def write(folder: Path, *, on_client2: str = "") -> Path:
    """Write the campaign, whose agent on client2 has shell commands before it."""
    command = folder / "loadstone"
    command.write_text(
        f'#!/bin/sh\nif [ "$(hostname)" = client2 ]; then\n:\n{on_client2}\nfi\n'
        f'exec {sys.executable} -m loadstone "$@"\n'
    )
    command.chmod(0o755)
    return campaigns.write(folder, CAMPAIGN.replace("COMMAND", str(command)))


def refused(network: SshNetwork, folder: Path, file: Path, *changes: str) -> str:
    """Check and run a campaign of which client2 alone cannot make the load; return what was said.

    Both name it, and nothing is measured.
    """
    words = [word for change in changes for word in ("--set", change)]
    checked = network.loadstone("hosts", "check", file, *words, environment=KEYS)
    ran = network.loadstone("run", file, "-o", folder / "run", *words, environment=KEYS)
    for result in (checked, ran):
        assert result.code == 1, result.err
        assert "host client2: " in result.err
        assert "host client1: " not in result.err
        assert "hint:" in result.err
        assert "Traceback" not in result.err
    if (folder / "run").exists():
        assert not read_run(folder / "run").records
    return checked.err + ran.err


def test_hosts_that_reach_the_store_have_the_secrets_of_the_controller(
    network: SshNetwork, tmp_path: Path
) -> None:
    file = write(tmp_path)
    finished = network.loadstone("hosts", "check", file, "-f", "json", environment=KEYS)
    assert finished.code in campaigns.WENT_WELL, finished.err
    assert [host["targets"]["t"]["is_usable"] for host in finished.json()] == [True, True]
    finished = network.loadstone("run", file, "-o", tmp_path / "run", environment=KEYS)
    assert finished.code in campaigns.WENT_WELL, finished.err
    put, get = (record for record in read_run(tmp_path / "run").records if record.trial["measured"])
    assert (put.summary["requests"], put.summary["failed"]) == (40, 0)
    assert all(host["requests"] for host in get.summary["hosts"])


def test_a_host_whose_packets_never_come_back_is_named_in_time(
    network: SshNetwork, tmp_path: Path
) -> None:
    with cut(network, "client2"):
        message = refused(network, tmp_path, write(tmp_path))
    assert "timeout" in message
    # It printed for whom it waits.
    assert re.search("^(?!error|host|hint).*client2", message, re.MULTILINE)


@contextlib.contextmanager
def cut(network: SshNetwork, name: str) -> Iterator[None]:
    """Let what a host sends to the store go nowhere."""
    space = f"{network.prefix}-{network.names.index(name)}"
    entry = [STORE, "lladdr", NOWHERE, "dev", "eth0"]
    subprocess.run(["ip", "-n", space, "neigh", "replace", *entry, "nud", "permanent"], check=True)
    try:
        yield
    finally:
        subprocess.run(["ip", "-n", space, "neigh", "del", *entry], check=True)


def test_a_host_whose_clock_the_store_refuses_is_named_with_its_clock(
    network: SshNetwork, tmp_path: Path
) -> None:
    ahead = tmp_path / "ahead"
    ahead.write_bytes(bytes(8))
    set_clock(ahead, 3600.0)
    (tmp_path / "clock.c").write_text(SETTABLE_CLOCK)
    library = tmp_path / "clock.so"
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-O1", "-o", library, tmp_path / "clock.c", "-ldl"], check=True
    )
    here = f"export CLOCK_AHEAD={ahead} LD_PRELOAD={library}"
    message = refused(network, tmp_path, write(tmp_path, on_client2=here))
    assert "RequestTimeTooSkewed" in message  # others' words: S3's
    assert "3,600 s" in message


def test_a_host_that_may_not_open_as_many_connections_is_named(
    network: SshNetwork, tmp_path: Path
) -> None:
    message = refused(
        network, tmp_path, write(tmp_path, on_client2="ulimit -n 150"), "load.threads=100"
    )
    assert "164" in message
    assert "150" in message


def test_hosts_that_lack_a_secret_are_told_that_it_can_be_sent(
    network: SshNetwork, tmp_path: Path
) -> None:
    file = write(tmp_path)
    finished = network.loadstone(
        "hosts", "check", file, "--set", "hosts.secrets=resolve", environment=KEYS
    )
    assert finished.code == 1
    assert "AWS_ACCESS_KEY_ID" in finished.err
    assert "secrets: send" in finished.err
