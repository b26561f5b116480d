"""iperf3: bytes of each second of a network path, which is the ceiling of what goes over it."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from loadstone.errors import InputError
from loadstone.formats import reading
from loadstone.formats.imported import SECOND_NS, Hints, Imported, ImportedTrial, Row
from loadstone.formats.reading import Place

TOLERANCE = 0.001


def read(paths: Sequence[Path], hints: Hints) -> Imported:
    """Read measurements of iperf3, each a trial; a request is one block of its block size."""
    trials = []
    version = None
    for path in paths:
        document = read_document(path)
        version = str(reading.field(Place(path), document, "start", "version"))
        trials.append(_trial(Place(path), document, hints))
    return Imported(tool="iperf3", name=paths[0].stem, trials=tuple(trials), tool_version=version)


def read_document(path: Path) -> Mapping[str, Any]:
    document = reading.read_json(path)
    if document.get("error"):
        raise InputError(f'"{path}": iperf3 ended with "{document["error"]}"')
    place = Place(path)
    intervals = reading.field(place, document, "intervals")
    if not intervals:
        place.refuse("has no intervals", reading.TRUNCATED)
    reading.field(place, document, "end", "sum_received")
    return document


def _trial(place: Place, document: Mapping[str, Any], hints: Hints) -> ImportedTrial:
    start = reading.field(place, document, "start", "test_start")
    is_reverse = bool(start.get("reverse"))
    block = int(reading.field(place, start, "blksize"))
    streams = int(reading.field(place, start, "num_streams"))
    operation = "receive" if is_reverse else "send"
    rows = tuple(_rows(place, document, operation, block))
    length_ns = round(
        float(reading.field(place, document["intervals"][-1], "sum", "end")) * SECOND_NS
    )
    total = int(
        reading.field(place, document, "end", "sum_received" if is_reverse else "sum_sent", "bytes")
    )
    reading.agree(place, "bytes of all intervals", sum(row.bytes for row in rows), total, TOLERANCE)
    host = str((document["start"].get("connecting_to") or {}).get("host", "network"))
    seconds = int(reading.field(place, document, "start", "timestamp", "timesecs"))
    cpu = document["end"].get("cpu_utilization_percent") or {}
    return ImportedTrial(
        target=hints.target or host,
        workload=f"iperf3 {start.get('protocol', 'TCP')}",
        phase=operation,
        parameters={"threads": streams, "size": block},
        clients=streams,
        rows=rows,
        window_ns=(0, length_ns),
        started_unix_ns=seconds * SECOND_NS,
        size_bytes=block,
        source={
            "sum_sent": document["end"].get("sum_sent"),
            "sum_received": document["end"].get("sum_received"),
            "cpu_utilization_percent": cpu,
        },
    )


def _rows(place: Place, document: Mapping[str, Any], operation: str, block: int) -> Iterator[Row]:
    for index, interval in enumerate(document["intervals"], start=1):
        one = reading.field(place, interval, "sum")
        if one.get("omitted"):
            continue
        moved = int(reading.field(place, one, "bytes"))
        seconds = float(reading.field(place, one, "seconds"))
        bits = float(reading.field(place, one, "bits_per_second"))
        what = f"interval {index}: bits_per_second"
        reading.agree(place, what, bits, 8 * moved / seconds, TOLERANCE)
        yield Row(
            operation=operation,
            outcome="ok",
            second=round(float(reading.field(place, one, "start"))),
            requests=max(1, round(moved / block)),
            objects=0,
            bytes=moved,
        )
