"""The interface of query engines."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

Row = Sequence[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """The address and credentials of a bucket."""

    name: str
    endpoint: str
    region: str
    access_key: str
    secret_key: str
    session_token: str | None = None

    @property
    def is_plain(self) -> bool:
        """Whether it is accessed without TLS."""
        return self.endpoint.startswith("http://")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """The place of a benchmark's tables: a directory, a bucket, or a database.

    `files` are the relative paths of each table's files, for tables in Parquet.
    """

    format: str
    partitions: int
    files: Mapping[str, Sequence[str]]
    directory: str | None = None
    bucket: Bucket | None = None
    database: str | None = None

    def paths(self, table: str) -> list[str]:
        """Return the files of a table, as local paths."""
        return [f"{self.directory}/{name}" for name in self.files[table]]

    def urls(self, table: str) -> list[str]:
        """Return the files of a table, as URLs of a bucket."""
        assert self.bucket is not None, "asked for only where there is one"
        return [f"s3://{self.bucket.name}/{name}" for name in self.files[table]]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineUse:
    """Resources that an engine used; None where unknown."""

    cpu_ns: int | None = None
    read_bytes: int | None = None
    reread_bytes: int | None = None
    spilled_bytes: int | None = None
    major_faults: int | None = None
    memory_stall_ns: int | None = None
    memory_peak_bytes: int | None = None
    received_bytes: int | None = None
    cores: int | None = None


class GoneError(Exception):
    """The program behind an engine has exited, so its process cannot be used any more."""


class Asked(Protocol):
    """Runs queries, one at a time."""

    def run(self, query: str) -> list[Row]:
        """Return all rows of a query's answer."""


class Engine(Protocol):
    """An engine in its own process. It may raise any exception.

    After a GoneError its process exits, and another one continues.

    An engine that `has_processes` works in child processes, in the same session.
    """

    has_processes: bool

    def open(self, tables: Tables, *, threads: int | None, memory_bytes: int | None) -> str:
        """Open the tables, with the engine's caches of data and results disabled.

        Returns the engine's version. An engine that is kept gets further tables by this, too.
        """

    def load(self, tables: Tables, source: str) -> None:
        """Write the tables in the engine's own format from Parquet below a directory."""

    def run(self, query: str) -> list[Row]:
        """Return all rows of a query's answer."""

    def beside(self) -> Asked:
        """Return an object that runs queries on the same open tables in another thread."""

    def account(self) -> EngineUse | None:
        """Return the engine's own counters for its last queries, if this process cannot measure
        them.

        They replace the measured values: this host's memory use says nothing about work elsewhere.
        """

    def close(self) -> None:
        """Release all resources."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkOptions:
    """Where Spark runs, additional libraries, and Spark's own settings."""

    master: str | None = None
    jars: str | None = None
    packages: Sequence[str] = ()
    conf: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAccess:
    """Access to a ClickHouse server, and the storage policy that puts tables on a target."""

    url: str
    user: str | None = None
    password: str | None = None
    policy: str | None = None


EngineSettings = SparkOptions | ServerAccess | None
"""Most engines have none."""
