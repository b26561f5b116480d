"""Reading files of others: every complaint names the file, the line and the column."""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from loadstone.errors import InputError

TRUNCATED = "the file may have been cut off; take the whole one"
EDITED = "the file may have been edited by hand; take the one that the tool wrote"


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a file, counted from 1; no line where the file has none."""

    path: Path
    line: int | None = None

    def refuse(self, what: str, hint: str | None = None, column: str | None = None) -> NoReturn:
        """Raise the error for this place."""
        words = [f'"{self.path}"']
        words += [f"line {self.line}"] if self.line is not None else []
        words += [f'column "{column}"'] if column else []
        raise InputError(f"{', '.join(words)}: {what}", hint)


def named_file(path: Path) -> tuple[str | None, Path]:
    """Split NAME=FILE, which says what a file stands for; a file of just that name is itself."""
    name, equals, file = str(path).partition("=")
    return (name, Path(file)) if name and equals and not path.exists() else (None, path)


def read_text(path: Path) -> str:
    """Return a file's text, or say why not."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f'cannot read "{path}": {error.strerror}') from error
    except UnicodeDecodeError as error:
        raise InputError(
            f'"{path}" is no text: byte {error.start} is not UTF-8',
            "name the file in the format that was asked for",
        ) from error


def read_json(path: Path) -> dict[str, Any]:
    """Return a file's JSON object; the line of a mistake is named."""
    text = read_text(path)
    try:
        document = json.loads(text)
    except ValueError as error:
        line = getattr(error, "lineno", None)
        reason = getattr(error, "msg", str(error))
        at_end = getattr(error, "pos", 0) >= len(text.rstrip()) - 1
        hint = TRUNCATED if at_end else "the file must hold what the tool wrote, and nothing else"
        Place(path, line).refuse(f"no JSON: {reason}", hint)
    if not isinstance(document, dict):
        Place(path).refuse("holds no JSON object")
    return document


def read_csv(
    path: Path,
    lines: Iterable[str],
    columns: Sequence[str],
    *,
    delimiter: str = ",",
    first_line: int = 2,
) -> Iterator[tuple[Place, Mapping[str, str]]]:
    """Yield the rows of a table under its head, each with its place and every cell present."""
    for number, line in enumerate(lines, start=first_line):
        place = Place(path, number)
        if not line.endswith("\n"):
            place.refuse("ends without the end of a line", TRUNCATED)
        text = line.rstrip("\r\n")
        # Files of millions of lines seldom quote anything.
        cells = (
            next(csv.reader([text], delimiter=delimiter), [])
            if '"' in text
            else text.split(delimiter)
        )
        if len(cells) != len(columns):
            place.refuse(f"has {len(cells)} fields, the head has {len(columns)}", TRUNCATED)
        yield place, dict(zip(columns, cells, strict=True))


def whole(place: Place, column: str, text: str, *, smallest: int = 0) -> int:
    """Return a cell that is a whole number."""
    try:
        value = int(text)
    except ValueError:
        place.refuse(f'found "{text}", expected a whole number', EDITED, column)
    if value < smallest:
        place.refuse(f"found {value}, expected {smallest} or more", EDITED, column)
    return value


def number(place: Place, column: str, text: str) -> float:
    """Return a cell that is a number, not below zero."""
    try:
        value = float(text)
    except ValueError:
        place.refuse(f'found "{text}", expected a number', EDITED, column)
    if not 0 <= value < float("inf"):
        place.refuse(f"found {text}, expected a number that is not negative", EDITED, column)
    return value


def field(place: Place, document: Mapping[str, Any], *names: str) -> Any:
    """Return a value from nested JSON, naming the key that is missing."""
    value: Any = document
    for depth, name in enumerate(names):
        if not isinstance(value, Mapping) or name not in value:
            place.refuse(f'has no "{".".join(names[: depth + 1])}"', TRUNCATED)
        value = value[name]
    return value


def agree(place: Place, what: str, found: float, expected: float, tolerance: float) -> None:
    """Refuse two numbers of one file that should be the same and are not."""
    largest = max(abs(found), abs(expected))
    if abs(found - expected) > tolerance * largest:
        place.refuse(f"{what}: {found:g} does not fit {expected:g}", EDITED)
