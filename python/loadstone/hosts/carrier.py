"""The controller's end of connections: accepts invited hosts, and exchanges messages with them.

A host can only send the messages in `messages.FromAgent`. Its identity comes from the certificate
of its connection, never from a message.
"""

import asyncio
import contextlib
import datetime
import hashlib
import ipaddress
import os
import queue
import ssl
import threading
from collections import Counter
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from loadstone import __version__
from loadstone.errors import HostError
from loadstone.hosts import clock, messages
from loadstone.hosts.invitation import Invitation
from loadstone.hosts.stream import (
    Identity,
    MessageStream,
    context_of_controller,
    join_address,
    split_address,
)
from loadstone.steady_clock import SteadyClock

LEASE_S = 10.0
"""How long in seconds an agent continues without a message from the controller, and the controller
keeps a silent connection; an agent sends a message every second.
"""

RENEW_S = 1.0
HANDSHAKE_S = 20.0
ANSWER_S = 5.0
START_S = 60.0
STOP_S = 10.0
LEAVE_S = 2.0
WAITING_MAX = 1024
"""Length of the accept queue: all agents of a run may connect at once."""

UNHEARD_BYTES_MAX = 16 << 20
"""Reading from a host pauses while it has this many bytes in the queue."""

MESSAGE_BYTES = 512
"""Memory overhead of a message, in bytes."""

LOOK_AGAIN_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class HostMessage:
    """A host's message: `name` is that of its class, or "gone" for a lost connection."""

    host: str
    name: str
    body: Mapping[str, Any]
    bytes: int = 0


class Inbox(queue.Queue[HostMessage]):
    """Messages not yet processed, with the number of queued bytes of each host."""

    def _init(self, maxsize: int) -> None:
        super()._init(maxsize)
        self.bytes_of: Counter[str] = Counter()

    def _put(self, item: HostMessage) -> None:
        super()._put(item)
        self.bytes_of[item.host] += item.bytes

    def _get(self) -> HostMessage:
        item: HostMessage = super()._get()
        self.bytes_of[item.host] -= item.bytes
        return item


@dataclass(slots=True)
class _Connection:
    """A host's connection, which takes part once its agent has said hello."""

    stream: MessageStream
    has_joined: bool = False
    silent_s: float = 0.0


