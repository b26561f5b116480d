"""fio: one JSON document per invocation; json+ adds the whole distribution of latencies.

fio keeps totals per job, so a trial has no seconds: all its requests are counted at the end.
Latency is fio's completion latency (clat), or its total latency (lat) if a job only has percentiles
of that (`lat_percentiles`, `disable_clat`). `fio_direction` determines units from names, which
depend on the version.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter
from typing_extensions import TypedDict

from loadstone.errors import InputError
from loadstone.formats.fio_direction import (
    KIBIBYTE,
    NS_PER_MS,
    has,
    optional_number,
    rows_of,
    runtime_ms,
    source_of_times,
    stated_times,
    times_of,
    total_requests,
)
from loadstone.formats.imported import (
    SECOND_NS,
    Hints,
    Imported,
    ImportedTrial,
    join_parts,
    load_parameters,
    settle,
    stem_of,
)
from loadstone.formats.json_document import JsonNode, read_document
from loadstone.formats.reading import LARGEST

DIRECTIONS = ("read", "write", "trim")
UNIFIED = "mixed"
"""The direction that `unified_rw_reporting` writes instead of the three."""

PACED = ("rate_iops", "rate", "thinktime")
ALL_CLIENTS = "All clients"
JOB_OVERHEAD_MS = 50
"""How much longer a job may take than its requests."""


def read(paths: Sequence[Path], hints: Hints) -> Imported:
    """Read documents of fio; jobs of one name and group are a trial, with their directions as a
    mix.
    """
    files = []
    version = None
    notes: list[str] = []
    for path in paths:
        version, jobs = read_jobs(path, hints)
        files.append([job.trial for job in jobs])
        notes += (note for job in jobs for note in job.notes)
        notes += _side_by_side(jobs)
    return Imported(
        tool="fio",
        name=stem_of(paths[0]),
        trials=settle(files, hints),
        tool_version=version,
        notes=tuple(dict.fromkeys(notes)),
    )


class JobOptions(TypedDict, total=False):
    """The used options of a job; fio writes numbers as text."""

    __pydantic_config__ = ConfigDict(coerce_numbers_to_str=True)  # type: ignore[misc]

    bs: str
    iodepth: str
    numjobs: str
    ioengine: str
    direct: str
    filename: str
    rw: str
    rate: str
    rate_iops: str
    thinktime: str
    continue_on_error: str
    group_reporting: str


_OPTIONS = TypeAdapter(JobOptions)
_ALIASES = {"blocksize": "bs", "readwrite": "rw"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FioRates:
    """The rates of one direction; those of the slowest and fastest sample are in KiB/s.

    `jobs` is the number of jobs behind them, if known.
    """

    iops: float | None
    bw_bytes: float | None
    bw_min: float | None
    bw_max: float | None
    jobs: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FioJob:
    """Jobs of one name that ran at the same time, with the rates of each direction."""

    trial: ImportedTrial
    rates: Mapping[str, FioRates]
    group: int | None
    notes: tuple[str, ...]


def read_jobs(path: Path, hints: Hints) -> tuple[str, list[FioJob]]:
    """Return fio's version, and the jobs of the last document of a file.

    Entries with equal names and groups ran at the same time, such as one job on several hosts
    (`--client`).
    """
    document = read_document(path)
    version = str(document.at("fio version").value)
    entries = document.find("jobs") or document.find("client_stats")
    if entries is None or not entries.items():
        document.place.refuse('has no "jobs"', "give the file of --output-format=json")
    groups: dict[tuple[str, int | None], list[JsonNode]] = {}
    for entry in entries.items():
        name = str(entry.at("jobname").value)
        # Skips the sum over all hosts, which is listed next to them.
        if name != ALL_CLIENTS or entry.find("hostname") is None:
            group = entry.find("groupid")
            number = group.whole() if group is not None else None
            groups.setdefault((name, number), []).append(entry)
    last = max((number for _, number in groups if number is not None), default=None)
    jobs = []
    for (name, number), members in groups.items():
        done = [member for member in members if _directions(member)]
        for member in members:
            _refuse_error(member, name)
        if not done:
            members[0].place.refuse(f'job "{name}" did nothing', "was it cut short?")
        # The time stamp is that of the report, written after the last group.
        ended_ns = _ended_ns(document) if number == last else None
        jobs.append(_job(name, number, done, document, ended_ns, hints))
    return version, jobs


def _refuse_error(entry: JsonNode, name: str) -> None:
    error = entry.find("error")
    if error is not None and error.value:
        raise InputError(f'"{entry.place.path}": job "{name}" ended with error {error.value}')


def _ended_ns(document: JsonNode) -> int | None:
    """Return when the report was written, in Unix nanoseconds; whole seconds until 2.12, None until
    2.2.5.
    """
    stamp = document.find("timestamp_ms")
    if stamp is not None:
        return stamp.whole(largest=LARGEST // NS_PER_MS) * NS_PER_MS
    seconds = document.find("timestamp")
    return None if seconds is None else seconds.whole(largest=LARGEST // SECOND_NS) * SECOND_NS


def _directions(entry: JsonNode) -> list[tuple[str, JsonNode]]:
    """Return the directions in which a job made requests."""
    directions = [
        (name, node) for name in DIRECTIONS if (node := entry.find(name)) and _has_done(node)
    ]
    unified = entry.find(UNIFIED)
    # `unified_rw_reporting=both` writes the sum in addition to its parts.
    return directions or [(UNIFIED, unified)] if unified and _has_done(unified) else directions


def _has_done(node: JsonNode) -> bool:
    total = node.find("total_ios")
    return bool(total.whole() if total is not None else node.at("io_bytes").whole())


def _options(document: JsonNode, entry: JsonNode, *, is_of_several: bool) -> JobOptions | None:
    """Return a job's options merged over the global ones; None if fio wrote neither.

    The sum of several sections has the options of one of them; only the global ones are of all.
    """
    shared = document.find("global options")
    of_job = None if is_of_several else entry.find("job options")
    host = entry.find("hostname")
    sections: list[Mapping[str, Any]] = []
    if shared is not None and isinstance(shared.value, list):
        # With several hosts, each has its own section (since 3.39).
        for item in shared.items():
            of_host = item.find("hostname")
            if host is None or of_host is None or of_host.value == host.value:
                sections.append(item.mapping())
    elif shared is not None:
        sections.append(shared.mapping())
    sections += [of_job.mapping()] if of_job is not None else []
    if not any(sections):
        return None
    merged = {_ALIASES.get(name, name): v for section in sections for name, v in section.items()}
    return JsonNode(entry.place, merged, (*entry.path, "job options")).read_as(_OPTIONS)


def _job(
    name: str,
    group: int | None,
    entries: Sequence[JsonNode],
    document: JsonNode,
    ended_ns: int | None,
    hints: Hints,
) -> FioJob:
    parts = []
    notes: list[str] = []
    hosts = Counter(map(_host, entries))
    for entry in entries:
        options = _options(document, entry, is_of_several=False)
        jobs = _count_jobs(options, hosts[_host(entry)])
        if _is_of_several(entry, options, jobs):
            options, jobs = _options(document, entry, is_of_several=True), None
            notes.append(
                f"{name}: is a sum over jobs of several sections (group_reporting): how many they"
                " were, and the options of each, are not known"
            )
        parts.append((_entry(name, entry, options, jobs, ended_ns, hints), jobs))
        notes += _notes(name, entry)
    trial = join_parts([part for part, _ in parts])
    if len(parts) > 1:
        notes.append(
            f"{name}: {len(parts)} jobs ran at the same time, and are one trial"
            + ("" if _has_all_bins(entries) else "; their percentiles do not add up")
        )
    targets = {part.target for part, _ in parts}
    trial = replace(
        trial,
        target=targets.pop() if len(targets) == 1 else "fio",
        clients=hints.threads or trial.clients,
        parameters={**trial.parameters, **load_parameters(hints.threads, None)},
    )
    counts = [jobs for _, jobs in parts]
    count = sum(count for count in counts if count is not None) if None not in counts else None
    directions = dict.fromkeys(row.operation for row in trial.rows)
    return FioJob(
        trial=trial,
        rates={direction: _rates(direction, entries, count) for direction in directions},
        group=group,
        notes=tuple(notes),
    )


def _host(entry: JsonNode) -> tuple[str, str]:
    """Return the host and port of the server that ran an entry's jobs, with `--client`."""
    host, port = entry.find("hostname"), entry.find("port")
    return ("" if host is None else str(host.value), "" if port is None else str(port.value))


