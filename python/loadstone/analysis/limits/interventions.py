"""Interventions: a case with one thing halved, compared with the case itself."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loadstone.analysis.cells.cell import Cell
from loadstone.analysis.cells.summary import summarise_totals
from loadstone.analysis.grouping import grouped_pairs
from loadstone.analysis.instrument.resources import Peaks
from loadstone.analysis.limits.observed import Intervention, LoadPoint, Tried
from loadstone.analysis.measured.part import Part
from loadstone.analysis.statistics.ratios import Ratio, geometric_mean, paired_ratio, welch_ratio

CellKey = tuple[tuple[str, ...], str]
"""The trials of a cell and its operation."""

KINDS: Mapping[str, Intervention] = {
    "half_clients": "half the clients",
    "half_size": "half the size",
    "half_verification": "half the verification",
    "half_hosts": "half the hosts",
}
BLOCKS_MIN = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class InterventionEffect:
    """The effect of halving one thing; `ratio` is the changed rate over the base rate.

    The rates are those of common blocks. The ratio has no interval without repeated blocks.
    """

    kind: Intervention
    base: Cell
    changed: Cell
    base_rate: float
    changed_rate: float
    ratio: Ratio

    @property
    def tried(self) -> Tried:
        """The intervention in the form that verdicts use."""
        changed = self.changed
        load = changed.load.get("clients")
        point = None
        if self.kind == "half the clients" and load is not None:
            time_s = changed.service.mean_ns / 1e9 if changed.service else None
            point = LoadPoint(
                load=load, rate=changed.requests_per_s, time_s=time_s, cached=changed.client.cached
            )
        hosts = None
        if self.kind == "half the hosts":
            hosts = self.base.hosts or 1, changed.hosts or 1
        return tried(self.kind, self.ratio, point=point, hosts=hosts)


def compare_changes(
    totals: Sequence[Cell], parts: Sequence[Part], peaks: Mapping[str, Peaks]
) -> tuple[InterventionEffect, ...]:
    """Compare each changed case with its base; `parts` are those of changed trials."""
    cells = summarise_totals(parts, peaks, by_round=True)
    trials = {part.record.id: part.record.trial for part in parts}
    bases = {_key(cell, cell.parameters): cell for cell in totals}
    changes = []
    for cell in cells:
        intervention = trials[cell.trials[0]]["intervention"]
        base = bases.get(_key(cell, intervention["of"]))
        if base is not None and base.good and cell.good:
            rates = rates_of_blocks(base, cell)
            changes.append(
                InterventionEffect(
                    kind=KINDS[intervention["kind"]],
                    base=base,
                    changed=cell,
                    base_rate=geometric_mean(rates[0]),
                    changed_rate=geometric_mean(rates[1]),
                    ratio=ratio_of(base, cell),
                )
            )
    return tuple(changes)


def tried_of(changes: Sequence[InterventionEffect]) -> dict[CellKey, list[Tried]]:
    return grouped_pairs(
        ((change.base.trials, change.base.operation), change.tried) for change in changes
    )


def tried(
    kind: Intervention,
    ratio: Ratio,
    *,
    point: LoadPoint | None = None,
    hosts: tuple[int, int] | None = None,
) -> Tried:
    """Return an intervention in the form that verdicts use."""
    return Tried(
        kind=kind, ratio=ratio.ratio, low=ratio.low, high=ratio.high, point=point, hosts=hosts
    )


def _key(cell: Cell, parameters: Mapping[str, object]) -> tuple[object, ...]:
    named = json.dumps(dict(parameters), sort_keys=True)
    return cell.target, cell.workload, cell.phase, cell.operation, named, cell.round


def ratio_of(base: Cell, changed: Cell) -> Ratio:
    """Return the ratio, paired by common blocks where there are at least two."""
    a, b = rates_of_blocks(base, changed)
    return paired_ratio(a, b) if len(a) >= BLOCKS_MIN else welch_ratio(a, b)


def rates_of_blocks(base: Cell, changed: Cell) -> tuple[list[float], list[float]]:
    """Return both rates in common blocks, or their means with fewer than two such blocks."""
    a, b = (
        {trial.block: trial.requests_per_s for trial in cell.trial_rates}
        for cell in (base, changed)
    )
    blocks = [block for block in a if block in b and a[block] * b[block]]
    if len(blocks) < BLOCKS_MIN:
        return [base.requests_per_s], [changed.requests_per_s]
    return [a[block] for block in blocks], [b[block] for block in blocks]
