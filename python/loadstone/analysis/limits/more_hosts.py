"""What a sweep over client hosts shows of each result: did adding hosts move its limit?

A host more is a second client. Where it brings its own load, a rate that rises confirms a counter
that was full, but by itself it may show a load that was too small. Where more hosts make the same
load together, nothing else has changed, and a rate that rises was limited by the clients.
"""

import json
from collections.abc import Iterator, Sequence

from loadstone.analysis.cells.cell import Cell
from loadstone.analysis.limits.interventions import CellKey, ratio_of, tried
from loadstone.analysis.limits.observed import Tried


def tried_by_sweep(totals: Sequence[Cell]) -> dict[CellKey, list[Tried]]:
    """Return for each cell what the next larger numbers of hosts brought."""
    found: dict[CellKey, list[Tried]] = {}
    groups: dict[tuple[object, ...], list[Cell]] = {}
    for cell in totals:
        if cell.hosts is not None and cell.good:
            groups.setdefault(_case(cell), []).append(cell)
    for group in groups.values():
        for cell in group:
            found[cell.trials, cell.operation] = list(_brought(cell, group))
    return found


def _brought(cell: Cell, group: Sequence[Cell]) -> Iterator[Tried]:
    own = cell.hosts or 0
    more = sorted((one for one in group if (one.hosts or 0) > own), key=lambda one: one.hosts or 0)
    same_load = next((one for one in more if one.load == cell.load), None)
    if same_load is not None:
        hosts = own, same_load.hosts or 0
        yield tried("more hosts", ratio_of(cell, same_load), hosts=hosts)
    same_host = next((one for one in more if _host_load(one) == _host_load(cell)), None)
    if same_host is not None:
        hosts = own, same_host.hosts or 0
        yield tried("second client", ratio_of(cell, same_host), hosts=hosts)


def _case(cell: Cell) -> tuple[object, ...]:
    """Return what cells have in common that differ in hosts and load only."""
    varied = {"hosts", "threads", "rate"}
    rest = {key: value for key, value in cell.parameters.items() if key not in varied}
    named = json.dumps(rest, sort_keys=True)
    return cell.target, cell.workload, cell.phase, cell.operation, named, cell.round


def _host_load(cell: Cell) -> dict[str, object]:
    """Return the load that each host made: what is counted, divided by the hosts."""
    hosts = cell.hosts or 1
    return {
        key: value / hosts if isinstance(value, (int, float)) else value
        for key, value in cell.load.items()
    }
