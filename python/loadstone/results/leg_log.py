"""The log of a run's legs: one line of JSON in `legs.jsonl` for each server that was started."""

from typing_extensions import TypedDict

from loadstone.documents.python_types import Number, Whole
from loadstone.documents.target_state import ServerState
from loadstone.results.line_log import Log

LEGS = "legs.jsonl"


class LegEntry(TypedDict, total=False):
    """One line: the server of an arm with its start, end, resource use and exit.

    `said` is the end of its output; `used` is the use of its processes from start to stop;
    `stop_failed` is the exit of a failed stop command with the end of its output.
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
