"""Query engines: each reads the tables of a benchmark from a target, in a separate process.

To add an engine, write a file with a class of the protocol `Engine`, and a line in `ENGINES`.
"""

import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from loadstone.engines.engine import Engine, EngineSettings, ServerAccess, SparkOptions
from loadstone.errors import InputError, shown


@dataclass(frozen=True, slots=True)
class EngineEntry:
    """An engine's class and requirements: an import, and the extra that contains it.

    `setup` is a module whose `check` looks for further requirements of the settings. An engine that
    `is_kept` starts too slowly to do so for each query, and caches nothing of the tables. One
    without streams runs the queries of a process one after another.
    """

    module: str
    class_name: str
    needs: str
    extra: str
    formats: tuple[str, ...] = ("parquet",)
    reads_buckets: bool = True
    setup: str | None = None
    settings: type[SparkOptions] | type[ServerAccess] | None = None
    is_kept: bool = False
    has_streams: bool = True


ENGINES: Mapping[str, EngineEntry] = {
    "clickhouse": EngineEntry(
        "clickhouse_server",
        "ClickHouse",
        "chdb",
        "clickhouse",
        ("parquet", "mergetree"),
        has_streams=False,
    ),
    "clickhouse_server": EngineEntry(
        "clickhouse_server",
        "ClickHouseServer",
        "clickhouse_connect",
        "clickhouse",
        ("server",),
        setup="clickhouse_server",
        settings=ServerAccess,
    ),
    "datafusion": EngineEntry("datafusion_engine", "DataFusion", "datafusion", "datafusion"),
    "duckdb": EngineEntry("duckdb_engine", "DuckDb", "duckdb", "duckdb", reads_buckets=False),
    "spark": EngineEntry(
        "spark_engine",
        "Spark",
        "pyspark",
        "spark",
        setup="spark_engine",
        settings=SparkOptions,
        is_kept=True,
    ),
}


def entry_of(name: str) -> EngineEntry:
    """Return the entry of an engine; raise InputError if there is none, or it is not installed."""
    entry = ENGINES.get(name)
    if entry is None:
        raise InputError(f"found engine {shown(name)}, allowed: {', '.join(ENGINES)}")
    if importlib.util.find_spec(entry.needs) is None:
        raise InputError(
            f'engine "{name}" needs the package {entry.needs}, which is not installed',
            f"pip install 'loadstone[{entry.extra}]'",
        )
    return entry


def settings_of(name: str, document: object) -> EngineSettings:
    """Return the settings of an engine from a trial's document; InputError for wrong ones."""
    # Imported late, because an engine's process does not need it.
    from pydantic import TypeAdapter, ValidationError

    from loadstone.documents.mistake import first_mistake

    kind = entry_of(name).settings
    if kind is None:
        return None
    try:
        settings: EngineSettings = TypeAdapter[Any](kind).validate_python(document)
    except ValidationError as error:
        raise InputError(first_mistake(error)) from error
    return settings


def check_engine(name: str, settings: EngineSettings, *, reads_buckets: bool) -> None:
    """Raise InputError for requirements of an engine with these settings that this host lacks."""
    setup = entry_of(name).setup
    if setup is not None:
        module = importlib.import_module(f"loadstone.engines.{setup}")
        module.check(settings, reads_buckets=reads_buckets)


def load_engine(name: str, settings: EngineSettings) -> Engine:
    """Return an engine that is not opened yet."""
    entry = entry_of(name)
    make = getattr(importlib.import_module(f"loadstone.engines.{entry.module}"), entry.class_name)
    engine: Engine = make() if settings is None else make(settings)
    return engine
