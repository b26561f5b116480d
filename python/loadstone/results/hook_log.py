"""The log of a run's hooks: one line of JSON in `hooks.jsonl` for each command that ran.

Lines are only appended: a trial that runs again after an interruption has the lines of both
attempts.
"""

from functools import cache
from pathlib import Path

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from loadstone.documents.python_types import Whole
from loadstone.results.files import line_log
from loadstone.results.layout import plain

HOOKS = "hooks.jsonl"


class HookEntry(TypedDict, total=False):
    """One line: which command was run where in the run, and how it ended."""

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


def append_hook(folder: Path, entry: HookEntry) -> None:
    """Add one line, and make it durable."""
    line_log.append_line(folder, HOOKS, entry)


def read_hooks(folder: Path) -> tuple[HookEntry, ...]:
    """Read all good lines, to be shown."""
    return tuple(map(plain, _lines(folder).entries))


def is_damaged(folder: Path) -> bool:
    """Say whether the log holds lines that are not as they were written."""
    return _lines(folder).is_damaged


def _lines(folder: Path) -> line_log.Lines[HookEntry]:
    return line_log.read_lines(folder / HOOKS, _entries(), HookEntry.__annotations__)


@cache
def _entries() -> TypeAdapter[HookEntry]:
    return TypeAdapter(HookEntry)
