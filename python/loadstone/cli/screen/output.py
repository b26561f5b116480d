"""Prints aligned tables for lists and previews, and writes the files that users name."""

import shutil
import sys
import textwrap
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from loadstone.results.output import check_output, writing_output

GAP = "  "
LAST_MIN = 16
"""Minimum width of a last column that is wrapped."""


def print_table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Collection[int] = ()
) -> None:
    """Print rows under a head, columns as wide as their widest cell; columns `numbers` align right.

    On a terminal that is too narrow the last column is wrapped. Elsewhere each row is one line, so
    that programs can parse it.
    """
    widths = [max(len(str(row[column])) for row in (head, *rows)) for column in range(len(head))]
    if sys.stdout.isatty():
        before = sum(widths[:-1]) + len(GAP) * (len(widths) - 1)
        left = max(LAST_MIN, shutil.get_terminal_size().columns - before)
        widths[-1] = min(widths[-1], left)
    for row in (head, ["-" * width for width in widths], *rows):
        first, *more = _wrapped(str(row[-1]), widths[-1])
        for cells in ((*row[:-1], first), *((*("" for _ in row[:-1]), line) for line in more)):
            aligned = [
                str(cell).rjust(width) if at in numbers else str(cell).ljust(width)
                for at, (cell, width) in enumerate(zip(cells, widths, strict=True))
            ]
            print(GAP.join(aligned).rstrip())


def print_words(text: str, *, indent: str = "", below: str = "") -> None:
    """Print a sentence, wrapped to the terminal's width; `below` prefixes the following lines.

    Elsewhere it stays one line, for programs that read it.
    """
    lines = [indent + text]
    if sys.stdout.isatty():
        lines = textwrap.wrap(
            text,
            max(2 * LAST_MIN, shutil.get_terminal_size().columns),
            initial_indent=indent,
            subsequent_indent=below or indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
    print("\n".join(lines))


def _wrapped(text: str, width: int) -> list[str]:
    lines = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
    return lines or [""]


def write_files(contents: Mapping[Path, bytes], *, may_overwrite: bool) -> None:
    """Write files that the user named: all, or none if one may not be written."""
    for path in contents:
        check_output(path, may_overwrite=may_overwrite)
    for path, content in contents.items():
        with writing_output(path, may_overwrite=may_overwrite) as stream:
            stream.write(content)
