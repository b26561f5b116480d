"""Reads whole regular files, up to a maximum size.

A pipe could block for ever and a device may be endless; both are refused. Errors are OSErrors, so
that a reader reports them like a missing file.
"""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

MIB = 1024 * 1024


def check(path: Path) -> int:
    """Return the size in bytes of a regular file; raise OSError for any other kind."""
    return _size(os.stat(path))


def read(path: Path, bytes_max: int) -> bytes:
    """Return the content of a regular file; raise OSError for another kind, or if it is too
    large.
    """
    # Without O_NONBLOCK opening a pipe would wait for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as stream:
        _size(os.fstat(descriptor))
        return read_stream(stream, bytes_max)


def read_stream(stream: BinaryIO, bytes_max: int) -> bytes:
    """Return the content of a stream up to its end; raise OSError if it is too large."""
    content = stream.read(bytes_max + 1)
    if len(content) > bytes_max:
        raise OSError(errno.EFBIG, f"it is larger than {bytes_max // MIB} MiB")
    return content


def _size(facts: os.stat_result) -> int:
    if stat.S_ISDIR(facts.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(facts.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")
    return facts.st_size
