"""IOR: its table of repetitions, as text, CSV or JSON; a repetition is a trial.

Bytes are computed as rate times duration, both in the table; a request is one transfer. Dates have
no time zone, and a failed verification only causes a warning.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from loadstone.formats import reading
from loadstone.formats.imported import MEBIBYTE, Hints, ImportedFile, ImportedTrial
from loadstone.formats.json_document import JsonNode, read_document
from loadstone.formats.reading import FileLine
from loadstone.importers.totals import Work, trial_of_works

NAMES = {
    "bw(MiB/s)": "bwMiB", "xfer(KiB)": "xferKiB", "block(KiB)": "blockKiB", "open(s)": "openTime",
    "wr/rd(s)": "wrRdTime", "close(s)": "closeTime", "total(s)": "totalTime",
}  # fmt: skip
"""The JSON names of the columns of text and CSV."""

NEEDED = ("bwMiB", "xferKiB", "totalTime")
ACCESSES = ("write", "read")
KIBIBYTE = 2**10
_TASKS = re.compile(r"\s*(?:tasks|clients)\s*[:=]\s*(\d+)")
_COMMAND = re.compile(r"\s*Command line(?: used)?\s*:\s*(.+)")
_VERSION = re.compile(r"IOR-(\S+):")


def read_file(path: Path, workload: str, hints: Hints) -> ImportedFile:
    """Read outputs of IOR."""
    text = reading.read_text(path)
    if re.search(r"^\s*\{", text, re.MULTILINE):
        document = read_document(path)
        rows = list(_json_rows(document))
        facts = [document.find(name) for name in ("Version", "Command line")]
        version, command = (str(fact.value) if fact is not None else None for fact in facts)
    else:
        rows = list(_text_rows(path, text))
        matches = _VERSION.search(text), _COMMAND.search(text)
        version, command = (match[1].strip() if match is not None else None for match in matches)
    if not rows:
        FileLine(path).refuse("has no repetition that moved bytes", reading.TRUNCATED)
    trials = [_trial(place, row, workload, hints) for place, row in rows]
    return ImportedFile(trials=trials, tool_version=version, command=command)


def _text_rows(path: Path, text: str) -> Iterator[tuple[FileLine, Mapping[str, str]]]:
    columns: list[str] = []
    tasks = ""
    for number, line in enumerate(text.split("\n"), start=1):
        place = FileLine(path, number)
        cells = line.split(",") if "," in line else line.split()
        if match := _TASKS.match(line):
            tasks = match[1]
        elif cells[:1] == ["access"] and "total(s)" in cells:
            columns = [NAMES.get(name, name) for name in cells]
        elif columns and cells[:1] and cells[0] in ACCESSES:
            # The summary below the table starts with the same words.
            if len(cells) != len(columns):
                columns = []
                continue
            yield place, {"numTasks": tasks, **dict(zip(columns, cells, strict=True))}
    if not columns and "access" not in text:
        FileLine(path, 1).refuse("is not the output of IOR", "it has a line of access, bw(MiB/s) …")


def _json_rows(document: JsonNode) -> Iterator[tuple[FileLine, Mapping[str, str]]]:
    for test in document.at("tests").items():
        options = test.find("Options") or test.find("Parameters")
        tasks = options.find("tasks") if options is not None else None
        for result in test.at("Results").items():
            repetitions = result.items() if isinstance(result.value, list) else [result]
            for row in repetitions:
                if row.at("access").value in ACCESSES:
                    shown = {name: str(value) for name, value in row.mapping().items()}
                    yield (
                        document.place,
                        {**shown, "numTasks": str(tasks.value) if tasks is not None else ""},
                    )


def _trial(place: FileLine, row: Mapping[str, str], workload: str, hints: Hints) -> ImportedTrial:
    missing = [name for name in NEEDED if name not in row]
    if missing:
        place.refuse(f'has no "{missing[0]}"', reading.TRUNCATED)
    rate, transfer, seconds = (reading.number(place, name, row[name]) for name in NEEDED)
    transfer_bytes = round(transfer * KIBIBYTE)
    if not rate or not seconds or not transfer_bytes:
        place.refuse("moved nothing", reading.TRUNCATED)
    requests = max(1, round(rate * MEBIBYTE * seconds / transfer_bytes))
    tasks = row.get("numTasks", "")
    return trial_of_works(
        [
            Work(
                operation=row["access"],
                requests=requests,
                failed=None,
                bytes=requests * transfer_bytes,
            )
        ],
        tool="ior",
        workload=workload,
        length_ns=round(seconds * 1e9),
        threads=int(tasks) if tasks.isdecimal() else None,
        size_bytes=transfer_bytes,
        started_unix_ns=None,
        source=dict(row),
        hints=hints,
    )
