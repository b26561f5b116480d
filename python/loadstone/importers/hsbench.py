"""hsbench: a row for each interval and a total for each mode of a loop, as CSV (-o) or JSON (-j).

Its "MB" are 2^20 bytes. Slowdowns are requests that failed after all retries of the AWS SDK, whose
number is not written; neither are threads, size and start. Times of a GET end with the headers.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from loadstone.formats import reading
from loadstone.formats.imported import (
    MEBIBYTE,
    MILLISECOND_NS,
    Hints,
    ImportedFile,
    ImportedTrial,
    Stated,
)
from loadstone.formats.json_document import parse_document
from loadstone.formats.reading import FileLine
from loadstone.importers.totals import Work, trial_of_works

OPERATIONS = {"PUT": "put", "GET": "get", "DEL": "delete", "LIST": "list",
              "BINIT": "create_bucket", "BCLR": "clear_bucket",
              "BDEL": "delete_bucket"}  # fmt: skip
UNMEASURED = ("BINIT", "BCLR", "BDEL")
OF_OBJECTS = ("PUT", "GET", "DEL")
"""Modes whose slowdowns are counted; the column is 0 for failures in other modes."""

COLUMNS = {
    "Loop": "Loop", "Inteval": "IntervalName", "Interval": "IntervalName",
    "Duration(s)": "Seconds", "Mode": "Mode", "Ops": "Ops", "MB/s": "Mbps", "IO/s": "Iops",
    "Min Latency (ms)": "MinLat", "Avg Latency(ms)": "AvgLat", "99% Latency(ms)": "NinetyNineLat",
    "Max Latency(ms)": "MaxLat", "Slowdowns": "Slowdowns",
}  # fmt: skip
"""The JSON names of the CSV columns."""

NEEDED = ("IntervalName", "Seconds", "Mode", "Ops", "Mbps", "Iops", "MinLat", "AvgLat", "MaxLat")
TOTAL = "TOTAL"
REMAINS_HINT = "hsbench does not shorten a file that is there; take what stands above this row"
TOLERANCE = 0.02


def read_file(path: Path, workload: str, hints: Hints) -> ImportedFile:
    """Read results; the total of a mode in a loop is a trial, and loops are repetitions."""
    rows = list(_rows(path))
    _refuse_remains(rows)
    # A mode without requests has a total of zero.
    totals = [
        (place, row) for place, row in rows if row["IntervalName"] == TOTAL and row["Ops"] != "0"
    ]
    if not totals:
        FileLine(path).refuse("has no total of a mode with requests", reading.TRUNCATED)
    return ImportedFile(trials=[_trial(place, row, workload, hints) for place, row in totals])


def _refuse_remains(rows: Sequence[tuple[FileLine, Mapping[str, str]]]) -> None:
    """Refuse remaining rows of an older, longer file, whose beginning hsbench overwrote.

    The intervals of a mode count from 0 and end with their total, and loops are numbered upwards.
    """
    loop, due = 0, 0
    for place, row in rows:
        earlier, loop = loop, reading.whole(place, "Loop", row.get("Loop", "0"))
        is_total = row["IntervalName"] == TOTAL
        is_due = is_total or reading.whole(place, "IntervalName", row["IntervalName"]) == due
        if loop < earlier or not is_due:
            place.refuse("continues no row above it: it is of an older file", REMAINS_HINT)
        due = 0 if is_total else due + 1
    if due:
        rows[-1][0].refuse(
            "has no total of its mode below it", f"{reading.TRUNCATED}; or {REMAINS_HINT}"
        )


def _rows(path: Path) -> Iterator[tuple[FileLine, Mapping[str, str]]]:
    text = reading.read_text(path)
    if text.lstrip().startswith("["):
        document = parse_document(FileLine(path), f'{{"results": {text}}}')
        for node in document.at("results").items():
            for name in NEEDED:
                node.at(name)
            yield FileLine(path), {name: str(node.at(name).value) for name in node.mapping()}
        return
    hint = "give the file of hsbench's -o or -j"
    yield from reading.read_table(path, NEEDED, hint, names=COLUMNS)


def _trial(place: FileLine, row: Mapping[str, str], workload: str, hints: Hints) -> ImportedTrial:
    mode = row["Mode"]
    requests = reading.whole(place, "Ops", row["Ops"])
    seconds, rate, mebibytes, least, mean, most = (
        reading.number(place, name, row[name])
        for name in ("Seconds", "Iops", "Mbps", "MinLat", "AvgLat", "MaxLat")
    )
    # CSV has two decimals for each value.
    if not seconds:
        place.refuse("does not state its duration: it is rounded to 0")
    tolerance = TOLERANCE + 0.005 / seconds
    reading.agree(place, f"{mode}: IO/s", rate, requests / seconds, tolerance)
    # Every object has the requested size.
    size = round(mebibytes * MEBIBYTE * seconds / requests) if mode in ("PUT", "GET") else 0
    high = row.get("NinetyNineLat")
    slow = row.get("Slowdowns")
    return trial_of_works(
        [
            Work(
                operation=OPERATIONS.get(mode, mode.lower()),
                requests=requests,
                failed=reading.whole(place, "Slowdowns", slow)
                if slow is not None and mode in OF_OBJECTS
                else None,
                objects=requests if mode in OF_OBJECTS else 0,
                bytes=round(mebibytes * MEBIBYTE * seconds) if size else 0,
                stated=Stated(
                    count=requests,
                    mean_ns=mean * MILLISECOND_NS,
                    min_ns=round(least * MILLISECOND_NS),
                    max_ns=round(most * MILLISECOND_NS),
                    quantiles_ns={0.99: round(reading.number(place, "99%", high) * MILLISECOND_NS)}
                    if high is not None
                    else {},
                ),
            )
        ],
        tool="hsbench",
        workload=workload,
        length_ns=round(seconds * 1e9),
        threads=None,
        size_bytes=None,
        started_unix_ns=None,
        source=dict(row),
        hints=hints,
        is_measured=mode not in UNMEASURED,
    )
