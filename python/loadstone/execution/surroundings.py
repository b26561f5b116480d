"""Runs ceilings, hooks, probes and servers around a run's trials, and observes each target."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from loadstone import units
from loadstone._loadgen import Table
from loadstone.campaign.planning.ceiling_plan import PlannedCeiling
from loadstone.campaign.planning.plan import Plan
from loadstone.campaign.planning.trial import PlannedTrial, legs_of
from loadstone.documents.summary import HostState, Summary
from loadstone.documents.target_state import TargetState
from loadstone.documents.trial import TrialDocument
from loadstone.errors import LeftBehindError, LoadstoneError, TargetError
from loadstone.execution.events import (
    CardFailed,
    CardMade,
    CardStarted,
    CeilingFailed,
    Event,
    HostNews,
    Resting,
)
from loadstone.execution.host.settling import Settling, disk_queue
from loadstone.execution.interrupt import Interrupt
from loadstone.execution.programs.arms import ArmServers
from loadstone.execution.programs.ceilings import Interrupted, run_ceiling
from loadstone.execution.programs.cluster import Clusters
from loadstone.execution.programs.hooks import HookRunner, TimedHooks
from loadstone.execution.programs.store_sizes import Stores
from loadstone.probes.exporters import Exporters, Readings
from loadstone.results.ceiling_record import finished_ceilings
from loadstone.results.writer import RunWriter


class AroundTrial:
    """The surroundings of one trial; nothing here delays the load."""

    def __init__(
        self,
        document: TrialDocument,
        timed: TimedHooks,
        exporters: Exporters,
        clusters: Clusters,
        stores: Stores,
        arms: ArmServers,
        host_state: HostState | None,
    ) -> None:
        """`host_state` is the state of this host observed before the trial."""
        self.host_state = host_state
        self.target_state: dict[str, TargetState] = {}
        self._document = document
        self._timed = timed
        self._exporters = exporters
        self._clusters = clusters
        self._stores = stores
        self._arms = arms
        self._readings = Readings()
        self._absent: dict[str, str] = {}

    @property
    def problem(self) -> LoadstoneError | None:
        """The failure of a hook that stops the run."""
        return self._timed.problem

    @property
    def absent(self) -> dict[str, str]:
        """Reasons for missing observations of the target."""
        return {**self._absent, **self._readings.gaps()}

    def look_before(self) -> None:
        """Record the state of the target, and discard readings from before the trial."""
        self._look("before")
        self._exporters.take()

    def look_after(self) -> None:
        """Record the state of the target after the trial."""
        self._look("after")

    def start(self, stop: Callable[[], None]) -> None:
        """Start with the load; `stop` ends the load."""
        self._timed.start(stop)

    def note(self, elapsed_ns: int) -> None:
        """Record how long the load has been running, in nanoseconds."""
        self._timed.note(elapsed_ns)

    def finish(self) -> None:
        """Stop with the load."""
        self._timed.finish()

    def take(self) -> list[Table]:
        """Return the target's readings since the last call."""
        batches = self._exporters.take()
        for batch in batches:
            self._readings.count(batch)
        return batches

    def _look(self, when: str) -> None:
        state = self._clusters.look(self._document, self._absent)
        state |= self._stores.look(self._document, when, self._absent)
        state |= self._arms.look(self._document)
        if state:
            self.target_state[when] = state


Listen = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class _Edges:
    """Whether a trial is the first or the last of its phase in one case and block."""

    is_first: bool
    is_last: bool


