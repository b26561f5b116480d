"""What loadstone uses of `pyarrow.ipc`."""

from types import TracebackType
from typing import Protocol, Self

from pyarrow import NativeFile, RecordBatch, Schema, Table
from typing_extensions import Buffer

class _Sink(Protocol):
    closed: bool

    def write(self, content: Buffer, /) -> int: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...

class RecordBatchFileWriter:
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
    def write_batch(self, batch: RecordBatch) -> None: ...

class RecordBatchFileReader:
    schema: Schema
    num_record_batches: int

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
    def get_batch(self, i: int) -> RecordBatch: ...
    def read_all(self) -> Table: ...

def new_file(sink: _Sink, schema: Schema) -> RecordBatchFileWriter: ...
def open_file(source: bytes | NativeFile) -> RecordBatchFileReader: ...
