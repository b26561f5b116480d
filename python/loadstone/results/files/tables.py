"""Tables on disk: an Arrow stream while a trial runs, Parquet after its end."""

import contextlib
import errno
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from loadstone import regular_file
from loadstone._loadgen import (
    ParquetEncoder,
    Schema,
    StreamEncoder,
    StreamReader,
    Table,
    TooLargeError,
)
from loadstone.errors import ResultError
from loadstone.results.files import durable

STREAM_SUFFIX = ".arrows"
PARQUET_SUFFIX = ".parquet"
OPERATIONS_SUFFIX = ".arrow.zst"

# Enough for a day of one trial with four kinds of outcome.
TABLE_BYTES_MAX = 4096 * regular_file.MIB

ROWS_MAX = 1 << 63
"""For tables whose number of rows is only limited by their size in bytes."""

_PARQUET_MAGIC = b"PAR1"


class StreamWriter:
    """Appends tables to an Arrow IPC stream; each has reached the kernel when the call returns.

    Every table is one write, so that a kill between two calls leaves a readable stream; a write
    that fails halfway, as on a full disk, is truncated again.

    A packed stream is compressed by zstd, for logs that are large and rarely read.
    """

    def __init__(self, folder: Path, name: str, schema: Schema, *, is_packed: bool = False) -> None:
        """Create the file with this name below a folder; it must not exist."""
        self.path = folder / name
        self._folder, self._name = folder, name
        self._encoder = StreamEncoder(schema, is_packed=is_packed)
        self._good_bytes = 0
        with durable.writing(self.path):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            self._descriptor = durable.open_file(folder, name, flags)
        try:
            self._append(self._encoder.begin())
        except BaseException:
            self.close()
            raise

    def write(self, table: Table) -> None:
        """Append a table; columns that are not in the schema are dropped."""
        try:
            content = self._encoder.encode(table)
        except ValueError as error:
            raise ResultError(f'cannot write rows to "{self.path}": {error}') from error
        self._append(content)

    def finish(self) -> None:
        """Finish the stream, and sync it and its name."""
        self._append(self._encoder.end())
        with durable.writing(self.path):
            os.fsync(self._descriptor)
        self.close()
        durable.sync_name(self._folder, self._name)

    def close(self) -> None:
        """Close the stream; closing twice, or with a full disk, is harmless."""
        if self._descriptor < 0:
            return
        try:
            # A stream without its end mark is read like one whose writer was killed.
            with contextlib.suppress(ResultError):
                self._append(self._encoder.end())
        finally:
            os.close(self._descriptor)
            self._descriptor = -1

    def _append(self, content: bytes) -> None:
        with durable.writing(self.path):
            if self._descriptor < 0:
                raise OSError(errno.EBADF, "the stream is closed")
            rest = memoryview(content)
            try:
                while rest:
                    rest = rest[os.write(self._descriptor, rest) :]
            except OSError:
                os.ftruncate(self._descriptor, self._good_bytes)
                os.lseek(self._descriptor, self._good_bytes, os.SEEK_SET)
                raise
            self._good_bytes += len(content)


def convert_to_parquet(source: Path, folder: Path, name: str, schema: Schema) -> None:
    """Convert a stream to a Parquet file, one row group at a time, and put it in place."""
    encoder = ParquetEncoder(schema)
    with durable.replacing(folder, name) as stream:
        for table in read_stream(source):
            stream.write(encoder.encode(table))
        stream.write(encoder.end())


def read_table(
    path: Path | None,
    schema: Schema,
    columns: Sequence[str] | None = None,
    rows_max: int = ROWS_MAX,
) -> Table:
    """Read a table of either kind; a missing file is an empty table.

    A stream is read up to its last whole batch, ignoring anything after it. A Parquet file with
    more than `rows_max` rows is refused before decompression.
    """
    wanted = schema if columns is None else schema.select(list(columns))
    if path is None:
        return Table.concat(wanted, [])
    try:
        regular_file.check(path)
        if path.suffix == STREAM_SUFFIX:
            return Table.concat(wanted, list(read_stream(path)))
        return wanted.read_parquet(path, TABLE_BYTES_MAX, rows_max)
    except TooLargeError as error:
        raise ResultError(f'cannot read "{path}": {error}', NOT_OURS) from error
    except OSError as error:
        raise ResultError(f'cannot read "{path}": {error.strerror or error}') from error
    except ValueError as error:
        raise ResultError(f'cannot read "{path}": {_first_line(error)}') from error


def check_parquet(path: Path) -> None:
    """Raise ResultError if the file is missing, or does not end as Parquet files do."""
    try:
        regular_file.check(path)
        with open(path, "rb") as stream:
            size_bytes = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size_bytes - len(_PARQUET_MAGIC)))
            end = stream.read()
    except OSError as error:
        raise ResultError(f'cannot read "{path}": {error.strerror}') from error
    if end != _PARQUET_MAGIC:
        raise ResultError(f'"{path}" is cut off, or not a Parquet file ({size_bytes} bytes)')


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


BATCH_BYTES_MAX = 1024 * regular_file.MIB
"""Enough for a second with ten million logged requests."""

NOT_OURS = "the file was not written by loadstone; take the one that it wrote"


# loadstone's own streams are not compressed internally. A stream with compressed buffers is
# foreign, and could expand to any size, so it is refused.
def read_stream(path: Path, *, is_packed: bool = False) -> Iterator[Table]:
    """Yield the whole batches of a stream, plain or compressed by zstd."""
    try:
        yield from StreamReader(path, BATCH_BYTES_MAX, is_packed=is_packed)
    except OSError as error:
        raise ResultError(f'cannot read "{path}": {error.strerror or error}') from error
    except ValueError as error:
        raise ResultError(f'cannot read "{path}": {error}', NOT_OURS) from error
