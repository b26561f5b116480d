"""Cells: one per operation of a case, round and iteration.

A trial's rate is its good work over the common wall time of the measured stage. A cell adds up
blocks, trials and agents: counts, times and histograms, never percentiles.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from loadstone.analysis.cells.agents import agents_of
from loadstone.analysis.cells.cell import Cell, Client, Deviation, TrialRate
from loadstone.analysis.cells.little import little_of
from loadstone.analysis.grouping import added_up, grouped, grouped_pairs
from loadstone.analysis.instrument.client_limits import cached_share
from loadstone.analysis.instrument.headroom import combine_shares, jitter_of
from loadstone.analysis.instrument.resources import Peaks
from loadstone.analysis.judgements.labels import label_cell
from loadstone.analysis.measured.part import LATENCIES, SECOND_NS, Part, WindowWork
from loadstone.analysis.statistics.latency import Latency, Timeouts, latency, merge, stated_latency
from loadstone.campaign.operations import READS
from loadstone.documents.mix import operations_of
from loadstone.documents.trial import LoadDocument
from loadstone.results.record import Record

ALL_OPERATIONS = "all"


def summarise(
    parts: Sequence[Part], peaks: Mapping[str, Peaks]
) -> tuple[tuple[Cell, ...], tuple[Cell, ...]]:
    """Return the cells of each iteration, and those with all iterations added up.

    `peaks` are the peaks of the client by trial.
    """
    cells: list[Cell] = []
    totals: list[Cell] = []
    for group in _groups(parts, each=False):
        total = _cell(group, peaks, None)
        totals.append(total)
        alone = {part.iteration for part in group}
        if len(alone) == 1:
            # A single iteration has the numbers of the total.
            cells.append(replace(total, iteration=alone.pop()))
            continue
        cells += [
            _cell(group_of_iteration, peaks, group_of_iteration[0].iteration)
            for group_of_iteration in _groups(group, each=True)
        ]
    return tuple(cells), tuple(totals)


def summarise_totals(
    parts: Sequence[Part], peaks: Mapping[str, Peaks], *, by_round: bool
) -> tuple[Cell, ...]:
    """Return the cells with all iterations added up, and all rounds unless `by_round`."""
    groups = _groups(parts, each=False, by_round=by_round)
    return tuple(_cell(group, peaks, None) for group in groups)


def summarise_mixes(parts: Sequence[Part], peaks: Mapping[str, Peaks]) -> tuple[Cell, ...]:
    """Return the cells of phases with several operations, which are added up."""
    mixes = grouped(
        (part for part in parts if len(operations_of(part.record.trial)) > 1),
        lambda part: (part.record.id, part.iteration),
    )
    added = [_added_up(mix) for mix in mixes.values()]
    return summarise_totals(added, peaks, by_round=True)


def _added_up(parts: Sequence[Part]) -> Part:
    """Add up the operations of one iteration, which share their wall time."""
    return replace(
        parts[0],
        operation=ALL_OPERATIONS,
        good=sum(part.good for part in parts),
        objects=sum(part.objects for part in parts),
        bytes=sum(part.bytes for part in parts),
        work=WindowWork(
            requests=sum(part.work.requests for part in parts),
            objects=sum(part.work.objects for part in parts),
            bytes=sum(part.work.bytes for part in parts),
        ),
        errors=added_up(error for part in parts for error in part.errors.items()),
        histograms={name: _sum_of(parts, name) for name in parts[0].histograms},
        rates=np.sum([part.rates for part in parts], axis=0),
        byte_rates=np.sum([part.byte_rates for part in parts], axis=0),
        agents={
            agent: _added_up(of_agent)
            for agent, of_agent in grouped_pairs(
                pair for part in parts for pair in part.agents.items()
            ).items()
        },
    )


def _sum_of(parts: Sequence[Part], name: str) -> bytes | None:
    merged = merge(part.histograms[name] for part in parts)
    return None if merged is None else merged.pack()


def _groups(parts: Iterable[Part], *, each: bool, by_round: bool = True) -> list[list[Part]]:
    """Return the parts of each cell, of single iterations or of all."""

    def key(part: Part) -> tuple[object, ...]:
        trial_round = part.record.trial["round"] if by_round else None
        return *part.case, trial_round, part.iteration if each else None

    return list(grouped(parts, key).values())


def _cell(parts: list[Part], peaks: Mapping[str, Peaks], iteration: int | None) -> Cell:
    trial = parts[0].record.trial
    records = {part.record.id: part.record for part in parts}
    good = sum(part.good for part in parts)
    errors = _errors(parts)
    by_trial = grouped(parts, lambda part: part.record.id)
    rates = tuple(_trial_rate(name, trial_parts) for name, trial_parts in by_trial.items())
    times = times_of(parts)
    cell = Cell(
        target=trial["case"]["target"],
        workload=trial["case"]["workload"],
        phase=trial["phase"],
        operation=parts[0].operation,
        parameters=trial["case"]["parameters"],
        facts=trial["target"].get("facts") or {},
        round=trial["round"] if len({rate.round for rate in rates}) == 1 else None,
        iteration=iteration,
        iterations=len({part.iteration for part in parts}),
        load=trial.get("load") or LoadDocument(),
        trials=tuple(records),
        requests=good + sum(errors.values()),
        good=good,
        objects=sum(part.objects for part in parts),
        bytes=sum(part.bytes for part in parts),
        errors=errors,
        duration_s=sum(part.duration_s for part in parts),
        spread_of_seconds=_spread_of_seconds(
            np.concatenate([part.rates for part in parts]),
            np.concatenate([part.byte_rates for part in parts]),
        ),
        trial_rates=rates,
        first_done_s=_latest_s(parts, [part.first_done_ns for part in parts]),
        last_done_s=_latest_s(parts, [part.last_done_ns for part in parts]),
        response=times["response"],
        service=times["service"] or _stated(parts),
        first_byte=times["first_byte"],
        lag=times["lag"],
        part=times["part"],
        parts_failed=sum(part.parts_failed for part in parts),
        little=little_of(parts),
        client=_client(parts, peaks),
        jitter=jitter_of(records.values()),
        instrument=combine_shares(parts),
        no_ceiling=next((part.no_ceiling for part in parts if part.no_ceiling), ""),
        labels=(),
        agents=(),
    )
    return replace(
        cell,
        labels=label_cell(cell, parts),
        agents=agents_of(parts, requests_per_s=cell.requests_per_s, bytes_per_s=cell.bytes_per_s),
    )


def _errors(parts: Sequence[Part]) -> dict[str, int]:
    """Return failed requests by kind, the most frequent first."""
    counts = added_up(error for part in parts for error in part.errors.items())
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def times_of(parts: Sequence[Part]) -> Mapping[str, Latency | None]:
    """Return each kind of time of good requests; equal histograms are merged once."""
    errors = _errors(parts)
    timeouts = Timeouts(
        count=errors.get("timeout", 0),
        requests=sum(part.good for part in parts) + sum(errors.values()),
        timeout_ns=parts[0].record.trial.get("timeout_ns") or 0,
    )
    known: dict[tuple[bytes | None, ...], Latency | None] = {}
    times = {}
    for name in LATENCIES:
        encoded = tuple(part.histograms[name] for part in parts)
        if encoded not in known:
            known[encoded] = latency(merge(encoded), timeouts)
        times[name] = known[encoded]
    return times


def _stated(parts: list[Part]) -> Latency | None:
    """Return the times that another tool states of one trial; several cannot be combined."""
    stated = [
        stated
        for part in parts
        if (stated := (part.record.summary.get("stated_latency") or {}).get(part.operation))
    ]
    return stated_latency(stated[0]) if len(stated) == len(parts) == 1 else None


def _trial_rate(name: str, parts: list[Part]) -> TrialRate:
    duration_s = sum(part.duration_s for part in parts)
    return TrialRate(
        trial=name,
        round=parts[0].record.trial["round"],
        block=parts[0].record.trial["block"],
        requests=sum(part.good + sum(part.errors.values()) for part in parts),
        requests_per_s=sum(part.work.requests for part in parts) / duration_s,
        bytes_per_s=sum(part.work.bytes for part in parts) / duration_s,
        duration_s=duration_s,
        started_unix_ns=parts[0].record.summary.get("started_unix_ns"),
    )


def _spread_of_seconds(
    rates: NDArray[np.float64], byte_rates: NDArray[np.float64]
) -> Deviation | None:
    if rates.size < 2:
        return None
    return Deviation(
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
    """Return the client's cost per request of the trial: threads serve all operations."""
    records = {part.record.id: part.record for part in parts}.values()
    requests = sum(record.summary.get("requests") or 0 for record in records)
    cpu_ns = sum(sum(record.summary.get("thread_cpu_ns") or ()) for record in records)
    known_peaks = [peaks[record.id] for record in records if record.id in peaks]
    return Client(
        cpu_us_per_request=cpu_ns / 1000 / requests if cpu_ns and requests else None,
        rss_bytes_max=max(
            (p.rss_bytes for p in known_peaks if p.rss_bytes is not None), default=None
        ),
        sockets_max=max((p.sockets for p in known_peaks if p.sockets is not None), default=None),
        cached=_cached(records) if parts[0].operation in READS else None,
    )


def _cached(records: Collection[Record]) -> float | None:
    shares = [share for record in records if (share := cached_share(record)) is not None]
    return fmean(shares) if shares else None
