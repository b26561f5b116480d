"""Gathers the facts of each cell, and decides its verdict."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean, stdev

from loadstone.analysis.accounts.account import KnownCeiling
from loadstone.analysis.cells.cell import Cell
from loadstone.analysis.cells.little import is_held_back
from loadstone.analysis.grouping import grouped
from loadstone.analysis.instrument.client_limits import Uses, occupied_share
from loadstone.analysis.judgements.finding import Evidence
from loadstone.analysis.judgements.labels import VOIDING
from loadstone.analysis.judgements.validity import FAILED_MAX, LITTLE_INSTRUMENT, failed_share
from loadstone.analysis.limits.interventions import CellKey, ratio_of, tried
from loadstone.analysis.limits.measured_ceilings import bounds_of
from loadstone.analysis.limits.observed import CeilingUse, FailedCheck, LoadPoint, Observed, Tried
from loadstone.analysis.limits.verdict import Verdict, decide
from loadstone.analysis.measured.part import NOT_SENT, Part
from loadstone.analysis.measured.reading import Measured
from loadstone.analysis.rules import find_rule
from loadstone.campaign.parameters import SWEPT_LOADS
from loadstone.documents.mix import COMPARE_AND_SWAP
from loadstone.documents.outcomes import CLIENT_FAILURES
from loadstone.results.record import Record

Flags = Mapping[str, Mapping[str, Sequence[Evidence]]]
"""The flags of `client_limits`, by trial."""

NullRates = Mapping[tuple[str, int | None, int | None], float]
"""Requests per second of a null target, by operation, size and requests in flight."""

NO_SUCH_LABEL = "no such label"

THROTTLES = ("throttled", "http_429")
"""Outcomes that ask for fewer requests; older records have the HTTP status."""

LOSSES = ("NETWORK_PATH", "TARGET_NETWORK", "TARGET_SOFTWARE")
"""Limits beyond the client, shown by counters of the client or of the target's hosts."""

WITH_HEADERS = 1.02
"""Headers are mentioned from this share of the payload on."""

CEILINGS = {
    "network": ("NETWORK_PATH", "path"),
    "device": ("TARGET_DISK", "device"),
    "server": ("TARGET_SOFTWARE", "store's own benchmark"),
}
"""The limit and the name of a ceiling, by its resource."""


def decide_cells(
    cells: Sequence[Cell],
    parts: Sequence[Part],
    measured: Measured,
    *,
    ceilings: Sequence[KnownCeiling],
    null_rates: NullRates,
    tried: Mapping[CellKey, Sequence[Tried]],
) -> list[tuple[Cell, Verdict]]:
    """Return the verdict on each cell; `ceilings` were measured apart."""
    records = {part.record.id: part.record for part in parts}
    wire = {cell.trials: _wire_factors(cell, records) for cell in cells}
    by_trial = grouped(parts, lambda part: part.record.id)
    decided = []
    first_trials = _first_trials(cells)
    for cell in cells:
        of_cell = tuple(records[name] for name in cell.trials if name in records)
        observed = observe(cell, cells, of_cell, measured.flags, first_trials.get(cell.target, ()))
        own_parts = [part for name in cell.trials for part in by_trial.get(name, ())]
        observed = replace(
            observed,
            null_rate=null_rates.get((cell.operation, cell.size_bytes, cell.threads))
            or _ceiling_of_client(cell),
            ceilings=_ceilings(ceilings, cell, cells, wire),
            in_flight=_in_flight(cell, own_parts),
            grows_slower=bool(own_parts) and all(part.grows_slower for part in own_parts),
            tried=tuple(tried.get((cell.trials, cell.operation), ())),
            uses=_used([measured.uses.get(name, {}) for name in cell.trials]),
            server=_utilisation([measured.servers.get(name, {}) for name in cell.trials]),
        )
        decided.append((cell, decide(observed)))
    return decided


def _used(trials: Sequence[Uses]) -> Uses:
    """Return the greatest use of each client resource that was watched in all trials."""
    limits = [limit for limit in trials[0] if all(limit in used for used in trials)]
    return {
        limit: max((share for used in trials if (share := used[limit]) is not None), default=None)
        for limit in limits
    }


