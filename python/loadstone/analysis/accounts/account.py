"""An account: measurements of our own runs, of other tools and of published reports.

All three become an Account, which one set of rules judges and one comparison compares. An account
holds numbers and statements, never conclusions.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from loadstone.analysis.grouping import grouped
from loadstone.analysis.judgements.standing import Standing, worst_of
from loadstone.analysis.naming import describe_parameter, describe_size
from loadstone.campaign.parameters import whole_parameter
from loadstone.documents.card import Card

Parameter = str | int | float | None

Case = tuple[tuple[str, Parameter], ...]
"""The key of a target's measurements: workload, operation, round, parameters."""

RATE = "requests_per_s"
BYTE_RATE = "bytes_per_s"
ACTION_RATE = "actions_per_s"
"""Actions of a script that all clients completed, by wall time."""

MEGABYTE_RATE = "megabytes_per_s"
"""A printed rate whose megabyte may be 10^6 or 2^20 bytes."""

THREAD_RATE = "requests_per_s_per_thread"
SECONDS = "seconds"
SERVER_CPU = "server_cpu_ns_per_request"
"""Processor time of an arm's server, by all requests of the trial, of whatever operation."""
SERVER_MEMORY = "server_memory_bytes"
"""Most memory that the processes of an arm's server held, from its start to the trial's end."""

LOWER_IS_BETTER = frozenset({SECONDS, SERVER_MEMORY})
"""Metrics of which lower is better, besides every time in nanoseconds."""


