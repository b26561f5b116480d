"""COSBench: the table of a workload in its archive, a row for each operation of each stage.

Times are in milliseconds, in classes of ten. Rates are operations per second of the stage's window,
which no table states and which is therefore computed from both. Dates have no time zone.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from loadstone.formats import reading
from loadstone.formats.imported import MILLISECOND_NS, Hints, ImportedFile, ImportedTrial, Stated
from loadstone.formats.reading import FileLine
from loadstone.importers.totals import Work, trial_of_works

NEEDED = ("Op-Name", "Op-Count", "Byte-Count", "Throughput", "Bandwidth", "Succ-Ratio")
OPERATIONS = {"read": "get", "write": "put", "filewrite": "put", "prepare": "put",
              "cleanup": "delete", "init": "create_bucket", "dispose": "delete_bucket"}  # fmt: skip
MOVING = ("get", "put")
UNMEASURED = ("init", "prepare", "cleanup", "dispose", "delay")
NONE = "N/A"
QUANTILES = {0.6: "60%-ResTime", 0.8: "80%-ResTime", 0.9: "90%-ResTime", 0.95: "95%-ResTime",
             0.99: "99%-ResTime"}  # fmt: skip
RATE_ROUNDED = 0.005
"""COSBench prints two decimals."""

RATIO_ROUNDED = 0.000_05
"""It prints two decimals of a percentage."""


def read_file(path: Path, workload: str, hints: Hints) -> ImportedFile:
    """Read tables of workloads; the operations of a stage are a trial."""
    notes: list[str] = []
    trials = tuple(_trials(path, workload, hints, notes))
    return ImportedFile(trials=trials, notes=notes)


def _trials(path: Path, workload: str, hints: Hints, notes: list[str]) -> Iterator[ImportedTrial]:
    stages: dict[str, list[tuple[FileLine, Mapping[str, str]]]] = {}
    for place, row in _rows(path):
        # A stage without operations, such as a delay, has a row without numbers.
        if row["Op-Count"] not in (NONE, ""):
            stages.setdefault(row.get("Stage") or row.get("Id") or "", []).append((place, row))
    done = {stage: [line for line in rows if _has_done(line[1])] for stage, rows in stages.items()}
    if not any(done.values()):
        FileLine(path).refuse("has no operation with requests", reading.TRUNCATED)
    for stage, rows in stages.items():
        windows = [_window_s(place, row) for place, row in done[stage]]
        if not windows:
            continue
        workers = {row.get("Worker-Count", NONE) for _, row in rows}
        threads = workers.pop() if len(workers) == 1 else NONE
        yield trial_of_works(
            [_work(place, row, notes) for place, row in rows],
            tool="cosbench",
            workload=f"{workload} {stage}".strip(),
            length_ns=round(max(windows) * 1e9),
            threads=int(threads) if threads.isdecimal() else None,
            size_bytes=_size([row for _, row in done[stage]]),
            started_unix_ns=None,
            source={row["Op-Name"]: dict(row) for _, row in rows},
            hints=hints,
            is_measured=not any(row["Op-Name"].split("-")[0] in UNMEASURED for _, row in rows),
        )


def _has_done(row: Mapping[str, str]) -> bool:
    return row["Op-Count"] != "0"


def _rows(path: Path) -> Iterator[tuple[FileLine, Mapping[str, str]]]:
    lines = reading.read_text(path).split("\n")
    columns = reading.split_cells(FileLine(path, 1), lines[0])
    hint = (
        "give the table of a workload: archive/w1-NAME/w1-NAME.csv, not that of a stage over"
        " time, nor run-history.csv"
    )
    reading.check_columns(FileLine(path, 1), columns, NEEDED, hint)
    for number, line in enumerate(lines[1:], start=2):
        place = FileLine(path, number)
        cells = reading.split_cells(place, line)
        # The last column, the history of states, contains commas.
        if line and len(cells) < len(columns) - 1:
            place.refuse(
                f"has {len(cells)} fields, the header has {len(columns)}", reading.TRUNCATED
            )
        if line:
            yield place, dict(zip(columns, cells, strict=False))


def _window_s(place: FileLine, row: Mapping[str, str]) -> float:
    count = reading.whole(place, "Op-Count", row["Op-Count"])
    rate = reading.number(place, "Throughput", row["Throughput"])
    if rate < RATE_ROUNDED:
        place.refuse("does not state its duration: its rate is rounded to 0")
    seconds = count / rate
    moved = reading.whole(place, "Byte-Count", row["Byte-Count"])
    if moved:
        bandwidth = reading.number(place, "Bandwidth", row["Bandwidth"])
        tolerance = 0.01 + RATE_ROUNDED / rate
        reading.agree(place, "Bandwidth", bandwidth, moved / seconds, tolerance)
    return seconds


def _work(place: FileLine, row: Mapping[str, str], notes: list[str]) -> Work:
    name = row["Op-Name"]
    operation = OPERATIONS.get(name, name)
    count = reading.whole(place, "Op-Count", row["Op-Count"])
    moved = reading.whole(place, "Byte-Count", row["Byte-Count"])
    return Work(
        operation=operation,
        requests=count,
        failed=_failed(place, name, count, row["Succ-Ratio"], notes),
        objects=count if operation in (*MOVING, "delete") else 0,
        bytes=moved if moved and (operation in MOVING or "-" in name) else 0,
        stated=_stated(place, row, count),
    )


def _failed(place: FileLine, name: str, count: int, ratio: str, notes: list[str]) -> int | None:
    """Return the number of failed requests; None if the ratio is too imprecise."""
    if not count:
        notes.append(f"{name} has no good request; how many failed, if any, is not stated")
        return None
    share = reading.number(place, "Succ-Ratio", ratio.rstrip("%")) / 100 if ratio != NONE else 0
    if share > 1:
        place.refuse(f"found {ratio}, expected a share of all", reading.EDITED, "Succ-Ratio")
    if share <= RATIO_ROUNDED:
        return None
    least, most = (
        round(count / min(1, share + off) - count) for off in (RATIO_ROUNDED, -RATIO_ROUNDED)
    )
    if least != most and share < 1:
        notes.append(f"{name}: {least} to {most} requests failed, of which the ratio is rounded")
    return least if least == most else None


def _stated(place: FileLine, row: Mapping[str, str], count: int) -> Stated | None:
    mean, most = row.get("Avg-ResTime", NONE), row.get("100%-ResTime", NONE)
    if NONE in (mean, most):
        return None
    return Stated(
        count=count,
        mean_ns=reading.number(place, "Avg-ResTime", mean) * MILLISECOND_NS,
        min_ns=None,
        max_ns=reading.whole(place, "100%-ResTime", most) * MILLISECOND_NS,
        quantiles_ns={
            share: reading.whole(place, name, row[name]) * MILLISECOND_NS
            for share, name in QUANTILES.items()
            if row.get(name, NONE) != NONE
        },
    )


def _size(rows: Sequence[Mapping[str, str]]) -> int | None:
    """Return the size of an object, if all operations moved the same number of bytes."""
    moved = [(int(row["Byte-Count"]), int(row["Op-Count"])) for row in rows]
    sizes = {total // count for total, count in moved if total}
    are_whole = all(total % count == 0 for total, count in moved)
    return sizes.pop() if len(sizes) == 1 and are_whole else None
