"""Files that are read whole: regular ones, up to a size that memory holds.

A pipe would wait for ever and a device never end; both are named instead. Errors are those of the
operating system, so that a reader says them as it says that a file is not there.
"""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

MIB = 1024 * 1024


def check(path: Path) -> int:
    """Return the size in bytes of a regular file; raise OSError if it is none."""
    return _size(os.stat(path))


def read(path: Path, bytes_max: int) -> bytes:
    """Return what a regular file holds; raise OSError if it is none, or larger than allowed."""
    # Without O_NONBLOCK the open itself would wait for a writer of a pipe.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as stream:
        _size(os.fstat(descriptor))
        return read_stream(stream, bytes_max)


def read_stream(stream: BinaryIO, bytes_max: int) -> bytes:
    """Return what a stream holds to its end; raise OSError if that is more than allowed."""
    content = stream.read(bytes_max + 1)
    if len(content) > bytes_max:
        raise OSError(errno.EFBIG, f"it is larger than {bytes_max // MIB} MiB")
    return content


def _size(facts: os.stat_result) -> int:
    if stat.S_ISDIR(facts.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(facts.st_mode):
        raise OSError(errno.EINVAL, "it is no regular file")
    return facts.st_size
