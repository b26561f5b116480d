"""mdtest: its summary of rates; each operation is a trial of all its files or directories.

The time of an operation follows from its number and its rate. For several iterations the summary
has mean, extremes and deviation: the trial uses the mean. Operations of the first rank alone, to
make and remove the tree, are left out.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from loadstone.formats import reading
from loadstone.formats.imported import Hints, ImportedFile, ImportedTrial
from loadstone.formats.reading import FileLine
from loadstone.importers.totals import Work, trial_of_works

OPERATIONS = {
    "creation": "create", "stat": "stat", "read": "read", "removal": "delete", "rename": "rename",
}  # fmt: skip
_LAUNCHED = re.compile(r"\s*mdtest-(\S+) was launched with (\d+) total task")
_COMMAND = re.compile(r"\s*Command line used: (.+)")
_ITEMS = re.compile(r"\s*(\d+) tasks, (\d+) (?:files|directories|file)")
_STOPPED = re.compile(r"\s*Continue stonewall hit min: \d+ max: (\d+)")
"""The time limit (-W) ended the creation: each task makes as many files as the fastest one."""

_RATES = re.compile(r"\s*SUMMARY(?: rate\b.*|:)\s*\(of (\d+) iterations\)")
_TIMES = re.compile(r"\s*SUMMARY time\b")
_ROW = re.compile(
    r"\s*(File|Directory) (creation|stat|read|removal|rename)\s*:?"
    r"((?:\s+[\d.]+(?:e[+-]?\d+)?){4,7})\s*"
)


def read_file(path: Path, workload: str, hints: Hints) -> ImportedFile:
    """Read outputs of mdtest."""
    text = reading.read_text(path)
    launched, line = _LAUNCHED.search(text), _COMMAND.search(text)
    notes: list[str] = []
    trials = list(_trials(path, text, workload, hints, notes))
    if not trials:
        FileLine(path).refuse("has no summary of rates", reading.TRUNCATED)
    return ImportedFile(
        trials=trials,
        tool_version=launched[1] if launched is not None else None,
        command=line[1].strip() if line is not None else None,
        notes=notes,
    )


def _trials(
    path: Path, text: str, workload: str, hints: Hints, notes: list[str]
) -> Iterator[ImportedTrial]:
    tasks = items = iterations = 0
    stopped: list[int] = []
    for number, line in enumerate(text.split("\n"), start=1):
        place = FileLine(path, number)
        if match := _ITEMS.match(line):
            tasks, items = (reading.whole(place, "tasks", cell) for cell in match.groups())
            stopped = []
        elif match := _STOPPED.match(line):
            stopped.append(reading.whole(place, "max", match[1]))
        elif match := _RATES.match(line):
            iterations = reading.whole(place, "iterations", match[1], smallest=1)
        elif _TIMES.match(line):
            iterations = 0
        elif iterations and (match := _ROW.fullmatch(line)):
            # Rates of each rank come first, if they were requested.
            most, least, mean, deviation = (
                reading.number(place, "rate", cell) for cell in match[3].split()[-4:]
            )
            if not least <= mean <= most:
                place.refuse(f"its mean {mean:g} is not between {least:g} and {most:g}")
            if not mean:
                continue
            if not items:
                place.refuse(
                    "does not state the number of files", 'it has a line "N tasks, M files"'
                )
            files = stopped[0] * tasks if stopped and match[1] == "File" else items
            if stopped and iterations > 1:
                place.refuse(
                    "does not state the number of files: the time limit (-W) ended each of"
                    f" {iterations} iterations after another number",
                    "run mdtest with -W for one iteration (-i 1) at a time",
                )
            if iterations > 1:
                notes.append(
                    f"{path.name}: rates are the means of {iterations} iterations, of which mdtest"
                    " does not print each"
                )
            yield trial_of_works(
                [Work(operation=OPERATIONS[match[2]], requests=files, failed=None)],
                tool="mdtest",
                workload=f"{workload} {match[1].lower()} {match[2]}",
                length_ns=round(files / mean * 1e9),
                threads=tasks,
                size_bytes=None,
                started_unix_ns=None,
                source={"max": most, "min": least, "stddev": deviation, "iterations": iterations},
                hints=hints,
            )
