"""Queries of a benchmark on tables that lie on the targets."""

import re
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from loadstone.campaign.reading.mistakes import KeyMistake, KeyMistakesError
from loadstone.campaign.schema.query_engines import ENGINE_PATTERN, EngineChoice, distinct_names
from loadstone.campaign.schema.values import (
    OneOrMany,
    PositiveCount,
    PositiveDuration,
    PositiveNumber,
    PositiveSize,
)
from loadstone.errors import InputError, shown

STREAMS_MAX = 256
QUERY_NAMES = tuple(f"Q{number:02d}" for number in range(1, 23))
_FROZEN = ConfigDict(frozen=True, extra="forbid", defer_build=True)


def _read_answers(value: str) -> str:
    if not (is_folder(value) or re.fullmatch(ENGINE_PATTERN, value)):
        raise InputError.of_value(value, "the name of an engine, or a folder like ./answers")
    return value


def is_folder(answers: str) -> bool:
    """Tell whether answers are those of files, and not of an engine."""
    return "/" in answers


def _read_query(value: Any) -> str:
    name = f"Q{value:02d}" if isinstance(value, int) else str(value)
    if name not in QUERY_NAMES:
        raise InputError.of_value(value, "a query from Q01 to Q22")
    return name


Answers = Annotated[str, AfterValidator(_read_answers)]
QueryName = Annotated[str, BeforeValidator(_read_query)]


class QueryStorage(BaseModel):
    """How the tables are kept."""

    model_config = _FROZEN

    format: Literal["parquet", "mergetree"] = Field(
        default="parquet",
        description="Parquet, or ClickHouse's own MergeTree; other engines read Parquet then too.",
    )
    partitions: PositiveCount = Field(
        default=1, description="How many files, or partitions, each large table is split into."
    )


class Queries(BaseModel):
    """A benchmark derived from TPC-H: its 22 queries, by some engines, on every target."""

    model_config = _FROZEN

    benchmark: Literal["tpch"] = Field(
        default="tpch", description="Derived from TPC-H; its times are no TPC results."
    )
    scale: PositiveNumber = Field(description="The scale factor: at 1 the tables are about 1 GB.")
    engine: Annotated[tuple[EngineChoice, ...], OneOrMany()] = Field(
        min_length=1,
        description="What runs the queries: duckdb, datafusion, clickhouse, spark, or a map of "
        "one of them to its settings.",
    )
    only: tuple[QueryName, ...] = Field(
        default=QUERY_NAMES, min_length=1, description="The queries to run; all 22 when absent."
    )
    storage: QueryStorage = Field(
        default=QueryStorage(), description="How the tables are kept on the targets."
    )
    loops: PositiveCount = Field(
        default=5, description="How often each query is run on each target by each engine."
    )
    order: Literal["interleaved", "rounds"] = Field(
        default="interleaved",
        description="All combinations of a loop by chance, or one target after another, Q01 to "
        "Q22 in each loop.",
    )
    cache: Literal["cold", "warm", "both"] = Field(
        default="cold",
        description="cold: a fresh process, and no data in this host's page cache. warm: right "
        "after an untimed run of the same query in the same process.",
    )
    threads: Annotated[tuple[PositiveCount, ...], OneOrMany()] = Field(
        default=(), description="Threads of the engine, one or several values; its own default."
    )
    streams: Annotated[tuple[PositiveCount, ...], OneOrMany()] = Field(
        default=(),
        description="Streams beside each other on the engine, one or several values: each runs "
        "all queries in an order of its own. Absent: each query by itself.",
    )
    memory: PositiveSize | None = Field(
        default=None, description="What memory the engine may use; its own default when absent."
    )
    timeout_ns: PositiveDuration = Field(
        default=3_600_000_000_000, alias="timeout", description="How long one query may take."
    )
    answers: Answers | None = Field(
        default="duckdb",
        description="The engine whose answers the others must give, or a folder with files of "
        "answers, like ./answers; null: nothing is compared.",
    )
    data: str | None = Field(
        default=None,
        description="A directory of this host to make the tables in, and keep them; loadstone's "
        "own cache when absent.",
    )

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        mistakes = [one.below(("engine",)) for one in distinct_names(self.engine)]
        mistakes += [
            KeyMistake(
                path=("streams", index), found=shown(value), allowed=f"at most {STREAMS_MAX}"
            )
            for index, value in enumerate(self.streams)
            if value > STREAMS_MAX
        ]
        for key in ("only", "threads", "streams"):
            values = getattr(self, key)
            mistakes += [
                KeyMistake(
                    path=(key, index), found=f"{shown(value)} again", allowed="values that differ"
                )
                for index, value in enumerate(values)
                if value in values[:index]
            ]
        if mistakes:
            raise KeyMistakesError(mistakes)
        return self
