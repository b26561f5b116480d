"""Total time in which work stalled for lack of CPU, memory or I/O (the kernel's PSI).

Totals, because the kernel's moving averages would carry over from one phase into the next.
"""

from collections.abc import Iterator
from pathlib import Path

from loadstone.probes.proc import open_existing

RESOURCES = ("cpu", "memory", "io")


class Pressure:
    """Reads /proc/pressure."""

    SUMMARY = "time in which work waited for CPU, memory or I/O (PSI)"

    def __init__(self) -> None:
        self._files = open_existing({name: Path("/proc/pressure") / name for name in RESOURCES})

    def read(self) -> Iterator[tuple[str, str, float]]:
        for resource, file in self._files.items():
            for line in file.read().splitlines():
                kind, *pairs = line.split()
                # "cpu full" is always zero for a whole system.
                if (resource, kind) != ("cpu", "full"):
                    total = dict(pair.split("=") for pair in pairs)["total"]
                    yield resource, f"{kind}_ns", float(total) * 1000

    def close(self) -> None:
        for file in self._files.values():
            file.close()
