"""Plain tables that line up, for lists and previews; and files that could not be written."""

from collections.abc import Collection, Sequence
from pathlib import Path

from loadstone.errors import ResultError


def print_table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Collection[int] = ()
) -> None:
    """Print rows under a head, columns as wide as their widest cell; `numbers` line up right."""
    widths = [max(len(str(row[column])) for row in (head, *rows)) for column in range(len(head))]
    for row in (head, ["-" * width for width in widths], *rows):
        cells = [
            str(cell).rjust(width) if at in numbers else str(cell).ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=False))
        ]
        print("  ".join(cells).rstrip())


def write_file(path: Path, content: bytes) -> None:
    """Write a file, and the folders it lies in."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise ResultError(f'cannot write the report to "{path}": {error.strerror}') from error
