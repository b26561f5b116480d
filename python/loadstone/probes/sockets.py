"""Sockets by state, and the number of free local ports.

From /proc/net/sockstat, which takes constant time; /proc/net/tcp takes milliseconds per thousand
sockets and would disturb the measurement.
"""

import contextlib
import functools
import ipaddress
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from loadstone.probes.proc import AbsentError, KernelFile, open_existing

TIME_WAIT_S = 60
TIME_WAIT_REUSED_S = 1
"""Seconds for which the kernel reserves a port after its connection, with and without
tcp_tw_reuse.
"""

TCP_TW_REUSE = Path("/proc/sys/net/ipv4/tcp_tw_reuse")
TCP_TW_REUSE_USUAL = 2
"""The default since Linux 4.19 (reuse on loopback only), for hosts that do not state it."""

PORTS_QUICK_SHARE = 0.5
"""Linux uses local ports of one parity first. If all of these are reserved, each connection
searches all of them, at some 70 ns per port, before it takes one of the other half."""

TIME_WAIT = "06"
CLOSING = frozenset({"04", "05", "09", "0B"})
"""States in /proc/net/tcp: FIN_WAIT1, FIN_WAIT2, LAST_ACK and CLOSING. In CLOSE_WAIT, a program
keeps the connection."""

_TICKS_PER_S = 100
"""The kernel's USER_HZ, the unit of timers in /proc."""


@dataclass(frozen=True, slots=True)
class Connection:
    """One TCP connection of this network namespace.

    `timer_s` is the remaining time of its timer; in TIME_WAIT, until its port is free.
    """

    port: int
    remote: tuple[str, int]
    state: str
    timer_s: float


def connections() -> Iterator[Connection]:
    """Yield the TCP connections of this network namespace.

    Takes milliseconds per thousand connections, too long for use under load.
    """
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError), open(f"/proc/net/{name}", encoding="ascii") as file:
            next(file, None)
            for line in file:
                words = line.split()
                remote = words[2].split(":")
                if int(remote[1], 16):
                    yield Connection(
                        port=int(words[1].rpartition(":")[2], 16),
                        remote=(_address(remote[0]), int(remote[1], 16)),
                        state=words[3],
                        timer_s=int(words[5].partition(":")[2], 16) / _TICKS_PER_S,
                    )


@functools.lru_cache(maxsize=1024)
def _address(text: str) -> str:
    """Return an address from /proc, which has words in native byte order."""
    words = bytes.fromhex(text)
    if sys.byteorder == "little":
        words = b"".join(words[at : at + 4][::-1] for at in range(0, len(words), 4))
    address = ipaddress.ip_address(words)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def port_rest_s(tcp_tw_reuse: int, *, is_loopback: bool) -> int:
    """Return for how many seconds a local port is reserved after this host closed a connection."""
    is_reused = tcp_tw_reuse == 1 or (tcp_tw_reuse == 2 and is_loopback)
    return TIME_WAIT_REUSED_S if is_reused else TIME_WAIT_S


def is_loopback(address: str) -> bool:
    """Tell whether the text of an address, or of a URL with one, is a loopback address."""
    host = urlsplit(address if "://" in address else f"//{address}").hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


class Sockets:
    """Reads /proc/net/sockstat, sockstat6 and the range of local ports."""

    SUMMARY = "TCP sockets in use and waiting to close, local ports left"

    def __init__(self) -> None:
        # A host without IPv6 has only the first.
        folder = Path("/proc/net")
        self._files = open_existing({name: folder / name for name in ("sockstat", "sockstat6")})
        self._range: KernelFile | None = None
        with contextlib.suppress(AbsentError):
            self._range = KernelFile("/proc/sys/net/ipv4/ip_local_port_range")
        self._reuse: KernelFile | None = None
        with contextlib.suppress(AbsentError):
            self._reuse = KernelFile(str(TCP_TW_REUSE))

    def read(self) -> Iterator[tuple[str, str, float]]:
        counts = {"inuse": 0, "orphan": 0, "tw": 0, "alloc": 0, "mem": 0}
        for file in self._files.values():
            for line in file.read().splitlines():
                protocol, *pairs = line.split()
                if protocol in ("TCP:", "TCP6:"):
                    for key, value in zip(pairs[::2], pairs[1::2], strict=False):
                        counts[key] = counts.get(key, 0) + int(value)
        yield "tcp", "in_use", float(counts["inuse"])
        yield "tcp", "time_wait", float(counts["tw"])
        yield "tcp", "orphaned", float(counts["orphan"])
        yield "tcp", "allocated", float(counts["alloc"])
        yield "tcp", "memory_pages", float(counts["mem"])
        if self._reuse is not None:
            yield "tcp", "tcp_tw_reuse", float(self._reuse.read())
        if self._range is None:
            return
        first, last = (int(word) for word in self._range.read().split())
        ports = last - first + 1
        yield "tcp", "ports", float(ports)
        # A lower bound: listening sockets take no port of the range, and one port may serve several
        # destinations.
        yield "tcp", "ports_left_min", float(max(0, ports - counts["inuse"] - counts["tw"]))

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        for setting in (self._range, self._reuse):
            if setting is not None:
                setting.close()
