"""Datasafe's log: percentiles and a rate per thread of each operation, without single requests.

A log is from one client, which it does not name: NAME=FILE does. Several logs of one client, and
loads that occur several times in a log, are repetitions. The tool divides by the sum of latencies,
so its rate is threads over mean latency. It becomes an account instead of a run, because nothing in
it was counted over time.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from loadstone.analysis.accounts.account import (
    RATE,
    THREAD_RATE,
    Account,
    Disclosure,
    Measurement,
    Parameter,
)
from loadstone.errors import InputError
from loadstone.formats import reading
from loadstone.formats.imported import Hints
from loadstone.formats.reading import FileLine

_HEAD = re.compile(r"==== Statistics for (\w+) with (\d+) threads and (\d+) Kb filesize: ====")
_LINE = re.compile(
    r" - (\w+) : StatisticService\.Percentiles\(stat=\{([^}]*)\}, throughputPerThread=([^)]*)\)"
)
_STAT = re.compile(r"(\d+)=([^,\s]+)")
QUANTILES = ("50", "75", "90", "95", "99")
ONE_BY_ONE = ("CREATE_USER",)
"""Operations that one thread does before the others start: their rate is the client's."""


def read(paths: Sequence[Path], hints: Hints) -> Account:
    """Read logs; rates are given per thread, as printed, and for all threads."""
    named = [reading.named_file(path) for path in paths]
    if len({name is None for name, _ in named}) > 1:
        raise InputError(
            "some logs have a client's name before them and others have none",
            "name the client of each: m5.large=FILE",
        )
    repetitions: Counter[object] = Counter()
    measurements: list[Measurement] = []
    for client, path in named:
        of_client = list(_measurements(path, client, repetitions, hints))
        if not of_client:
            FileLine(path).refuse(
                "has no statistics of Datasafe", 'they begin with "==== Statistics for"'
            )
        measurements += of_client
    files = [path for _, path in named]
    return Account(
        name=", ".join(path.stem for path in files),
        title=f"Datasafe log {', '.join(path.name for path in files)}",
        measurements=tuple(measurements),
        disclosure=Disclosure(loop="closed"),
    )


def _measurements(
    path: Path, client: str | None, repetitions: Counter[object], hints: Hints
) -> Iterator[Measurement]:
    load: tuple[str, int, int] | None = None
    for number, line in enumerate(reading.read_text(path).splitlines(), start=1):
        place = FileLine(path, number)
        head = _HEAD.search(line)
        if head is not None:
            threads = reading.whole(place, "threads", head[2])
            load = (head[1], threads, reading.whole(place, "filesize", head[3]))
            repetitions[client, load] += 1
            continue
        if "StatisticService.Percentiles" not in line:
            continue
        match = _LINE.search(line)
        if match is None:
            place.refuse("is cut off", reading.TRUNCATED)
        if load is None:
            place.refuse("comes before the name of any load", reading.TRUNCATED)
        facts: dict[str, Parameter] = {} if client is None else {"client": client}
        yield from _line(place, match, load, facts, repetitions[client, load], hints)


def _line(
    place: FileLine,
    match: re.Match[str],
    load: tuple[str, int, int],
    facts: Mapping[str, Parameter],
    repetition: int,
    hints: Hints,
) -> Iterator[Measurement]:
    provider, threads, size_kib = load
    stat = dict(_STAT.findall(match[2]))
    # `--table datasafe` leaves out percentiles with too few actions.
    known = [name for name in QUANTILES if name in stat]
    if len(known) < match[2].count("="):
        place.refuse(f"found percentiles {{{match[2]}}}", f"known are {', '.join(QUANTILES)}")
    values = [reading.number(place, name, stat[name]) for name in known]
    if values != sorted(values):
        place.refuse(f"its percentiles do not rise: {match[2]}", reading.EDITED)
    rate = reading.number(place, "throughputPerThread", match[3])
    texts = {
        f"service_ns_p{name}": (1e6 * value, stat[name])
        for name, value in zip(known, values, strict=True)
    }
    # If only one thread works, the client's rate is that thread's.
    working = 1 if match[1] in ONE_BY_ONE else threads
    numbers = {**texts, THREAD_RATE: (rate, match[3]), RATE: (working * rate, repr(working * rate))}
    for metric, (value, text) in numbers.items():
        yield Measurement(
            target=hints.target or provider,
            workload="random actions",
            operation=match[1].lower(),
            parameters={**facts, "size": 1024 * size_kib, "threads": threads},
            metric=metric,
            value=value,
            text=text,
            repetition=repetition,
            place=f"{place.path}, line {place.line}",
            tool="datasafe",
        )
