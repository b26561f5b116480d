"""What is wrong in a script: every mistake with its row and column, all of them at once."""

from dataclasses import dataclass, field
from typing import NoReturn

from loadstone.errors import InputError

SHOWN_MAX = 50


@dataclass(slots=True)
class Mistakes:
    """Collects the mistakes of one script; those beyond the first fifty are counted."""

    name: str
    """The file, or the generator."""

    lines: list[tuple[int, str]] = field(default_factory=list)
    rows: set[int] = field(default_factory=set)
    """The rows with mistakes of their own: what they would have done is not known."""

    count: int = 0

    def add(
        self, row: int | None, column: str | None, found: str, allowed: str, hint: str | None = None
    ) -> None:
        """Note one: `row` counts from 1, and is absent where it is of no single one."""
        self.count += 1
        if row is not None:
            self.rows.add(row)
        if len(self.lines) >= SHOWN_MAX:
            return
        place = [f'"{self.name}"']
        place += [f"row {row}"] if row is not None else []
        place += [f'column "{column}"'] if column else []
        text = f"{', '.join(place)}: found {found}, allowed {allowed}"
        self.lines.append((row or 0, text if hint is None else f"{text}\nhint: {hint}"))

    def stop_if_any(self) -> None:
        """Raise all that was noted, if anything was."""
        if self.count:
            self.refuse()

    def refuse(self) -> NoReturn:
        """Raise all that was noted."""
        lines = [text for _, text in sorted(self.lines, key=lambda line: line[0])]
        if self.count > len(lines):
            lines.append(f"and {self.count - len(lines)} more")
        raise InputError("\n".join(lines), "rows are counted from 1, the head of a CSV apart")