class Carrier:
    """A listening socket and an event loop in its own thread. Methods are thread-safe."""

    def __init__(self, run: str, listen: str) -> None:
        """Listen on one address, "10.0.0.1" or "10.0.0.1:7000"; without a port on any free one."""
        self.inbox = Inbox()
        self.clock = SteadyClock()
        self._run = run
        self._host, self._port = split_address(listen)
        self._authority = Authority(run)
        self._invited: dict[bytes, str] = {}
        self._connections: dict[str, _Connection] = {}
        self._clock_answers: dict[tuple[str, int], asyncio.Future[int]] = {}
        self._question = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="carrier", daemon=True)
        self._tasks: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self._wait(self._open(), START_S)
        except OSError as error:
            self._end_loop()
            raise HostError(
                f"listen on {self.address}: {os.strerror(error.errno) if error.errno else error}",
                "hosts.listen names an address of this machine that the hosts reach",
            ) from error
        return self

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(TimeoutError):
            self._wait(self._close(), STOP_S)
        self._end_loop()

    @property
    def address(self) -> str:
        """The address that agents connect to."""
        return join_address(self._host, self._port)

    @property
    def hosts(self) -> frozenset[str]:
        """The hosts whose agents are connected."""
        connections = self._connections.copy()
        return frozenset(host for host, connection in connections.items() if connection.has_joined)

    def invite(self, host: str, *, is_alone: bool, is_only: bool = True) -> Invitation:
        """Return an invitation for a host, with its own certificate."""
        identity = self._authority.issue_host(host)
        self._invited[_digest(ssl.PEM_cert_to_DER_cert(identity.certificate))] = host
        return Invitation(
            controller=self.address, host=host, run=self._run, loadstone=__version__,
            lease_s=LEASE_S, is_alone=is_alone, is_only=is_only,
            authority=self._authority.certificate,
            certificate=identity.certificate, key=identity.key,
        )  # fmt: skip

    def ask(self, hosts: Iterable[str], asked: messages.FromController) -> None:
        """Send hosts a message; disconnected hosts are skipped."""
        names = tuple(hosts)
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._send, names, asked)

    def read_clocks(self, hosts: Iterable[str]) -> dict[str, clock.Clock]:
        """Return the clocks of hosts relative to the controller's, without hosts that do not
        answer.
        """
        clocks: dict[str, clock.Clock] = {}
        with contextlib.suppress(TimeoutError):
            clocks = self._wait(self._clocks(tuple(hosts)), ANSWER_S + STOP_S)
        return clocks

    def forget(self) -> None:
        """Discard the unprocessed messages, which belong to an earlier trial."""
        with contextlib.suppress(queue.Empty):
            while True:
                self.inbox.get_nowait()

    def drop(self, host: str) -> None:
        """Disconnect a host and ignore its further messages."""
        self._loop.call_soon_threadsafe(self._drop, host)

    # All functions below run in the loop's thread.

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(STOP_S)

    def _wait(self, work: Coroutine[Any, Any, Any], seconds: float) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(seconds)

    async def _open(self) -> None:
        identity = self._authority.issue_controller(self._host)
        self._server = await asyncio.start_server(
            self._accept, self._host, self._port, backlog=WAITING_MAX,
            ssl=context_of_controller(self._authority.certificate, identity),
            ssl_handshake_timeout=HANDSHAKE_S,
        )  # fmt: skip
        self._port = self._server.sockets[0].getsockname()[1]
        self._renewal = self._loop.create_task(self._renew())

    async def _close(self) -> None:
        self._server.close()
        self._renewal.cancel()
        self._send(tuple(self._connections), messages.Leave(reason=messages.RUN_OVER))
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=LEAVE_S)
        for connection in self._connections.values():
            connection.stream.abort()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=LEAVE_S)

    async def _renew(self) -> None:
        while True:
            for host, connection in list(self._connections.items()):
                # Silence is counted in rounds, because a stalled controller could not receive
                # messages.
                connection.silent_s += RENEW_S
                if connection.silent_s > LEASE_S:
                    self._drop(host)
            self._send(tuple(self._connections), messages.Renew())
            await asyncio.sleep(RENEW_S)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        stream = MessageStream(reader, writer)
        try:
            await self._admit(stream, writer.get_extra_info("ssl_object"))
        finally:
            stream.abort()
            self._tasks.discard(task)

    async def _admit(self, stream: MessageStream, tls: ssl.SSLObject) -> None:
        host = self._invited.get(_digest(tls.getpeercert(binary_form=True) or b""))
        if host is None:
            return
        if host in self._connections:
            _send(stream, messages.Leave(reason="another agent of this name has already joined"))
            await stream.close()
            return
        connection = self._connections[host] = _Connection(stream)
        _send(stream, messages.Welcome(unix_ns=self.clock.unix_ns()))
        try:
            while True:
                name, body = await stream.receive()
                # Messages that arrive after a disconnect are discarded.
                if self._connections.get(host) is not connection:
                    break
                connection.silent_s = 0.0
                size = stream.received_bytes + MESSAGE_BYTES
                self._handle(connection, HostMessage(host=host, name=name, body=body, bytes=size))
                while self.inbox.bytes_of[host] > UNHEARD_BYTES_MAX:
                    connection.silent_s = 0.0
                    await asyncio.sleep(LOOK_AGAIN_S)
        except (EOFError, OSError, ValueError):
            self._forget(host, connection)

    def _send(self, hosts: Iterable[str], asked: messages.FromController) -> None:
        for host in hosts:
            connection = self._connections.get(host)
            if connection is not None:
                _send(connection.stream, asked)

    def _handle(self, connection: _Connection, received: HostMessage) -> None:
        if received.name == messages.word(messages.ClockReading):
            # An invalid answer leaves its question open: the host's clock is then unknown.
            with contextlib.suppress(ValueError):
                self._take_clock(received.host, messages.read(received.name, received.body))
            return
        if received.name == messages.word(messages.Hello):
            connection.has_joined = True
        if connection.has_joined:
            self.inbox.put(received)

    def _take_clock(self, host: str, answer: messages.FromAgent) -> None:
        if isinstance(answer, messages.ClockReading):
            waiting = self._clock_answers.pop((host, answer.question), None)
            if waiting is not None and not waiting.done():
                waiting.set_result(answer.host_ns)

    def _forget(self, host: str, connection: _Connection) -> None:
        if self._connections.get(host) is connection:
            del self._connections[host]
            if connection.has_joined:
                self.inbox.put(HostMessage(host=host, name="gone", body={}))

    def _drop(self, host: str) -> None:
        connection = self._connections.get(host)
        if connection is not None:
            self._forget(host, connection)
            connection.stream.abort()

    async def _clocks(self, hosts: Iterable[str]) -> dict[str, clock.Clock]:
        async def read(host: str) -> tuple[str, clock.Clock | None]:
            # The time limit covers all questions together, so a slow host gets fewer.
            exchanges = []
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ANSWER_S):
                    for _ in range(clock.QUESTIONS):
                        exchanges.append(await self._exchange(host))
            return host, clock.estimate(exchanges) if exchanges else None

        clocks = await asyncio.gather(*(read(host) for host in hosts))
        return {host: estimate for host, estimate in clocks if estimate is not None}

    async def _exchange(self, host: str) -> clock.Exchange:
        self._question += 1
        number, answer = self._question, self._loop.create_future()
        self._clock_answers[host, number] = answer
        sent_ns = self.clock.unix_ns()
        self._send((host,), messages.ReadClock(question=number))
        host_ns = await answer
        return clock.Exchange(sent_ns=sent_ns, answered_ns=self.clock.unix_ns(), host_ns=host_ns)