def _utilisation(trials: Sequence[Mapping[str, float]]) -> Mapping[str, float] | None:
    """Return the mean utilisation of each resource over trials; None if none was watched."""
    names = dict.fromkeys(name for used in trials for name in used)
    return {name: fmean(used[name] for used in trials if name in used) for name in names} or None


def observe(
    cell: Cell,
    cells: Sequence[Cell],
    records: Sequence[Record],
    flags: Flags,
    first_trial: tuple[str, ...],
) -> Observed:
    """Return the observations on one cell, given the first trial of its target."""
    sweep = sorted(_same_sweep(cell, cells), key=_load)
    place = sweep.index(cell)
    of_cell: dict[str, list[Evidence]] = {}
    for record in records:
        for flag, evidence in flags.get(record.id, {}).items():
            of_cell.setdefault(flag, []).extend(evidence)
    first = sweep[0]
    best = max(swept.requests_per_s for swept in sweep)
    throttles = sum(cell.errors.get(kind, 0) for kind in THROTTLES)
    refused = sum(cell.errors.get(kind, 0) for kind in CLIENT_FAILURES)
    # The operations of a mix share one limit.
    rate = sum(other.requests_per_s for other in cells if other.trials == cell.trials)
    idle = 1 - cell.little if cell.little and cell.little < LITTLE_INSTRUMENT else None
    is_held = bool(records) and all(
        is_held_back(record, rate, is_idle=idle is not None) for record in records
    )
    offered, is_offer_met = _offer(cell, records, is_held=is_held)
    shares = [occupied_share(record) for record in records]
    return Observed(
        point=_point(cell, is_first=cell.trials == first_trial),
        failed_checks=tuple(_failed_checks(cell)),
        flags={flag: evidence for flag, evidence in of_cell.items() if flag not in LOSSES},
        losses={limit: of_cell[limit] for limit in LOSSES if limit in of_cell},
        lag=_lag(cell),
        occupied=None
        if None in shares
        else max((s for s in shares if s is not None), default=None),
        lower=_next_to(sweep[:place][::-1], first_trial),
        higher=_next_to(sweep[place + 1 :], first_trial),
        met_below=_met_below(sweep[:place]),
        clients_max=cell.load.get("clients_max"),
        contended_phase=cell.phase if cell.operation == COMPARE_AND_SWAP else None,
        best_below=max((swept.requests_per_s for swept in sweep[:place]), default=None),
        knee=best / first.requests_per_s
        if _load(first) == 1 and first.requests_per_s and len(sweep) > 1
        else None,
        throttled=throttles / cell.requests if cell.requests else 0.0,
        refused_here=refused / cell.requests if cell.requests else 0.0,
        offered=offered,
        is_offer_met=is_offer_met,
        is_client_watched=bool(records)
        and all(
            record.probes_path is not None and not {"cpu", "network"} & record.absent_probes.keys()
            for record in records
        ),
        idle=None if is_held else idle,
    )


def _first_trials(cells: Sequence[Cell]) -> Mapping[str, tuple[str, ...]]:
    """Return the first trial of each target, as a cell's tuple of trials."""
    first: dict[str, tuple[int, str]] = {}
    for cell in cells:
        for rate in cell.trial_rates:
            if rate.started_unix_ns is not None:
                started = rate.started_unix_ns, rate.trial
                first[cell.target] = min(first.get(cell.target, started), started)
    return {target: (trial,) for target, (_, trial) in first.items()}


def _next_to(others: Sequence[Cell], first_trial: tuple[str, ...]) -> LoadPoint | None:
    """Return the nearest of other loads, skipping one that was only measured in the first trial.

    A target may be slow at first: caches are empty, connections and leases are new.
    """
    later = [cell for cell in others if cell.trials != first_trial]
    if later:
        return _point(later[0])
    return _point(others[0], is_first=True) if others else None


def _in_flight(cell: Cell, parts: Sequence[Part]) -> float | None:
    """Return the share of an open load's clients that were in a request, over its trials."""
    most = cell.load.get("clients_max")
    windows = {(part.record.id, part.iteration): part for part in parts}
    shares = [
        part.in_flight_ns / (part.end_ns - part.start_ns) / most
        for part in windows.values()
        if most and part.in_flight_ns is not None
    ]
    return fmean(shares) if shares else None


