"""Messages over one connection: the length of each, then its name and body as MessagePack.

An agent opens it with `join`, which has an error message for each obstacle.

Connections use mutual TLS: both sides show a certificate that the run's authority issued.

MessagePack only has numbers, texts, bytes, lists and maps, so no other type can be received.
"""

import asyncio
import os
import ssl
import struct
from dataclasses import dataclass
from typing import Any

import msgpack

from loadstone import units
from loadstone.errors import HostError
from loadstone.hosts import messages
from loadstone.hosts.invitation import Invitation
from loadstone.steady_clock import SteadyClock

MESSAGE_BYTES_MAX = 64 << 20
"""More than any message needs: the doubts of a turn are 4 MiB at most, a piece of a file is 1
MiB.
"""

ITEMS_MAX = 1 << 21
"""Maximum length of a message's lists and maps; lists of places are the longest. Python objects
take up to a hundred times the bytes of the message.
"""

_LENGTH = struct.Struct(">I")


class MessageStream:
    """Sends and receives messages; for the thread of one event loop."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.received_bytes = 0
        """The length of the last message that came."""

    def send(self, name: str, body: dict[str, object]) -> None:
        """Send a message at once; after the end of the connection it is dropped silently."""
        if not self._writer.is_closing():
            packed = pack(name, body)
            self._writer.write(_LENGTH.pack(len(packed)) + packed)

    async def receive(self) -> tuple[str, dict[str, Any]]:
        """Return the next message.

        Raises EOFError or OSError when the connection has ended, ValueError for an invalid message.
        """
        (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
        if length > MESSAGE_BYTES_MAX:
            raise ValueError(f"a message of {length} bytes, allowed {MESSAGE_BYTES_MAX}")
        self.received_bytes = length
        return unpack(await self._reader.readexactly(length))

    async def close(self) -> None:
        """Send the remaining data and close the connection."""
        self._writer.close()
        await self._writer.wait_closed()

    def abort(self) -> None:
        """Close the connection at once, without sending the remaining data."""
        self._writer.transport.abort()


def pack(name: str, body: dict[str, object]) -> bytes:
    """Return a message in its wire format, without its length."""
    packed: bytes = msgpack.packb((name, body))
    return packed


def unpack(packed: bytes) -> tuple[str, dict[str, Any]]:
    """Return the name and the body of a message; ValueError if it is invalid."""
    items = 0

    def count(container: Any) -> Any:
        nonlocal items
        items += len(container)
        if items > ITEMS_MAX:
            raise ValueError(f"a message of more than {ITEMS_MAX} items")
        return container

    match msgpack.unpackb(
        packed, max_array_len=ITEMS_MAX, max_map_len=ITEMS_MAX, list_hook=count, object_hook=count
    ):
        case [str(name), dict(body)]:
            return name, body
    raise ValueError("found a message without name and body")


def split_address(text: str) -> tuple[str, int]:
    """Split "10.0.0.1:7000" or "[::1]:7000" into address and port; port 0 if absent."""
    if text.startswith("["):
        host, _, port = text[1:].partition("]")
        return host, int(port.removeprefix(":") or 0)
    if text.count(":") > 1:
        return text, 0
    host, _, port = text.partition(":")
    return host, int(port or 0)


def join_address(host: str, port: int) -> str:
    """Return the text that `split_address` parses."""
    if not port:
        return host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A certificate with its key, both as PEM texts.

    The key is secret: write it only where the host that it belongs to reads it.
    """

    certificate: str
    key: str

    def __repr__(self) -> str:
        return "Identity(...)"


def context_of_controller(authority: str, identity: Identity) -> ssl.SSLContext:
    """Return the TLS context in which the controller accepts only invited hosts."""
    return _context(ssl.PROTOCOL_TLS_SERVER, authority, identity)


def context_of_host(authority: str, identity: Identity) -> ssl.SSLContext:
    """Return the TLS context in which a host connects only to the controller of its run."""
    return _context(ssl.PROTOCOL_TLS_CLIENT, authority, identity)


def _context(protocol: int, authority: str, identity: Identity) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=authority)
    # OpenSSL reads keys only from files; this one is in memory and has no name.
    with open(os.memfd_create("identity"), "w", encoding="ascii") as file:
        file.write(identity.certificate + identity.key)
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
    return context


CONNECT_S = 20.0
CLOCKS_APART_S_MAX = 12 * 3600
"""A larger difference of clocks means a wrong clock, since no time zone explains it."""


async def join(invitation: Invitation, clock: SteadyClock) -> MessageStream:
    """Connect to the controller and return the connection after its welcome.

    Raises HostError with the reason if the host cannot join. `clock` is the host's own.
    """
    address, port = split_address(invitation.controller)
    identity = Identity(certificate=invitation.certificate, key=invitation.key)
    tried = f"host {invitation.host}: connect to the controller at {invitation.controller}"
    try:
        async with asyncio.timeout(CONNECT_S):
            context = context_of_host(invitation.authority, identity)
            # Certificates contain addresses without the interface.
            name = address.partition("%")[0]
            reader, writer = await asyncio.open_connection(
                address, port, ssl=context, server_hostname=name
            )
            stream = MessageStream(reader, writer)
            first = messages.read_asked(*await stream.receive())
    except TimeoutError as error:
        raise HostError(
            f"{tried}: no answer within {CONNECT_S:g} s",
            "is there a route, and does a firewall between the two let this port pass?"
            " hosts.listen of the campaign sets address and port",
            kind="unreachable",
        ) from error
    except (ssl.SSLError, EOFError) as error:
        # After rejecting the certificate the controller closes a connection that looks open here.
        reason = getattr(error, "verify_message", None) or getattr(error, "reason", None)
        raise HostError(
            f"{tried}: the certificates do not match: {reason or 'it refused that of this host'}",
            "the invitation is of another run; take the one that this run wrote",
            kind="certificates",
        ) from error
    except OSError as error:
        raise HostError(
            f"{tried}: {error.strerror or error}",
            "the run is over, or this host reaches the controller by another address"
            " (hosts.listen of the campaign)",
            kind="unreachable",
        ) from error
    except ValueError as error:
        raise HostError(
            f"{tried}: it sent an invalid message: {error}", "install the same version on all hosts"
        ) from error
    try:
        _check(first, invitation, clock)
    except HostError:
        stream.abort()
        raise
    return stream


def _check(first: messages.FromController, invitation: Invitation, clock: SteadyClock) -> None:
    """Raise HostError unless the controller's first message admits this host."""
    match first:
        case messages.Welcome(unix_ns=unix_ns):
            apart_ns = clock.unix_ns() - unix_ns
            if abs(apart_ns) > CLOCKS_APART_S_MAX * 10**9:
                direction = "ahead of" if apart_ns > 0 else "behind"
                raise HostError(
                    f"host {invitation.host}: its clock is {units.format_duration(abs(apart_ns))}"
                    f" {direction} the controller's",
                    "correct the wrong clock, best by NTP: timedatectl set-ntp true",
                    kind="clock",
                )
        case messages.Leave(reason=reason):
            raise HostError(
                f"host {invitation.host}: join {invitation.controller}: {reason}",
                "start one agent on each host, with its own invitation",
                kind="host-in-use",
            )
        case _:
            raise HostError(
                f"host {invitation.host}: join {invitation.controller}: the first"
                " message of the controller was not a welcome",
                "install the same version on all hosts",
            )
