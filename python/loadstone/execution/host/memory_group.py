"""A control group around the load: it gets no more memory than a campaign's `limits` say.

The process moves into a group of its own and back out at the end. What it held before counts where
it was before: the limit is one of what the run takes from then on. Version 1 of control groups is
used where that has the memory controller, version 2 otherwise. Beyond the limit the kernel kills
the process; what had ended by then is safe, and a watcher outside the group says what happened
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
    " written; without limits the real use is in the probes"
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
    """The group that a run is in."""

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
        """Return how many processes the kernel has killed here for their memory."""
        return self._read(self.files.kills, "oom_kill") or 0

    def remove(self) -> None:
        """Remove the group, unless processes are still in it."""
        with contextlib.suppress(OSError):
            self.folder.rmdir()

    def _read(self, name: str, key: str | None) -> int | None:
        """Return a number of a file, or of one line of it; None where this kernel has it not."""
        try:
            words = (self.folder / name).read_text().split()
        except OSError:
            return None
        at = 0 if key is None else words.index(key) + 1 if key in words else len(words)
        return int(words[at]) if at < len(words) and words[at].isdigit() else None


ENDED = b"ended"
"""The message of a run to its watcher at its end."""


def group_at(folder: Path, limit_bytes: int) -> MemoryGroup:
    """Return a group that is there."""
    files = VERSION_1 if (folder / VERSION_1.limit).exists() else VERSION_2
    return MemoryGroup(folder=folder, files=files, limit_bytes=limit_bytes)


@contextlib.contextmanager
def limited(limit_bytes: int, name: str, run: Path, proc: Path = PROC) -> Iterator[MemoryGroup]:
    """Keep this process in a group with so much memory for as long as the block lasts.

    Should the kernel kill the process, a watcher says so in the folder `run`.
    """
    origin, parent, files = _own_group(proc)
    folder = parent / f"loadstone-{name}"
    pid = str(os.getpid())
    group = MemoryGroup(folder=folder, files=files, limit_bytes=limit_bytes)
    # Of a run that was killed together with its watcher.
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
    # In a session of its own, so that Ctrl-C is the run's alone.
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as watcher:
        try:
            yield
        finally:
            watcher.communicate(ENDED)


def _refusal(limit_bytes: int, what: str, error: OSError) -> InputError:
    wanted = f"limits: memory: {units.format_bytes(limit_bytes)}"
    return InputError(f"{wanted}: {what}: {error.strerror}", HINT)


def _own_group(proc: Path) -> tuple[Path, Path, _Files]:
    """Return the process's group, the folder that a new one is made in, and its files' names."""
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
                # A group of version 2 with processes has no groups below it: ours stands beside.
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
    """Return the folder of a group, by the mount that shows it."""
    for line in (proc / "mountinfo").read_text().splitlines():
        fields, _, source = line.partition(" - ")
        words, of = fields.split(), source.split()
        if of[0] != kind or (controller is not None and controller not in of[-1].split(",")):
            continue
        root, mount = words[3], Path(words[4])
        if root != "/" and not (path == root or path.startswith(f"{root}/")):
            # In a container the mount may begin at a group that the path does not name.
            return mount
        folder = mount / path.removeprefix("" if root == "/" else root).lstrip("/")
        return folder if folder.exists() else mount
    return None