def _met_below(lower: Sequence[Cell]) -> LoadPoint | None:
    met = [cell for cell in lower if "OVERLOAD" not in cell.labels]
    return _point(met[-1]) if met and met[-1].load.get("kind") == "open" else None


def _wire_factors(cell: Cell, records: Mapping[str, Record]) -> Mapping[str, float]:
    """Return the bytes on the wire per byte of payload, by direction.

    Known for trials of one operation whose driver counts bytes sent and received.
    """
    of_cell = [records[name] for name in cell.trials if name in records]
    summaries = [record.summary for record in of_cell]
    payload = sum(summary.get("bytes") or 0 for summary in summaries)
    if not payload or any(len(record.trial.get("mix") or ()) > 1 for record in of_cell):
        return {}
    moved = {
        "read": sum(summary.get("bytes_received") or 0 for summary in summaries),
        "write": sum(summary.get("bytes_sent") or 0 for summary in summaries),
    }
    return {way: max(1.0, number / payload) for way, number in moved.items()}


def _failed_checks(cell: Cell) -> Iterator[FailedCheck]:
    # Unsent requests show a limit of the client, throttled ones of the target: neither makes the
    # other requests doubtful.
    explained = sum(cell.errors.get(kind, 0) for kind in (*THROTTLES, *CLIENT_FAILURES, NOT_SENT))
    failed = cell.failed - explained
    share = failed_share(good=cell.good, failed=failed)
    if share is not None and share > FAILED_MAX:
        statement = f"{failed} of {cell.good + failed} requests failed"
        wanted = f"failed ≤ {FAILED_MAX:.1%}"
        yield FailedCheck(name="errors", value=share, wanted=wanted, statement=statement)
    for label in cell.labels:
        is_explained = label == "LAG" or (label == "NOTHING" and cell.failed == explained > 0)
        # A lost host's share of the load was missing, whatever the target could do.
        if (label in VOIDING or label == "HOST_LOST") and not is_explained:
            statement = find_rule(label).says
            yield FailedCheck(name=label, value=None, wanted=NO_SUCH_LABEL, statement=statement)


def _ceiling_of_client(cell: Cell) -> float | None:
    """Return the rate of the cell at which the load generator would reach its ceiling."""
    share = cell.instrument.share if cell.instrument is not None else 0.0
    return cell.requests_per_s / share if share and cell.requests_per_s else None


def _lag(cell: Cell) -> Evidence | None:
    """Return the lag of an open load, if requests left too late."""
    if "LAG" not in cell.labels or cell.lag is None:
        return None
    lag_ns = cell.lag.quantiles["p99"]
    return Evidence("lag p99", float(lag_ns or cell.lag.max_ns), "100 µs", unit="ns")


def _offer(
    cell: Cell, records: Sequence[Record], *, is_held: bool
) -> tuple[float | None, bool | None]:
    """Return the offered rate, and whether it was achieved; None if there is none."""
    if cell.load.get("kind") == "open":
        return cell.load.get("rate_per_s"), "OVERLOAD" not in cell.labels
    limits = {record.trial.get("rate_limit_per_s") for record in records}
    limit = limits.pop() if len(limits) == 1 else None
    # A rate limit that is not reached has no effect.
    return (limit, True) if limit and is_held else (None, None)


def _ceilings(
    ceilings: Sequence[KnownCeiling],
    cell: Cell,
    cells: Sequence[Cell],
    wire: Mapping[tuple[str, ...], Mapping[str, float]],
) -> dict[str, CeilingUse]:
    """Return the lowest ceiling of each resource for a cell, by limit.

    `share_max` is that of all loads of the target in this direction: one that passed the ceiling
    disproves it for all of them.
    """
    bounds = bounds_of(cell.operation)
    alike = [
        other
        for other in cells
        if other.target == cell.target and bounds_of(other.operation) == bounds
    ]

    def carried(loaded: Cell, resource: str) -> float:
        factor = wire[loaded.trials].get(str(bounds), 1.0) if resource == "network" else 1.0
        return loaded.bytes_per_s * factor

    lowest: dict[str, CeilingUse] = {}
    for known in ceilings:
        if known.resource not in CEILINGS or known.bounds not in (None, bounds):
            continue
        if known.targets and cell.target not in known.targets:
            continue
        limit, name = CEILINGS[known.resource]
        bytes_per_s = known.limit
        most = max((carried(other, known.resource) for other in alike), default=0.0)
        has_headers = carried(cell, known.resource) > WITH_HEADERS * cell.bytes_per_s
        ceiling = CeilingUse(
            name=f"{name}, headers included" if has_headers else name,
            share=carried(cell, known.resource) / bytes_per_s,
            share_max=most / bytes_per_s,
            is_steady=known.is_steady,
        )
        if limit not in lowest or ceiling.share > lowest[limit].share:
            lowest[limit] = ceiling
    return lowest


