"""The log of a run's hooks: a line of JSON for each command that was run, in `hooks.jsonl`.

Lines are only ever added: a trial that is run again after an interruption has those of both
attempts. A line that a kill cut off is left out when it is read.
"""

from pathlib import Path
from typing import cast

from typing_extensions import TypedDict

from loadstone.documents.trial import Whole
from loadstone.results import durable
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
    durable.append_line(folder / HOOKS, entry)


def read_hooks(folder: Path) -> tuple[HookEntry, ...]:
    """Read all whole lines, to be shown."""
    return tuple(cast(HookEntry, plain(entry)) for entry in durable.read_lines(folder / HOOKS))