def _digest(certificate: bytes) -> bytes:
    return hashlib.sha256(certificate).digest()


def _send(stream: MessageStream, asked: messages.FromController) -> None:
    stream.send(messages.word(type(asked)), messages.body(asked))


class Authority:
    """Issues the certificates of one run; its private key never leaves this object."""

    def __init__(self, run: str) -> None:
        """`run` is the run's identity, which the certificates carry."""
        self._run = run
        self._key = ec.generate_private_key(ec.SECP256R1())
        name = _name(f"loadstone run {run[:16]}", run)
        made = _certificate(name, name, self._key.public_key())
        made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        self._certificate = made.sign(self._key, hashes.SHA256())

    @property
    def certificate(self) -> str:
        """The authority's own certificate, by which both sides verify each other."""
        return self._certificate.public_bytes(serialization.Encoding.PEM).decode()

    def issue_host(self, name: str) -> Identity:
        """Return a new client identity for a host, which is not valid for a server."""
        return self._issue(name, [ExtendedKeyUsageOID.CLIENT_AUTH])

    def issue_controller(self, address: str) -> Identity:
        """Return the identity of the controller that listens on an IP address."""
        return self._issue("controller", [ExtendedKeyUsageOID.SERVER_AUTH], address)

    def _issue(
        self, name: str, uses: Sequence[x509.ObjectIdentifier], address: str = ""
    ) -> Identity:
        key = ec.generate_private_key(ec.SECP256R1())
        made = _certificate(_name(name, self._run), self._certificate.subject, key.public_key())
        made = made.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        made = made.add_extension(x509.ExtendedKeyUsage(uses), critical=True)
        if address:
            names = [x509.IPAddress(ipaddress.ip_address(address))]
            made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
        signed = made.sign(self._key, hashes.SHA256())
        return Identity(
            certificate=signed.public_bytes(serialization.Encoding.PEM).decode(),
            key=key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ).decode(),
        )


def _name(common: str, run: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.COMMON_NAME, common[:64]),
            x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, run[:64]),
        ]
    )


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        # A certificate is useless after its run, because only that run's controller trusts the
        # authority. An expiry date would only reject hosts whose clock is wrong, with an error that
        # TLS cannot explain.
        .not_valid_before(datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC))
        .not_valid_after(datetime.datetime(9999, 12, 31, 23, 59, 59, tzinfo=datetime.UTC))
    )
