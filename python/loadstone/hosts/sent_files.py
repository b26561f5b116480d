"""Files that trials name by SHA-256: a host requests them piece by piece, and caches them.

One piece is requested at a time. A file is not sent again until the agent exits, which removes its
folder. If an agent was killed, the next one removes its folder.
"""

import contextlib
import hashlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from loadstone.results.files import durable

PIECE_BYTES = 1 << 20
KEPT_BYTES_MAX = 4 << 30
"""Maximum size of the cache in bytes; files of earlier trials are deleted first."""

PREFIX = "loadstone-agent-"
LOCK = ".lock"

Ask = Callable[[str, int], tuple[int, bytes]]
"""Requests a file by its SHA-256 from an offset; returns its whole size and the piece there."""


def read_piece(path: Path, offset: int) -> tuple[int, bytes]:
    """Return the size of a file and the piece at an offset."""
    with open(path, "rb") as file:
        file.seek(offset)
        return os.fstat(file.fileno()).st_size, file.read(PIECE_BYTES)


class SentFiles:
    """The files that a host has received, in a folder of its agent."""

    def __init__(self, folder: Path, bytes_max: int = KEPT_BYTES_MAX) -> None:
        """Cache at most `bytes_max`, in a folder that is created with the first file."""
        self._folder = folder
        self._bytes_max = bytes_max

    def take(self, sha256: str, needed: Collection[str], ask: Ask) -> Path:
        """Return a file, requesting it if absent; `needed` files are never deleted.

        Raises ValueError if a different file arrives, or if it cannot be written.
        """
        if not re.fullmatch("[0-9a-f]{64}", sha256):
            raise ValueError(f'a file is named "{sha256}", which is not a SHA-256')
        path = self._folder / sha256
        if not path.exists():
            partial = path.with_suffix(".part")
            try:
                self._folder.mkdir(exist_ok=True)
                self._receive(partial, sha256, needed, ask)
                partial.rename(path)
            except InterruptedError:
                raise
            except OSError as error:
                raise ValueError(
                    f'write "{partial}": {error.strerror}\nhint: files of scripts are kept there:'
                    " make room, or name another folder in TMPDIR on that host"
                ) from error
            finally:
                with contextlib.suppress(OSError):
                    partial.unlink()
        return path

    def _receive(self, path: Path, sha256: str, needed: Collection[str], ask: Ask) -> None:
        size, piece = ask(sha256, 0)
        self._make_room(size, needed)
        digest, received = hashlib.sha256(), 0
        with open(path, "wb") as file:
            while piece and received < size:
                file.write(piece)
                digest.update(piece)
                received += len(piece)
                if received < size:
                    _, piece = ask(sha256, received)
        if received != size or digest.hexdigest() != sha256:
            raise ValueError(
                f"received {received} of {size} bytes of a script's file, with SHA-256"
                f" {digest.hexdigest()}, the trial names {sha256}"
            )

    def _make_room(self, size: int, needed: Collection[str]) -> None:
        sizes = {path: path.stat().st_size for path in self._folder.iterdir()}
        for path in sorted(sizes, key=lambda path: path.stat().st_mtime):
            if sum(sizes.values()) + size <= self._bytes_max:
                return
            if path.name not in needed:
                path.unlink()
                del sizes[path]
        if sum(sizes.values()) + size > self._bytes_max:
            raise ValueError(
                f"a script's files take {sum(sizes.values()) + size} bytes, a host keeps"
                f" {self._bytes_max} at most"
            )


@contextlib.contextmanager
def agent_folder() -> Iterator[str]:
    """Create the agent's folder for the duration of the context; remove those of killed agents.

    An agent holds a lock in its folder, which the kernel releases when the agent dies.
    """
    _remove_abandoned(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=PREFIX) as folder:
        # Renamed after it is locked, so that an agent that starts now does not consider it
        # abandoned.
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
            # A folder without a lock is just being created.
            if is_own and (folder / LOCK).exists() and not durable.is_locked(folder / LOCK):
                shutil.rmtree(folder, ignore_errors=True)
