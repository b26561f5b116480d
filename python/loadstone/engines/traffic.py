"""What TCP connections of an engine receive while a query runs, as the kernel counts it."""

import os
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

_RECEIVED_AT = 128
"""Where `tcpi_bytes_received` stands in the kernel's `struct tcp_info` (linux/tcp.h)."""
_OWN_EVERY_S = 0.02
_ALL_EVERY_S = 0.1

# From linux/inet_diag.h, sock_diag.h and netlink.h.
_SOCK_DIAG = 4
_BY_FAMILY = 20
_DUMP_REQUEST = 0x301
_DONE, _ERROR = 3, 2
_TCP_INFO = 2
_STATES = sum(1 << state for state in (1, 4, 5, 8, 9, 11))
"""Connections that have received something; neither listening ones nor those that only wait."""
_MESSAGE = 72
"""The size of `struct inet_diag_msg`, after which attributes follow."""

Totals = dict[int, int]
"""What each connection has received so far, by its inode."""


@contextmanager
def received_by(has_processes: bool) -> Iterator[list[int]]:
    """Count what is received meanwhile, also by connections that end.

    Of an engine with processes of its own these are the connections of this session's processes,
    without those among themselves.
    """
    look: Callable[[], Totals] = _of_session if has_processes else _of_process
    seen: Totals = {}
    before = look()
    is_over = threading.Event()
    count = [0]

    def watch() -> None:
        while not is_over.wait(_ALL_EVERY_S if has_processes else _OWN_EVERY_S):
            seen.update(look())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield count
    finally:
        is_over.set()
        watcher.join()
        seen.update(look())
        count[0] = sum(total - before.get(inode, 0) for inode, total in seen.items())


def _of_process() -> Totals:
    found = {}
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(OSError, ValueError):
            target = os.readlink(f"/proc/self/fd/{descriptor}")
            if not target.startswith("socket:["):
                continue
            with socket.socket(fileno=os.dup(int(descriptor))) as one:
                told = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
            if len(told) >= _RECEIVED_AT + 8:
                received = told[_RECEIVED_AT : _RECEIVED_AT + 8]
                found[int(target[8:-1])] = int.from_bytes(received, sys.byteorder)
    return found


def _of_session() -> Totals:
    ours = set(_inodes())
    connections = [
        one
        for family in (socket.AF_INET, socket.AF_INET6)
        for one in _connections(family)
        if one[0] in ours
    ]
    ends = {own for _, own, _, _ in connections}
    return {inode: received for inode, _, other, received in connections if other not in ends}


def _inodes() -> Iterator[int]:
    own = os.getsid(0)
    for number in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            if os.getsid(int(number)) != own:
                continue
            for descriptor in os.listdir(f"/proc/{number}/fd"):
                with suppress(OSError):
                    target = os.readlink(f"/proc/{number}/fd/{descriptor}")
                    if target.startswith("socket:["):
                        yield int(target[8:-1])


End = tuple[bytes, bytes]


def _connections(family: int) -> Iterator[tuple[int, End, End, int]]:
    """Yield each TCP connection of the host: its inode, its two ends, what it received."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
        # Of struct inet_diag_req_v2 the attributes wanted are a mask: the bit before each number.
        asked = struct.pack(
            "=BBBBI48s", family, socket.IPPROTO_TCP, 1 << (_TCP_INFO - 1), 0, _STATES, bytes(48)
        )
        kernel.send(struct.pack("=IHHII", 16 + len(asked), _BY_FAMILY, _DUMP_REQUEST, 1, 0) + asked)
        while True:
            answer = kernel.recv(1 << 18)
            while answer:
                length, kind = struct.unpack_from("=IH", answer)
                if kind == _DONE:
                    return
                if kind == _ERROR:
                    raise OSError(-struct.unpack_from("=i", answer, 16)[0], "sock_diag")
                yield _connection(answer[16:length])
                answer = answer[(length + 3) & ~3 :]


def _connection(message: bytes) -> tuple[int, End, End, int]:
    own = (message[8:24], message[4:6])
    other = (message[24:40], message[6:8])
    (inode,) = struct.unpack_from("=I", message, _MESSAGE - 4)
    received, at = 0, _MESSAGE
    while at + 4 <= len(message):
        length, kind = struct.unpack_from("=HH", message, at)
        if kind == _TCP_INFO and length >= 4 + _RECEIVED_AT + 8:
            (received,) = struct.unpack_from("=Q", message, at + 4 + _RECEIVED_AT)
        at += (length + 3) & ~3
    return inode, own, other, received
