"""The JSON report, key by key. `docs/reference/report.schema.json` is made from these types.

Run `python -m tests.docs.report_schema` after a change. An absent number is null.
"""

from typing import Annotated, Any, Literal

from typing_extensions import TypedDict

from loadstone.documents.card import Card
from loadstone.documents.report.result import (
    Amount,
    Count,
    From,
    ReportEvidence,
    ReportLatency,
    ReportResult,
    ReportSpread,
    Share,
)
from loadstone.documents.report.workloads import ReportAction, ReportQueries, ReportReplay


class ReportRun(TypedDict):
    """The run."""

    id: str | None
    """Thirty-two hexadecimal digits."""
    name: str
    """The campaign's name."""
    state: Literal["running", "finished", "interrupted", "failed"]
    """State of the run."""
    seed: int | None
    """Seed of all random choices."""
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
    """The survey of each node of the campaign, by its name; a node that could not be surveyed has
    "failed". "probes" are its devices and mounts as measured by fio, "paths" the network from it
    to each other node; "outputs" of either are files in the run's folder with the output of
    programs.
    """


class ReportTrial(TypedDict):
    """One planned trial."""

    trial: str
    """Its number in the plan."""
    state: str
    """finished, stopped, interrupted, or not run."""
    reason: str | None
    """Reason if it did not finish."""
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
    measured: Annotated[bool, From("is_measured")]
    """False for trials that prepare or clean up."""
    started_unix_ns: Count | None
    """When it started."""
    duration_s: float | None
    """Duration."""
    requests: Count | None
    """Requests of all stages, warm-up and cool-down too. Those of a result are fewer: they were due
    in the measured stage."""
    failed: Count | None
    """Failed requests of all stages."""
    unwritten: Count | None
    """Requests of all stages for objects whose put had failed."""
    lost_races: Count | None
    """Requests of all stages whose condition another write had broken first."""
    labels: list[str]
    """Labels."""
    errors: list[str]
    """Failed requests by kind, each with a first message."""
    absent_probes: dict[str, str]
    """Probes that could not be read, with the reasons."""
    little: Amount | None
    """Requests in flight over rate times time, which is 1 by Little's law."""
    hiccup_ns_p99_9: Annotated[Count | None, From("jitter.hiccup_ns_p99_9")]
    """Delay of a thread that only sleeps, 99.9th percentile."""
    hiccup_ns_max: Annotated[Count | None, From("jitter.hiccup_ns_max")]
    """The same, at most."""
    run_delay_share: Annotated[Amount | None, From("jitter.run_delay_share")]
    """Share of time that the worst load thread waited for a core."""
    features: dict[str, Any]
    """Kernel features that the driver used or was refused."""
    hosts: list[dict[str, Any]]
    """The work of each client host, if several made the load together: name, state (finished, lost,
    idle), reason, clients, requests, failed, bytes, lost_ns, start_error_ns_max,
    clock_offset_ns, clock_bound_ns, round_trip_ns, clock_step_ns (steps of its clock during the
    load).
    """
    target_state: dict[str, Any]
    """State of the target before and after the load, by probe."""


class ReportFinding(TypedDict):
    """One statement of one rule."""

    rule: str
    """The rule, or the label it explains."""
    severity: Literal["problem", "caution", "note"]
    """Severity."""
    effect: Literal["invalid", "bound", "precision", "none"]
    """The effect on the number: not to be used, a bound, less certain than it looks, or none."""
    statement: str
    """The statement."""
    means: str
    """Effect on the number, as a sentence."""
    do: str
    """Advice on what to do about it."""
    inferred: Annotated[bool, From("is_inferred")]
    """True when it rests on something nobody stated."""
    chance: float | None
    """Probability of the pattern by chance."""
    cases: list[str]
    """Subjects of the finding."""
    evidence: list[ReportEvidence]
    """The numbers behind it."""


class ReportSearchObjective(TypedDict):
    quantile: str
    latency_ns_max: Annotated[int, From("goal.latency_ns_max")]
    errors_max: Annotated[float, From("goal.errors_max")]
    achieved_min: Annotated[float, From("goal.achieved_min")]


class ReportSearchStep(TypedDict):
    trial: str
    stage: Literal["coarse", "fine", "confirm"]
    load: float
    duration_s: float
    requests_per_s: Annotated[float, From("rate")]
    errors: Annotated[float, From("observation.errors")]
    achieved: Annotated[float, From("observation.achieved")]
    stalled: Annotated[float, From("observation.stalled")]
    """Share of the trial in which the client's host was stalled."""
    left_out: Annotated[bool, From("is_left_out")]
    """It missed the objective while the client was stalled, and does not count."""
    good: Annotated[bool, From("is_good")]
    latency_ns: Annotated[float | None, From("observation.latency_ns")]
    """The percentile of the objective; null where it lies among requests that timed out or were not
    sent, or where there were too few."""


