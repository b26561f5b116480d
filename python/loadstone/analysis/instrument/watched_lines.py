"""Probed quantities of a client host within the measured window of a trial."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loadstone.analysis.judgements.finding import Evidence
from loadstone.analysis.measured.rows import Quantities
from loadstone.campaign.drivers import addresses_of, facts_of
from loadstone.probes.sockets import is_loopback
from loadstone.results.record import Record

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One quantity over the window: its values, and their times from its start."""

    host: str
    subject: str
    times_s: Numbers
    values: Numbers

    @property
    def growth(self) -> float:
        """How much a counter grew over the window."""
        return float(self.values[-1] - self.values[0]) if self.values.size > 1 else 0.0

    @property
    def length_s(self) -> float:
        """How long the quantity was watched."""
        return float(self.times_s[-1] - self.times_s[0]) if self.times_s.size > 1 else 0.0

    @property
    def rate(self) -> float:
        """How fast a counter grew, in its unit per second."""
        return self.growth / self.length_s if self.length_s else 0.0


Lines = Mapping[tuple[str, str], Sequence[Line]]


def lines_of(record: Record, quantities: Quantities) -> Lines:
    """Return every quantity within the measured window, by probe and metric."""
    window_ns = _window_ns(record)
    lines: dict[tuple[str, str], list[Line]] = {}
    for name, all_samples in quantities.items():
        for samples in all_samples:
            first, last = np.searchsorted(samples.times_ns, window_ns)
            # The end of the window belongs to it.
            last += int(last < samples.times_ns.size and samples.times_ns[last] == window_ns[1])
            if first < last:
                times_s = (samples.times_ns[first:last] - samples.times_ns[first]) / 1e9
                line = Line(
                    host=samples.host,
                    subject=samples.subject,
                    times_s=times_s,
                    values=samples.values[first:last],
                )
                lines.setdefault(name, []).append(line)
    return lines


def _window_ns(record: Record) -> tuple[int, int]:
    """Return the measured window on the wall clock, over all iterations."""
    started = int(record.summary.get("started_unix_ns") or 0)
    entries = record.summary.get("iterations") or ()
    starts = [entry["measure_start_ns"] for entry in entries if "measure_start_ns" in entry]
    ends = [entry["measure_end_ns"] for entry in entries if "measure_end_ns" in entry]
    if not started or not starts or not ends:
        return 0, 2**63 - 1
    return started + min(starts), started + max(ends)


def whole_ns_of(record: Record) -> int:
    """Return the lifetime of the load threads, with warm-up and cool-down."""
    entries = record.summary.get("iterations") or ()
    starts = [entry.get("start_ns", entry.get("measure_start_ns")) for entry in entries]
    ends = [entry.get("end_ns", entry.get("measure_end_ns")) for entry in entries]
    first = min((start for start in starts if start is not None), default=None)
    last = max((end for end in ends if end is not None), default=None)
    if first is None or last is None or None in starts or None in ends:
        return 0
    return last - first


def addresses_of_target(record: Record) -> Sequence[str]:
    """Return the URLs of a trial's target."""
    target = record.trial.get("target") or {}
    return addresses_of(facts_of(str(target.get("driver"))), target.get("settings") or {})


def is_on_own_host(record: Record) -> bool:
    """Tell whether the target was on the client's own host, by its addresses."""
    recorded = record.summary.get("target_on_own_host")
    if isinstance(recorded, bool):
        return recorded
    # Older records do not say; loopback shows it.
    return any(map(is_loopback, addresses_of_target(record)))


def evidence_of(
    metric: str, value: float, threshold: float, host: str, source: str = ""
) -> Evidence:
    return Evidence(metric, value, threshold, place=host, source=source)
