"""Reads Arrow streams that may have been cut at any byte, and takes no more memory than they say.

loadstone's own streams hold their columns as they are in memory. A stream whose buffers are
compressed is not its own, and a short one could unpack to any size: it is refused.
"""

import struct
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc

from loadstone import regular_file
from loadstone.errors import ResultError

BATCH_BYTES_MAX = 1024 * regular_file.MIB
"""A second of ten million requests, one by one, stays below it."""

NOT_OURS = "the file was not written by loadstone; take the one that it wrote"

# Places in Arrow's Message.fbs: the header of a message, and the compression of a record batch.
_HEADER, _COMPRESSION = 2, 3


def read_stream(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the whole batches of a stream that may have been cut at any byte."""
    # Not mapped into memory: the writer of the stream may cut it back while it is read here.
    with pa.OSFile(str(path)) as source:
        yield from _whole_batches(path, source)


def read_compressed(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the whole batches of a stream inside zstd that may have been cut at any byte."""
    try:
        with pa.OSFile(str(path)) as file, pa.CompressedInputStream(file, "zstd") as source:
            yield from _whole_batches(path, source)
    except OSError as error:
        raise ResultError(f'cannot read "{path}": {first_line(error)}') from error


def first_line(error: BaseException) -> str:
    """Return what an error of Arrow says, without the places in its code."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def _whole_batches(path: Path, source: pa.NativeFile) -> Iterator[pa.RecordBatch]:
    # Where a stream was cut, pyarrow names it an invalid one, or an error of reading.
    cut = (StopIteration, pa.ArrowInvalid, OSError, struct.error)
    try:
        messages = pa.ipc.MessageReader.open_stream(pa.PythonFile(_Bounded(path, source), "r"))
        schema = pa.ipc.read_schema(messages.read_next_message())
    except cut:
        return
    while True:
        try:
            message = messages.read_next_message()
            if _is_compressed(message.metadata):
                raise ResultError(
                    f'cannot read "{path}": its columns are compressed inside the stream', NOT_OURS
                )
            batch = pa.ipc.read_record_batch(message, schema)
        except cut:
            return
        yield batch


class _Bounded:
    """A stream that gives no more at once than a batch may have: Arrow asks for one at a time."""

    closed = False

    def __init__(self, path: Path, source: pa.NativeFile) -> None:
        self._path = path
        self._source = source

    def read(self, size: int) -> bytes:
        if size > BATCH_BYTES_MAX:
            raise ResultError(
                f'cannot read "{self._path}": a batch of it unpacks to more than '
                f"{BATCH_BYTES_MAX // regular_file.MIB} MiB",
                NOT_OURS,
            )
        return self._source.read(size)  # type: ignore[no-any-return]

    def close(self) -> None:
        """Leave the source to who opened it."""


def _is_compressed(metadata: pa.Buffer) -> bool:
    (root,) = struct.unpack_from("<I", metadata)
    header = _field(metadata, root, _HEADER)
    if header is None:
        return False
    (below,) = struct.unpack_from("<I", metadata, header)
    return _field(metadata, header + below, _COMPRESSION) is not None


def _field(metadata: pa.Buffer, table: int, number: int) -> int | None:
    """Return where a field of a table of FlatBuffers is, or None if the table lacks it."""
    (back,) = struct.unpack_from("<i", metadata, table)
    (size,) = struct.unpack_from("<H", metadata, table - back)
    slot = 4 + 2 * number
    if slot >= size:
        return None
    (offset,) = struct.unpack_from("<H", metadata, table - back + slot)
    return table + offset if offset else None
