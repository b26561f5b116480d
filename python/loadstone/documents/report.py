"""The JSON report, key by key. `docs/reference/report.schema.json` is made from these types.

Run `python -m tests.docs.report_schema` after a change. An absent number is null.
"""

from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le
from typing_extensions import TypedDict

Count = Annotated[int, Ge(0)]
Positive = Annotated[int, Ge(1)]
Amount = Annotated[float, Ge(0)]
PositiveFloat = Annotated[float, Gt(0)]
Share = Annotated[float, Ge(0), Le(1)]


class ReportRun(TypedDict):
    """The run."""

    id: str | None
    """Thirty-two hexadecimal digits."""
    name: str
    """The campaign's name."""
    state: Literal["running", "finished", "interrupted", "failed"]
    """How the run stands."""
    seed: int | None
    """Where all chance came from."""
    started: str | None
    """When it started."""
    ended: str | None
    """When it ended."""
    loadstone: str | None
    """Version that measured."""
    versions: dict[str, Any]
    """Versions of what took part."""
    host: dict[str, Any]
    """Facts about the client host."""
    nodes: dict[str, Any]
    """What each node of the campaign said of itself, by its name; one that could not be asked has
    "failed". "probes" are its devices and mounts as fio measured them, "paths" the network from it
    to each other node; "outputs" of either are files of the run's folder with what programs
    printed."""


class ReportSpread(TypedDict):
    """How far the trials of a result lie apart."""

    kind: Literal["95 % interval", "least and most"]
    """From five trials on the 95 % interval of their geometric mean (Student's t on logarithms; of
    several days, over these); below, the trials themselves."""
    low: Amount
    high: Amount
    n: Annotated[int, Ge(2)]
    """Trials."""
    days: Positive
    """Days that they are of."""


class ReportTrialRate(TypedDict):
    """One trial of a case."""

    trial: str
    """Trial."""
    round: Count
    """Its round."""
    block: Count
    """Its block."""
    requests_per_s: Amount
    """Good requests over its measured time."""
    bytes_per_s: Amount
    """Payload over its measured time."""
    duration_s: Amount
    """Its measured time."""


class ReportLatency(TypedDict):
    """Times of good requests in nanoseconds, from a merged histogram."""

    count: Count
    """How many times."""
    p50: Count | None
    """The median."""
    p75: Count | None
    """75 % took at most so long."""
    p90: Count | None
    """90 %."""
    p95: Count | None
    """95 %."""
    p99: Count | None
    """99 %."""
    p99_9: Count | None
    """99.9 %."""
    max: Count
    """The longest."""
    mean: Amount
    """The mean."""
    min: Count
    """The shortest."""
    unresolved: dict[str, str]
    """Why a percentile is null."""
    at_least: dict[str, int]
    """What a percentile is at least, where it lies among timeouts."""


class ReportClient(TypedDict):
    """What the load cost its client."""

    cpu_us_per_request: float | None
    """Processor time of the load's threads for each request, in microseconds."""
    rss_bytes_max: float | None
    """Most memory."""
    sockets_max: float | None
    """Most TCP sockets in use or in TIME_WAIT on the host."""


class ReportInstrument(TypedDict):
    """The load generator itself: how near its own ceiling, and what disturbed it."""

    share_of_ceiling: Amount | None
    """How much of its own ceiling the load generator used: 1 is all of it."""
    ceiling_requests_per_s: Amount | None
    """The rate at which nothing of it would be left."""
    ceiling_basis: Literal["measured", "processor time"] | None
    """What the ceiling rests on."""
    ceiling_extended: bool | None
    """Whether requests were larger than any that was calibrated."""
    calibration_age_s: Amount | None
    """How old the calibration was when the trial began."""
    no_ceiling: str | None
    """Why the ceiling is not known."""
    hiccup_ns_p99_9: Count | None
    """By how much a thread that sleeps for a moment woke late, 99.9th percentile."""
    hiccup_ns_max: Count | None
    """The same, at most."""
    run_delay_share: Amount | None
    """How long the worst load thread was ready and had no core, as a share of the time."""


class ReportObservation(TypedDict):
    resource: str
    says: Literal["supports", "refutes", "open", "not observed"]
    """Whether what was seen supports or refutes that the resource is the limit, or leaves it open.
    """
    value: float | None
    """The share that was used; of other loads the rate over that of the next one."""
    threshold: float | None
    """From here on it would be a limit."""


