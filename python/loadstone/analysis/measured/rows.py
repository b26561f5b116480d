"""Rows of one trial's table as arrays: trials are too small for a query engine."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loadstone._loadgen import Table
from loadstone.analysis.grouping import added_up

Column = NDArray[np.generic]
NO_OTHER_NAMES: Mapping[str, str] = {}


class Rows:
    """Rows of a table in its order; a column becomes an array on first use.

    Numbers are arrays with 0 for null; texts and histograms are objects.
    """

    def __init__(self, table: Table, named: Mapping[str, str] = NO_OTHER_NAMES) -> None:
        """Take all rows of a table; `named` are columns that are asked for by other names."""
        self._table = table
        self._named = named
        self._columns: dict[str, Column] = {}
        self._picked: NDArray[np.intp] | None = None

    def __len__(self) -> int:
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
        """Return these rows with a column replaced by these values."""
        rows = self.pick(np.ones(len(self), dtype=np.bool_))
        whole = np.empty(self._table.num_rows, dtype=object)
        whole[rows._picked] = values
        rows._columns = {**self._columns, name: whole}
        return rows

    def where(self, column: str, value: object) -> "Rows":
        return self.pick(self[column] == value)

    def unless(self, column: str, value: object) -> "Rows":
        return self.pick(self[column] != value)

    def pick(self, chosen: NDArray[np.bool_]) -> "Rows":
        """Return the rows chosen by a mask."""
        places = np.flatnonzero(chosen)
        picked = Rows.__new__(Rows)
        picked._table, picked._named, picked._columns = self._table, self._named, self._columns
        picked._picked = places if self._picked is None else self._picked[places]
        return picked

    def sum(self, name: str) -> int:
        """Return the sum of an integer column."""
        return int(self[name].sum()) if len(self) else 0

    def sums(self, by: str, name: str) -> dict[Any, int]:
        """Return the sums of an integer column by the values of another."""
        return added_up(zip(self[by].tolist(), self[name].tolist(), strict=True))


def _array(table: Table, name: str) -> Column:
    kind = table.kind(name)
    if kind in ("int64", "float64"):
        return np.frombuffer(table.packed(name), dtype=kind)
    return np.array(table[name], dtype=object)


def values_of(rows: Rows, name: str) -> Iterable[bytes | None]:
    """Return one column of histograms; empty if the table has none."""
    return rows[name].tolist() if name in rows else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """One quantity of one subject on one host: its values with their wall-clock times."""

    host: str
    subject: str
    times_ns: NDArray[np.int64]
    values: NDArray[np.float64]

    @property
    def pairs(self) -> list[tuple[int, float]]:
        """Return each time with its value."""
        return list(zip(self.times_ns.tolist(), self.values.tolist(), strict=True))


Quantities = Mapping[tuple[str, str], Sequence[Samples]]
"""Samples by the probe and the metric that they are of."""


def read_samples(probes: Table) -> Quantities:
    """Return the samples of a table of probes, in the order of first appearance."""
    if not probes.num_rows:
        return {}
    names = ("probe", "metric", "host", "subject")
    columns = [_coded(probes, name) for name in names]
    codes = np.zeros(probes.num_rows, dtype=np.int64)
    for places, values in columns:
        codes = codes * len(values) + places
    times = np.frombuffer(probes.packed("time_unix_ns"), dtype=np.int64)
    numbers = _values(probes)
    order = np.lexsort((numbers, times, codes))
    starts = np.concatenate(([0], np.flatnonzero(np.diff(codes[order])) + 1))
    ends = [*starts[1:].tolist(), order.size]
    # All groups at once: a trial has hundreds of quantities, and a run thousands of trials.
    first_rows = np.minimum.reduceat(order, starts)
    names_of_groups = [
        [values[place] for place in places[order[starts]].tolist()] for places, values in columns
    ]
    times, numbers = times[order], numbers[order]
    quantities: dict[tuple[str, str], list[Samples]] = {}
    for group in np.argsort(first_rows).tolist():
        probe, metric, host, subject = (names[group] for names in names_of_groups)
        rows = slice(int(starts[group]), ends[group])
        samples = Samples(host=host, subject=subject, times_ns=times[rows], values=numbers[rows])
        quantities.setdefault((probe, metric), []).append(samples)
    return quantities


def values_of_metric(probes: Table, probe: str, metric: str) -> NDArray[np.float64]:
    if not probes.num_rows:
        return np.zeros(0)
    is_wanted = np.ones(probes.num_rows, dtype=bool)
    for name, wanted in (("probe", probe), ("metric", metric)):
        places, values = _coded(probes, name)
        if wanted not in values:
            return np.zeros(0)
        is_wanted &= places == values.index(wanted)
    return _values(probes)[is_wanted]


def _coded(probes: Table, name: str) -> tuple[NDArray[np.int64], list[str | None]]:
    places, values = probes.coded(name)
    return np.frombuffer(places, dtype=np.int64), values


def _values(probes: Table) -> NDArray[np.float64]:
    return np.frombuffer(probes.packed("value"), dtype=np.float64)
