"""The facts that a verdict rests on: loads and their rates, resources, and what was changed."""

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
"""What was changed. A second client brings its own load; more hosts make the same load together."""

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
    """One load and its result: N in flight, X requests a second, R seconds each.

    `error` is the relative standard error of the rate, 0 where it is not known. `is_settled` says
    that what earlier trials had left was gone when it began, `is_first` that no other trial of its
    target ran before its only one. `cached` is the share of the data that it reads that was in the
    page cache before it, None where that was not seen.
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
    """From one load to a higher one: did the rate change by more than chance explains?"""

    low: LoadPoint
    high: LoadPoint

    @property
    def ratio(self) -> float:
        """The rate at the higher load over that at the lower one."""
        return self.high.rate / self.low.rate

    @property
    def _interval(self) -> tuple[float, float]:
        noise = STANDARD_ERRORS * math.hypot(self.low.error, self.high.error)
        return self.ratio * math.exp(-noise), self.ratio * math.exp(noise)

    @property
    def is_alike(self) -> bool:
        """Whether as much of the data was in the page cache before either load, or was not seen."""
        if self.low.cached is None or self.high.cached is None:
            return True
        return abs(self.high.cached - self.low.cached) < CACHED_SOME

    @property
    def is_rise(self) -> bool:
        """Whether more load brings more."""
        is_more = self.ratio > RISES and self._interval[0] > SURELY_RISES
        return is_more and self.low.is_settled and self.is_alike

    @property
    def is_fall(self) -> bool:
        """Whether more load brings less; a target's first trial is slow for more reasons."""
        is_less = self.ratio < 1 / RISES and self._interval[1] < 1 / SURELY_RISES
        return is_less and self.high.is_settled and not self.high.is_first and self.is_alike

    @property
    def is_flat(self) -> bool:
        """Whether more load brings no more: a rise of any size that matters is excluded."""
        is_same = not self.is_rise and not self.is_fall and self._interval[1] < SURELY_FLAT
        return is_same and self.high.is_settled and self.is_alike

    @property
    def is_proportional(self) -> bool:
        """Whether the rate grows as the load does."""
        return self.is_rise and self.ratio >= self.high.load / self.low.load / RISES

    @property
    def is_steep(self) -> bool:
        """Whether the rate grows at least as the load to the power of 0.6."""
        return self.is_rise and self.ratio >= (self.high.load / self.low.load) ** STEEP

    @property
    def is_slower(self) -> bool | None:
        """Whether a request takes longer at the higher load.

        None where times are not known, or one load reads more from memory than the other.
        """
        if not self.low.time_s or not self.high.time_s or not self.is_alike:
            return None
        return self.high.time_s > RISES * self.low.time_s

    @property
    def is_saturated(self) -> bool:
        """Whether more load takes longer at no higher rate: requests queue beyond the client."""
        return (self.is_flat or self.is_fall) and self.is_slower is True

    @property
    def is_bent(self) -> bool:
        """Whether requests of a closed load wait for each other so much that little more can come.

        Where the time grows with the load, each client more adds at least as much time as the one
        before it, so that load over time never exceeds the ratio of the two steps (asymptotic
        bounds of closed queues: Lazowska et al., Quantitative System Performance, chapter 5).
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
    """Something that was changed to see whether the limit moves.

    `ratio` is the changed rate over the other, `low` and `high` the ends of its 95 % interval,
    absent where nothing was repeated. `point` is the result of half the clients; `hosts` are the
    hosts of the other and of the changed load.
    """

    kind: Intervention
    ratio: float
    low: float | None
    high: float | None = None
    point: LoadPoint | None = None
    hosts: tuple[int, int] | None = None

    @property
    def is_rise(self) -> bool:
        """Whether the change brought more, beyond what repetition explains."""
        return self.ratio > RISES and self.low is not None and self.low > SURELY_RISES

    def evidence(self) -> Evidence:
        """The change as evidence."""
        return Evidence(f"rate with {self.kind} / without", self.ratio, RISES)


@dataclass(frozen=True, slots=True, kw_only=True)
class CeilingUse:
    """A limit that was measured apart from the load, in bytes per second, and the share of it used.

    `share_max` is the largest share that any load of the same sweep used: above 1 the ceiling is
    none. `is_steady` says that it held the same value while it was measured.
    """

    name: str
    share: float
    share_max: float
    is_steady: bool = True

    @property
    def is_passed(self) -> bool:
        """Whether the load went faster than the ceiling, which therefore limits nothing."""
        return self.share_max > CEILING_PASSED

    @property
    def is_touched(self) -> bool:
        """Whether the load came up to the ceiling."""
        return not self.is_passed and self.share >= CEILING_TOUCHED

    @property
    def has_room(self) -> bool:
        """Whether the ceiling proves that its resource could carry more."""
        return self.is_steady and not self.is_passed and not self.is_touched

    def evidence(self) -> Evidence:
        """The share that was used."""
        return Evidence(f"share of the {self.name}", self.share, CEILING_TOUCHED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """Everything that a verdict may rest on; what was not observed is absent, and never zero.

    `flags` are the client's resources that passed a threshold, by name (INSTRUMENT_CPU,
    INSTRUMENT_MEM, INSTRUMENT_SOCKETS, CLIENT_NIC), each with its evidence. `lag` is how late
    requests of an open load left, where that was too late; `occupied` is the share of the time in
    which the busiest load thread ran or waited for a core. `null_rate` is the rate of the same
    client against a target that does nothing. `throttled` and `refused_here` are the
    shares of requests that the target told to slow down, and that found no port or descriptor on
    the client. `server` holds the utilisation of each resource of
    the target, 0 to 1; None when it was not probed. `is_client_watched` says that the client's
    resources were looked at, so that no flag means that none was at its limit; `uses` are those
    that were, with the share used where that is one number. `lower` and `higher` are the next loads
    of the sweep, and `best_below` the highest rate of all lower ones. `ceilings` are those measured
    apart, by the limit that each would be (NETWORK_PATH, …). `offered` is the rate that was asked
    for (of an open load, or a limit of a closed one), and `is_offer_met` says whether it was
    achieved. `idle` is the share of their time that clients spent outside requests, where that is
    much. `clients_max` is how many clients an open load may have, `in_flight` the share of them
    that were in a request, `grows_slower` whether its requests took longer once they were, and
    `met_below` the highest lower rate of its sweep that was achieved.
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
    in_flight: float | None = None
    grows_slower: bool = False
    met_below: LoadPoint | None = None
    tried: Sequence[Tried] = ()

    @property
    def is_from_memory(self) -> bool:
        """Whether all that is read was in the client's page cache, so that no target is asked."""
        return (self.point.cached or 0.0) >= CACHED_ALL

    @property
    def is_overloaded(self) -> bool:
        """Whether an open load asked for more than was answered."""
        return self.offered is not None and self.is_offer_met is False

    @property
    def is_out_of_clients(self) -> bool:
        """Whether an open load asked for more while all of its clients were in a request."""
        return self.is_overloaded and (self.in_flight or 0.0) >= ALL_IN_FLIGHT

    @property
    def is_backed_up(self) -> bool | None:
        """Whether requests of an open load waited for each other beyond the client.

        None where all of its clients were in a request, and nothing tells a target that is full
        from clients that are too few.
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
        """From this load to the next higher one."""
        return _step(self.point, self.higher)

    @property
    def step_here(self) -> LoadStep | None:
        """From half the clients, or the next lower load, to this one."""
        halved = next((tried.point for tried in self.tried if tried.point is not None), None)
        return _step(halved or self.lower, self.point)

    @property
    def step(self) -> LoadStep | None:
        """The step that shows whether the target is saturated: up, or else to here."""
        return self.step_up or self.step_here


def _step(low: LoadPoint | None, high: LoadPoint | None) -> LoadStep | None:
    if low is None or high is None or not low.rate or not low.load:
        return None
    return LoadStep(low=low, high=high)
