"""A ClickHouse server or cluster, by its URL: MergeTree on the storage policy of each target.

All reads happen in the server, so the resources of a query come from the server's log.
"""

import json
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from loadstone.engines.engine import EngineUse, Row, ServerAccess, Tables
from loadstone.engines.places import TablePlace
from loadstone.engines.tables import MARK, Mark, read_mark
from loadstone.errors import InputError, TargetError

CONNECT_MAX_S = 10
_MARK_TABLE = MARK.partition(".")[0].replace("-", "_")
_MADE_BY_US = "made by loadstone"
_CACHES = ("MARK CACHE", "UNCOMPRESSED CACHE", "FILESYSTEM CACHE")
_COUNTED = ("OSCPUVirtualTimeMicroseconds", "OSReadBytes", "ReadBufferFromS3Bytes")
"""Counters that are read from the query log."""


def check(access: ServerAccess, *, reads_buckets: bool) -> None:
    """Raise InputError if the server does not respond, or lacks a policy."""
    client = connect(access)
    try:
        policy = access.policy
        result_rows = client.query(
            "SELECT DISTINCT policy_name FROM system.storage_policies"
        ).result_rows
        names = [str(name) for (name,) in result_rows]
        if policy is not None and policy not in names:
            raise InputError(
                f'found storage policy "{policy}", {access.url} has: {", ".join(names)}',
                "a storage policy is set up in the server's own configuration",
            )
    finally:
        client.close()


def connect(access: ServerAccess) -> Any:
    """Return a client; raise InputError with the server's message."""
    import clickhouse_connect

    url = urlsplit(access.url)
    try:
        return clickhouse_connect.get_client(
            interface=url.scheme,
            host=url.hostname,
            port=url.port or (8443 if url.scheme == "https" else 8123),
            username=access.user or "default",
            password=access.password or "",
            connect_timeout=CONNECT_MAX_S,
            send_receive_timeout=24 * 3600,
            autogenerate_session_id=False,
        )
    except Exception as error:
        raise InputError(
            f"{access.url}: no answer of ClickHouse: {_first_line(error)}",
            "check the address, the user and the password of the engine's settings",
        ) from error


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]


class ClickHouseServer:
    """A client of a server."""

    has_processes = False

    def __init__(self, access: ServerAccess) -> None:
        """Store the campaign's settings."""
        self._access = access
        self._asked: dict[str, Any] = {}
        self._client: Any = None
        self._last: list[str] = []

    def open(self, tables: Tables, *, threads: int | None, memory_bytes: int | None) -> str:
        """Connect, with the server's result caches disabled."""
        self._client = connect(self._access)
        self._client.database = tables.database
        self._asked = {**STANDARD_SQL, **dict.fromkeys(CACHES_OFF, 0), "log_queries": 1}
        if threads is not None:
            self._asked["max_threads"] = threads
        if memory_bytes is not None:
            self._asked["max_memory_usage"] = memory_bytes
        return str(self._client.server_version)

    def load(self, tables: Tables, source: str) -> None:
        """Do nothing: the place itself writes the tables."""
        raise NotImplementedError

    def run(self, query: str) -> list[Row]:
        """Run a query and fetch all rows."""
        return _Client(self._client, self._asked, self._last).run(query)

    def beside(self) -> "_Client":
        """Return a separate client, whose queries are counted with the others."""
        client = connect(self._access)
        client.database = self._client.database
        return _Client(client, self._asked, self._last)

    def account(self) -> EngineUse:
        """Return the resources of queries since the last call; empty if the server's log lacks
        some.
        """
        names = ", ".join(f"sum(ProfileEvents['{name}'])" for name in _COUNTED)
        asked, self._last[:] = ", ".join(f"'{identifier}'" for identifier in self._last), []
        try:
            self._client.command("SYSTEM FLUSH LOGS")
            [(count, *row)] = self._client.query(
                f"SELECT count(), {names} FROM system.query_log "
                f"WHERE query_id IN ({asked}) AND type != 'QueryStart'"
            ).result_rows
        except Exception:  # the user may not read the log, or there is none
            return EngineUse()
        if count != asked.count(",") + 1:
            return EngineUse()
        cpu_us, read_bytes, received_bytes = map(int, row)
        return EngineUse(cpu_ns=cpu_us * 1000, read_bytes=read_bytes, received_bytes=received_bytes)

    def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            self._client.close()


@dataclass(frozen=True, slots=True)
class _Client:
    """A connection; `asked` collects the ids of its queries, as in the server's log."""

    client: Any
    settings: Mapping[str, Any]
    asked: list[str]

    def run(self, query: str) -> list[Row]:
        number = str(uuid.uuid4())
        self.asked.append(number)
        rows: list[Row] = self.client.query(
            query, settings={**self.settings, "query_id": number}
        ).result_rows
        return rows


