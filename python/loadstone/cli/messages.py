"""Prints errors, warnings and hints, wrapped between words on narrow terminals."""

import json
import os
import re
import sys
from typing import TextIO

from loadstone.cli import plain
from loadstone.errors import LoadstoneError

FORM = "LOADSTONE_ERRORS"
"""The environment variable with the format of errors; --errors sets it."""

COLUMNS_MIN = 40
INDENT = "  "
_COMMAND = re.compile(r"(?<=: )(?=(?:loadstone|pip|apt-get) )")
"""Matches the start of a command for copying, which must not be broken across lines."""


def say(text: str, stream: TextIO | None = None) -> None:
    """Print a message for the user, on standard error by default."""
    stream = stream or sys.stderr
    print(wrapped(plain(text), _columns(stream)), file=stream)


def tell(error: LoadstoneError) -> None:
    """Print an error and its hint: as text, or as a line of JSON."""
    if os.environ.get(FORM) == "json":
        print(json.dumps({"error": error.document()}), file=sys.stderr)
    else:
        # The message may quote a file or a target.
        say(f"error: {error.message}" + (f"\nhint: {error.hint}" if error.hint else ""))


def wrapped(text: str, columns: int | None) -> str:
    """Wrap a text to `columns`, without breaking words and commands."""
    if columns is None:
        return text
    width = max(columns, COLUMNS_MIN)
    return "\n".join(_lines(line, width) for line in text.split("\n"))


def _lines(text: str, width: int) -> str:
    if len(text) <= width:
        return text
    prose, *command = _COMMAND.split(text, maxsplit=1)
    # Repeated blanks are kept, because a quoted name may contain several.
    words = [*prose.rstrip().split(" "), *command]
    lines = [words[0]]
    for word in words[1:]:
        if len(lines[-1]) + 1 + len(word) > width:
            lines.append(f"{INDENT}{word}")
        else:
            lines[-1] += f" {word}"
    return "\n".join(lines)


def _columns(stream: TextIO) -> int | None:
    """Return the width of the terminal; None if messages go to a file or a pipe."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except (OSError, ValueError):
        return None
