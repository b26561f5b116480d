"""A cell: one operation of one case in one round and iteration, over all its trials."""

from collections.abc import Mapping
from dataclasses import dataclass

from loadstone.analysis.instrument.headroom import Jitter
from loadstone.analysis.instrument.own_ceiling import CeilingShare
from loadstone.analysis.measured.part import UNWRITTEN
from loadstone.analysis.naming import describe_parameters
from loadstone.analysis.statistics.days import interval_over_days
from loadstone.analysis.statistics.latency import Latency
from loadstone.analysis.statistics.ratios import Interval
from loadstone.campaign.parameters import whole_parameter
from loadstone.campaign.schema.systems.target import SYSTEM
from loadstone.documents.trial import LoadDocument
from loadstone.results.record import FAILURES_NOT_STATED


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How far rates lie apart; `kind` says which rates, `n` how many."""

    kind: str
    n: int
    requests_per_s: float
    bytes_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRate:
    """What one trial of a cell reached: the unit of repetition in every comparison."""

    trial: str
    block: int
    requests_per_s: float
    bytes_per_s: float
    duration_s: float
    started_unix_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """What the load cost the hosts it came from; absent where it was not observed."""

    cpu_us_per_request: float | None
    rss_bytes_max: float | None
    sockets_max: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One operation of one case in one round and iteration, over all its trials.

    `requests` counts all, `good` the good ones, which alone make the rates, and `errors` the rest
    by kind, those that asked for unwritten objects too.
    `iteration` is None where all iterations are added up. `first_done_s` is when the first client
    ran out of work, `last_done_s` when the last request was done, both from the start of measuring,
    in the slowest of the trials. `instrument` is how much of its own ceiling the load generator
    used; where that is not known, `no_ceiling` says why. `facts` are the parameters that are
    the target's own.
    """

    target: str
    workload: str
    phase: str
    operation: str
    parameters: Mapping[str, object]
    facts: Mapping[str, object]
    round: int
    iteration: int | None
    iterations: int
    load: LoadDocument
    trials: tuple[str, ...]
    requests: int
    good: int
    objects: int
    bytes: int
    errors: Mapping[str, int]
    duration_s: float
    requests_per_s: float
    objects_per_s: float
    bytes_per_s: float
    spread_of_seconds: Spread | None
    spread_of_trials: Spread | None
    trial_rates: tuple[TrialRate, ...]
    first_done_s: float | None
    last_done_s: float | None
    response: Latency | None
    service: Latency | None
    first_byte: Latency | None
    lag: Latency | None
    part: Latency | None
    parts_failed: int
    little: float | None
    client: Client
    jitter: Jitter
    instrument: CeilingShare | None
    no_ceiling: str
    labels: tuple[str, ...]

    @property
    def failed(self) -> int:
        """How many requests failed."""
        return self.requests - self.good - self.unwritten

    @property
    def failed_if_stated(self) -> int | None:
        """How many requests failed; None where another tool's file does not say it."""
        return None if FAILURES_NOT_STATED in self.labels and not self.failed else self.failed

    @property
    def unwritten(self) -> int:
        """How many asked for an object that was not there, for its own put had failed."""
        return self.errors.get(UNWRITTEN, 0)

    @property
    def system(self) -> str:
        """What the target is an instance of: its fact `system`, or itself."""
        return system_of(self.target, self.facts)

    @property
    def size_bytes(self) -> int | None:
        """How many bytes an object has, where a parameter says it and all have as many."""
        return whole_parameter(self.parameters, "size")

    @property
    def threads(self) -> int | None:
        """How many threads a parameter asks for."""
        return whole_parameter(self.parameters, "threads")

    @property
    def clients(self) -> int | None:
        """How many requests are in flight at most: its threads, or else the clients of its load."""
        return self.load.get("clients") if self.threads is None else self.threads

    @property
    def hosts(self) -> int | None:
        """How many client hosts made the load; None where it was the controller."""
        return whole_parameter(self.parameters, "hosts")

    @property
    def name(self) -> str:
        """The cell in words: "ceph, get, 4KiB, 250 threads, round 2"."""
        words = [self.target, self.operation, describe_parameters(self.parameters)]
        words += [f"round {self.round}"]
        words += [f"iteration {self.iteration}"] if self.iteration is not None else []
        return ", ".join(word for word in words if word)

    @property
    def interval(self) -> Interval | None:
        """The 95 % interval of the rate, over days where there are several, else over trials.

        None where one trial is all there is.
        """
        rates = [one.requests_per_s for one in self.trial_rates]
        if len(rates) < 2 or min(rates) <= 0:
            return None
        starts = [one.started_unix_ns for one in self.trial_rates]
        known = [start for start in starts if start]
        # Other tools do not say when a trial began: then all of them count as of one day.
        return interval_over_days(rates, known if len(known) == len(rates) else [0] * len(rates))

    @property
    def spread(self) -> Spread | None:
        """How far its trials lie apart; where there is one trial, its seconds."""
        return self.spread_of_trials or self.spread_of_seconds

    @property
    def reached_requests_per_s(self) -> tuple[float, float]:
        """The rate less and plus its spread."""
        half = self.spread.requests_per_s if self.spread is not None else 0.0
        return max(0.0, self.requests_per_s - half), self.requests_per_s + half

    @property
    def reached_bytes_per_s(self) -> tuple[float, float]:
        """The rate of bytes less and plus its spread."""
        half = self.spread.bytes_per_s if self.spread is not None else 0.0
        return max(0.0, self.bytes_per_s - half), self.bytes_per_s + half

    @property
    def headline(self) -> Latency | None:
        """The latency a reader is shown first: response time, else service time."""
        return self.response or self.service


def system_of(target: str, facts: Mapping[str, object]) -> str:
    """Return what a target is an instance of, or itself."""
    return str(facts.get(SYSTEM) or target)
