"""The Python interface of the load generator, which is written in Rust (crates/loadgen)."""

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, final

from loadstone.documents.load_event import LoadEvent
from loadstone.errors import Kind

__all__ = [
    "ACTIONS",
    "ACTION_KINDS_MAX",
    "INTERVALS",
    "IS_RELEASE_BUILD",
    "LIST",
    "PROBES",
    "REQUESTS",
    "TARGET_ERROR_KINDS",
    "Asker",
    "Control",
    "Histogram",
    "NullServer",
    "ParquetEncoder",
    "Schema",
    "Store",
    "StreamEncoder",
    "StreamReader",
    "Table",
    "TargetError",
    "TooLargeError",
    "__version__",
    "absent_secret",
    "blot",
    "bucket_name",
    "check",
    "drivers",
    "file_named",
    "foreign_line",
    "from_environment",
    "is_harmless_header",
    "is_in_kernel_folder",
    "judge_history",
    "keep_secrets",
    "list_facts",
    "list_objects",
    "longest_sealed",
    "on_clock",
    "operations",
    "plain",
    "profile_commands",
    "read_target",
    "run_trial",
    "sealed_bytes",
    "variable_named",
    "volume_of",
]

__version__: str
IS_RELEASE_BUILD: bool
ACTION_KINDS_MAX: int
INTERVALS: Schema
ACTIONS: Schema
PROBES: Schema
REQUESTS: Schema
LIST: Schema

TARGET_ERROR_KINDS: Sequence[str]

class TargetError(Exception):
    """The target, its credentials or its buckets do not meet the requirements before load
    starts.
    """

    message: str
    hint: str | None
    kind: Kind

class TooLargeError(ValueError):
    """A table unpacks to more than the limit, so loadstone did not write it."""

@final
class Asker:
    """Sends single requests to a target, one after another or several at once; not for load.

    A request and an answer are JSON (`RawRequest` and `RawAnswer` in crates/loadgen) and a body.
    """

    def __new__(cls, trial_json: str) -> Asker: ...
    def ask(
        self, requests: Sequence[tuple[str, bytes]], timeout_s: float
    ) -> list[tuple[str, bytes]]:
        """Send requests concurrently, each over its own connection; return the answers in order."""

    def head(self, request_json: str, body: bytes) -> bytes:
        """Return the head of a request, which the caller sends over its own connection."""

@final
class Schema:
    """The columns of a table; crates/record defines those of a record's tables."""

    def __new__(cls, source: object) -> Schema: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    @property
    def names(self) -> list[str]:
        """The names of the columns."""

    def select(self, names: Sequence[str]) -> Schema:
        """Return a schema with these columns, in this order; KeyError for an unknown one."""

    def of_rows(self, rows: Sequence[Mapping[str, object]]) -> Table:
        """Return a table from rows, dicts keyed by column name; missing values are null."""

    def of_columns(self, columns: Sequence[Sequence[object]]) -> Table:
        """Return a table from columns, in the order of the schema."""

    def read_parquet(self, path: str | PathLike[str], bytes_max: int, rows_max: int) -> Table:
        """Read a Parquet file; TooLargeError if it has more rows, or unpacks to more bytes.

        ValueError if it is damaged or lacks a column; OSError if it cannot be read.
        """

    def __arrow_c_schema__(self) -> object: ...

@final
class Table:
    """Rows in memory; pyarrow, polars and DuckDB read them through Arrow's capsule interface."""

    def __new__(cls, source: object) -> Table: ...
    @staticmethod
    def concat(schema: Schema, tables: Sequence[Table]) -> Table:
        """Concatenate tables with the columns of a schema; without tables, the result is empty."""

    @staticmethod
    def unpack(bytes: bytes) -> Table:
        """Return the first rows of an Arrow stream; ValueError if there are none."""

    @property
    def num_rows(self) -> int:
        """The number of rows."""

    @property
    def column_names(self) -> list[str]:
        """The names of the columns."""

    @property
    def schema(self) -> Schema:
        """The columns."""

    def __len__(self) -> int: ...
    def __contains__(self, name: str, /) -> bool: ...
    def __getitem__(self, name: str, /) -> list[Any]:
        """Return the values of a column."""

    def kind(self, name: str) -> Literal["int64", "float64", "text", "bytes"]:
        """Return the type of a column's values."""

    def to_pylist(self) -> list[dict[str, Any]]:
        """Return the rows as dicts."""

    def packed(self, name: str) -> bytes:
        """Return a column of numbers as 64 bits each, in this host's byte order; a null is 0."""

    def coded(self, name: str) -> tuple[bytes, list[str | None]]:
        """Return a column of texts as packed indices into a list of its distinct values."""

    def pack(self) -> bytes:
        """Return the rows as the bytes of an Arrow stream."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...

@final
class StreamEncoder:
    """Encodes tables of one schema as the bytes of an Arrow stream, plain or compressed by zstd."""

    def __new__(cls, schema: Schema, *, is_packed: bool = False) -> StreamEncoder: ...
    def begin(self) -> bytes:
        """Return the beginning of the stream, before its first table."""

    def encode(self, table: Table) -> bytes:
        """Return a table's bytes; columns that are not in the schema are dropped."""

    def end(self) -> bytes:
        """Return the end of the stream; empty when called again."""

