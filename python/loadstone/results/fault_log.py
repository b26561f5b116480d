"""The log of faults: a line in `faults.jsonl` before a fault begins and after it is undone.

A controller that is killed undoes nothing, so the log says what may still be in effect.
"""

import shlex
from pathlib import Path

from typing_extensions import TypedDict

from loadstone.documents.python_types import Whole
from loadstone.results.line_log import Log

FAULTS = "faults.jsonl"


class FaultEntry(TypedDict):
    """One line: a fault of a trial, the command that undoes it, and whether that has succeeded.

    `process` is the process that the fault signals: its PID and its start time in clock ticks since
    boot; empty if it signals none.
    """

    hook: str
    run: str
    trial: str
    undo: list[str]
    process: str
    is_undone: bool
    unix_ns: Whole


_LOG = Log(FAULTS, FaultEntry)
append_fault, is_damaged = _LOG.append, _LOG.is_damaged


def faults_left(folder: Path) -> list[FaultEntry]:
    """Return the faults that began and were not undone, in their order, as they were written."""
    left: dict[tuple[str, tuple[str, ...]], FaultEntry] = {}
    for entry in _LOG.read(folder).entries:
        key = (entry["trial"], tuple(entry["undo"]))
        left.pop(key, None)
        if not entry["is_undone"]:
            left[key] = entry
    return list(left.values())


def describe_fault(entry: FaultEntry) -> str:
    """Return the name and the trial of a fault, and the process that it signals."""
    pid = entry["process"].partition(" ")[0]
    process = f", of process {pid}" if pid else ""
    return f'"{entry["hook"]}" of trial {entry["trial"]}{process}'


def how_to_undo(entry: FaultEntry, folder: Path) -> str:
    """Return how a user undoes a fault by hand."""
    pid, _, start = entry["process"].partition(" ")
    if pid:
        how = (
            f"if process {pid} is still the one that was paused (field 22 of /proc/{pid}/stat is "
            f"{start}), run: kill -CONT {pid}"
        )
    else:
        command = ["env", f"LOADSTONE_RUN={entry['run']}", *entry["undo"]]
        how = f"do what this command does: {shlex.join(command)}"
    return (
        f"{how}\nthen remove {shlex.quote(str(folder / FAULTS))}, which says that it is in effect"
    )
