"""Reads Arrow streams that may have been cut at any byte, and takes no more memory than they say.

loadstone's own streams hold their columns as they are in memory. A stream whose buffers are
compressed is not its own, and a short one could unpack to any size: it is refused.
"""

from collections.abc import Iterator
from pathlib import Path

from loadstone import regular_file
from loadstone._loadgen import StreamReader, Table
from loadstone.errors import ResultError

BATCH_BYTES_MAX = 1024 * regular_file.MIB
"""A second of ten million requests, one by one, stays below it."""

NOT_OURS = "the file was not written by loadstone; take the one that it wrote"


def read_stream(path: Path, *, is_packed: bool = False) -> Iterator[Table]:
    """Yield the whole batches of a stream, plain or inside zstd."""
    try:
        yield from StreamReader(path, BATCH_BYTES_MAX, is_packed=is_packed)
    except OSError as error:
        raise ResultError(f'cannot read "{path}": {error.strerror or error}') from error
    except ValueError as error:
        raise ResultError(f'cannot read "{path}": {error}', NOT_OURS) from error
