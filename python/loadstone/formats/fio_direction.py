"""One direction of a job of fio: requests, bytes and times.

Names imply the units, whatever the version: times are `clat` in microseconds up to 2.21 and
`clat_ns` from 2.99 on; `io_bytes` are KiB unless there is `io_kbytes`, from 2.21 on. Bytes are
checked against `bw`, which is always in KiB/s.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from loadstone.formats import reading
from loadstone.formats.imported import SECOND_NS, Row, Stated
from loadstone.formats.json_document import JsonNode
from loadstone.formats.reading import LARGEST

TIMES: Mapping[str, int] = {"clat_ns": 1, "clat": 1000, "lat_ns": 1, "lat": 1000}
"""The times that a job may have, with their units in nanoseconds; completion latency is first."""

TOLERANCE = 0.02
NS_PER_MS = 1_000_000
KIBIBYTE = 1024


def runtime_ms(node: JsonNode) -> int:
    """Return the duration of the direction in milliseconds."""
    return node.at("runtime").whole(largest=LARGEST // NS_PER_MS)


def optional_number(node: JsonNode, name: str) -> float | None:
    """Return a number that some versions do not write."""
    value = node.find(name)
    return None if value is None else value.number()


def times_of(node: JsonNode) -> JsonNode | None:
    """Return the times with a distribution: completion latency, or else total latency."""
    named = [times for name in TIMES if (times := node.find(name)) is not None]
    counted = [times for times in named if (times.find("N") or times.at("max")).number()]
    spread = [times for times in counted if has(times, "percentile") or has(times, "bins")]
    return next(iter([*spread, *counted]), None)


def has(node: JsonNode | None, name: str) -> bool:
    """Tell whether an object has a non-empty object under a name."""
    part = node.find(name) if node is not None else None
    return part is not None and bool(part.mapping())


def source_of_times(node: JsonNode) -> Mapping[str, Any]:
    """Return the times without their bins, which become a histogram."""
    return {
        name: {key: value for key, value in times.mapping().items() if key != "bins"}
        for name in TIMES
        if (times := node.find(name)) is not None
    }


def stated_times(node: JsonNode, requests: int) -> Stated | None:
    """Return the stated times of plain JSON, which has percentiles without a distribution."""
    times = times_of(node)
    if times is None:
        return None
    unit = TIMES[times.path[-1]]
    listed = times.find("percentile")
    quantiles = {
        round(reading.number(node.place, "percentile", share) / 100, 9): ns.whole() * unit
        for share, ns in (listed.entries() if listed is not None else ())
        # Until 2.2, fio pads its list of percentiles with these.
        if not (share == "0.00" and ns.value == 0)
    }
    # Until 3.18 the number of times is not stated; each completed request has one.
    counted = times.find("N")
    return Stated(
        count=counted.whole() if counted is not None else requests,
        mean_ns=times.at("mean").number() * unit,
        min_ns=times.at("min").whole() * unit,
        max_ns=times.at("max").whole() * unit,
        quantiles_ns=quantiles,
    )


def total_requests(node: JsonNode) -> tuple[int, bool]:
    """Return the number of requests, and whether fio states it, as from 2.1.14 on.

    Earlier versions state only the rate, truncated to a whole number.
    """
    total = node.find("total_ios")
    if total is not None:
        return total.whole(), True
    return round(node.at("iops").number() * runtime_ms(node) / 1000), False


def _bytes(node: JsonNode, what: str) -> int:
    """Return the bytes moved; `io_bytes` is in KiB unless there is `io_kbytes`."""
    moved = node.at("io_bytes").whole()
    if node.find("io_kbytes") is None:
        moved *= KIBIBYTE
    rate, length_ms = node.find("bw"), runtime_ms(node)
    if rate is not None and length_ms:
        expected = moved / KIBIBYTE * 1000 / length_ms
        # Both are truncated to whole KiB.
        if abs(rate.number() - expected) > 2 + TOLERANCE * expected:
            node.place.refuse(
                f"{what}: bw {rate.number():g} KiB/s does not fit {moved} bytes in {length_ms} ms",
                reading.EDITED,
            )
    return moved


def rows_of(name: str, direction: str, node: JsonNode) -> Iterator[Row]:
    """Yield the requests of a direction, as one row."""
    requests, is_counted = total_requests(node)
    what = f'job "{name}", {direction}'
    moved = _bytes(node, what)
    length_ms = runtime_ms(node)
    if length_ms and is_counted:
        rate, expected = node.at("iops").number(), requests / length_ms * 1000
        # Until 2.1.14 rates are whole numbers.
        if abs(rate - expected) > 1:
            reading.agree(node.place, f"{what}: iops", rate, expected, TOLERANCE)
    yield Row(
        operation=direction,
        outcome="ok",
        # At the end, so that no second of the window contains all requests.
        second=length_ms * NS_PER_MS // SECOND_NS,
        requests=requests,
        objects=0,
        bytes=moved,
        service=_histogram(node, what),
    )


def _histogram(node: JsonNode, what: str) -> bytes | None:
    from loadstone._loadgen import Histogram

    times = times_of(node)
    if times is None or not has(times, "bins"):
        return None
    bins = dict(times.at("bins").entries())
    unit = TIMES[times.path[-1]]
    # Until 2.20 bins are keyed by the number of the group instead of by its time.
    bits = bins.pop("FIO_IO_U_PLAT_BITS", None)
    for fact in ("FIO_IO_U_PLAT_VAL", "FIO_IO_U_PLAT_NR"):
        bins.pop(fact, None)
    histogram = Histogram()
    for key, count in bins.items():
        value = reading.whole(node.place, "bins", key)
        if bits is not None:
            value = _time_of_group(value, bits.whole(smallest=1, largest=16))
        if value * unit > LARGEST:
            node.place.refuse(f"{what}: no time is as long as group {key}", reading.EDITED)
        if count.whole():
            histogram.record(max(1, value * unit), count.whole())
    counted = times.find("N")
    if counted is not None:
        what = f"{what}: latencies counted"
        reading.agree(node.place, what, histogram.count, counted.whole(), 0.0)
    return histogram.encode()


def _time_of_group(group: int, bits: int) -> int:
    """Return the middle of a bin of fio's histogram, as `plat_idx_to_val` in stat.c does."""
    groups = 1 << bits
    if group < 2 * groups:
        return group
    shift = min((group >> bits) - 1, 63)
    return int((1 << (shift + bits)) + (group % groups + 0.5) * (1 << shift))
