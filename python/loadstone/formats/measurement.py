"""Parses printed results of other programs as measurements of ceilings: a rate and its extremes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from loadstone.formats import fio, iperf3, rados_bench, reading
from loadstone.formats.imported import SECOND_NS, Hints, ImportedTrial
from loadstone.formats.json_document import read_document

READS, WRITES = "read", "write"
_BOUNDS = {
    "receive": READS, "get": READS, "read": READS,
    "send": WRITES, "put": WRITES, "write": WRITES, "trim": WRITES,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedMeasurement:
    """The rate of one direction.

    `seconds` are the rates of whole seconds, if printed, `low` and `high` the extremes. `service`
    is an encoded histogram of latencies.
    """

    bounds: str
    bytes_per_s: float
    requests_per_s: float | None = None
    low: float | None = None
    high: float | None = None
    seconds: tuple[float, ...] = ()
    service: bytes | None = None
    tool: str = ""
    tool_version: str | None = None


def read_measurements(form: str, paths: Sequence[Path]) -> list[PrintedMeasurement]:
    """Return the measurements in outputs of one format; those of concurrent programs are added
    up.
    """
    single = [FORMS[form](path) for path in paths]
    return single[0] if len(single) == 1 else _added_up(single)


def _iperf3(path: Path) -> list[PrintedMeasurement]:
    imported = iperf3.read([path], Hints())
    (trial,) = imported.trials
    seconds = _seconds(trial)
    document = iperf3.read_measurement(path)
    rate = document.at("end", "sum_received", "bits_per_second").number() / 8
    return [
        PrintedMeasurement(
            bounds=_BOUNDS[trial.rows[0].operation],
            # Only received bytes count: others were still in transit at the end.
            bytes_per_s=rate,
            low=min(seconds, default=None),
            high=max(seconds, default=None),
            seconds=seconds,
            tool="iperf3",
            tool_version=imported.tool_version,
        )
    ]


def _fio(path: Path) -> list[PrintedMeasurement]:
    version, jobs = fio.read_jobs(path, Hints())
    measurements = []
    for direction in dict.fromkeys(direction for job in jobs for direction in job.rates):
        members = [job for job in jobs if direction in job.rates]
        rates = [job.rates[direction] for job in members]
        moved = [rate.bw_bytes for rate in rates if rate.bw_bytes is not None]
        done = [rate.iops for rate in rates if rate.iops is not None]
        if len(moved) < len(rates) or len(done) < len(rates):
            reading.FileLine(path).refuse(
                f"a job lacks its rate: {direction} lacks bw_bytes or iops", reading.EDITED
            )
        alone = members[0].trial if len(members) == 1 else None
        measurements.append(
            PrintedMeasurement(
                bounds=_BOUNDS[direction],
                bytes_per_s=sum(moved),
                requests_per_s=sum(done),
                low=_fio_extreme(rates[0], rates[0].bw_min) if alone else None,
                high=_fio_extreme(rates[0], rates[0].bw_max) if alone else None,
                service=_fio_histogram(alone, direction) if alone else None,
                tool="fio",
                tool_version=version,
            )
        )
    return measurements


def _fio_extreme(rates: fio.FioRates, sample_kib: float | None) -> float | None:
    """Return the slowest or the fastest of fio's own samples, in bytes per second.

    None for jobs reported as a group, whose samples are from single jobs.
    """
    if not rates.bw_max or sample_kib is None or rates.jobs != 1:
        return None
    return sample_kib * 1024


def _fio_histogram(trial: ImportedTrial, direction: str) -> bytes | None:
    return next((row.service for row in trial.rows if row.operation == direction), None)


def _rados_bench(path: Path) -> list[PrintedMeasurement]:
    imported = rados_bench.read([path], Hints())
    (trial,) = imported.trials
    length_s = trial.window_ns[1] / SECOND_NS
    seconds = _seconds(trial)
    return [
        PrintedMeasurement(
            bounds=_BOUNDS[trial.phase],
            bytes_per_s=sum(row.bytes for row in trial.rows) / length_s,
            requests_per_s=sum(row.requests for row in trial.rows) / length_s,
            low=min(seconds, default=None),
            high=max(seconds, default=None),
            seconds=seconds,
            tool="rados bench",
        )
    ]


def _osd_bench(path: Path) -> list[PrintedMeasurement]:
    document = read_document(path)
    rate = document.at("bytes_per_sec").number()
    written = document.at("bytes_written").number()
    elapsed_s = document.at("elapsed_sec").number()
    if elapsed_s:
        reading.agree(document.place, "bytes_per_sec", rate, written / elapsed_s, 0.01)
    block = document.at("blocksize").number()
    return [
        PrintedMeasurement(
            bounds=WRITES,
            bytes_per_s=rate,
            requests_per_s=rate / block if block else None,
            tool="ceph tell osd bench",
        )
    ]


FORMS: Mapping[str, Callable[[Path], list[PrintedMeasurement]]] = {
    "iperf3": _iperf3,
    "fio": _fio,
    "rados-bench": _rados_bench,
    "osd-bench": _osd_bench,
}


def _seconds(trial: ImportedTrial) -> tuple[float, ...]:
    """Return the bytes of each whole second, without an incomplete last one."""
    sums = [0.0] * (trial.window_ns[1] // SECOND_NS)
    for row in trial.rows:
        if 0 <= row.second < len(sums):
            sums[row.second] += row.bytes
    return tuple(sums)


def _added_up(single: Iterable[Sequence[PrintedMeasurement]]) -> list[PrintedMeasurement]:
    """Return the sum of concurrent programs, without values that cannot be added."""
    members = [member for group in single for member in group]
    rates = [member.requests_per_s for member in members if member.requests_per_s is not None]
    return [
        PrintedMeasurement(
            bounds=members[0].bounds,
            bytes_per_s=sum(member.bytes_per_s for member in members),
            requests_per_s=sum(rates) if len(rates) == len(members) else None,
            tool=members[0].tool,
            tool_version=members[0].tool_version,
        )
    ]
