"""Reads a file of iperf3 as the ceiling of a network path, for comparison with results."""

from pathlib import Path

from loadstone.analysis.accounts.account import KnownCeiling
from loadstone.documents.ceiling import sustained_share
from loadstone.formats import iperf3


def read_ceiling(path: Path) -> KnownCeiling:
    """Return the path's ceiling: the received rate, with the slowest and the fastest second.

    If the path slowed down during the measurement, its last third is used.
    """
    document = iperf3.read_measurement(path)
    rates = [
        interval.at("sum", "bits_per_second").number() / 8
        for interval in document.at("intervals").items()
    ]
    sustained = sustained_share(rates)
    arrived = document.at("end", "sum_received", "bits_per_second").number() / 8
    return KnownCeiling(
        resource="network",
        name="measured network path",
        bytes_per_s=arrived * (1.0 if sustained is None else sustained),
        is_steady=sustained is None,
        low=min(rates),
        high=max(rates),
        tool="iperf3",
        place=str(path),
    )