class DatabasePlace(TablePlace):
    """A database of the server, owned by loadstone if one of its tables holds our mark."""

    def __init__(self, access: ServerAccess, name: str, partitions: int) -> None:
        """Store the access to the server, and the name of the database."""
        self.database = name
        self.name = f"{access.url}/{name}"
        self._policy = access.policy
        self._partitions = partitions
        try:
            self._client = connect(access)
        except InputError as error:
            raise TargetError(error.message, error.hint) from error

    def _do(self, what: str, command: str) -> None:
        try:
            self._client.command(command)
        except Exception as error:
            raise TargetError(f"{self.name}: {what}: {_first_line(error)}") from error

    def _rows(self, what: str, query: str) -> Sequence[Sequence[Any]]:
        try:
            rows: Sequence[Sequence[Any]] = self._client.query(query).result_rows
        except Exception as error:
            raise TargetError(f"{self.name}: {what}: {_first_line(error)}") from error
        return rows

    def _tables(self) -> list[str]:
        query = f"SELECT name FROM system.tables WHERE database = '{self.database}' ORDER BY name"
        return [str(name) for (name,) in self._rows("list its tables", query)]

    def _table(self, name: str) -> str:
        return f"`{self.database}`.`{name}`"

    def mark(self) -> Mark | None:
        """Read the mark's table."""
        names = self._tables()
        if not names:
            return None
        if _MARK_TABLE not in names:
            raise TargetError(
                f"database {self.name} was not made by loadstone: it has tables and no "
                f"{_MARK_TABLE}",
                "drop or rename it",
                kind="not-ours",
            )
        query = f"SELECT mark FROM {self._table(_MARK_TABLE)} ORDER BY number DESC LIMIT 1"
        rows = self._rows("read the mark", query)
        return read_mark(str(rows[0][0]), self.name) if rows else None

    def _comment(self) -> str | None:
        """Return the comment of the database; None if it does not exist."""
        rows = self._rows(
            "look for it", f"SELECT comment FROM system.databases WHERE name = '{self.database}'"
        )
        return str(rows[0][0]) if rows else None

    def begin(self, mark: Mark) -> None:
        """Create the database and its mark; drop what an earlier attempt of this run left.

        A database gets its comment when it is created, so that after an interruption, one without
        tables is still recognised as ours.
        """
        comment = self._comment()
        if comment is None:
            # Without IF NOT EXISTS, so that a foreign one created meanwhile is not taken over.
            self._do("make it", f"CREATE DATABASE `{self.database}` COMMENT '{_MADE_BY_US}'")
        elif comment != _MADE_BY_US:
            raise TargetError(
                f"database {self.name} was not made by loadstone: it lacks its comment",
                "drop or rename it",
                kind="not-ours",
            )
        self._do(
            "make the mark",
            f"CREATE TABLE IF NOT EXISTS {self._table(_MARK_TABLE)} "
            "(number UInt64, mark String) ENGINE = MergeTree ORDER BY number",
        )
        for name in {file.table for file in mark.files} & set(self._tables()):
            self._do(f"drop {name}", f"DROP TABLE {self._table(name)} SYNC")
        self.complete(mark)

    def write(self, name: str, source: Path) -> None:
        """Insert a file into its table, created from the file's own columns."""
        from pyarrow import parquet

        table = name.split("/")[0].partition(".")[0]
        columns = ", ".join(
            f"`{field.name}` {_type_of(str(field.type))}" for field in parquet.read_schema(source)
        )
        key = SORTED_BY[table]
        is_split = self._partitions > 1 and table not in NEVER_SPLIT
        split = f"PARTITION BY intHash32({key.partition(',')[0]}) % {self._partitions}"
        policy = f" SETTINGS storage_policy = '{self._policy}'" if self._policy else ""
        self._do(
            f"make {table}",
            f"CREATE TABLE IF NOT EXISTS {self._table(table)} ({columns}) ENGINE = MergeTree "
            f"{split if is_split else ''} ORDER BY ({key}){policy}",
        )
        try:
            with source.open("rb") as file:
                self._client.raw_insert(self._table(table), insert_block=file, fmt="Parquet")
        except Exception as error:
            raise TargetError(f"{self.name}: write {name}: {_first_line(error)}") from error

    def complete(self, mark: Mark) -> None:
        """Insert the mark again, after the earlier ones."""
        text = json.dumps(json.loads(mark.text()))
        count = f"(SELECT count() FROM {self._table(_MARK_TABLE)})"
        quoted = text.replace("\\", "\\\\").replace("'", "\\'")
        self._do(
            "write the mark", f"INSERT INTO {self._table(_MARK_TABLE)} SELECT {count}, '{quoted}'"
        )

    def remove(self, mark: Mark) -> list[str]:
        """Drop the mark's tables, and the database if it contains nothing else."""
        there = self._tables()
        for name in sorted({file.table for file in mark.files} & set(there)):
            self._do(f"drop {name}", f"DROP TABLE {self._table(name)} SYNC")
        left = [name for name in self._tables() if name != _MARK_TABLE]
        if self._comment() != _MADE_BY_US:
            # From an earlier version of loadstone, or created again by another user.
            return [*left, "the database itself"]
        if not left:
            self._do("drop the mark", f"DROP TABLE {self._table(_MARK_TABLE)} SYNC")
            self._do("drop it", f"DROP DATABASE `{self.database}`")
        return left

    def evict(self) -> None:
        """Clear the server's own caches; a client cannot clear its hosts' page caches."""
        for cache in _CACHES:
            self._do(f"empty its {cache.lower()}", f"SYSTEM DROP {cache}")


