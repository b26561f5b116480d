"""The messages between a run and the process of an engine, with a class for each.

A message is a line of JSON; each object in it names its class. The process does not check its
tasks: they come from the same build through a private pipe, and the memory of a validation library
would count as the engine's. The run checks the answers (`engine_process.py`).
"""

import ctypes
import json
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, get_args

from loadstone.engines.answers import Answer
from loadstone.engines.engine import Bucket, EngineSettings, EngineUse, Tables

CLASS = "loadstone.class"
"""The key of an object's class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedQuery:
    """A query of the benchmark, and its text at a scale."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenEngine:
    """Start an engine, unless it is running, and open tables in it."""

    engine: str
    settings: EngineSettings
    threads: int | None
    memory_bytes: int | None
    tables: Tables


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTables:
    """Write tables in an engine's own format, from Parquet below a directory."""

    engine: str
    settings: EngineSettings
    tables: Tables
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuery:
    """Run a query once; its answer is returned only if `is_kept`."""

    query: str
    is_kept: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStreams:
    """Run the queries of each stream in order, all streams concurrently."""

    streams: Sequence[Sequence[NamedQuery]]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOpened:
    """The engine has opened the tables."""

    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TablesWritten:
    """The tables are on the storage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryAnswer:
    """A query has completed."""

    time_ns: int
    rows: int
    use: EngineUse
    answer: Answer | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamAnswer:
    """A query of a stream, numbered from 0, has ended with an answer or with an `error`."""

    stream: int
    query: str
    started_ns: int
    ended_ns: int
    rows: int | None = None
    answer: Answer | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsEnded:
    """All streams have ended, with their total use."""

    use: EngineUse


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFailed:
    """The engine aborted a task, with its error."""

    failed: str


Task = OpenEngine | WriteTables | RunQuery | RunStreams
Answered = EngineOpened | TablesWritten | QueryAnswer | StreamAnswer | StreamsEnded
Reply = Answered | TaskFailed

_SENT = get_args(Task | NamedQuery | Tables | Bucket | EngineSettings)
_CLASSES = {kind.__name__: kind for kind in _SENT}


def line_of(message: Task | Reply) -> str:
    """Return a message in its wire format."""
    return json.dumps(message, default=_fields) + "\n"


def _fields(value: Any) -> Mapping[str, object]:
    values = {field.name: getattr(value, field.name) for field in fields(value)}
    return {CLASS: type(value).__name__, **values}


def read_task(line: str) -> Task:
    """Parse a task; raise ValueError or TypeError if it is not valid."""
    task = json.loads(line, object_hook=_built)
    if not isinstance(task, Task):
        raise ValueError(f"found no task: {line[:100]}")
    return task


def _built(document: dict[str, Any]) -> object:
    name = document.pop(CLASS, None)
    return document if name is None else _CLASSES[name](**document)


_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """Make the kernel kill this process when the thread that started it ends."""
    ctypes.CDLL(None, use_errno=True).prctl(_SET_PDEATHSIG, signal.SIGKILL)
