"""The record of a trial: its document, its summary, and its tables; and the run of records.

History of the record's format:
  1  the first: intervals and probes as Parquet, one JSON document beside them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loadstone import _loadgen
from loadstone._loadgen import Table
from loadstone.documents.manifest import Manifest
from loadstone.documents.summary import Summary
from loadstone.documents.target_state import TargetState
from loadstone.documents.trial import TrialDocument
from loadstone.results.ceiling_record import CeilingRecord
from loadstone.results.fault_log import FaultEntry
from loadstone.results.files import tables
from loadstone.results.hook_log import HookEntry

RECORD_FORMAT = 1

# The trial was interrupted by a person, a kill or a power cut: its data is correct but incomplete.
INTERRUPTED = "INTERRUPTED"
# The trial ended early because it reached the campaign's limit of failed requests.
STOPPED = "STOPPED"
# The trial ended early because a client host was lost and the campaign has on_lost: stop.
STOPPED_ON_LOSS = "STOPPED_ON_LOSS"
# Another tool's file does not state how many requests of the trial failed.
FAILURES_NOT_STATED = "FAILURES_NOT_STATED"
# Another process is currently writing the trial.
RUNNING = "RUNNING"

# A table of the trial, or its record, differs from what loadstone wrote.
ALTERED = "ALTERED"

# The columns of each table are defined in crates/record, once for readers and writers.
INTERVAL_SCHEMA = _loadgen.INTERVALS
ACTION_SCHEMA = _loadgen.ACTIONS
PROBE_SCHEMA = _loadgen.PROBES

# The maximum number of pairs of operation (or action) and outcome per second and host.
PAIRS_MAX = 4096
# The maximum number of values that the probes of one host read in a second.
READINGS_MAX = 100_000
# For warm-up, cool-down, stepped clocks, and incomplete seconds.
_SPARE_S = 60


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class Record:
    """The record of one trial.

    `trial` is the executed document, `summary` that of the load generator, which may be empty if
    interrupted. `absent_probes` are the probes that could not be read, with the reasons. `hooks`
    are the trial's entries in the log of hooks, earlier attempts included. `files` are the digests
    of its tables, if recorded. `target_state` is the state of the target "before" and "after" the
    load, if observed.
    """

    trial: TrialDocument
    summary: Summary
    labels: tuple[str, ...] = ()
    absent_probes: Mapping[str, str] = field(default_factory=dict)
    intervals_path: Path | None = None
    probes_path: Path | None = None
    operations_path: Path | None = None
    actions_path: Path | None = None
    hooks: Sequence[HookEntry] = ()
    target_state: Mapping[str, TargetState] = field(default_factory=dict)
    files: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Return the trial's number in its plan, such as "0007"."""
        return str(self.trial["id"])

    @property
    def is_whole(self) -> bool:
        """Whether the trial ran to its end."""
        return INTERRUPTED not in self.labels and RUNNING not in self.labels

    @property
    def intervals(self) -> Table:
        """Read the intervals from disk, at each access."""
        return self.read_intervals()

    @property
    def probes(self) -> Table:
        """Read the readings of probes from disk, at each access."""
        return tables.read_table(
            self.probes_path, PROBE_SCHEMA, rows_max=self._rows_max(READINGS_MAX)
        )

    @property
    def actions(self) -> Table:
        """Read the intervals of a script's actions from disk; empty without a script."""
        return tables.read_table(
            self.actions_path, ACTION_SCHEMA, rows_max=self._rows_max(PAIRS_MAX)
        )

    def read_requests(self) -> Iterator[Table]:
        """Read the log of single requests in batches, if there is one."""
        if self.operations_path is not None:
            yield from tables.read_stream(self.operations_path, is_packed=True)

    def read_intervals(self, columns: Sequence[str] | None = None) -> Table:
        """Read some columns of the intervals; histograms are the expensive ones."""
        rows_max = self._rows_max(PAIRS_MAX)
        return tables.read_table(self.intervals_path, INTERVAL_SCHEMA, columns, rows_max)

    def _rows_max(self, rows_of_a_second: int) -> int:
        """Return the maximum rows of a table for the trial's length: a small file may expand to
        GiB.
        """
        iterations = self.summary.get("iterations") or ()
        began_ns = self.summary.get("started_unix_ns") or 0
        ended_ns = self.summary.get("ended_unix_ns") or began_ns
        longest_ns = max(
            ended_ns - began_ns, *(iteration.get("end_ns") or 0 for iteration in iterations), 0
        )
        hosts = max(1, len(self.summary.get("hosts") or ()))
        seconds = longest_ns // 1_000_000_000 + len(iterations) + _SPARE_S
        return seconds * hosts * rows_of_a_second


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One execution of a plan, with records in the plan's order.

    `altered` are the files that do not match their digests; their records are labelled. `members`
    are the runs that this one was merged from (`results/several.py`), each with its `client`.
    """

    path: Path
    manifest: Manifest
    records: tuple[Record, ...]
    is_being_written: bool = False
    ceilings: tuple[CeilingRecord, ...] = ()
    hooks: Sequence[HookEntry] = ()
    altered: tuple[str, ...] = ()
    faults_left: tuple[FaultEntry, ...] = ()
    members: "tuple[Run, ...]" = ()
    client: str = ""

    @property
    def paths(self) -> Sequence[Path]:
        """Return the folders of the run: one, or those that it was merged from."""
        return [member.path for member in self.members] or [self.path]

    @property
    def name(self) -> str:
        """Return the campaign's name."""
        return str(self.manifest["name"])

    @property
    def state(self) -> str:
        """Return "running", "finished", "interrupted" or "failed".

        A run that was killed is "interrupted": its manifest says "running", but no process writes.
        """
        state = str(self.manifest["state"])
        return "interrupted" if state == "running" and not self.is_being_written else state

    @property
    def plan(self) -> Sequence[TrialDocument]:
        """Return the documents of all planned trials, in order.

        A search is replaced by its trials once it has begun.
        """
        begun = {(entry.get("search") or {}).get("of") for entry in self.manifest["plan"]}
        return [entry for entry in self.manifest["plan"] if entry["id"] not in begun]

    @property
    def searches(self) -> Sequence[TrialDocument]:
        """Return the searches of the plan, whose trials are derived step by step."""
        return [entry for entry in self.manifest["plan"] if "goal" in (entry.get("search") or {})]


INSTEAD: Mapping[str, str] = {"io_uring": "blocking calls are used, one thread for each client"}
"""The replacement of a kernel feature, by the feature's name in the summary."""


def refused(summary: Summary) -> dict[str, str]:
    """Return the kernel features that this host refused, with the kernel's reasons."""
    features = summary.get("features") or {}
    return {name: features[name] for name in INSTEAD if isinstance(features.get(name), str)}


def describe_refusal(name: str, problem: str) -> str:
    """Return one refused feature in words."""
    return f"this host refuses {name} ({problem}): {INSTEAD[name]}"
