"""Engines of queries: by their name, or with settings of their own."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from loadstone.campaign.reading.mistakes import KeyMistake, KeyMistakesError, listed
from loadstone.campaign.schema.systems.target import secret_reference
from loadstone.campaign.schema.values import NAME_PATTERN
from loadstone.errors import InputError, shown

ENGINE_PATTERN = r"[a-z][a-z0-9]*"
_FROZEN = ConfigDict(frozen=True, extra="forbid", defer_build=True)
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
    return {str(key): _read_conf_value(str(key), one) for key, one in value.items()}


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


class SparkSettings(BaseModel):
    """Where Spark runs, and its settings."""

    model_config = _FROZEN

    name: str = Field(
        default="spark", pattern=NAME_PATTERN, description="What reports call this engine."
    )
    master: Annotated[str, AfterValidator(_read_master)] | None = Field(
        default=None,
        description="A cluster: spark://host:7077; a master and a worker on this host when absent.",
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
        """Return what the engine is given, the same for every target."""
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


class ClickHouseSettings(BaseModel):
    """Which ClickHouse server is asked, and by whom."""

    model_config = _FROZEN

    name: str = Field(
        default="clickhouse", pattern=NAME_PATTERN, description="What reports call this engine."
    )
    url: Annotated[str, AfterValidator(_read_url)] = Field(
        description="The server's HTTP address: http://host:8123."
    )
    user: str | None = Field(default=None, description="Who asks; the server's default user.")
    password: Annotated[dict[str, str] | None, BeforeValidator(_read_password)] = Field(
        default=None, description="The password: {env: NAME} or {file: PATH}."
    )
    policies: dict[str, str] = Field(
        default={},
        description="The server's storage policy that puts tables on each target: {ssd: local}; "
        "its default where a target is absent.",
    )

    def document(self, target: str) -> dict[str, Any]:
        """Return what the engine is given for a target, whose storage policy is among it."""
        own = self.model_dump(mode="json", exclude={"name", "policies"}, exclude_defaults=True)
        return own | ({"policy": self.policies[target]} if target in self.policies else {})


class EngineChoice(BaseModel):
    """An engine: its name, or its name with settings."""

    model_config = _FROZEN

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

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if self.plain is None and not self._with_settings():
            names = [name for name in type(self).model_fields if name != "plain"]
            found = next(iter(self.model_fields_set))
            raise KeyMistakesError(
                [KeyMistake(path=(found,), found="nothing", allowed=f"settings of {listed(names)}")]
            )
        return self

    @model_serializer(mode="wrap")
    def _written(self, handler: Any) -> Any:
        return self.plain or {name: one for name, one in handler(self).items() if one is not None}

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        found = handler.resolve_ref_schema(handler(schema))
        found["properties"].pop("plain")
        return {"anyOf": [{"type": "string"}, {**found, "maxProperties": 1}]}

    def _with_settings(self) -> list[SparkSettings | ClickHouseSettings]:
        return [one for one in (self.clickhouse, self.spark) if one is not None]

    @property
    def engine(self) -> str:
        """The engine."""
        if self.plain is not None:
            return self.plain
        return "clickhouse_server" if self.clickhouse is not None else "spark"

    @property
    def name(self) -> str:
        """What this run calls it."""
        return self.plain or self._with_settings()[0].name

    @property
    def policies(self) -> Mapping[str, str]:
        """The storage policies of a server, by target."""
        return {} if self.clickhouse is None else self.clickhouse.policies

    def settings_for(self, target: str) -> dict[str, Any]:
        """Return the other settings of the engine for a target, secrets as references."""
        return {} if self.plain else self._with_settings()[0].document(target)


def distinct_names(choices: tuple[EngineChoice, ...]) -> list[KeyMistake]:
    """Return the mistakes of engines that are called the same."""
    names = [choice.name for choice in choices]
    return [
        KeyMistake(
            path=(index,),
            found=f"{shown(name)} again",
            allowed="names that differ",
            hint="give one of them a name of its own" if choices[index].plain is None else None,
        )
        for index, name in enumerate(names)
        if name in names[:index]
    ]
