"""A file of iperf3 as the ceiling of a path, to hold results against."""

from pathlib import Path

from loadstone.analysis.accounts.account import KnownCeiling
from loadstone.formats import iperf3


def read_ceiling(path: Path) -> KnownCeiling:
    """Return the path's ceiling: what arrived, with the slowest and the fastest second."""
    document = iperf3.read_measurement(path)
    rates = [
        interval.at("sum", "bits_per_second").number() / 8
        for interval in document.at("intervals").items()
    ]
    return KnownCeiling(
        resource="network",
        name="measured network path",
        bytes_per_s=document.at("end", "sum_received", "bits_per_second").number() / 8,
        low=min(rates),
        high=max(rates),
        tool="iperf3",
        place=str(path),
    )