@dataclass(slots=True)
class Surroundings:
    """Ceilings, hooks, probes and servers around the trials of one call of `execute`.

    A ceiling that could not be measured is in `failed`, with the reason: the trials continue
    without it. HookError is raised for a failed hook that is to stop the run.
    """

    hooks: HookRunner
    failed: dict[str, str] = field(default_factory=dict)
    problems: list[LoadstoneError] = field(default_factory=list)
    _begun: TrialDocument | None = None
    _plan: Plan = field(kw_only=True)
    _writer: RunWriter = field(kw_only=True)
    _listen: Listen = field(kw_only=True)
    _interrupt: Interrupt = field(kw_only=True)
    _edges: dict[str, _Edges] = field(kw_only=True)
    _exporters: Exporters = field(kw_only=True)
    _clusters: Clusters = field(kw_only=True)
    _stores: Stores = field(kw_only=True)
    _arms: ArmServers = field(kw_only=True)
    _settling: Settling = field(default_factory=Settling, kw_only=True)
    _host_state: HostState | None = None
    _load_ended_unix_ns: int = 0

    @classmethod
    def of(
        cls, plan: Plan, writer: RunWriter, listen: Listen, interrupt: Interrupt
    ) -> "Surroundings":
        """Return the surroundings of a plan."""
        campaign = writer.manifest.get("campaign") or {}
        return cls(
            HookRunner(plan.hooks, writer.path, listen, interrupt, campaign),
            _plan=plan, _writer=writer, _listen=listen, _interrupt=interrupt,
            _edges=_edges(plan.trials), _exporters=Exporters(plan.probes.prometheus),
            _clusters=Clusters(plan, interrupt), _stores=Stores(plan, interrupt),
            _arms=ArmServers(
                plan.arms, legs_of(plan.trials), writer.path, plan.run, interrupt,
                is_resumed=bool(writer.manifest.get("resumed")),
            ),
        )  # fmt: skip

    def extend(self, trials: Sequence[PlannedTrial]) -> None:
        """Add the trials of a newly planned start."""
        self._edges.update(_edges(trials))

    def measure_ceilings(self, before: str | None) -> None:
        """Measure the ceilings due before a trial, or at the end of the plan.

        A ceiling that failed before a finished trial is retried at the first opportunity.
        """
        for planned in self.pending:
            if planned.before != before and planned.before in (None, *self._edges):
                continue
            if self._interrupt.is_asked:
                return
            try:
                left_behind = run_ceiling(
                    planned.document, self._writer.path, self._listen, self._interrupt
                )
            except Interrupted as stop:
                self.problems += [stop.left_behind] if stop.left_behind else []
                return
            except TargetError as error:
                self.failed[planned.id] = error.message
                self.problems.append(error)
                self._listen(CeilingFailed(document=planned.document, reason=error.message))
            else:
                self.problems += [left_behind] if left_behind else []

    def make_cards(self) -> None:
        """Make the cards of the plan before all load."""
        self.problems += make_cards(self._plan, self._writer, self._listen, self._interrupt)

    @property
    def pending(self) -> list[PlannedCeiling]:
        """The ceilings that are not measured yet."""
        if not self._plan.ceilings:
            return []
        done = finished_ceilings(self._writer.path) | self.failed.keys()
        return [planned for planned in self._plan.ceilings if planned.id not in done]

    def before_trial(self, document: TrialDocument) -> None:
        """Wait until this host has settled, and run the hooks due before a trial.

        If the target is an arm, its server is started first, unless it is running.
        """
        self._arms.enter(document)
        self.begin_phase(document)
        self._host_state = self._settle(document)
        if self._interrupt.is_asked:
            return
        self.hooks.run("before_trial", document)

    def of_trial(self, document: TrialDocument) -> AroundTrial:
        """Return the hooks and observations during a trial."""
        timed = self.hooks.of_trial(document)
        return AroundTrial(
            document,
            timed,
            self._exporters,
            self._clusters,
            self._stores,
            self._arms,
            self._host_state,
        )

    def _settle(self, document: TrialDocument) -> HostState | None:
        """Return the residue of earlier trials; client hosts check theirs themselves."""
        if not document["measured"]:
            return None
        quantities = [] if document.get("hosts") else self._settling.quantities_of(document)
        state = self._settling.settle(
            [
                *quantities,
                disk_queue(
                    lambda: self._exporters.disk_requests(self._load_ended_unix_ns),
                    self._exporters.disk_requests_due,
                ),
            ],
            self._interrupt.wait,
            lambda left_s, why: self._listen(Resting(seconds=left_s, why=why)),
        )
        left = [
            residue
            for residue in state["residues"]
            if residue["before_load"] > residue["settled_max"]
        ]
        for residue in left:
            value, what = (
                units.format_number(residue["before_load"]),
                residue["quantity"].replace("_", " "),
            )
            text = (
                f"the trial begins with {value} {what}; up to {residue['settled_max']:,} are usual"
            )
            self._listen(HostNews(document=document, text=text, is_problem=False))
        return state

    def start(self) -> None:
        """Start the exporters' probes, so that the first trial need not wait for them."""
        self._exporters.start()

    def close(self) -> None:
        """Stop servers and probes."""
        self._arms.leave()
        self.problems += self._arms.left
        self._exporters.stop()

    def note(self, document: TrialDocument, summary: Summary) -> None:
        """Record the residue that a trial may leave on this host."""
        self._settling.note(document, summary)
        self._load_ended_unix_ns = time.time_ns()

    def after_trial(self, document: TrialDocument) -> None:
        """Run the hooks due after a trial, however it ended."""
        self.hooks.run("after_trial", document)
        self._arms.check()
        self.end_phase(document)

    def begin_phase(self, document: TrialDocument) -> None:
        """Run the hooks due before a phase, if the trial is its first.

        A plan contains a search as a whole, and not its steps.
        """
        edges = self._edges.get(document["id"])
        if edges is not None and edges.is_first:
            self.leave_phase()
            self._begun = document
            self.hooks.run("before_phase", document)

    def end_phase(self, document: TrialDocument) -> None:
        """Run the hooks due after a phase, if the trial is its last."""
        edges = self._edges.get(document["id"])
        if edges is not None and edges.is_last:
            self._begun = document
            self.leave_phase()

    def leave_phase(self) -> None:
        """Run the hooks due after the phase that has begun, unless they have run.

        Its last trials may have been skipped, or never reached.
        """
        document, self._begun = self._begun, None
        if document is not None:
            self.hooks.run("after_phase", document)


