"""A stolen invitation gives the rights of its host, and no others."""

import asyncio
import contextlib
import datetime
import importlib
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_args

import msgpack
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from loadstone._loadgen import Table
from loadstone.errors import HostError
from loadstone.hosts import agent, messages
from loadstone.hosts.carrier import Authority, Carrier
from loadstone.hosts.invitation import Invitation, parse_invitation
from loadstone.hosts.stream import (
    MESSAGE_BYTES_MAX,
    Identity,
    MessageStream,
    context_of_controller,
    context_of_host,
    join,
    pack,
    unpack,
)
from loadstone.results.record import INTERVAL_SCHEMA, PROBE_SCHEMA
from loadstone.results.store import read_run
from loadstone.steady_clock import SteadyClock
from tests.system import campaigns
from tests.system.command import start
from tests.system.hostile_messages import (
    Runs,
    hostile_messages,
    hostile_messages_that_are_messages,
)

RUN = "a" * 32
WAIT_S = 120.0
CANARY = "canary-invitations-91c2f0d7"
WATCHED = (
    "pickle.find_class", "marshal.loads", "os.system", "os.exec", "os.fork", "os.posix_spawn",
    "subprocess.Popen", "ctypes.dlopen", "code.__new__", "exec", "compile",
)  # fmt: skip
"""Audit events of what would be run, or made from bytes."""

_events: list[str] | None = None


def _audit(event: str, _: object) -> None:
    if _events is not None and event in WATCHED:
        _events.append(event)


sys.addaudithook(_audit)


@contextlib.contextmanager
def nothing_is_run(canary: Path) -> Iterator[None]:
    """Fail if this process runs or unpickles anything meanwhile."""
    global _events
    _events = []
    try:
        yield
        assert not _events
    finally:
        _events = None
    assert not canary.exists()


def plain(value: object) -> bool:
    """Tell whether a value is of the types that messages are made of."""
    if isinstance(value, dict):
        return all(map(plain, [*value, *value.values()]))
    if isinstance(value, list):
        return all(map(plain, value))
    return value is None or isinstance(value, (bool, int, float, str, bytes, Table))


@pytest.mark.parametrize(
    ("kinds", "read"),
    [(messages.FromAgent, messages.read), (messages.FromController, messages.read_asked)],
)
def test_no_message_is_more_than_plain_values(
    tmp_path: Path, kinds: Any, read: Callable[[str, object], Any]
) -> None:
    canary = tmp_path / "canary"
    hostile = [*hostile_messages(canary, kinds)]
    right = {messages.word(kind) for kind in get_args(kinds)}
    refused = 0
    # The first check of a message imports this, which runs code, but none of theirs.
    importlib.import_module("pydantic.dataclasses")
    with nothing_is_run(canary):
        for packed in hostile:
            try:
                name, body = unpack(packed)
                message = read(name, body)
            except ValueError:
                refused += 1
                continue
            assert type(message) in get_args(kinds)
            assert name in right
            for field in fields(message):
                assert plain(getattr(message, field.name)), (name, field.name)
    # A text is a text, whatever it says: some of them may stand where any may.
    assert refused > 0.9 * len(hostile)


