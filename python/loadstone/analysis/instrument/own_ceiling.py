"""The load generator's own ceiling for a load, from a calibration.

A calibration measures some sizes and some numbers of clients. Time and processor time of a request
are interpolated linearly in its bytes (a + b·bytes), rates linearly in the clients; the lower guess
is taken where nothing was measured.

Two bounds follow (operational analysis, Denning and Buzen 1978):

- `measured` is the rate that was reached. It holds if the server was as in the trial: none (file,
block, null), or one on the client's own host.

- `processor time` is cores / (processor time of a request), and at most clients / (time of a
request to a null server). It holds for remote targets, which leave the client the processor time of
the calibration's server.
"""

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from loadstone.campaign.drivers import facts_of
from loadstone.documents.manifest import HostConditions
from loadstone.results.calibration import Calibration, CalibrationPoint, Session, costs_of

Basis = Literal["measured", "processor time"]

EXTENDED_MAX = 16
"""How far beyond the largest size a line is drawn on."""

COUNTS_AS: Mapping[str, str] = {"range_get": "get"}
"""Operations that cost the client what another does: so many bytes of an object in one piece."""


class NoOwnCeilingError(Exception):
    """The reason why a calibration has no ceiling for a load."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CeilingShare:
    """The used share of the load generator's own ceiling, 0 to 1.

    Shares of concurrent operations add up. `ceiling_per_s` is the rate at share 1 with the same
    mix. `age_s` is the age of the calibration at the start of the trial.
    """

    share: float
    ceiling_per_s: float
    basis: Basis
    is_extended: bool
    age_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCeiling:
    """The highest rate of one load that the load generator itself can reach, per second.

    `is_extended` if the size is beyond those that were measured.
    """

    requests_per_s: float
    basis: Basis
    is_extended: bool
    measured: datetime.datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLoad:
    """The load that decides a ceiling: an operation, its bytes and its clients.

    `clients` is None for an open load.
    """

    driver: str
    operation: str
    bytes_per_request: float
    clients: int | None
    cores: int | None
    verify: float
    connections: str
    settings: Mapping[str, Any]
    encryption: str | None
    path_encryption: str | None
    is_on_own_host: bool

    @property
    def tried_as(self) -> str:
        """The operation that a calibration tries in its place."""
        return COUNTS_AS.get(self.operation, self.operation)


def ceiling_of(
    calibration: Calibration, load: ClientLoad, conditions: HostConditions
) -> OwnCeiling:
    """Return the ceiling of a load; raise NoOwnCeilingError if there is none.

    Sessions under other `conditions` than the trial's do not count.
    """
    tried = _of_load(calibration.sessions, load)
    holding = [pair for pair in tried if not changes_between(pair[0].conditions, conditions)]
    if not holding:
        changed = changes_between(tried[-1][0].conditions, conditions)
        raise NoOwnCeilingError(f"calibrated under other conditions ({'; '.join(changed)})")
    points = [point for _, point in holding]
    curves = _curves(points)
    extended = load.bytes_per_request > max(point.bytes_per_request for point in points)
    oldest = min(session.measured for session, _ in holding)
    measured = _reached(curves, load)
    by_cpu = _by_processor_time(curves, load, cores_of(conditions, load.cores))
    is_alike = not facts_of(load.driver).is_served or load.is_on_own_host
    basis: Basis = "measured" if is_alike and measured <= by_cpu else "processor time"
    if not facts_of(load.driver).is_served:
        # Kernel threads do part of the work, which is not charged to load threads.
        basis, by_cpu = "measured", measured
    return OwnCeiling(
        requests_per_s=min(measured, by_cpu) if is_alike else by_cpu,
        basis=basis,
        is_extended=extended,
        measured=oldest,
    )


def changes_between(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return in words the differences between two sets of conditions."""
    names = dict.fromkeys([*before, *now])
    return [
        f"{name.replace('_', ' ')} {_shown(before.get(name))} then, {_shown(now.get(name))} now"
        for name in names
        if before.get(name) != now.get(name)
    ]


def cores_of(conditions: HostConditions, asked: int | None) -> float:
    """Return the cores of the load generator: the allowed ones, at most as many as asked for."""
    cores = float(conditions.get("cpu_cores_allowed") or conditions.get("cpu_cores") or 1)
    quota, _, period = conditions.get("cgroup_cpu.max", "max").partition(" ")
    if quota.isdigit() and period.isdigit():
        cores = min(cores, int(quota) / int(period))
    return min(cores, asked) if asked else cores


@dataclass(frozen=True, slots=True, kw_only=True)
class _Curve:
    """The points of one number of clients, by the bytes of a request."""

    clients: int
    sizes: tuple[float, ...]
    seconds: tuple[float, ...]
    """Seconds per request over all clients: one over the rate."""
    cpu_seconds: tuple[float, ...]