def _edges(trials: Sequence[PlannedTrial]) -> dict[str, _Edges]:
    edges = {planned.id: _Edges(False, False) for planned in trials}
    measured = [planned for planned in trials if planned.is_measured]
    for number, planned in enumerate(measured):
        before = measured[number - 1] if number else None
        after = measured[number + 1] if number + 1 < len(measured) else None
        edges[planned.id] = _Edges(
            is_first=before is None or _phase(before) != _phase(planned),
            is_last=after is None or _phase(after) != _phase(planned),
        )
    return edges


def _phase(planned: PlannedTrial) -> tuple[str, ...]:
    document = planned.document
    return (str(document["case"]), planned.phase, str(document["block"]))


def make_cards(
    plan: Plan, writer: RunWriter, listen: Callable[[Event], None], interrupt: Interrupt
) -> list[LoadstoneError]:
    """Make the cards of a plan that its run lacks; return the errors.

    A target that does not respond is recorded with the reason: the trials continue without its
    card. It is an error if the campaign asks for cards.
    """
    if not plan.cards:
        return []
    from loadstone.card.making import make_card  # 20 modules that few runs need

    problems: list[LoadstoneError] = []
    for target in plan.cards:
        name = target["name"]
        cards = writer.manifest.get("cards") or {}
        if name in cards or interrupt.is_asked:
            continue
        listen(CardStarted(target=name))
        left: list[str] = []
        try:
            card = make_card(
                target,
                say_left=left.append,
                say_freed=lambda line: None,
                is_stopped=lambda: interrupt.is_asked,
            )
        except TargetError as error:
            if plan.are_cards_asked:
                problems.append(error)
            failed = writer.manifest.get("cards_failed") or {}
            writer.amend({"cards_failed": {**failed, name: error.message}})
            listen(CardFailed(target=name, reason=error.message))
        else:
            if not interrupt.is_asked:
                writer.amend({"cards": {**cards, name: card}})
                listen(CardMade(card=card))
        problems += [LeftBehindError(f'target "{name}": the card left {line}') for line in left]
    return problems
