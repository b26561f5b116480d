"""Requests, bytes and times of each local disk."""

import os
from collections.abc import Iterator
from pathlib import Path

from loadstone.probes.proc import KernelFile

BLOCK = Path("/sys/block")
SECTOR_BYTES = 512
# Columns of /proc/diskstats after the name, from the kernel's documentation.
COLUMNS = {
    0: ("reads", 1),
    2: ("read_bytes", SECTOR_BYTES),
    3: ("read_ns", 1_000_000),
    4: ("writes", 1),
    6: ("written_bytes", SECTOR_BYTES),
    7: ("write_ns", 1_000_000),
    8: ("in_flight", 1),
    10: ("queued_ns", 1_000_000),
}


class Disk:
    """Reads /proc/diskstats."""

    SUMMARY = "requests, bytes and waiting of each local disk"

    def __init__(self) -> None:
        self._file = KernelFile("/proc/diskstats")
        # Partitions are listed too, and would be counted in addition to their disks.
        self._disks = set(os.listdir(BLOCK)) if BLOCK.is_dir() else None

    def read(self) -> Iterator[tuple[str, str, float]]:
        for line in self._file.read().splitlines():
            _, _, name, *values = line.split()
            if self._disks is not None and name not in self._disks:
                continue
            # Skips disks that were never used, to save rows.
            if name.startswith(("loop", "ram")) or not (int(values[0]) or int(values[4])):
                continue
            for column, (metric, factor) in COLUMNS.items():
                yield name, metric, float(values[column]) * factor

    def close(self) -> None:
        self._file.close()
