"""A fault: something done to a target while it is under load, and undone after a while."""

from collections.abc import Iterator
from typing import Final

from pydantic import Field

from loadstone.campaign.reading.mistakes import KeyMistake
from loadstone.campaign.schema.hook import Hook, SomeTrials
from loadstone.campaign.schema.values import (
    NAME_PATTERN,
    PositiveDuration,
    Section,
    Words,
    format_duration_exactly,
)

KINDS: Final = ("run", "kill", "pause", "disk_full", "partition")
SIGNAL: Final = 'kill -s "$1" -- "$(cat "$2")"'
"""Sends a signal to the process whose number stands in a file."""
FULL: Final = 'set -eu; file="$1/loadstone-disk-full-$LOADSTONE_RUN"'
"""A file of this run alone: the undoing also comes after a fault that failed, and must then find no
other file."""
FILL: Final = f"""\
{FULL}
set -C
: > "$file"
set +e
fallocate -l "$(df --output=avail -B1 "$1" | tail -n 1)" "$file"
cat /dev/zero >> "$file"
test -s "$file"
"""
"""Fills the file system of a directory."""
EMPTY: Final = f'{FULL}; rm -- "$file"'


class Partition(Section):
    """Which network device of a namespace of this host is taken down."""

    namespace: str = Field(description="The namespace, as ip netns names it.")
    device: str = Field(description="The network device in it.")


class Fault(SomeTrials):
    """What is done to the target when, for how long, and what undoes it."""

    at_ns: PositiveDuration = Field(
        alias="at", description="How far into each trial it comes, like 20s."
    )
    lasts_ns: PositiveDuration | None = Field(
        default=None, alias="lasts", description="After how long it is undone."
    )
    run: Words = Field(default=(), description="A command of your own, as a list of words.")
    kill: str = Field(
        default="", description="Kill the process whose number stands in this file of this host."
    )
    pause: str = Field(
        default="",
        description="Stop the process whose number stands in this file, and let it go on.",
    )
    disk_full: str = Field(
        default="", description="Fill the file system of this directory of this host."
    )
    partition: Partition | None = Field(
        default=None, description="Take down a network device in a namespace of this host."
    )
    undo: Words = Field(
        default=(), description="With run and kill: the command that undoes it, or starts anew."
    )
    ready: str = Field(
        default="",
        description="A URL that has to answer, within a minute of the undoing, before the run goes "
        "on.",
    )
    name: str = Field(
        default="",
        pattern=NAME_PATTERN + "|^$",
        description="The fault's name in results; default: its kind, or the command's first word.",
    )

    def mistakes(self) -> Iterator[KeyMistake]:
        kinds = [kind for kind in KINDS if getattr(self, kind)]
        if len(kinds) != 1:
            yield KeyMistake((), " and ".join(kinds) or "none", f"one of {', '.join(KINDS)}")
        elif self.undo and kinds[0] not in ("run", "kill"):
            yield KeyMistake(("undo",), f"this key with {kinds[0]}", "this key with run, kill")
        elif bool(self._undoing) != (self.lasts_ns is not None):
            allowed = "a duration" if self._undoing else "this key with undo"
            yield KeyMistake(("lasts",), str(self.lasts_ns), allowed)

    @property
    def label(self) -> str:
        """The fault's name in results."""
        kind = next(kind for kind in KINDS if getattr(self, kind))
        return self.name or (self.run[0].rpartition("/")[2] if self.run else kind)

    @property
    def hooks(self) -> tuple[Hook, ...]:
        """The commands that bring it about and undo it."""
        where = {key: getattr(self, key) for key in SomeTrials.model_fields}
        fault = Hook(
            at=format_duration_exactly(self.at_ns), run=self._doing, name=self.label, **where
        )
        if self.lasts_ns is None:
            return (fault,)
        undo = Hook(
            at=format_duration_exactly(self.at_ns + self.lasts_ns), run=self._undoing,
            name=f"{self.label}-undone", undoes=self.label, ready=self.ready, **where,
        )  # fmt: skip
        return fault, undo

    @property
    def _doing(self) -> tuple[str, ...]:
        if self.kill:
            return _shell(SIGNAL, "KILL", self.kill)
        if self.pause:
            return _shell(SIGNAL, "STOP", self.pause)
        if self.disk_full:
            return _shell(FILL, self.disk_full)
        return self.run or self._link("down")

    @property
    def _undoing(self) -> tuple[str, ...]:
        if self.pause:
            return _shell(SIGNAL, "CONT", self.pause)
        if self.disk_full:
            return _shell(EMPTY, self.disk_full)
        return self._link("up") if self.partition else self.undo

    def _link(self, state: str) -> tuple[str, ...]:
        assert self.partition is not None
        return ("ip", "-n", self.partition.namespace, "link", "set", self.partition.device, state)


def _shell(script: str, *words: str) -> tuple[str, ...]:
    return ("/bin/sh", "-c", script, "sh", *words)
