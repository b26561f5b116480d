"""Residues of earlier trials: measured before a load, waited for within a bound, recorded."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from loadstone.analysis.judgements.labels import label_trial
from loadstone.analysis.limits.observed import LoadPoint, LoadStep
from loadstone.campaign.schema.target_probe import PrometheusProbe
from loadstone.documents.summary import HostState
from loadstone.documents.trial import TrialDocument
from loadstone.execution.host import limits, settling
from loadstone.execution.host.settling import Quantity, Settling, disk_queue
from loadstone.probes import sockets
from loadstone.probes.exporters import Exporters
from loadstone.results.record import PROBE_SCHEMA, Record

PORTS = limits.Limits(
    descriptors=1024, first_port=20_001, last_port=30_000, time_wait=0, tcp_tw_reuse=0
)


def quantity(values: Iterator[float], settled_max: float = 10, wait_s: float = 60) -> Quantity:
    return Quantity(
        name="ports_resting",
        words="{}",
        settled_max=settled_max,
        wait_s=wait_s,
        read=lambda: next(values, None),
    )


def settle(
    measured: Quantity, host: Settling | None = None, *, is_over: bool = False
) -> tuple[HostState, list[str]]:
    news: list[str] = []
    state = (host or Settling()).settle(
        [measured], lambda seconds: is_over, lambda left_s, why: news.append(why)
    )
    return state, news


def test_a_host_that_is_at_rest_is_not_waited_for() -> None:
    state, news = settle(quantity(iter([10.0])))
    assert (state["waited_ns"], news) == (0, [])
    assert state["residues"] == [
        {
            "quantity": "ports_resting", "before_wait": 10.0, "before_load": 10.0,
            "settled_max": 10,
        }
    ]  # fmt: skip


def test_a_residue_is_waited_for_until_it_is_gone() -> None:
    state, news = settle(quantity(iter([900.0, 500.0, 9.0, 800.0])))
    (residue,) = state["residues"]
    assert (residue["before_wait"], residue["before_load"]) == (900, 9)
    assert state["waited_ns"] > 0
    assert set(news) == {"900"}


def test_permanent_residue_is_awaited_once_and_within_a_bound() -> None:
    host = Settling()
    for is_first in (True, False):
        state, news = settle(quantity(iter(lambda: 900.0, None), wait_s=0.05), host)
        assert state["residues"][0]["before_load"] == 900
        assert bool(news) is (state["waited_ns"] > 0) is is_first


def test_a_run_that_is_to_stop_does_not_wait() -> None:
    state, _ = settle(quantity(iter(lambda: 900.0, None)), is_over=True)
    assert state["residues"][0]["before_load"] == 900


def test_facts_that_a_host_does_not_report_are_left_out() -> None:
    assert settle(quantity(iter([])))[0]["residues"] == []


def trial(connections: str, requests: int | None, clients: int = 100) -> TrialDocument:
    return {
        "id": "0001",
        "target": {
            "name": "a", "driver": "s3", "settings": {"endpoints": ["http://127.0.0.1:9000"]},
        },
        "load": {"kind": "closed", "clients": clients},
        "stop": {"requests": requests, "duration_ns": None},
        "connections": connections,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("connections", "requests", "free"),
    [
        ("keep_alive", 1_000_000, 4900),
        ("per_request", 3000, 2000),
        ("per_request", 1_000_000, 500),
        ("per_request", None, 500),
    ],
)
def test_a_trial_waits_for_the_ports_that_it_needs(
    connections: str, requests: int | None, free: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settling, "read_limits", lambda: PORTS)
    ports = next(
        awaited
        for awaited in Settling().quantities_of(trial(connections, requests))
        if awaited.name == "ports_resting"
    )
    assert ports.settled_max == free


@pytest.mark.parametrize(("orphans", "is_looked_at"), [(16, False), (17, True)])
def test_connections_are_looked_at_only_where_some_may_be_closing(
    orphans: int, is_looked_at: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    closing = sockets.Connection(1, ("127.0.0.1", 9000), "05", 30.0)
    looks: list[int] = []

    def connections() -> list[sockets.Connection]:
        looks.append(1)
        return [closing] * 3

    monkeypatch.setattr(settling, "_held", lambda: {"tw": 0, "orphan": orphans})
    monkeypatch.setattr(settling.sockets, "connections", connections)
    _, quantity = Settling().quantities_of(trial("keep_alive", None))
    assert (quantity.read(), bool(looks)) == ((3, True) if is_looked_at else (0, False))


@pytest.mark.parametrize("time_wait", [500, 501])
def test_names_are_looked_up_only_where_ports_rest(
    time_wait: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def look_up(*words: object, **_: object) -> list[object]:
        asked.append(words)
        return []

    rests = sockets.Connection(1, ("10.0.0.1", 9000), sockets.TIME_WAIT, 30.0)
    monkeypatch.setattr(settling, "read_limits", lambda: PORTS)
    monkeypatch.setattr(settling.socket, "getaddrinfo", look_up)
    monkeypatch.setattr(settling, "_held", lambda: {"tw": time_wait, "orphan": 0})
    monkeypatch.setattr(settling.sockets, "connections", lambda: [rests] * 3)
    ports, _ = Settling().quantities_of(trial("per_request", None))
    assert (ports.read(), len(asked)) == ((500, 0) if time_wait == 500 else (3, 1))


def test_only_what_the_run_itself_wrote_can_be_dirty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = {"total_bytes": 1 << 30, "dirty_bytes": 3e9, "writeback_bytes": 1e9}
    monkeypatch.setattr(settling, "_memory", lambda: pages)
    document: TrialDocument = {
        "target": {"name": "a", "driver": "file", "settings": {"path": str(tmp_path)}},
        "mix": [{"operation": "put", "weight": 1.0}],
    }
    host = Settling()

    def dirty() -> float | None:
        (quantity,) = host.quantities_of(document)
        assert quantity.settled_max == 64 << 20
        return quantity.read()

    assert dirty() == 0
    host.note(document, {"bytes": 500})
    host.note({**document, "mix": [{"operation": "get", "weight": 1.0}]}, {"bytes": 7000})
    assert dirty() == 500, "what is only read was not written"
    host.settle(host.quantities_of(document), lambda _: False, lambda *_: None)
    assert dirty() == 500, "until it was seen to be gone"
    pages |= {"dirty_bytes": 0.0, "writeback_bytes": 0.0}
    host.settle(host.quantities_of(document), lambda _: False, lambda *_: None)
    pages |= {"dirty_bytes": 3e9, "writeback_bytes": 1e9}
    assert dirty() == 0
    host.note(document, {"bytes": 10**12})
    assert dirty() == 4e9


def test_a_port_rests_after_a_connection_that_was_closed_here() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        with socket.create_connection(address) as client:
            accepted, _ = server.accept()
            port = client.getsockname()[1]
            assert [
                connection.state for connection in sockets.connections() if connection.port == port
            ] == ["01"]
        accepted.close()
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            of_port = [
                connection for connection in sockets.connections() if connection.port == port
            ]
            if [connection.state for connection in of_port] == [sockets.TIME_WAIT]:
                break
            time.sleep(0.01)
    (connection,) = of_port
    assert connection.remote == address
    assert sockets.TIME_WAIT_S - 15 < connection.timer_s <= sockets.TIME_WAIT_S


IN_NAMESPACE = """
import socket
from pathlib import Path
from loadstone.execution.host.settling import Settling

