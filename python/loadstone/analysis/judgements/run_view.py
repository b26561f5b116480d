"""The view of a run that rules judge."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from loadstone.analysis.accounts.account import Account
from loadstone.analysis.audits import Audited
from loadstone.analysis.judgements.object_counts import CleanUpCount
from loadstone.analysis.judgements.result import Result
from loadstone.analysis.limits.cell_verdicts import Flags
from loadstone.analysis.limits.searches import CapacitySearch
from loadstone.analysis.measured.part import Part
from loadstone.analysis.measured.reading import EmptyWindow
from loadstone.analysis.measured.trial_facts import TrialFacts
from loadstone.analysis.statistics.repetitions import Advice
from loadstone.results.record import Record, Run

if TYPE_CHECKING:
    from loadstone.analysis.cells.queries import QueryResults


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """A run as rules see it; parts that were not read are empty.

    `rounds` are the results of each round, and `trials` all planned trials. `contradictory` are
    pairs of a trial and a contradiction in its record; `empty` are trials whose measured time saw
    no request end; `miscounted` are clean-ups with an unexpected number of objects.
    """

    account: Account
    parts: Sequence[Part]
    flags: Flags
    rounds: Sequence[Result]
    run: Run | None = None
    trials: Sequence[TrialFacts] = ()
    contradictory: Sequence[tuple[str, str]] = ()
    empty: Sequence[EmptyWindow] = ()
    miscounted: Sequence[CleanUpCount] = ()
    audits: Sequence[Audited] = ()
    searches: Sequence[CapacitySearch] = ()
    advice: Sequence[Advice] = ()
    queries: "QueryResults | None" = None

    @property
    def measured(self) -> Mapping[str, Record]:
        """The records behind the results."""
        return {part.record.id: part.record for part in self.parts}
