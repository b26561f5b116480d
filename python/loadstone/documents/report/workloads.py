"""Queries and scripts in the JSON report."""

from typing import Annotated, Any, Literal

from typing_extensions import TypedDict

from loadstone.documents.report.result import (
    Amount,
    Count,
    From,
    Positive,
    PositiveFloat,
    ReportLatency,
    ReportSpread,
)


class ReportQuery(TypedDict):
    query: str
    seconds: list[float]
    """Each right run, in the order of the blocks."""
    mean_s: float | None
    """The geometric mean of the right runs."""
    standing: Literal["valid", "bound", "void"]
    seconds_spread: Annotated[ReportSpread | None, From("time.spread")]
    """Spread of the runs; null with fewer than two."""
    cpu_s: float | None
    read_bytes: int | None
    """Bytes from the storage: of devices and over TCP, the median."""
    rows: int | None
    compared: Annotated[bool, From("is_compared")]
    failures: dict[str, Any]
    messages: list[str]
    memory_stalled: Annotated[float | None, From("memory.stalled")]
    """Share of its time in which some work stalled for memory, as the kernel counts it (PSI):
    of the engine's control group, or else of the host."""
    memory_peak_bytes: Annotated[int | None, From("memory.peak_bytes")]
    """Most memory that the engine's processes held in it."""
    major_faults: Annotated[int | None, From("memory.major_faults")]
    """Pages that the engine's processes had to read from a device."""
    spilled_bytes: Annotated[int | None, From("memory.spilled_bytes")]
    """Bytes that the engine wrote to devices; null for an engine that also writes data without lack
    of memory (Spark).
    """
    reread_bytes: Annotated[int | None, From("memory.reread_bytes")]
    """Bytes read from devices that the kernel had evicted shortly before, by its own count
    (workingset_refault of the host).
    """
    limit: str | None
    limit_evidence: Annotated[str | None, From("evidence")]
    """From what that follows: processors busy, memory, bytes per second and latency of what the
    path does by itself."""


class ReportArm(TypedDict):
    """One target, engine and state of the cache."""

    target: Annotated[str, From("arm.target")]
    engine: Annotated[str, From("arm.engine")]
    cache: Annotated[str | None, From("arm.cache")]
    threads: Annotated[str | None, From("arm.threads")]


class ReportQueryArm(ReportArm):
    """The queries of one arm, one at a time."""

    total_s: float | None
    """The sum of the medians; null unless every query was answered."""
    geometric_mean_s: float | None
    right: int
    queries: list[ReportQuery]


class ReportQueryFailure(TypedDict):
    query: str
    outcome: str
    count: int
    message: str


class ReportQueryStreams(ReportArm):
    """Concurrent streams of queries on one arm."""

    streams: int
    """Number of concurrent streams."""
    queries: int
    """Queries of all streams of one run."""
    elapsed_s: Annotated[list[float], From("seconds")]
    """Each run in which every answer was right, in the order of the blocks."""
    queries_per_hour: Annotated[float | None, From("rate.value")]
    """The geometric mean of the runs, all queries by wall time; null unless a run was right."""
    queries_per_hour_spread: Annotated[ReportSpread | None, From("rate.spread")]
    """Spread of the runs; null with fewer than two."""
    queries_per_hour_by_run: Annotated[list[float], From("rates")]
    cpu_s: float | None
    """Median CPU time of a run."""
    read_bytes: int | None
    """Median bytes read by a run."""
    right: int
    asked: int
    compared: Annotated[bool, From("is_compared")]
    failures: list[ReportQueryFailure]
    stream_s: Annotated[dict[str, float], From("by_stream_s")]
    """When each stream ended, the median of the runs."""
    query_mean_s: Annotated[dict[str, float], From("mean_s")]
    """The geometric mean of each query over streams and runs, with the others beside it."""


class ReportQueryLoad(TypedDict):
    """The tables on one target; seconds are null where they were there."""

    target: str
    seconds: float | None
    filesystem: str | None
    """Type of the mount that holds them."""
    files_kept: int
    """Files that this run had written before it was cut off."""
    bytes_kept: int
    """Their bytes, which are in bytes; seconds are those of the rest."""
    benchmark: str
    scale: float
    format: str
    partitions: int
    files: int
    bytes: int
    sha256: str
    was_there: bool


class ReportQueries(TypedDict):
    arms: list[ReportQueryArm]
    streams: list[ReportQueryStreams]
    loads: list[ReportQueryLoad]


