"""Writes files that survive a kill or a power cut at any moment, and locks run folders.

A file is given by the folder that the user named, and by its name below it, such as
"trials/0001.json". The folder may come from a stranger: below it no link is followed, no existing
file is opened for writing, and drafts have unpredictable names.
"""

import contextlib
import errno
import fcntl
import io
import json
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from loadstone.errors import ResultError

# A reader briefly takes the lock to check whether a run is active. A writer therefore retries for a
# moment before it concludes that another writer holds the lock.
LOCK_PATIENCE_S = 0.2

SHARE = "LOADSTONE_SHARE"
"""If set to 1, the umask determines who may read run folders and their files."""

_OUT_OF_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

_DRAFT = re.compile(r"\.[0-9a-f]{16}\.tmp")
"""The suffix of a draft's name; earlier builds used just ".tmp"."""

_HOLDER = "pid {} on {}\n"
"""The content of a lock file: the current or last holder."""
_HOLDER_BYTES_MAX = 512

_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


def make_folder(path: Path) -> None:
    """Create a folder that only its owner can access, unless runs are shared; it may exist already.

    Its name is synced: otherwise everything synced inside could be lost with it.
    """
    made = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=_mode_of_folders(), exist_ok=True)
    for folder in made:
        # A folder with write but without read permission cannot be opened for syncing.
        with contextlib.suppress(PermissionError):
            _sync(folder.parent)


def make_folder_in(folder: Path, name: str) -> None:
    """Create a folder inside another; raise ResultError if a link or a file is in its place."""
    with writing(folder / name), _holding(folder, name) as (parent, last):
        with contextlib.suppress(FileExistsError):
            os.mkdir(last, mode=_mode_of_folders(), dir_fd=parent)
            with contextlib.suppress(PermissionError):
                _sync(".", parent)
        os.close(_open_folder(last, parent))


def open_file(folder: Path, name: str, flags: int) -> int:
    """Open a file below a folder without following links.

    A new file is accessible only to its owner, unless runs are shared.
    """
    with _holding(folder, name) as (parent, last):
        return _open(last, parent, flags)


def remove_file(folder: Path, name: str) -> None:
    """Remove a file below a folder, if it exists; for a link, the link itself."""
    with contextlib.suppress(FileNotFoundError), _holding(folder, name) as (parent, last):
        os.unlink(last, dir_fd=parent)


def remove_drafts(folder: Path) -> None:
    """Remove the drafts of killed writers from a folder and its subfolders."""
    with os.scandir(folder) as entries:
        names = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in names:
        with contextlib.suppress(OSError):
            inner = os.listdir(folder / name) if is_folder else ()
            for draft in filter(
                is_draft, (name, *(f"{name}/{draft_name}" for draft_name in inner))
            ):
                remove_file(folder, draft)


def is_draft(name: str) -> bool:
    """Tell whether a name is that of a draft, which is not in its final place yet."""
    return _DRAFT.search(name) is not None


@contextlib.contextmanager
def _holding(folder: Path, name: str) -> Iterator[tuple[int, str]]:
    """Yield a descriptor of the folder that contains a file, and the last part of its name.

    A descriptor stays valid when another process renames or replaces folders meanwhile.
    """
    *parents, last = name.split("/")
    if ".." in (*parents, last):
        raise OSError(errno.EINVAL, "its name leads out of the folder")
    descriptor = os.open(folder, _FOLDER)
    try:
        for parent in parents:
            inner = _open_folder(parent, descriptor)
            os.close(descriptor)
            descriptor = inner
        yield descriptor, last
    finally:
        os.close(descriptor)


def _open_folder(name: str, parent: int) -> int:
    try:
        return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=parent)
    except NotADirectoryError as error:
        # Also for a link, which would be ELOOP without O_DIRECTORY.
        raise OSError(errno.ELOOP, f'"{name}" is a symbolic link, or not a folder') from error


def _open(name: str, parent: int, flags: int, mode: int | None = None) -> int:
    # Without O_NONBLOCK opening a pipe would wait for its other end.
    flags |= os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    if mode is None:
        mode = 0o666 if _is_shared() else 0o600
    return os.open(name, flags, mode, dir_fd=parent)


def _is_shared() -> bool:
    return os.environ.get(SHARE, "") not in ("", "0")


def _mode_of_folders() -> int:
    return 0o777 if _is_shared() else 0o700


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Convert an OSError of the block to a ResultError that names the file."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _not_ours(path, "it is a symbolic link, or lies behind one") from error
        if error.errno == errno.EEXIST:
            why = "a file, or a symbolic link to nothing, has its name or that of its folder"
            raise ResultError(f'cannot write "{path}": {why}', "choose another name") from error
        reason = error.strerror or str(error)
        message = f'cannot write "{path}": {reason}'
        if error.errno not in _OUT_OF_SPACE:
            raise ResultError(message) from error
        hint = "make room for it"
        raise ResultError(message, hint, kind="no-space") from error


