"""Time of each core by kind, in nanoseconds since the host started."""

import os
from collections.abc import Iterator

from loadstone.probes.proc import KernelFile

KINDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


class Cpu:
    """Reads /proc/stat."""

    SUMMARY = "time of each core by kind, which cores are allowed, context switches"

    def __init__(self) -> None:
        self._file = KernelFile("/proc/stat")
        self._tick_ns = 1e9 / os.sysconf("SC_CLK_TCK")

    def read(self) -> Iterator[tuple[str, str, float]]:
        # Load threads run only on these cores, so other cores are left out.
        for number in os.sched_getaffinity(0):
            yield str(number), "allowed", 1.0
        for line in self._file.read().splitlines():
            name, *values = line.split()
            if name.startswith("cpu"):
                # "cpu" alone is the sum over all cores.
                core = name[3:] or "all"
                for kind, value in zip(KINDS, values, strict=False):
                    yield core, f"{kind}_ns", int(value) * self._tick_ns
            elif name == "ctxt":
                yield "", "context_switches", float(values[0])
            elif name == "procs_running":
                yield "", "running", float(values[0])

    def close(self) -> None:
        self._file.close()
