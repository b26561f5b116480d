"""The whole surface of the load generator, which is written in Rust (crates/loadgen)."""

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
    """The target, its credentials or its buckets are not as they must be before load starts."""

    message: str
    hint: str | None
    kind: Kind

class TooLargeError(ValueError):
    """A table unpacks to more than is allowed: loadstone did not write it."""

@final
class Asker:
    """A target that is asked one request after another, or several at once; this is no load.

    A request and an answer are JSON (`RawRequest` and `RawAnswer` in crates/loadgen) and a body.
    """

    def __new__(cls, trial_json: str) -> Asker: ...
    def ask(
        self, requests: Sequence[tuple[str, bytes]], timeout_s: float
    ) -> list[tuple[str, bytes]]:
        """Send requests at once, each over a connection of its own; answers come in their order."""

    def head(self, request_json: str, body: bytes) -> bytes:
        """Return the head of a request, which the caller sends over a connection of its own."""

@final
class Schema:
    """The columns of a table, which crates/record tells of each table of a record."""

    def __new__(cls, source: object) -> Schema: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    @property
    def names(self) -> list[str]:
        """The names of the columns."""

    def select(self, names: Sequence[str]) -> Schema:
        """Return some of the columns, in the order of the names; KeyError for an unknown one."""

    def of_rows(self, rows: Sequence[Mapping[str, object]]) -> Table:
        """Return a table of rows, dicts by the names of columns; what they lack is null."""

    def of_columns(self, columns: Sequence[Sequence[object]]) -> Table:
        """Return a table of columns, in the order of the schema."""

    def read_parquet(self, path: str | PathLike[str], bytes_max: int, rows_max: int) -> Table:
        """Read a Parquet file; TooLargeError if it has more rows, or unpacks to more bytes.

        ValueError if it is damaged or lacks a column; OSError if it cannot be read.
        """

    def __arrow_c_schema__(self) -> object: ...

@final
class Table:
    """Rows in memory; pyarrow, polars and DuckDB take it by Arrow's capsule interface."""

    def __new__(cls, source: object) -> Table: ...
    @staticmethod
    def concat(schema: Schema, tables: Sequence[Table]) -> Table:
        """Put tables behind each other, with the columns of a schema; of none, it is empty."""

    @staticmethod
    def unpack(bytes: bytes) -> Table:
        """Return the first rows of an Arrow stream; ValueError if there are none."""

    @property
    def num_rows(self) -> int:
        """How many rows there are."""

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
        """Return of what kind a column's values are."""

    def to_pylist(self) -> list[dict[str, Any]]:
        """Return the rows as dicts."""

    def packed(self, name: str) -> bytes:
        """Return a column of numbers as 64 bits each, in this host's order; a null is 0."""

    def coded(self, name: str) -> tuple[bytes, list[str | None]]:
        """Return a column of texts as packed places in a list of its values, each once."""

    def pack(self) -> bytes:
        """Return the rows as the bytes of an Arrow stream."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...

@final
class StreamEncoder:
    """Turns tables of one schema into the bytes of an Arrow stream, plain or inside zstd."""

    def __new__(cls, schema: Schema, *, is_packed: bool = False) -> StreamEncoder: ...
    def begin(self) -> bytes:
        """Return what begins the stream, before its first table."""

    def encode(self, table: Table) -> bytes:
        """Return a table's bytes; columns that the stream does not know are dropped."""

    def end(self) -> bytes:
        """Return what ends the stream; nothing the second time."""

@final
class StreamReader:
    """Yields the whole batches of an Arrow stream that may be cut at any byte."""

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
        """Read from a descriptor, such as a pipe's, which stays its owner's."""

    @property
    def schema(self) -> Schema | None:
        """The schema, once it has been read."""

    @property
    def read_bytes(self) -> int:
        """How many bytes have been read whole, from where it began."""

    def __iter__(self) -> StreamReader: ...
    def __next__(self) -> Table: ...

@final
class ParquetEncoder:
    """Turns tables of one schema into the bytes of a Parquet file, a row group at a time."""

    def __new__(cls, schema: Schema) -> ParquetEncoder: ...
    def encode(self, table: Table) -> bytes:
        """Add a table, and return the bytes that have been finished by now."""

    def end(self) -> bytes:
        """Return the rest of the file; nothing the second time."""

@final
class Control:
    """The handle by which another thread, or a signal's handler, stops a trial."""

    def __new__(cls) -> Control: ...
    def stop(self) -> None:
        """Stop the trial; it ends within a second with what it has."""

    def start(self, at_unix_ns: int) -> None:
        """Tell a trial that waits for its start when to start, by this host's clock since 1970."""

    def lease(self, seconds: float) -> None:
        """Let the trial go on for so long from now, and interrupt it then; 0 is for ever.

        A lease that has run out is not renewed. The summary says so in `reason`.
        """

    def begin_turn(self, turn: int, doubts: bytes | None, lost: list[int]) -> None:
        """Have a script that several hosts run go on to a turn, 1 or 2.

        `doubts` are the subjects that other hosts have in doubt, four bytes each, or None for all;
        `lost` the hosts, by the numbers of their portions, that had not ended the turn before.
        """

