"""sai3-bench: results.tsv, a row for each operation and class of sizes; from 0.6.7 also one of all
sizes.

The duration is not written, and follows from count and rate. Failed requests, threads and start are
not in this file. Times are microseconds, from a merged histogram.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from loadstone.formats import reading
from loadstone.formats.imported import MEBIBYTE, MICROSECOND_NS, Hints, ImportedFile, Stated
from loadstone.formats.reading import FileLine
from loadstone.importers.totals import Work, trial_of_works

NEEDED = ("operation", "size_bucket", "mean_us", "max_us", "avg_bytes", "ops_per_sec", "count")
OPERATIONS = {"GET": "get", "PUT": "put", "META": "metadata"}
QUANTILES = {0.5: "p50_us", 0.9: "p90_us", 0.95: "p95_us", 0.99: "p99_us"}
RATE_ROUNDED = 0.005
"""A rate has two decimals."""


def read_file(path: Path, workload: str, hints: Hints) -> ImportedFile:
    """Read results; the operations of a file ran concurrently, and are one trial."""
    hint = "give results.tsv, or prepare_results.tsv, of a result folder"
    rows = list(reading.read_table(path, NEEDED, hint, delimiter="\t"))
    if not rows:
        FileLine(path).refuse("has a header and no rows", reading.TRUNCATED)
    operations: dict[str, list[tuple[FileLine, Mapping[str, str]]]] = {}
    for place, row in rows:
        operations.setdefault(row["operation"], []).append((place, row))
    whole = [_whole_rows(operation) for operation in operations.values()]
    # The rate of the most requests is the one with the smallest rounding error.
    lengths = [_length_s(place, row) for operation in whole for place, row in operation]
    _, length_s = max(lengths)
    if length_s == 0:
        FileLine(path).refuse("does not state its duration: its rates are rounded to 0")
    trial = trial_of_works(
        [_work(operation) for operation in whole],
        tool="sai3-bench",
        workload=workload,
        length_ns=round(length_s * 1e9),
        threads=None,
        size_bytes=None,
        started_unix_ns=None,
        source={"rows": [dict(row) for _, row in rows]},
        hints=hints,
        is_measured=not path.name.startswith("prepare"),
    )
    return ImportedFile(trials=(trial,))


def _whole_rows(
    rows: Sequence[tuple[FileLine, Mapping[str, str]]],
) -> Sequence[tuple[FileLine, Mapping[str, str]]]:
    """Return the row of all sizes; if there is none, the rows of all size classes."""
    return [row for row in rows if row[1]["size_bucket"] == "ALL"] or rows


def _length_s(place: FileLine, row: Mapping[str, str]) -> tuple[float, float]:
    rate = reading.number(place, "ops_per_sec", row["ops_per_sec"])
    count = reading.whole(place, "count", row["count"])
    return rate, count / rate if rate > RATE_ROUNDED else 0.0


def _work(rows: Sequence[tuple[FileLine, Mapping[str, str]]]) -> Work:
    counts = [reading.whole(place, "count", row["count"], smallest=1) for place, row in rows]
    sizes = [reading.number(place, "avg_bytes", row["avg_bytes"]) for place, row in rows]
    means = [reading.number(place, "mean_us", row["mean_us"]) for place, row in rows]
    longest = [reading.number(place, "max_us", row["max_us"]) for place, row in rows]
    place, first = rows[0]
    # Percentiles of several classes cannot be combined.
    shares = {share: name for share, name in QUANTILES.items() if len(rows) == 1 and name in first}
    count = sum(counts)
    for (row_place, row), number, size in zip(rows, counts, sizes, strict=True):
        rate, length_s = _length_s(row_place, row)
        stated = row.get("throughput_mibps")
        if stated and length_s and size >= 1:
            expected = number * size / MEBIBYTE / length_s
            tolerance = 0.01 + RATE_ROUNDED / rate + RATE_ROUNDED / max(expected, RATE_ROUNDED)
            throughput = reading.number(row_place, "throughput_mibps", stated)
            reading.agree(row_place, "throughput_mibps", throughput, expected, tolerance)
    return Work(
        operation=OPERATIONS.get(first["operation"], first["operation"].lower()),
        requests=count,
        failed=None,
        objects=count if first["operation"] in ("GET", "PUT") else 0,
        bytes=round(sum(number * size for number, size in zip(counts, sizes, strict=True))),
        stated=Stated(
            count=count,
            mean_ns=sum(n * mean for n, mean in zip(counts, means, strict=True))
            / count
            * MICROSECOND_NS,
            min_ns=None,
            max_ns=round(max(longest) * MICROSECOND_NS),
            quantiles_ns={
                share: round(reading.number(place, name, first[name]) * MICROSECOND_NS)
                for share, name in shares.items()
            },
        ),
    )
