"""Sockets by state, and how many local ports are left.

From /proc/net/sockstat, whose cost does not grow with the number of sockets; /proc/net/tcp takes
milliseconds a thousand sockets and would disturb what is measured.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from loadstone.probes.proc import AbsentError, KernelFile, open_existing


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
        if self._range is None:
            return
        first, last = (int(word) for word in self._range.read().split())
        ports = last - first + 1
        yield "tcp", "ports", float(ports)
        # A bound from below: sockets that serve take no local port of the range, and one port may
        # serve several destinations.
        yield "tcp", "ports_left_min", float(max(0, ports - counts["inuse"] - counts["tw"]))

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        if self._range is not None:
            self._range.close()
