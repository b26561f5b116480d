"""Memory of the host, swapping, and page reclaim."""

from collections.abc import Iterator
from pathlib import Path

from loadstone.probes.proc import open_existing

MEMORY = {
    "MemTotal": "total_bytes",
    "MemAvailable": "available_bytes",
    "Dirty": "dirty_bytes",
    "Writeback": "writeback_bytes",
    "SwapTotal": "swap_bytes",
    "SwapFree": "swap_free_bytes",
}
EVENTS = {
    "pswpin": "swapped_in_pages",
    "pswpout": "swapped_out_pages",
    "pgmajfault": "major_faults",
}


class Memory:
    """Reads /proc/meminfo and /proc/vmstat."""

    SUMMARY = "memory available and dirty, swapping, major faults"

    def __init__(self) -> None:
        self._files = open_existing({name: Path("/proc") / name for name in ("meminfo", "vmstat")})

    def read(self) -> Iterator[tuple[str, str, float]]:
        for name, file in self._files.items():
            for line in file.read().splitlines():
                # "MemTotal:  16384 kB" in meminfo, "pswpin 0" in vmstat.
                key, value, *_ = line.split()
                if name == "meminfo" and key.rstrip(":") in MEMORY:
                    yield "", MEMORY[key.rstrip(":")], float(value) * 1024
                elif name == "vmstat" and key in EVENTS:
                    yield "", EVENTS[key], float(value)

    def close(self) -> None:
        for file in self._files.values():
            file.close()