def _count_jobs(options: JobOptions | None, entries: int) -> int | None:
    """Return the number of jobs in one entry; None if the file does not state it.

    Jobs that are not reported as a group have an entry each on their host; a single entry may
    contain several.
    """
    if entries > 1:
        return 1
    if options is None:
        return None
    if "numjobs" in options:
        return _whole(options["numjobs"])
    return None if "group_reporting" in options else 1


def _is_of_several(entry: JsonNode, options: JobOptions | None, jobs: int | None) -> bool:
    """Tell whether an entry sums up jobs of several sections, which no option says.

    It then ran for longer than its jobs can have, or did what they cannot.
    """
    done = _directions(entry)
    kind = (options or {}).get("rw", "").partition(":")[0].removeprefix("rand")
    if kind in DIRECTIONS and not {direction for direction, _ in done} <= {kind, UNIFIED}:
        return True
    total = entry.find("job_runtime")
    if total is None or jobs is None:
        return False
    longest_ms = max(runtime_ms(node) for _, node in done)
    return total.number() > jobs * (1.05 * longest_ms + JOB_OVERHEAD_MS)


def _entry(
    name: str,
    entry: JsonNode,
    stated: JobOptions | None,
    jobs: int | None,
    ended_ns: int | None,
    hints: Hints,
) -> ImportedTrial:
    options = stated or JobOptions()
    done = _directions(entry)
    runtime_ns = max(runtime_ms(node) for _, node in done) * NS_PER_MS
    failed = entry.find("total_err")
    failures = failed.whole() if failed is not None else 0
    rows = [row for direction, node in done for row in rows_of(name, direction, node)]
    if failures and len(rows) == 1:
        # fio counts requests when it submits them.
        (row,) = rows
        good = replace(row, requests=max(0, row.requests - failures))
        bad = replace(row, outcome="unknown", requests=failures, bytes=0, service=None)
        rows = [row for row in (good, bad) if row.requests]
    block = options.get("bs")
    size = hints.size_bytes or (_size(block) if block else None)
    depth = _depth(entry, options)
    threads = depth * jobs if depth is not None and jobs is not None else None
    parameters = load_parameters(threads, size)
    parameters |= {"ioengine": options["ioengine"]} if "ioengine" in options else {}
    parameters |= {"direct": options["direct"]} if "direct" in options else {}
    begun = entry.find("job_start")
    start_ns = begun.whole(largest=LARGEST // NS_PER_MS) * NS_PER_MS if begun else None
    if not start_ns and ended_ns is not None:
        start_ns = max(0, ended_ns - runtime_ns)
    return ImportedTrial(
        target=hints.target or options.get("filename", "fio"),
        workload=name,
        phase=options.get("rw", "+".join(direction for direction, _ in done)),
        parameters=parameters,
        clients=threads,
        rows=tuple(rows),
        window_ns=(0, runtime_ns),
        started_unix_ns=start_ns or None,
        counts_failures=_counts_failures(entry, options, failures, len(done)),
        size_bytes=size,
        stated={
            direction: times
            for direction, node in done
            if not has(times_of(node), "bins")
            and (times := stated_times(node, total_requests(node)[0])) is not None
        },
        source={direction: {**node.mapping(), **source_of_times(node)} for direction, node in done},
        **_pace(options, jobs, size, [direction for direction, _ in done]),
    )


def _counts_failures(entry: JsonNode, options: JobOptions, failures: int, directions: int) -> bool:
    """Tell whether failed requests are known: without `continue_on_error` the first ends the job.

    fio does not state which of several directions failed.
    """
    if entry.find("error") is None or (failures and directions > 1):
        return False
    goes_on = options.get("continue_on_error", "none") not in ("none", "0")
    return entry.find("total_err") is not None or not goes_on


def _depth(entry: JsonNode, options: JobOptions) -> int | None:
    """Return the requests in flight of one job, as configured or as measured by fio."""
    if "iodepth" in options:
        return _whole(options["iodepth"])
    levels = entry.find("iodepth_level")
    alone = levels.find("1") if levels is not None else None
    # At 100 %, there was only ever one request in flight.
    return 1 if alone is not None and alone.number() >= 100 else None


def _pace(
    options: JobOptions, jobs: int | None, size: int | None, directions: Sequence[str]
) -> dict[str, Any]:
    """Return the option that limits the rate, and the requests per second that it allows."""
    words = [f"{name}={options[name]}" for name in PACED if options.get(name, "0") != "0"]  # type: ignore[literal-required]
    if not words:
        return {}
    limits = []
    for text, unit in ((options.get("rate_iops"), 1), (options.get("rate"), size)):
        rates = _of_directions(text or "", directions)
        if rates and unit and jobs is not None:
            limits.append(sum(rates) / unit * jobs)
    return {"paced_by": ", ".join(words), "rate_limit_per_s": min(limits, default=None)}


def _of_directions(text: str, directions: Sequence[str]) -> list[int] | None:
    """Return the rate of each direction, given as "r,w,t"; None if one is unlimited.

    Directions left out at the end have the rate of the first; an empty one has no limit.
    """
    values = [_size(word) for word in text.split(",")] if text else []
    if not values or values[0] is None or UNIFIED in directions:
        return None
    first = values[0]
    rates = [
        values[place] if place < len(values) else first
        for place, name in enumerate(DIRECTIONS)
        if name in directions
    ]
    return [rate for rate in rates if rate] if all(rates) else None


def _rates(direction: str, entries: Sequence[JsonNode], jobs: int | None) -> FioRates:
    nodes = [node for entry in entries for name, node in _directions(entry) if name == direction]

    def total(name: str) -> float | None:
        values = [value.number() for node in nodes if (value := node.find(name)) is not None]
        return sum(values) if len(values) == len(nodes) else None

    kibibytes = total("bw")
    in_bytes = total("bw_bytes")
    alone = nodes[0] if len(nodes) == 1 else None
    return FioRates(
        iops=total("iops"),
        # Until 3.2 only in KiB.
        bw_bytes=kibibytes * KIBIBYTE if in_bytes is None and kibibytes is not None else in_bytes,
        bw_min=optional_number(alone, "bw_min") if alone is not None else None,
        bw_max=optional_number(alone, "bw_max") if alone is not None else None,
        jobs=jobs,
    )


def _has_all_bins(entries: Sequence[JsonNode]) -> bool:
    return all(has(times_of(node), "bins") for entry in entries for _, node in _directions(entry))


def _notes(name: str, entry: JsonNode) -> Iterator[str]:
    for direction, node in _directions(entry):
        times = times_of(node)
        if times is not None and times.path[-1].startswith("lat"):
            yield f"{name}: times are fio's lat, which holds submission too"
        if not total_requests(node)[1]:
            yield (
                f"{name}, {direction}: this version of fio does not count requests; they follow"
                " from its rate, which it cuts to a whole number"
            )


def _side_by_side(jobs: Sequence[FioJob]) -> Iterator[str]:
    """Yield a note on jobs of different names that ran at the same time."""
    groups: dict[int | None, list[str]] = {}
    for job in jobs:
        groups.setdefault(job.group, []).append(job.trial.workload)
    for group, names in groups.items():
        if group is not None and len(names) > 1:
            yield f"{', '.join(names)} ran at the same time: each had only a part of the target"


def _size(text: str) -> int | None:
    """Return fio's own reading of a size, where k, m, g and t are powers of 1024."""
    match = re.fullmatch(r"(\d{1,18})([kmgt]?)b?", text.strip(), re.IGNORECASE)
    if match is None:
        # The meaning of "i" depends on kb_base, which the file may not state.
        return None
    size = int(match[1]) << 10 * " kmgt".index(match[2].lower() or " ")
    return size if size <= LARGEST else None


def _whole(text: str) -> int | None:
    return int(text) if text.isdecimal() and int(text) <= LARGEST else None
