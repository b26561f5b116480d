"""The tables of all readable reports: plain text in columns with units, which reports draw."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from loadstone import units
from loadstone.report.result_words import NOT_KNOWN, MarkedNumber

Align = Literal["left", "right"]

Item = TypeVar("Item")
Other = TypeVar("Other")

COUNT = ",d"
"""How numbers of requests are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column: its head, the unit of its cells, and their alignment.

    An optional column may be left out for lack of room.
    """

    head: str
    unit: str = ""
    align: Align = "right"
    is_optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Field(Column, Generic[Item]):
    """A column with what stands in it for an item, which has a row.

    `value` is the number that sorts the column on a page.
    """

    cell: Callable[[Item], str]
    value: Callable[[Item], float | None] = lambda _: None

    def of(self, item_of: Callable[[Other], Item]) -> "Field[Other]":
        """Return the field for rows of others, of which each has an item."""
        return Field(
            head=self.head,
            unit=self.unit,
            align=self.align,
            is_optional=self.is_optional,
            cell=lambda other: self.cell(item_of(other)),
        )


def word(head: str, cell: Callable[[Item], str]) -> Field[Item]:
    """Return a field of words."""
    return Field(head=head, cell=cell, align="left")


def number(
    head: str, cell: Callable[[Item], str], unit: str = "", *, is_optional: bool = False
) -> Field[Item]:
    """Return a field of numbers."""
    return Field(head=head, cell=cell, unit=unit, is_optional=is_optional)


def known(
    value_of: Callable[[Item], float | None], scale: float = 1, show: str = ""
) -> Callable[[Item], str]:
    """Return the cell of a number that may be unknown, divided by `scale`.

    It is shown by a format specification, or else with as many digits as count.
    """

    def cell(item: Item) -> str:
        value = value_of(item)
        if value is None:
            return NOT_KNOWN
        value = value / scale if scale != 1 else value
        return format(value, show) if show else units.format_number(value)

    return cell


def measured(
    head: str,
    measure: Callable[[Item], MarkedNumber],
    words: Callable[[float], str] = units.format_number,
    unit: str = "",
    *,
    scale: float = 1,
    is_optional: bool = False,
) -> Field[Item]:
    """Return a field of numbers with their marks: divided by `scale`, then in words."""
    return Field(
        head=head,
        cell=lambda item: measure(item).words(lambda value: words(value / scale)),
        value=lambda item: measure(item).value,
        unit=unit,
        is_optional=is_optional,
    )


def texts(*heads: str) -> tuple[Column, ...]:
    return tuple(Column(head=head, align="left") for head in heads)


def numbers(*heads: str | tuple[str, str]) -> tuple[Column, ...]:
    """Return columns of numbers; a head may come with the unit of its cells."""
    pairs = [(head, "") if isinstance(head, str) else head for head in heads]
    return tuple(Column(head=head, unit=unit) for head, unit in pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table as text; `caption` holds common values of all rows, `notes` explain signs."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""
    notes: tuple[str, ...] = ()


def tabulated(
    title: str,
    items: Iterable[Item],
    fields: Sequence[Field[Item]],
    *,
    caption: str = "",
    notes: Iterable[str] = (),
) -> Table:
    """Return a table with a row for each item, in fields that are stated once."""
    return Table(
        title=title,
        columns=tuple(fields),
        rows=tuple(tuple(field.cell(item) for field in fields) for item in items),
        caption=caption,
        notes=tuple(notes),
    )