class ReportEvidence(TypedDict):
    """One number behind a finding."""

    metric: str
    """What it is."""
    value: float | str
    """The number."""
    threshold: float | str | None
    """What it was held against."""
    unit: str
    """Its unit."""
    place: str
    """Where it stands."""


class ReportVerdict(TypedDict):
    limit: str
    """The resource, such as INSTRUMENT_CPU or TARGET_DISK."""
    grade: Literal["A", "B", "C"] | None
    """A: an intervention confirmed it; B: two counters; C: one; null: nothing is claimed."""
    reason: str
    also: list[str]
    """Further limits that stand beside the first."""
    not_observed: list[str]
    """Resources that nothing looked at, in words."""
    next: str
    """The measurement that would decide or strengthen the verdict: why, and its command; empty
    where none would."""
    observations: list[ReportObservation]
    """Each resource, from the client over the path to the target, and what was seen of it."""
    evidence: list[ReportEvidence]


class ReportResult(TypedDict):
    """One operation of one case over its trials and agents, judged."""

    target: str
    """Name of the target."""
    workload: str
    """Name of the workload."""
    phase: str
    """Name of the phase."""
    operation: str
    """Name of the operation."""
    parameters: dict[str, Any]
    """The parameters of the case, by name."""
    round: Count | None
    """Round, from 1; null where several are added up."""
    iteration: Count | None
    """Iteration, from 1; null where all iterations are added up."""
    iterations: Count
    """How many iterations are in here."""
    load: dict[str, Any]
    """How requests arrived, as in the trial document."""
    trials: list[str]
    """Trials in here."""
    standing: Literal["valid", "bound", "void"]
    """What the rate may be taken for: what the target does; the least that it can do; nothing."""
    reasons: list[str]
    """The rules that the standing follows from, by their ids; empty where it is valid."""
    requests: Count
    """Requests, good and failed."""
    good_requests: Count
    """Requests that did what they were for."""
    failed_requests: Count | None
    """Requests that failed; null where another tool's file does not state it."""
    unwritten_requests: Count
    """Requests for objects whose own put had failed: no failures of their own."""
    lost_races: Count
    """Requests whose condition did not hold, for another write had come first: no failures."""
    errors: dict[str, Positive]
    """Failed requests, and those for unwritten objects, by kind."""
    error_example: str | None
    """What came back with the first of the most frequent error."""
    objects: Count
    """Objects that good requests touched."""
    bytes: Count
    """Payload of good requests."""
    duration_s: PositiveFloat
    """Measured time, of all trials together."""
    first_done_s: float | None
    """When the first client had no more work, in the slowest trial."""
    last_done_s: float | None
    """When the last request was answered, in the slowest trial."""
    requests_per_s: Amount
    """The rate, as printed everywhere: the geometric mean of the trials (over several days, of the
    days' means); 0 where no trial has a rate."""
    requests_per_s_spread: ReportSpread | None
    """Spread of the rate over the trials; null with fewer than two."""
    objects_per_s: Amount
    """Objects that this rate touches."""
    bytes_per_s: Amount
    """Payload a second: the geometric mean of the trials."""
    bytes_per_s_spread: ReportSpread | None
    """Spread of the payload a second over the trials; null with fewer than two."""
    pooled_requests_per_s: Amount
    """Good requests of all trials over their measured time: longer trials weigh more. Printed
    nowhere else."""
    pooled_bytes_per_s: Amount
    """Payload of all trials over their measured time."""
    trial_rates: list[ReportTrialRate]
    """What each trial reached."""
    response_ns: ReportLatency | None
    """From the intended start to the end."""
    service_ns: ReportLatency | None
    """From the actual start to the end."""
    first_byte_ns: ReportLatency | None
    """From the actual start to the first byte of the answer; null too where answers come in one
    piece."""
    lag_ns: ReportLatency | None
    """From the intended to the actual start; open load only."""
    part_ns: ReportLatency | None
    """Of each good part of the good requests that went in parts (multipart_put, multipart_get),
    from its first byte sent to the last of its answer."""
    parts_failed: Count
    """Parts that failed."""
    little: float | None
    """Requests in flight against rate times time; 1 when they agree."""
    client: ReportClient
    instrument: ReportInstrument
    verdict: ReportVerdict | None
    """What limited the rate; null where nothing was asked."""
    labels: list[str]
    """What must be known before these numbers are used."""


