"""DuckDB, on Parquet files."""

from typing import Any

from loadstone.engines.engine import Row, Tables


class DuckDb:
    """DuckDB in memory, with views on the files."""

    has_processes = False

    def __init__(self) -> None:
        self._connection: Any = None

    def open(self, tables: Tables, *, threads: int | None, memory_bytes: int | None) -> str:
        """Make a view of each table."""
        import duckdb

        self._connection = connection = duckdb.connect(":memory:")
        if threads is not None:
            connection.execute(f"SET threads = {threads}")
        if memory_bytes is not None:
            connection.execute(f"SET memory_limit = '{memory_bytes} bytes'")
        # With the file cache the next query would read nothing from storage.
        for cache in ("enable_external_file_cache", "enable_object_cache"):
            try:
                connection.execute(f"SET {cache} = false")
            except duckdb.CatalogException:
                continue
        for name in tables.files:
            files = ", ".join("'" + path.replace("'", "''") + "'" for path in tables.paths(name))
            connection.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet([{files}])")
        return str(duckdb.__version__)

    def load(self, tables: Tables, source: str) -> None:
        """Do nothing: tables stay Parquet."""
        raise NotImplementedError

    def run(self, query: str) -> list[Row]:
        """Run a query and fetch all rows."""
        rows: list[Row] = self._connection.execute(query).fetchall()
        return rows

    def beside(self) -> "DuckDb":
        """Return another connection to the same database."""
        other = DuckDb()
        other._connection = self._connection.cursor()
        return other

    def account(self) -> None:
        """Return None: this process's resources are all that it uses."""

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
