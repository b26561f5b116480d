"""Whether two engines gave the same answer.

Numbers agree within 0.01 or a millionth, whichever allows more, as engines round and add up in
their own order; texts agree without blanks at their end. Rows may come in another order only where
the query leaves it open, so both orders are compared as they are first, and sorted then.
"""

import datetime
import decimal
from collections.abc import Sequence
from typing import Any

ABSOLUTE = 0.01
RELATIVE = 1e-6

Answer = list[list[Any]]


def plain_answer(rows: Sequence[Sequence[Any]]) -> Answer:
    """Return an answer in values that JSON has."""
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


def difference(found: Answer, expected: Answer) -> str | None:
    """Return where two answers differ first, in words; None if they agree."""
    if len(found) != len(expected):
        return f"{len(found)} rows, expected {len(expected)}"
    if _first(found, expected) is None:
        return None
    return _first(sorted(found, key=_order), sorted(expected, key=_order))


def _first(found: Answer, expected: Answer) -> str | None:
    for number, (own, other) in enumerate(zip(found, expected, strict=True), start=1):
        if len(own) != len(other):
            return f"row {number} has {len(own)} columns, expected {len(other)}"
        for column, (one, two) in enumerate(zip(own, other, strict=True), start=1):
            if not _agree(one, two):
                return f"row {number}, column {column}: {one!r}, expected {two!r}"
    return None


def _agree(one: Any, two: Any) -> bool:
    if _is_number(one) and _is_number(two):
        return bool(abs(one - two) <= max(ABSOLUTE, RELATIVE * abs(two)))
    return bool(one == two)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _order(row: Sequence[Any]) -> tuple[str, ...]:
    # Numbers that differ by a rounding still sort alike by their leading digits.
    return tuple(f"{value:.4g}" if _is_number(value) else str(value) for value in row)
