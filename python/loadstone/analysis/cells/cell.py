"""A cell: the arithmetic of one operation of one case over its trials, before it is judged.

Reports read results (`judgements/result.py`), which are cells that have been judged.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from loadstone.analysis.instrument.headroom import Jitter
from loadstone.analysis.instrument.own_ceiling import CeilingShare
from loadstone.analysis.naming import describe_parameters
from loadstone.analysis.statistics.latency import Latency
from loadstone.analysis.statistics.mean import Mean, mean_of
from loadstone.campaign.parameters import whole_parameter
from loadstone.campaign.schema.target import SYSTEM
from loadstone.documents.outcomes import LOST_RACE, NO_FAILURES, UNWRITTEN
from loadstone.documents.trial import LoadDocument
from loadstone.results.record import FAILURES_NOT_STATED


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """The standard deviation of `n` rates, for layouts and verdicts: no interval."""

    n: int
    requests_per_s: float
    bytes_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRate:
    """What one trial of a cell reached: the unit of repetition in every comparison."""

    trial: str
    round: int
    block: int
    requests: int
    requests_per_s: float
    bytes_per_s: float
    duration_s: float
    started_unix_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """What the load cost the hosts it came from; absent where it was not observed.

    `cached` is the share of the data that it reads that was in their page cache before it.
    """

    cpu_us_per_request: float | None
    rss_bytes_max: float | None
    sockets_max: float | None
    cached: float | None = None


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One operation of one case over all its trials, in one round and iteration or in all.

    `requests` counts all, `good` the good ones, which alone make the rates, and `errors` the rest
    by kind, the most frequent first, those too that asked for unwritten objects or lost a race.
    `round` and `iteration` are None where several are added up. `first_done_s` is when the first
    client ran out of work, `last_done_s` when the last request was done, both from the start of
    measuring, in the
    slowest of the trials. `instrument` is how much of its own ceiling the load generator
    used; where that is not known, `no_ceiling` says why. `facts` are the parameters that are
    the target's own.
    """

    target: str
    workload: str
    phase: str
    operation: str
    parameters: Mapping[str, object]
    facts: Mapping[str, object]
    round: int | None
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
    spread_of_seconds: Deviation | None
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
        others = sum(self.errors.get(outcome, 0) for outcome in NO_FAILURES)
        return self.requests - self.good - others

    @property
    def failed_if_stated(self) -> int | None:
        """How many requests failed; None where another tool's file does not say it."""
        return None if FAILURES_NOT_STATED in self.labels and not self.failed else self.failed

    @property
    def unwritten(self) -> int:
        """How many asked for an object that was not there, for its own put had failed."""
        return self.errors.get(UNWRITTEN, 0)

    @property
    def lost_races(self) -> int:
        """How many had a condition that did not hold, for another write had come first."""
        return self.errors.get(LOST_RACE, 0)

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
        words += [f"round {self.round}"] if self.round is not None else []
        words += [f"iteration {self.iteration}"] if self.iteration is not None else []
        return ", ".join(word for word in words if word)

    @cached_property
    def rate(self) -> Mean:
        """Good requests per second: the mean of the trials."""
        return self._mean([trial_rate.requests_per_s for trial_rate in self.trial_rates])

    @cached_property
    def byte_rate(self) -> Mean:
        """Payload bytes per second, likewise."""
        return self._mean([trial_rate.bytes_per_s for trial_rate in self.trial_rates])

    def _mean(self, values: list[float]) -> Mean:
        return mean_of(values, [trial_rate.started_unix_ns for trial_rate in self.trial_rates])

    @property
    def requests_per_s(self) -> float:
        """The rate: good requests per second."""
        return self.rate.value

    @property
    def bytes_per_s(self) -> float:
        """The data that the rate moves."""
        return self.byte_rate.value

    @property
    def objects_per_s(self) -> float:
        """The objects that the rate touches."""
        return self.requests_per_s * self.objects / self.good if self.good else 0.0

    @property
    def pooled_requests_per_s(self) -> float:
        """Good requests of all trials over their measured time: longer trials weigh more."""
        return self.good / self.duration_s

    @property
    def pooled_bytes_per_s(self) -> float:
        """Payload bytes of all trials over their measured time."""
        return self.bytes / self.duration_s

    @property
    def headline(self) -> Latency | None:
        """The latency a reader is shown first: response time, else service time."""
        return self.response or self.service


def system_of(target: str, facts: Mapping[str, object]) -> str:
    """Return what a target is an instance of, or itself."""
    return str(facts.get(SYSTEM) or target)


AnyCell = TypeVar("AnyCell", bound=Cell)


def in_order(cells: Iterable[AnyCell], targets: Sequence[str] = ()) -> tuple[AnyCell, ...]:
    """Sort cells by target, phase, parameters in size, and round.

    A plan runs them in random order. `targets` is the order in which targets were named.
    """
    all_cells = list(cells)
    places: list[dict[str, int]] = [{}, {}, {}, {}]
    for target in targets:
        places[0].setdefault(target, len(places[0]))
    # Ordered by their first trials, cells keep the order of phases.
    for cell in sorted(all_cells, key=lambda cell: cell.trials[0]):
        for place, name in zip(places, _names(cell), strict=True):
            place.setdefault(name, len(place))
    return tuple(
        sorted(
            all_cells,
            key=lambda cell: (
                [place[name] for place, name in zip(places, _names(cell), strict=True)],
                _sortable(cell.parameters),
                cell.round or 0,
                cell.iteration or 0,
            ),
        )
    )


def _names(cell: Cell) -> tuple[str, str, str, str]:
    return cell.target, cell.workload, cell.phase, cell.operation


def _sortable(parameters: Mapping[str, object]) -> list[tuple[str, float, str]]:
    """Return parameters so that numbers sort by size and the size of objects goes first."""
    ordered = sorted(parameters.items(), key=lambda item: (item[0] != "size", item[0]))
    return [
        (name, float(value) if isinstance(value, (int, float)) else 0.0, str(value))
        for name, value in ordered
    ]