async def connect(invitation: Invitation) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect as a host would, and say nothing."""
    identity = Identity(certificate=invitation.certificate, key=invitation.key)
    host, _, port = invitation.controller.rpartition(":")
    context = context_of_host(invitation.authority, identity)
    return await asyncio.open_connection(host, int(port), ssl=context)


def framed(packed: bytes) -> bytes:
    return len(packed).to_bytes(4, "big") + packed


async def say(stream: MessageStream, message: messages.FromAgent) -> None:
    stream.send(messages.word(type(message)), messages.body(message))
    await asyncio.sleep(0)


async def attack(invitation: Invitation, data: bytes) -> list[str]:
    """Join, send bytes, and return the names of what comes back until the connection ends."""
    heard = []
    with contextlib.suppress(EOFError, OSError):
        reader, writer = await connect(invitation)
        stream = MessageStream(reader, writer)
        await say(stream, agent.describe_host())
        writer.write(data)
        async with asyncio.timeout(WAIT_S):
            while True:
                heard.append((await stream.receive())[0])
    return heard


def test_an_invalid_message_ends_only_its_connection(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    broken = [
        framed(b""), framed(b"\xc1"), framed(pickle.dumps(Runs(f"touch {canary}"))),
        (MESSAGE_BYTES_MAX + 1).to_bytes(4, "big"), b"\xff" * 4,
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x91" * 5000,
    ]  # fmt: skip

    async def run(listening: Carrier) -> None:
        good = await join(listening.invite("good", is_alone=False), SteadyClock())
        await say(good, agent.describe_host())
        bad = listening.invite("bad", is_alone=False)
        for data in broken:
            assert set(await attack(bad, data)) <= {"welcome", "renew"}
            await say(good, messages.Alive())
        await dask_is_refused(bad)
        # And in one that stays: all of it is refused by who reads it.
        reader, writer = await connect(bad)
        await say(MessageStream(reader, writer), agent.describe_host())
        writer.write(b"".join(map(framed, hostile_messages_that_are_messages(canary))))
        await writer.drain()
        while listening.hosts != {"good", "bad"}:
            await asyncio.sleep(0.01)
        writer.transport.abort()
        # The other host is there as ever, and heard nothing of it.
        listening.ask(["good"], messages.Go(at_unix_ns=7))
        names = [(await good.receive())[0]]
        while names[-1] != "go":
            names.append((await good.receive())[0])
        assert set(names) <= {"renew", "go"}
        good.abort()

    with Carrier(RUN, "127.0.0.1") as listening:
        agent.describe_host()
        asyncio.run(run(listening))
        hosts = {message.host for message in list(listening.inbox.queue)}
        assert hosts == {"good", "bad"}
    assert not canary.exists()


async def dask_is_refused(invitation: Invitation) -> None:
    """Connect as dask does, with the certificate of the invitation."""
    distributed = pytest.importorskip("distributed")
    security = distributed.Security(
        require_encryption=True, tls_ca_file=invitation.authority,
        tls_client_cert=invitation.certificate, tls_client_key=invitation.key,
    )  # fmt: skip
    # It takes our first message for a length.
    with pytest.raises((OSError, MemoryError)):
        await distributed.comm.connect(
            f"tls://{invitation.controller}", timeout=1, **security.get_connection_args("client")
        )


def test_an_invitation_is_valid_for_its_own_host_only() -> None:
    """It tries a self-made certificate, a second connection, and to pose as the controller."""

    async def run(listening: Carrier) -> None:
        first = listening.invite("first", is_alone=False)
        second = listening.invite("second", is_alone=False)
        there = await join(first, SteadyClock())
        await say(there, agent.describe_host())
        # While a host is there, nobody else is that host.
        with pytest.raises(HostError) as caught:
            await join(first, SteadyClock())
        assert caught.value.kind == "host-in-use"
        for forged in (signed_by_a_host(second, "first"), signed_by_itself(second, "first")):
            with pytest.raises(HostError) as caught:
                await join(forged, SteadyClock())
            assert caught.value.kind == "certificates"
        assert listening.hosts == {"first"}
        there.abort()

        taken: list[str] = []

        async def pose(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            taken.append((await MessageStream(reader, writer).receive())[0])

        identity = Identity(certificate=second.certificate, key=second.key)
        context = context_of_controller(second.authority, identity)
        async with await asyncio.start_server(pose, "127.0.0.1", 0, ssl=context) as server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(HostError) as caught:
                await agent.serve(
                    replace(first, controller=f"127.0.0.1:{port}"), until_input_ends=False
                )
        assert caught.value.kind == "certificates"
        assert not taken

    with Carrier(RUN, "127.0.0.1") as listening:
        asyncio.run(run(listening))


def signed_by_a_host(invitation: Invitation, name: str) -> Invitation:
    """Return an invitation for another host, signed with the key of this one."""
    issuer = x509.load_pem_x509_certificate(invitation.certificate.encode())
    key = serialization.load_pem_private_key(invitation.key.encode(), None)
    return forged(invitation, name, issuer.subject, key, chain=invitation.certificate)


def signed_by_itself(invitation: Invitation, name: str) -> Invitation:
    """Return an invitation for another host by an authority that has the right name."""
    authority = x509.load_pem_x509_certificate(invitation.authority.encode())
    return forged(invitation, name, authority.subject, ec.generate_private_key(ec.SECP256R1()))


def forged(
    invitation: Invitation, name: str, issuer: x509.Name, issuing_key: Any, chain: str = ""
) -> Invitation:
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(issuing_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    return replace(
        invitation,
        certificate=certificate.public_bytes(pem).decode() + chain,
        key=key.private_bytes(
            pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode(),
    )


def test_an_agent_ignores_everything_but_messages_of_the_controller(tmp_path: Path) -> None:
    """Even to a controller with the right certificate: the agent leaves, and runs nothing."""
    canary = tmp_path / "canary"
    authority = Authority(RUN)
    packed = pickle.dumps(Runs(f"touch {canary}"))
    attacks = [
        pack("run_function", {"function": packed}), pack("trial", {"trial": packed}),
        pack("figures", {"attempt": 1, "rows": None, "live": "{}"}), packed, b"",
        pack("trial", {"attempt": 1, "trial": "{}", "secrets": packed}),
        msgpack.packb(("leave", msgpack.ExtType(1, packed))),
    ]  # fmt: skip

    async def send_attack(attack: bytes) -> str:
        async def tell(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            stream = MessageStream(reader, writer)
            welcome = messages.Welcome(unix_ns=time.time_ns())
            stream.send(messages.word(messages.Welcome), messages.body(welcome))
            writer.write(framed(attack))
            with contextlib.suppress(EOFError, OSError):
                while True:
                    await stream.receive()

        identity = authority.issue_controller("127.0.0.1")
        context = context_of_controller(authority.certificate, identity)
        host = authority.issue_host("a")
        async with await asyncio.start_server(tell, "127.0.0.1", 0, ssl=context) as server:
            port = server.sockets[0].getsockname()[1]
            invitation = Invitation(
                controller=f"127.0.0.1:{port}", host="a", run=RUN, loadstone="0", lease_s=10.0,
                is_alone=False, is_only=False, authority=authority.certificate,
                certificate=host.certificate, key=host.key,
            )  # fmt: skip
            return await agent.serve(invitation, until_input_ends=False)

    agent.describe_host()
    for data in attacks:
        assert agent.INVALID_MESSAGE in asyncio.run(send_attack(data))
    assert not canary.exists()


class Impostor:
    """A host that prepares well, and attacks in each measured trial, each time in another way."""

    def __init__(self, invitation: Invitation, canary: Path) -> None:
        self.names: set[str] = set()
        self.bytes = b""
        self._invitation = invitation
        hostile = hostile_messages_that_are_messages(canary)
        interval = INTERVAL_SCHEMA.of_rows(
            [{**dict.fromkeys(INTERVAL_SCHEMA.names), "agent": "good", "requests": 10**9}]
        )
        reading = PROBE_SCHEMA.of_rows([{**dict.fromkeys(PROBE_SCHEMA.names), "host": "good"}])
        self._attacks = [
            lambda attempt: [
                pack("figures", {"attempt": attempt, "rows": interval.pack(), "live": "{}"})
            ],
            lambda attempt: [pack("probes", {"attempt": attempt, "rows": reading.pack()})],
            lambda attempt: hostile,
        ]

    async def run(self) -> None:
        """Join again and again until the controller is gone."""
        with contextlib.suppress(OSError):
            while True:
                reader, writer = await connect(self._invitation)
                with contextlib.suppress(EOFError, OSError):
                    await self._take_part(reader, writer)
                writer.transport.abort()

    async def _take_part(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        stream, clock = MessageStream(reader, writer), SteadyClock()
        await say(stream, agent.describe_host())
        attempt, is_measured = 0, False
        while True:
            packed = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
            self.bytes += packed
            name, body = unpack(packed)
            self.names.add(name)
            await say(stream, messages.Alive())
            match messages.read_asked(name, body):
                case messages.Trial() as trial:
                    attempt, is_measured = trial.attempt, '"measured": true' in trial.trial
                    await say(stream, messages.Ready(attempt=attempt))
                case messages.ReadClock(question=question):
                    await say(
                        stream,
                        messages.ClockReading(question=question, host_ns=clock.unix_ns()),
                    )
                case messages.Go() if is_measured and self._attacks:
                    for message in self._attacks.pop(0)(attempt):
                        writer.write(framed(message))
                case messages.Go() | messages.StopLoad():
                    await say(stream, nothing_done(attempt))


def nothing_done(attempt: int) -> messages.End:
    summary: Any = {
        "state": "finished", "reason": None, "requests": 0, "failed": 0, "bytes": 0,
        "ended_unix_ns": time.time_ns(), "iterations": [],
    }  # fmt: skip
    return messages.End(
        attempt=attempt, summary=summary, left=None, clock_step_ns=0, absent_probes={}
    )


def test_a_run_goes_on_beside_a_host_that_attacks_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOADSTONE_TEST_CANARY", CANARY)
    file = campaigns.write(
        tmp_path,
        """\
