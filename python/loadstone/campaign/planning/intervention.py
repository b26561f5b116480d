"""Interventions: every case once more with one thing halved, to see whether its limit moves.

A counter that is full is a suspicion. If half the objects' size brings more requests, it was the
bytes; if half the clients reach as much, it was not the clients; if half the verification brings
more, it was the client's processor; if half the hosts reach half as much with the same load, it was
the hosts. The changed cases run in the same interleaved blocks.
"""

from collections.abc import Iterator
from typing import Any

from loadstone.campaign.reading.mistakes import KeyMistake
from loadstone.campaign.schema.campaign import Workload
from loadstone.campaign.schema.dataset import FixedSize
from loadstone.campaign.schema.load import Load
from loadstone.campaign.schema.phase import Phase


def changed(workload: Workload, name: str, hosts_all: int | None) -> Workload:
    """Return a workload with one thing halved; a search is left out, it varies its load itself.

    `hosts_all` is how many hosts the campaign has, None where this one makes the load.
    """
    phases = tuple(
        _changed_phase(phase, name, hosts_all)
        for phase in workload.phases
        if phase.capacity is None
    )
    update: dict[str, Any] = {"phases": phases}
    match name:
        case "half_clients" if workload.load is not None:
            update["load"] = _half_load(workload.load)
        case "half_hosts" if workload.load is not None and hosts_all is not None:
            update["load"] = _half_hosts(workload.load, hosts_all)
        case "half_size" if workload.dataset is not None:
            size = _half_size(workload.dataset.size)
            update["dataset"] = workload.dataset.model_copy(update={"size": size})
        case "half_verification":
            update["verify"] = workload.verify / 2
    return workload.model_copy(update=update)


def intervention_mistakes(workload: Workload, hosts_all: int | None) -> Iterator[KeyMistake]:
    """Return what cannot be halved."""
    phases = [phase for phase in workload.phases if phase.capacity is None]
    loads = [phase.load or workload.load for phase in phases]
    sizes = [phase.size or (workload.dataset and workload.dataset.size) for phase in phases]
    verified = [workload.verify if phase.verify is None else phase.verify for phase in phases]
    for index, name in enumerate(workload.interventions):
        match name:
            case "half_clients" if any(not load or (load.threads or 0) < 2 for load in loads):
                found, allowed = "a load of fewer than 2 threads", "it with 2 threads or more"
            case "half_hosts" if any(
                ((load and load.hosts) or hosts_all or 1) < 2 for load in loads
            ):
                found, allowed = "a load of fewer than 2 hosts", "it with 2 hosts or more"
            case "half_size" if any(
                not isinstance(size, FixedSize) or size.size_bytes < 2 for size in sizes
            ):
                found, allowed = (
                    "a size that is no fixed one",
                    "it with one size of 2 bytes or more",
                )
            case "half_verification" if not any(verified):
                found, allowed = "a workload that verifies nothing", "it with a verify above 0"
            case _:
                continue
        yield KeyMistake(path=("interventions", index), found=f"it with {found}", allowed=allowed)


def _changed_phase(phase: Phase, name: str, hosts_all: int | None) -> Phase:
    match name:
        case "half_clients" if phase.load is not None:
            return phase.model_copy(update={"load": _half_load(phase.load)})
        case "half_hosts" if phase.load is not None and hosts_all is not None:
            return phase.model_copy(update={"load": _half_hosts(phase.load, hosts_all)})
        case "half_size" if phase.size is not None:
            return phase.model_copy(update={"size": _half_size(phase.size)})
        case "half_verification" if phase.verify is not None:
            return phase.model_copy(update={"verify": phase.verify / 2})
    return phase


def _half_load(load: Load) -> Load:
    if load.threads is None:
        return load
    return load.model_copy(update={"threads": max(1, load.threads // 2)})


def _half_hosts(load: Load, hosts_all: int) -> Load:
    """Return the whole of a load from half of its hosts, each of which makes twice as much."""
    hosts = load.hosts or hosts_all
    times = hosts if load.per == "host" else 1
    update: dict[str, Any] = {"hosts": max(1, hosts // 2), "per": "total"}
    if load.threads is not None:
        update["threads"] = load.threads * times
    if load.rate_per_s is not None:
        update |= {
            "rate_per_s": load.rate_per_s * times,
            "clients_max": load.clients_max * times,
        }
    return load.model_copy(update=update)


def _half_size(size: Any) -> Any:
    if not isinstance(size, FixedSize):
        return size
    return size.model_copy(update={"size_bytes": max(1, size.size_bytes // 2)})
