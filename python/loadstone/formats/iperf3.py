"""iperf3: bytes per second over a network path.

A server's file has a document per test; --json-stream has a line per event of one test. With both
directions at once, each has its own sum from 3.11 on. Losses of UDP are only kept in the source: a
lost datagram is not a failed request.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from loadstone.documents.python_types import Object
from loadstone.errors import InputError
from loadstone.formats import reading
from loadstone.formats.imported import (
    LONGEST_S,
    SECOND_NS,
    Hints,
    Imported,
    ImportedTrial,
    Row,
    load_parameters,
    settle,
    stem_of,
)
from loadstone.formats.json_document import JsonNode, read_documents
from loadstone.formats.reading import LARGEST

TOLERANCE = 0.001
NS_PER_MS = 1_000_000
BACK = "sum_bidir_reverse"


class IperfSettings(TypedDict, total=False):
    """The settings of a test."""

    reverse: int
    protocol: str
    bidir: int


class IperfPeer(TypedDict, total=False):
    """The peer of the connection."""

    host: str


class IperfInterval(TypedDict, total=False):
    """One interval; those at the start may be omitted from sums."""

    omitted: bool
    sender: bool


class IperfEnd(TypedDict, total=False):
    """The totals of a test, kept as printed."""

    sum: Object | None
    sum_sent: Object | None
    sum_received: Object | None
    sum_sent_bidir_reverse: Object | None
    sum_received_bidir_reverse: Object | None
    cpu_utilization_percent: Object | None


_SETTINGS, _PEER = TypeAdapter(IperfSettings), TypeAdapter(IperfPeer)
_INTERVAL, _END = TypeAdapter(IperfInterval), TypeAdapter(IperfEnd)


def read(paths: Sequence[Path], hints: Hints) -> Imported:
    """Read measurements of iperf3, concurrent ones as one trial; a request is one block."""
    files = []
    version = None
    for path in paths:
        documents = _documents(path)
        for document in documents:
            _check_end(document)
        version = str(documents[0].at("start", "version").value)
        files.append([_trial(document, hints) for document in documents])
    return Imported(
        tool="iperf3", name=stem_of(paths[0]), trials=settle(files, hints), tool_version=version
    )


def read_measurement(path: Path) -> JsonNode:
    """Return the document of a completed measurement with received bytes."""
    document = _documents(path)[-1]
    _check_end(document)
    document.at("end", "sum_received").mapping()
    return document


def _documents(path: Path) -> list[JsonNode]:
    """Return the documents of a file, with the events of a stream merged into one."""
    documents = read_documents(path)
    if documents[0].find("event") is None:
        return documents
    merged: list[dict[str, Any]] = []
    for event in documents:
        name, data = str(event.at("event").value), event.at("data").value
        if name == "start" or not merged:
            merged.append({"intervals": []})
        if name == "interval":
            merged[-1]["intervals"].append(data)
        else:
            merged[-1][name] = data
    return [JsonNode(documents[0].place, merged_events) for merged_events in merged]


def _check_end(document: JsonNode) -> None:
    error = document.find("error")
    if error is not None and error.value:
        raise InputError(f'"{document.place.path}": iperf3 ended with "{error.value}"')
    if not document.at("intervals").items():
        document.place.refuse("has no intervals", reading.TRUNCATED)
    document.at("end").mapping()


def _trial(document: JsonNode, hints: Hints) -> ImportedTrial:
    start = document.at("start", "test_start")
    settings = start.read_as(_SETTINGS)
    block = start.at("blksize").whole(smallest=1)
    streams = start.at("num_streams").whole(smallest=1)
    end = document.at("end").read_as(_END)
    is_reverse = bool(settings.get("reverse"))
    rows = list(_rows(document, "sum", block, is_reverse=is_reverse))
    if document.at("intervals").items()[0].find(BACK) is not None:
        rows += _rows(document, BACK, block, is_reverse=not is_reverse)
        streams *= 2
    elif settings.get("bidir") or _moves_both_ways(document):
        document.place.refuse(
            "has both directions under one name, as iperf3 has them before 3.11",
            "measure each direction by itself",
        )
    length_ns = round(document.at("intervals").items()[-1].at("sum", "end").positive() * SECOND_NS)
    operations = list(dict.fromkeys(row.operation for row in rows))
    if not operations:
        document.place.refuse("has no interval that is not omitted", reading.TRUNCATED)
    if len(operations) == 1:
        _check_total(document, operations[0], sum(row.bytes for row in rows))
    peer = document.at("start").find("connecting_to")
    host = peer.read_as(_PEER).get("host") if peer is not None else None
    stamp = document.at("start", "timestamp")
    # With milliseconds from 3.20 on.
    exact = stamp.find("timemillisecs")
    begun_ns = (
        exact.whole(largest=LARGEST // NS_PER_MS) * NS_PER_MS
        if exact is not None
        else stamp.at("timesecs").whole(largest=LARGEST // SECOND_NS) * SECOND_NS
    )
    return ImportedTrial(
        target=hints.target or host or "network",
        workload=f"iperf3 {settings.get('protocol', 'TCP')}",
        phase=operations[0] if len(operations) == 1 else "both",
        parameters=load_parameters(streams, block),
        clients=streams,
        rows=tuple(rows),
        window_ns=(0, length_ns),
        started_unix_ns=begun_ns,
        counts_failures=False,
        size_bytes=block,
        source={key: value for key, value in end.items() if value},
        **_pace(start, streams, block),
    )


def _moves_both_ways(document: JsonNode) -> bool:
    """Tell whether an interval has streams of both directions: old settings do not name --bidir."""
    streams = document.at("intervals").items()[0].find("streams")
    parts = streams.items() if streams is not None else []
    return len({str(sender.value) for part in parts if (sender := part.find("sender"))}) > 1


def _check_total(document: JsonNode, operation: str, moved: int) -> None:
    """Compare the bytes of all intervals with their sum; UDP had a single sum of sent bytes."""
    end = document.at("end")
    total = end.find("sum_received" if operation == "receive" else "sum_sent")
    if total is None and operation == "send":
        total = end.find("sum")
    if total is not None:
        what = "bytes of all intervals"
        reading.agree(document.place, what, moved, total.at("bytes").whole(), TOLERANCE)


def _pace(start: JsonNode, streams: int, block: int) -> dict[str, Any]:
    """Return the requested rate limit of each stream, which is stated from 3.7 on."""
    limit = start.find("target_bitrate")
    if limit is None or not limit.number():
        return {}
    bits_per_s = limit.number()
    return {
        "paced_by": f"--bitrate {bits_per_s:g}",
        "rate_limit_per_s": bits_per_s / 8 * streams / block,
    }


def _rows(document: JsonNode, name: str, block: int, *, is_reverse: bool) -> Iterator[Row]:
    for index, interval in enumerate(document.at("intervals").items(), start=1):
        total = interval.at(name)
        facts = total.read_as(_INTERVAL)
        if facts.get("omitted"):
            continue
        # From 3.7 on the file states which side wrote it: a server receives its client's data.
        is_sender = facts.get("sender", not is_reverse)
        moved = total.at("bytes").whole()
        rate = 8 * moved / total.at("seconds").positive()
        what = f"interval {index}: bits_per_second"
        bits = total.at("bits_per_second").number()
        reading.agree(document.place, what, bits, rate, TOLERANCE)
        yield Row(
            operation="send" if is_sender else "receive",
            outcome="ok",
            second=round(total.at("start").number(LONGEST_S)),
            requests=max(1, round(moved / block)),
            objects=0,
            bytes=moved,
        )
