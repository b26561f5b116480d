"""What the probes saw: the client's processors, memory, sockets and network over time.

A source that was absent has no rows and gives no series: absent is not zero.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from loadstone.results.record import Record

POINTS_PER_RUN = 2400
SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One quantity worth a chart: where its samples come from, and how they are to be read.

    `metrics` are added up for each subject; a counter is shown as its growth per second.
    """

    name: str
    title: str
    unit: str
    probe: str
    metrics: tuple[str, ...]
    is_counter: bool
    scale: float = 1.0


RESOURCES: Mapping[str, Resource] = {
    resource.name: resource
    for resource in (
        Resource(
            name="cpu",
            title="Client CPU, each core",
            unit="% busy",
            probe="cpu",
            metrics=("busy",),
            is_counter=False,
            scale=100,
        ),
        Resource(
            name="memory",
            title="Memory of the load generator",
            unit="MiB resident",
            probe="process",
            metrics=("rss_bytes",),
            is_counter=False,
            scale=1 / 2**20,
        ),
        Resource(
            name="sockets",
            title="Client sockets",
            unit="sockets",
            probe="sockets",
            metrics=("in_use", "time_wait"),
            is_counter=False,
        ),
        Resource(
            name="network",
            title="Client network",
            unit="Gbit/s",
            probe="network",
            metrics=("received_bytes", "sent_bytes"),
            is_counter=True,
            scale=8e-9,
        ),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourcePoint:
    """One sample; `elapsed_s` counts the time under load, pauses between trials left out."""

    elapsed_s: float
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceSeries:
    """One quantity of one thing on one host during one trial, in the resource's unit."""

    resource: str
    host: str
    subject: str
    trial: str
    points: tuple[ResourcePoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Peaks:
    """The most that one trial took of its client; absent where nothing was observed."""

    rss_bytes: float | None
    sockets: float | None


def peaks(probes: pa.Table) -> Peaks:
    """Return the largest memory and number of sockets, summed over hosts at their own peaks."""
    return Peaks(
        rss_bytes=_peak(probes, RESOURCES["memory"]), sockets=_peak(probes, RESOURCES["sockets"])
    )


def points_per_trial(records: Sequence[Record]) -> int:
    """Return how many points each trial's series may have, so that one page can show them all."""
    measured = sum(1 for record in records if record.trial["measured"])
    return max(20, POINTS_PER_RUN // max(1, measured))


def read_resources(
    record: Record, probes: pa.Table, offset_s: float, points: int
) -> Iterable[ResourceSeries]:
    """Return every charted quantity of one trial, whose own start is put at the offset."""
    started_ns = record.summary.get("started_unix_ns")
    if not started_ns or not probes.num_rows:
        return
    for resource in RESOURCES.values():
        yield from _series(record, probes, resource, started_ns - int(offset_s * SECOND_NS), points)


def _series(
    record: Record, probes: pa.Table, resource: Resource, origin_unix_ns: int, points: int
) -> Iterable[ResourceSeries]:
    for (host, subject, metric), samples in _samples(probes, resource).items():
        values = _growth(samples) if resource.is_counter else samples
        thinned = _thinned(values, points)
        if not any(value for _, value in thinned):
            continue
        name = subject if len(resource.metrics) == 1 else _named(subject, metric)
        yield ResourceSeries(
            resource=resource.name,
            host=host,
            subject=name,
            trial=record.trial["id"],
            points=tuple(
                ResourcePoint(
                    elapsed_s=(time - origin_unix_ns) / SECOND_NS, value=value * resource.scale
                )
                for time, value in thinned
            ),
        )


def _named(subject: str, metric: str) -> str:
    readable = metric.removesuffix("_bytes").replace("_", " ")
    return f"{subject} {readable}" if subject else readable


def _samples(
    probes: pa.Table, resource: Resource
) -> dict[tuple[str, str, str], list[tuple[int, float]]]:
    if not probes.num_rows:
        return {}
    found = probes.filter(
        (pc.field("probe") == resource.probe) & pc.field("metric").isin(pa.array(resource.metrics))
    )
    samples: dict[tuple[str, str, str], list[tuple[int, float]]] = {}
    for row in found.sort_by("time_unix_ns").to_pylist():
        key = (row["host"], row["subject"], row["metric"])
        samples.setdefault(key, []).append((row["time_unix_ns"], row["value"]))
    return samples


def _growth(samples: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """Return growth per second over the time that really passed; a reset counter starts anew."""
    grown = []
    for (before_ns, before), (now_ns, now) in itertools.pairwise(samples):
        if now_ns > before_ns and now >= before:
            grown.append((now_ns, (now - before) / (now_ns - before_ns) * SECOND_NS))
    return grown


def _thinned(samples: list[tuple[int, float]], points: int) -> list[tuple[int, float]]:
    """Return at most so many samples, each the largest of its stretch: a peak is never hidden."""
    if len(samples) <= points:
        return samples
    width = -(-len(samples) // points)
    stretches = (samples[start : start + width] for start in range(0, len(samples), width))
    return [max(stretch, key=lambda sample: sample[1]) for stretch in stretches]


def _peak(probes: pa.Table, resource: Resource) -> float | None:
    by_host: dict[str, dict[int, float]] = {}
    for (host, _, _), samples in _samples(probes, resource).items():
        totals = by_host.setdefault(host, {})
        for time, value in samples:
            totals[time] = totals.get(time, 0) + value
    return sum(max(totals.values()) for totals in by_host.values()) if by_host else None
