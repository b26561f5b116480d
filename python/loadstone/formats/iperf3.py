"""iperf3: bytes of each second of a network path, which is the ceiling of what goes over it."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from loadstone.documents.trial import Object
from loadstone.errors import InputError
from loadstone.formats import reading
from loadstone.formats.imported import (
    LONGEST_S,
    SECOND_NS,
    Hints,
    Imported,
    ImportedTrial,
    Row,
    settle,
    stem_of,
)
from loadstone.formats.json_document import JsonNode, read_document
from loadstone.formats.reading import LARGEST

TOLERANCE = 0.001


class IperfSettings(TypedDict, total=False):
    """How a test was run."""

    reverse: int
    protocol: str


class IperfPeer(TypedDict, total=False):
    """Who was connected to."""

    host: str


class IperfInterval(TypedDict, total=False):
    """What a line of the test says of itself; one of its start may be omitted from the sums."""

    omitted: bool


class IperfEnd(TypedDict, total=False):
    """What a test says of itself as a whole; it is kept as it is printed."""

    sum_sent: Object | None
    sum_received: Object | None
    cpu_utilization_percent: Object | None


_SETTINGS, _PEER = TypeAdapter(IperfSettings), TypeAdapter(IperfPeer)
_INTERVAL, _END = TypeAdapter(IperfInterval), TypeAdapter(IperfEnd)


def read(paths: Sequence[Path], hints: Hints) -> Imported:
    """Read measurements of iperf3, those at the same time as one trial; a request is one block."""
    files = []
    version = None
    for path in paths:
        document = read_measurement(path)
        version = str(document.at("start", "version").value)
        files.append([_trial(document, hints)])
    return Imported(
        tool="iperf3", name=stem_of(paths[0]), trials=settle(files, hints), tool_version=version
    )


def read_measurement(path: Path) -> JsonNode:
    """Return the document of a measurement that came to its end."""
    document = read_document(path)
    error = document.find("error")
    if error is not None and error.value:
        raise InputError(f'"{path}": iperf3 ended with "{error.value}"')
    if not document.at("intervals").items():
        document.place.refuse("has no intervals", reading.TRUNCATED)
    document.at("end", "sum_received").mapping()
    return document


def _trial(document: JsonNode, hints: Hints) -> ImportedTrial:
    start = document.at("start", "test_start")
    settings = start.read_as(_SETTINGS)
    is_reverse = bool(settings.get("reverse"))
    block = start.at("blksize").whole(smallest=1)
    streams = start.at("num_streams").whole(smallest=1)
    operation = "receive" if is_reverse else "send"
    rows = tuple(_rows(document, operation, block))
    length_ns = round(document.at("intervals").items()[-1].at("sum", "end").positive() * SECOND_NS)
    total = document.at("end", "sum_received" if is_reverse else "sum_sent", "bytes").whole()
    moved = sum(row.bytes for row in rows)
    reading.agree(document.place, "bytes of all intervals", moved, total, TOLERANCE)
    peer = document.at("start").find("connecting_to")
    host = peer.read_as(_PEER).get("host") if peer is not None else None
    seconds = document.at("start", "timestamp", "timesecs").whole(largest=LARGEST // SECOND_NS)
    end = document.at("end").read_as(_END)
    return ImportedTrial(
        target=hints.target or host or "network",
        workload=f"iperf3 {settings.get('protocol', 'TCP')}",
        phase=operation,
        parameters={"threads": streams, "size": block},
        clients=streams,
        rows=rows,
        window_ns=(0, length_ns),
        started_unix_ns=seconds * SECOND_NS,
        counts_failures=False,
        size_bytes=block,
        source={
            "sum_sent": end.get("sum_sent"),
            "sum_received": end.get("sum_received"),
            "cpu_utilization_percent": end.get("cpu_utilization_percent") or {},
        },
    )


def _rows(document: JsonNode, operation: str, block: int) -> Iterator[Row]:
    for index, interval in enumerate(document.at("intervals").items(), start=1):
        one = interval.at("sum")
        if one.read_as(_INTERVAL).get("omitted"):
            continue
        moved = one.at("bytes").whole()
        rate = 8 * moved / one.at("seconds").positive()
        what = f"interval {index}: bits_per_second"
        bits = one.at("bits_per_second").number()
        reading.agree(document.place, what, bits, rate, TOLERANCE)
        yield Row(
            operation=operation,
            outcome="ok",
            second=round(one.at("start").number(LONGEST_S)),
            requests=max(1, round(moved / block)),
            objects=0,
            bytes=moved,
        )
