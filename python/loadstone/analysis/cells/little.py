"""Little's law over all operations of a part of a run."""

from collections.abc import Sequence

from loadstone.analysis.instrument.headroom import is_lost_meanwhile
from loadstone.analysis.judgements.validity import (
    ACHIEVED_MIN,
    LITTLE_TOLERANCE,
    in_flight_ratio,
    little_ratio,
)
from loadstone.analysis.measured.part import SECOND_NS, Part
from loadstone.analysis.statistics.latency import merge
from loadstone.documents.trial import LoadDocument
from loadstone.results.record import Record

REQUESTS_PER_CLIENT = 100
PACED_MIN = 0.95
LONG_REQUEST = 0.99
"""The quantile of the service times that all clients may be in at once: a pause of the target."""


def little_of(parts: Sequence[Part]) -> float | None:
    """Return Little's ratio over all operations, which is 1 if rate and time agree.

    Closed load: rate times mean service time over clients. Open load: counted requests in flight
    over rate times mean service time. None if a host was lost during the load, whose clients' time
    is unknown.
    """
    count = sum(part.mix.service_count for part in parts)
    window_s = sum(part.duration_s for part in parts)
    if not count or any(is_lost_meanwhile(part.record) for part in parts):
        return None
    rate = sum(part.mix.answered for part in parts) / window_s
    service_s = sum(part.mix.service_sum_ns for part in parts) / count / SECOND_NS
    trial, summary = parts[0].record.trial, parts[0].record.summary
    load = trial.get("load")
    if not load:
        return None
    if load["kind"] == "closed":
        return little_ratio(
            # The sum over all agents, as in the document. Another tool may not state it.
            clients=summary.get("clients") or load.get("clients") or 0,
            requests_per_s=rate,
            service_s_mean=service_s,
        )
    # The operations of a mix were in flight together.
    in_flight = {(part.record.id, part.iteration): part.in_flight_ns or 0 for part in parts}
    in_flight_ns = sum(in_flight.values())
    return in_flight_ratio(
        in_flight_mean=in_flight_ns / SECOND_NS / window_s if in_flight_ns else None,
        requests_per_s=rate,
        service_s_mean=service_s,
    )


def little_beyond_chance(ratio: float | None, requests: int, load: LoadDocument) -> float:
    """Return Little's ratio, or 1 if too few requests prove nothing.

    The window cuts the first and the last request of each client.
    """
    clients = load.get("clients") or load.get("clients_max") or 1
    is_enough = requests >= REQUESTS_PER_CLIENT * clients
    return ratio if ratio is not None and is_enough else 1.0


def is_held_back(record: Record, requests_per_s: float, *, is_idle: bool = False) -> bool:
    """Tell whether a closed load reached its rate limit, over all operations.

    Idle clients wait for that limit, and may be a little below it because of the start. Pauses of
    another tool hold clients back at any rate.
    """
    limit = record.trial.get("rate_limit_per_s")
    if limit:
        return requests_per_s >= (PACED_MIN if is_idle else ACHIEVED_MIN) * limit
    return bool(record.summary.get("paced_by"))


def has_too_many_in_flight(parts: Sequence[Part]) -> bool:
    """Tell whether one operation has more requests than its clients can have made."""
    requests = sum(part.good + sum(part.errors.values()) for part in parts)
    load = parts[0].record.trial.get("load") or LoadDocument()
    excess = little_beyond_chance(little_of(parts), requests, load) - 1
    return excess > LITTLE_TOLERANCE and excess > LITTLE_TOLERANCE + _cut_share(parts, load)


def _cut_share(parts: Sequence[Part], load: LoadDocument) -> float:
    """Return by how much the edges of a window can raise Little's ratio of an open load.

    A request counts where it is answered, with all of its time: all clients may be in a long
    request at the start of the window, and in short ones at its end.
    """
    times = merge([part.histograms["service"] for part in parts])
    if load.get("kind") != "open" or times is None:
        return 0.0
    window_s = sum(part.duration_s for part in parts) / len(parts)
    return times.quantile(LONG_REQUEST) / SECOND_NS / window_s
