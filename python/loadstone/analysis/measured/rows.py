"""Rows of one trial's table as arrays, and those of one value: a trial has so few that a query
costs more to plan than to carry out.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loadstone._loadgen import Table

Column = NDArray[np.generic]
NO_OTHER_NAMES: Mapping[str, str] = {}


class Rows:
    """Some rows of a table, in its order; a column becomes an array when it is first asked for.

    Numbers are arrays of their kind, a null among them 0; texts and histograms are objects.
    """

    def __init__(self, table: Table, named: Mapping[str, str] = NO_OTHER_NAMES) -> None:
        """Take all rows of a table; `named` are columns that are asked for by other names."""
        self._table = table
        self._named = named
        self._columns: dict[str, Column] = {}
        self._picked: NDArray[np.intp] | None = None

    def __len__(self) -> int:
        """Return how many rows there are."""
        return self._table.num_rows if self._picked is None else self._picked.size

    def __contains__(self, name: str) -> bool:
        """Tell whether the table has a column."""
        return self._named.get(name, name) in self._table

    def __getitem__(self, name: str) -> Column:
        """Return one column of these rows."""
        whole = self._columns.get(name)
        if whole is None:
            whole = self._columns[name] = _array(self._table, self._named.get(name, name))
        return whole if self._picked is None else whole[self._picked]

    def labelled(self, name: str, values: Column) -> "Rows":
        """Return these rows with one value each as a column of that name, over another of it."""
        rows = self.pick(np.ones(len(self), dtype=np.bool_))
        whole = np.empty(self._table.num_rows, dtype=object)
        whole[rows._picked] = values
        rows._columns = {**self._columns, name: whole}
        return rows

    def where(self, column: str, value: object) -> "Rows":
        """Return the rows whose column has a value."""
        return self.pick(self[column] == value)

    def unless(self, column: str, value: object) -> "Rows":
        """Return the rows whose column has another value."""
        return self.pick(self[column] != value)

    def pick(self, chosen: NDArray[np.bool_]) -> "Rows":
        """Return the rows that are chosen, one truth for each of these."""
        places = np.flatnonzero(chosen)
        picked = Rows.__new__(Rows)
        picked._table, picked._named, picked._columns = self._table, self._named, self._columns
        picked._picked = places if self._picked is None else self._picked[places]
        return picked

    def sum(self, name: str) -> int:
        """Return the sum of a column of whole numbers."""
        return int(self[name].sum()) if len(self) else 0

    def sums(self, by: str, name: str) -> dict[Any, int]:
        """Return the sums of a column of whole numbers, by the values of another, as they come."""
        found: dict[Any, int] = {}
        for key, number in zip(self[by].tolist(), self[name].tolist(), strict=True):
            found[key] = found.get(key, 0) + number
        return found


def _array(table: Table, name: str) -> Column:
    kind = table.kind(name)
    if kind in ("int64", "float64"):
        return np.frombuffer(table.packed(name), dtype=kind)
    return np.array(table[name], dtype=object)


def values_of(rows: Rows, name: str) -> Iterable[bytes | None]:
    """Return one column of histograms; nothing when the table has no such column."""
    return rows[name].tolist() if name in rows else ()
