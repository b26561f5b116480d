"""Apache DataFusion, on Parquet in files and buckets."""

from typing import Any

from loadstone.engines.engine import Row, Tables


class DataFusion:
    """A session of DataFusion with the tables registered."""

    has_processes = False

    def __init__(self) -> None:
        self._session: Any = None

    def open(self, tables: Tables, *, threads: int | None, memory_bytes: int | None) -> str:
        """Register each table."""
        import datafusion

        settings = datafusion.SessionConfig()
        if threads is not None:
            settings = settings.with_target_partitions(threads)
        runtime = datafusion.RuntimeEnvBuilder().with_disk_manager_os()
        if memory_bytes is not None:
            runtime = runtime.with_fair_spill_pool(memory_bytes)
        self._session = session = datafusion.SessionContext(settings, runtime)
        if tables.bucket is not None:
            session.register_object_store(f"s3://{tables.bucket.name}/", _store(tables), None)
        for name, files in tables.files.items():
            paths = tables.urls(name) if tables.bucket is not None else tables.paths(name)
            # A table with several files is given as their folder.
            path = paths[0] if len(files) == 1 else paths[0].rpartition("/")[0] + "/"
            session.register_parquet(name, path)
        return str(datafusion.__version__)

    def load(self, tables: Tables, source: str) -> None:
        """Do nothing: DataFusion has no format of its own."""
        raise NotImplementedError

    def run(self, query: str) -> list[Row]:
        """Run a query and fetch all rows."""
        rows: list[Row] = []
        for batch in self._session.sql(query).collect():
            columns = [column.to_pylist() for column in batch.columns]
            rows += list(zip(*columns, strict=True))
        return rows

    def beside(self) -> "DataFusion":
        """Return the session itself, which threads may share."""
        return self

    def account(self) -> None:
        """Return None: this process's resources are all that it uses."""

    def close(self) -> None:
        """Release the session."""
        self._session = None


def _store(tables: Tables) -> Any:
    from datafusion.object_store import AmazonS3

    bucket = tables.bucket
    assert bucket is not None, "asked for only where there is one"
    return AmazonS3(
        bucket_name=bucket.name,
        region=bucket.region,
        access_key_id=bucket.access_key,
        secret_access_key=bucket.secret_key,
        session_token=bucket.session_token,
        endpoint=bucket.endpoint,
        allow_http=bucket.is_plain,
    )