class ReportSearch(TypedDict):
    search: Annotated[str, From("trial")]
    target: str
    workload: str
    phase: str
    parameters: dict[str, Any]
    round: int
    block: int
    confirmed: Annotated[bool, From("is_confirmed")]
    doubted: Annotated[bool, From("is_doubted")]
    """The load that failed did so only while the client's host was stalled."""
    over: Annotated[bool, From("is_over")]
    end: Literal[
        "confirmed", "highest passes", "lowest fails", "none confirmed", "gave up", "not over"
    ]
    """End of the search; "not over" if trials are missing."""
    reason: str
    operations: list[str]
    vary: Literal["rate", "threads"]
    objective: Annotated[ReportSearchObjective, From("")]
    holds_at: Annotated[float | None, From("lower")]
    """The largest load that met the objective, in requests a second or threads."""
    fails_at: Annotated[float | None, From("upper")]
    """The smallest load that missed it."""
    requests_per_s: Annotated[float | None, From("rate.value")]
    """Good requests a second of the confirming trials."""
    requests_per_s_spread: Annotated[ReportSpread | None, From("rate.spread")]
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
    """The kind of measurement."""
    targets: list[str]
    """Targets that it is a ceiling of."""
    moment: str
    """When it was measured in the run."""
    measurement: str
    """Name of the measurement."""
    bounds: Literal["read", "write"]
    """Direction that it bounds."""
    bytes_per_s: float
    """The rate over the whole measurement."""
    bytes_per_s_min: Annotated[float | None, From("low")]
    """The slowest second, or sample of fio's."""
    bytes_per_s_max: Annotated[float | None, From("high")]
    """The fastest second, or sample of fio's."""
    bytes_per_second: Annotated[list[float], From("seconds")]
    """The rate of each whole second, where the program prints it."""
    requests_per_s: float | None
    """I/Os or operations per second."""
    service_ns: Annotated[ReportLatency | None, From("service")]
    """From the actual start to the end."""
    count: int
    """Number of them that work in parallel in each target."""
    is_value: bool
    """Whether results are compared with this measurement."""
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
    """Effect of a failure."""
    state: Literal["ended", "timeout", "stopped", "not started", "not reached"]
    """How it ended."""
    exit_code: int | None
    """Its exit code."""
    said: str
    """The end of its output, without secrets."""
    started_unix_ns: int
    """When it started."""
    ended_unix_ns: int
    """When it ended."""


class ReportIntervention(TypedDict):
    changed: Annotated[str, From("kind")]
    case: Annotated[str, From("base.name")]
    operation: Annotated[str, From("base.operation")]
    base_trials: Annotated[list[str], From("base.trials")]
    trials: Annotated[list[str], From("changed.trials")]
    base_requests_per_s: Annotated[float, From("base_rate")]
    requests_per_s: Annotated[float, From("changed_rate")]
    ratio: Annotated[float, From("ratio.ratio")]
    ratio_low: Annotated[float | None, From("ratio.low")]
    ratio_high: Annotated[float | None, From("ratio.high")]
    n: Annotated[int, From("ratio.n_a")]


class ReportMistake(TypedDict):
    id: str
    """The id of the mistake in the reference of findings."""
    mistake: str
    """The mistake."""
    outcome: Literal["pass", "fail", "not stated", "not applicable"]
    """Outcome for this run."""
    evidence: str
    """Evidence."""


class ReportContention(TypedDict):
    target: Annotated[str, From("result.target")]
    """Name of the target."""
    workload: Annotated[str, From("result.workload")]
    """Name of the workload."""
    phase: Annotated[str, From("result.phase")]
    """Name of the phase."""
    parameters: Annotated[dict[str, Any], From("result.parameters")]
    """The parameters of the case, by name."""
    trials: Annotated[list[str], From("result.trials")]
    """Trials in here."""
    wins: Annotated[Count, From("result.good")]
    """Requests that ended with a win."""
    wins_per_s: Annotated[Amount, From("result.requests_per_s")]
    """The rate of wins."""
    tries_per_win: Amount | None
    """Conditional writes that a win took, itself included; null without a win."""
    win_ns: Annotated[ReportLatency | None, From("result.headline")]
    """From the intended start to the end."""
    fairness: Share | None
    """The least of its trials' Jain indices over clients: 1 where all did as many requests."""


