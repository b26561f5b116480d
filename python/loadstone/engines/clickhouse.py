"""ClickHouse, embedded by chdb: on Parquet in files and buckets, and on its own MergeTree.

chdb is ClickHouse as a library of one process. All data of a session lies below one directory, so
a directory on another file system is another storage.
"""

import tempfile
from collections.abc import Sequence
from typing import Any

from loadstone.engines.engine import Row, Tables

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
"""What outer joins and sums of nothing answer: without it Q13 lacks a row, and Q17 may be 0."""
_ARROW = {
    "output_format_arrow_string_as_string": 1,
    "output_format_arrow_date_as_uint16": 0,
}


class ClickHouse:
    """One session of chdb."""

    has_processes = False

    def __init__(self) -> None:
        self._session: Any = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def open(self, tables: Tables, *, threads: int | None, memory_bytes: int | None) -> str:
        """Open the tables that lie in the directory, or make a view of each Parquet file."""
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
        """Write MergeTree, the large tables in so many partitions by a hash of their key."""
        self._begin(tables.directory)
        for name, files in tables.files.items():
            key = SORTED_BY[name]
            split = f"PARTITION BY intHash32({key.partition(',')[0]}) % {tables.partitions}"
            if name in NEVER_SPLIT or tables.partitions == 1:
                split = ""
            paths = _glob([f"{source}/{one}" for one in files])
            self._session.query(
                f"CREATE TABLE {name} ENGINE = MergeTree {split} ORDER BY ({key}) "
                # A key must not be nullable, and no column of these tables is.
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
        """Run a query to its last row."""
        import pyarrow as pa

        told = self._session.query(query, "Arrow").bytes()
        table = pa.ipc.open_file(told).read_all()
        return list(zip(*(column.to_pylist() for column in table.columns), strict=True))

    def beside(self) -> "ClickHouse":
        """Nothing: chdb runs the queries of a process one after another."""
        raise NotImplementedError

    def account(self) -> None:
        """Nothing: all that it uses is used by this process."""

    def close(self) -> None:
        """Close the session, which writes what it still holds."""
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
    # All files of a table lie in one folder, and only what follows it may be a choice.
    folder = paths[0].rpartition("/")[0]
    return f"{folder}/{{{','.join(path.rpartition('/')[2] for path in paths)}}}"


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