def _of_load(
    sessions: Iterable[Session], load: ClientLoad
) -> list[tuple[Session, CalibrationPoint]]:
    """Return the points with settings like the load's, with their sessions."""
    every = [(session, point) for session in sessions for point in session.points]
    ours = [pair for pair in every if pair[1].driver == load.driver]
    if not ours:
        raise NoOwnCeilingError(f"driver {load.driver} was not calibrated")
    ours = [pair for pair in ours if pair[1].operation == load.tried_as]
    if not ours:
        raise NoOwnCeilingError(f"{load.operation} on {load.driver} was not calibrated")
    wanted = costs_of(load.driver, load.settings)
    if wanted.get("tls"):
        raise NoOwnCeilingError("there is no calibration with TLS")
    ciphers = [load.encryption if load.bytes_per_request else None, load.path_encryption]
    if cipher := next(filter(None, ciphers), None):
        raise NoOwnCeilingError(f"there is no calibration with {cipher} on the client")
    ours = [pair for pair in ours if costs_of(load.driver, pair[1].settings) == wanted]
    if not ours:
        words = ", ".join(f"{name} {_shown(value)}" for name, value in wanted.items())
        raise NoOwnCeilingError(f"not calibrated with {words}")
    ours = [pair for pair in ours if pair[1].connections == load.connections]
    if not ours:
        kind = load.connections.replace("_", " ")
        raise NoOwnCeilingError(f"not calibrated with connections {kind}")
    # Points that checked more bytes cost more, so their ceilings are lower.
    ours = [pair for pair in ours if pair[1].verify >= load.verify]
    if not ours:
        raise NoOwnCeilingError(f"not calibrated with {load.verify:.0%} of the bytes checked")
    largest = max(point.bytes_per_request for _, point in ours)
    if load.bytes_per_request > EXTENDED_MAX * max(largest, 1):
        raise NoOwnCeilingError(
            f"calibrated up to {largest:.0f} bytes a request, this has {load.bytes_per_request:.0f}"
        )
    return ours


def _curves(points: Sequence[CalibrationPoint]) -> list[_Curve]:
    curves = []
    for clients in sorted({point.clients for point in points}):
        by_size = {
            point.bytes_per_request: point
            for point in sorted(points, key=lambda point: -point.verify)
            if point.clients == clients
        }
        ordered = [by_size[size] for size in sorted(by_size)]
        curves.append(
            _Curve(
                clients=clients,
                sizes=tuple(point.bytes_per_request for point in ordered),
                seconds=tuple(1 / point.requests_per_s for point in ordered),
                cpu_seconds=tuple(point.cpu_ns_per_request / 1e9 for point in ordered),
            )
        )
    return curves


def _reached(curves: Sequence[_Curve], load: ClientLoad) -> float:
    """Return the rate for a number of clients, interpolated."""
    rates = [1 / _at(curve.sizes, curve.seconds, load.bytes_per_request) for curve in curves]
    clients = [curve.clients for curve in curves]
    if load.clients is None:
        return max(rates)
    if load.clients < clients[0]:
        return rates[0] * load.clients / clients[0]
    # More clients than were tried: what so many more would bring is not known.
    return float(np.interp(load.clients, clients, rates))


def _by_processor_time(curves: Sequence[_Curve], load: ClientLoad, cores: float) -> float:
    """Return the rate at which cores are full, or all clients busy."""
    costs = [_at(curve.sizes, curve.cpu_seconds, load.bytes_per_request) for curve in curves]
    if load.clients is None:
        return cores / costs[-1]
    fewer = [index for index, curve in enumerate(curves) if curve.clients <= load.clients]
    # A client alone pays for a wake-up with every request, many share one.
    cost = costs[fewer[-1] if fewer else 0]
    full = min(cores, load.clients) / cost
    first = curves[0]
    # Many clients wait for each other: only fewer of them, or one alone, show how long one takes.
    if first.clients > 1 and load.clients >= first.clients:
        return full
    alone_s = _at(first.sizes, first.seconds, load.bytes_per_request) * first.clients
    return min(full, load.clients / alone_s)


def _at(sizes: Sequence[float], values: Sequence[float], size: float) -> float:
    """Interpolate a value, or extend the line of the last two points."""
    if size <= sizes[-1] or len(sizes) < 2:
        scale = size / sizes[-1] if size > sizes[-1] > 0 else 1.0
        # One size alone does not show the fixed part: it is taken to be none.
        return float(np.interp(size, sizes, values)) * scale
    slope = max(0.0, (values[-1] - values[-2]) / (sizes[-1] - sizes[-2]))
    return values[-1] + slope * (size - sizes[-1])


def _shown(value: object) -> str:
    match value:
        case None:
            return "not known"
        case bool():
            return str(value).lower()
        case list():
            return " ".join(map(str, value))
    return str(value)
