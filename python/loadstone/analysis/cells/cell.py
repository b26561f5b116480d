"""A cell: the arithmetic of one operation of one case over its trials, before it is judged.

Reports read results (`judgements/result.py`), which are cells that have been judged.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from loadstone.analysis.cells.agents import AgentCell, Counts
from loadstone.analysis.instrument.headroom import Jitter
from loadstone.analysis.instrument.own_ceiling import CeilingShare
from loadstone.analysis.naming import describe_parameters
from loadstone.analysis.statistics.latency import Latency
from loadstone.analysis.statistics.mean import Mean, mean_of
from loadstone.campaign.parameters import whole_parameter
from loadstone.campaign.schema.target import SYSTEM
from loadstone.documents.outcomes import LOST_RACE, UNWRITTEN
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
    """The rates of one trial of a cell, the unit of repetition in comparisons."""

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
    """The cost of the load on the client hosts; None if not observed.

    `cached` is the share of the data in their page cache before the trial.
    """

    cpu_us_per_request: float | None
    rss_bytes_max: float | None
    sockets_max: float | None
    cached: float | None = None


@dataclass(frozen=True, kw_only=True)
class Cell(Counts):
    """One operation of one case over all its trials, in one round and iteration or in all.

    The most frequent of `errors` comes first. `round` and `iteration` are None if several are added
    up. `first_done_s` is when the first client ran out of
    work, `last_done_s` when the last request was done, from the start of measuring, in the slowest
    trial. `instrument` is the used share of the load generator's own ceiling, or `no_ceiling` the
    reason why that is unknown. `facts` are the parameters that belong to the target. `agents` is
    what each agent did, where several made the load.
    """

    target: str
    workload: str
    phase: str
    parameters: Mapping[str, object]
    facts: Mapping[str, object]
    round: int | None
    iteration: int | None
    iterations: int
    load: LoadDocument
    spread_of_seconds: Deviation | None
    trial_rates: tuple[TrialRate, ...]
    first_done_s: float | None
    last_done_s: float | None
    lag: Latency | None
    part: Latency | None
    parts_failed: int
    little: float | None
    client: Client
    jitter: Jitter
    instrument: CeilingShare | None
    no_ceiling: str
    labels: tuple[str, ...]
    agents: tuple[AgentCell, ...]

    @property
    def failed_if_stated(self) -> int | None:
        """The failed requests; None if another tool's file does not state them."""
        return None if FAILURES_NOT_STATED in self.labels and not self.failed else self.failed

    @property
    def unwritten(self) -> int:
        """The requests for objects whose put had failed."""
        return self.errors.get(UNWRITTEN, 0)

    @property
    def lost_races(self) -> int:
        """The requests whose condition did not hold because of another write."""
        return self.errors.get(LOST_RACE, 0)

    @property
    def system(self) -> str:
        """The system that the target is an instance of: its fact `system`, or itself."""
        return system_of(self.target, self.facts)

    @property
    def size_bytes(self) -> int | None:
        """The size of an object, if it is a parameter and all objects have the same."""
        return whole_parameter(self.parameters, "size")

    @property
    def threads(self) -> int | None:
        """The number of threads, if it is a parameter."""
        return whole_parameter(self.parameters, "threads")

    @property
    def clients(self) -> int | None:
        """The most requests in flight: its threads, or else the clients of its load."""
        return self.load.get("clients") if self.threads is None else self.threads

    @property
    def load_stated(self) -> Mapping[str, object]:
        """Its load; the clients are None where another tool's file does not say them."""
        is_unknown = self.load.get("kind") == "closed" and "clients" not in self.load
        return {**self.load, "clients": None} if is_unknown else {**self.load}

    @property
    def hosts(self) -> int | None:
        """The number of client hosts; None if the controller made the load."""
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
        """Payload bytes per second: the mean of the trials."""
        return self._mean([trial_rate.bytes_per_s for trial_rate in self.trial_rates])

    def _mean(self, values: list[float]) -> Mean:
        return mean_of(values, [trial_rate.started_unix_ns for trial_rate in self.trial_rates])

    @property
    def requests_per_s(self) -> float:
        """The rate: good requests per second."""
        return self.rate.value

    @property
    def bytes_per_s(self) -> float:
        """The byte rate: payload bytes per second."""
        return self.byte_rate.value

    @property
    def objects_per_s(self) -> float:
        """Objects per second at the rate, for the JSON report."""
        return self.requests_per_s * self.objects / self.good if self.good else 0.0

    @property
    def pooled_requests_per_s(self) -> float:
        """Good requests of all trials over their measured time: longer trials weigh more."""
        return self.good / self.duration_s

    @property
    def pooled_bytes_per_s(self) -> float:
        """Payload bytes of all trials over their measured time."""
        return self.bytes / self.duration_s


def system_of(target: str, facts: Mapping[str, object]) -> str:
    """Return the system that a target is an instance of, or the target."""
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
