"""Follows an Arrow stream that another process appends to: each call reads only what is new."""

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc

from loadstone import regular_file


class StreamFollower:
    """Remembers how far a stream was read, by whole batches."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0
        self._inode = -1
        self._schema: pa.Schema | None = None

    def new_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches that came since; a stream that is not there, or is cut, yields less."""
        try:
            size = regular_file.check(self.path)
            inode = os.stat(self.path).st_ino
            if size < self._offset or inode != self._inode:
                self._offset, self._schema, self._inode = 0, None, inode
            with pa.OSFile(str(self.path)) as source:
                source.seek(self._offset)
                if self._schema is None:
                    self._schema = pa.ipc.read_schema(pa.ipc.read_message(source))
                    self._offset = source.tell()
                while True:
                    message = pa.ipc.read_message(source)
                    batch = pa.ipc.read_record_batch(message, self._schema)
                    batch.validate(full=True)
                    self._offset = source.tell()
                    yield batch
        except (OSError, EOFError, pa.ArrowException):
            # The rest has not been written yet; the next call begins where this one ended.
            return
