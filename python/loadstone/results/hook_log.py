"""The log of a run's hooks: a line of JSON for each command that was run, in `hooks.jsonl`.

Lines are only ever added: a trial that is run again after an interruption has those of both
attempts. A line that a kill cut off is left out when it is read.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from loadstone.results import durable
from loadstone.results.layout import plain

HOOKS = "hooks.jsonl"


def append_hook(folder: Path, entry: Mapping[str, Any]) -> None:
    """Add one line, and make it durable."""
    durable.append_line(folder / HOOKS, entry)


def read_hooks(folder: Path) -> tuple[Mapping[str, Any], ...]:
    """Read all whole lines, to be shown."""
    return tuple(plain(entry) for entry in durable.read_lines(folder / HOOKS))
