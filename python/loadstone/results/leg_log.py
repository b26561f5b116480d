"""The log of a run's legs: one line of JSON in `legs.jsonl` for each server that was started."""

from typing_extensions import TypedDict

from loadstone.documents.python_types import Number, Whole
from loadstone.documents.target_state import ServerState
from loadstone.results.files.line_log import Log

LEGS = "legs.jsonl"


class LegEntry(TypedDict, total=False):
    """One line: which arm's server ran from when to when, what it used, and how it ended.

    `said` is the last that it printed; `used` is what its processes used from start to stop;
    `stop_failed` is how the stop command ended and the last that it printed, where it failed.
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
    stop_failed: str
    started_unix_ns: Whole
    ended_unix_ns: Whole


_LOG = Log(LEGS, LegEntry)
append_leg, read_legs = _LOG.append, _LOG.read_plain
