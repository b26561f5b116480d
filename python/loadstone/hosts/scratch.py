"""The folder of an agent's carrier; the next agent removes it where one was killed."""

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from loadstone.results.files import durable

PREFIX = "loadstone-agent-"
LOCK = ".lock"


@contextlib.contextmanager
def scratch() -> Iterator[str]:
    """Make a folder for as long as the context lasts, and remove those of agents that were killed.

    An agent holds a lock in its folder, which the kernel drops when the agent dies.
    """
    _remove_abandoned(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=PREFIX) as folder:
        # It gets its name when it is locked: an agent that starts now would take it for abandoned.
        draft = f"{LOCK}.tmp"
        lock = durable.FolderLock(Path(folder), draft)
        Path(folder, draft).rename(Path(folder, LOCK))
        try:
            yield folder
        finally:
            lock.release()


def _remove_abandoned(parent: Path) -> None:
    for folder in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            facts = folder.lstat()
            is_own = stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid()
            # One that has no lock yet is being made.
            if is_own and (folder / LOCK).exists() and not durable.is_locked(folder / LOCK):
                shutil.rmtree(folder, ignore_errors=True)
