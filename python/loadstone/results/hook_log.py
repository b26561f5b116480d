"""The log of a run's hooks: one line of JSON in `hooks.jsonl` for each command that ran.

Lines are only appended: a trial that runs again after an interruption has the lines of both
attempts.
"""

from typing_extensions import TypedDict

from loadstone.documents.python_types import Whole
from loadstone.results.line_log import Log

HOOKS = "hooks.jsonl"


class HookEntry(TypedDict, total=False):
    """One line: a command, its point in the run, and its result."""

    hook: str
    at: str
    trial: str | None
    phase: str | None
    command: list[str]
    on_failure: str
    state: str
    exit_code: Whole | None
    said: str
    started_unix_ns: Whole
    ended_unix_ns: Whole
    ready_unix_ns: Whole


_LOG = Log(HOOKS, HookEntry)
append_hook, read_hooks, is_damaged = _LOG.append, _LOG.read_plain, _LOG.is_damaged