class ReportTrial(TypedDict):
    """One planned trial."""

    trial: str
    """Its number in the plan."""
    state: str
    """finished, stopped, interrupted, or not run."""
    reason: str | None
    """Why it did not finish."""
    target: str
    """Target."""
    workload: str
    """Workload."""
    phase: str
    """Phase."""
    operations: list[str]
    """Operations of its mix."""
    parameters: dict[str, Any]
    """Parameters."""
    round: Count
    """Round."""
    block: Count
    """Block."""
    measured: bool
    """False for trials that prepare or clean up."""
    started_unix_ns: Count | None
    """When it started."""
    duration_s: float | None
    """How long it ran."""
    requests: Count | None
    """Requests of all stages."""
    failed: Count | None
    """Failed requests of all stages."""
    unwritten: Count | None
    """Requests of all stages for objects whose own put had failed."""
    lost_races: Count | None
    """Requests of all stages whose condition another write had broken first."""
    labels: list[str]
    """Labels."""
    errors: list[str]
    """Failed requests by kind, each with a first message."""
    absent_probes: dict[str, str]
    """What could not be observed, and why."""
    little: Amount | None
    """Requests in flight against rate times time; 1 when they agree."""
    hiccup_ns_p99_9: Count | None
    """By how much a thread that sleeps for a moment woke late, 99.9th percentile."""
    hiccup_ns_max: Count | None
    """The same, at most."""
    run_delay_share: Amount | None
    """How long the worst load thread was ready and had no core, as a share of the time."""
    features: dict[str, Any]
    """What the driver used of the kernel, and what it was refused."""
    hosts: list[dict[str, Any]]
    """What each client host did, where several made the load together: name, state (finished, lost,
    idle), reason, clients, requests, failed, bytes, lost_ns, start_error_ns_max, clock_offset_ns,
    clock_bound_ns, round_trip_ns, clock_step_ns (by how much its clock was set meanwhile)."""
    target_state: dict[str, Any]
    """What was seen of the target before and after the load, by the probe that looked."""


class ReportFinding(TypedDict):
    """One statement of one rule."""

    rule: str
    """The rule, or the label it explains."""
    severity: Literal["problem", "caution", "note"]
    """How grave it is."""
    effect: Literal["invalid", "bound", "precision", "none"]
    """What follows for the number: not to be used, a bound, less certain than it looks, or nothing.
    """
    statement: str
    """The statement."""
    means: str
    """What follows for the number, as a sentence."""
    do: str
    """What to do about it."""
    inferred: bool
    """True when it rests on something nobody stated."""
    chance: float | None
    """How probable the pattern is by accident."""
    cases: list[str]
    """What it is about."""
    evidence: list[ReportEvidence]
    """The numbers behind it."""


class ReportSearchObjective(TypedDict):
    quantile: str
    latency_ns_max: int
    errors_max: float
    achieved_min: float


class ReportSearchStep(TypedDict):
    trial: str
    stage: Literal["coarse", "fine", "confirm"]
    load: float
    duration_s: float
    requests_per_s: float
    errors: float
    achieved: float
    stalled: float
    """Share of the trial in which the client's own host stood still."""
    left_out: bool
    """It missed the objective while the client stood still, and does not count."""
    good: bool
    latency_ns: float | None
    """The percentile of the objective; null where it lies among requests that timed out or were not
    sent, or where there were too few."""


class ReportSearch(TypedDict):
    search: str
    target: str
    workload: str
    phase: str
    parameters: dict[str, Any]
    round: int
    block: int
    confirmed: bool
    doubted: bool
    """The load that fails was missed only while the client's own host stood still."""
    over: bool
    end: Literal[
        "confirmed", "highest passes", "lowest fails", "none confirmed", "gave up", "not over"
    ]
    """How the search ended; "not over" where trials are missing."""
    reason: str
    operations: list[str]
    vary: Literal["rate", "threads"]
    objective: ReportSearchObjective
    holds_at: float | None
    """The largest load that met the objective, in requests a second or threads."""
    fails_at: float | None
    """The smallest load that missed it."""
    requests_per_s: float | None
    """Good requests a second of the confirming trials."""
    requests_per_s_spread: ReportSpread | None
    """Spread of the confirming trials; null with fewer than two."""
    latency_ns: float | None
    confirming: list[str]
    steps: list[ReportSearchStep]


