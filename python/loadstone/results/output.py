"""Output files that users name: reports, pages, charts, scripts.

An existing file is replaced if loadstone wrote it and it is unchanged since: an attribute of
the file holds the SHA-256 of its content. If a file system has no attributes, the user must allow
the replacement.
"""

import contextlib
import hashlib
import os
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from loadstone import _loadgen
from loadstone.errors import InputError
from loadstone.results.files import durable
from loadstone.results.layout import LOCK, MANIFEST, TRIALS

ATTRIBUTE = "user.loadstone.sha256"


@contextlib.contextmanager
def writing_output(path: Path, *, may_overwrite: bool) -> Iterator[BinaryIO]:
    """Yield a stream to a file that the user named; raise InputError if it must not be written.

    The file is replaced when the block succeeds. A pipe or terminal is written to directly.
    """
    check_output(path, may_overwrite=may_overwrite)
    mode = path.stat().st_mode if path.exists() else None
    if mode is not None and not stat.S_ISREG(mode):
        with durable.writing(path), open(path, "wb") as stream:
            yield stream
        return
    # A link of the user's is kept: the file that it points to is replaced.
    place = Path(os.path.realpath(path))
    with durable.replacing(place.parent, place.name, 0o666) as stream:
        yield stream
        stream.flush()
        if mode is not None:
            os.fchmod(stream.fileno(), stat.S_IMODE(mode))
        stream.seek(0)
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
        with contextlib.suppress(OSError):
            os.setxattr(stream.fileno(), ATTRIBUTE, digest.encode())


def check_output(path: Path, *, may_overwrite: bool) -> None:
    """Refuse a file that loadstone must not write: InputError with the reason and a hint."""
    check_outside_runs(path)
    try:
        mode = path.stat().st_mode
    except FileNotFoundError as error:
        folder = Path(os.path.realpath(path)).parent
        if not folder.is_dir():
            # The folder is not created, because its name may be misspelt.
            hint = f"make it first: mkdir -p {shlex.quote(str(folder))}"
            raise _refused(path, f'there is no folder "{folder}"', hint) from error
        return
    except OSError as error:
        raise _refused(path, str(error.strerror)) from error
    if stat.S_ISDIR(mode):
        raise _refused(path, "it is a folder", "name a file in it")
    if stat.S_ISBLK(mode):
        raise _refused(path, "it is a disk", "name a file")
    if stat.S_ISREG(mode) and not may_overwrite and not is_as_written(path):
        raise _refused(
            path,
            "it exists, and loadstone did not write it, or somebody has changed it since",
            "choose another file, or replace it with --overwrite",
        )


def check_outside_runs(path: Path) -> None:
    """Refuse a path inside a run folder, or below a folder of the kernel such as /proc."""
    place = Path(os.path.realpath(path))
    for folder in place.parents:
        if (folder / MANIFEST).is_file() and any(
            (folder / name).exists() for name in (LOCK, TRIALS)
        ):
            raise _refused(
                path,
                f'it is inside the run "{folder}"',
                "a run folder contains only the measurement; choose another place",
            )
    if not path.exists() and _loadgen.is_in_kernel_folder(place):
        raise _refused(path, "there is no such device", "correct the path")


def is_as_written(path: Path) -> bool:
    """Tell whether a file is empty, or unchanged since loadstone wrote it."""
    try:
        with path.open("rb") as stream:
            if not stream.peek(1):
                return True
            noted = os.getxattr(stream.fileno(), ATTRIBUTE)
            return noted == hashlib.file_digest(stream, "sha256").hexdigest().encode()
    except OSError:
        return False


def _refused(path: Path, why: str, hint: str | None = None) -> InputError:
    return InputError(f'cannot write "{path}": {why}', hint, kind="not-ours")
