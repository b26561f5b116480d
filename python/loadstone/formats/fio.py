"""fio: one JSON document per invocation; json+ adds the whole distribution of latencies.

Of a job fio keeps totals, so a trial has no seconds: its requests stand where they were complete,
at the end. Latency is fio's completion latency (clat), from submission to completion; of a job
that distributes its total latency alone (`lat_percentiles`, `disable_clat`), that one (lat).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter
from typing_extensions import TypedDict

from loadstone import units
from loadstone.errors import InputError
from loadstone.formats import reading
from loadstone.formats.imported import SECOND_NS, Hints, Imported, ImportedTrial, Row, Stated
from loadstone.formats.json_document import JsonNode, read_document
from loadstone.formats.reading import LARGEST

DIRECTIONS = ("read", "write", "trim")
TIMES = ("clat_ns", "lat_ns")
TOLERANCE = 0.02
NS_PER_MS = 1_000_000


def read(paths: Sequence[Path], hints: Hints) -> Imported:
    """Read documents of fio; every job is a trial, whose directions are its mix."""
    trials = []
    version = None
    for path in paths:
        version, jobs = read_jobs(path, hints)
        trials += [job.trial for job in jobs]
    totals = [one.workload for one in trials if any("lat_ns" in own for own in one.source.values())]
    return Imported(
        tool="fio",
        name=paths[0].stem,
        trials=tuple(trials),
        tool_version=version,
        notes=tuple(f"{job}: times are fio's lat, which holds submission too" for job in totals),
    )


class JobOptions(TypedDict, total=False):
    """What a job was started with, as far as it is read; fio writes numbers as text."""

    __pydantic_config__ = ConfigDict(coerce_numbers_to_str=True)  # type: ignore[misc]

    bs: str
    iodepth: str
    numjobs: str
    ioengine: str
    direct: str
    filename: str
    rw: str


_OPTIONS = TypeAdapter(JobOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class FioRates:
    """What fio says of one direction; its own samples, the slowest and the fastest, are in KiB."""

    iops: float | None
    bw_bytes: float | None
    bw_min: float | None
    bw_max: float | None
    jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FioJob:
    """A job, or jobs that were reported as a group, with the rates of each direction."""

    trial: ImportedTrial
    rates: Mapping[str, FioRates]


def read_jobs(path: Path, hints: Hints) -> tuple[str, list[FioJob]]:
    """Return fio's version, and the jobs of one document."""
    document = read_document(path)
    version = str(document.at("fio version").value)
    jobs = document.find("jobs")
    if jobs is None or not jobs.items():
        hint = "give the file of --output-format=json, of one host"
        document.place.refuse('has no "jobs"', hint)
    stamp = document.find("timestamp_ms")
    timestamp_ns = stamp.whole(largest=LARGEST // NS_PER_MS) * NS_PER_MS if stamp else 0
    return version, [_job(job, timestamp_ns, hints) for job in jobs.items()]


def _job(job: JsonNode, timestamp_ns: int, hints: Hints) -> FioJob:
    name = str(job.at("jobname").value)
    error = job.find("error")
    if error is not None and error.value:
        raise InputError(f'"{job.place.path}": job "{name}" ended with error {error.value}')
    stated = job.find("job options")
    options = stated.read_as(_OPTIONS) if stated is not None else JobOptions()
    done = [
        (direction, one)
        for direction in DIRECTIONS
        if (one := job.find(direction)) is not None and one.at("total_ios").whole()
    ]
    if not done:
        job.place.refuse(f'job "{name}" did nothing', "was it cut short?")
    runtime_ns = max(_runtime_ms(one) for _, one in done) * NS_PER_MS
    rows = tuple(row for direction, one in done for row in _rows(name, direction, one))
    block = options.get("bs")
    size = hints.size_bytes or (_size(block) if block else None)
    jobs = _whole(options.get("numjobs"), 1)
    threads = hints.threads or _whole(options.get("iodepth"), 1) * jobs
    parameters: dict[str, str | int | float] = {"threads": threads}
    parameters |= {"size": size} if size else {}
    parameters |= {"ioengine": options["ioengine"]} if "ioengine" in options else {}
    parameters |= {"direct": options["direct"]} if "direct" in options else {}
    rates = {direction: _rates(one, jobs) for direction, one in done}
    trial = ImportedTrial(
        target=hints.target or options.get("filename", "fio"),
        workload=name,
        phase=options.get("rw", done[0][0]),
        parameters=parameters,
        clients=threads,
        rows=rows,
        window_ns=(0, runtime_ns),
        # The time stamp is that of the report, written when the job was over.
        started_unix_ns=max(0, timestamp_ns - runtime_ns),
        size_bytes=size,
        stated={
            direction: times
            for direction, one in done
            if (times := _stated(one)) is not None and not _has(_times(one), "bins")
        },
        source={
            direction: {**asdict(rates[direction]), **_source_of_times(one)}
            for direction, one in done
        },
    )
    return FioJob(trial=trial, rates=rates)


def _rates(one: JsonNode, jobs: int) -> FioRates:
    return FioRates(
        iops=_number(one, "iops"),
        bw_bytes=_number(one, "bw_bytes"),
        bw_min=_number(one, "bw_min"),
        bw_max=_number(one, "bw_max"),
        jobs=jobs,
    )


def _runtime_ms(one: JsonNode) -> int:
    return one.at("runtime").whole(largest=LARGEST // NS_PER_MS)


def _number(one: JsonNode, name: str) -> float | None:
    found = one.find(name)
    return None if found is None else found.number()


def _times(one: JsonNode) -> JsonNode | None:
    """Return the times that a job distributes: completion's, else those of the whole."""
    found = [own for name in TIMES if (own := one.find(name)) is not None]
    counted = [own for own in found if own.at("N").whole()]
    spread = [own for own in counted if _has(own, "percentile") or _has(own, "bins")]
    return next(iter([*spread, *counted]), None)


def _has(node: JsonNode | None, name: str) -> bool:
    found = node.find(name) if node is not None else None
    return found is not None and bool(found.mapping())


def _source_of_times(one: JsonNode) -> Mapping[str, Any]:
    found = _times(one)
    if found is None:
        return {}
    return {found.path[-1]: {key: own for key, own in found.mapping().items() if key != "bins"}}


def _stated(one: JsonNode) -> Stated | None:
    """Return the times that plain JSON states: percentiles, and no distribution."""
    found = _times(one)
    if found is None:
        return None
    listed = found.find("percentile")
    quantiles = {
        round(reading.number(one.place, "percentile", share) / 100, 9): ns.whole()
        for share, ns in (listed.entries() if listed is not None else ())
    }
    return Stated(
        count=found.at("N").whole(),
        mean_ns=found.at("mean").number(),
        min_ns=found.at("min").whole(),
        max_ns=found.at("max").whole(),
        quantiles_ns=quantiles,
    )


def _rows(name: str, direction: str, one: JsonNode) -> Iterator[Row]:
    from loadstone._loadgen import Histogram

    requests = one.at("total_ios").whole()
    moved = one.at("io_bytes").whole()
    runtime_ms = _runtime_ms(one)
    what = f'job "{name}", {direction}'
    if runtime_ms:
        rate = one.at("iops").number()
        reading.agree(one.place, f"{what}: iops", rate, requests / runtime_ms * 1000, TOLERANCE)
    service = None
    times = _times(one)
    if times is not None and _has(times, "bins"):
        histogram = Histogram()
        for value, count in times.at("bins").entries():
            histogram.record(max(1, reading.whole(one.place, "bins", value)), count.whole())
        counted = times.at("N").whole()
        reading.agree(one.place, f"{what}: latencies counted", histogram.count, counted, 0.0)
        service = histogram.encode()
    yield Row(
        operation=direction,
        outcome="ok",
        # At the end: no second of the window claims all requests as its own.
        second=runtime_ms * NS_PER_MS // SECOND_NS,
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


def _whole(text: str | None, otherwise: int) -> int:
    try:
        return int(text or "")
    except ValueError:
        return otherwise
