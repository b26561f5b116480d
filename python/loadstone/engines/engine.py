"""The interface of query engines."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

Row = Sequence[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """Address and credentials of a bucket."""

    name: str
    endpoint: str
    region: str
    access_key: str
    secret_key: str
    session_token: str | None = None

    @property
    def is_plain(self) -> bool:
        """Whether it is reached without TLS."""
        return self.endpoint.startswith("http://")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """Where the tables of a benchmark are: below a directory, in a bucket, or in a database.

    `files` are the paths of each table's files below it, for tables kept as Parquet.
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
    """Resources that an engine used; None where they are not known."""

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
    """The program behind an engine has ended: its process cannot be used any more."""


class Asked(Protocol):
    """Runs queries, one at a time."""

    def run(self, query: str) -> list[Row]:
        """Return all rows of a query's answer."""


class Engine(Protocol):
    """One engine in its own process. An error of the engine is any exception it raises.

    After a GoneError its process ends, and another one goes on.

    One that `has_processes` does its work in others, which it starts in the same session.
    """

    has_processes: bool

    def open(self, tables: Tables, *, threads: int | None, memory_bytes: int | None) -> str:
        """Make the tables known, with the engine's caches of data and results off.

        Return the engine's version. An engine that is kept is given its next tables by this, too.
        """

    def load(self, tables: Tables, source: str) -> None:
        """Write the tables in the engine's own format from Parquet below a directory."""

    def run(self, query: str) -> list[Row]:
        """Return all rows of a query's answer."""

    def beside(self) -> Asked:
        """Return what runs queries of the same open tables in another thread, at the same time."""

    def account(self) -> EngineUse | None:
        """Return what the engine counted of its last queries, where this process cannot see it.

        It replaces what was seen: what this host's memory did says nothing of work elsewhere.
        """

    def close(self) -> None:
        """Let go of everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkOptions:
    """Where Spark runs, libraries for it, and settings of Spark's own."""

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
