"""The log of a run's hooks: a line of JSON for each command that was run, in `hooks.jsonl`.

Lines are only ever added: a trial that is run again after an interruption has those of both
attempts. A line that a kill cut off is left out when it is read.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from loadstone.results import durable

HOOKS = "hooks.jsonl"


def append_hook(folder: Path, entry: Mapping[str, Any]) -> None:
    """Add one line, and make it durable."""
    path = folder / HOOKS
    line = json.dumps(entry, ensure_ascii=False, allow_nan=False).encode() + b"\n"
    with durable.writing(path), path.open("ab+") as stream:
        # A line that a kill cut off would swallow this one.
        if stream.tell() and os.pread(stream.fileno(), 1, stream.tell() - 1) != b"\n":
            line = b"\n" + line
        stream.write(line)
        stream.flush()
        os.fsync(stream.fileno())


def read_hooks(folder: Path) -> tuple[Mapping[str, Any], ...]:
    """Read all whole lines."""
    path = folder / HOOKS
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError:
        return ()
    found = []
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            found.append(entry)
    return tuple(found)
