"""The order of cells: as a reader looks for them, whatever order a plan ran them in."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from loadstone.analysis.cells.cell import Cell

AnyCell = TypeVar("AnyCell", bound=Cell)


def in_order(cells: Iterable[AnyCell], targets: Sequence[str] = ()) -> tuple[AnyCell, ...]:
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
                cell.round or 0,
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