Path("/proc/sys/net/ipv4/ip_local_port_range").write_text("20000 20199")
Path("/proc/sys/net/ipv4/tcp_tw_reuse").write_text({reuse!r})
document = {document!r}
ports = next(one for one in Settling().quantities_of(document) if one.name == "ports_resting")
print(ports.settled_max, ports.read())
for address in ("127.0.0.1", "127.0.0.2"):
    with socket.create_server((address, 9000)) as server:
        for _ in range(80):
            client = socket.create_connection((address, 9000))
            accepted, _ = server.accept()
            client.close()
            accepted.recv(1)
            accepted.close()
print(ports.settled_max, ports.read())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="a network namespace needs root")
def test_ports_that_rest_after_connections_to_others_are_free() -> None:
    script = IN_NAMESPACE.format(document=trial("per_request", None), reuse="0")
    done = subprocess.run(
        ["unshare", "--net", "sh", "-c", f'ip link set lo up && exec "{sys.executable}" -'],
        input=script,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "unshare" in done.stderr or "ip:" in done.stderr:
        pytest.skip(f"no network namespaces here: {done.stderr.strip()}")
    assert done.stderr == ""
    assert [tuple(map(float, line.split())) for line in done.stdout.splitlines()] == [
        (10, 0), (10, 80),
    ]  # fmt: skip


def test_the_newest_reading_of_the_busiest_disk_counts() -> None:
    exporters = Exporters([])
    assert disk_queue(exporters.disk_requests).read() is None
    for values in ((9.0, 1.0), (4.0, 0.0)):
        rows = [
            (0, "osd1", "prometheus:osd", f'device="{name}"', "node_disk_io_now", value)
            for name, value in zip(("sda", "sdb"), values, strict=True)
        ]
        columns = [list(column) for column in zip(*rows, strict=True)]
        exporters.keep(PROBE_SCHEMA.of_columns(columns))
    assert exporters.disk_requests() == 4.0


def test_a_plan_says_how_long_a_trial_waits_at_most() -> None:
    document = trial("keep_alive", 1)
    assert settling.wait_max_s(document, is_target_watched=False) == 75
    assert settling.wait_max_s(document, is_target_watched=True) == 105


def test_a_reading_under_load_is_waited_past_and_never_kept() -> None:
    probe = PrometheusProbe.model_validate(
        {"name": "osd", "urls": "http://127.0.0.1:1/metrics", "metrics": ["node_*"], "every": "1s"}
    )
    now_ns = time.time_ns()

    def reading(value: float, read_ns: int, every_s: int = 1) -> Exporters:
        exporters = Exporters([probe.model_copy(update={"every_ns": every_s * 10**9})])
        row = (read_ns, "osd1", "prometheus:osd", 'device="sda"', "node_disk_io_now", value)
        exporters.keep(PROBE_SCHEMA.of_columns([[value] for value in row]))
        return exporters

    half_s = 500_000_000
    assert reading(9.0, now_ns).disk_requests(now_ns - half_s) == 9.0
    # From before the load's end: a newer one is due soon, or the target is not asked.
    assert reading(9.0, now_ns - half_s).disk_requests(now_ns) is None
    assert reading(9.0, now_ns - half_s).disk_requests_due() == 9.0
    assert reading(9.0, now_ns - half_s, every_s=30).disk_requests_due() is None
    assert reading(9.0, now_ns - 10 * half_s).disk_requests_due() is None


def test_readings_under_load_unsettle_no_trial() -> None:
    # An exporter that falls silent leaves nothing behind.
    expected = iter([9.0, 9.0, 9.0])
    silent = disk_queue(lambda: None, lambda: next(expected, None))
    state, news = settle(silent)
    assert (state["residues"], bool(news)) == ([], True)
    # A quantity that did not settle before, and was last read under load, does not count either.
    host = Settling()
    settle(replace(disk_queue(lambda: 9.0), wait_s=0.0), host)
    state, news = settle(disk_queue(lambda: None, lambda: 9.0), host)
    assert (state["residues"], news) == ([], [])
    (residue,) = settle(disk_queue(lambda: 9.0), host)[0]["residues"]
    assert residue["before_load"] == 9.0


def test_a_trial_that_began_unsettled_is_labelled_and_proves_no_step() -> None:
    state = settle(quantity(iter(lambda: 900.0, None), wait_s=0.0))[0]
    for summary in (
        {"host_state": state},
        {"hosts": [{"name": "b", "state": "finished", "host_state": state}]},
    ):
        assert "UNSETTLED" in label_trial(Record(trial=trial("keep_alive", 1), summary=summary))
    assert "UNSETTLED" not in label_trial(
        Record(
            trial=trial("keep_alive", 1), summary={"host_state": settle(quantity(iter([1.0])))[0]}
        )
    )
    settled, slow = LoadPoint(load=8, rate=1000.0), LoadPoint(load=4, rate=250.0, is_settled=False)
    assert not LoadStep(low=slow, high=settled).is_rise
    assert not LoadStep(low=settled, high=slow).is_fall
    assert not LoadStep(low=settled, high=slow).is_flat