def _not_ours(path: Path, why: str) -> ResultError:
    return ResultError(
        f'cannot write "{path}": {why}',
        "loadstone did not make this file: the folder was changed, or comes from"
        " somebody else; to write"
        " to a copy of it, remove that file from the copy",
        kind="not-ours",
    )


def write_file(folder: Path, name: str, content: bytes) -> None:
    """Replace a whole file atomically: readers see the old content or the new, never a part."""
    with replacing(folder, name) as stream:
        stream.write(content)


@contextlib.contextmanager
def replacing(folder: Path, name: str, mode: int | None = None) -> Iterator[io.BufferedRandom]:
    """Yield a stream whose content replaces the file when the block succeeds.

    A new file gets the permissions `mode` without the umask, or those of a run's files.
    """
    with writing(folder / name), _holding(folder, name) as (parent, last):
        draft = f"{last}.{secrets.token_hex(8)}.tmp"
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
            with open(_open(draft, parent, flags, mode), "w+b") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(draft, last, src_dir_fd=parent, dst_dir_fd=parent)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(draft, dir_fd=parent)
            raise
        _sync(".", parent)


def write_json(folder: Path, name: str, document: Mapping[str, Any]) -> None:
    """Replace a file by an indented JSON document, atomically."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, indent=2)
    write_file(folder, name, text.encode() + b"\n")


def sync_name(folder: Path, name: str) -> None:
    """Sync the directory entry of a file."""
    with writing(folder / name), _holding(folder, name) as (parent, _):
        _sync(".", parent)


def _sync(folder: str | Path, parent: int | None = None) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=parent)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_changeable(descriptor: int, path: Path) -> None:
    """Refuse to change an open file that may belong to others or have other links.

    Raises ResultError with the reason. Not needed for a file that is replaced as a whole.
    """
    facts = os.fstat(descriptor)
    # With root squashing root's files belong to the same user as the folder.
    users = {os.geteuid(), path.parent.stat().st_uid}
    if not stat.S_ISREG(facts.st_mode):
        raise _not_ours(path, "it is not a regular file")
    if facts.st_nlink > 1:
        raise _not_ours(path, f"it has {facts.st_nlink} hard links, some of which may be elsewhere")
    if facts.st_uid not in users:
        raise _not_ours(path, f"it belongs to user {facts.st_uid}")


class FolderLock:
    """Prevents two processes from writing one folder; the kernel releases it when its holder
    dies.
    """

    def __init__(self, folder: Path, name: str) -> None:
        """Take the lock in a file of a folder, or raise ResultError naming its holder.

        A file with other content than a lock's is refused, and not changed.
        """
        self._descriptor = -1
        path = folder / name
        with writing(path):
            self._descriptor = open_file(folder, name, os.O_RDWR | os.O_CREAT)
        try:
            self._take(path)
        except BaseException:
            self.release()
            raise

    def _take(self, path: Path) -> None:
        with writing(path):
            check_changeable(self._descriptor, path)
        is_taken = _lock_within(self._descriptor, LOCK_PATIENCE_S)
        holder = os.pread(self._descriptor, _HOLDER_BYTES_MAX, 0)
        if not _may_be_holder(holder):
            raise _not_ours(path, "it does not contain a lock")
        if not is_taken:
            holder_name = holder.decode(errors="replace").strip()
            raise ResultError(
                f'run "{path.parent}" is being written by another process'
                f" ({holder_name or 'unknown'})",
                "wait until it ends, or choose another folder with -o",
                kind="run-in-use",
            )
        if not os.fstat(self._descriptor).st_nlink:
            # A run that left nothing behind removed its folder, and with it the file locked here.
            raise ResultError(
                f'run "{path.parent}" was removed by the process that began it', "try again"
            )
        with writing(path):
            os.ftruncate(self._descriptor, 0)
            holder = _HOLDER.format(os.getpid(), os.uname().nodename).encode()
            os.pwrite(self._descriptor, holder, 0)

    def release(self) -> None:
        """Release the lock; the file is kept, because removing it would race with other
        processes.
        """
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def is_locked(path: Path) -> bool:
    """Tell whether a process holds the lock in the file `path`."""
    try:
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(path, flags)
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


def _may_be_holder(content: bytes) -> bool:
    """Tell whether a lock file may have this content, which a crash may have truncated or
    zeroed.
    """
    begin = _HOLDER.partition("{")[0].encode()
    line, _, more = content.strip(b"\0").partition(b"\n")
    return (
        line[: len(begin)] == begin[: len(line)] and not more and len(content) < _HOLDER_BYTES_MAX
    )


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
