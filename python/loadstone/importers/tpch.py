"""Times of TPC-H queries: a log of queries as they ran, or lines of averages and details.

`## Running tpch query #6, ...` followed by `elapsed: Double = 5.9` is one time; a query without an
elapsed time failed and is counted as such. `Q06, avg: 5.9, detail: [5.8, 5.7]` has all times of
one.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from loadstone.analysis.accounts.account import SECONDS, Account, Disclosure, Measurement
from loadstone.formats import reading
from loadstone.formats.imported import Hints
from loadstone.formats.reading import FileLine

_RUNNING = re.compile(r"## Running tpch query #(\d{1,9})")
_ELAPSED = re.compile(r"elapsed: Double = (\S+)")
_DETAIL = re.compile(r"Q(\d{1,9}), avg:\s*([\d.]*), detail: \[([^\]]*)(\])?")

Time = tuple[FileLine, int, int, str]
"""Its place, the query, the repetition, and the seconds as printed."""


def read(paths: Sequence[Path], hints: Hints) -> Account:
    """Read one file per system; NAME=FILE, the hint, or the file's name gives the system's name."""
    measurements: list[Measurement] = []
    named = [reading.named_file(path) for path in paths]
    for name, path in named:
        hint = hints.target if len(paths) == 1 else None
        target = name or hint or path.stem
        times = list(_times(path))
        if not times:
            FileLine(path).refuse(
                "has no times of queries", 'lines such as "Q01, avg: 11.4, detail: [10.0, 14.8]"'
            )
        measurements += [_measurement(target, time) for time in times]
    return Account(
        name=", ".join(name or path.stem for name, path in named),
        title="times of queries derived from TPC-H",
        measurements=tuple(measurements),
        disclosure=Disclosure(replication_unit="repetition of the query", all_trials_listed=True),
    )


def _times(path: Path) -> Iterator[Time]:
    counts: dict[int, int] = {}
    running: int | None = None
    for number, line in enumerate(reading.read_text(path).splitlines(), start=1):
        place = FileLine(path, number)
        if match := _RUNNING.search(line):
            running = int(match[1])
        elif match := _ELAPSED.search(line):
            if running is None:
                place.refuse("a time without the query that took it", reading.TRUNCATED)
            counts[running] = counts.get(running, 0) + 1
            yield place, running, counts[running], match[1]
            running = None
        elif match := _DETAIL.search(line):
            yield from _detail(place, match)


def _detail(place: FileLine, match: re.Match[str]) -> Iterator[Time]:
    if match[4] is None:
        place.refuse("its list of times has no end", reading.TRUNCATED)
    texts = [text.strip() for text in match[3].split(",") if text.strip()]
    values = [reading.number(place, "detail", text) for text in texts]
    if not values:
        return
    mean = sum(values) / len(values)
    if match[2] and abs(reading.number(place, "avg", match[2]) - mean) > 0.051:
        place.refuse(f"its average {match[2]} is not that of its times, {mean:.2f}", reading.EDITED)
    for repetition, text in enumerate(texts, start=1):
        yield place, int(match[1]), repetition, text


def _measurement(target: str, time: Time) -> Measurement:
    place, query, repetition, text = time
    return Measurement(
        target=target,
        workload="TPC-H derived",
        operation="query",
        parameters={"query": f"Q{query:02d}"},
        metric=SECONDS,
        value=reading.number(place, "elapsed", text),
        text=text,
        repetition=repetition,
        place=f"{place.path}, line {place.line}",
        tool="tpch",
    )