def _same_sweep(cell: Cell, cells: Sequence[Cell]) -> list[Cell]:
    def key(swept: Cell) -> tuple[object, ...]:
        rest = {name: value for name, value in swept.parameters.items() if name not in SWEPT_LOADS}
        return (
            swept.target,
            swept.workload,
            swept.phase,
            swept.operation,
            swept.load.get("kind"),
            str(sorted(rest.items())),
            swept.round,
        )

    return [swept for swept in cells if key(swept) == key(cell)]


def _load(cell: Cell) -> float:
    return float(cell.load.get("clients") or cell.load.get("rate_per_s") or 0)


def _point(cell: Cell, *, is_first: bool = False) -> LoadPoint:
    return LoadPoint(
        load=_load(cell),
        rate=cell.requests_per_s,
        time_s=cell.service.mean_ns / 1e9 if cell.service else None,
        error=_error(cell),
        is_settled="UNSETTLED" not in cell.labels,
        is_first=is_first,
        cached=cell.client.cached,
    )


def _error(cell: Cell) -> float:
    """Return the relative standard error of a rate, from its trials or its seconds, the larger one.

    Seconds of one trial are correlated, so that their error is a lower bound.
    """
    if not cell.requests_per_s:
        return 0.0
    rates = [trial.requests_per_s for trial in cell.trial_rates]
    of_trials = stdev(rates) / math.sqrt(len(rates)) if len(rates) > 1 else 0.0
    seconds = cell.spread_of_seconds
    of_seconds = seconds.requests_per_s / math.sqrt(seconds.n) if seconds is not None else 0.0
    return max(of_trials, of_seconds) / cell.requests_per_s


# With the same load from more hosts only the clients change: a higher rate shows their limit. With
# more load from more hosts, a higher rate confirms a full counter; alone it may show that the load
# was too small.
def tried_by_sweep(totals: Sequence[Cell]) -> dict[CellKey, list[Tried]]:
    """Return the effect of more hosts on each cell."""
    tried_of: dict[CellKey, list[Tried]] = {}
    made = [cell for cell in totals if cell.hosts is not None and cell.good]
    for group in grouped(made, _case).values():
        for cell in group:
            tried_of[cell.trials, cell.operation] = list(_brought(cell, group))
    return tried_of


def _brought(cell: Cell, group: Sequence[Cell]) -> Iterator[Tried]:
    hosts_here = cell.hosts or 0
    more = sorted(
        (other for other in group if (other.hosts or 0) > hosts_here),
        key=lambda other: other.hosts or 0,
    )
    same_load = next((other for other in more if other.load == cell.load), None)
    if same_load is not None:
        hosts = hosts_here, same_load.hosts or 0
        yield tried("more hosts", ratio_of(cell, same_load), hosts=hosts)
    same_host = next((other for other in more if _host_load(other) == _host_load(cell)), None)
    if same_host is not None:
        hosts = hosts_here, same_host.hosts or 0
        yield tried("second client", ratio_of(cell, same_host), hosts=hosts)


def _case(cell: Cell) -> tuple[object, ...]:
    """Return a key that is equal for cells that differ in hosts and load only."""
    varied = {"hosts", "threads", "rate"}
    rest = {key: value for key, value in cell.parameters.items() if key not in varied}
    named = json.dumps(rest, sort_keys=True)
    return cell.target, cell.workload, cell.phase, cell.operation, named, cell.round


def _host_load(cell: Cell) -> dict[str, object]:
    hosts = cell.hosts or 1
    return {
        key: value / hosts if isinstance(value, (int, float)) else value
        for key, value in cell.load.items()
    }
