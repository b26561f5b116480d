"""Compares the answers of two engines, or of an engine and a file.

Numbers agree within 0.01 or a millionth, whichever is larger, because engines round and add up in
different orders. Texts agree without trailing blanks. Only a query without a defined order may
return rows in another order, so rows are compared first unsorted, and then sorted.
"""

import datetime
import decimal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from loadstone.errors import InputError

ABSOLUTE = 0.01
RELATIVE = 1e-6

Answer = list[list[Any]]


def plain_answer(rows: Sequence[Sequence[Any]]) -> Answer:
    """Return an answer with values that JSON can represent."""
    return [[_plain_value(value) for value in row] for row in rows]


def _plain_value(value: Any) -> Any:
    match value:
        case None | bool() | int() | float():
            return value
        case decimal.Decimal():
            return float(value)
        case datetime.datetime():
            return value.date().isoformat()
        case datetime.date():
            return value.isoformat()
        case bytes():
            return value.decode(errors="replace").rstrip()
    return str(value).rstrip()


def answer_file(folder: Path, query: str) -> Path:
    """Return the file of a query's answer: q1.out or q01.out; raise InputError if there is none."""
    number = int(query.removeprefix("Q"))
    names = [f"q{number}.out", f"q{number:02}.out"]
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise InputError(
        f'"{folder}" has no answer to {query}: found neither {names[0]} nor {names[1]}',
        "the folder holds a file for each query, as TPC-H's tools have them",
    )


def read_answer_file(path: Path) -> list[list[str]]:
    """Return the rows of a file in the format of TPC-H's tools: a header, columns between bars."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f'cannot read the answer in "{path}": {error}') from error
    rows = [line.split("|") for line in lines if line.strip()]
    if not rows or any(len(row) != len(rows[0]) for row in rows):
        raise InputError(
            f'"{path}" is not an answer: its lines differ in their columns',
            "allowed: a line of names, then a line for each row, columns between bars",
        )
    return rows[1:]


def like(rows: Sequence[Sequence[str]], answer: Answer) -> Answer:
    """Convert the rows of a file to numbers where the engine's answer has them."""
    return [
        [_cell(text, _column(answer, number)) for number, text in enumerate(row)] for row in rows
    ]


def _column(answer: Answer, number: int) -> Any:
    values = (row[number] for row in answer if number < len(row))
    return next((value for value in values if value is not None), None)


def _cell(text: str, model: Any) -> Any:
    if not text.strip():
        return None
    if _is_number(model):
        try:
            return float(text)
        except ValueError:
            pass
    return text.rstrip()


def difference(answer: Answer, expected: Answer) -> str | None:
    """Describe the first difference of two answers; None if they agree."""
    if len(answer) != len(expected):
        return f"{len(answer)} rows, expected {len(expected)}"
    if _first(answer, expected) is None:
        return None
    return _first(sorted(answer, key=_order), sorted(expected, key=_order))


def _first(answer: Answer, expected: Answer) -> str | None:
    for number, (row, expected_row) in enumerate(zip(answer, expected, strict=True), start=1):
        if len(row) != len(expected_row):
            return f"row {number} has {len(row)} columns, expected {len(expected_row)}"
        for column, (value, wanted) in enumerate(zip(row, expected_row, strict=True), start=1):
            if not _agree(value, wanted):
                return f"row {number}, column {column}: {value!r}, expected {wanted!r}"
    return None


def _agree(value: Any, expected: Any) -> bool:
    if _is_number(value) and _is_number(expected):
        return bool(abs(value - expected) <= max(ABSOLUTE, RELATIVE * abs(expected)))
    return bool(value == expected)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _order(row: Sequence[Any]) -> tuple[str, ...]:
    # Numbers that differ by rounding are sorted alike by their leading digits.
    return tuple(f"{value:.4g}" if _is_number(value) else str(value) for value in row)
