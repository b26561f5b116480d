"""Columns on a screen, in which numbers are never cut."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.table import Table as RichTable

LAST_MIN = 8


def least_width(rows: Sequence[Sequence[str]]) -> int:
    """Return the width of columns that are one space apart."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return sum(widths) + len(widths) - 1


@dataclass(slots=True)
class Columns:
    """Cells in columns; only the last column may be cut."""

    heads: list[str]
    left: int
    ends_in_words: bool = True
    rows: list[list[str]] = field(default_factory=list)
    dim: set[int] = field(default_factory=set)

    def draw(self, width: int) -> RichTable:
        """Return the table; the first `left` columns and often the last are words."""
        widths = [
            max(len(row[at]) for row in (self.heads, *self.rows)) for at in range(len(self.heads))
        ]
        gap = 2 if sum(widths) + 2 * (len(widths) - 1) <= width else 1
        room = width - sum(widths[:-1]) - gap * (len(widths) - 1)
        table = RichTable(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="dim")
        last = len(self.heads) - 1
        for at, head in enumerate(self.heads):
            is_words = at < self.left or (at == last and self.ends_in_words)
            table.add_column(
                head,
                justify="left" if is_words else "right",
                no_wrap=True,
                min_width=min(widths[at], max(room, LAST_MIN)) if at == last else widths[at],
                max_width=max(room, LAST_MIN) if at == last else None,
                overflow="ellipsis",
            )
        for at, row in enumerate(self.rows):
            table.add_row(*row, style="dim" if at in self.dim else "")
        return table
