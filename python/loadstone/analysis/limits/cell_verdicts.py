"""What a run knows about each of its cells that a verdict rests on, and the verdict itself."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from loadstone.analysis.accounts.account import Account
from loadstone.analysis.cells.cell import Cell
from loadstone.analysis.cells.summary import summarise_totals
from loadstone.analysis.judgements.finding import Evidence
from loadstone.analysis.judgements.labels import VOIDING
from loadstone.analysis.judgements.validity import LITTLE_INSTRUMENT, Gate, error_gate
from loadstone.analysis.limits.interventions import CellKey
from loadstone.analysis.limits.measured_ceilings import bounds_of
from loadstone.analysis.limits.observed import LoadPoint, Observed, Tried
from loadstone.analysis.limits.verdict import Verdict, decide
from loadstone.analysis.measured.part import NOT_SENT, Part
from loadstone.analysis.rules import find_rule
from loadstone.results.record import Record

Flags = Mapping[str, Mapping[str, Sequence[Evidence]]]
"""What `client_limits` found in each trial, by the trial's id."""

NullRates = Mapping[tuple[str, int | None, int | None], float]
"""Requests per second of a null target, by operation, size and requests in flight."""

NO_SUCH_LABEL = "no such label"

THROTTLES = ("throttled", "http_429")
"""What drivers take for being asked for fewer requests, each by its own protocol; records of before
they did have the status."""
OWN_FAILURES = ("no_ports", "no_descriptors")
AT_THE_CAP = 0.9


def decide_cells(
    account: Account,
    parts: Sequence[Part],
    flags: Flags,
    null_rates: NullRates | None = None,
    totals: Sequence[Cell] | None = None,
    servers: Mapping[str, Mapping[str, float]] | None = None,
    tried: Mapping[CellKey, Sequence[Tried]] | None = None,
) -> list[tuple[Cell, Verdict]]:
    """Return what limited each cell, as far as a run by itself can tell.

    `servers` is how busy the target's own resources were in each trial, by the trial's id; `tried`
    what was changed to see whether a cell's limit moves.
    """
    if totals is None:
        totals = summarise_totals(parts, {})
    records = {part.record.id: part.record for part in parts}
    decided = []
    for cell in totals:
        own = tuple(records[name] for name in cell.trials if name in records)
        seen = observe(cell, totals, own, flags)
        seen = replace(
            seen,
            null_rate=(null_rates or {}).get(_null_key(cell)) or _ceiling(cell),
            path_bytes_per_s=_ceiling_of(account, cell, "network"),
            device_bytes_per_s=_ceiling_of(account, cell, "device"),
            store_bytes_per_s=_ceiling_of(account, cell, "server"),
            tried=tuple((tried or {}).get((cell.trials, cell.operation), ())),
            server=_utilisation([(servers or {}).get(name, {}) for name in cell.trials]),
        )
        decided.append((cell, decide(seen)))
    return decided


def _utilisation(trials: Sequence[Mapping[str, float]]) -> Mapping[str, float] | None:
    """Return the mean utilisation of each resource over several trials; None when none was seen."""
    names = dict.fromkeys(name for used in trials for name in used)
    return {name: fmean(used[name] for used in trials if name in used) for name in names} or None


def observe(
    cell: Cell,
    cells: Sequence[Cell],
    records: Sequence[Record],
    flags: Flags,
) -> Observed:
    """Gather what a run knows about one of its cells."""
    sweep = sorted(_same_sweep(cell, cells), key=_load)
    place = sweep.index(cell)
    own: dict[str, list[Evidence]] = {}
    for record in records:
        for flag, evidence in flags.get(record.id, {}).items():
            own.setdefault(flag, []).extend(evidence)
    if cell.little is not None and cell.little < LITTLE_INSTRUMENT:
        idle = Evidence(metric="X·R/N", value=cell.little, threshold=LITTLE_INSTRUMENT)
        own.setdefault("INSTRUMENT_CPU", []).append(idle)
    lag = _lag(cell)
    if lag is not None:
        own.setdefault("INSTRUMENT_LAG", []).append(lag)
    is_offer_met = _is_offer_met(cell)
    if is_offer_met:
        # Its threads may spin until a request is due, and its rate is what was asked for.
        for flag in ("INSTRUMENT_CPU", "SHARED_HOST"):
            own.pop(flag, None)
    first = sweep[0]
    best = max(one.requests_per_s for one in sweep)
    throttles = sum(cell.errors.get(kind, 0) for kind in THROTTLES)
    return Observed(
        point=_point(cell),
        gates=tuple(_gates(cell)),
        flags=own,
        lower=_point(sweep[place - 1]) if place else None,
        higher=_point(sweep[place + 1]) if place + 1 < len(sweep) else None,
        knee=best / first.requests_per_s
        if _load(first) == 1 and first.requests_per_s and len(sweep) > 1
        else None,
        bytes_per_s=cell.bytes_per_s,
        throttled=throttles / cell.requests if cell.requests else 0.0,
        is_offer_met=is_offer_met,
        is_client_watched=bool(records) and all(_is_watched(record) for record in records),
    )


