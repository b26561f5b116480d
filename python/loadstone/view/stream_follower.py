"""Follows an Arrow stream that another process appends to: each call reads only what is new."""

import os
from collections.abc import Iterator
from pathlib import Path

from loadstone import regular_file
from loadstone._loadgen import Schema, StreamReader, Table
from loadstone.results.files.streams import BATCH_BYTES_MAX


class StreamFollower:
    """Remembers how far a stream was read, by whole batches."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0
        self._inode = -1
        self._schema: Schema | None = None

    def new_batches(self) -> Iterator[Table]:
        """Yield the batches that came since; a stream that is not there, or is cut, yields less."""
        try:
            size = regular_file.check(self.path)
            inode = os.stat(self.path).st_ino
            if size < self._offset or inode != self._inode:
                self._offset, self._schema, self._inode = 0, None, inode
            reader = StreamReader(
                self.path, BATCH_BYTES_MAX, offset=self._offset, schema=self._schema
            )
        except OSError:
            return
        begin = self._offset
        # What has not been written whole is left: the next call begins where this one ended.
        for batch in reader:
            self._offset, self._schema = begin + reader.read_bytes, reader.schema
            yield batch
        self._offset, self._schema = begin + reader.read_bytes, reader.schema
