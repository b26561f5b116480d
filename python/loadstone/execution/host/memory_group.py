"""Limits the memory of a run by a control group, as a campaign's `limits` require.

The process moves into a new group and back at the end. Memory that it held before stays charged to
its old group, so the limit covers only what the run allocates from then on. Control groups of
version 1 are used if they have the memory controller, otherwise version 2. At the limit the kernel
kills the process; trials that had ended are safe, and a watcher outside the group reports the kill
(`memory_watch.py`).
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from loadstone import units
from loadstone.documents.manifest import MemoryUse
from loadstone.errors import InputError

PROC = Path("/proc/self")
HINT = (
    "run it under systemd-run --scope -p MemoryMax=… , or as root where control groups can be"
    " written; without limits, the probes record the memory in use"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Files:
    """Names of the files in one version of control groups."""

    limit: str
    swap: str | None
    peak: str
    events: str
    kills: str


VERSION_1 = _Files(
    limit="memory.limit_in_bytes",
    swap="memory.memsw.limit_in_bytes",
    peak="memory.max_usage_in_bytes",
    events="memory.failcnt",
    kills="memory.oom_control",
)
VERSION_2 = _Files(
    limit="memory.max",
    swap="memory.swap.max",
    peak="memory.peak",
    events="memory.events",
    kills="memory.events",
)


@dataclass(slots=True, kw_only=True)
class MemoryGroup:
    """The control group of a run."""

    folder: Path
    files: _Files
    limit_bytes: int

    def use(self) -> MemoryUse:
        """Return the limit and the memory used under it, for the manifest."""
        return {
            "memory_bytes": self.limit_bytes,
            "memory_peak_bytes": self._read(self.files.peak, None),
            "memory_limit_hits": self._read(
                self.files.events, None if self.files is VERSION_1 else "max"
            ),
        }

    def kills(self) -> int:
        """Return how many processes in the group the kernel has killed for lack of memory."""
        return self._read(self.files.kills, "oom_kill") or 0

    def remove(self) -> None:
        """Remove the group, unless it still contains processes."""
        with contextlib.suppress(OSError):
            self.folder.rmdir()

    def _read(self, name: str, key: str | None) -> int | None:
        """Return a number from a file, or from one line of it; None if this kernel lacks it."""
        try:
            words = (self.folder / name).read_text().split()
        except OSError:
            return None
        at = 0 if key is None else words.index(key) + 1 if key in words else len(words)
        return int(words[at]) if at < len(words) and words[at].isdigit() else None


ENDED = b"ended"
"""The message of a run to its watcher at its end."""


def group_at(folder: Path, limit_bytes: int) -> MemoryGroup:
    """Return a group that exists already."""
    files = VERSION_1 if (folder / VERSION_1.limit).exists() else VERSION_2
    return MemoryGroup(folder=folder, files=files, limit_bytes=limit_bytes)


@contextlib.contextmanager
def limited(limit_bytes: int, name: str, run: Path, proc: Path = PROC) -> Iterator[MemoryGroup]:
    """Run the block with this process in a group with limited memory.

    If the kernel kills the process, a watcher records that in the folder `run`.
    """
    origin, parent, files = _own_group(proc)
    folder = parent / f"loadstone-{name}"
    pid = str(os.getpid())
    group = MemoryGroup(folder=folder, files=files, limit_bytes=limit_bytes)
    # An old group, left by a run that was killed together with its watcher.
    group.remove()
    try:
        folder.mkdir()
    except OSError as error:
        raise _refusal(limit_bytes, f'make control group "{folder}"', error) from error
    with contextlib.ExitStack() as stack:
        stack.callback(group.remove)
        try:
            (folder / files.limit).write_text(str(limit_bytes))
            if files.swap is not None and (folder / files.swap).exists():
                (folder / files.swap).write_text(str(0 if files is VERSION_2 else limit_bytes))
            stack.enter_context(_watched(group, run))
            (folder / "cgroup.procs").write_text(pid)
        except OSError as error:
            raise _refusal(limit_bytes, f'limit control group "{folder}"', error) from error
        stack.callback((origin / "cgroup.procs").write_text, pid)
        yield group


@contextlib.contextmanager
def _watched(group: MemoryGroup, run: Path) -> Iterator[None]:
    """Start a process that reports whether this one was killed."""
    command = [sys.executable, "-m", "loadstone.execution.host.memory_watch"]
    command += [str(group.folder), str(run), str(group.limit_bytes)]
    # A session of its own keeps Ctrl-C away from the watcher.
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as watcher:
        try:
            yield
        finally:
            watcher.communicate(ENDED)


def _refusal(limit_bytes: int, what: str, error: OSError) -> InputError:
    wanted = f"limits: memory: {units.format_bytes(limit_bytes)}"
    return InputError(f"{wanted}: {what}: {error.strerror}", HINT)


def _own_group(proc: Path) -> tuple[Path, Path, _Files]:
    """Return the process's group, the parent folder for a new group, and the names of its files."""
    groups = [line.split(":", 2) for line in (proc / "cgroup").read_text().splitlines()]
    for _, controllers, path in groups:
        if "memory" in controllers.split(","):
            group = _mounted(proc, "cgroup", "memory", path)
            if group is not None:
                return group, group, VERSION_1
    for _, controllers, path in groups:
        if controllers == "":
            group = _mounted(proc, "cgroup2", None, path)
            if group is not None and _has_memory(group):
                # A version 2 group with processes cannot have child groups, so the new one becomes
                # its sibling.
                at_top = not (group / "cgroup.type").exists()
                return group, group if at_top else group.parent, VERSION_2
    raise InputError(
        "limits: memory: this host has no control groups with a memory controller", HINT
    )


def _has_memory(group: Path) -> bool:
    with contextlib.suppress(OSError):
        return "memory" in (group / "cgroup.controllers").read_text().split()
    return False


def _mounted(proc: Path, kind: str, controller: str | None, path: str) -> Path | None:
    """Return the folder of a group, found by the mount that contains it."""
    for line in (proc / "mountinfo").read_text().splitlines():
        fields, _, source = line.partition(" - ")
        words, of = fields.split(), source.split()
        if of[0] != kind or (controller is not None and controller not in of[-1].split(",")):
            continue
        root, mount = words[3], Path(words[4])
        if root != "/" and not (path == root or path.startswith(f"{root}/")):
            # In a container the mount may start at a group that the path does not name.
            return mount
        folder = mount / path.removeprefix("" if root == "/" else root).lstrip("/")
        return folder if folder.exists() else mount
    return None
