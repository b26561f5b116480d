"""A run in numbers: one cell per operation of a case, round and iteration.

Throughput is good work over the common wall time of the measure stage. A cell adds up its blocks,
trials and agents: counts, times and histograms, never rates or percentiles.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loadstone.analysis.cells.little import little_of
from loadstone.analysis.instrument.headroom import CeilingShare, Jitter, combine_shares, jitter_of
from loadstone.analysis.instrument.resources import Peaks
from loadstone.analysis.judgements.labels import label_cell
from loadstone.analysis.measured.part import SECOND_NS, UNWRITTEN, Part
from loadstone.analysis.naming import describe_parameters
from loadstone.analysis.statistics.days import interval_over_days
from loadstone.analysis.statistics.latency import Latency, Timeouts, latency, merge, stated_latency
from loadstone.analysis.statistics.ratios import Interval
from loadstone.campaign.planning.lifecycle import operations_of
from loadstone.campaign.schema.systems.target import SYSTEM

ALL_OPERATIONS = "all"
SPREAD_OF_SECONDS = "standard deviation of the one-second rates"
SPREAD_OF_TRIALS = "standard deviation of the trials' rates"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How far rates lie apart; `kind` says which rates, `n` how many."""

    kind: str
    n: int
    requests_per_s: float
    bytes_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRate:
    """What one trial of a cell reached: the unit of repetition in every comparison."""

    trial: str
    block: int
    requests_per_s: float
    bytes_per_s: float
    duration_s: float
    started_unix_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """What the load cost the hosts it came from; absent where it was not observed."""

    cpu_us_per_request: float | None
    rss_bytes_max: float | None
    sockets_max: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One operation of one case in one round and iteration, over all its trials.

    `requests` counts all, `good` the good ones, which alone make the rates, and `errors` the rest
    by kind, those that asked for unwritten objects too.
    `iteration` is None where all iterations are added up. `first_done_s` is when the first client
    ran out of work, `last_done_s` when the last request was done, both from the start of measuring,
    in the slowest of the trials. `instrument` is how much of its own ceiling the load generator
    used; where that is not known, `no_ceiling` says why. `facts` are the parameters that are
    the target's own.
    """

    target: str
    workload: str
    phase: str
    operation: str
    parameters: Mapping[str, object]
    facts: Mapping[str, object]
    round: int
    iteration: int | None
    iterations: int
    load: Mapping[str, object]
    trials: tuple[str, ...]
    requests: int
    good: int
    objects: int
    bytes: int
    errors: Mapping[str, int]
    duration_s: float
    requests_per_s: float
    objects_per_s: float
    bytes_per_s: float
    spread_of_seconds: Spread | None
    spread_of_trials: Spread | None
    trial_rates: tuple[TrialRate, ...]
    first_done_s: float | None
    last_done_s: float | None
    response: Latency | None
    service: Latency | None
    first_byte: Latency | None
    lag: Latency | None
    part: Latency | None
    parts_failed: int
    little: float | None
    client: Client
    jitter: Jitter
    instrument: CeilingShare | None
    no_ceiling: str
    labels: tuple[str, ...]

    @property
    def failed(self) -> int:
        """How many requests failed."""
        return self.requests - self.good - self.unwritten

    @property
    def unwritten(self) -> int:
        """How many asked for an object that was not there, for its own put had failed."""
        return self.errors.get(UNWRITTEN, 0)

    @property
    def system(self) -> str:
        """What the target is an instance of: its fact `system`, or itself."""
        return system_of(self.target, {"facts": self.facts})

    @property
    def name(self) -> str:
        """The cell in words: "ceph, get, 4KiB, 250 threads, round 2"."""
        words = [self.target, self.operation, describe_parameters(self.parameters)]
        words += [f"round {self.round}"]
        words += [f"iteration {self.iteration}"] if self.iteration is not None else []
        return ", ".join(word for word in words if word)

    @property
    def interval(self) -> Interval | None:
        """The 95 % interval of the rate, over days where there are several, else over trials.

        None where one trial is all there is.
        """
        rates = [one.requests_per_s for one in self.trial_rates]
        if len(rates) < 2 or min(rates) <= 0:
            return None
        # Other tools do not say when a trial began: then all of them count as of one day.
        return interval_over_days(rates, [one.started_unix_ns or 0 for one in self.trial_rates])

    @property
    def spread(self) -> Spread | None:
        """How far its trials lie apart; where there is one trial, its seconds."""
        return self.spread_of_trials or self.spread_of_seconds

    @property
    def reached_requests_per_s(self) -> tuple[float, float]:
        """The rate less and plus its spread."""
        half = self.spread.requests_per_s if self.spread is not None else 0.0
        return max(0.0, self.requests_per_s - half), self.requests_per_s + half

    @property
    def reached_bytes_per_s(self) -> tuple[float, float]:
        """The rate of bytes less and plus its spread."""
        half = self.spread.bytes_per_s if self.spread is not None else 0.0
        return max(0.0, self.bytes_per_s - half), self.bytes_per_s + half

    @property
    def headline(self) -> Latency | None:
        """The latency a reader is shown first: response time, else service time."""
        return self.response or self.service


def system_of(name: str, target: Mapping[str, Any]) -> str:
    """Return what a target is an instance of, from its entry in a campaign or a document."""
    return str((target.get("facts") or {}).get(SYSTEM) or name)


def summarise(
    parts: Sequence[Part], peaks: Mapping[str, Peaks]
) -> tuple[tuple[Cell, ...], tuple[Cell, ...]]:
    """Return the cells of each iteration, and the totals with all iterations added up.

    `peaks` holds what each trial took of its client at most, by the trial's id.
    """
    cells: list[Cell] = []
    totals: list[Cell] = []
    for group in _groups(parts, each=False):
        total = _cell(group, peaks, None)
        totals.append(total)
        alone = {part.iteration for part in group}
        if len(alone) == 1:
            # The one iteration there is has the numbers of all of them.
            cells.append(replace(total, iteration=alone.pop()))
            continue
        cells += [_cell(own, peaks, own[0].iteration) for own in _groups(group, each=True)]
    return tuple(cells), tuple(totals)


def summarise_cases(
    parts: Sequence[Part], peaks: Mapping[str, Peaks], totals: tuple[Cell, ...]
) -> tuple[Cell, ...]:
    """Return the totals with all rounds of a case added up: `totals` where there is one round."""
    if len({total.round for total in totals}) < 2:
        return totals
    groups = _groups(parts, each=False, by_round=False)
    return tuple(_cell(group, peaks, None) for group in groups)


def summarise_totals(parts: Sequence[Part], peaks: Mapping[str, Peaks]) -> tuple[Cell, ...]:
    """Return the totals alone."""
    return tuple(_cell(group, peaks, None) for group in _groups(parts, each=False))


def summarise_mixes(parts: Sequence[Part], peaks: Mapping[str, Peaks]) -> tuple[Cell, ...]:
    """Return the totals of phases with several operations, the operations added up too."""
    mixes: dict[tuple[str, int], list[Part]] = {}
    for part in parts:
        if len(operations_of(part.record.trial)) > 1:
            mixes.setdefault((part.record.id, part.iteration), []).append(part)
    added = [_added_up(mix) for mix in mixes.values()]
    return tuple(_cell(group, peaks, None) for group in _groups(added, each=False))


def in_order(cells: Iterable[Cell], targets: Sequence[str] = ()) -> tuple[Cell, ...]:
    """Return cells as a reader looks for them: by target, phase, parameters in size, and round.

    A plan runs them in an order of chance. `targets` is the order in which they were named.
    """
    found = list(cells)
    places: list[dict[str, int]] = [{}, {}, {}, {}]
    for target in targets:
        places[0].setdefault(target, len(places[0]))
    # The first trial of a case comes before its second: the order of phases survives the chance.
    for cell in sorted(found, key=lambda cell: cell.trials[0]):
        for place, name in zip(places, _names(cell), strict=True):
            place.setdefault(name, len(place))
    return tuple(
        sorted(
            found,
            key=lambda cell: (
                [place[name] for place, name in zip(places, _names(cell), strict=True)],
                _sortable(cell.parameters),
                cell.round,
                cell.iteration or 0,
            ),
        )
    )


def _names(cell: Cell) -> tuple[str, str, str, str]:
    return cell.target, cell.workload, cell.phase, cell.operation


def _sortable(parameters: Mapping[str, object]) -> list[tuple[str, float, str]]:
    """Return parameters so that numbers sort by size and the size of objects goes first."""
    ordered = sorted(parameters.items(), key=lambda item: (item[0] != "size", item[0]))
    return [
        (name, float(value) if isinstance(value, (int, float)) else 0.0, str(value))
        for name, value in ordered
    ]


def _added_up(parts: Sequence[Part]) -> Part:
    """Return the operations of one iteration as one; they share their wall time."""
    errors: dict[str, int] = {}
    for part in parts:
        for kind, count in part.errors.items():
            errors[kind] = errors.get(kind, 0) + count
    return replace(
        parts[0],
        operation=ALL_OPERATIONS,
        good=sum(part.good for part in parts),
        objects=sum(part.objects for part in parts),
        bytes=sum(part.bytes for part in parts),
        errors=errors,
        histograms={name: _sum_of(parts, name) for name in parts[0].histograms},
        rates=np.sum([part.rates for part in parts], axis=0),
        byte_rates=np.sum([part.byte_rates for part in parts], axis=0),
    )


def _sum_of(parts: Sequence[Part], name: str) -> bytes | None:
    merged = merge(part.histograms[name] for part in parts)
    return None if merged is None else merged.encode()


def _groups(parts: Iterable[Part], *, each: bool, by_round: bool = True) -> list[list[Part]]:
    """Return the parts of each cell: of each iteration, or of all iterations together."""
    groups: dict[tuple[object, ...], list[Part]] = {}
    for part in parts:
        trial = part.record.trial
        case = trial["case"]
        key = (
            case["target"],
            case["workload"],
            trial["phase"],
            part.operation,
            json.dumps(case["parameters"], sort_keys=True),
            trial["round"] if by_round else None,
            part.iteration if each else None,
        )
        groups.setdefault(key, []).append(part)
    return list(groups.values())


def _cell(parts: list[Part], peaks: Mapping[str, Peaks], iteration: int | None) -> Cell:
    trial = parts[0].record.trial
    records = {part.record.id: part.record for part in parts}
    duration_s = sum(part.duration_s for part in parts)
    good = sum(part.good for part in parts)
    errors = _errors(parts)
    requests = good + sum(errors.values())
    timeouts = Timeouts(
        count=errors.get("timeout", 0),
        requests=requests,
        timeout_ns=trial.get("timeout_ns") or 0,
    )
    rates = tuple(_trial_rate(name, parts) for name in records)
    cell = Cell(
        target=trial["case"]["target"],
        workload=trial["case"]["workload"],
        phase=trial["phase"],
        operation=parts[0].operation,
        parameters=trial["case"]["parameters"],
        facts=trial["target"].get("facts") or {},
        round=trial["round"],
        iteration=iteration,
        iterations=len({part.iteration for part in parts}),
        load=trial.get("load") or {},
        trials=tuple(records),
        requests=requests,
        good=good,
        objects=sum(part.objects for part in parts),
        bytes=sum(part.bytes for part in parts),
        errors=errors,
        duration_s=duration_s,
        requests_per_s=good / duration_s,
        objects_per_s=sum(part.objects for part in parts) / duration_s,
        bytes_per_s=sum(part.bytes for part in parts) / duration_s,
        spread_of_seconds=_spread(
            SPREAD_OF_SECONDS,
            np.concatenate([part.rates for part in parts]),
            np.concatenate([part.byte_rates for part in parts]),
        ),
        spread_of_trials=_spread(
            SPREAD_OF_TRIALS,
            np.array([rate.requests_per_s for rate in rates]),
            np.array([rate.bytes_per_s for rate in rates]),
        ),
        trial_rates=rates,
        first_done_s=_latest_s(parts, [part.first_done_ns for part in parts]),
        last_done_s=_latest_s(parts, [part.last_done_ns for part in parts]),
        response=_latency(parts, "response", timeouts),
        service=_latency(parts, "service", timeouts) or _stated(parts),
        first_byte=_latency(parts, "first_byte", timeouts),
        lag=_latency(parts, "lag", timeouts),
        part=_latency(parts, "part", timeouts),
        parts_failed=sum(part.parts_failed for part in parts),
        little=little_of(parts),
        client=_client(parts, peaks),
        jitter=jitter_of(records.values()),
        instrument=combine_shares(parts),
        no_ceiling=next((part.no_ceiling for part in parts if part.no_ceiling), ""),
        labels=(),
    )
    return replace(cell, labels=label_cell(cell, parts))


def _errors(parts: list[Part]) -> dict[str, int]:
    """Return failed requests by kind, the most frequent first."""
    counts: dict[str, int] = {}
    for part in parts:
        for kind, count in part.errors.items():
            counts[kind] = counts.get(kind, 0) + count
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _latency(parts: list[Part], name: str, timeouts: Timeouts) -> Latency | None:
    return latency(merge(part.histograms[name] for part in parts), timeouts)


def _stated(parts: list[Part]) -> Latency | None:
    """Return what another tool states of one trial's times; those of several cannot be added up."""
    found = [
        stated
        for part in parts
        if (stated := (part.record.summary.get("stated_latency") or {}).get(part.operation))
    ]
    return stated_latency(found[0]) if len(found) == len(parts) == 1 else None


