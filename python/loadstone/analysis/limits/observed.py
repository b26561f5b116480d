"""The observations behind a verdict: loads and their rates, resources, and interventions."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from loadstone.analysis.instrument.client_limits import CACHED_ALL, CACHED_SOME
from loadstone.analysis.judgements.finding import Evidence

Intervention = Literal[
    "second client",
    "more hosts",
    "half the hosts",
    "half the clients",
    "half the size",
    "half the verification",
]
"""A second client adds its own load; more hosts share the same load."""

RISES = 1.05
SURELY_RISES = 1.02
SURELY_FLAT = 1.15
STANDARD_ERRORS = 2.0
STEEP = 0.6
QUEUES = 1.3
QUEUES_NOT = 1.1
ALL_IN_FLIGHT = 0.95
LOAD_STEP = "step of the load"
CEILING_TOUCHED = 0.90
CEILING_PASSED = 1.05


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedCheck:
    """A check of the accounting that failed: its name, its value, and the range that was wanted."""

    name: str
    value: float | None
    wanted: str
    statement: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPoint:
    """One load and its result: N in flight, X requests per second, R seconds each.

    `error` is the relative standard error of the rate, 0 if unknown. `is_settled` if earlier trials
    had left nothing behind, `is_first` if it is only the target's first trial. `cached` is the
    share of its data in the page cache before it, if known.
    """

    load: float
    rate: float
    time_s: float | None = None
    error: float = 0.0
    is_settled: bool = True
    is_first: bool = False
    cached: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadStep:
    """The step from one load to a higher one, and whether the rate changed beyond chance."""

    low: LoadPoint
    high: LoadPoint

    @property
    def ratio(self) -> float:
        """The rate at the higher load over the rate at the lower one."""
        return self.high.rate / self.low.rate

    @property
    def _interval(self) -> tuple[float, float]:
        noise = STANDARD_ERRORS * math.hypot(self.low.error, self.high.error)
        return self.ratio * math.exp(-noise), self.ratio * math.exp(noise)

    @property
    def is_alike(self) -> bool:
        """Whether both loads had about the same share of data in the page cache, if known."""
        if self.low.cached is None or self.high.cached is None:
            return True
        return abs(self.high.cached - self.low.cached) < CACHED_SOME

    @property
    def is_rise(self) -> bool:
        """Whether more load brings a higher rate."""
        is_more = self.ratio > RISES and self._interval[0] > SURELY_RISES
        return is_more and self.low.is_settled and self.is_alike

    @property
    def is_fall(self) -> bool:
        """Whether more load brings a lower rate, apart from a target's first trial."""
        is_less = self.ratio < 1 / RISES and self._interval[1] < 1 / SURELY_RISES
        return is_less and self.high.is_settled and not self.high.is_first and self.is_alike

    @property
    def is_flat(self) -> bool:
        """Whether more load brings the same rate, with a relevant rise excluded."""
        is_same = not self.is_rise and not self.is_fall and self._interval[1] < SURELY_FLAT
        return is_same and self.high.is_settled and self.is_alike

    @property
    def is_proportional(self) -> bool:
        """Whether the rate grows in proportion to the load."""
        return self.is_rise and self.ratio >= self.high.load / self.low.load / RISES

    @property
    def is_steep(self) -> bool:
        """Whether the rate grows at least as the load to the power of 0.6."""
        return self.is_rise and self.ratio >= (self.high.load / self.low.load) ** STEEP

    @property
    def is_slower(self) -> bool | None:
        """Whether a request takes longer at the higher load.

        None if times are unknown, or if one load reads more from memory.
        """
        if not self.low.time_s or not self.high.time_s or not self.is_alike:
            return None
        return self.high.time_s > RISES * self.low.time_s

    @property
    def is_saturated(self) -> bool:
        """Whether requests queue beyond the client: longer times at no higher rate."""
        return (self.is_flat or self.is_fall) and self.is_slower is True

    @property
    def is_bent(self) -> bool:
        """Whether requests of a closed load queue so much that little more is possible.

        If time grows with the load, each client adds at least as much time as the one before it, so
        that load over time never exceeds the ratio of both differences (asymptotic bounds of closed
        queues: Lazowska et al., Quantitative System Performance, chapter 5).
        """
        if not self.is_slower or self.low.time_s is None or self.high.time_s is None:
            return False
        clients, seconds = self.high.load - self.low.load, self.high.time_s - self.low.time_s
        return clients / seconds < SURELY_FLAT * self.high.rate

    def evidence(self) -> tuple[Evidence, ...]:
        """The change of the rate and of the time."""
        loads = f"at {self.high.load:g} / at {self.low.load:g}"
        rate = Evidence(f"rate {loads}", self.ratio, RISES, source=LOAD_STEP)
        if not self.low.time_s or not self.high.time_s:
            return (rate,)
        times = self.high.time_s / self.low.time_s
        return rate, Evidence(f"time {loads}", times, source=LOAD_STEP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """An intervention, which shows whether a limit moves.

    `ratio` is the changed rate over the base, with its 95 % interval from `low` to `high`, if
    repeated. `point` is the result of half the clients; `hosts` are the numbers of hosts before and
    after the change.
    """

    kind: Intervention
    ratio: float
    low: float | None
    high: float | None = None
    point: LoadPoint | None = None
    hosts: tuple[int, int] | None = None

    @property
    def is_rise(self) -> bool:
        """Whether the change raised the rate beyond chance."""
        return self.ratio > RISES and self.low is not None and self.low > SURELY_RISES

    def evidence(self) -> Evidence:
        """The change as evidence."""
        return Evidence(f"rate with {self.kind} / without", self.ratio, RISES)


@dataclass(frozen=True, slots=True, kw_only=True)
class CeilingUse:
    """The used share of a ceiling, which was measured apart from the load.

    `share_max` is the largest share of any load of the sweep: above 1, the ceiling is not a limit.
    `is_steady` if it did not fall while it was measured.
    """

    name: str
    share: float
    share_max: float
    is_steady: bool = True

    @property
    def is_passed(self) -> bool:
        """Whether the load exceeded the ceiling, which is therefore no limit."""
        return self.share_max > CEILING_PASSED

    @property
    def is_touched(self) -> bool:
        """Whether the load reached the ceiling."""
        return not self.is_passed and self.share >= CEILING_TOUCHED

    @property
    def has_room(self) -> bool:
        """Whether the ceiling proves that its resource has room."""
        return self.is_steady and not self.is_passed and not self.is_touched

    def evidence(self) -> Evidence:
        """The share that was used."""
        return Evidence(f"share of the {self.name}", self.share, CEILING_TOUCHED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The observations for a verdict; what was not observed is None or absent.

    `flags` are the client's resources beyond a threshold, by limit, with evidence; none were if
    `is_client_watched` and there are no flags. `uses` are the used shares of watched resources.
    `lag` is the lag of an open load, if too large. `occupied` is the share of time that the busiest
    load thread ran or waited for a core. `null_rate` is the client's rate against a target that
    does nothing. `throttled` and `refused_here` are the shares of requests that the target told to
    slow down, and that found no port or descriptor on the client. `server` is the utilisation of
    the target's resources, 0 to 1. `lower` and `higher` are the next loads of the sweep,
    `best_below` is the highest rate of lower ones. `ceilings` are by limit. `offered` is the rate
    of an open load, or the rate limit of a closed one, and `is_offer_met` if it was achieved.
    `idle` is the share of time that clients spent outside requests, if large. Of an open load,
    `clients_max` is the allowed number of clients, `in_flight` the share of them in a request,
    `grows_slower` if requests took longer then, and `met_below` the highest lower rate that was
    achieved. `contended_phase` is the phase if its clients are those that contend.
    """

    point: LoadPoint
    failed_checks: Sequence[FailedCheck] = ()
    null_rate: float | None = None
    flags: Mapping[str, Sequence[Evidence]] = field(default_factory=dict)
    losses: Mapping[str, Sequence[Evidence]] = field(default_factory=dict)
    lag: Evidence | None = None
    occupied: float | None = None
    lower: LoadPoint | None = None
    higher: LoadPoint | None = None
    best_below: float | None = None
    knee: float | None = None
    ceilings: Mapping[str, CeilingUse] = field(default_factory=dict)
    throttled: float = 0.0
    refused_here: float = 0.0
    server: Mapping[str, float] | None = None
    is_client_watched: bool = False
    uses: Mapping[str, float | None] = field(default_factory=dict)
    offered: float | None = None
    is_offer_met: bool | None = None
    idle: float | None = None
    clients_max: int | None = None
    contended_phase: str | None = None
    in_flight: float | None = None
    grows_slower: bool = False
    met_below: LoadPoint | None = None
    tried: Sequence[Tried] = ()

    @property
    def is_from_memory(self) -> bool:
        """Whether all data was in the client's page cache, and reads do not reach the target."""
        return (self.point.cached or 0.0) >= CACHED_ALL

    @property
    def is_overloaded(self) -> bool:
        """Whether an open load was not achieved."""
        return self.offered is not None and self.is_offer_met is False

    @property
    def is_out_of_clients(self) -> bool:
        """Whether an open load was not achieved with all of its clients in a request."""
        return self.is_overloaded and (self.in_flight or 0.0) >= ALL_IN_FLIGHT

    @property
    def is_backed_up(self) -> bool | None:
        """Whether requests of an open load queued beyond the client.

        None if all clients were in a request, and nothing distinguishes a full target from too few
        clients.
        """
        if not self.is_overloaded or not self.is_out_of_clients:
            return self.is_overloaded
        if self.grows_slower:
            return True
        met = self.met_below
        if met is None or not met.time_s or not self.point.time_s:
            return None
        if self.point.time_s >= QUEUES * met.time_s:
            return True
        return False if self.point.time_s <= QUEUES_NOT * met.time_s else None

    @property
    def step_up(self) -> LoadStep | None:
        """The step from this load to the next higher one."""
        return _step(self.point, self.higher)

    @property
    def step_here(self) -> LoadStep | None:
        """The step from half the clients, or the next lower load, to this one."""
        halved = next((tried.point for tried in self.tried if tried.point is not None), None)
        return _step(halved or self.lower, self.point)

    @property
    def step(self) -> LoadStep | None:
        """The step that shows saturation: up from this load, or else to it."""
        return self.step_up or self.step_here


def _step(low: LoadPoint | None, high: LoadPoint | None) -> LoadStep | None:
    if low is None or high is None or not low.rate or not low.load:
        return None
    return LoadStep(low=low, high=high)
