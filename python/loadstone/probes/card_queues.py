"""Packets dropped by the kernel's queues of each card, over netlink, as no file has them.

Layouts are those of linux/rtnetlink.h and linux/pkt_sched.h.
"""

import contextlib
import socket
import struct
from collections.abc import Iterator

from loadstone.probes.proc import AbsentError

NETLINK_ROUTE, RTM_GETQDISC, NLMSG_DONE, NLMSG_ERROR = 0, 38, 3, 2
REQUEST_DUMP = 0x301
TCA_STATS = 3
ROOT, INGRESS = 0xFFFFFFFF, 0xFFFFFFF1
METRICS = {ROOT: "send_queue_dropped", INGRESS: "receive_queue_dropped"}

HEADER = struct.Struct("=IHHII")
QUEUE = struct.Struct("=BBHiIII")
ATTRIBUTE = struct.Struct("=HH")
STATS = struct.Struct("=QII")
"""Bytes and packets that went through, and packets that were dropped; more follows."""

ANSWER_S = 0.5
ANSWER_MAX_BYTES = 1 << 16


class CardQueues:
    """Drops of the outermost queue of each card, and of incoming packets."""

    def __init__(self) -> None:
        try:
            self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_ROUTE)
            self._socket.settimeout(ANSWER_S)
        except OSError as error:
            raise AbsentError(f"netlink: {error.strerror}") from error

    def read(self) -> Iterator[tuple[str, str, float]]:
        """Yield the packets that each queue has dropped."""
        body = QUEUE.pack(0, 0, 0, 0, 0, 0, 0)
        length = HEADER.size + len(body)
        self._socket.send(HEADER.pack(length, RTM_GETQDISC, REQUEST_DUMP, 0, 0) + body)
        while True:
            answer = self._socket.recv(ANSWER_MAX_BYTES)
            for kind, message in _messages(answer):
                if kind in (NLMSG_DONE, NLMSG_ERROR):
                    return
                yield from _dropped(message)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def _messages(answer: bytes) -> Iterator[tuple[int, bytes]]:
    while len(answer) >= HEADER.size:
        length, kind, *_ = HEADER.unpack_from(answer)
        yield kind, answer[HEADER.size : length]
        answer = answer[_aligned(max(length, HEADER.size)) :]


def _dropped(message: bytes) -> Iterator[tuple[str, str, float]]:
    *_, index, _, parent, _ = QUEUE.unpack_from(message)
    if parent not in METRICS:
        return
    attributes = message[QUEUE.size :]
    while len(attributes) >= ATTRIBUTE.size:
        length, kind = ATTRIBUTE.unpack_from(attributes)
        if kind == TCA_STATS:
            # The card may have gone since.
            with contextlib.suppress(OSError):
                card = socket.if_indextoname(index)
                yield card, METRICS[parent], float(STATS.unpack_from(attributes, ATTRIBUTE.size)[2])
        attributes = attributes[_aligned(max(length, ATTRIBUTE.size)) :]


def _aligned(length: int) -> int:
    return (length + 3) & ~3
