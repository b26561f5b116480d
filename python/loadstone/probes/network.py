"""Bytes, packets and losses of each network card."""

import contextlib
import os
import socket
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from loadstone.probes.proc import AbsentError, KernelFile

# Columns of /proc/net/dev, from the kernel's documentation.
COLUMNS = {
    0: "received_bytes",
    1: "received_packets",
    2: "received_errors",
    3: "received_dropped",
    8: "sent_bytes",
    9: "sent_packets",
    10: "sent_errors",
    11: "sent_dropped",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketOptions:
    """The rate of a token bucket, in bytes per second."""

    rate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenBucket:
    """A token bucket of a whole card, as `tc` prints it."""

    kind: Literal["tbf"]
    root: Literal[True]
    dev: str
    options: BucketOptions


Queues = list[Annotated[TokenBucket | object, Field(union_mode="left_to_right")]]
"""Queues, of which other kinds are ignored."""


def shaped_cards() -> dict[str, float]:
    """Return the limit of each card by a token bucket, in bits per second, if `tc` is there.

    Containers and rented machines are often limited to less than their card's speed.
    """
    try:
        tc = subprocess.run(
            ["tc", "-j", "qdisc", "show"],
            capture_output=True,
            timeout=5,
            check=True,
            # Other variables may be secrets.
            env={"PATH": os.environ.get("PATH", os.defpath)},
        )
        queues = TypeAdapter[Queues](Queues).validate_json(tc.stdout or b"[]")
    except (OSError, ValueError, subprocess.SubprocessError):
        return {}
    return {
        queue.dev: 8.0 * queue.options.rate for queue in queues if isinstance(queue, TokenBucket)
    }


class Network:
    """Reads /proc/net/dev, the cards' queues, and /proc/net/softnet_stat if it exists."""

    SUMMARY = "bytes, packets and link speed of each network card, what it and its queues dropped"

    def __init__(self) -> None:
        self._file = KernelFile("/proc/net/dev")
        self._softnet: KernelFile | None = None
        with contextlib.suppress(AbsentError):
            self._softnet = KernelFile("/proc/net/softnet_stat")
        self._queues: CardQueues | None = None
        with contextlib.suppress(AbsentError):
            self._queues = CardQueues()
        self._speeds: dict[str, float | None] = {}
        self._shaped = shaped_cards()

    def read(self) -> Iterator[tuple[str, str, float]]:
        for line in self._file.read().splitlines()[2:]:
            card, _, text = line.partition(":")
            card = card.strip()
            values = text.split()
            for column, metric in COLUMNS.items():
                yield card, metric, float(values[column])
            speed = self._speed(card)
            if speed is not None:
                yield card, "speed_bits_per_s", speed
        if self._queues is not None:
            # If the kernel does not answer in time, the next reading tries again.
            with contextlib.suppress(TimeoutError):
                yield from self._queues.read()
        if self._softnet is None:
            return
        for core, line in enumerate(self._softnet.read().splitlines()):
            words = line.split()
            yield f"cpu{core}", "backlog_dropped", float(int(words[1], 16))
            yield f"cpu{core}", "backlog_squeezed", float(int(words[2], 16))

    def _speed(self, card: str) -> float | None:
        """Return the speed of a card's link, or of its shaper if lower; read once."""
        if card not in self._speeds:
            folder = Path(f"/sys/class/net/{card}")
            try:
                # The speed of virtual cards (veth, bridges) is a meaningless constant.
                is_real = (folder / "device").exists()
                speed = int((folder / "speed").read_text("ascii")) * 1e6 if is_real else -1
            except (OSError, ValueError):
                speed = -1
            speeds = [
                speed_of_source
                for speed_of_source in (speed, self._shaped.get(card, -1))
                if speed_of_source > 0
            ]
            self._speeds[card] = min(speeds, default=None)
        return self._speeds[card]

    def close(self) -> None:
        self._file.close()
        for part in (self._softnet, self._queues):
            if part is not None:
                part.close()


# Drops of queues are only available through netlink. Layouts are from linux/rtnetlink.h and
# linux/pkt_sched.h.
NETLINK_ROUTE, RTM_GETQDISC, NLMSG_DONE, NLMSG_ERROR = 0, 38, 3, 2
REQUEST_DUMP = 0x301
TCA_STATS = 3
ROOT, INGRESS = 0xFFFFFFFF, 0xFFFFFFF1
METRICS = {ROOT: "send_queue_dropped", INGRESS: "receive_queue_dropped"}

HEADER = struct.Struct("=IHHII")
QUEUE = struct.Struct("=BBHiIII")
ATTRIBUTE = struct.Struct("=HH")
STATS = struct.Struct("=QII")
"""Transmitted bytes and packets, and dropped packets; further fields follow."""

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
            # The card may have been removed meanwhile.
            with contextlib.suppress(OSError):
                card = socket.if_indextoname(index)
                yield card, METRICS[parent], float(STATS.unpack_from(attributes, ATTRIBUTE.size)[2])
        attributes = attributes[_aligned(max(length, ATTRIBUTE.size)) :]


def _aligned(length: int) -> int:
    return (length + 3) & ~3
