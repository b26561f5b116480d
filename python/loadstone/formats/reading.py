"""Reads files of other programs; every error names the file, the line and the column."""

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import NoReturn

from loadstone import _loadgen, regular_file
from loadstone.errors import InputError

TRUNCATED = "the file may have been cut off; take the whole one"
EDITED = "the file may have been edited by hand; take the one that the tool wrote"

BYTES_MAX = 1024 * regular_file.MIB

LINE_MAX = 1 << 16
"""The longest line of a log; the rest of a longer one counts as another line."""

LARGEST = 2**63 - 1
"""The largest whole number in a record; as nanoseconds, the year 2262."""


@dataclass(frozen=True, slots=True)
class FileLine:
    """A line of a file, counted from 1; None for a file without lines."""

    path: Path
    line: int | None = None

    def refuse(self, what: str, hint: str | None = None, column: str | None = None) -> NoReturn:
        """Raise the error for this place."""
        words = [f'"{self.path}"']
        words += [f"line {self.line}"] if self.line is not None else []
        words += [f'column "{column}"'] if column else []
        raise InputError(f"{', '.join(words)}: {what}", hint)


def named_file(path: Path) -> tuple[str | None, Path]:
    """Split NAME=FILE, where the name labels the file; an existing file of this full name wins."""
    name, equals, file = str(path).partition("=")
    return (name, Path(file)) if name and equals and not path.exists() else (None, path)


def log_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the non-blank lines of a log with their numbers, without reading the whole file."""
    try:
        regular_file.check(path)
        with path.open(encoding="utf-8", errors="replace") as file:
            number = 0
            while line := file.readline(LINE_MAX):
                number += 1
                if line.strip():
                    yield number, line
    except OSError as error:
        raise InputError(f'cannot read "{path}": {error.strerror}') from error


def read_text(path: Path) -> str:
    """Return a file's text without a byte order mark, or raise an error with the reason."""
    try:
        text = regular_file.read(path, BYTES_MAX).decode("utf-8-sig")
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    except OSError as error:
        raise InputError(f'cannot read "{path}": {error.strerror}') from error
    except UnicodeDecodeError as error:
        raise InputError(
            f'"{path}" is not valid UTF-8 at byte {error.start}',
            "give a file in the format that the command names",
        ) from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        FileLine(path, line).refuse("not text: it contains a zero byte", TRUNCATED)
    return text


def read_csv(
    path: Path,
    lines: Iterable[str],
    columns: Sequence[str],
    *,
    delimiter: str = ",",
    first_line: int = 2,
) -> Iterator[tuple[FileLine, Mapping[str, str]]]:
    """Yield the rows of a table under its head, with their places and without missing cells."""
    for number, line in enumerate(lines, start=first_line):
        place = FileLine(path, number)
        if not line.endswith("\n"):
            place.refuse("ends in the middle of a line", TRUNCATED)
        cells = split_cells(place, line.rstrip("\r\n"), delimiter)
        if len(cells) != len(columns):
            place.refuse(f"has {len(cells)} fields, the header has {len(columns)}", TRUNCATED)
        yield place, dict(zip(columns, cells, strict=True))


def read_table(
    path: Path,
    needed: Iterable[str],
    hint: str,
    *,
    delimiter: str = ",",
    names: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[tuple[FileLine, Mapping[str, str]]]:
    """Yield the rows of a table; `names` maps alternative column names to the usual ones."""
    head, *lines = read_text(path).split("\n")
    columns = split_cells(FileLine(path, 1), head, delimiter)
    columns = [names.get(name.strip(), name) for name in columns]
    check_columns(FileLine(path, 1), columns, needed, hint)
    # A last line without a line feed is truncated; after a complete one the rest is empty.
    whole = [f"{line}\n" for line in lines[:-1]] + [line for line in lines[-1:] if line]
    yield from read_csv(path, whole, columns, delimiter=delimiter)


def check_columns(
    place: FileLine, columns: Sequence[str], needed: Iterable[str], hint: str
) -> None:
    """Refuse a table without one of the needed columns."""
    for name in needed:
        if name not in columns:
            place.refuse(f'has no column "{name}"', hint)


def split_cells(place: FileLine, text: str, delimiter: str = ",") -> list[str]:
    """Return the cells of one line of a table."""
    if "\0" in text:
        place.refuse("not text: it contains a zero byte", TRUNCATED)
    # A fast path, because files of millions of lines rarely contain quotes.
    if '"' not in text:
        return text.split(delimiter)
    try:
        return next(csv.reader([text], delimiter=delimiter), [])
    except csv.Error as error:
        place.refuse(f"not a line of CSV: {error}", EDITED)


def whole(place: FileLine, column: str, text: str, *, smallest: int = 0) -> int:
    """Return a cell that must be a whole number."""
    try:
        value = int(text)
    except ValueError:
        place.refuse(f'found "{text}", expected a whole number', EDITED, column)
    if not smallest <= value <= LARGEST:
        wanted = f"{smallest} or more" if value < smallest else f"at most {LARGEST}"
        place.refuse(f"found {value}, expected {wanted}", EDITED, column)
    return value


def number(place: FileLine, column: str, text: str) -> float:
    """Return a cell that must be a number of at least zero."""
    try:
        value = float(text)
    except ValueError:
        place.refuse(f'found "{text}", expected a number', EDITED, column)
    if not 0 <= value < float("inf"):
        place.refuse(f"found {text}, expected a number that is not negative", EDITED, column)
    return value


def agree(place: FileLine, what: str, stated: float, expected: float, tolerance: float) -> None:
    """Refuse a stated number that differs from the value computed from other numbers."""
    largest = max(abs(stated), abs(expected))
    if abs(stated - expected) > tolerance * largest:
        place.refuse(f"{what}: {stated:g} does not fit {expected:g}", EDITED)


def time_of(place: FileLine, column: str, text: str) -> int:
    """Parse RFC 3339 with up to nine decimals as Unix nanoseconds, too precise for datetime."""
    match = re.fullmatch(r"(.{19})(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)", text)
    try:
        if match is None:
            raise ValueError
        zone = "+00:00" if match[3] == "Z" else match[3]
        whole = datetime.fromisoformat(match[1] + zone).astimezone(UTC)
    except ValueError:
        place.refuse(f'found "{text}", expected a time', EDITED, column)
    return int(whole.timestamp()) * 1_000_000_000 + int((match[2] or "0").ljust(9, "0"))


TEXT_MAX = 200
MISSING = 127

Parts = dict[str, tuple[str, int]]


# A machine may print arbitrary text before, between and within the parts.
def read_parts(text: str, mark: str) -> Parts:
    """Return the output and exit code of each part; the first one of each name."""
    parts: Parts = {}
    pattern = rf"^{re.escape(mark)} begin (\w+)\n(.*?)\n{re.escape(mark)} end \1 (\d+)$"
    for match in re.finditer(pattern, text, re.MULTILINE | re.DOTALL):
        parts.setdefault(match[1], (match[2], int(match[3])))
    return parts


def why(output: str, code: int) -> str:
    """Return why a program failed: the last line of its output, or its exit code."""
    last = next((line for line in reversed(output.splitlines()) if line.strip()), "")
    return clean(last) or ("not installed" if code == MISSING else f"exit code {code}")


def clean(text: str) -> str:
    """Return a machine's output as one short line without control characters."""
    return _loadgen.plain(" ".join(text.split()))[:TEXT_MAX]
