"""`loadstone audit durability` counts the objects lost at each fault, for that fault."""

import os
import signal
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from loadstone.cli import exit_code
from loadstone.results.store import read_run
from tests.system.command import ERRORS_AS_JSON, CommandResult, loadstone, start
from tests.system.servers.processes import free_ports
from tests.system.test_bestiary import SERVE, SERVER_KEYS
from tests.system.test_card import KEYS, port_of

# The fault comes in the last second: something is acknowledged before.
SMALL = ("-n", "400", "-d", "2s", "-t", "8", "-f", "json")


@pytest.fixture
def url() -> str:
    """Return an address at which nothing answers."""
    return f"http://127.0.0.1:{free_ports(1)}"


def durability(url: str, run: Path, *words: str | Path) -> CommandResult:
    keys = {**KEYS, **SERVER_KEYS}
    return loadstone("audit", "durability", url, *SMALL, "-o", run, *words, environment=keys)


def faults_in(result: CommandResult) -> dict[str, dict[str, Any]]:
    return {fault["fault"]: fault for fault in result.json()["faults"]}


def test_a_store_in_memory_has_lost_all_after_a_kill(url: str, tmp_path: Path) -> None:
    server = f"{SERVE} --port {port_of(url)}"
    finished = durability(url, tmp_path / "run", "--times", "1", "--start", server)
    assert finished.code == exit_code.FAILED
    kill = faults_in(finished)["kill"]
    assert kill["wrong"] == kill["read_back"] == kill["acknowledged"] > 0
    assert (kill["times"], kill["times_wrong"], kill["wrong_share_max"]) == (1, 1, 1.0)
    assert finished.json()["class"] == "volatile"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port_of(url)))


def test_faults_that_lose_data_are_distinguished_from_others(url: str, tmp_path: Path) -> None:
    """A kill leaves the directory; the stand-in for a power cut removes it."""
    data, number = tmp_path / "data", tmp_path / "number"
    server = f"sh -c 'echo $$ > {number}; exec {SERVE} --port {port_of(url)} --data {data}'"
    cut = f"sh -c 'kill -9 $(cat {number}); rm -rf {data} || rm -rf {data}'"
    run = tmp_path / "run"
    finished = durability(url, run, "--times", "1", "--start", server, "--power-cut", cut)
    assert finished.code == exit_code.FAILED, finished.err
    faults = faults_in(finished)
    assert faults.keys() == {"kill", "power_cut"}, finished.err
    assert finished.json()["class"] == "buffered"
    kill, power_cut = faults["kill"], faults["power_cut"]
    assert (kill["times"], kill["wrong"]) == (1, 0), finished.err
    assert kill["read_back"] == kill["acknowledged"] > 0
    assert 0 < kill["wrong_share_max"] < 3.1 / kill["read_back"]
    assert kill["times_wrong_share_max"] == pytest.approx(0.95)
    assert (power_cut["times"], power_cut["times_wrong"]) == (1, 1)
    assert power_cut["wrong"] == power_cut["read_back"] > 0
    report = loadstone("report", run, "-f", "json").json()
    assert [finding["rule"] for finding in report["findings"]].count("durability") == 2
    assert [hook["hook"] for hook in report["hooks"]] == ["kill", "power_cut"]
    # Each fault came in the last second of its load, also after the audit of the one before.
    began_ns = {
        record.trial["id"]: record.summary["started_unix_ns"] for record in read_run(run).records
    }
    assert all(hook["started_unix_ns"] - began_ns[hook["trial"]] >= 1e9 for hook in report["hooks"])
    assert not list((data / "buckets").iterdir())


def test_without_a_fault_or_a_start_nothing_is_written(url: str, tmp_path: Path) -> None:
    for words in ((), ("--kill", "true")):
        finished = loadstone(
            *ERRORS_AS_JSON, "audit", "durability", url, *words, "-o", tmp_path / "run",
            environment=KEYS,
        )  # fmt: skip
        assert finished.code == exit_code.FAILED
        assert len(finished.kinds) == 1
        assert not (tmp_path / "run").exists()


def test_ctrl_c_ends_the_load_and_the_server_that_was_started(url: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = ("-d", "1m", "-t", "2", "--start", f"{SERVE} --port {port_of(url)}", "-o", run)
    process = start(
        "audit", "durability", url, *words, environment={**os.environ, **KEYS, **SERVER_KEYS}
    )
    while not (run / "ledger").exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(60)
    assert process.returncode == exit_code.INTERRUPTED, err
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port_of(url)))
