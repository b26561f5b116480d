"""Estimates the cost of a plan: requests, bytes, space and time."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from loadstone.campaign import search_step
from loadstone.campaign.operations import READS, WRITES
from loadstone.campaign.planning import lifecycle
from loadstone.campaign.planning.lifecycle import State, dataset_of
from loadstone.campaign.planning.trial import PlannedTrial
from loadstone.campaign.schema.dataset import read_size_law
from loadstone.documents.mix import writes_dataset
from loadstone.documents.trial import Size, TrialDocument

_LOGNORMAL = frozenset({"median", "sigma", "min", "max"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The cost of a plan.

    `trials_by_time` is the number of trials with a duration. Their requests and bytes are included
    only if a rate is known or assumed. `time_ns_min` includes only pauses, durations and known
    rates; `time_ns` needs assumed rates. Space includes the replication that a target states.
    """

    trials: int
    trials_measured: int
    trials_by_time: int
    requests: int
    bytes_written: int
    bytes_read: int
    peak_bytes: Mapping[str, int]
    replication: Mapping[str, float]
    pauses_ns: int
    time_ns_min: int
    time_ns: int | None
    searches: int = 0
    search_trials_max: int = 0
    search_time_ns_max: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Assumed rates of a target; None where none is assumed."""

    requests_per_s: float | None = None
    bytes_per_s: float | None = None

    def time_ns(self, requests: int, payload_bytes: float) -> float:
        """Return how long this many requests with this much payload take, in nanoseconds."""
        by_requests = requests / self.requests_per_s if self.requests_per_s else 0.0
        by_bytes = payload_bytes / self.bytes_per_s if self.bytes_per_s else 0.0
        return max(by_requests, by_bytes) * 1e9

    def requests(self, time_ns: float, bytes_per_request: float, limit: float | None) -> int:
        """Return how many requests fit into `time_ns`; 0 if no rate is known."""
        rates = [rate for rate in (self.requests_per_s, limit) if rate]
        if self.bytes_per_s and bytes_per_request:
            rates.append(self.bytes_per_s / bytes_per_request)
        return round(min(rates, default=0.0) * time_ns / 1e9)


@dataclass(frozen=True, slots=True)
class _Cost:
    """Work of one trial, as far as its document states it."""

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
    rates = Rates(requests_per_s=requests_per_s, bytes_per_s=bytes_per_s)
    costs, peak_bytes = _costs(planned, rates, replication)
    pauses_ns = sum(entry.pause_before_ns for entry in planned)
    time_ns = pauses_ns + round(sum(cost.time_ns for cost in costs))
    goals = [search_step.goal_of(entry.document) for entry in planned if entry.is_search]
    return Estimate(
        searches=len(goals),
        search_trials_max=sum(goal.trials_max for goal in goals),
        search_time_ns_max=round(sum(goal.time_max_s for goal in goals) * 1e9),
        trials=len(planned),
        trials_measured=sum(entry.is_measured for entry in planned),
        trials_by_time=sum(_ends_by_time(entry.document) for entry in planned),
        requests=sum(cost.requests for cost in costs),
        bytes_written=round(sum(cost.bytes_written for cost in costs)),
        bytes_read=round(sum(cost.bytes_read for cost in costs)),
        peak_bytes=peak_bytes,
        replication=dict(replication),
        pauses_ns=pauses_ns,
        time_ns_min=pauses_ns + round(sum(cost.time_ns_min for cost in costs)),
        time_ns=None if requests_per_s is None and bytes_per_s is None else time_ns,
    )


def _costs(
    planned: Iterable[PlannedTrial], rates: Rates, replication: Mapping[str, float]
) -> tuple[list[_Cost], dict[str, int]]:
    """Return the cost of each trial, and the peak number of bytes on each target."""
    states: dict[tuple[str, str], State] = {}
    held: dict[tuple[str, str], _Held] = {}
    peak: dict[str, float] = {}
    costs = []
    for entry in planned:
        document = entry.document
        if not document.get("dataset"):
            costs.append(_cost(document, 0, rates))
            continue
        place = target, _ = lifecycle.place_of(document)
        before = states.get(place, State.ABSENT)
        after = states[place] = lifecycle.state_after(document, before)
        on_place = held.setdefault(place, _Held(_mean_bytes(dataset_of(document)["size"])))
        cost = _cost(document, on_place.objects, rates)
        costs.append(cost)
        on_place.follow(document, after, cost.requests)
        on_target = sum(other.bytes for (name, _), other in held.items() if name == target)
        peak[target] = max(peak.get(target, 0.0), on_target)
    return costs, {
        target: round(size * replication.get(target, 1.0)) for target, size in peak.items()
    }


@dataclass(slots=True)
class _Held:
    """The number of objects in one place."""

    mean_bytes: float
    objects: int = 0

    @property
    def bytes(self) -> float:
        return self.objects * self.mean_bytes

    def follow(self, document: TrialDocument, after: State, requests: int) -> None:
        """Update the count for a trial."""
        objects = dataset_of(document)["objects"] or 0
        if after in (State.ABSENT, State.EMPTY):
            self.objects = 0
        elif after in (State.FULL, State.SURPLUS):
            self.objects = objects
        elif writes_dataset(document):
            self.objects = min(objects, self.objects + requests)


def _cost(document: TrialDocument, held_objects: int, rates: Rates) -> _Cost:
    if search_step.is_search(document):
        return _Cost(0, 0, 0, 0, 0)
    iterations = document.get("iterations", 1)
    stages_ns = document.get("warm_up_ns", 0) + document.get("cool_down_ns", 0)
    duration_ns, requests = document["stop"]["duration_ns"], document["stop"]["requests"]
    written, read = _bytes_per_request(document)
    limit = _rate_limit(document)
    if document["phase"] == lifecycle.CLEAN_UP and document.get("dataset"):
        requests = held_objects + dataset_of(document)["buckets"]
    least_ns = assumed_ns = float(iterations * (duration_ns or 0))
    if requests is None:
        requests = rates.requests(assumed_ns, written + read, limit)
    else:
        requests *= iterations
        wanted_ns = requests / limit * 1e9 if limit else 0.0
        assumed_wanted_ns = max(wanted_ns, rates.time_ns(requests, requests * max(written, read)))
        # The trial ends at whichever limit comes first, so its duration is only an upper bound.
        least_ns = wanted_ns if duration_ns is None else min(wanted_ns, least_ns)
        assumed_ns = (
            assumed_wanted_ns if duration_ns is None else min(assumed_wanted_ns, assumed_ns)
        )
    return _Cost(
        requests, requests * written, requests * read, least_ns + stages_ns, assumed_ns + stages_ns
    )


def _rate_limit(document: TrialDocument) -> float | None:
    """Return the rate limit of a trial in requests per second, if it has one."""
    load = document.get("load") or {}
    return load.get("rate_per_s") or document.get("rate_limit_per_s")


def _bytes_per_request(document: TrialDocument) -> tuple[float, float]:
    """Return the mean payload of a request in bytes, written and read."""
    mix = document.get("mix") or ()
    total = sum(share["weight"] for share in mix)
    written = read = 0.0
    for share in mix:
        weight, operation = share["weight"] / total, share["operation"]
        size = weight * _payload_bytes(document, operation)
        written += size if operation in WRITES else 0.0
        read += size if operation in READS else 0.0
    return written, read


def _payload_bytes(document: TrialDocument, operation: str) -> float:
    options = document["options"]
    if operation in ("range_get", "read", "write", "append"):
        return float(options["range_bytes"] or 0)
    if operation == "multi_range_get":
        return float((options["range_bytes"] or 0) * options["range_count"])
    object_bytes = _mean_bytes(dataset_of(document)["size"])
    if operation == "upload_part":
        return min(object_bytes, float(options["part_bytes"] or object_bytes))
    return object_bytes


def _mean_bytes(size: Size) -> float:
    match size["kind"]:
        case "fixed":
            return float(size["bytes"])
        case "listed":
            return float(size["mean"])
        case "lognormal":
            law = {key: value for key, value in size.items() if key in _LOGNORMAL}
            return read_size_law({"lognormal": law}).mean_bytes()
        case "uniform":
            return float(size["min"] + size["max"]) / 2
    return read_size_law({"weighted": size["choices"]}).mean_bytes()


def _ends_by_time(document: TrialDocument) -> bool:
    is_by_time = document["stop"]["duration_ns"] is not None
    return (
        is_by_time and document["stop"]["requests"] is None and not search_step.is_search(document)
    )
