"""hummingbird bench: a block of text per operation, before nectar had its own benchmarks.

Each block has the number of requests, their rate, failures and times of all requests, including
failed ones. The times lack a maximum, and stay in the trial's source.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from loadstone.formats import reading
from loadstone.formats.imported import LONGEST_S, SECOND_NS, Hints, ImportedFile, ImportedTrial
from loadstone.formats.reading import FileLine
from loadstone.importers.totals import Work, trial_of_works

MOVING = ("put", "get")
_LOAD = re.compile(r"Hbird Bench\. Concurrency: (\d+)\. Object size in bytes: (\d+)")
_BLOCK = re.compile(r"(PUT|GET|DELETE)(?:s: (\d+)| (\d+) objects) @ ([\d.]+)/s")
_FAILURES = re.compile(r"  Failures: (\d+)")
_ERRORS = re.compile(r"(Put|Get|Delete) errors: (\d+)")
_TIME = re.compile(r"  (Mean|Median|\d\d%): ([\d.]+)s.*")


def read_file(path: Path, workload: str, hints: Hints) -> ImportedFile:
    """Read outputs; each block is a trial."""
    threads = size = None
    blocks: list[tuple[FileLine, str, int, float]] = []
    failed: dict[str, int] = {}
    times: dict[str, dict[str, float]] = {}
    for number, line in enumerate(reading.read_text(path).splitlines(), start=1):
        place = FileLine(path, number)
        operation = blocks[-1][1] if blocks else ""
        if match := _LOAD.match(line):
            threads = reading.whole(place, "Concurrency", match[1], smallest=1)
            size = reading.whole(place, "Object size", match[2])
        elif match := _BLOCK.fullmatch(line):
            operation = match[1].lower()
            if operation in times:
                place.refuse(f"has a second block of {match[1]}", "give each run a file of its own")
            requests = reading.whole(place, match[1], match[2] or match[3], smallest=1)
            blocks.append((place, operation, requests, reading.number(place, "rate", match[4])))
            times[operation] = {}
            if match[3]:
                # Early versions list failures at the end, and only for operations with failures.
                failed[operation] = 0
        elif blocks and (match := _FAILURES.fullmatch(line)):
            failed[operation] = reading.whole(place, "Failures", match[1])
        elif blocks and (match := _ERRORS.fullmatch(line)):
            failed[match[1].lower()] = reading.whole(place, "errors", match[2])
        elif blocks and (match := _TIME.fullmatch(line)):
            times[operation][match[1]] = reading.number(place, match[1], match[2])
    if not blocks:
        FileLine(path, 1).refuse(
            "is not output of hummingbird bench", 'it has a line like "PUTs: 5000 @ 512.30/s"'
        )
    return ImportedFile(
        trials=[
            _trial(block, workload, threads, size, failed.get(block[1]), times[block[1]], hints)
            for block in blocks
        ]
    )


def _trial(
    block: tuple[FileLine, str, int, float],
    workload: str,
    threads: int | None,
    size: int | None,
    failed: int | None,
    times_s: Mapping[str, float],
    hints: Hints,
) -> ImportedTrial:
    place, operation, requests, rate = block
    if not rate or requests / rate > LONGEST_S:
        place.refuse("does not state its duration: its rate is rounded to 0")
    if failed is not None and failed > requests:
        place.refuse(f"states that {failed} of {requests} requests failed")
    good = requests - (failed or 0)
    moved = good * (size or hints.size_bytes or 0) if operation in MOVING else 0
    return trial_of_works(
        [Work(operation=operation, requests=good, failed=failed, objects=good, bytes=moved)],
        tool="hummingbird",
        workload=workload,
        length_ns=round(requests / rate * SECOND_NS),
        threads=threads,
        size_bytes=size,
        started_unix_ns=None,
        source={"requests": requests, "rate": rate, "failures": failed, "times_s": dict(times_s)},
        hints=hints,
    )
