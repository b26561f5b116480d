"""Invitations and certificates: who gets in, and the modules that an agent imports."""

import asyncio
import ssl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loadstone.errors import InputError
from loadstone.hosts import agent, carrier, messages
from loadstone.hosts.carrier import Authority, Carrier
from loadstone.hosts.invitation import Invitation, read_invitation, write_invitation
from loadstone.hosts.stream import (
    ITEMS_MAX,
    Identity,
    context_of_controller,
    context_of_host,
    join,
    pack,
    unpack,
)
from loadstone.steady_clock import SteadyClock


def invitation(**values: str) -> Invitation:
    known: dict[str, Any] = {
        "controller": "10.0.0.1:7000", "host": "client1", "run": "0" * 32,
        "lease_s": 10.0, "is_alone": True, "is_only": True,
        "authority": "A", "certificate": "C", "key": "SECRET",
    }  # fmt: skip
    from loadstone import __version__

    return Invitation(**{"loadstone": __version__, **known, **values})


def test_an_invitation_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "client1.invitation"
    write_invitation(path, invitation())
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_invitation(str(path)) == invitation()
    path.chmod(0o644)
    with pytest.raises(InputError, match="may read"):
        read_invitation(str(path))
    assert "SECRET" not in repr(invitation())


def test_another_version_is_named_on_both_sides(tmp_path: Path) -> None:
    path = tmp_path / "client1.invitation"
    write_invitation(path, invitation(loadstone="0.0.1"))
    with pytest.raises(InputError, match=r"0\.0\.1.*client1"):
        read_invitation(str(path))


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "[" * 60_000, '{"format": 7}', '{"format": 1, "loadstone": 1}',
        invitation().text().replace("10.0", '"soon"'),
        invitation().text().replace('"run"', '"ran"'),
    ],
)  # fmt: skip
def test_an_invalid_invitation_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(InputError):
        read_invitation(str(path))


OURS, OTHERS = Authority("a" * 32), Authority("b" * 32)


@pytest.mark.parametrize(
    ("controller", "host", "is_right"),
    [
        (OURS.issue_controller("127.0.0.1"), OURS.issue_host("a"), True),
        (OURS.issue_controller("127.0.0.1"), OTHERS.issue_host("a"), False),
        (OTHERS.issue_controller("127.0.0.1"), OURS.issue_host("a"), False),
        # No host can pose as the controller.
        (OURS.issue_host("b"), OURS.issue_host("a"), False),
        (OURS.issue_controller("127.0.0.2"), OURS.issue_host("a"), False),
        (OURS.issue_controller("127.0.0.1"), OURS.issue_controller("127.0.0.1"), False),
    ],
)
def test_a_certificate_is_good_for_one_run_and_one_side(
    controller: Identity, host: Identity, is_right: bool
) -> None:
    """Shake hands in memory."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context_of_controller(OURS.certificate, controller)
    client = context_of_host(OURS.certificate, host)
    sides = [
        server.wrap_bio(to_server, to_client, server_side=True),
        client.wrap_bio(to_client, to_server, server_hostname="127.0.0.1"),
    ]
    refused = []
    for _ in range(6):
        for side in sides:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError as error:
                refused.append(error)
    assert (not refused) is is_right, refused


def test_dask_starts_no_program_that_would_inherit_secrets() -> None:
    """Dask describes its host to a scheduler; an audit hook sees each program."""
    code = (
        "import sys; started = []\n"
        "sys.addaudithook(lambda name, what: started.append(what[1])"
        " if name == 'subprocess.Popen' else None)\n"
        "from loadstone.hosts.launchers.dask_workers import import_dask\n"
        "versions = import_dask('distributed.versions', 'dask')\n"
        "assert versions.get_versions()['host']; print(started)"
    )
    finished = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert finished.stdout == "[]\n"


def test_an_agent_loads_nothing_that_only_a_controller_needs() -> None:
    code = (
        "import sys, loadstone.cli.commands.load.agent, loadstone.hosts.agent as agent\n"
        "agent.describe_host()\n"
        "unneeded = ('cryptography', 'dask', 'loadstone.campaign.planning')\n"
        "print([name for name in unneeded if name in sys.modules])"
    )
    finished = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert finished.stdout == "[]\n"


def test_a_connection_that_died_makes_room_for_another_agent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(carrier, "RENEW_S", 0.05)
    monkeypatch.setattr(carrier, "LEASE_S", 0.5)
    hello = agent.describe_host()

    async def run(listening: Carrier) -> None:
        invitation = listening.invite("a", is_alone=False)
        # It says nothing more, as where a link was cut.
        silent = await join(invitation, SteadyClock())
        silent.send(messages.word(messages.Hello), messages.body(hello))
        while not listening.hosts:
            await asyncio.sleep(0.01)
        while listening.hosts:
            await asyncio.sleep(0.01)
        (await join(invitation, SteadyClock())).abort()
        silent.abort()

    with Carrier("a" * 32, "127.0.0.1") as listening:
        asyncio.run(run(listening))
        assert [message.name for message in list(listening.inbox.queue)] == ["hello", "gone"]


def test_a_host_that_floods_the_controller_affects_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(carrier, "UNHEARD_BYTES_MAX", 1 << 20)
    monkeypatch.setattr(carrier, "RENEW_S", 0.05)
    monkeypatch.setattr(carrier, "LEASE_S", 1.0)
    hello = agent.describe_host()
    piece, pieces = b"x" * 100_000, 400

    async def run(listening: Carrier) -> None:
        flood = await join(listening.invite("flood", is_alone=False), SteadyClock())
        flood.send(messages.word(messages.Hello), messages.body(hello))
        for number in range(pieces):
            flood.send("figures", {"number": number, "rows": piece})
        while listening.inbox.bytes_of["flood"] <= 1 << 20:
            await asyncio.sleep(0.01)
        # Longer than a connection may be silent: this one is not, it waits.
        await asyncio.sleep(1.5)
        assert listening.inbox.bytes_of["flood"] < (1 << 20) + 2 * len(piece)
        other = await join(listening.invite("other", is_alone=False), SteadyClock())
        other.send(messages.word(messages.Hello), messages.body(hello))
        while "other" not in listening.hosts:
            await asyncio.sleep(0.01)
        assert listening.hosts == {"flood", "other"}
        numbers = []
        while len(numbers) < pieces:
            if listening.inbox.empty():
                await asyncio.sleep(0.01)
                continue
            received = listening.inbox.get()
            numbers += [received.body["number"]] if received.name == "figures" else []
        assert numbers == list(range(pieces))
        flood.abort()
        other.abort()

    with Carrier("a" * 32, "127.0.0.1") as listening:
        asyncio.run(run(listening))


TOO_MANY_ITEMS: dict[str, Callable[[], object]] = {
    "list": lambda: [{}] * (ITEMS_MAX + 1),
    "lists": lambda: [[{}] * 1000] * (ITEMS_MAX // 1000),
    "map": lambda: {str(number): number for number in range(ITEMS_MAX + 1)},
}
"""Each made by its test: they take long, and memory of each process that collects this file."""


@pytest.mark.parametrize("shape", TOO_MANY_ITEMS)
def test_a_message_of_too_many_items_is_none(shape: str) -> None:
    message = pack("figures", {"attempt": TOO_MANY_ITEMS[shape]()})
    with pytest.raises(ValueError, match=r"max_|items"):  # others' words
        unpack(message)