@final
class Histogram:
    """Counts of nanoseconds, 1 to one hour, with three significant digits."""

    def __new__(cls) -> Histogram: ...
    def add(self, encoded: bytes) -> None:
        """Add an encoded (V2, compressed) histogram; ValueError if it is none."""

    def merge(self, other: Histogram) -> None:
        """Add the counts of another histogram."""

    def record(self, value_ns: int, count: int = 1) -> None:
        """Count one value, or the same value several times."""

    def quantile(self, quantile: float) -> int:
        """Return the upper edge of the bucket that holds the quantile, 0 to 1, by nearest rank."""

    def at_ranks(self, ranks: list[int]) -> list[int]:
        """Return the upper edges of the buckets with the values of these ranks, least first."""

    def count_at_or_below(self, value_ns: int) -> int:
        """Return how many values lie at or below a value."""

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
        """Return the upper edges of the buckets that hold something, and their counts."""

    def encode(self) -> bytes:
        """Return the compressed V2 encoding, which other HdrHistogram libraries read."""

    def pack(self) -> bytes:
        """Return the V2 encoding without compression: a tenth of the time to make and to read."""

    def __len__(self) -> int: ...

@final
class Store:
    """A running embedded store; it serves from threads of its own until `stop`."""

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
    """A running server that stores nothing; it serves from threads of its own until `stop`."""

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
    """Return the driver that one word for a target means, and the setting that the word fills."""

def from_environment(driver: str, settings_json: str, environ: dict[str, str]) -> str:
    """Return, as JSON, the settings that a target does not give and the environment does."""

def absent_secret(driver: str, settings_json: str) -> tuple[str, str | None] | None:
    """Return which secret of a target this host lacks, and what to do; None when it has all.

    No server is asked and no command is run.
    """

def profile_commands(profile: str) -> list[str]:
    """Return the commands that are run on this host to have the keys of an AWS profile."""

def bucket_name(prefix: str, buckets: int, bucket: int) -> str:
    """Return the name of a bucket of a dataset that has so many."""

def longest_sealed(
    path: str | PathLike[str], sha256: str
) -> tuple[tuple[str, int], tuple[str, int]]:
    """Return the key that is stored as the longest, with its bytes, and the longest name of a file.

    Of the keys of a script's file of subjects, where paths are encrypted.
    """

def sealed_bytes(segment_bytes: int) -> int:
    """Return how long a segment of a key is as it is stored where paths are encrypted."""

def operations() -> list[dict[str, Any]]:
    """Return the operations."""

def blot(text: str, secrets: list[str]) -> str:
    """Return a text with secrets, and parts of eight bytes and more of them, blotted out."""

def volume_of(path: PathLike[str]) -> str:
    """Return the file system that a directory lies on, in the words of `on_volume`."""

def is_in_kernel_folder(path: PathLike[str]) -> bool:
    """Tell whether what is made at a path would be below /dev, /proc or /sys, but for /dev/shm."""

def foreign_line(text: str) -> str:
    """Return what a target said as one line for people: without this process's secrets."""

def plain(text: str) -> str:
    """Return a text without characters that could steer a terminal; line breaks stay."""

def variable_named(name: str) -> str:
    """Return a variable's name for a message, unless it may be a secret in the name's place."""

def file_named(path: str) -> str:
    """Return a file's name for a message that it cannot be read, unless it may be a secret."""

def keep_secrets(variables: dict[str, str], files: dict[str, str]) -> None:
    """Keep the values of `{env: NAME}` and `{file: PATH}` that a controller sent.

    They are in memory alone, are found before this host's own, and replace those sent before.
    """

def list_objects(trial_json: str, objects_max: int, on_page: Callable[[Table], object]) -> bool:
    """List the objects of a trial's only place whose keys begin with its prefix.

    `on_page` is called from this thread with tables of `LIST`, of `objects_max` rows together at
    most. What it raises ends the listing and is raised again. Returns whether there are more.
    """

def list_facts(path: str | PathLike[str]) -> str:
    """Read a list of objects whole, and return what is true of it, as JSON.

    `objects`, `bytes`, `size_bytes_min`, `size_bytes_max`, `without_size` and `with_etag`.
    ValueError if it is none, or has no objects.
    """

def check(trial_json: str) -> None:
    """Raise ValueError with every mistake of a trial document, one a line."""

def judge_history(trial_json: str) -> str:
    """Judge the histories that a trial names; return what an audit's summary says as JSON."""

def on_clock(calls: bytes, offset_ns: int, bound_ns: int) -> bytes:
    """Return calls of a history by another clock, from which their host's differs by an offset.

    It is known to a bound, by which each call is widened. Raises ValueError for what is no calls.
    """

def run_trial(
    trial_json: str,
    on_event: Callable[[LoadEvent], object] | None = None,
    control: Control | None = None,
    *,
    holds: bool = False,
) -> str:
    """Run a trial and return its summary as JSON.

    `on_event` is called from this thread; an event has the kind and the fields of the message by
    which an agent sends it on (`hosts/messages.py`). What it raises interrupts the trial and is
    raised again at its end; when it raises for an intent, nothing has been made. With `holds` the
    load waits when all is ready, and `control.start` tells when it begins.
    """