def is_lower_better(metric: str) -> bool:
    """Tell whether less of a metric is better: times, their quantiles, and memory."""
    return metric in LOWER_IS_BETTER or "_ns_" in metric


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One number of one trial of one case.

    `text` is the number as printed, which tells how far it was rounded, `spread` a printed ± of any
    kind, and `tool` the program that printed it. `block` is that of interleaved trials, else None;
    `repetition` counts the trials of a case in order. `work` is the number of requests. `place` is
    its origin. `standing`, `reasons` and `labels` are those of the trial's result. `histogram`
    holds the times behind a percentile or a mean, if known (`accounts/level.py`).
    """

    target: str
    workload: str
    operation: str
    parameters: Mapping[str, Parameter]
    metric: str
    value: float
    text: str | None = None
    spread: float | None = None
    round: int = 1
    block: int | None = None
    repetition: int = 1
    work: int | None = None
    place: str = ""
    tool: str = ""
    labels: tuple[str, ...] = ()
    standing: Standing = "valid"
    reasons: tuple[str, ...] = ()
    started_unix_ns: int | None = None
    histogram: bytes | None = field(default=None, repr=False)

    @property
    def size_bytes(self) -> int | None:
        """The size of a request, if known."""
        return whole_parameter(self.parameters, "size")

    @property
    def threads(self) -> int | None:
        """The number of threads, if a parameter states it."""
        return whole_parameter(self.parameters, "threads")

    @property
    def case(self) -> Case:
        """The case with its round, without the target."""
        workload, operation, *parameters = self.case_over_rounds
        return (workload, operation, ("round", self.round), *parameters)

    def case_without(self, *names: str) -> Case:
        """Return the case without some parameters."""
        return tuple(item for item in self.case if item[0] not in names)

    @property
    def case_over_rounds(self) -> Case:
        return (
            ("workload", self.workload),
            ("operation", self.operation),
            *sorted(self.parameters.items()),
        )


def standing_of_trials(trials: Iterable[Measurement]) -> tuple[Standing, tuple[str, ...]]:
    """Return the worst standing of a case's trials, and its reasons."""
    trials = list(trials)
    worst = worst_of(trial.standing for trial in trials)
    reasons = (name for trial in trials if trial.standing == worst for name in trial.reasons)
    return worst, tuple(dict.fromkeys(reasons))


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownCeiling:
    """A limit of a link, device or daemon that was measured or stated apart from the results.

    `count` of them work side by side; `is_count_inferred` if the source does not state their joint
    rate. `low` and `high` are the extremes. It is valid for `targets` and for the direction
    `bounds`, or for all. `is_steady` is False if it fell while it was measured.
    """

    resource: Literal["network", "device", "server", "client"]
    name: str
    bytes_per_s: float
    low: float | None = None
    high: float | None = None
    count: int = 1
    text: str = ""
    tool: str = ""
    place: str = ""
    targets: tuple[str, ...] = ()
    bounds: Literal["read", "write"] | None = None
    is_count_inferred: bool = False
    is_steady: bool = True

    @property
    def limit(self) -> float:
        """The bytes per second of all that work side by side."""
        return self.bytes_per_s * self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One statement about the set-up, to find those that contradict each other.

    A limit `per` bucket, client or the like was seen with `count` of them. `carried_by` is the
    quantity beneath it, which it cannot exceed.
    """

    quantity: str
    value: int | float
    unit: str
    place: str
    per: str = ""
    count: int | float = 1
    carried_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedRatio:
    """A ratio in words, with its two numbers."""

    words: str
    value: int | float
    base: int | float
    unit: str
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedLoad:
    """A number of threads that is said to be all that the host has, or fewer."""

    threads: int
    share: Literal["all", "fewer"]
    place: str
    available: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Disclosure:
    """Facts about how the measurements were made; None means "not stated".

    `spread` is the meaning of a printed ±, `order` that of the arms in time. `cached` are the least
    and the greatest share of the data in the client's page cache before a trial.
    """

    replication_unit: str | None = None
    spread: str | None = None
    order: Literal["interleaved", "sequential"] | None = None
    loop: Literal["open", "closed"] | None = None
    connections: Literal["keep_alive", "per_request"] | None = None
    percentiles: Literal["merged histograms", "raw values", "averaged"] | None = None
    correction: str | None = None
    suite_members: int | None = None
    aggregate: str | None = None
    tuning: str | None = None
    dataset_bytes: int | None = None
    dataset_objects: int | None = None
    client_memory_bytes: int | None = None
    cache: str | None = None
    cached: tuple[float, float] | None = None
    fill: str | None = None
    steadiness: str | None = None
    instrument_ceiling: str | None = None
    client_cost: str | None = None
    errors: str | None = None
    payload: str | None = None
    durability: str | None = None
    verified: float | None = None
    claims_no_difference: bool | None = None
    all_trials_listed: bool | None = None
    chart_lines: Literal["markers only", "through unmeasured points"] | None = None
    tuning_trials: Literal["kept apart", "none", "same data"] | None = None


@dataclass(frozen=True, kw_only=True)
class Account:
    """Measurements of one or several targets, with the statements about them.

    `run` identifies the run that trials were interleaved in. `comparable` holds per target the
    facts that must agree for a ratio. `identical` are pairs of names of one target, the A/A
    control. `planned_threads` are the planned loads of a sweep, also those without numbers.
    `hinted` are numbers that follow from words: they are drawn, but not judged or compared.
    `of_user_types` are a script's actions by the types of their users.
    """

    name: str
    title: str
    measurements: tuple[Measurement, ...]
    ceilings: tuple[KnownCeiling, ...] = ()
    statements: tuple[Statement, ...] = ()
    disclosure: Disclosure = field(default_factory=Disclosure)
    run: str = ""
    client_links: tuple[tuple[float, int], ...] = ()
    comparable: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    cards: Mapping[str, Card] = field(default_factory=dict)
    identical: tuple[tuple[str, str], ...] = ()
    planned_threads: tuple[int, ...] = ()
    hinted: tuple[Measurement, ...] = ()
    of_user_types: tuple[Measurement, ...] = ()
    ratios: tuple[StatedRatio, ...] = ()
    loads: tuple[StatedLoad, ...] = ()

    @cached_property
    def targets(self) -> tuple[str, ...]:
        """The targets in the order they first appear."""
        return tuple(dict.fromkeys(measurement.target for measurement in self.measurements))

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics in the order they first appear."""
        return tuple(self._by_metric)

    @cached_property
    def _by_metric(self) -> Mapping[str, list[Measurement]]:
        return grouped(self.measurements, lambda measurement: measurement.metric)

    def of(self, metric: str, target: str | None = None) -> list[Measurement]:
        """Return the measurements of one metric, and of one target if it is named."""
        of_metric = self._by_metric.get(metric, ())
        return [measurement for measurement in of_metric if target in (None, measurement.target)]

    def only(self, *targets: str) -> "Account":
        """Return the account of some targets only, under their names."""
        chosen = self.where(lambda m: m.target in targets)
        return replace(chosen, name=", ".join(targets))

    def where(self, is_kept: Callable[[Measurement], bool]) -> "Account":
        """Return the account of some measurements only."""
        return replace(
            self,
            measurements=tuple(filter(is_kept, self.measurements)),
            of_user_types=tuple(filter(is_kept, self.of_user_types)),
        )

    def headline(self) -> str:
        """Return the first metric of comparisons."""
        actions = {measurement.workload for measurement in self.of(ACTION_RATE)}
        if actions and actions.issuperset(measurement.workload for measurement in self.of(RATE)):
            return ACTION_RATE
        for metric in (RATE, BYTE_RATE, SECONDS):
            if metric in self.metrics:
                return metric
        return self.metrics[0] if self.metrics else RATE


def describe_case(measurement: Measurement, leave_out: Sequence[str] = ()) -> str:
    """Return a case in words: "Ceph, get 1 MiB, 250 threads, nodes 6, round 2"."""
    operation = measurement.operation
    if measurement.size_bytes is not None:
        operation = f"{operation} {describe_size(measurement.size_bytes)}"
    words = [measurement.target, measurement.workload, operation]
    words += [
        describe_parameter(name, value)
        for name, value in measurement.parameters.items()
        if name not in ("size", *leave_out) and value is not None
    ]
    if measurement.round > 1 and "round" not in leave_out:
        words.append(f"round {measurement.round}")
    return ", ".join(word for word in dict.fromkeys(words) if word)
