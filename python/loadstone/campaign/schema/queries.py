"""Queries of a benchmark on tables that lie on the targets."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from loadstone.campaign.reading.mistakes import KeyMistake, listed
from loadstone.campaign.schema.target import secret_reference
from loadstone.campaign.schema.values import (
    NAME_PATTERN,
    OneOrMany,
    PositiveCount,
    PositiveDuration,
    PositiveNumber,
    PositiveSize,
    Section,
)
from loadstone.errors import InputError, shown

ENGINE_PATTERN = r"[a-z][a-z0-9]*"
_SECRET_KEY = re.compile(r"secret|password|token|access\.?key", re.IGNORECASE)
_MASTER = re.compile(r"spark://[^/,\s]+:\d+(,[^/,\s]+:\d+)*")
_PACKAGE = re.compile(r"[\w.-]+:[\w.-]+:[\w.-]+")


def _read_name(value: str) -> str:
    if not re.fullmatch(ENGINE_PATTERN, value):
        raise InputError.of_value(value, "the name of an engine, like duckdb")
    return value


def _read_master(value: str) -> str:
    if not _MASTER.fullmatch(value):
        raise InputError.of_value(value, "the address of a Spark master, like spark://host:7077")
    return value


def _read_package(value: str) -> str:
    if not _PACKAGE.fullmatch(value):
        raise InputError.of_value(value, "a Maven package, like group:artifact:1.0")
    return value


def _read_conf(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {str(key): _read_conf_value(str(key), conf_value) for key, conf_value in value.items()}


def _read_conf_value(key: str, value: Any) -> str | dict[str, str]:
    if isinstance(value, dict) or _SECRET_KEY.search(key):
        return secret_reference(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (str, int, float)):
        return str(value)
    raise InputError.of_value(value, "text, a number, true or false")


EngineName = Annotated[str, AfterValidator(_read_name)]
SparkConf = Annotated[dict[str, str | dict[str, str]], BeforeValidator(_read_conf)]


class SparkSettings(Section):
    """Where Spark runs, and its settings."""

    name: str = Field(
        default="spark", pattern=NAME_PATTERN, description="Name of this engine in reports."
    )
    master: Annotated[str, AfterValidator(_read_master)] | None = Field(
        default=None,
        description="A cluster: spark://host:7077; default: a master and a worker on this host.",
    )
    jars: str | None = Field(
        default=None, description="A folder of this host with libraries, such as hadoop-aws."
    )
    packages: tuple[Annotated[str, AfterValidator(_read_package)], ...] = Field(
        default=(),
        description="Libraries that Spark gets by Maven: org.apache.hadoop:hadoop-aws:3.5.0.",
    )
    conf: SparkConf = Field(
        default={},
        description="Settings of Spark's own; secrets by reference: {env: NAME} or {file: PATH}.",
    )

    def document(self, target: str) -> dict[str, Any]:
        """Return the engine's settings, the same for every target."""
        return self.model_dump(mode="json", exclude={"name"}, exclude_defaults=True)


def _read_url(value: str) -> str:
    if not re.fullmatch(r"https?://[^/@\s]+/?", value):
        raise InputError.of_value(
            value if "@" not in value else "an address with a user in it",
            "the address of a server, like http://host:8123",
            "user and password have keys of their own",
        )
    return value.rstrip("/")


def _read_password(value: Any) -> Any:
    return value if value is None else secret_reference(value)


class ClickHouseSettings(Section):
    """The ClickHouse server, and the user."""

    name: str = Field(
        default="clickhouse", pattern=NAME_PATTERN, description="Name of this engine in reports."
    )
    url: Annotated[str, AfterValidator(_read_url)] = Field(
        description="The server's HTTP address: http://host:8123."
    )
    user: str | None = Field(
        default=None, description="The user; default: the server's default user."
    )
    password: Annotated[dict[str, str] | None, BeforeValidator(_read_password)] = Field(
        default=None, description="The password: {env: NAME} or {file: PATH}."
    )
    policies: dict[str, str] = Field(
        default={},
        description="The server's storage policy for the tables on each target: {ssd: "
        "local}; default: the server's.",
    )

    def document(self, target: str) -> dict[str, Any]:
        """Return the engine's settings for a target, including its storage policy."""
        settings = self.model_dump(mode="json", exclude={"name", "policies"}, exclude_defaults=True)
        return settings | ({"policy": self.policies[target]} if target in self.policies else {})


