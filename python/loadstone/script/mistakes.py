"""Mistakes in a script, each with its row and column, reported all at once."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NoReturn

from loadstone.errors import InputError

SHOWN_MAX = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptMistake:
    """A mistake in a script: its place, the actual value, and the allowed values.

    `row` counts from 1, and is absent if the mistake is not in a single row; so is `column`.
    """

    row: int | None
    column: str | None
    actual: str
    allowed: str
    hint: str | None = None

    def in_script(self, name: str) -> str:
        """Return the mistake as a line, and its hint as another."""
        place = [f'"{name}"']
        place += [f"row {self.row}"] if self.row is not None else []
        place += [f'column "{self.column}"'] if self.column else []
        text = f"{', '.join(place)}: found {self.actual}, allowed {self.allowed}"
        return text if self.hint is None else f"{text}\nhint: {self.hint}"


class ScriptError(InputError):
    """A script that cannot be used; lists its first mistakes, one per line."""

    KIND = "script"

    def __init__(self, name: str, mistakes: Sequence[ScriptMistake], count: int) -> None:
        lines = [mistake.in_script(name) for mistake in mistakes]
        if count > len(lines):
            lines.append(f"and {count - len(lines)} more")
        super().__init__("\n".join(lines), "rows are counted from 1, without the header of a CSV")
        self.name = name
        self.mistakes = tuple(mistakes)
        self.count = count

    def document(self) -> dict[str, Any]:
        """Return the error as plain values; `count` includes mistakes that are not listed."""
        return {
            **super().document(),
            "script": self.name,
            "count": self.count,
            "mistakes": [asdict(mistake) for mistake in self.mistakes],
        }


@dataclass(slots=True)
class Mistakes:
    """Collects the mistakes of one script; those beyond the first fifty are only counted."""

    name: str
    """The file, or the generator."""

    noted: list[ScriptMistake] = field(default_factory=list)
    rows: set[int] = field(default_factory=set)
    """The rows with mistakes of their own, whose effects are unknown."""

    count: int = 0

    def add(
        self,
        row: int | None,
        column: str | None,
        actual: str,
        allowed: str,
        hint: str | None = None,
    ) -> None:
        """Record a mistake."""
        self.count += 1
        if row is not None:
            self.rows.add(row)
        if len(self.noted) < SHOWN_MAX:
            self.noted.append(
                ScriptMistake(row=row, column=column, actual=actual, allowed=allowed, hint=hint)
            )

    def stop_if_any(self) -> None:
        """Raise all recorded mistakes, if there are any."""
        if self.count:
            self.refuse()

    def refuse(self) -> NoReturn:
        """Raise all recorded mistakes."""
        raise ScriptError(
            self.name, sorted(self.noted, key=lambda mistake: mistake.row or 0), self.count
        )
