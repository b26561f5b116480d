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
    """Spread of the trials of a result."""

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
    """Number of times."""
    p50: Count | None
    """The median."""
    p75: Count | None
    """75th percentile."""
    p90: Count | None
    """90th percentile."""
    p95: Count | None
    """95th percentile."""
    p99: Count | None
    """99th percentile."""
    p99_9: Count | None
    """99.9th percentile."""
    max: Count
    """The longest."""
    mean: Amount
    """The mean."""
    min: Count
    """The shortest."""
    unresolved: dict[str, str]
    """Reasons for percentiles that are null."""
    at_least: dict[str, int]
    """Lower bounds of percentiles that lie among timeouts."""


class ReportClient(TypedDict):
    """Cost of the load on the client."""

    cpu_us_per_request: float | None
    """Processor time of the load's threads for each request, in microseconds."""
    rss_bytes_max: float | None
    """Most memory."""
    sockets_max: float | None
    """Most TCP sockets in use or in TIME_WAIT on the host."""


class ReportInstrument(TypedDict):
    """The load generator: its share of its own ceiling, and its disturbances."""

    share_of_ceiling: Amount | None
    """Used share of the load generator's own ceiling: 1 is all of it."""
    ceiling_requests_per_s: Amount | None
    """Rate at which all of it is used."""
    ceiling_basis: Literal["measured", "processor time"] | None
    """Basis of the ceiling."""
    ceiling_extended: bool | None
    """Whether requests were larger than all calibrated ones."""
    calibration_age_s: Amount | None
    """Age of the calibration at the start of the trial."""
    no_ceiling: str | None
    """Reason if the ceiling is unknown."""
    hiccup_ns_p99_9: Count | None
    """Delay of a thread that only sleeps, 99.9th percentile."""
    hiccup_ns_max: Count | None
    """The same, at most."""
    run_delay_share: Amount | None
    """Share of time that the worst load thread waited for a core."""


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
    """Threshold."""
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
    """Number of iterations."""
    load: dict[str, Any]
    """The load, as in the trial document."""
    trials: list[str]
    """Trials in here."""
    standing: Literal["valid", "bound", "void"]
    """Meaning of the rate: that of the target; a lower bound; none."""
    reasons: list[str]
    """Ids of the rules behind the standing; empty if valid."""
    requests: Count
    """Requests, good and failed."""
    good_requests: Count
    """Successful requests."""
    failed_requests: Count | None
    """Requests that failed; null where another tool's file does not state it."""
    unwritten_requests: Count
    """Requests for objects whose own put had failed: no failures of their own."""
    lost_races: Count
    """Requests whose condition did not hold, for another write had come first: no failures."""
    errors: dict[str, Positive]
    """Failed requests, and those for unwritten objects, by kind."""
    error_example: str | None
    """First message of the most frequent error."""
    objects: Count
    """Objects of successful requests."""
    bytes: Count
    """Payload of successful requests."""
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
    """Objects per second at this rate."""
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
    """Rates of each trial."""
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
    """Requests in flight over rate times time, which is 1 by Little's law."""
    client: ReportClient
    instrument: ReportInstrument
    verdict: ReportVerdict | None
    """Limit of the rate; null if not judged."""
    labels: list[str]
    """Labels: warnings about the numbers."""