@final
class StreamReader:
    """Yields the whole batches of an Arrow stream that may be truncated at any byte."""

    def __new__(
        cls,
        path: str | PathLike[str],
        batch_bytes_max: int,
        *,
        is_packed: bool = False,
        offset: int = 0,
        schema: Schema | None = None,
    ) -> StreamReader: ...
    @staticmethod
    def of_descriptor(descriptor: int) -> StreamReader:
        """Read from a descriptor, such as a pipe's; the caller keeps its ownership."""

    @property
    def schema(self) -> Schema | None:
        """The schema, once it has been read."""

    @property
    def read_bytes(self) -> int:
        """Number of bytes of the whole batches read, relative to the start."""

    def __iter__(self) -> StreamReader: ...
    def __next__(self) -> Table: ...

@final
class ParquetEncoder:
    """Encodes tables of one schema as the bytes of a Parquet file, one row group at a time."""

    def __new__(cls, schema: Schema) -> ParquetEncoder: ...
    def encode(self, table: Table) -> bytes:
        """Add a table, and return the bytes finished so far."""

    def end(self) -> bytes:
        """Return the rest of the file; empty when called again."""

@final
class Control:
    """A handle for other threads and signal handlers to control a trial."""

    def __new__(cls) -> Control: ...
    def stop(self) -> None:
        """Stop the trial; it ends within a second and keeps its data."""

    def start(self, at_unix_ns: int) -> None:
        """Set the start of a waiting trial, in Unix nanoseconds of this host's clock."""

    def lease(self, seconds: float) -> None:
        """Interrupt the trial after this many seconds, unless the lease is renewed; 0 means never.

        An expired lease is not renewed. The summary reports it in `reason`.
        """

    def begin_turn(self, turn: int, doubts: bytes | None, lost: list[int]) -> None:
        """Start a turn, 1 or 2, of a script that several hosts run.

        `doubts` are the subjects that other hosts have in doubt, four bytes each, or None for all;
        `lost` are the portion numbers of hosts that had not ended the previous turn.
        """

@final
class Histogram:
    """Counts of nanoseconds, 1 to one hour, with three significant digits."""

    def __new__(cls) -> Histogram: ...
    def add(self, encoded: bytes) -> None:
        """Add an encoded (V2, compressed) histogram; ValueError if it is not valid."""

    def merge(self, other: Histogram) -> None:
        """Add the counts of another histogram."""

    def record(self, value_ns: int, count: int = 1) -> None:
        """Count one value, or the same value several times."""

    def quantile(self, quantile: float) -> int:
        """Return the upper edge of the bucket with the quantile (0 to 1), by nearest rank."""

    def at_ranks(self, ranks: list[int]) -> list[int]:
        """Return the upper edges of the buckets with the values of these ranks, in ascending
        order.
        """

    def count_at_or_below(self, value_ns: int) -> int:
        """Return how many values are at or below a value."""

    @property
    def count(self) -> int: ...
    @property
    def mean(self) -> float: ...
    @property
    def stdev(self) -> float: ...
    @property
    def min(self) -> int: ...
    @property
    def max(self) -> int: ...
    def buckets(self) -> tuple[list[int], list[int]]:
        """Return the upper edges of the non-empty buckets, and their counts."""

    def encode(self) -> bytes:
        """Return the compressed V2 encoding, which other HdrHistogram libraries read."""

    def pack(self) -> bytes:
        """Return the V2 encoding without compression, ten times as fast to write and read."""

    def __len__(self) -> int: ...

@final
class Store:
    """A running embedded store; it serves from its own threads until `stop`."""

    def __new__(cls, config_json: str) -> Store: ...
    @property
    def port(self) -> int: ...
    @property
    def address(self) -> str: ...
    @property
    def damage(self) -> list[str]: ...
    def stop(self) -> None:
        """Stop it; a second call does nothing."""