class EngineChoice(Section):
    """An engine: its name, or its name with settings."""

    plain: EngineName | None = None
    clickhouse: ClickHouseSettings | None = None
    spark: SparkSettings | None = None

    @model_validator(mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"plain": value}
        if isinstance(value, dict) and len(value) == 1 and "plain" not in value:
            return value
        raise InputError.of_value(value, "the name of an engine, or a map of it to its settings")

    def mistakes(self) -> Iterator[KeyMistake]:
        if self.plain is None and not self._with_settings():
            names = [name for name in type(self).model_fields if name != "plain"]
            chosen = next(iter(self.model_fields_set))
            yield KeyMistake((chosen,), "nothing", f"settings of {listed(names)}")

    @model_serializer(mode="wrap")
    def _written(self, handler: Any) -> Any:
        return self.plain or {
            name: setting for name, setting in handler(self).items() if setting is not None
        }

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        choice = handler.resolve_ref_schema(handler(schema))
        choice["properties"].pop("plain")
        return {"anyOf": [{"type": "string"}, {**choice, "maxProperties": 1}]}

    def _with_settings(self) -> list[SparkSettings | ClickHouseSettings]:
        return [settings for settings in (self.clickhouse, self.spark) if settings is not None]

    @property
    def engine(self) -> str:
        """The engine."""
        if self.plain is not None:
            return self.plain
        return "clickhouse_server" if self.clickhouse is not None else "spark"

    @property
    def name(self) -> str:
        """The engine's name in this run."""
        return self.plain or self._with_settings()[0].name

    @property
    def policies(self) -> Mapping[str, str]:
        """The storage policies of a server, by target."""
        return {} if self.clickhouse is None else self.clickhouse.policies

    def settings_for(self, target: str) -> dict[str, Any]:
        """Return the other settings of the engine for a target, secrets as references."""
        return {} if self.plain else self._with_settings()[0].document(target)


STREAMS_MAX = 256
QUERY_NAMES = tuple(f"Q{number:02d}" for number in range(1, 23))


def _read_answers(value: str) -> str:
    if not (is_folder(value) or re.fullmatch(ENGINE_PATTERN, value)):
        raise InputError.of_value(value, "the name of an engine, or a folder like ./answers")
    return value


def is_folder(answers: str) -> bool:
    """Tell whether answers come from files instead of an engine."""
    return "/" in answers


def _read_query(value: Any) -> str:
    name = f"Q{value:02d}" if isinstance(value, int) else str(value)
    if name not in QUERY_NAMES:
        raise InputError.of_value(value, "a query from Q01 to Q22")
    return name


Answers = Annotated[str, AfterValidator(_read_answers)]
QueryName = Annotated[str, BeforeValidator(_read_query)]


class QueryStorage(Section):
    """How the tables are kept."""

    format: Literal["parquet", "mergetree"] = Field(
        default="parquet",
        description="Parquet, or ClickHouse's MergeTree; the other engines then still "
        "read Parquet.",
    )
    partitions: PositiveCount = Field(
        default=1, description="Number of files, or partitions, of each large table."
    )


class Queries(Section):
    """A benchmark derived from TPC-H: its 22 queries, by some engines, on every target."""

    benchmark: Literal["tpch"] = Field(
        default="tpch", description="Derived from TPC-H; its times are not TPC results."
    )
    scale: PositiveNumber = Field(description="The scale factor: at 1 the tables are about 1 GB.")
    engine: Annotated[tuple[EngineChoice, ...], OneOrMany()] = Field(
        min_length=1,
        description="The engines: duckdb, datafusion, clickhouse, spark, or a map of one "
        "of them to its settings.",
    )
    only: tuple[QueryName, ...] = Field(
        default=QUERY_NAMES, min_length=1, description="The queries to run; default: all 22."
    )
    storage: QueryStorage = Field(
        default=QueryStorage(), description="How the tables are kept on the targets."
    )
    loops: PositiveCount = Field(
        default=5, description="Number of times that each query runs on each target by each engine."
    )
    order: Literal["interleaved", "rounds"] = Field(
        default="interleaved",
        description="All combinations of a loop in random order, or one target after "
        "another, Q01 to Q22 in each loop.",
    )
    cache: Literal["cold", "warm", "both"] = Field(
        default="cold",
        description="cold: a fresh process, and no data in this host's page cache. warm: right "
        "after an untimed run of the same query in the same process.",
    )
    threads: Annotated[tuple[PositiveCount, ...], OneOrMany()] = Field(
        default=(),
        description="Threads of the engine, one or several values; default: the engine's.",
    )
    streams: Annotated[tuple[PositiveCount, ...], OneOrMany()] = Field(
        default=(),
        description="Concurrent streams on the engine, one or several values: each runs "
        "all queries in its own order. Default: each query alone.",
    )
    memory: PositiveSize | None = Field(
        default=None, description="Memory that the engine may use; default: the engine's."
    )
    timeout_ns: PositiveDuration = Field(
        default=3_600_000_000_000, alias="timeout", description="Time limit of one query."
    )
    answers: Answers | None = Field(
        default="duckdb",
        description="The engine whose answers are the reference, or a folder with files "
        "of answers, like ./answers; null compares nothing.",
    )
    data: str | None = Field(
        default=None,
        description="The directory of this host in which the tables are made and kept; "
        "default: loadstone's cache.",
    )

    def mistakes(self) -> Iterator[KeyMistake]:
        names = [choice.name for choice in self.engine]
        for index, name in enumerate(names):
            if name in names[:index]:
                is_named = self.engine[index].plain is None
                yield KeyMistake(
                    ("engine", index),
                    f"{shown(name)} again",
                    "names that differ",
                    hint="give one of them a name of its own" if is_named else None,
                )
        for index, value in enumerate(self.streams):
            if value > STREAMS_MAX:
                yield KeyMistake(("streams", index), shown(value), f"at most {STREAMS_MAX}")
        for key in ("only", "threads", "streams"):
            values = getattr(self, key)
            for index, value in enumerate(values):
                if value in values[:index]:
                    yield KeyMistake((key, index), f"{shown(value)} again", "values that differ")
