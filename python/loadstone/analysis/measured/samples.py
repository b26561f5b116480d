"""What the probes of one trial read: each quantity in the order of time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loadstone._loadgen import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """One quantity of one subject on one host: its values, and when each was read (wall clock)."""

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
    """Return what a table of probes holds, in the order in which its quantities first appear."""
    if not probes.num_rows:
        return {}
    names = ("probe", "metric", "host", "subject")
    columns = [_coded(probes, name) for name in names]
    codes = np.zeros(probes.num_rows, dtype=np.int64)
    for places, values in columns:
        codes = codes * len(values) + places
    times, numbers = _times(probes), _values(probes)
    order = np.lexsort((numbers, times, codes))
    ends = [*(np.flatnonzero(np.diff(codes[order])) + 1).tolist(), order.size]
    groups = [order[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]
    found: dict[tuple[str, str], list[Samples]] = {}
    for group in sorted(groups, key=lambda group: int(group.min())):
        probe, metric, host, subject = (values[places[group[0]]] for places, values in columns)
        samples = Samples(host=host, subject=subject, times_ns=times[group], values=numbers[group])
        found.setdefault((probe, metric), []).append(samples)
    return found


def _coded(probes: Table, name: str) -> tuple[NDArray[np.int64], list[str | None]]:
    places, values = probes.coded(name)
    return np.frombuffer(places, dtype=np.int64), values


def _times(probes: Table) -> NDArray[np.int64]:
    return np.frombuffer(probes.packed("time_unix_ns"), dtype=np.int64)


def _values(probes: Table) -> NDArray[np.float64]:
    return np.frombuffer(probes.packed("value"), dtype=np.float64)
