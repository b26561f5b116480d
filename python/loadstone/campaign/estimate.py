"""What a plan will cost before anything runs: requests, bytes, space and time."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from loadstone.campaign import lifecycle
from loadstone.campaign.dataset import read_size_law
from loadstone.campaign.lifecycle import Document, State
from loadstone.campaign.trial import PlannedTrial

_WRITES = frozenset({"put", "multipart_put", "write"})
_READS = frozenset({"get", "range_get", "multi_range_get", "read"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The cost of a plan.

    Requests and bytes are those of trials that end by count; `trials_by_time` end by the clock
    instead, and come on top with what the target can do. `time_ns_min` is what rests, durations
    and rate limits alone take; `time_ns` needs assumed rates. Space counts the replication that
    a target states.
    """

    trials: int
    trials_measured: int
    trials_prepare: int
    trials_clean_up: int
    trials_by_time: int
    requests: int
    bytes_written: int
    bytes_read: int
    peak_bytes: Mapping[str, int]
    replication: Mapping[str, float]
    pauses_ns: int
    time_ns_min: int
    time_ns: int | None


@dataclass(frozen=True, slots=True)
class _Cost:
    """What one trial does, as far as its document tells."""

    requests: int
    bytes_written: float
    bytes_read: float
    time_ns_min: float
    time_ns: float


def estimate(
    trials: Iterable[PlannedTrial],
    replication: Mapping[str, float],
    *,
    requests_per_s: float | None = None,
    bytes_per_s: float | None = None,
) -> Estimate:
    """Return the cost of trials in this order, under the rates assumed of every target."""
    planned = list(trials)
    states, peak_bytes = _follow(planned, replication)
    costs = [
        _cost(entry.document, state, requests_per_s, bytes_per_s)
        for entry, state in zip(planned, states, strict=True)
    ]
    pauses_ns = sum(entry.pause_before_ns for entry in planned)
    has_rates = requests_per_s is not None or bytes_per_s is not None
    names = [entry.phase for entry in planned]
    return Estimate(
        trials=len(planned),
        trials_measured=sum(entry.is_measured for entry in planned),
        trials_prepare=names.count(lifecycle.PREPARE),
        trials_clean_up=names.count(lifecycle.CLEAN_UP),
        trials_by_time=sum(_ends_by_time(entry.document) for entry in planned),
        requests=sum(cost.requests for cost in costs),
        bytes_written=round(sum(cost.bytes_written for cost in costs)),
        bytes_read=round(sum(cost.bytes_read for cost in costs)),
        peak_bytes=peak_bytes,
        replication=dict(replication),
        pauses_ns=pauses_ns,
        time_ns_min=pauses_ns + round(sum(cost.time_ns_min for cost in costs)),
        time_ns=pauses_ns + round(sum(cost.time_ns for cost in costs)) if has_rates else None,
    )


def _cost(
    document: Document, state: State, requests_per_s: float | None, bytes_per_s: float | None
) -> _Cost:
    iterations = document["iterations"]
    stages_ns = document["warm_up_ns"] + document["cool_down_ns"]
    duration_ns = document["stop"]["duration_ns"]
    requests = document["stop"]["requests"]
    if document["phase"] == lifecycle.CLEAN_UP:
        is_filled = state in (State.FULL, State.PARTIAL)
        requests = document["dataset"]["objects" if is_filled else "buckets"]
    if requests is None:
        time_ns = iterations * duration_ns + stages_ns
        return _Cost(0, 0.0, 0.0, time_ns, time_ns)
    requests *= iterations
    written, read = _bytes_per_request(document)
    limit = _rate_limit(document)
    least_ns = requests / limit * 1e9 if limit else 0.0
    assumed_ns = max(
        least_ns,
        requests / requests_per_s * 1e9 if requests_per_s else 0.0,
        requests * max(written, read) / bytes_per_s * 1e9 if bytes_per_s else 0.0,
    )
    if duration_ns is not None:
        # Whichever end comes first: the clock is only an upper bound then.
        assumed_ns = min(assumed_ns, iterations * duration_ns)
        least_ns = min(least_ns, iterations * duration_ns)
    return _Cost(
        requests, requests * written, requests * read, least_ns + stages_ns, assumed_ns + stages_ns
    )


def _rate_limit(document: Document) -> float | None:
    load = document["load"]
    rate: float | None = (
        load["rate_per_s"] if load["kind"] == "open" else document["rate_limit_per_s"]
    )
    return rate


def _bytes_per_request(document: Document) -> tuple[float, float]:
    """Return the payload that an average request writes, and reads."""
    total = sum(share["weight"] for share in document["mix"])
    written = read = 0.0
    for share in document["mix"]:
        weight, operation = share["weight"] / total, share["operation"]
        size = weight * _payload_bytes(document, operation)
        written += size if operation in _WRITES else 0.0
        read += size if operation in _READS else 0.0
    return written, read


def _payload_bytes(document: Document, operation: str) -> float:
    options = document["options"]
    if operation in ("range_get", "read", "write"):
        return float(options["range_bytes"])
    if operation == "multi_range_get":
        return float(options["range_bytes"] * options["range_count"])
    return _mean_bytes(document["dataset"]["size"])


def _mean_bytes(size: Mapping[str, Any]) -> float:
    match size["kind"]:
        case "fixed":
            return float(size["bytes"])
        case "lognormal":
            keys = ("median", "sigma", "min", "max")
            return read_size_law({"lognormal": {key: size[key] for key in keys}}).mean_bytes()
        case "uniform":
            return float(size["min"] + size["max"]) / 2
    return read_size_law({"weighted": size["choices"]}).mean_bytes()


def _ends_by_time(document: Document) -> bool:
    return document["stop"]["duration_ns"] is not None and document["stop"]["requests"] is None


def _follow(
    planned: Iterable[PlannedTrial], replication: Mapping[str, float]
) -> tuple[list[State], dict[str, int]]:
    """Return the state each trial finds, and the most that ever lies on each target."""
    held: dict[str, dict[str, float]] = {}
    peak: dict[str, float] = {}
    states: dict[tuple[str, str], State] = {}
    found: list[State] = []
    for entry in planned:
        document, dataset = entry.document, entry.document["dataset"]
        target, place = document["target"]["name"], dataset["bucket_prefix"]
        before = states.get((target, place), State.ABSENT)
        found.append(before)
        after = states[target, place] = lifecycle.state_after(document, before)
        on_target = held.setdefault(target, {})
        if after in (State.FULL, State.PARTIAL) and not _ends_by_time(document):
            on_target[place] = dataset["objects"] * _mean_bytes(dataset["size"])
        peak[target] = max(peak.get(target, 0.0), sum(on_target.values()))
        if after in (State.ABSENT, State.EMPTY):
            on_target.pop(place, None)
    return found, {
        target: round(size * replication.get(target, 1.0)) for target, size in peak.items()
    }
