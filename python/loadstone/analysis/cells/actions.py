"""The actions of scripts in numbers: one row for each action of a case, over all its trials.

An action is counted beside the requests that it is made of. The names distinguish two rates, for
they differ by what else the sessions do meanwhile: of all clients by the wall time, and of one
client while it does nothing but this.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from loadstone.analysis.cells.cell import Cell
from loadstone.analysis.cells.order import in_order
from loadstone.analysis.cells.summary import summarise_totals
from loadstone.analysis.measured.part import Part, read_parts
from loadstone.analysis.measured.rows import Rows
from loadstone.results.record import Record

OUT_OF_LINE = ("CREATE_USER", "AUDIT")
"""Actions of sessions that run before all others, and after them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionCell:
    """One action of one case in one round; `cell` counts actions where another counts requests.

    `cell.objects` are the requests that good actions were made of.
    """

    action: str
    cell: Cell

    @property
    def completed_per_s(self) -> float | None:
        """Good actions of all clients together, by the wall time of the measured part.

        None for actions that have only the begin or the end of it.
        """
        return None if self.action in OUT_OF_LINE else self.cell.requests_per_s

    @property
    def busy_per_s(self) -> float | None:
        """Good actions by the sum of their own times: what one client does that does only these."""
        service = self.cell.service
        return 1e9 / service.mean_ns if service is not None and service.mean_ns else None

    @property
    def requests_per_action(self) -> float | None:
        """How many requests a good action was made of."""
        return self.cell.objects / self.cell.good if self.cell.good else None


def read_action_parts(record: Record) -> Iterable[Part]:
    """Return what each action did in each iteration of a trial; nothing where it has no script."""
    if record.actions_path is None:
        return ()
    return read_parts(record, Rows(record.actions, {"operation": "action"}))


def summarise_actions(parts: Sequence[Part], targets: Sequence[str]) -> tuple[ActionCell, ...]:
    """Return a row for each action of each case, in the order of the cases and the script."""
    cells = in_order(summarise_totals(parts, {}), targets)
    return tuple(ActionCell(action=cell.operation, cell=cell) for cell in cells)
