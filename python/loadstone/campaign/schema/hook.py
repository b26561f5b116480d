"""Hooks, the user's commands at given points of a run, and faults, done to a target and undone."""

from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from loadstone import units
from loadstone.campaign.reading.mistakes import KeyMistake
from loadstone.campaign.schema.target import read_environment
from loadstone.campaign.schema.values import (
    NAME_PATTERN,
    Duration,
    Names,
    OneOrMany,
    PositiveCount,
    PositiveDuration,
    Section,
    Words,
    format_duration_exactly,
)
from loadstone.documents.trial import TrialDocument
from loadstone.errors import InputError

Point = Literal[
    "before_run", "after_run", "before_phase", "after_phase", "before_trial", "after_trial"
]
POINTS: tuple[str, ...] = get_args(Point)
OF_RUN = ("before_run", "after_run")

_ALLOWED = f"{', '.join(POINTS)}, or a time into the trial like 30s"


def _read_moment(value: Any) -> str | int:
    if value in POINTS:
        return str(value)
    try:
        return units.parse_duration_ns(value)
    except InputError as error:
        raise InputError.of_value(value, _ALLOWED) from error


def _format_moment(value: str | int) -> str:
    return value if isinstance(value, str) else format_duration_exactly(value)


Moment = Annotated[
    str | int,
    BeforeValidator(_read_moment),
    PlainSerializer(_format_moment, return_type=str),
    WithJsonSchema({"anyOf": [{"enum": list(POINTS)}, {"type": ["number", "string"]}]}),
]


class SomeTrials(Section):
    """Some of the measured trials; all of them where nothing is said."""

    targets: Names = Field(default=(), description="Only in trials of these targets.")
    workloads: Names = Field(default=(), description="Only in trials of these workloads.")
    phases: Names = Field(default=(), description="Only in trials of these phases.")
    rounds: Annotated[tuple[PositiveCount, ...], OneOrMany()] = Field(
        default=(), description="Only in these rounds."
    )
    blocks: Annotated[tuple[PositiveCount, ...], OneOrMany()] = Field(
        default=(), description="Only in these blocks."
    )


class Hook(SomeTrials):
    """When to run which command, and what its failure means."""

    at: Moment = Field(
        description="before_run, after_run, before_phase, after_phase, before_trial, after_trial, "
        "or a time into each trial, like 30s."
    )
    run: Words = Field(default=(), description="The command as a list of words; no shell reads it.")
    shell: str = Field(default="", description="Instead of run: a line for /bin/sh.")
    name: str = Field(
        default="",
        pattern=NAME_PATTERN + "|^$",
        description="The hook's name in results; default: the command's first word.",
    )
    timeout_ns: PositiveDuration = Field(
        default=60_000_000_000,
        alias="timeout",
        description="Time limit of the command; then its process group is killed.",
    )
    on_failure: Literal["stop", "label"] = Field(
        default="stop", description="End the run, or continue and label the trial."
    )
    undoes: str = Field(
        default="",
        description="Name of the hook that this one undoes: if that one has run and this one has "
        "not when a trial ends, this one runs then.",
    )
    ready: str = Field(
        default="", description="URL that must answer, within timeout, before the run goes on."
    )
    env: Annotated[dict[str, str | dict[str, str]], BeforeValidator(read_environment)] = Field(
        default={},
        description="Variables for the command; a secret as {env: NAME} or {file: PATH}.",
    )

    def mistakes(self) -> Iterator[KeyMistake]:
        if bool(self.run) == bool(self.shell):
            actual = "both run and shell" if self.run else "neither"
            yield KeyMistake((), actual, "one of run and shell")
        for key in SomeTrials.model_fields if self.at in OF_RUN else ():
            if getattr(self, key):
                yield KeyMistake((key,), f"this key at {self.at}", "this key at a trial or phase")
        if self.undoes and self.elapsed_ns is None:
            yield KeyMistake(("undoes",), f"this key at {self.at}", "this key at a time")

    @property
    def label(self) -> str:
        """The hook's name in results."""
        return self.name or (self.run[0].rpartition("/")[2] if self.run else "shell")

    @property
    def moment(self) -> str:
        """The time when it runs, as the campaign spells it."""
        return _format_moment(self.at)

    @property
    def command(self) -> tuple[str, ...]:
        """The command and its arguments."""
        return self.run or ("/bin/sh", "-c", self.shell)

    @property
    def elapsed_ns(self) -> int | None:
        """How far into a trial it runs, in nanoseconds; None for hooks at other times."""
        return self.at if isinstance(self.at, int) else None

    def fits(self, document: TrialDocument) -> bool:
        """Tell whether the hook applies to a trial; only measured trials qualify."""
        case = document["case"]
        return bool(
            document["measured"]
            and (not self.targets or case["target"] in self.targets)
            and (not self.workloads or case["workload"] in self.workloads)
            and (not self.phases or document["phase"] in self.phases)
            and (not self.rounds or document["round"] in self.rounds)
            and (not self.blocks or document["block"] in self.blocks)
        )


