"""IP and TCP counters of the whole host: received packets, retransmissions, failures."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from loadstone.probes.proc import AbsentError, KernelFile, open_existing

IP_RECEIVED = "ip_received_bytes"
IP6_RECEIVED = "Ip6InOctets"

WANTED = {
    "Tcp": {
        "ActiveOpens": "connections_opened",
        "AttemptFails": "connections_failed",
        "EstabResets": "connections_reset",
        "InSegs": "segments_received",
        "OutSegs": "segments_sent",
        "RetransSegs": "segments_repeated",
        "InErrs": "segments_bad",
    },
    "TcpExt": {
        "TCPTimeouts": "timeouts",
        "TCPSynRetrans": "syn_repeated",
        "ListenOverflows": "listen_overflows",
        "ListenDrops": "listen_drops",
        "TCPMemoryPressures": "memory_pressures",
        "TCPOFOQueue": "segments_out_of_order",
        "TCPDSACKOldSent": "segments_received_again",
        "TCPBacklogDrop": "socket_backlog_dropped",
        "TCPRcvQDrop": "receive_buffer_dropped",
    },
    "IpExt": {"InOctets": IP_RECEIVED},
}


class Tcp:
    """Reads /proc/net/snmp, netstat and snmp6."""

    SUMMARY = (
        "bytes received by IP, TCP segments retransmitted and lost, timeouts, connections opened"
    )

    def __init__(self) -> None:
        folder = Path("/proc/net")
        self._files = open_existing({name: folder / name for name in ("snmp", "netstat")})
        self._ip6: KernelFile | None = None
        # A host without IPv6 has none.
        with contextlib.suppress(AbsentError):
            self._ip6 = KernelFile(folder / "snmp6")

    def read(self) -> Iterator[tuple[str, str, float]]:
        of_ip6 = self._read_ip6()
        for file in self._files.values():
            lines = file.read().splitlines()
            # Each group has two lines: its names, then its values.
            for names, values in zip(lines[::2], lines[1::2], strict=False):
                group, *keys = names.split()
                wanted = WANTED.get(group.rstrip(":"))
                if wanted is None:
                    continue
                for key, value in zip(keys, values.split()[1:], strict=False):
                    if key in wanted:
                        more = of_ip6 if wanted[key] == IP_RECEIVED else 0.0
                        yield "", wanted[key], float(value) + more

    def _read_ip6(self) -> float:
        lines = self._ip6.read().splitlines() if self._ip6 is not None else ()
        return next(
            (float(line.split()[1]) for line in lines if line.startswith(IP6_RECEIVED)), 0.0
        )

    def close(self) -> None:
        for file in (*self._files.values(), self._ip6):
            if file is not None:
                file.close()
