"""What trials say of the client hosts that made their load together."""

from collections.abc import Sequence

from loadstone.documents.summary import LoadHost
from loadstone.results.record import Record

START_ERROR_NS_MAX = 5_000_000
SHARE_MIN = 0.8
"""Of an equal share: less than that on one host is not chance."""


def hosts_of(record: Record) -> Sequence[LoadHost]:
    """Return what the record says of each host; nothing where the trial ran on this one alone."""
    return record.summary.get("hosts") or ()


def lost(record: Record) -> list[LoadHost]:
    """Return the hosts that were lost, before the trial or in it."""
    return [host for host in hosts_of(record) if host["state"] == "lost"]


def has_lost_host(record: Record) -> bool:
    """HOST_LOST."""
    return bool(lost(record))


def is_lost_meanwhile(record: Record) -> bool:
    """Tell whether a host was lost in the middle of its load."""
    return any(host.get("lost_ns") for host in lost(record))


def started_apart(record: Record) -> bool:
    """START_APART."""
    return any(start_error_ns(host) > START_ERROR_NS_MAX for host in hosts_of(record))


def has_set_clock(record: Record) -> bool:
    """CLOCK_SET."""
    return any(host.get("clock_step_ns") for host in hosts_of(record))


def is_unequal(record: Record) -> bool:
    """HOSTS_UNEQUAL."""
    return bool(behind(record))


def behind(record: Record) -> list[tuple[LoadHost, float]]:
    """Return the hosts that did less than their share, with what of it they did.

    Only where a clock ends the load: a number of requests is divided evenly beforehand. Shares are
    those of the clients that each host has.
    """
    stop, whole = record.trial.get("stop") or {}, hosts_of(record)
    working = [host for host in whole if host["state"] == "finished"]
    if stop.get("requests") is not None or len(working) < 2 or not record.trial.get("measured"):
        return []
    clients = {host["name"]: host.get("clients") or 1 for host in working}
    per_client = sum(host["requests"] for host in working) / sum(clients.values())
    shares = (
        [(host, host["requests"] / (per_client * clients[host["name"]])) for host in working]
        if per_client
        else []
    )
    return [(host, share) for host, share in shares if share < SHARE_MIN]


def start_error_ns(host: LoadHost) -> int:
    """Return how far from the common start a host began, at most."""
    return abs(int(host.get("start_error_ns_max") or 0))
