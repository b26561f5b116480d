"""Which resource was observed how: one row for each, with what it says of being the limit.

A row says that a resource supports being the limit, or refutes it; that what was seen leaves it
open; or that nothing looked at it. What was not looked at never has room.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from loadstone.analysis.instrument.card_limits import NIC_BUSY
from loadstone.analysis.instrument.client_limits import OCCUPIED
from loadstone.analysis.limits.facts import (
    INSTRUMENT_MAX,
    RESOURCE_BUSY,
    THROTTLED,
    Fact,
    instrument_share,
)
from loadstone.analysis.limits.observed import CEILING_TOUCHED, RISES, Observed
from loadstone.probes.sockets import PORTS_QUICK_SHARE

OTHER_LOADS = "other loads"

Says = Literal["supports", "refutes", "open", "not observed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceState:
    """What was seen of one resource.

    `value` is the share of it that was used, or the rate over that of the next load; absent where
    there is no such number. From `threshold` on it would be a limit.
    """

    resource: str
    says: Says
    value: float | None = None
    threshold: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A resource, the limits that it may be, and how to see whether and how much of it was used.

    `is_watched` tells whether anything looked at it.
    """

    resource: str
    limits: tuple[str, ...]
    is_watched: Callable[[Observed], bool]
    value: Callable[[Observed], float | None]
    threshold: float | None = None


def _client(resource: str, *limits: str, threshold: float | None = None) -> _Row:
    return _Row(
        resource=resource,
        limits=limits,
        is_watched=lambda seen: limits[0] in seen.uses,
        value=lambda seen: seen.uses.get(limits[0]),
        threshold=threshold,
    )


def _target(resource: str, limit: str, *names: str) -> _Row:
    def value(seen: Observed) -> float | None:
        ceiling = seen.ceilings.get(limit)
        used = [seen.server[name] for name in names if name in seen.server] if seen.server else []
        return max([*used, *([ceiling.share] if ceiling is not None else [])], default=None)

    return _Row(
        resource=resource,
        limits=(limit,),
        is_watched=lambda seen: value(seen) is not None,
        value=value,
        threshold=RESOURCE_BUSY,
    )


ROWS: tuple[_Row, ...] = (
    _client("client's processors", "INSTRUMENT_CPU", "SHARED_HOST", threshold=OCCUPIED),
    _client("client's memory", "INSTRUMENT_MEM"),
    _client("client's ports", "INSTRUMENT_SOCKETS", threshold=PORTS_QUICK_SHARE),
    _client("client's cards", "CLIENT_NIC", threshold=NIC_BUSY),
    _Row(
        resource="client's own ceiling",
        limits=("INSTRUMENT_LIMITED", "INSTRUMENT_HOSTS"),
        is_watched=lambda seen: seen.null_rate is not None,
        value=instrument_share,
        threshold=INSTRUMENT_MAX,
    ),
    _Row(
        resource=OTHER_LOADS,
        limits=("NOT_SATURATED", "LATENCY_BOUND"),
        is_watched=lambda seen: seen.step is not None or seen.is_offer_met is not None,
        value=lambda seen: seen.step.ratio if seen.step is not None else None,
        threshold=RISES,
    ),
    _Row(
        resource="path",
        limits=("NETWORK_PATH",),
        is_watched=lambda seen: "NETWORK_PATH" in seen.ceilings,
        value=lambda seen: (
            ceiling.share if (ceiling := seen.ceilings.get("NETWORK_PATH")) is not None else None
        ),
        threshold=CEILING_TOUCHED,
    ),
    _target("target's processors", "TARGET_CPU", "cpu", "core"),
    _target("target's disks", "TARGET_DISK", "disk", "device"),
    _target("target's cards", "TARGET_NETWORK", "network"),
    _target("target's own benchmark", "TARGET_SOFTWARE"),
    _Row(
        resource="target's refusals",
        limits=("TARGET_THROTTLED",),
        is_watched=lambda seen: True,
        value=lambda seen: seen.throttled,
        threshold=THROTTLED,
    ),
)
"""The table, from the client over the path to the target."""


def observe_all(observed: Observed, facts: Sequence[Fact]) -> tuple[ResourceState, ...]:
    """Return every row of the table; what it says is what the facts of its limits do."""
    return tuple(
        ResourceState(
            resource=row.resource,
            says=_says(row, observed, facts),
            value=row.value(observed),
            threshold=row.threshold,
        )
        for row in ROWS
    )


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
    ceiling = observed.ceilings.get(row.limits[0])
    value = row.value(observed)
    # A ceiling that fell or was passed proves no room, and one program among others that fills a
    # resource of the host no limit. Below its threshold all else has room.
    is_open = (ceiling is not None and not ceiling.has_room) or (
        value is not None and row.threshold is not None and value >= row.threshold
    )
    return "open" if is_open else "refutes"
