"""Tables on disk: an Arrow stream while a trial runs, Parquet once it has ended."""

import contextlib
import errno
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.ipc

from loadstone import regular_file
from loadstone.errors import ResultError
from loadstone.results import durable
from loadstone.results.streams import NOT_OURS, first_line, read_stream

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

STREAM_SUFFIX = ".arrows"
PARQUET_SUFFIX = ".parquet"
OPERATIONS_SUFFIX = ".arrow.zst"

# Intervals carry histograms, so that rows are counted by what they weigh as well.
ROW_GROUP_ROWS = 65_536
ROW_GROUP_BYTES = 32 * 1024 * 1024

# A day of one trial with four kinds of outcome stays below it.
TABLE_BYTES_MAX = 4096 * regular_file.MIB

_END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"
_PARQUET_MAGIC = b"PAR1"


class StreamWriter:
    """Appends batches to an Arrow IPC stream; each is the kernel's when the call returns.

    Every batch is one write, so that a kill between two calls leaves a readable stream; a write
    that fails half way, as on a full disk, is taken back.
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.path = path
        self._schema = schema
        self._good_bytes = 0
        with durable.writing(path):
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            self._descriptor = durable.open_private(path, flags)
        try:
            self._append(memoryview(schema.serialize()))
        except BaseException:
            self.close()
            raise

    def write(self, batch: pa.RecordBatch) -> None:
        """Append a batch; columns that the schema does not know are dropped."""
        missing = [name for name in self._schema.names if name not in batch.schema.names]
        if missing:
            raise ResultError(f'batch for "{self.path}" lacks the columns {", ".join(missing)}')
        columns = [_as(batch.column(name), type_) for name, type_ in _fields(self._schema)]
        batch = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        self._append(memoryview(batch.serialize()))

    def close(self) -> None:
        """End the stream. Closing twice is harmless, and so is a disk that is full by now."""
        if self._descriptor < 0:
            return
        try:
            self._append(memoryview(_END_OF_STREAM))
        except ResultError:
            pass  # A stream without its end mark is read like one whose writer was killed.
        finally:
            os.close(self._descriptor)
            self._descriptor = -1

    def _append(self, content: memoryview) -> None:
        with durable.writing(self.path):
            if self._descriptor < 0:
                raise OSError(errno.EBADF, "the stream is closed")
            written = 0
            try:
                while written < len(content):
                    written += os.write(self._descriptor, content[written:])
            except OSError:
                os.ftruncate(self._descriptor, self._good_bytes)
                os.lseek(self._descriptor, self._good_bytes, os.SEEK_SET)
                raise
            self._good_bytes += written


class CompressedStream:
    """Appends batches to an Arrow IPC stream inside zstd, as `zstd -d` unpacks it.

    For logs that are large and read rarely. What a batch has become is flushed at once, so that
    a kill loses only what had not been written.
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.path = path
        with durable.writing(path):
            descriptor = durable.open_private(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            self._file = os.fdopen(descriptor, "wb", buffering=0)
            self._zstd = pa.CompressedOutputStream(self._file, "zstd")
            self._stream = pa.ipc.new_stream(self._zstd, schema)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append a batch."""
        with durable.writing(self.path):
            self._stream.write_batch(batch)
            self._zstd.flush()

    def finish(self) -> None:
        """End the stream and make it durable, its name too."""
        with durable.writing(self.path):
            self._stream.close()
            # Closing the zstd stream writes the end of its frame, and closes the file.
            descriptor = os.dup(self._file.fileno())
            try:
                self._zstd.close()
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        self.close()
        durable.sync_folder(self.path.parent)

    def close(self) -> None:
        """Close the stream as it is; closing twice is harmless, and so is a full disk."""
        for part in (self._stream, self._zstd, self._file):
            with contextlib.suppress(OSError, pa.ArrowException):
                part.close()


def convert_to_parquet(source: Path, destination: Path, schema: pa.Schema) -> None:
    """Write a stream's batches to a Parquet file, a row group at a time, and put it in place."""
    # Imported here and below: it brings TLS and file systems, which no load needs in memory.
    from pyarrow.parquet import ParquetWriter

    with durable.replacing(destination) as stream:
        writer = ParquetWriter(stream, schema, compression="zstd", write_page_checksum=True)
        try:
            for table in _row_groups(source, schema):
                writer.write_table(table, row_group_size=max(1, table.num_rows))
        finally:
            writer.close()
    # The next trial begins with what this one took for its pages.
    pa.default_memory_pool().release_unused()


def read_table(
    path: Path | None,
    schema: pa.Schema,
    columns: Sequence[str] | None = None,
    later: Sequence[str] = (),
    rows_max: int | None = None,
) -> pa.Table:
    """Read a table of either kind; no file at all is an empty table.

    A stream is read up to its last whole batch, whatever follows it. Columns that came `later` are
    empty where an earlier build wrote the table. A Parquet file with more than `rows_max` rows is
    refused before any of them is unpacked.
    """
    if path is None:
        return _select(schema.empty_table(), columns)
    try:
        regular_file.check(path)
        if path.suffix == STREAM_SUFFIX:
            batches = list(read_stream(path))
            whole = pa.Table.from_batches(batches) if batches else schema.empty_table()
            whole = _with(whole, schema, later)
            if not whole.schema.equals(schema):
                raise pa.ArrowInvalid("its columns are others")
            table = _select(whole, columns)
        else:
            # `read_table` would leave the file to threads of its own, which close it later; and to
            # share out so few rows among threads costs more than to read them.
            from pyarrow.parquet import ParquetFile

            with ParquetFile(path, page_checksum_verification=True, pre_buffer=False) as file:
                _check_rows(path, file.metadata.num_rows, rows_max)
                table = _read_bounded(path, file, columns)
        # Texts that are none, and offsets beyond their data, would show only where they are used.
        table.validate(full=True)
    except (OSError, pa.ArrowException) as error:
        raise ResultError(f'cannot read "{path}": {first_line(error)}') from error
    wanted = schema.names if columns is None else columns
    table = _with(table, schema, [name for name in later if name in wanted])
    missing = [name for name in wanted if name not in table.schema.names]
    if missing:
        raise ResultError(f'cannot read "{path}": it lacks the columns {", ".join(missing)}')
    return table


def _with(table: pa.Table, schema: pa.Schema, later: Sequence[str]) -> pa.Table:
    for name in later:
        if name not in table.schema.names:
            field = schema.field(name)
            table = table.append_column(field, pa.nulls(table.num_rows, field.type))
    return table


def _check_rows(path: Path, rows: int, rows_max: int | None) -> None:
    if rows_max is not None and rows > rows_max:
        raise ResultError(
            f'cannot read "{path}": it has {rows:,} rows, and a trial of its length at most'
            f" {rows_max:,}",
            NOT_OURS,
        )


def _read_bounded(path: Path, file: "ParquetFile", columns: Sequence[str] | None) -> pa.Table:
    """Read a Parquet file as far as memory allows: a short one can unpack to any size.

    A value may be as long as its column's piece of a row group unpacks to, and be repeated in every
    row; so many rows are read at once that even this stays within the bound.
    """
    facts = file.metadata
    groups = [facts.row_group(index) for index in range(facts.num_row_groups)]
    chunk_bytes = max((group.total_byte_size for group in groups), default=1)
    least_bytes = facts.num_rows * sum(
        _least_bits(field.type)
        for field in file.schema_arrow
        if columns is None or field.name in columns
    )
    if max(least_bytes // 8, sum(group.total_byte_size for group in groups)) > TABLE_BYTES_MAX:
        raise _too_large(path)
    rows = max(1, min(ROW_GROUP_ROWS, TABLE_BYTES_MAX // max(1, chunk_bytes)))
    batches, read_bytes = [], 0
    for batch in file.iter_batches(batch_size=rows, columns=columns, use_threads=False):
        read_bytes += batch.nbytes
        if read_bytes > TABLE_BYTES_MAX:
            raise _too_large(path)
        batches.append(batch)
    wanted = file.schema_arrow
    names = [name for name in columns or wanted.names if name in wanted.names]
    return pa.Table.from_batches(batches, pa.schema([wanted.field(name) for name in names]))


def _least_bits(kind: pa.DataType) -> int:
    """Return what a value of a column takes in memory at the least."""
    try:
        return int(kind.bit_width)
    except ValueError:
        # A text has an offset of four bytes.
        return 32


def _too_large(path: Path) -> ResultError:
    return ResultError(
        f'cannot read "{path}": it unpacks to more than {TABLE_BYTES_MAX // regular_file.MIB} MiB',
        NOT_OURS,
    )


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
        raise ResultError(f'"{path}" is cut off or no Parquet file ({size_bytes} bytes)')


def _row_groups(source: Path, schema: pa.Schema) -> Iterator[pa.Table]:
    batches: list[pa.RecordBatch] = []
    rows = size_bytes = 0
    for batch in read_stream(source):
        batches.append(batch)
        rows += batch.num_rows
        size_bytes += batch.nbytes
        if rows >= ROW_GROUP_ROWS or size_bytes >= ROW_GROUP_BYTES:
            yield pa.Table.from_batches(batches, schema)
            batches, rows, size_bytes = [], 0, 0
    if batches:
        yield pa.Table.from_batches(batches, schema)


def _fields(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    return [(field.name, field.type) for field in schema]


def _as(column: pa.Array, type_: pa.DataType) -> pa.Array:
    # A cast, also to the same type, imports the functions of Arrow, which no load needs in memory.
    return column if column.type.equals(type_) else column.cast(type_)


def _select(table: pa.Table, columns: Sequence[str] | None) -> pa.Table:
    return table if columns is None else table.select(list(columns))
