"""Bytes that an engine's TCP connections receive while a query runs, as counted by the kernel.

Open connections are read before and after. The kernel reports every connection to the endpoint that
ends in between. If it does not, open connections are polled, which costs 1 % of a CPU and misses
connections that begin and end between two polls.
"""

import ctypes
import ipaddress
import os
import select
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

_RECEIVED_AT = 128
"""Offset of `tcpi_bytes_received` in the kernel's `struct tcp_info` (linux/tcp.h)."""
_OWN_EVERY_S = 0.02
_ALL_EVERY_S = 0.1
_SETTLED_S = 0.02
"""Seconds to wait for the kernel's report of an end, which takes much less."""

# From linux/inet_diag.h, sock_diag.h, netlink.h and asm-generic/socket.h.
_SOCK_DIAG = 4
_TCP = 18
_DUMP_REQUEST = 0x301
_DONE, _ERROR = 3, 2
_TCP_INFO = 2
_STATES = sum(1 << state for state in (1, 4, 5, 8, 9, 11))
"""States in which a connection may have received data; not listening or TIME_WAIT."""
_MESSAGE = 72
"""Size of `struct inet_diag_msg`, which precedes the attributes."""
_HEAD = 16
"""Size of `struct nlmsghdr`, which precedes it."""
_PORT_AT = _HEAD + 6
"""Offset of the remote port in a message with its header."""
_SO_ATTACH_FILTER = 26
_LOAD_HALF, _JUMP_IF_EQUAL, _RETURN = 0x28, 0x15, 0x06
_ENDED = 1 << 0 | 1 << 2
"""The groups that receive each TCP connection's end, over IPv4 and IPv6."""
_SO_COOKIE = 57

Totals = dict[bytes, int]
"""Received bytes of each connection, by its unique cookie."""

End = tuple[bytes, bytes]
"""An IPv6 or IPv4-mapped address, and a port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """How an engine accesses its tables: by a bucket's endpoint, or by a mount with `server`.

    Reads and received bytes of that process (`server_of`) count as the engine's.
    """

    endpoint: str | None = None
    server: int | None = None


@contextmanager
def received_by(has_processes: bool, route: Route) -> Iterator[list[int]]:
    """Count bytes received within the context, also by connections to a bucket's endpoint that end.

    If the engine has child processes, all connections of this session's processes count, except
    those between them. The owner of an ended connection is unknown: each one to the endpoint
    counts, assuming that no other program of this host uses the endpoint.
    """
    read_totals: Callable[[], Totals] = _of_session if has_processes else _of_process

    def look() -> Totals:
        totals = read_totals()
        return totals if route.server is None else {**totals, **_of_server(route.server)}

    count, latest = [0], Totals()
    if route.endpoint is None:
        before = look()
        yield count
        latest = look()
    else:
        with _Ends(route.endpoint) as ends:
            before = look()
            every_s = _ALL_EVERY_S if has_processes else _OWN_EVERY_S
            hear = ends.hear_on if ends.are_told else partial(_look_on, look, latest, every_s)
            with _meanwhile(hear):
                yield count
            latest.update(look())
            ends.hear(_SETTLED_S)
            latest.update(ends.totals)
    count[0] = sum(total - before.get(cookie, 0) for cookie, total in latest.items())


@contextmanager
def _meanwhile(work: Callable[[socket.socket], None]) -> Iterator[None]:
    """Run work in a thread, which ends when its socket becomes readable."""
    near, other = socket.socketpair()
    with near, other:
        worker = threading.Thread(target=work, args=(other,), daemon=True)
        worker.start()
        try:
            yield
        finally:
            near.shutdown(socket.SHUT_WR)
            worker.join()


def _look_on(
    look: Callable[[], Totals], totals: Totals, every_s: float, is_over: socket.socket
) -> None:
    while not select.select([is_over], [], [], every_s)[0]:
        totals.update(look())


class _Ends:
    """The connections to an endpoint that have ended since this was opened."""

    def __init__(self, endpoint: str) -> None:
        self.totals: Totals = {}
        self._servers = _resolve(endpoint)
        self._ports = {port for _, port in self._servers}
        self.are_told = False
        self._kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG)

    def __enter__(self) -> "_Ends":
        with suppress(OSError):
            _let_through(self._kernel, [int.from_bytes(port) for port in self._ports])
            self._kernel.bind((0, _ENDED))
            self.are_told = True
        return self

    def __exit__(self, *_: object) -> None:
        self._kernel.close()

    def hear_on(self, is_over: socket.socket) -> None:
        """Process reports of ended connections in batches; costs nothing while there are none."""
        while is_over not in select.select([self._kernel, is_over], [], [])[0]:
            self.hear(0)
            if select.select([is_over], [], [], _OWN_EVERY_S)[0]:
                return

    def hear(self, wait_s: float) -> None:
        """Read the kernel's messages until none has arrived for this many seconds."""
        self._kernel.settimeout(wait_s)
        # Raised at the timeout, and when the kernel's buffer has overflowed.
        with suppress(OSError):
            while True:
                for _, message in _messages(self._kernel.recv(1 << 18)):
                    connection = _connection(message)
                    if connection.remote in self._servers:
                        self.totals[connection.cookie] = connection.received


