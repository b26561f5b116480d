"""Types of documents that Rust does not define: open maps, queries on tables, and imports.

Any key may be absent: documents of earlier builds lack some, and trials of other kinds have no keys
about operations.
"""

from typing import Annotated, Any, Required

from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

LARGEST = 2**63 - 1
Whole = Annotated[int, Field(ge=-LARGEST, le=LARGEST)]
Number = Annotated[float, Field(ge=-LARGEST, le=LARGEST)]
Object = dict[str, Any]


class Parameters(TypedDict, total=False):
    """A value for each parameter of a case; those that every reader knows are named."""

    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]

    threads: Whole
    size: Number | str | None


class TargetSettings(TypedDict, total=False):
    """Settings of a target, secrets as references; those that are read in Python are named."""

    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]

    path: str | None
    endpoints: list[str] | str | None
    region: str | None
    access_key: str | dict[str, str] | None
    secret_key: str | dict[str, str] | None
    session_token: str | dict[str, str] | None
    profile: str | None
    pool: str | None
    delete_versions: bool | None


class QueryDocument(TypedDict, total=False):
    """Keys of trials of kind `queries`: the tables, and one run of one query.

    Or, as `streams`, the names of the queries of each stream in their order.
    """

    benchmark: str
    scale: Number
    storage: str
    partitions: Whole
    place: str
    is_directory: bool
    data: str | None
    query: str | None
    streams: list[list[str]] | None
    engine: str | None
    settings: Object
    cache: str | None
    threads: Whole | None
    memory_bytes: Whole | None
    answers: str | None
    answer_files: str | None


class EngineUseDocument(TypedDict, total=False):
    """Resources that an engine used; None if unknown, and absent if it gave no answer.

    Memory figures are those of this host alone.
    """

    cpu_ns: Whole | None
    read_bytes: Whole | None
    reread_bytes: Whole | None
    spilled_bytes: Whole | None
    major_faults: Whole | None
    memory_stall_ns: Whole | None
    memory_peak_bytes: Whole | None
    received_bytes: Whole | None
    cores: Whole | None


class QuerySummary(EngineUseDocument, total=False):
    """One run of one query. An interrupted one has no time."""

    query: str | None
    engine: str | None
    cache: str | None
    threads: Whole | None
    version: str
    time_ns: Whole
    rows: Whole
    compared_with: str


class StreamQuery(TypedDict, total=False):
    """One query of a stream; streams count from 1, and times from the begin of all."""

    stream: Required[Whole]
    query: Required[str]
    rows: Whole
    outcome: Required[str]
    message: str | None
    compared_with: str
    start_ns: Required[Whole]
    end_ns: Required[Whole]


class StreamsSummary(EngineUseDocument, total=False):
    """One run of all streams beside each other."""

    engine: str | None
    cache: str | None
    threads: Whole | None
    version: str
    time_ns: Required[Whole]
    queries: Required[list[StreamQuery]]


class TablesSummary(TypedDict, total=False):
    """The tables that a trial loaded, or found."""

    benchmark: Required[str]
    scale: Required[Number]
    format: Required[str]
    partitions: Required[Whole]
    files: Required[Whole]
    bytes: Required[Whole]
    sha256: Required[str]
    was_there: Required[bool]
    files_kept: Whole
    bytes_kept: Whole


class StatedLatency(TypedDict):
    """The times of one operation as another tool states them; quantiles are keyed by share."""

    count: Whole
    mean_ns: Number
    min_ns: Whole | None
    max_ns: Whole
    quantiles_ns: dict[str, Whole]


class Live(TypedDict):
    """How a trial stands, about twice a second, as `crates/loadgen/src/run/live.rs` has it."""

    elapsed_ns: Whole
    iteration: Whole
    iterations: Whole
    stage: str
    requests: Whole
    failed: Whole
    unwritten: Whole
    lost_races: Whole
    bytes: Whole
    requests_last_s: Whole
    bytes_last_s: Whole
    p50_ns: Whole
    p99_ns: Whole
    progress: Number | None
