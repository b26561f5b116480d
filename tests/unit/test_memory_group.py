"""The control group around the load: entered, left, read, and refused where it cannot be made."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from loadstone.errors import InputError
from loadstone.execution.host.memory_group import limited

LIMIT = 256 * 2**20
PID = str(os.getpid())


class Tree:
    """A tree of control groups as the kernel would show it, whose files are plain ones."""

    def __init__(self, folder: Path, *, version: int) -> None:
        self.proc, self.mount = folder / "proc", folder / "mount"
        self.proc.mkdir()
        self.shell = self.mount / "user" / "shell"
        self.shell.mkdir(parents=True)
        (self.shell / "cgroup.procs").write_text("")
        (self.shell / "cgroup.type").write_text("domain")
        (self.shell / "cgroup.controllers").write_text("cpu memory")
        kind, of = ("cgroup", "memory") if version == 1 else ("cgroup2", "")
        (self.proc / "cgroup").write_text(f"{4 if version == 1 else 0}:{of}:/user/shell\n")
        self.say(f"31 23 0:28 / {self.mount} rw - {kind} {kind} rw,{of}")

    def say(self, mounts: str) -> None:
        (self.proc / "mountinfo").write_text(f"{mounts}\n")


@pytest.mark.parametrize(
    ("version", "names", "hits"),
    [
        (1, ("memory.limit_in_bytes", "memory.max_usage_in_bytes", "memory.failcnt"), "3"),
        (2, ("memory.max", "memory.peak", "memory.events"), "low 0\nmax 3\noom 0\n"),
    ],
)
def test_the_process_is_in_the_group_while_the_block_lasts(
    tmp_path: Path, version: int, names: tuple[str, str, str], hits: str
) -> None:
    tree = Tree(tmp_path, version=version)
    limit, peak, events = names
    with limited(LIMIT, "run", tmp_path / "run", tree.proc) as group:
        assert group.folder.parent == (tree.shell if version == 1 else tree.shell.parent)
        assert (group.folder / limit).read_text() == str(LIMIT)
        assert (group.folder / "cgroup.procs").read_text() == PID
        assert (tree.shell / "cgroup.procs").read_text() == ""
        (group.folder / peak).write_text("1234567\n")
        (group.folder / events).write_text(hits)
        use = {"memory_bytes": LIMIT, "memory_peak_bytes": 1234567, "memory_limit_hits": 3}
        assert group.use() == use
        (group.folder / peak).unlink()
        assert group.use() == use | {"memory_peak_bytes": None}
    assert (tree.shell / "cgroup.procs").read_text() == PID


def test_a_host_without_a_memory_controller_is_refused(tmp_path: Path) -> None:
    tree = Tree(tmp_path, version=2)
    (tree.shell / "cgroup.controllers").write_text("cpu io")
    with pytest.raises(InputError) as error, limited(LIMIT, "run", tmp_path / "run", tree.proc):
        pass
    assert "memory controller" in error.value.message
    assert error.value.hint is not None


def test_a_group_that_cannot_be_made_is_refused_with_the_reason(tmp_path: Path) -> None:
    tree = Tree(tmp_path, version=1)
    (tree.shell / "loadstone-run").write_text("in the way")
    with pytest.raises(InputError) as error, limited(LIMIT, "run", tmp_path / "run", tree.proc):
        pass
    assert str(tree.shell) in error.value.message
    assert (tree.shell / "cgroup.procs").read_text() == ""


ALONE = """
import sys
from pathlib import Path
from loadstone.errors import InputError
from loadstone.execution.host.memory_group import PROC, limited
before = (PROC / "cgroup").read_text()
try:
    with limited(int(sys.argv[1]), "test", Path(sys.argv[2]), PROC) as group:
        assert "loadstone-test" in (PROC / "cgroup").read_text()
        taken = bytearray(32 * 2**20)
        use = group.use()
        assert use["memory_peak_bytes"] is None or use["memory_peak_bytes"] >= len(taken)
    print("limited")
except InputError as error:
    assert "control group" in error.message
    print("refused")
assert (PROC / "cgroup").read_text() == before
"""
"""Runs in a process of its own: other tests may have grown this one far beyond the limit."""


def test_this_host_limits_or_says_why_not(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ALONE, str(LIMIT), str(tmp_path / "run")]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip() in ("limited", "refused")