def _let_through(kernel: socket.socket, ports: Sequence[int]) -> None:
    """Make the kernel drop messages about other ports, which mostly belong to other programs.

    A socket filter (linux/filter.h): load the port, compare it with each, accept or drop.
    """
    steps = [(_LOAD_HALF, 0, 0, _PORT_AT)]
    for number, port in enumerate(ports):
        steps.append((_JUMP_IF_EQUAL, len(ports) - number, 0, port))
    steps += [(_RETURN, 0, 0, 0), (_RETURN, 0, 0, 0xFFFFFFFF)]
    program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    described = struct.pack("@HP", len(steps), ctypes.addressof(program))
    kernel.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, described)


def _resolve(endpoint: str) -> set[End]:
    url = urlsplit(endpoint)
    port = url.port or (443 if url.scheme == "https" else 80)
    with suppress(OSError):
        addresses = socket.getaddrinfo(url.hostname, port, type=socket.SOCK_STREAM)
        return {(_as_ipv6(str(address[0])), port.to_bytes(2)) for *_, address in addresses}
    return set()


def _as_ipv6(text: str) -> bytes:
    address = ipaddress.ip_address(text.partition("%")[0])
    return _mapped(address.packed) if address.version == 4 else address.packed


def _mapped(four: bytes) -> bytes:
    return bytes(10) + b"\xff\xff" + four


def _of_process() -> Totals:
    of_process = {}
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(OSError, ValueError):
            target = os.readlink(f"/proc/self/fd/{descriptor}")
            if not target.startswith("socket:["):
                continue
            with socket.socket(fileno=os.dup(int(descriptor))) as connection:
                info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
                cookie = connection.getsockopt(socket.SOL_SOCKET, _SO_COOKIE, 8)
            if len(info) >= _RECEIVED_AT + 8:
                received = info[_RECEIVED_AT : _RECEIVED_AT + 8]
                of_process[cookie] = int.from_bytes(received, sys.byteorder)
    return of_process


def _of_session() -> Totals:
    connections = list(_connections(set(_inodes())))
    ends = {connection.local for connection in connections}
    return {
        connection.cookie: connection.received
        for connection in connections
        if connection.remote not in ends
    }


def _of_server(number: int) -> Totals:
    ours = set(_inodes_of(str(number)))
    return {connection.cookie: connection.received for connection in _connections(ours)}


def _inodes() -> Iterator[int]:
    session = os.getsid(0)
    for number in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            if os.getsid(int(number)) == session:
                yield from _inodes_of(number)


def _inodes_of(number: str) -> Iterator[int]:
    with suppress(OSError):
        for descriptor in os.listdir(f"/proc/{number}/fd"):
            with suppress(OSError):
                target = os.readlink(f"/proc/{number}/fd/{descriptor}")
                if target.startswith("socket:["):
                    yield int(target[8:-1])


@dataclass(frozen=True, slots=True)
class _Connection:
    """One end of a TCP connection."""

    cookie: bytes
    local: End
    remote: End
    received: int


