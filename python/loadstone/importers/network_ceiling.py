"""A file of iperf3 as the ceiling of a path, to hold results against."""

from pathlib import Path

from loadstone.analysis.account import Ceiling
from loadstone.formats import iperf3, reading
from loadstone.formats.reading import Place


def read_ceiling(path: Path) -> Ceiling:
    """Return the path's ceiling: what arrived, with the slowest and the fastest second."""
    document = iperf3.read_document(path)
    place = Place(path)
    received = reading.field(place, document, "end", "sum_received")
    rates = [
        float(reading.field(place, interval, "sum", "bits_per_second")) / 8
        for interval in document["intervals"]
    ]
    return Ceiling(
        resource="network",
        name="measured network path",
        bytes_per_s=float(reading.field(place, received, "bits_per_second")) / 8,
        low=min(rates),
        high=max(rates),
        tool="iperf3",
        place=str(path),
    )
