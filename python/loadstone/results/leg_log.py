"""The log of a run's legs: one line of JSON in `legs.jsonl` for each server that was started."""

from functools import cache
from pathlib import Path

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from loadstone.documents.python_types import Number, Whole
from loadstone.documents.target_state import ServerState
from loadstone.results.files import line_log
from loadstone.results.layout import plain

LEGS = "legs.jsonl"


class LegEntry(TypedDict, total=False):
    """One line: which arm's server ran from when to when, what it used, and how it ended.

    `said` is the last that it printed; `used` is what its processes used from start to stop.
    """

    arm: str
    trial: str
    block: Whole
    command: list[str]
    data: str | None
    ready_after_s: Number
    used: ServerState
    state: str
    exit_code: Whole | None
    said: str
    started_unix_ns: Whole
    ended_unix_ns: Whole


def append_leg(folder: Path, entry: LegEntry) -> None:
    """Add one line, and make it durable."""
    line_log.append_line(folder, LEGS, entry)


def read_legs(folder: Path) -> tuple[LegEntry, ...]:
    """Read all good lines, to be shown."""
    lines = line_log.read_lines(folder / LEGS, _entries(), LegEntry.__annotations__)
    return tuple(map(plain, lines.entries))


@cache
def _entries() -> TypeAdapter[LegEntry]:
    return TypeAdapter(LegEntry)