class ReportCeiling(TypedDict):
    """One measurement of one ceiling."""

    ceiling: str
    """The ceiling's number in the plan."""
    name: str
    """Its name in the campaign."""
    kind: Literal["network", "device", "rados_bench", "osd_bench", "mount"]
    """What was measured."""
    targets: list[str]
    """Targets that it is a ceiling of."""
    moment: str
    """When in the run it was measured."""
    measurement: str
    """Which of its measurements this is."""
    bounds: Literal["read", "write"]
    """What it bounds."""
    bytes_per_s: float
    """The rate over the whole measurement."""
    bytes_per_s_min: float | None
    """The slowest second, or sample of fio's."""
    bytes_per_s_max: float | None
    """The fastest second, or sample of fio's."""
    bytes_per_second: list[float]
    """The rate of each whole second, where the program prints it."""
    requests_per_s: float | None
    """I/Os or operations per second."""
    service_ns: ReportLatency | None
    """From the actual start to the end."""
    count: int
    """How many of them work side by side in each target."""
    is_value: bool
    """Whether results are held against this measurement."""
    tool: str
    """The program that measured it."""
    tool_version: str | None
    """The program's version."""
    commands: list[list[str]]
    """The commands that ran, side by side."""
    outputs: list[str]
    """Files below ceilings/ that hold what they printed."""


class ReportHook(TypedDict):
    """One command of the campaign's own."""

    hook: str
    """Its name."""
    at: str
    """Its point of the run, or time into the trial."""
    trial: str | None
    """The trial it belongs to."""
    phase: str | None
    """That trial's phase."""
    command: list[str]
    """The words that were executed."""
    on_failure: Literal["stop", "label"]
    """What its failure was to do."""
    state: Literal["ended", "timeout", "stopped", "not started", "not reached"]
    """How it ended."""
    exit_code: int | None
    """Its exit code."""
    said: str
    """The last that it printed, without secrets."""
    started_unix_ns: int
    """When it started."""
    ended_unix_ns: int
    """When it ended."""


class ReportIntervention(TypedDict):
    changed: str
    case: str
    operation: str
    base_trials: list[str]
    trials: list[str]
    base_requests_per_s: float
    requests_per_s: float
    ratio: float
    ratio_low: float | None
    ratio_high: float | None
    n: int


class ReportMistake(TypedDict):
    id: str
    """The id of the mistake in the reference of findings."""
    mistake: str
    """What is looked for."""
    outcome: Literal["pass", "fail", "not stated", "not applicable"]
    """Whether the run makes it."""
    evidence: str
    """What that rests on."""


class ReportQuery(TypedDict):
    query: str
    seconds: list[float]
    """Each right run, in the order of the blocks."""
    mean_s: float | None
    """The geometric mean of the right runs."""
    standing: Literal["valid", "bound", "void"]
    seconds_spread: ReportSpread | None
    """Spread of the runs; null with fewer than two."""
    cpu_s: float | None
    read_bytes: int | None
    """Bytes from the storage: of devices and over TCP, the median."""
    rows: int | None
    compared: bool
    failures: dict[str, Any]
    messages: list[str]
    memory_stalled: float | None
    """Share of its time in which some work stood still for memory, as the kernel counts it (PSI):
    of the engine's control group, or else of the host."""
    memory_peak_bytes: int | None
    """Most memory that the engine's processes held in it."""
    major_faults: int | None
    """Pages that the engine's processes had to read from a device."""
    spilled_bytes: int | None
    """What the engine wrote to devices; null for an engine that also writes what it has memory for
    (Spark)."""
    reread_bytes: int | None
    """Of the bytes read from devices, those that the kernel had dropped not long before, as it
    counts them (workingset_refault of the host)."""
    limit: str | None
    limit_evidence: str | None
    """From what that follows: processors busy, memory, bytes per second and latency of what the
    path does by itself."""


class ReportArm(TypedDict):
    """One target, engine and state of the cache."""

    target: str
    engine: str
    cache: str | None
    threads: str | None


class ReportQueryArm(ReportArm):
    """The queries of one arm, one after the other."""

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
    """So many streams beside each other on one arm."""

    streams: int
    """How many ran beside each other."""
    queries: int
    """Of all streams of one run."""
    elapsed_s: list[float]
    """Each run in which every answer was right, in the order of the blocks."""
    queries_per_hour: float | None
    """The geometric mean of the runs, all queries by wall time; null unless a run was right."""
    queries_per_hour_spread: ReportSpread | None
    """Spread of the runs; null with fewer than two."""
    queries_per_hour_by_run: list[float]
    cpu_s: float | None
    """Of a run, the median."""
    read_bytes: int | None
    """Of a run, the median."""
    right: int
    asked: int
    compared: bool
    failures: list[ReportQueryFailure]
    stream_s: dict[str, float]
    """When each stream ended, the median of the runs."""
    query_mean_s: dict[str, float]
    """The geometric mean of each query over streams and runs, with the others beside it."""


