"""What TCP had to do again or gave up, over the whole host."""

from collections.abc import Iterator
from pathlib import Path

from loadstone.probes.proc import open_existing

WANTED = {
    "Tcp": {
        "ActiveOpens": "connections_opened",
        "AttemptFails": "connections_failed",
        "EstabResets": "connections_reset",
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
    },
}


class Tcp:
    """Reads /proc/net/snmp and /proc/net/netstat."""

    SUMMARY = "TCP segments repeated, timeouts, connections opened and lost"

    def __init__(self) -> None:
        folder = Path("/proc/net")
        self._files = open_existing({name: folder / name for name in ("snmp", "netstat")})

    def read(self) -> Iterator[tuple[str, str, float]]:
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
                        yield "", wanted[key], float(value)

    def close(self) -> None:
        for file in self._files.values():
            file.close()
