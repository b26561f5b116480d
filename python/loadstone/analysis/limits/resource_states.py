"""The state of each resource: whether observations support or refute that it is the limit.

A resource that was not observed is not known to have room.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from loadstone.analysis.instrument.card_limits import NIC_BUSY
from loadstone.analysis.instrument.client_limits import CACHED_SOME, OCCUPIED
from loadstone.analysis.limits.facts import (
    INSTRUMENT_MAX,
    THROTTLED,
    Fact,
    busy_from,
    instrument_share,
)
from loadstone.analysis.limits.observed import CEILING_TOUCHED, RISES, Observed
from loadstone.probes.sockets import PORTS_QUICK_SHARE

OTHER_LOADS = "other loads"

Says = Literal["supports", "refutes", "open", "not observed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceState:
    """The state of one resource.

    `value` is its utilisation, or the rate over that of the next load; from `threshold` on it would
    be a limit.
    """

    resource: str
    says: Says
    value: float | None = None
    threshold: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A resource and the limits that it may be.

    `is_watched` tells whether it was observed; `use` returns its utilisation and its threshold.
    """

    resource: str
    limits: tuple[str, ...]
    is_watched: Callable[[Observed], bool]
    use: Callable[[Observed], tuple[float | None, float | None]]


def _client(resource: str, *limits: str, threshold: float | None = None) -> _Row:
    return _Row(
        resource=resource,
        limits=limits,
        is_watched=lambda observed: limits[0] in observed.uses,
        use=lambda observed: (observed.uses.get(limits[0]), threshold),
    )


def _beyond(resource: str, limit: str, *names: str) -> _Row:
    def use(observed: Observed) -> tuple[float | None, float | None]:
        server, ceiling = observed.server or {}, observed.ceilings.get(limit)
        shares = [(server[name], busy_from(name)) for name in names if name in server]
        shares += [(ceiling.share, CEILING_TOUCHED)] if ceiling is not None else []
        # The one that is nearest to its own threshold.
        return max(shares, key=lambda pair: pair[0] / pair[1], default=(None, None))

    return _Row(
        resource=resource,
        limits=(limit,),
        is_watched=lambda observed: use(observed)[0] is not None,
        use=use,
    )


ROWS: tuple[_Row, ...] = (
    _client("client's processors", "INSTRUMENT_CPU", "SHARED_HOST", threshold=OCCUPIED),
    _client("client's memory", "INSTRUMENT_MEM"),
    _client("client's ports", "INSTRUMENT_SOCKETS", threshold=PORTS_QUICK_SHARE),
    _client("client's cards", "CLIENT_NIC", threshold=NIC_BUSY),
    _Row(
        resource="client's page cache",
        limits=(),
        is_watched=lambda observed: observed.point.cached is not None,
        use=lambda observed: (observed.point.cached, CACHED_SOME),
    ),
    _Row(
        resource="client's own ceiling",
        limits=("INSTRUMENT_LIMITED", "INSTRUMENT_HOSTS"),
        is_watched=lambda observed: observed.null_rate is not None,
        use=lambda observed: (instrument_share(observed), INSTRUMENT_MAX),
    ),
    _Row(
        resource=OTHER_LOADS,
        limits=("NOT_SATURATED", "REQUESTED_RATE", "LATENCY_BOUND"),
        is_watched=lambda observed: observed.step is not None or observed.is_offer_met is not None,
        use=lambda observed: (observed.step.ratio if observed.step is not None else None, RISES),
    ),
    _beyond("path", "NETWORK_PATH"),
    _beyond("target's processors", "TARGET_CPU", "cpu", "core"),
    _beyond("target's disks", "TARGET_DISK", "disk", "device"),
    _beyond("target's cards", "TARGET_NETWORK", "network"),
    _beyond("target's own benchmark", "TARGET_SOFTWARE"),
    _Row(
        resource="target's refusals",
        limits=("TARGET_THROTTLED",),
        is_watched=lambda observed: True,
        use=lambda observed: (observed.throttled, THROTTLED),
    ),
)
"""The table, from the client over the path to the target."""


def observe_all(observed: Observed, facts: Sequence[Fact]) -> tuple[ResourceState, ...]:
    """Return every row of the table; it says what the facts of its limits do."""
    states = []
    for row in ROWS:
        if not row.limits and not row.is_watched(observed):
            # Most targets have nothing there.
            continue
        value, threshold = row.use(observed)
        says = _says(row, observed, facts)
        states.append(
            ResourceState(resource=row.resource, says=says, value=value, threshold=threshold)
        )
    return tuple(states)


def _says(row: _Row, observed: Observed, facts: Sequence[Fact]) -> Says:
    bearings = {fact.bearing for fact in facts if fact.limit in row.limits}
    if len(bearings) == 1:
        return bearings.pop()
    if bearings:
        return "open"
    if not row.is_watched(observed):
        return "not observed"
    if row.resource == OTHER_LOADS:
        step = observed.step
        return "refutes" if step is not None and (step.is_flat or step.is_fall) else "open"
    ceiling = observed.ceilings.get(row.limits[0]) if row.limits else None
    value, threshold = row.use(observed)
    # A ceiling that fell or was passed proves no room; a full resource that other programs share
    # proves no limit. Anything else below its threshold has room.
    is_open = (ceiling is not None and not ceiling.has_room) or (
        value is not None and threshold is not None and value >= threshold
    )
    return "open" if is_open else "refutes"