class ReportQueryLoad(TypedDict):
    """The tables on one target; seconds are null where they were there."""

    target: str
    seconds: float | None
    filesystem: str | None
    """The type of the mount that really holds them."""
    benchmark: str
    scale: float
    format: str
    partitions: int
    files: int
    bytes: int
    sha256: str
    was_there: bool
    files_kept: int
    """Files that this run had written before it was cut off."""
    bytes_kept: int
    """Their bytes, which are in bytes; seconds are those of the rest."""


class ReportQueries(TypedDict):
    arms: list[ReportQueryArm]
    streams: list[ReportQueryStreams]
    loads: list[ReportQueryLoad]


class ReportAction(TypedDict):
    """One action of scripts in one case and round, over all its trials."""

    target: str
    """Name of the target."""
    workload: str
    """Name of the workload."""
    phase: str
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
    parameters: dict[str, Any]
    """The parameters of the case, by name."""
    round: Count | None
    """Round, from 1; null where several are added up."""
    trials: list[str]
    """Trials in here."""
    actions: Count
    """All actions of the measured part."""
    good_actions: Count
    """Those all of whose requests did what they were for."""
    failed_actions: Count
    """Those of which a request failed."""
    unwritten_actions: Count
    """Those that met what an earlier failed request had left in doubt."""
    errors: dict[str, Positive]
    """Other actions by the kind of their first request that failed."""
    requests: Count
    """Requests that good actions were made of."""
    bytes: Count
    """Payload that good actions moved."""
    duration_s: PositiveFloat
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
    completed_per_s_spread: ReportSpread | None
    """Spread of completed_per_s over the trials; null with fewer than two."""
    standing: Literal["valid", "bound", "void"]
    """What the rate may be taken for: what the target does; the least that it can do; nothing."""
    reasons: list[str]
    """The rules that the standing follows from, by their ids; empty where it is valid."""
    response_ns: ReportLatency | None
    """From the intended start to the end."""
    service_ns: ReportLatency | None
    """From when the client began the action to the end of its last request."""
    lag_ns: ReportLatency | None
    """From the intended to the actual start; open load only."""
    encryption_ns: ReportLatency | None
    """What good actions spent on encrypting and decrypting, of those that spent any."""
    wrapping_ns: ReportLatency | None
    """What good actions spent on making, wrapping and unwrapping keys, of those that spent any."""
    hashing_ns: ReportLatency | None
    """What good actions spent on digests of bodies, of those that spent any."""
    paths_ns: ReportLatency | None
    """What good actions spent on sealing and opening encrypted paths, of those that spent any."""


class ReportOrigin(TypedDict):
    """The trace that a script came from, and what of it is in the script."""

    format: str
    """The trace's format, as loadstone script convert names it."""
    files: list[str]
    """The trace's files, without their folders."""
    rows_read: Count
    """Requests that were read of the trace, those that are left out or malformed too."""
    actions: Count
    """Those of them that became actions."""
    span_ns: Count
    """From the first action's time to the last one's."""
    left_out: dict[str, Positive]
    """Requests that have no place in a script, by reason."""
    malformed: Count
    """Lines that could not be read and were skipped, as the user said."""
    malformed_examples: list[str]
    """Where the first of them stand, and why."""
    sessions_by: Literal["key", "client"]
    """What a session keeps in order."""
    sessions: Positive
    """Sessions that keys were dealt to."""
    size_bytes: int | None
    """The size given to objects of which the trace has none."""
    is_anonymous: bool
    """Whether keys were hashed."""
    has_times: bool
    """Whether the times of the trace were kept."""


class ReportReplay(TypedDict):
    """How faithful one trial's replay of a trace was."""

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
    """Those that ended well."""
    recorded_s: float | None
    """When the last request was due."""
    achieved_s: float
    """When the last one was done."""
    lateness_ns: ReportLatency | None
    """How long after its time each good action began."""
    origin: ReportOrigin | None
    """The trace; null where the script does not say that it came from one."""


