"""Plain tables that line up, for lists and previews."""

from collections.abc import Sequence


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under a head, columns as wide as their widest cell."""
    widths = [max(len(str(row[column])) for row in (head, *rows)) for column in range(len(head))]
    for row in (head, ["-" * width for width in widths], *rows):
        cells = [str(cell).ljust(width) for cell, width in zip(row, widths, strict=False)]
        print("  ".join(cells).rstrip())