class ReportAction(TypedDict):
    """One action of scripts in one case and round, over all its trials."""

    target: Annotated[str, From("cell.target")]
    """Name of the target."""
    workload: Annotated[str, From("cell.workload")]
    """Name of the workload."""
    phase: Annotated[str, From("cell.phase")]
    """Name of the phase."""
    action: str
    """The action, as the script names it; ALL is what users did, in action_groups those of one
    type, CREATE_USER and AUDIT apart."""
    space: str | None
    """The kind of space, private or inbox, that these actions alone are of; null where that tells
    none apart."""
    user_type: str | None
    """The type, by the script, of the users who alone did these; null where that tells none apart.
    """
    parameters: Annotated[dict[str, Any], From("cell.parameters")]
    """The parameters of the case, by name."""
    round: Annotated[Count | None, From("cell.round")]
    """Round, from 1; null where several are added up."""
    trials: Annotated[list[str], From("cell.trials")]
    """Trials in here."""
    actions: Annotated[Count, From("cell.requests")]
    """All actions of the measured part."""
    good_actions: Annotated[Count, From("cell.good")]
    """Actions whose requests were all successful."""
    failed_actions: Annotated[Count, From("cell.failed")]
    """Actions with a failed request."""
    unwritten_actions: Annotated[Count, From("cell.unwritten")]
    """Actions on subjects in doubt after an earlier failed request."""
    errors: Annotated[dict[str, Positive], From("cell.errors")]
    """Other actions by the kind of their first request that failed."""
    requests: Annotated[Count, From("cell.objects")]
    """Requests of good actions."""
    bytes: Annotated[Count, From("cell.bytes")]
    """Payload of good actions."""
    duration_s: Annotated[PositiveFloat, From("cell.duration_s")]
    """Measured time, of all trials together."""
    completed_per_s: float | None
    """Good actions of all clients together, by wall time; of actions that run before or after all
    others, from the begin of the first to the end of the last, and null where the record does not
    say it."""
    busy_per_s: float | None
    """Good actions by the sum of their own times: what a client does that does nothing else."""
    crypto_share: Amount | None
    """The client's cryptography as a share of the time of good actions; null where the record does
    not say it."""
    completed_per_s_spread: Annotated[ReportSpread | None, From("completed.spread")]
    """Spread of completed_per_s over the trials; null with fewer than two."""
    standing: Annotated[Literal["valid", "bound", "void"], From("cell.standing")]
    """Meaning of the rate: that of the target; a lower bound; none."""
    reasons: Annotated[list[str], From("cell.reasons")]
    """Ids of the rules behind the standing; empty if valid."""
    response_ns: Annotated[ReportLatency | None, From("cell.response")]
    """From the intended start to the end."""
    service_ns: Annotated[ReportLatency | None, From("cell.service")]
    """From when the client began the action to the end of its last request."""
    lag_ns: Annotated[ReportLatency | None, From("cell.lag")]
    """From the intended to the actual start; open load only."""
    encryption_ns: Annotated[ReportLatency | None, From("cryptography.encryption")]
    """Encryption and decryption in good actions with any."""
    wrapping_ns: Annotated[ReportLatency | None, From("cryptography.wrapping")]
    """Creating, wrapping and unwrapping keys in good actions with any."""
    hashing_ns: Annotated[ReportLatency | None, From("cryptography.hashing")]
    """Digests of bodies in good actions with any."""
    paths_ns: Annotated[ReportLatency | None, From("cryptography.paths")]
    """Encryption and decryption of paths in good actions with any."""


class ReportOrigin(TypedDict):
    """The trace that a script came from, and the part of it that is in the script."""

    format: str
    """The trace's format, as loadstone script convert names it."""
    files: list[str]
    """The trace's files, without their folders."""
    rows_read: Count
    """Requests in the trace, including left out and malformed ones."""
    actions: Count
    """Those of them that became actions."""
    span_ns: Count
    """From the first action's time to the last one's."""
    left_out: dict[str, Positive]
    """Requests that a script cannot have, by reason."""
    malformed: Count
    """Lines that could not be read and were skipped, as the user said."""
    malformed_examples: list[str]
    """Places of the first of them, with the reasons."""
    sessions_by: Literal["key", "client"]
    """The requests that sessions keep in order: those of a key, or of a client."""
    sessions: Positive
    """Sessions that keys were dealt to."""
    size_bytes: int | None
    """The size given to objects of which the trace has none."""
    is_anonymous: bool
    """Whether keys were hashed."""
    has_times: bool
    """Whether the times of the trace were kept."""


class ReportReplay(TypedDict):
    """Fidelity of one trial to its trace or script."""

    trial: str
    """The trial."""
    target: str
    """Name of the target."""
    workload: str
    """Name of the workload."""
    phase: str
    """Name of the phase."""
    parameters: dict[str, Any]
    """The parameters of the case, by name."""
    round: Count
    """Round, from 1."""
    script: str
    """SHA-256 of the script's requests."""
    speed: float | None
    """How many times as fast as in the trace its times passed; null where only the order was kept.
    """
    actions_planned: Count
    """Actions of the script."""
    actions_done: Count
    """Those that ended, well or not."""
    actions_good: Count
    """Those that succeeded."""
    recorded_s: float | None
    """When the last request was due."""
    achieved_s: float
    """When the last one was done."""
    lateness_ns: Annotated[ReportLatency | None, From("lateness")]
    """Lateness of good actions."""
    origin: ReportOrigin | None
    """The trace; null where the script does not say that it came from one."""