class ReportAuditCall(TypedDict):
    operation: str
    """Operation."""
    trial: str | None
    """The trial that asked; null in reads of the audit itself."""
    outcome: str
    """How it ended; failed where the ledger says no more, unanswered where no answer says so."""
    version: int | None
    """The version that it wrote or read, or that had to be there; null of a delete, and where
    nothing had to."""
    expected: int | None
    """The version that a write was conditional on."""
    client: int | None
    """The client that asked, where a history knows it."""
    from_unix_ns: Count
    """It began after this, by its host's clock."""
    to_unix_ns: Count | None
    """It had ended by then; null where it was not answered. Of a write, the times are those of its
    page in the ledger."""


class ReportAuditFinding(TypedDict):
    target: str
    """The target."""
    audit: str
    """The trial that found it."""
    kind: str
    """The kind of finding: lost, stale, resurrected, corrupt, torn, short, long, mixed, phantom,
    ghost, list_missing, listed_twice, metadata_wrong; for calls also two_winners, lost_update,
    condition_ignored, unordered.
    """
    bucket: str
    """The bucket."""
    key: str
    """The key."""
    number: Count
    """The number of the object."""
    size_bytes: Count | None
    """How long it is; null in runs of earlier builds."""
    times: Count
    """How many calls of a history show the same."""
    calls: list[ReportAuditCall]
    """The calls that prove it, in their order."""
    replay: str | None
    """The campaign in the run folder that makes these calls again; null beyond the first hundred
    findings of an audit."""


class ReportQuantiles(TypedDict):
    p50: Count
    """Half are up to this."""
    p99: Count
    """99 of 100 are up to this."""
    max: Count
    """The largest."""


class ReportHistory(TypedDict):
    audit: str
    """The trial that judged it."""
    model: str
    """The consistency that the target must provide: linear, read-after-write or
    last-writer-wins.
    """
    calls: Count
    """Calls that were judged."""
    objects: Count
    """Objects that they were on."""
    undecided: Count
    """Objects of which it could not be decided."""
    stale_reads: Count
    """Reads that saw less than had been there before they began."""
    behind_ns: ReportQuantiles
    """How long something newer had been there by then, of those reads."""
    behind_versions: ReportQuantiles
    """How many newer writes had been acknowledged by then."""


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
    metadata: Count
    """Objects that were to be there, whose metadata a post had changed, and of which exactly one
    value is right."""
    metadata_read_back: Count
    """Those of them whose metadata was read."""
    listings_failed: Count
    """Buckets whose listing failed."""
    wrong: Count
    """Findings, also those beyond the ones that are listed."""
    wrong_share_max: float | None
    """The share of wrong objects that is excluded with 95 %, one-sided, by Clopper and Pearson;
    null if nothing was read."""
    is_whole: bool
    """Whether the audits ran to their ends."""
    histories: list[ReportHistory]
    """Histories that were judged, each by itself."""
    findings: list[ReportAuditFinding]
    """Objects that are not as was acknowledged; 10,000 of an audit at most."""


class JsonReport(TypedDict):
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
    trials: list[ReportTrial]
    """All planned trials with their outcomes."""
    contention: list[ReportContention]
    """Contention of clients for a few objects; empty for other runs."""
    ceilings: list[ReportCeiling]
    """Limits measured apart from the load, each measurement."""
    cards: dict[str, Card]
    """Semantics cards by target; empty unless the campaign asked for cards."""
    hooks: list[ReportHook]
    """The campaign's own commands that were run, in order."""
    searches: list[ReportSearch]
    """Searches for a capacity: their answers and every trial on the way."""
    queries: ReportQueries | None
    """Queries on tables; null for other runs."""
    actions: list[ReportAction]
    """Actions of scripts; empty for other runs."""
    action_groups: list[ReportAction]
    """The same actions by the kind of their space and the type of their user, where scripts have
    several, and all actions of each type together. They are in actions, too: never add the two."""
    action_totals: list[ReportAction]
    """All actions of a case together, over all its rounds, CREATE_USER and AUDIT apart: what the
    first screen of a report leads with."""
    replays: list[ReportReplay]
    """Fidelity of replayed traces and of scripts with times; empty for other runs."""
    interventions: Annotated[list[ReportIntervention], From("changes")]
    """Cases beside themselves with one thing halved."""
    findings: list[ReportFinding]
    """Findings."""
    mistakes: list[ReportMistake]
    """The common mistakes of benchmark reports, and whether this run makes them."""
    audit: ReportAudit | None
    """The findings of all audits together; null without audits. An object that several audits read
    counts in each.
    """
    audits: list[ReportAudit]
    """Each audit by itself, those after the end of the run last."""
