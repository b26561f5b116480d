"""What was observed of a trial, typed: what an executor returns and a record keeps.

The types are those of the published schema, as in `trial.py`; imports and queries have a few keys
beside them.
"""

from typing import Required

from typing_extensions import TypedDict

from loadstone.documents.trial import Number, Object, Whole


class EdgeWork(TypedDict):
    """What has to be added to the rows of one operation to have the work of its window."""

    requests: Number
    objects: Number
    bytes: Number
    failed: Number


class Iteration(TypedDict, total=False):
    """When one iteration began, was measured and ended, and the work at the edges of its window."""

    iteration: Whole
    start_ns: Whole
    measure_start_ns: Whole
    measure_end_ns: Whole
    end_ns: Whole
    first_done_ns: Whole | None
    in_flight_ns: Whole | None
    first_answer_ns: Whole | None
    edges: dict[str, EdgeWork]


class Stalls(TypedDict, total=False):
    """The seconds in which a core, or the whole client, stood still, and for how long."""

    core: Whole | None
    seconds: list[list[Whole]]


class ClockDocument(TypedDict, total=False):
    """What the clock of a load host can tell apart."""

    source: str
    read_ns: Number
    step_ns: Whole


class LeftPlace(TypedDict, total=False):
    """A place in which a clean-up left something, and why."""

    place: str
    kind: str
    reason: str
    objects: Whole | None
    has_more: bool


class Residue(TypedDict):
    """How much an earlier trial had left of one quantity, and how much counts as settled."""

    quantity: str
    before_wait: Number
    before_load: Number
    settled_max: Number


class HostState(TypedDict):
    """What was looked at on a host before a load, and for how long it waited to settle."""

    waited_ns: Whole
    residues: list[Residue]


class LoadHost(TypedDict, total=False):
    """One host's part in a trial that several made."""

    name: str
    state: str
    reason: str | None
    clients: Whole | None
    requests: Whole
    failed: Whole
    bytes: Whole
    clock_offset_ns: Whole | None
    clock_bound_ns: Whole | None
    round_trip_ns: Whole | None
    clock_step_ns: Whole | None
    start_error_ns_max: Whole | None
    lost_ns: Whole | None
    connections_opened: Whole | None
    bytes_sent: Whole | None
    bytes_received: Whole | None
    thread_cpu_ns: list[Whole] | None
    thread_awake_ns: list[Whole] | None
    thread_run_delay_ns: list[Whole | None] | None
    error_examples: dict[str, str] | None
    target_on_own_host: bool | None
    host_state: HostState | None


class EngineUseDocument(TypedDict, total=False):
    """What an engine used meanwhile; None where nothing tells, and absent where it gave no answer.

    What is of memory comes from this host alone.
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
    """What another tool stated of the times of one operation; quantiles are by their share."""

    count: Whole
    mean_ns: Number
    min_ns: Whole | None
    max_ns: Whole
    quantiles_ns: dict[str, Whole]


class Summary(TypedDict, total=False):
    """What was observed of a whole trial. The keys of an import follow those of a load.

    What another tool does not state is absent: `failed`, `clients`, `started_unix_ns`. `paced_by`
    is the other tool's option that held the load back.
    """

    state: str | None
    reason: str | None
    stopped_on_loss: bool | None
    started_unix_ns: Whole
    started_monotonic_ns: Whole
    ended_unix_ns: Whole | None
    iterations: list[Iteration] | None
    requests: Whole
    failed: Whole
    unwritten: Whole
    bytes: Whole
    verified_requests: Whole
    verified_bytes: Whole
    mismatches: dict[str, Whole]
    connections_opened: Whole
    bytes_sent: Whole
    bytes_received: Whole
    requests_repeated: Whole
    retries: dict[str, Whole]
    retries_paused_ns: Whole
    log_ins: Whole
    log_ins_ns: Whole
    cores: Whole
    clients: Whole
    thread_cpu_ns: list[Whole]
    thread_awake_ns: list[Whole]
    thread_run_delay_ns: list[Whole | None] | None
    hiccup: str | None
    stalls: list[Stalls] | None
    cores_watched: Whole | None
    clock: ClockDocument
    features: Object | None
    clients_requests_min: Whole
    clients_requests_max: Whole
    error_examples: Object | None
    objects_unwritten: list[list[Whole]]
    puts_failed_more: Whole
    buckets_created: list[str]
    buckets_foreign: list[str]
    buckets_deleted: list[str] | None
    buckets_absent: list[str] | None
    buckets_left: list[str] | None
    places_left: list[LeftPlace] | None
    objects_swept: Whole
    objects_swept_again: Whole
    target_on_own_host: bool | None
    host_state: HostState | None
    hosts: list[LoadHost] | None
    start_error_ns: Whole | None
    stated_latency: dict[str, StatedLatency] | None
    source: Object | None
    paced_by: str | None
    query: QuerySummary
    streams: StreamsSummary
    data: TablesSummary
    filesystem: str | None


class Live(TypedDict):
    """How a trial stands, about twice a second, as `crates/loadgen/src/run/live.rs` has it."""

    elapsed_ns: Whole
    iteration: Whole
    iterations: Whole
    stage: str
    requests: Whole
    failed: Whole
    unwritten: Whole
    bytes: Whole
    requests_last_s: Whole
    bytes_last_s: Whole
    p50_ns: Whole
    p99_ns: Whole
    progress: Number | None
