"""What a verdict rests on: a load and its rate, what was changed to see whether its limit moves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from loadstone.analysis.judgements.finding import Evidence
from loadstone.analysis.judgements.validity import Gate

Intervention = Literal[
    "second client",
    "more hosts",
    "half the hosts",
    "half the clients",
    "half the size",
    "half the verification",
    "operator",
]
"""What was changed. A second client brings its own load; more hosts make the same load together."""

RISES = 1.05
SURELY_RISES = 1.02


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPoint:
    """One load and what came of it: N in flight, X requests a second, R seconds each.

    `error` is the standard error of the rate, relatively, as its seconds show it.
    """

    load: float
    rate: float
    time_s: float | None = None
    error: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """Something that was changed to see whether the limit moves.

    `ratio` is the changed rate over the other, `low` and `high` the ends of its 95 % interval,
    absent where nothing was repeated. `point` is what half the clients did; `hosts` are the hosts
    of the other and of the changed load.
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
        return Evidence(
            metric=f"rate with {self.kind} / without", value=self.ratio, threshold=RISES
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """Everything a verdict may rest on; what was not observed is absent, and never zero.

    `flags` are the client's resources that passed a threshold, by name (INSTRUMENT_CPU,
    INSTRUMENT_MEM, INSTRUMENT_SOCKETS, CLIENT_NIC), each with its evidence. `null_rate` is what the
    same client reaches against a target that does nothing. `server` holds the utilisation of each
    resource of the target, 0 to 1; None when it was not probed. `is_client_watched` says that
    the client's resources were looked at, so that no flag means that none was at its limit.
    `is_offer_met` says of an open load that its rate was achieved and left on time.
    The ceilings of the path, of the target's devices and of the store by its own benchmark are
    measured apart, in the bytes per second of `bytes_per_s`.
    """

    point: LoadPoint
    gates: Sequence[Gate] = ()
    is_steady: bool | None = None
    null_rate: float | None = None
    flags: Mapping[str, Sequence[Evidence]] = field(default_factory=dict)
    lower: LoadPoint | None = None
    higher: LoadPoint | None = None
    knee: float | None = None
    bytes_per_s: float | None = None
    path_bytes_per_s: float | None = None
    device_bytes_per_s: float | None = None
    store_bytes_per_s: float | None = None
    throttled: float = 0.0
    server: Mapping[str, float] | None = None
    is_client_watched: bool = False
    is_offer_met: bool | None = None
    tried: Sequence[Tried] = ()
