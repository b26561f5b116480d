"""Limits of this process's control group, and how often they throttled it.

Version 2 has one folder for all controllers. Controllers of version 1 have one folder each.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from loadstone.probes.proc import AbsentError, KernelFile, open_existing

ROOT = Path("/sys/fs/cgroup")
FILES = ("cpu.max", "cpu.stat", "memory.current", "memory.max", "memory.events")
CPU = {
    "nr_throttled": ("throttled", 1),
    "throttled_usec": ("throttled_ns", 1000),
    "throttled_time": ("throttled_ns", 1),
}
FILES_1 = {
    "cpu": ("cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.stat"),
    "memory": ("memory.usage_in_bytes", "memory.failcnt", "memory.stat"),
}
UNLIMITED_1 = 1 << 60
"""Version 1 states no limit as a number of bytes that no host has."""


def own_folder() -> Path:
    """Return the folder of this process's group (version 2); AbsentError if there is none."""
    try:
        text = Path("/proc/self/cgroup").read_text(encoding="utf-8")
    except OSError as error:
        raise AbsentError(f"/proc/self/cgroup: {error.strerror}") from error
    for line in text.splitlines():
        if line.startswith("0::"):
            return ROOT / line[3:].lstrip("/")
    raise AbsentError("no control group of version 2")


def own_folder_1(controller: str) -> Path | None:
    """Return the folder of this process's group of a controller of version 1, if any."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            _, names, path = line.split(":", 2)
            if controller in names.split(","):
                folder = ROOT / controller / path.lstrip("/")
                # A container sees its own group as the root, whatever its name is outside.
                return folder if folder.is_dir() else ROOT / controller
    return None


class Cgroup:
    """Reads the group's files; the root group has none of them."""

    SUMMARY = "CPU and memory limits of the control group, and throttling"

    def __init__(self) -> None:
        self._files: dict[str, KernelFile] = {}
        reason: AbsentError | None = None
        try:
            folder = own_folder()
            self._files = open_existing({name: folder / name for name in FILES})
        except AbsentError as error:
            reason = error
        for controller, names in FILES_1.items():
            older = own_folder_1(controller)
            if older is None or any(name.startswith(f"{controller}.") for name in self._files):
                continue
            with contextlib.suppress(AbsentError):
                self._files |= open_existing({name: older / name for name in names})
        if not self._files:
            raise reason or AbsentError("no control group")

    def read(self) -> Iterator[tuple[str, str, float]]:
        yield from self._quota_1()
        for name, file in self._files.items():
            text = file.read().strip()
            match name:
                case "cpu.cfs_quota_us" | "cpu.cfs_period_us":
                    continue
                case "cpu.max":
                    quota, period = text.split()
                    if quota != "max":
                        yield "", "cores_max", int(quota) / int(period)
                case "memory.max":
                    if text != "max":
                        yield "", "memory_bytes_max", float(text)
                case "memory.current" | "memory.usage_in_bytes":
                    yield "", "memory_bytes", float(text)
                case "memory.failcnt":
                    yield "", "memory_events_max", float(text)
                case "memory.stat":
                    yield from _limit_1(text)
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

    def _quota_1(self) -> Iterator[tuple[str, str, float]]:
        quota, period = (self._files.get(name) for name in FILES_1["cpu"][:2])
        if quota is not None and period is not None and int(quota.read()) > 0:
            yield "", "cores_max", int(quota.read()) / int(period.read())

    def close(self) -> None:
        for file in self._files.values():
            file.close()


def _limit_1(text: str) -> Iterator[tuple[str, str, float]]:
    """Yield the lowest limit of a group of version 1 and its ancestors."""
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        if key == "hierarchical_memory_limit" and int(value) < UNLIMITED_1:
            yield "", "memory_bytes_max", float(value)
