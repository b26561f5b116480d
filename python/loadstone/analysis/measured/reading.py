"""The reader of a run's tables, one trial at a time.

The tables of a long run do not fit into memory together.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from loadstone.analysis.cells.actions import (
    ActionPart,
    read_action_parts,
    read_group_parts,
    read_whole_parts,
)
from loadstone.analysis.cells.agents import with_agents
from loadstone.analysis.instrument import client_limits
from loadstone.analysis.instrument.headroom import Calibrated, read_calibration, with_shares
from loadstone.analysis.instrument.resources import Peaks, peaks
from loadstone.analysis.instrument.watched_lines import Lines, lines_of
from loadstone.analysis.judgements.contradictions import contradictions
from loadstone.analysis.judgements.finding import Evidence
from loadstone.analysis.judgements.labels import CONTRADICTORY
from loadstone.analysis.limits.searches import CapacitySearch, left_out, read_searches
from loadstone.analysis.limits.target_resources import find_losses, find_utilisation
from loadstone.analysis.measured.part import SECOND_NS, Part, read_parts
from loadstone.analysis.measured.rows import Quantities, Rows, read_samples, values_of
from loadstone.analysis.statistics.latency import merge
from loadstone.results.documents import check_judged
from loadstone.results.record import Record, Run


@dataclass(frozen=True, slots=True, kw_only=True)
class EmptyWindow:
    """A trial without a request that ended in its measured time; `shortest_s` is its quickest."""

    trial: str
    window_s: float
    shortest_s: float


class Reading:
    """The tables of one trial; each is read once, when it is needed.

    `is_result` if the trial counts in results; `is_changed` if it is an intervention, which is only
    compared with the trial without the change.
    """

    def __init__(
        self, record: Record, calibrated: Calibrated, *, is_result: bool, is_changed: bool
    ) -> None:
        """Use `read_tables`."""
        self.is_result = is_result
        self.is_changed = is_changed
        self._record = record
        self._calibrated = calibrated

    @cached_property
    def intervals(self) -> Rows:
        return Rows(self._record.intervals)

    @cached_property
    def quantities(self) -> Quantities:
        """The probed quantities."""
        return read_samples(self._record.probes)

    @cached_property
    def contradictions(self) -> Sequence[str]:
        """The contradictions in the record, one sentence each."""
        return contradictions(self._record, self.intervals)

    @cached_property
    def record(self) -> Record:
        """The record, labelled if it contradicts itself."""
        if not self.contradictions:
            return self._record
        return replace(self._record, labels=(*self._record.labels, CONTRADICTORY))

    @cached_property
    def parts(self) -> Sequence[Part]:
        """The parts of each operation and iteration."""
        parts = read_parts(self.record, self.intervals)
        if len(self.record.summary.get("hosts") or ()) > 1:
            parts = with_agents(parts, self.record, self.intervals)
        return with_shares(parts, self._calibrated)

    @property
    def empty_window(self) -> EmptyWindow | None:
        """The measured time, if no request ended in it."""
        iterations = self._record.summary.get("iterations") or ()
        times = merge(values_of(self.intervals.where("outcome", "ok"), "service"))
        if self.parts or not iterations or times is None:
            return None
        first = iterations[0]
        window_ns = first.get("measure_end_ns", 0) - first.get("measure_start_ns", 0)
        return EmptyWindow(
            trial=self._record.id, window_s=window_ns / SECOND_NS, shortest_s=times.min / SECOND_NS
        )

    @cached_property
    def lines(self) -> Lines:
        """The probed quantities within the measured window."""
        return lines_of(self.record, self.quantities)


@dataclass(slots=True, kw_only=True)
class Measured:
    """The measurements of a run: its parts, and the peaks, limits and utilisations by trial.

    `changed` are the parts of interventions; `actions` those of scripts, `action_groups` by space
    and type of user, and `actions_together` all of a script. `contradictory` are pairs of a trial
    and a contradiction, `empty` trials in whose measured time no request ended.
    """

    parts: list[Part] = field(default_factory=list)
    changed: list[Part] = field(default_factory=list)
    contradictory: list[tuple[str, str]] = field(default_factory=list)
    empty: list[EmptyWindow] = field(default_factory=list)
    actions: list[ActionPart] = field(default_factory=list)
    action_groups: list[ActionPart] = field(default_factory=list)
    actions_together: list[ActionPart] = field(default_factory=list)
    peaks: dict[str, Peaks] = field(default_factory=dict)
    flags: dict[str, Mapping[str, Sequence[Evidence]]] = field(default_factory=dict)
    uses: dict[str, client_limits.Uses] = field(default_factory=dict)
    servers: dict[str, Mapping[str, float]] = field(default_factory=dict)

    def add(self, reading: Reading) -> None:
        """Add a trial, if it counts."""
        trial = reading.record.id
        self.contradictory += [(trial, sentence) for sentence in reading.contradictions]
        if reading.is_changed:
            self.changed += reading.parts
            self.peaks[trial] = peaks(reading.quantities)
        elif reading.is_result:
            self.parts += reading.parts
            self.empty += [reading.empty_window] if reading.empty_window is not None else []
            self.actions += read_action_parts(reading.record)
            self.action_groups += read_group_parts(reading.record)
            self.actions_together += read_whole_parts(reading.record)
            self.peaks[trial] = peaks(reading.quantities)
            flags = client_limits.limits_of(reading.record, reading.lines)
            for limit, losses in find_losses(reading.lines).items():
                flags.setdefault(limit, []).extend(losses)
            self.flags[trial] = flags
            self.uses[trial] = client_limits.uses_of(reading.record, reading.lines)
            self.servers[trial] = find_utilisation(reading.lines)


def read_tables(run: Run, searches: Sequence[CapacitySearch] | None = None) -> Iterator[Reading]:
    """Yield the recorded trials of a run in the order of the plan.

    `searches` are those of the run, if known already.
    """
    for trial in (*run.plan, *(record.trial for record in run.records)):
        check_judged(run.path, trial)
    calibrated = read_calibration(run.manifest)
    steps = left_out(run, read_searches(run) if searches is None else searches)
    for record in run.records:
        counts = record.trial["measured"] and record.id not in steps
        yield Reading(
            record,
            calibrated,
            is_result=counts and "intervention" not in record.trial,
            is_changed=counts and "intervention" in record.trial,
        )


def read_measured(run: Run) -> Measured:
    """Read what was measured in a run, and the state of its client."""
    measured = Measured()
    for reading in read_tables(run):
        measured.add(reading)
    return measured
