"""fio: one JSON document per invocation; json+ adds the whole distribution of latencies.

Of a job fio keeps totals, so a trial has no seconds: its requests stand where they were complete,
at the end. Latency is fio's completion latency, from submission to completion.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from loadstone import units
from loadstone.errors import InputError
from loadstone.formats import reading
from loadstone.formats.imported import SECOND_NS, Hints, Imported, ImportedTrial, Row
from loadstone.formats.reading import Place

DIRECTIONS = ("read", "write", "trim")
TOLERANCE = 0.02


def read(paths: Sequence[Path], hints: Hints) -> Imported:
    """Read documents of fio; every job is a trial, whose directions are its mix."""
    trials = []
    version = None
    for path in paths:
        document = reading.read_json(path)
        place = Place(path)
        version = str(reading.field(place, document, "fio version"))
        jobs = document.get("jobs")
        if not isinstance(jobs, list) or not jobs:
            place.refuse('has no "jobs"', "give the file of --output-format=json, of one host")
        timestamp_ns = int(document.get("timestamp_ms", 0)) * 1_000_000
        trials += [_trial(place, job, timestamp_ns, hints) for job in jobs]
    return Imported(tool="fio", name=paths[0].stem, trials=tuple(trials), tool_version=version)


def _trial(place: Place, job: Mapping[str, Any], timestamp_ns: int, hints: Hints) -> ImportedTrial:
    name = str(reading.field(place, job, "jobname"))
    if job.get("error"):
        raise InputError(f'"{place.path}": job "{name}" ended with error {job["error"]}')
    options = job.get("job options") or {}
    done = [
        (direction, job[direction])
        for direction in DIRECTIONS
        if direction in job and reading.field(place, job, direction, "total_ios")
    ]
    if not done:
        place.refuse(f'job "{name}" did nothing', "was it cut short?")
    runtime_ns = max(int(reading.field(place, one, "runtime")) for _, one in done) * 1_000_000
    rows = tuple(row for direction, one in done for row in _rows(place, name, direction, one))
    block = options.get("bs")
    size = hints.size_bytes or (_size(str(block)) if block else None)
    depth = _whole(options.get("iodepth"), 1) * _whole(options.get("numjobs"), 1)
    threads = hints.threads or depth
    parameters: dict[str, str | int | float] = {"threads": threads}
    parameters |= {"size": size} if size else {}
    parameters |= {key: str(options[key]) for key in ("ioengine", "direct") if key in options}
    return ImportedTrial(
        target=hints.target or str(options.get("filename", "fio")),
        workload=name,
        phase=str(options.get("rw", done[0][0])),
        parameters=parameters,
        clients=threads,
        rows=rows,
        window_ns=(0, runtime_ns),
        # The time stamp is that of the report, written when the job was over.
        started_unix_ns=max(0, timestamp_ns - runtime_ns),
        size_bytes=size,
        source={
            direction: {
                "iops": one.get("iops"),
                "bw_bytes": one.get("bw_bytes"),
                "bw_min": one.get("bw_min"),
                "bw_max": one.get("bw_max"),
                "jobs": _whole(options.get("numjobs"), 1),
                "clat_ns": {
                    key: value for key, value in (one.get("clat_ns") or {}).items() if key != "bins"
                },
            }
            for direction, one in done
        },
    )


def _rows(place: Place, name: str, direction: str, one: Mapping[str, Any]) -> Iterator[Row]:
    from loadstone._loadgen import Histogram

    requests = int(reading.field(place, one, "total_ios"))
    moved = int(reading.field(place, one, "io_bytes"))
    runtime_ms = int(reading.field(place, one, "runtime"))
    what = f'job "{name}", {direction}'
    if runtime_ms:
        rate = float(reading.field(place, one, "iops"))
        reading.agree(place, f"{what}: iops", rate, requests / runtime_ms * 1000, TOLERANCE)
    bins = (one.get("clat_ns") or {}).get("bins")
    service = None
    if bins:
        histogram = Histogram()
        for value, count in bins.items():
            histogram.record(max(1, int(value)), int(count))
        reading.agree(
            place, f"{what}: latencies counted", histogram.count, int(one["clat_ns"]["N"]), 0.0
        )
        service = histogram.encode()
    yield Row(
        operation=direction,
        outcome="ok",
        # At the end: no second of the window claims all requests as its own.
        second=runtime_ms * 1_000_000 // SECOND_NS,
        requests=requests,
        objects=0,
        bytes=moved,
        service=service,
    )


def _size(text: str) -> int | None:
    """Return fio's own reading of a size: k, m and g are powers of two."""
    try:
        return units.parse_size(text.upper() if text[-1:] in "kmgt" else text)
    except InputError:
        return None


def _whole(value: object, otherwise: int) -> int:
    try:
        return int(str(value))
    except ValueError:
        return otherwise
