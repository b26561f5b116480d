"""Limits of the control group this process is in, and how often they held it back."""

from collections.abc import Iterator
from pathlib import Path

from loadstone.probes.proc import AbsentError, open_existing

ROOT = Path("/sys/fs/cgroup")
FILES = ("cpu.max", "cpu.stat", "memory.current", "memory.max", "memory.events")
CPU = {"nr_throttled": ("throttled", 1), "throttled_usec": ("throttled_ns", 1000)}


def own_folder() -> Path:
    """Return the folder of this process' group (version 2); AbsentError where there is none."""
    try:
        text = Path("/proc/self/cgroup").read_text(encoding="utf-8")
    except OSError as error:
        raise AbsentError(f"/proc/self/cgroup: {error.strerror}") from error
    for line in text.splitlines():
        if line.startswith("0::"):
            return ROOT / line[3:].lstrip("/")
    raise AbsentError("no control group of version 2")


class Cgroup:
    """Reads the group's files; the root group has none of them."""

    SUMMARY = "CPU and memory limits of the control group, and throttling"

    def __init__(self) -> None:
        folder = own_folder()
        self._files = open_existing({name: folder / name for name in FILES})

    def read(self) -> Iterator[tuple[str, str, float]]:
        for name, file in self._files.items():
            text = file.read().strip()
            match name:
                case "cpu.max":
                    quota, period = text.split()
                    if quota != "max":
                        yield "", "cores_max", int(quota) / int(period)
                case "memory.max":
                    if text != "max":
                        yield "", "memory_bytes_max", float(text)
                case "memory.current":
                    yield "", "memory_bytes", float(text)
                case "cpu.stat":
                    for line in text.splitlines():
                        key, _, value = line.partition(" ")
                        if key in CPU:
                            metric, factor = CPU[key]
                            yield "", metric, float(value) * factor
                case _:
                    for line in text.splitlines():
                        key, _, value = line.partition(" ")
                        if key in ("high", "max", "oom", "oom_kill"):
                            yield "", f"memory_events_{key}", float(value)

    def close(self) -> None:
        for file in self._files.values():
            file.close()
