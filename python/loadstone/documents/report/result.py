"""A result in the JSON report: its rate, its times, and what limited it."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le
from typing_extensions import TypedDict

Count = Annotated[int, Ge(0)]
Positive = Annotated[int, Ge(1)]
Amount = Annotated[float, Ge(0)]
PositiveFloat = Annotated[float, Gt(0)]
Share = Annotated[float, Ge(0), Le(1)]


@dataclass(frozen=True, slots=True)
class From:
    """The path of a key's value in the object that the document is made from: "cell.rate.spread".

    An empty path is the object itself. Without a path, the attribute has the key's name.
    """

    path: str


class ReportSpread(TypedDict):
    """Spread of the trials of a result."""

    kind: Annotated[Literal["95 % interval", "least and most"], From("spread_is")]
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
    p50: Annotated[Count | None, From("quantiles.p50")]
    """The median."""
    p75: Annotated[Count | None, From("quantiles.p75")]
    """75th percentile."""
    p90: Annotated[Count | None, From("quantiles.p90")]
    """90th percentile."""
    p95: Annotated[Count | None, From("quantiles.p95")]
    """95th percentile."""
    p99: Annotated[Count | None, From("quantiles.p99")]
    """99th percentile."""
    p99_9: Annotated[Count | None, From("quantiles.p99_9")]
    """99.9th percentile."""
    max: Annotated[Count, From("max_ns")]
    """The longest."""
    mean: Annotated[Amount, From("mean_ns")]
    """The mean."""
    min: Annotated[Count, From("min_ns")]
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

    share_of_ceiling: Annotated[Amount | None, From("instrument.share")]
    """Used share of the load generator's own ceiling: 1 is all of it."""
    ceiling_requests_per_s: Annotated[Amount | None, From("instrument.ceiling_per_s")]
    """Rate at which all of it is used."""
    ceiling_basis: Annotated[Literal["measured", "processor time"] | None, From("instrument.basis")]
    """Basis of the ceiling."""
    ceiling_extended: Annotated[bool | None, From("instrument.is_extended")]
    """Whether requests were larger than all calibrated ones."""
    calibration_age_s: Annotated[Amount | None, From("instrument.age_s")]
    """Age of the calibration at the start of the trial."""
    no_ceiling: str | None
    """Reason if the ceiling is unknown."""
    hiccup_ns_p99_9: Annotated[Count | None, From("jitter.hiccup_ns_p99_9")]
    """Delay of a thread that only sleeps, 99.9th percentile."""
    hiccup_ns_max: Annotated[Count | None, From("jitter.hiccup_ns_max")]
    """The same, at most."""
    run_delay_share: Annotated[Amount | None, From("jitter.run_delay_share")]
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
    """The metric's name."""
    value: float | str
    """The number."""
    threshold: float | str | None
    """Threshold."""
    unit: str
    """Its unit."""
    place: str
    """The place of the number."""


class ReportVerdict(TypedDict):
    limit: str
    """The resource, such as INSTRUMENT_CPU or TARGET_DISK."""
    grade: Literal["A", "B", "C"] | None
    """A: an intervention confirmed it; B: two counters; C: one; null: nothing is claimed."""
    reason: str
    also: list[str]
    """Further limits besides the first."""
    not_observed: list[str]
    """Resources that nothing looked at, in words."""
    next: str
    """The measurement that would decide or strengthen the verdict: why, and its command; empty
    where none would."""
    observations: list[ReportObservation]
    """Each resource, from the client over the path to the target, and what was seen of it."""
    evidence: list[ReportEvidence]


class ReportAgent(TypedDict):
    """The part of one of several agents in a result."""

    agent: str
    """Name of the client host, or of the profile whose keys sign."""
    requests: Count
    """Requests, good and failed."""
    good_requests: Annotated[Count, From("good")]
    """Successful requests."""
    failed_requests: Annotated[Count, From("failed")]
    """Requests that failed."""
    errors: dict[str, Positive]
    """Failed requests, and those for unwritten objects, by kind."""
    objects: Count
    """Objects of successful requests."""
    bytes: Count
    """Payload of successful requests."""
    requests_per_s: Amount
    """Its share of the rate, by good requests."""
    bytes_per_s: Amount
    """Its share of the payload a second, by bytes."""
    response_ns: Annotated[ReportLatency | None, From("response")]
    """From the intended start to the end."""
    service_ns: Annotated[ReportLatency | None, From("service")]
    """From the actual start to the end."""
    first_byte_ns: Annotated[ReportLatency | None, From("first_byte")]
    """From the actual start to the first byte of the answer."""


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
    load: Annotated[dict[str, Any], From("load_stated")]
    """The load, as in the trial document."""
    trials: list[str]
    """Trials in here."""
    standing: Literal["valid", "bound", "void"]
    """Meaning of the rate: that of the target; a lower bound; none."""
    reasons: list[str]
    """Ids of the rules behind the standing; empty if valid."""
    requests: Count
    """Requests, good and failed, that were due in the measured stage. In the rate, requests that an
    edge of the stage cuts count by their share."""
    good_requests: Annotated[Count, From("good")]
    """Successful requests."""
    failed_requests: Annotated[Count | None, From("failed_if_stated")]
    """Requests that failed; null where another tool's file does not state it."""
    unwritten_requests: Annotated[Count, From("unwritten")]
    """Requests for objects whose put had failed: no failures of their own."""
    lost_races: Count
    """Requests whose condition did not hold, for another write had come first: no failures."""
    errors: dict[str, Positive]
    """Failed requests, and those for unwritten objects, by kind."""
    error_example: Annotated[str | None, From("example")]
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
    requests_per_s_spread: Annotated[ReportSpread | None, From("rate.spread")]
    """Spread of the rate over the trials; null with fewer than two."""
    objects_per_s: Amount
    """Objects per second at this rate."""
    bytes_per_s: Amount
    """Payload a second: the geometric mean of the trials."""
    bytes_per_s_spread: Annotated[ReportSpread | None, From("byte_rate.spread")]
    """Spread of the payload a second over the trials; null with fewer than two."""
    pooled_requests_per_s: Amount
    """Good requests of all trials over their measured time: longer trials weigh more. Printed
    nowhere else."""
    pooled_bytes_per_s: Amount
    """Payload of all trials over their measured time."""
    trial_rates: list[ReportTrialRate]
    """Rates of each trial."""
    agents: list[ReportAgent]
    """The part of each agent: a client host, or the clients that sign with one profile's keys;
    empty if one agent made the load.
    """
    response_ns: Annotated[ReportLatency | None, From("response")]
    """From the intended start to the end."""
    service_ns: Annotated[ReportLatency | None, From("service")]
    """From the actual start to the end."""
    first_byte_ns: Annotated[ReportLatency | None, From("first_byte")]
    """From the actual start to the first byte of the answer; null too where answers come in one
    piece."""
    lag_ns: Annotated[ReportLatency | None, From("lag")]
    """From the intended to the actual start; open load only."""
    part_ns: Annotated[ReportLatency | None, From("part")]
    """Duration of each successful part of successful multipart requests (multipart_put,
    multipart_get), from its first byte sent to the end of its response.
    """
    parts_failed: Count
    """Parts that failed."""
    little: float | None
    """Requests in flight over rate times time, which is 1 by Little's law."""
    client: ReportClient
    instrument: Annotated[ReportInstrument, From("")]
    verdict: ReportVerdict | None
    """Limit of the rate; null if not judged."""
    labels: list[str]
    """Labels: warnings about the numbers."""
