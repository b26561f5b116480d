"""A result in the JSON report: its rate, its times, and what limited it."""

from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le
from typing_extensions import TypedDict

Count = Annotated[int, Ge(0)]
Positive = Annotated[int, Ge(1)]
Amount = Annotated[float, Ge(0)]
PositiveFloat = Annotated[float, Gt(0)]
Share = Annotated[float, Ge(0), Le(1)]


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
