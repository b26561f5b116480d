"""Errors, warnings and hints, broken between words where a terminal is narrow."""

import json
import os
import re
import sys
from typing import TextIO

from loadstone.cli import plain
from loadstone.errors import LoadstoneError

FORM = "LOADSTONE_ERRORS"
"""The environment variable that says how errors are told; what --errors sets."""

COLUMNS_MIN = 40
INDENT = "  "
_COMMAND = re.compile(r"(?<=: )(?=(?:loadstone|pip|apt-get) )")
"""Where a command begins that is there to be copied, which a line break would cut in two."""


def say(text: str, stream: TextIO | None = None) -> None:
    """Print a message for the person who typed the command: on standard error, if not said."""
    stream = stream or sys.stderr
    print(wrapped(plain(text), _columns(stream)), file=stream)


def tell(error: LoadstoneError) -> None:
    """Say what went wrong, and what to do: as words, or as a line of JSON."""
    if os.environ.get(FORM) == "json":
        print(json.dumps({"error": error.document()}), file=sys.stderr)
    else:
        # What is wrong may be quoted from a file or a target.
        say(f"error: {error.message}" + (f"\nhint: {error.hint}" if error.hint else ""))


def wrapped(text: str, columns: int | None) -> str:
    """Return a text whose lines fit so many columns, as far as words and commands let them."""
    if columns is None:
        return text
    width = max(columns, COLUMNS_MIN)
    return "\n".join(_lines(line, width) for line in text.split("\n"))


def _lines(text: str, width: int) -> str:
    if len(text) <= width:
        return text
    prose, *command = _COMMAND.split(text, maxsplit=1)
    # Blanks inside stay as they are: a quoted name may have several.
    words = [*prose.rstrip().split(" "), *command]
    lines = [words[0]]
    for word in words[1:]:
        if len(lines[-1]) + 1 + len(word) > width:
            lines.append(f"{INDENT}{word}")
        else:
            lines[-1] += f" {word}"
    return "\n".join(lines)


def _columns(stream: TextIO) -> int | None:
    """Return the width of the terminal; None where messages go into a file or a pipe."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except (OSError, ValueError):
        return None
