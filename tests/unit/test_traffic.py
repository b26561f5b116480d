"""Bytes that an engine receives are counted whole, also on connections that no reading sees."""

import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from loadstone.engines import traffic
from loadstone.engines.traffic import Route, received_by

SIZE = 100_000
SERVER = f"""
import socket
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    while True:
        client, _ = server.accept()
        with client:
            client.sendall(bytes({SIZE}))
"""


@pytest.fixture
def port() -> Iterator[int]:
    """A server in a session of its own, which sends so much to each connection."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as server:
        assert server.stdout is not None
        yield int(server.stdout.readline())
        server.kill()


@pytest.fixture
def port_of_nobody() -> Iterator[int]:
    """A port without a listener, reserved so that no other program gets it."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield int(bound.getsockname()[1])


def take(port: int) -> None:
    """Receive all, and close."""
    with socket.create_connection(("127.0.0.1", port)) as client:
        left = SIZE
        while left:
            left -= len(client.recv(left))


def in_new_session(count: Callable[..., int], *arguments: int) -> int:
    """Count in a session without the connections of other tests.

    An engine with processes has a session of its own too, and all its connections count.
    """
    with ProcessPoolExecutor(1, get_context("spawn"), initializer=os.setsid) as pool:
        return pool.submit(count, *arguments).result()


def count_of_20(has_processes: bool, port: int) -> int:
    with received_by(has_processes, Route(endpoint=f"http://127.0.0.1:{port}")) as received:
        for _ in range(20):
            take(port)
    return received[0]


@pytest.mark.parametrize("has_processes", [False, True])
def test_connections_that_end_between_two_looks_count(port: int, has_processes: bool) -> None:
    received = in_new_session(count_of_20, has_processes, port)
    # The end of each connection counts as a byte.
    assert 20 * SIZE <= received <= 20 * (SIZE + 1)


def test_a_connection_that_stays_counts_what_it_received_meanwhile(port: int) -> None:
    with socket.create_connection(("localhost", port)) as client:
        assert client.recv(SIZE, socket.MSG_WAITALL)
        with received_by(False, Route(endpoint=f"http://localhost:{port}")) as received:
            take(port)
    assert SIZE <= received[0] <= SIZE + 2


def test_without_exit_records_the_last_reading_counts(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that is open for longer than between two looks, and gone at the end."""
    monkeypatch.setattr(traffic._Ends, "__enter__", lambda self: self)
    with (
        received_by(False, Route(endpoint=f"http://127.0.0.1:{port}")) as received,
        socket.create_connection(("127.0.0.1", port)) as client,
    ):
        assert client.recv(SIZE, socket.MSG_WAITALL)
        time.sleep(0.5)
    assert SIZE <= received[0] <= SIZE + 1


@pytest.mark.parametrize("endpoint", [None, "http://127.0.0.1:9"])
def test_nothing_is_looked_at_while_a_query_runs(
    endpoint: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looks every 20 ms cost 13 ms of each second of a query."""
    looks = []
    monkeypatch.setattr(traffic, "_of_process", lambda: looks.append(1) or {})
    with received_by(False, Route(endpoint=endpoint)):
        time.sleep(0.5)
    assert len(looks) == 2


def test_the_kernel_tells_of_ends_at_the_endpoints_port_alone(
    port: int, port_of_nobody: int
) -> None:
    """Others would wake this process for each connection of any program."""
    with traffic._Ends(f"http://127.0.0.1:{port_of_nobody}") as ends:
        take(port)
        assert not select.select([ends._kernel], [], [], 0.2)[0]
    with traffic._Ends(f"http://127.0.0.1:{port}") as ends:
        take(port)
        assert select.select([ends._kernel], [], [], 60)[0]


def count_of_others(port: int, endpoint_port: int) -> int:
    other = f"import socket; socket.create_connection(('127.0.0.1', {port})).recv({SIZE}, 0x100)"
    with received_by(True, Route(endpoint=f"http://127.0.0.1:{endpoint_port}")) as received:
        subprocess.run([sys.executable, "-c", other], check=True, start_new_session=True)
    return received[0]


def test_other_programs_and_their_servers_do_not_count(port: int, port_of_nobody: int) -> None:
    assert in_new_session(count_of_others, port, port_of_nobody) == 0