@final
class NullServer:
    """A running server that stores nothing; it serves from its own threads until `stop`."""

    def __new__(cls, config_json: str) -> NullServer: ...
    @property
    def port(self) -> int: ...
    @property
    def address(self) -> str: ...
    def counters(self) -> dict[str, int]:
        """Return requests, connections, connections_open, bytes_received and bytes_sent."""

    def stop(self) -> None:
        """Stop it; a second call does nothing."""

def drivers(*, with_tests: bool = False) -> list[dict[str, Any]]:
    """Return the drivers with their operations, settings and facts."""

def read_target(text: str) -> tuple[str, tuple[str, str] | None] | None:
    """Return the driver for a target given as one word, and the setting that the word fills."""

def from_environment(driver: str, settings_json: str, environ: dict[str, str]) -> str:
    """Return, as JSON, settings from the environment that the target does not state."""

def absent_secret(driver: str, settings_json: str) -> tuple[str, str | None] | None:
    """Return the secret of a target that this host lacks, with a hint; None if it has all.

    No server is contacted and no command is run.
    """

def profile_commands(profile: str) -> list[str]:
    """Return the commands that are run on this host to get the keys of an AWS profile."""

def bucket_name(prefix: str, buckets: int, bucket: int) -> str:
    """Return the name of a bucket of a dataset with this many buckets."""

def longest_sealed(
    path: str | PathLike[str], sha256: str
) -> tuple[tuple[str, int], tuple[str, int]]:
    """Return the longest stored key with its bytes, and the longest file name.

    Over the keys in a script's file of subjects, with encrypted paths.
    """

def sealed_bytes(segment_bytes: int) -> int:
    """Return the length of a key's segment when it is stored with encrypted paths."""

def operations() -> list[dict[str, Any]]:
    """Return the operations."""

def blot(text: str, secrets: list[str]) -> str:
    """Return a text with secrets, and parts of them from eight bytes on, masked."""

def volume_of(path: PathLike[str]) -> str:
    """Return the file system of a directory, in the format of `on_volume`."""

def is_in_kernel_folder(path: PathLike[str]) -> bool:
    """Tell whether a path is below /dev, /proc or /sys, except /dev/shm."""

def foreign_line(text: str) -> str:
    """Return a target's message as one line without this process's secrets."""

def plain(text: str) -> str:
    """Return a text without terminal control characters; line breaks are kept."""

def variable_named(name: str) -> str:
    """Return a variable's name for a message, unless the name itself may be a secret."""

def file_named(path: str) -> str:
    """Return a file's name for an error message, unless the name itself may be a secret."""

def is_harmless_header(name: str) -> bool:
    """Tell whether the values of a header that a campaign adds are no secrets."""

def keep_secrets(variables: dict[str, str], files: dict[str, str]) -> None:
    """Store the values of `{env: NAME}` and `{file: PATH}` that a controller sent.

    They are only kept in memory, take precedence over this host's own, and replace earlier ones.
    """

def list_objects(trial_json: str, objects_max: int, on_page: Callable[[Table], object]) -> bool:
    """List the objects in a trial's single place whose keys begin with its prefix.

    `on_page` is called from this thread with tables of `LIST`, of `objects_max` rows in total at
    most. An exception in it ends the listing and is raised. Returns whether there are more objects.
    """

def list_facts(path: str | PathLike[str]) -> str:
    """Read a whole list of objects, and return its facts as JSON.

    `objects`, `bytes`, `size_bytes_min`, `size_bytes_max`, `without_size` and `with_etag`.
    ValueError if it is invalid, or has no objects.
    """

def check(trial_json: str) -> None:
    """Raise ValueError with every mistake of a trial document, one per line."""

def judge_history(trial_json: str) -> str:
    """Judge the histories that a trial names; return an audit's summary as JSON."""

def on_clock(calls: bytes, offset_ns: int, bound_ns: int) -> bytes:
    """Convert a history's calls to another clock, given the offset of their host's clock.

    Each call is widened by the bound of the offset. Raises ValueError for invalid calls.
    """

def run_trial(
    trial_json: str,
    on_event: Callable[[LoadEvent], object] | None = None,
    control: Control | None = None,
    *,
    holds: bool = False,
) -> str:
    """Run a trial and return its summary as JSON.

    `on_event` is called from this thread; an event has the kind and the fields of the message with
    which an agent forwards it (`hosts/messages.py`). An exception in it interrupts the trial and is
    raised at its end; if it is raised for an intent, nothing has been created. With `holds` the
    load waits when it is ready, until the time given to `control.start`.
    """