def _connections(inodes: set[int]) -> Iterator[_Connection]:
    """Yield the open TCP connections of the host that have one of these inodes.

    Uses the older request, without a family: the newer one walks the kernel's whole table per
    family.
    """
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
        # struct inet_diag_req has a bit mask of attributes: bit n-1 requests attribute n.
        asked = struct.pack(
            "=BBBB48sII", socket.AF_UNSPEC, 0, 0, 1 << (_TCP_INFO - 1), bytes(48), _STATES, 0
        )
        kernel.send(struct.pack("=IHHII", _HEAD + len(asked), _TCP, _DUMP_REQUEST, 1, 0) + asked)
        while True:
            for kind, message in _messages(kernel.recv(1 << 18)):
                if kind == _DONE:
                    return
                if kind == _ERROR:
                    raise OSError(-struct.unpack_from("=i", message)[0], "sock_diag")
                # Most belong to other programs and are skipped early.
                if _inode(message) in inodes:
                    yield _connection(message)


def _messages(answer: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the kind and the content of each message of a datagram."""
    at = 0
    while at < len(answer):
        length, kind = struct.unpack_from("=IH", answer, at)
        yield kind, answer[at + _HEAD : at + length]
        at += (length + 3) & ~3


def _connection(message: bytes) -> _Connection:
    received, at = 0, _MESSAGE
    while at + 4 <= len(message):
        length, kind = struct.unpack_from("=HH", message, at)
        if kind == _TCP_INFO and length >= 4 + _RECEIVED_AT + 8:
            (received,) = struct.unpack_from("=Q", message, at + 4 + _RECEIVED_AT)
        at += (length + 3) & ~3
    return _Connection(
        cookie=message[44:52],
        local=_end(message, 8, 4),
        remote=_end(message, 24, 6),
        received=received,
    )


def _inode(message: bytes) -> int:
    """Return the inode of a connection; 0 if its program has closed it."""
    (inode,) = struct.unpack_from("=I", message, _MESSAGE - 4)
    return int(inode)


def _end(message: bytes, address_at: int, port_at: int) -> End:
    address = message[address_at : address_at + 16]
    is_short = message[0] == socket.AF_INET
    return _mapped(address[:4]) if is_short else address, message[port_at : port_at + 2]


_DEVICE = "/dev/fuse"


# A mount's client reads through the serving process, with its own connections and devices, so that
# process is counted.
def server_of(directory: str) -> int | None:
    """Return the id of the process that serves a directory's mount; None for all other mounts.

    Also None if this user may not inspect that process.
    """
    try:
        number = os.minor(os.stat(directory).st_dev)
        mount = mount_of(directory)
    except OSError:
        return None
    if mount is None or not mount.kind.startswith("fuse"):
        return None
    for process, descriptor in _with_device():
        mount_connection = _mount_connection(process, descriptor)
        if mount_connection == number or (
            mount_connection is None and _is_named(process, mount.point)
        ):
            return process
    return None


class Mount(NamedTuple):
    """A mount point, and the type of its file system."""

    point: str
    kind: str


def mount_of(directory: str) -> Mount | None:
    """Return the mount that contains a directory; OSError if mounts cannot be listed."""
    path = os.path.realpath(directory)
    best: Mount | None = None
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, point, kind, *_ = line.split()
        is_above = path == point or path.startswith(point.rstrip("/") + "/")
        # The last of several mounts on one directory is the visible one.
        if is_above and (best is None or len(point) >= len(best.point)):
            best = Mount(point, kind)
    return best


def _with_device() -> Iterator[tuple[int, str]]:
    for process in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            for descriptor in os.listdir(f"/proc/{process}/fd"):
                if os.readlink(f"/proc/{process}/fd/{descriptor}") == _DEVICE:
                    yield int(process), descriptor


def _mount_connection(process: int, descriptor: str) -> int | None:
    """Return the id of the mount that a descriptor serves; None on older kernels."""
    with suppress(OSError, ValueError):
        for line in Path(f"/proc/{process}/fdinfo/{descriptor}").read_text().splitlines():
            name, _, value = line.partition(":")
            if name == "fuse_connection":
                return int(value)
    return None


def _is_named(process: int, point: str) -> bool:
    with suppress(OSError):
        words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
        return point.encode() in words
    return False