FAULT_KINDS: Final = ("run", "kill", "pause", "disk_full", "partition")
SIGNAL: Final = """\
pid=$(cat "$2") || exit
case $pid in
"" | 0* | *[!0-9]*) echo "$2 has to hold one PID, and holds: $pid" >&2; exit 1 ;;
esac
kill -s "$1" -- "$pid"
"""
"""Sends a signal to the process whose id is in a file. kill would take -1 for every process."""
PAUSE: Final = """\
file=$2 signal=$1
set -- $LOADSTONE_PROCESS
start=$(sed 's/.*) //' "/proc/$1/stat" | cut -d ' ' -f 20)
if [ -n "$2" ] && [ "$start" = "$2" ]; then exec kill -s "$signal" -- "$1"; fi
echo "process $1 of $file has ended" >&2
[ "$signal" = CONT ]
"""
"""Sends a signal to the process that was in a file when the fault began, unless it has ended.

LOADSTONE_PROCESS is its PID and start time: a PID that has gone to another process gets no signal.
"""
FULL: Final = 'set -eu; file="$1/loadstone-disk-full-$LOADSTONE_RUN"'
"""A file name unique to the run: undoing a failed fault must not find another run's file."""
FILL: Final = f"""\
{FULL}
set -C
: > "$file"
set +e
fallocate -l "$(df --output=avail -B1 "$1" | tail -n 1)" "$file"
cat /dev/zero >> "$file"
test -s "$file"
"""
"""Fills a directory's file system."""
EMPTY: Final = f'{FULL}; rm -- "$file"'


class FaultHook(Hook):
    """A command of a fault; `process_file` holds the PID of the process that it signals."""

    process_file: str = ""


class Partition(Section):
    """A network device in a network namespace of this host to take down."""

    namespace: str = Field(description="Network namespace, as ip netns names it.")
    device: str = Field(description="The network device in it.")


class Fault(SomeTrials):
    """One fault of the target: its kind, when it comes, how long it lasts, and how it is undone."""

    at_ns: PositiveDuration = Field(
        alias="at", description="Time into each trial at which it comes, such as 20s."
    )
    lasts_ns: PositiveDuration | None = Field(
        default=None, alias="lasts", description="How long it lasts before it is undone."
    )
    run: Words = Field(default=(), description="A command of your own, as a list of words.")
    kill: str = Field(
        default="", description="Kill the process whose PID is in this file on this host."
    )
    pause: str = Field(
        default="",
        description="Stop the process whose PID is in this file, and continue it afterwards.",
    )
    disk_full: str = Field(
        default="", description="Fill the file system of this directory on this host."
    )
    partition: Partition | None = Field(
        default=None, description="Take down a network device in a network namespace of this host."
    )
    undo: Words = Field(
        default=(),
        description="With run and kill: command that undoes it, or restarts the process.",
    )
    recovery_ns: Duration = Field(
        default=10_000_000_000,
        alias="recovery",
        description="Time after its end during which requests may still fail.",
    )
    ready: str = Field(
        default="",
        description="URL that must answer, within a minute after the fault is undone, before the "
        "run goes on.",
    )
    name: str = Field(
        default="",
        pattern=NAME_PATTERN + "|^$",
        description="The fault's name in results; default: its kind, or the command's first word.",
    )

    def mistakes(self) -> Iterator[KeyMistake]:
        kinds = [kind for kind in FAULT_KINDS if getattr(self, kind)]
        if len(kinds) != 1:
            yield KeyMistake((), " and ".join(kinds) or "none", f"one of {', '.join(FAULT_KINDS)}")
        elif self.undo and kinds[0] not in ("run", "kill"):
            yield KeyMistake(("undo",), f"this key with {kinds[0]}", "this key with run, kill")
        elif bool(self._undoing) != (self.lasts_ns is not None):
            allowed = "a duration" if self._undoing else "this key with undo"
            yield KeyMistake(("lasts",), str(self.lasts_ns), allowed)

    @property
    def label(self) -> str:
        """The fault's name in results."""
        kind = next(kind for kind in FAULT_KINDS if getattr(self, kind))
        return self.name or (self.run[0].rpartition("/")[2] if self.run else kind)

    @property
    def hooks(self) -> tuple[Hook, ...]:
        """The commands that cause the fault and undo it."""
        where = {key: getattr(self, key) for key in SomeTrials.model_fields}
        fault = FaultHook(
            at=format_duration_exactly(self.at_ns), run=self._doing, name=self.label,
            process_file=self.pause, **where,
        )  # fmt: skip
        if self.lasts_ns is None:
            return (fault,)
        undo = FaultHook(
            at=format_duration_exactly(self.at_ns + self.lasts_ns), run=self._undoing,
            name=f"{self.label}-undone", undoes=self.label, ready=self.ready,
            process_file=self.pause, **where,
        )  # fmt: skip
        return fault, undo

    @property
    def _doing(self) -> tuple[str, ...]:
        if self.kill:
            return _shell(SIGNAL, "KILL", self.kill)
        if self.pause:
            return _shell(PAUSE, "STOP", self.pause)
        if self.disk_full:
            return _shell(FILL, self.disk_full)
        return self.run or self._link("down")

    @property
    def _undoing(self) -> tuple[str, ...]:
        if self.pause:
            return _shell(PAUSE, "CONT", self.pause)
        if self.disk_full:
            return _shell(EMPTY, self.disk_full)
        return self._link("up") if self.partition else self.undo

    def _link(self, state: str) -> tuple[str, ...]:
        assert self.partition is not None
        return ("ip", "-n", self.partition.namespace, "link", "set", self.partition.device, state)


def _shell(script: str, *words: str) -> tuple[str, ...]:
    return ("/bin/sh", "-c", script, "sh", *words)