name: attacked
targets: {t: {driver: "null"}}
hosts: {launch: join, names: [good, bad], listen: 127.0.0.1}
dataset: {objects: 100, size: 4KiB}
load: {rate: 100/s, clients_max: 20, cores: 1}
rounds: 3
phases: [{op: get, duration: 2s}]
""",
    )
    process = start("run", file, "-o", tmp_path / "run")
    campaigns.wait_for(process, "bad.invitation")
    (folder,) = tmp_path.glob("invitations-*")
    good = subprocess.Popen(
        [sys.executable, "-m", "loadstone", "agent", "--join", folder / "good.invitation"],
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")},
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    invitation = parse_invitation((folder / "bad.invitation").read_text(), "bad")
    impostor = Impostor(invitation, tmp_path / "canary")

    async def attack() -> list[str]:
        attacking = asyncio.create_task(impostor.run())
        await asyncio.to_thread(campaigns.wait_for, process, "%")
        sockets = listening_of(good.pid)
        await attacking
        return sockets

    try:
        assert asyncio.run(attack()) == []
        _, err = campaigns.end(process)
        assert good.wait(WAIT_S) == 0
    finally:
        for process_left in (process, good):
            if process_left.poll() is None:
                process_left.kill()
                process_left.wait()
    assert process.returncode == 0, err
    measured = [record for record in read_run(tmp_path / "run").records if record.trial["measured"]]
    assert len(measured) == 3
    for record in measured:
        states = {host["name"]: host["state"] for host in record.summary["hosts"]}
        assert states == {"good": "finished", "bad": "lost"}
        rows = record.read_intervals(["agent", "requests"]).to_pylist()
        assert {row["agent"] for row in rows} == {"good"}
        assert sum(row["requests"] for row in rows) == record.summary["requests"] < 10**6
    assert impostor.names <= {messages.word(kind) for kind in get_args(messages.FromController)}
    assert b'"agent": "good"' not in impostor.bytes
    assert CANARY.encode() not in impostor.bytes
    assert not (tmp_path / "canary").exists()


def listening_of(process: int) -> list[str]:
    """Return the TCP addresses that a process listens on, as the kernel writes them."""
    links = [os.readlink(path) for path in Path(f"/proc/{process}/fd").iterdir()]
    lines = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/{process}/net/{table}").read_text().splitlines()[1:]
    ]
    return [line[1] for line in lines if line[3] == "0A" and f"socket:[{line[9]}]" in links]