def _trial_rate(name: str, parts: list[Part]) -> TrialRate:
    own = [part for part in parts if part.record.id == name]
    duration_s = sum(part.duration_s for part in own)
    return TrialRate(
        trial=name,
        block=own[0].record.trial["block"],
        requests_per_s=sum(part.good for part in own) / duration_s,
        bytes_per_s=sum(part.bytes for part in own) / duration_s,
        duration_s=duration_s,
        started_unix_ns=own[0].record.summary.get("started_unix_ns"),
    )


def _spread(
    kind: str, rates: NDArray[np.float64], byte_rates: NDArray[np.float64]
) -> Spread | None:
    if rates.size < 2:
        return None
    return Spread(
        kind=kind,
        n=int(rates.size),
        requests_per_s=float(rates.std(ddof=1)),
        bytes_per_s=float(byte_rates.std(ddof=1)),
    )


def _latest_s(parts: list[Part], ends: Sequence[int | None]) -> float | None:
    spans = [
        (end - part.start_ns) / SECOND_NS
        for part, end in zip(parts, ends, strict=True)
        if end is not None
    ]
    return max(spans, default=None)


def _client(parts: list[Part], peaks: Mapping[str, Peaks]) -> Client:
    """Return the cost of a request: of the whole trial, whose threads serve all operations."""
    records = {part.record.id: part.record for part in parts}.values()
    requests = sum(record.summary.get("requests") or 0 for record in records)
    cpu_ns = sum(sum(record.summary.get("thread_cpu_ns") or ()) for record in records)
    seen = [peaks[record.id] for record in records if record.id in peaks]
    return Client(
        cpu_us_per_request=cpu_ns / 1000 / requests if cpu_ns and requests else None,
        rss_bytes_max=max((p.rss_bytes for p in seen if p.rss_bytes is not None), default=None),
        sockets_max=max((p.sockets for p in seen if p.sockets is not None), default=None),
    )