class ReportContention(TypedDict):
    target: str
    """Name of the target."""
    workload: str
    """Name of the workload."""
    phase: str
    """Name of the phase."""
    parameters: dict[str, Any]
    """The parameters of the case, by name."""
    trials: list[str]
    """Trials in here."""
    wins: Count
    """Requests that ended with a win."""
    wins_per_s: Amount
    """The rate of wins."""
    tries_per_win: Amount | None
    """Conditional writes that a win took, itself included; null without a win."""
    win_ns: ReportLatency | None
    """From the intended start to the end."""
    fairness: Share | None
    """The least of its trials' Jain indices over clients: 1 where all did as many requests."""


class ReportAuditCall(TypedDict):
    operation: str
    """What was asked for."""
    trial: str | None
    """The trial that asked; null in reads of the audit itself."""
    outcome: str
    """How it ended; failed where the ledger says no more."""
    version: int | None
    """The version that it wrote, or that had to be there; null of a delete, and where nothing had
    to."""
    from_unix_ns: Count
    """It began after this, by its host's clock."""
    to_unix_ns: Count
    """It had ended by then. Of a write, the times are those of its page in the ledger."""


class ReportAuditFinding(TypedDict):
    target: str
    """The target."""
    audit: str
    """The trial that found it."""
    kind: str
    """What is wrong: lost, stale, resurrected, corrupt, torn, short, long, mixed, phantom, ghost,
    list_missing, listed_twice."""
    bucket: str
    """The bucket."""
    key: str
    """The key."""
    number: Count
    """The number of the object."""
    calls: list[ReportAuditCall]
    """The calls that prove it, in their order."""


class ReportAudit(TypedDict):
    trials: list[str]
    """The trials that read back."""
    acknowledged: Count
    """Objects of which exactly one state is right: a put or a delete was acknowledged."""
    read_back: Count
    """Those of them that were read, and answered."""
    unknown: Count
    """Objects of which more states are right: a request failed or was cut off."""
    unanswered: Count
    """Objects of which no answer told anything."""
    listings_failed: Count
    """Buckets whose listing failed."""
    wrong: Count
    """Findings, also those beyond the ones that are listed."""
    wrong_share_max: float | None
    """The share of wrong objects that is excluded with 95 %, one-sided, by Clopper and Pearson;
    null if nothing was read."""
    is_whole: bool
    """Whether the audits ran to their ends."""
    findings: list[ReportAuditFinding]
    """Objects that are not as was acknowledged; 10,000 of an audit at most."""


class ReportDocument(TypedDict):
    """The whole report."""

    format: Literal[1]
    """Version of this format."""
    run: ReportRun
    results: list[ReportResult]
    """One entry per target, workload, phase, operation and parameters: what every report shows
    first. All rounds and iterations are added up."""
    rounds: list[ReportResult]
    """The same for each round. Never add rounds to results."""
    iterations: list[ReportResult]
    """The same for each round and iteration. They can be added up."""
    mixes: list[ReportResult]
    """Phases of several operations once more, as the operation all. Never add mixes to results."""
    ceilings: list[ReportCeiling]
    """Limits measured apart from the load, each measurement."""
    hooks: list[ReportHook]
    """The campaign's own commands that were run, in order."""
    searches: list[ReportSearch]
    """Searches for a capacity: their answers and every trial on the way."""
    interventions: list[ReportIntervention]
    """Cases beside themselves with one thing halved."""
    queries: ReportQueries | None
    """What queries on tables took; null of other runs."""
    contention: list[ReportContention]
    """How clients that contended for a few objects won; empty of other runs."""
    trials: list[ReportTrial]
    """Every planned trial and what became of it."""
    findings: list[ReportFinding]
    """What analysis has to say."""
    mistakes: list[ReportMistake]
    """The common mistakes of benchmark reports, and whether this run makes them."""
    actions: list[ReportAction]
    """What the actions of scripts did; empty of other runs."""
    action_groups: list[ReportAction]
    """The same actions by the kind of their space and the type of their user, where scripts have
    several, and all actions of each type together. They are in actions, too: never add the two."""
    action_totals: list[ReportAction]
    """All actions of a case together, over all its rounds, CREATE_USER and AUDIT apart: what the
    first screen of a report leads with."""
    replays: list[ReportReplay]
    """How faithful replays of traces were, and scripts at their times; empty of other runs."""
    audit: ReportAudit | None
    """What all audits found together; null where there was none. An object that several audits read
    counts in each."""
    audits: list[ReportAudit]
    """Each audit by itself, those after the end of the run last."""
