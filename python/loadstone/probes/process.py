"""Resources of this process: CPU, memory, descriptors, and time spent waiting for a core."""

import os
from collections.abc import Iterator

from loadstone.probes.proc import AbsentError, KernelFile

STATUS = {
    "VmRSS": ("rss_bytes", 1024),
    "VmHWM": ("rss_bytes_max", 1024),
    "VmSwap": ("swapped_bytes", 1024),
    "Threads": ("threads", 1),
    "voluntary_ctxt_switches": ("switches_voluntary", 1),
    "nonvoluntary_ctxt_switches": ("switches_forced", 1),
}


class Process:
    """Reads /proc/self."""

    SUMMARY = "CPU, memory, faults, threads, descriptors and run delay of loadstone itself"

    def __init__(self) -> None:
        self._status = KernelFile("/proc/self/status")
        self._stat = KernelFile("/proc/self/stat")
        self._tick_ns = 1e9 / os.sysconf("SC_CLK_TCK")
        self._io: KernelFile | None
        try:
            self._io = KernelFile("/proc/self/io")
        except AbsentError:
            self._io = None

    def read(self) -> Iterator[tuple[str, str, float]]:
        # The name may contain spaces, so the line is split after its closing bracket.
        fields = self._stat.read().rpartition(")")[2].split()
        yield "", "user_ns", int(fields[11]) * self._tick_ns
        yield "", "system_ns", int(fields[12]) * self._tick_ns
        yield "", "major_faults", float(fields[9])
        for line in self._status.read().splitlines():
            key, _, value = line.partition(":")
            if key in STATUS:
                metric, factor = STATUS[key]
                yield "", metric, float(value.split()[0]) * factor
        yield "", "descriptors", float(len(os.listdir("/proc/self/fd")))
        yield "", "run_delay_ns", float(sum(self._run_delays()))
        if self._io is not None:
            for line in self._io.read().splitlines():
                key, _, value = line.partition(":")
                if key in ("read_bytes", "write_bytes"):
                    yield "", f"storage_{key}", float(value)

    def _run_delays(self) -> Iterator[int]:
        for task in os.listdir("/proc/self/task"):
            try:
                with open(f"/proc/self/task/{task}/schedstat", encoding="ascii") as file:
                    yield int(file.read().split()[1])
            except (OSError, IndexError):
                # The thread has ended between the listing and the reading.
                continue

    def close(self) -> None:
        for file in (self._status, self._stat, self._io):
            if file is not None:
                file.close()
