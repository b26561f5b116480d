"""Divides a trial into one document per host; together they make the whole load."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from loadstone.campaign.planning.lifecycle import CLEAN_UP
from loadstone.documents.python_types import TargetSettings
from loadstone.documents.trial import LoadDocument, TrialDocument

KEYS = ("access_key", "secret_key", "session_token")
"""Settings that take precedence over a profile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """The share of each host that takes part, by its name, and the idle hosts.

    `is_whole` means that one host does everything: removing a dataset cannot be divided.
    """

    shares: Mapping[str, TrialDocument]
    idle: tuple[str, ...]
    is_whole: bool


def divide(document: TrialDocument, hosts: Sequence[str]) -> Division:
    """Divide a trial among the first `hosts`, but no more than there are clients or requests.

    Clients are distributed evenly, with the remainder on the first hosts. Requests and rates stay
    those of the whole, of which a host takes its portion: request number i goes to host i modulo
    the number of hosts. Failures are counted by the controller.
    """
    wanted = hosts[: document.get("hosts") or 1]
    number = 1 if document["phase"] == CLEAN_UP else _useful(document, len(wanted))
    shares: dict[str, TrialDocument] = {}
    for index, host in enumerate(wanted[:number]):
        share = document.copy()
        share.pop("hosts", None)
        share["agent"] = host
        if number > 1:
            share["portion"] = {"index": index, "of": number}
            share["on_error"] = {"action": "continue", "limit": None}
            share["load"] = _load(document["load"], index, number)
        shares[host] = share
    return Division(shares=shares, idle=tuple(wanted[number:]), is_whole=number == 1)


def signed_by(document: TrialDocument, agent: str, profiles: Collection[str]) -> TrialDocument:
    """Return the document of an agent, with the AWS profile of its name if there is one."""
    if agent not in profiles:
        return document
    target = document["target"]
    settings = {key: value for key, value in target["settings"].items() if key not in KEYS}
    return {
        **document,
        "target": {**target, "settings": cast(TargetSettings, {**settings, "profile": agent})},
    }


def failures_max(document: TrialDocument) -> int | None:
    """Return how many failures a whole trial tolerates; None for any number."""
    on_error = document.get("on_error") or {}
    limit = on_error.get("limit")
    if limit is not None:
        return limit
    return 0 if on_error.get("action") == "stop" else None


def _useful(document: TrialDocument, hosts: int) -> int:
    requests = document["stop"].get("requests")
    bounds = [hosts, clients_of(document["load"])]
    return max(1, min(bounds if requests is None else [*bounds, requests]))


def clients_of(load: LoadDocument) -> int:
    """Return the maximum number of requests in flight of a load."""
    if load["kind"] == "closed":
        return load["clients"]
    clients = load["clients_max"]
    assert clients is not None, "planning says how many requests of an open load may be in flight"
    return clients


def _load(load: LoadDocument, index: int, number: int) -> LoadDocument:
    """Return the load with a host's own clients; the load generator divides rates."""
    even, rest = divmod(clients_of(load), number)
    clients = even + (index < rest)
    if load["kind"] == "closed":
        return {**load, "clients": clients}
    return {**load, "clients_max": clients}
