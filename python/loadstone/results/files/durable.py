"""Files that survive a kill or a power cut at any moment, and the lock of a run folder."""

import contextlib
import errno
import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from loadstone.errors import ResultError

# A reader asks for the lock too, for some microseconds, to see whether a run is still going on.
# A writer therefore tries for a moment before it believes that another writer has it.
LOCK_PATIENCE_S = 0.2

SHARE = "LOADSTONE_SHARE"
"""Set to 1, run folders and their files may be read by whom the umask lets."""

_OUT_OF_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def make_folder(path: Path) -> None:
    """Make a folder that is its owner's alone, unless runs are shared; it may be there already.

    Its name is durable then: whatever is synced inside would otherwise be lost with it.
    """
    made = [one for one in (path, *path.parents) if not one.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=0o777 if _is_shared() else 0o700, exist_ok=True)
    for one in made:
        # A folder that we may write into but not read cannot be opened to be synced.
        with contextlib.suppress(PermissionError):
            _sync_folder(one.parent)


def open_private(path: str | Path, flags: int) -> int:
    """Open a file that, where this makes it, is its owner's alone, unless runs are shared."""
    return os.open(path, flags | os.O_CLOEXEC, 0o666 if _is_shared() else 0o600)


def _is_shared() -> bool:
    return os.environ.get(SHARE, "") not in ("", "0")


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an OSError of the block into a ResultError that names the file."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        message = f'cannot write "{path}": {reason}'
        if error.errno not in _OUT_OF_SPACE:
            raise ResultError(message) from error
        hint = "make room for it, then go on with: loadstone run CAMPAIGN --resume -o RUN"
        raise ResultError(message, hint, kind="no-space") from error


def write_file(path: Path, content: bytes) -> None:
    """Put a whole file in place: its readers see the old one or the new one, never a part."""
    with replacing(path) as stream:
        stream.write(content)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Yield a stream whose content takes the place of the file once the block has ended well."""
    draft = path.with_name(path.name + ".tmp")
    with writing(path):
        try:
            with open(draft, "wb", opener=open_private) as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(draft, path)
        except BaseException:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Put a JSON document in place, indented for people."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, indent=2)
    write_file(path, text.encode() + b"\n")


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    with writing(path):
        _sync_folder(path)


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class FolderLock:
    """Keeps two processes from writing one folder; the kernel drops it when its holder dies."""

    def __init__(self, path: Path) -> None:
        """Take the lock in the file `path`, or raise ResultError naming who holds it."""
        self._path = path
        with writing(path):
            self._descriptor = open_private(path, os.O_RDWR | os.O_CREAT)
        if not _lock_within(self._descriptor, LOCK_PATIENCE_S):
            holder = os.pread(self._descriptor, 200, 0).decode(errors="replace").strip()
            os.close(self._descriptor)
            self._descriptor = -1
            raise ResultError(
                f'run "{path.parent}" is being written by another process ({holder or "unknown"})',
                "wait until it ends, or choose another folder with -o",
                kind="run-in-use",
            )
        if not os.fstat(self._descriptor).st_nlink:
            # A run that left nothing behind removed its folder, and with it what is locked here.
            self.release()
            raise ResultError(
                f'run "{path.parent}" was removed by the process that began it', "try again"
            )
        with writing(path):
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"pid {os.getpid()} on {os.uname().nodename}\n".encode(), 0)

    def release(self) -> None:
        """Let others write; the file stays, since taking it away would race with them."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def is_locked(path: Path) -> bool:
    """Say whether a process holds the lock in the file `path`."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


def _lock_within(descriptor: int, patience_s: float) -> bool:
    give_up = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= give_up:
                return False
            time.sleep(0.01)
        else:
            return True
