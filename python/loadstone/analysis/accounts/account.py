"""An account: what measurements say, our own or published, with any tool.

A run of ours, a file of another tool and a published report all become an Account, so that one set
of rules judges them and one comparison sets them side by side. An account holds numbers and what
was stated about them; it never holds a conclusion.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from loadstone.analysis.judgements.standing import Standing
from loadstone.analysis.naming import describe_parameter, describe_size
from loadstone.campaign.parameters import whole_parameter
from loadstone.documents.card import Card

Parameter = str | int | float | None

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
"""Metrics of which less is better, besides every time in nanoseconds."""


def is_lower_better(metric: str) -> bool:
    """Tell whether less of a metric is better: times and their quantiles, and memory."""
    return metric in LOWER_IS_BETTER or "_ns_" in metric


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One number of one trial of one case.

    `text` is the number as it was printed, which tells how far it was rounded. `spread` is a
    printed ±, of whatever kind. `block` numbers the interleaved block that the trial ran in and is
    absent unless trials are said to be interleaved. `tool` printed the number. `repetition`
    counts the trials of one case in the order they ran. `work` is how many requests the trial made.
    `place` says where the number stands. `started_unix_ns` is when the trial began, if that is
    known. `standing`, its `reasons` and `labels` are those of the result that the trial is of.
    `histogram` holds the times that a percentile or a mean of them is read from, where they are
    known: several trials are added up before one is read (`accounts/level.py`).
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
        """How many bytes one request carries, if that is known."""
        return whole_parameter(self.parameters, "size")

    @property
    def threads(self) -> int | None:
        """How many threads a parameter asks for, if it does."""
        return whole_parameter(self.parameters, "threads")

    @property
    def case(self) -> tuple[tuple[str, Parameter], ...]:
        """What two measurements of one case and round have in common, but for the target."""
        workload, operation, *parameters = self.case_over_rounds
        return (workload, operation, ("round", self.round), *parameters)

    @property
    def case_over_rounds(self) -> tuple[tuple[str, Parameter], ...]:
        """What tells the case of a result, whose rounds repeat it."""
        return (
            ("workload", self.workload),
            ("operation", self.operation),
            *sorted(self.parameters.items()),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownCeiling:
    """A limit that was measured or stated apart from the results: of a link, a device, a daemon.

    `resource` is network, device or server; `count` of them work side by side. `low` and `high` are
    the extremes that were seen. `targets` and `bounds` say whose ceiling it is, for reads or for
    writes; without them it is one for all. `is_count_inferred` says that the report does not
    state that so many side by side let so much more through. `is_steady` is False where it fell
    while it was measured.
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
        """How many bytes a second so many of it let through, side by side."""
        return self.bytes_per_s * self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One thing said about the set-up, so that two places that disagree can be found.

    A limit that is said to be one `per` bucket, client or the like has the `count` of them that it
    was seen with. `carried_by` names the quantity of what lies beneath, and cannot be passed.
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
    """A ratio said in words, with the two numbers that it is of."""

    words: str
    value: int | float
    base: int | float
    unit: str
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedLoad:
    """Threads of which it is said that they are all that the host has, or fewer; of how many."""

    threads: int
    share: Literal["all", "fewer"]
    place: str
    available: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Disclosure:
    """What is known of how the measurements were made; None is "not stated", and never "no".

    `spread` names what a printed ± means. `order` says how the arms were ordered in time. `cached`
    are the least and the most of its data that was in the client's page cache before a trial.
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
    """Measurements of one or several targets, with everything that was stated beside them.

    `run` identifies the run that the trials were interleaved in. `comparable` holds, per target,
    the facts that must agree before a ratio is drawn. `identical` names pairs of targets that are
    one target under two names: the control of A against A. `planned_threads` lists the loads that a
    sweep set out to measure, also where nothing is printed. `hinted` was said in words only, its
    value follows from them; it is drawn so, and no rule or comparison takes it for a number.
    `of_user_types` are a script's actions once more, by the types of the users who did them.
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
        by_metric: dict[str, list[Measurement]] = {}
        for measurement in self.measurements:
            by_metric.setdefault(measurement.metric, []).append(measurement)
        return by_metric

    def of(self, metric: str, target: str | None = None) -> list[Measurement]:
        """Return the measurements of one metric, and of one target if it is named."""
        of_metric = self._by_metric.get(metric, ())
        return [measurement for measurement in of_metric if target in (None, measurement.target)]

    def only(self, *targets: str) -> "Account":
        """Return the account of some targets only, under their names."""
        chosen = self.where(lambda measurement: measurement.target in targets)
        return replace(chosen, name=", ".join(targets))

    def where(self, is_kept: Callable[[Measurement], bool]) -> "Account":
        """Return the account of some measurements only."""
        return replace(
            self,
            measurements=tuple(filter(is_kept, self.measurements)),
            of_user_types=tuple(filter(is_kept, self.of_user_types)),
        )

    def headline(self) -> str:
        """Return the metric that comparisons speak about first."""
        actions = {measurement.workload for measurement in self.of(ACTION_RATE)}
        if actions and actions.issuperset(measurement.workload for measurement in self.of(RATE)):
            return ACTION_RATE
        for metric in (RATE, BYTE_RATE, SECONDS):
            if metric in self.metrics:
                return metric
        return self.metrics[0] if self.metrics else RATE


def grouped(
    measurements: Iterable[Measurement], key: Callable[[Measurement], object]
) -> dict[object, list[Measurement]]:
    """Return measurements by a key, both in the order they first appear."""
    groups: dict[object, list[Measurement]] = {}
    for measurement in measurements:
        groups.setdefault(key(measurement), []).append(measurement)
    return groups


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