def _gates(cell: Cell) -> Iterator[Gate]:
    # What the client could not send is its own limit, and what the target put off is its answer to
    # too much load: both say what the limit is, and leave no doubt about the rest.
    told = sum(cell.errors.get(kind, 0) for kind in (*THROTTLES, *OWN_FAILURES, NOT_SENT))
    yield error_gate(requests=cell.good, failed=cell.failed - told)
    for label in cell.labels:
        is_told = label == "LAG" or (label == "NOTHING" and cell.failed == told > 0)
        if label in VOIDING and not is_told:
            yield Gate(
                name=label,
                outcome="fail",
                value=None,
                wanted=NO_SUCH_LABEL,
                statement=find_rule(label).says,
            )


def _ceiling(cell: Cell) -> float | None:
    """Return at which rate of the cell the load generator itself would be at its ceiling."""
    share = cell.instrument.share if cell.instrument is not None else 0.0
    return cell.requests_per_s / share if share and cell.requests_per_s else None


def _lag(cell: Cell) -> Evidence | None:
    """Return the lag of an open load as evidence against the client, if it is the client's.

    Where as many requests are in flight as the campaign allows, those that are due wait for the
    target's answers, and their lag says nothing of the client.
    """
    if "LAG" not in cell.labels or cell.lag is None or cell.service is None:
        return None
    answered = cell.good + cell.failed - cell.errors.get(NOT_SENT, 0)
    in_flight = cell.service.mean_ns / 1e9 * answered / cell.duration_s
    allowed = cell.load.get("clients_max")
    if allowed is not None and in_flight >= AT_THE_CAP * allowed:
        return None
    lag_ns = cell.lag.quantiles["p99"]
    return Evidence(
        metric="lag p99", value=float(lag_ns or cell.lag.max_ns), threshold="100 µs", unit="ns"
    )


def _is_offer_met(cell: Cell) -> bool | None:
    """Tell whether an open load was achieved, on time; None for a closed one."""
    if cell.load.get("kind") != "open":
        return None
    return not {"OVERLOAD", "LAG"} & set(cell.labels)


def _is_watched(record: Record) -> bool:
    return record.probes_path is not None and not {"cpu", "network"} & record.absent_probes.keys()


def _null_key(cell: Cell) -> tuple[str, int | None, int | None]:
    return cell.operation, cell.size_bytes, cell.threads


def _ceiling_of(account: Account, cell: Cell, resource: str) -> float | None:
    """Return the lowest ceiling of one resource that holds for a cell, in bytes per second."""
    bounds = bounds_of(cell.operation)
    found = [
        one.bytes_per_s * one.count
        for one in account.ceilings
        if one.resource == resource
        and one.bounds in (None, bounds)
        and (not one.targets or cell.target in one.targets)
    ]
    return min(found, default=None)


def _same_sweep(cell: Cell, cells: Sequence[Cell]) -> list[Cell]:
    def key(one: Cell) -> tuple[object, ...]:
        rest = {name: value for name, value in one.parameters.items() if name != "threads"}
        return (
            one.target,
            one.workload,
            one.phase,
            one.operation,
            str(sorted(rest.items())),
            one.round,
        )

    return [one for one in cells if key(one) == key(cell)]


def _load(cell: Cell) -> float:
    return float(cell.load.get("clients") or cell.load.get("rate_per_s") or 0)


def _point(cell: Cell) -> LoadPoint:
    return LoadPoint(
        load=_load(cell),
        rate=cell.requests_per_s,
        time_s=cell.service.mean_ns / 1e9 if cell.service else None,
        error=_error(cell),
    )


def _error(cell: Cell) -> float | None:
    """Return the relative standard error of a rate, from its seconds; at best a lower bound."""
    spread = cell.spread_of_seconds
    if spread is None or not cell.requests_per_s:
        return None
    return spread.requests_per_s / math.sqrt(spread.n) / cell.requests_per_s
