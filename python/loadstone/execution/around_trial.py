"""Runs a trial's hooks and observes its target while the load runs."""

from collections.abc import Callable

from loadstone._loadgen import Table
from loadstone.documents.summary import HostState
from loadstone.documents.target_state import TargetState
from loadstone.documents.trial import TrialDocument
from loadstone.errors import LoadstoneError
from loadstone.execution.programs.arms import ArmServers
from loadstone.execution.programs.cluster import Clusters
from loadstone.execution.programs.hooks import TimedHooks
from loadstone.execution.programs.store_sizes import Stores
from loadstone.probes.exporters import Exporters, Readings


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
