"""What is observed of a trial, as the types of the load generator have them.

Made from docs/reference/record.schema.json by `python -m tests.docs.document_types`: change the
types in Rust. Any key may be absent, as documents of earlier builds lack some. Where Rust knows all
words of a key it is a text here: a later build knows more.
"""

from typing_extensions import TypedDict

from loadstone.documents.python_types import (
    Number,
    Object,
    QuerySummary,
    StatedLatency,
    StreamsSummary,
    TablesSummary,
    Whole,
)


class AuditCall(TypedDict, total=False):
    """One call in the proof of a finding."""

    client: Whole | None
    expected: Whole | None
    from_unix_ns: Whole
    operation: str
    outcome: str
    to_unix_ns: Whole
    trial: str | None
    version: Whole | None


class AuditFinding(TypedDict, total=False):
    """An object that differs from what was acknowledged."""

    bucket: str
    calls: list[AuditCall]
    key: str
    kind: str
    number: Whole
    replay: str | None
    size_bytes: Whole
    times: Whole


class Spread(TypedDict, total=False):
    """Distribution of a sample."""

    max: Whole
    p50: Whole
    p99: Whole


class HistorySummary(TypedDict, total=False):
    """Result of judging histories."""

    behind_ns: Spread
    behind_versions: Spread
    calls: Whole
    model: str
    objects: Whole
    stale_reads: Whole
    undecided: Whole


class AuditSummary(TypedDict, total=False):
    """Scope and results of an audit."""

    counts: dict[str, Whole]
    deleted: Whole
    findings: list[AuditFinding]
    history: HistorySummary | None
    listed: Whole
    listings_failed: Whole
    metadata: Whole
    metadata_read_back: Whole
    read_back: Whole
    unanswered: Whole
    unknown: Whole
    written: Whole


class ClockDocument(TypedDict, total=False):
    """Cost and resolution of the clock on this host, for the record."""

    read_ns: Number
    source: str
    step_ns: Whole


class Residue(TypedDict, total=False):
    """Residue of earlier trials in one quantity."""

    before_load: Number
    before_wait: Number
    quantity: str
    settled_max: Number


class HostState(TypedDict, total=False):
    """Residues of earlier trials on a host before a load, and how long the load waited for them
    to settle.
    """

    residues: list[Residue]
    waited_ns: Whole


class LoadHost(TypedDict, total=False):
    """The part of one client host in a trial, and how it ended."""

    bytes: Whole
    bytes_received: Whole | None
    bytes_sent: Whole | None
    clients: Whole | None
    clock_bound_ns: Whole | None
    clock_offset_ns: Whole | None
    clock_step_ns: Whole | None
    connections_opened: Whole | None
    error_examples: dict[str, str] | None
    failed: Whole
    host_state: HostState | None
    lost_ns: Whole | None
    name: str
    reason: str | None
    requests: Whole
    round_trip_ns: Whole | None
    start_error_ns_max: Whole | None
    state: str
    target_on_own_host: bool | None
    thread_awake_ns: list[Whole] | None
    thread_cpu_ns: list[Whole] | None
    thread_run_delay_ns: list[Whole | None] | None


class EdgeWork(TypedDict, total=False):
    """Corrections that turn the counts of one operation's measured rows into the work done in
    the window.
    """

    bytes: Number
    failed: Number
    objects: Number
    requests: Number


class Iteration(TypedDict, total=False):
    """The times of one iteration, in nanoseconds since the trial's start."""

    edges: dict[str, EdgeWork]
    end_ns: Whole
    first_answer_ns: Whole | None
    first_done_ns: Whole | None
    in_flight_ns: Whole | None
    iteration: Whole
    measure_end_ns: Whole
    measure_start_ns: Whole
    start_ns: Whole


class LeftPlace(TypedDict, total=False):
    """A place that a clean-up leaves."""

    has_more: bool
    kind: str
    objects: Whole | None
    place: str
    reason: str


class Stalls(TypedDict, total=False):
    """For how much of each second a core, or the whole client, stalled."""

    core: Whole | None
    seconds: list[list[Whole]]


class Summary(TypedDict, total=False):
    """The load generator's summary, and observations of its caller."""

    audit: AuditSummary | None
    buckets_absent: list[str] | None
    buckets_created: list[str]
    buckets_deleted: list[str] | None
    buckets_foreign: list[str]
    buckets_left: list[str] | None
    bytes: Whole
    bytes_received: Whole
    bytes_sent: Whole
    cache_resident_bytes: Whole | None
    cache_sampled_bytes: Whole | None
    clients: Whole
    clients_requests_max: Whole
    clients_requests_min: Whole
    clients_requests_squares: Number
    clock: ClockDocument
    connections_opened: Whole
    cores: Whole
    cores_watched: Whole | None
    ended_unix_ns: Whole | None
    error_examples: Object | None
    failed: Whole
    features: Object | None
    hiccup: str | None
    host_state: HostState | None
    hosts: list[LoadHost] | None
    iterations: list[Iteration] | None
    log_ins: Whole
    log_ins_ns: Whole
    lost_races: Whole
    mismatches: dict[str, Whole]
    objects_swept: Whole
    objects_swept_again: Whole
    objects_unwritten: list[list[Whole]]
    places_left: list[LeftPlace] | None
    puts_failed_more: Whole
    reason: str | None
    requests: Whole
    requests_repeated: Whole
    retries: dict[str, Whole]
    retries_paused_ns: Whole
    stalls: list[Stalls] | None
    start_error_ns: Whole | None
    started_monotonic_ns: Whole
    started_unix_ns: Whole
    state: str | None
    stopped_on_loss: bool | None
    target_on_own_host: bool | None
    thread_awake_ns: list[Whole]
    thread_cpu_ns: list[Whole]
    thread_run_delay_ns: list[Whole | None] | None
    unwritten: Whole
    verified_bytes: Whole
    verified_requests: Whole
    data: TablesSummary
    filesystem: str | None
    paced_by: str | None
    query: QuerySummary
    source: Object | None
    stated_latency: dict[str, StatedLatency] | None
    streams: StreamsSummary


class FileDigest(TypedDict, total=False):
    """Size and digest of a file when it was written."""

    bytes: Whole
    sha256: str
