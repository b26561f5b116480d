"""Memory of the host, and whether it swaps or looks for free pages."""

from collections.abc import Iterator

from loadstone.probes.proc import KernelFile

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
        self._memory = KernelFile("/proc/meminfo")
        self._events = KernelFile("/proc/vmstat")

    def read(self) -> Iterator[tuple[str, str, float]]:
        for line in self._memory.read().splitlines():
            key, _, value = line.partition(":")
            if key in MEMORY:
                yield "", MEMORY[key], float(value.split()[0]) * 1024
        for line in self._events.read().splitlines():
            key, _, value = line.partition(" ")
            if key in EVENTS:
                yield "", EVENTS[key], float(value)

    def close(self) -> None:
        self._memory.close()
        self._events.close()