def _type_of(arrow: str) -> str:
    names = {"int64": "Int64", "int32": "Int32", "string": "String", "date32[day]": "Date"}
    if arrow.startswith("decimal"):
        return f"Decimal({arrow.partition('(')[2]}"
    return names.get(arrow.removeprefix("large_").removesuffix("_view"), "String")


SORTED_BY: dict[str, str] = {
    "customer": "c_custkey",
    "lineitem": "l_orderkey, l_linenumber",
    "nation": "n_nationkey",
    "orders": "o_orderkey",
    "part": "p_partkey",
    "partsupp": "ps_partkey, ps_suppkey",
    "region": "r_regionkey",
    "supplier": "s_suppkey",
}
NEVER_SPLIT = ("nation", "region")
CACHES_OFF = ("use_query_condition_cache", "use_parquet_metadata_cache", "use_query_cache")
STANDARD_SQL = {"join_use_nulls": 1, "aggregate_functions_null_for_empty": 1}
"""Standard results of outer joins and empty sums: otherwise Q13 lacks a row, and Q17 may be 0."""
_ARROW = {"output_format_arrow_string_as_string": 1, "output_format_arrow_date_as_uint16": 0}


# chdb is ClickHouse as an in-process library. All data of a session is below one directory, so a
# directory on another file system is a different storage.
class ClickHouse:
    """One session of chdb."""

    has_processes = False

    def __init__(self) -> None:
        self._session: Any = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def open(self, tables: Tables, *, threads: int | None, memory_bytes: int | None) -> str:
        """Open the tables in the directory, or create a view of each Parquet file."""
        version = self._begin(tables.directory if tables.format == "mergetree" else None)
        settings = {**STANDARD_SQL, **dict.fromkeys(CACHES_OFF, 0)}
        if threads is not None:
            settings["max_threads"] = threads
        if memory_bytes is not None:
            settings["max_memory_usage"] = memory_bytes
        for name, value in (settings | _ARROW).items():
            self._session.query(f"SET {name} = {value}")
        if tables.format == "parquet":
            for name in tables.files:
                self._session.query(f"CREATE VIEW {name} AS SELECT * FROM {_source(tables, name)}")
        return version

    def load(self, tables: Tables, source: str) -> None:
        """Write MergeTree, the large tables in partitions by a hash of their key."""
        self._begin(tables.directory)
        for name, files in tables.files.items():
            key = SORTED_BY[name]
            split = f"PARTITION BY intHash32({key.partition(',')[0]}) % {tables.partitions}"
            if name in NEVER_SPLIT or tables.partitions == 1:
                split = ""
            paths = _glob([f"{source}/{file}" for file in files])
            self._session.query(
                f"CREATE TABLE {name} ENGINE = MergeTree {split} ORDER BY ({key}) "
                # Keys must not be nullable, and no column of these tables is.
                f"AS SELECT * FROM file({_text(paths)}, Parquet) "
                "SETTINGS schema_inference_make_columns_nullable = 0"
            )

    def _begin(self, directory: str | None) -> str:
        import chdb
        from chdb import session

        if directory is None:
            self._folder = tempfile.TemporaryDirectory(prefix="loadstone-chdb-")
            directory = self._folder.name
        make: Any = session.Session
        self._session = make(directory)
        return str(chdb.engine_version)

    def run(self, query: str) -> list[Row]:
        """Run a query and fetch all rows."""
        import pyarrow as pa

        arrow = self._session.query(query, "Arrow").bytes()
        table = pa.ipc.open_file(arrow).read_all()
        return list(zip(*(column.to_pylist() for column in table.columns), strict=True))

    def beside(self) -> "ClickHouse":
        """Raise an error: chdb runs the queries of a process one after another."""
        raise NotImplementedError

    def account(self) -> None:
        """Return None: this process's resources are all that it uses."""

    def close(self) -> None:
        """Close the session, which flushes pending writes."""
        if self._session is not None:
            self._session.close()
        if self._folder is not None:
            self._folder.cleanup()


def _source(tables: Tables, name: str) -> str:
    bucket = tables.bucket
    if bucket is None:
        return f"file({_text(_glob(tables.paths(name)))}, Parquet)"
    urls = _glob([f"{bucket.endpoint}/{bucket.name}/{file}" for file in tables.files[name]])
    keys = [bucket.access_key, bucket.secret_key]
    keys += [bucket.session_token] if bucket.session_token else []
    return f"s3({', '.join(map(_text, [urls, *keys]))}, 'Parquet')"


def _glob(paths: Sequence[str]) -> str:
    if len(paths) == 1:
        return paths[0]
    # All files of a table are in one folder; alternatives are only possible in the file's name.
    folder = paths[0].rpartition("/")[0]
    return f"{folder}/{{{','.join(path.rpartition('/')[2] for path in paths)}}}"


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
