"""The client's processors, memory, sockets and network over time, from the probes.

A missing source gives no series.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from loadstone.analysis.grouping import added_up, grouped_pairs
from loadstone.analysis.measured.rows import Quantities
from loadstone.results.record import Record

POINTS_PER_RUN = 2400
POINTS_PER_TRIAL_MIN = 10
SUBJECTS_MAX = 8
SECOND_NS = 1_000_000_000


BUSY_KINDS = ("user", "nice", "system", "irq", "softirq", "steal")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One quantity for a chart.

    `metrics` maps metrics of the probe to displayed names; those of one name are added up. Counters
    are shown as growth per second.
    """

    name: str
    title: str
    unit: str
    probe: str
    metrics: Mapping[str, str]
    is_counter: bool
    scale: float = 1.0
    subject: str = "{}"
    subjects_left_out: tuple[str, ...] = ()


RESOURCES: Mapping[str, Resource] = {
    resource.name: resource
    for resource in (
        Resource(
            name="cpu",
            title="CPU of the client host, each core",
            unit="% busy",
            probe="cpu",
            metrics={f"{kind}_ns": "" for kind in BUSY_KINDS},
            is_counter=True,
            scale=100 / 1e9,
            subject="core {}",
            subjects_left_out=("all", ""),
        ),
        Resource(
            name="memory",
            title="Memory of the load generator",
            unit="MiB resident",
            probe="process",
            metrics={"rss_bytes": "resident"},
            is_counter=False,
            scale=1 / 2**20,
        ),
        Resource(
            name="sockets",
            title="TCP sockets of the client host",
            unit="sockets",
            probe="sockets",
            metrics={"in_use": "in use", "time_wait": "closed, still in TIME_WAIT"},
            is_counter=False,
            subject="",
        ),
        Resource(
            name="network",
            title="Network of the client host",
            unit="Gbit/s",
            probe="network",
            metrics={"received_bytes": "received", "sent_bytes": "sent"},
            is_counter=True,
            scale=8e-9,
        ),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourcePoint:
    """One sample; `elapsed_s` is the time under load, without pauses between trials."""

    elapsed_s: float
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceSeries:
    """One quantity of one subject on one host in one trial, which began at `begin_s`."""

    resource: str
    host: str
    subject: str
    trial: str
    begin_s: float
    points: tuple[ResourcePoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Peaks:
    """The peak use of the client in one trial; None if not observed."""

    rss_bytes: float | None
    sockets: float | None


def peaks(quantities: Quantities) -> Peaks:
    """Return the peaks of memory and of sockets in use or TIME_WAIT, summed over hosts."""
    return Peaks(
        rss_bytes=_peak(quantities, RESOURCES["memory"]),
        sockets=_peak(quantities, RESOURCES["sockets"]),
    )


def points_per_trial(records: Sequence[Record]) -> int:
    """Return the number of points per trial, so that one page can show all."""
    measured = sum(1 for record in records if record.trial["measured"])
    return max(POINTS_PER_TRIAL_MIN, POINTS_PER_RUN // max(1, measured))


def read_resources(
    record: Record, quantities: Quantities, offset_s: float, points: int
) -> Iterable[ResourceSeries]:
    """Return all charted quantities of one trial, which starts at an offset."""
    started_ns = record.summary.get("started_unix_ns")
    if not started_ns:
        return
    for resource in RESOURCES.values():
        yield from _series(record, quantities, resource, offset_s, points)


def _series(
    record: Record, quantities: Quantities, resource: Resource, begin_s: float, points: int
) -> Iterable[ResourceSeries]:
    origin_unix_ns = (record.summary.get("started_unix_ns") or 0) - int(begin_s * SECOND_NS)
    series = {
        key: growth(samples) if resource.is_counter else samples
        for key, samples in _samples(quantities, resource).items()
    }
    # Idle cards and cores would only fill the legend.
    moving = {key: values for key, values in series.items() if any(v for _, v in values)}
    for (host, name), values in _condensed(moving).items():
        yield ResourceSeries(
            resource=resource.name,
            host=host,
            subject=name,
            trial=record.id,
            begin_s=begin_s,
            points=tuple(
                ResourcePoint(
                    elapsed_s=(time - origin_unix_ns) / SECOND_NS, value=value * resource.scale
                )
                for time, value in thinned(values, points)
            ),
        )


def _condensed(
    series: Mapping[tuple[str, str], list[tuple[int, float]]],
) -> Mapping[tuple[str, str], list[tuple[int, float]]]:
    """Reduce many series of a host to their maximum and mean: a mean hides one saturated core."""
    condensed: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for host in dict.fromkeys(host for host, _ in series):
        of_host = {key: values for key, values in series.items() if key[0] == host}
        if len(of_host) <= SUBJECTS_MAX:
            condensed |= of_host
            continue
        moments = grouped_pairs(
            (time, value) for values in of_host.values() for time, value in values
        )
        condensed[host, f"highest of {len(of_host)}"] = [(t, max(v)) for t, v in moments.items()]
        condensed[host, f"mean of {len(of_host)}"] = [
            (t, sum(v) / len(v)) for t, v in moments.items()
        ]
    return condensed


def _samples(
    quantities: Quantities, resource: Resource
) -> dict[tuple[str, str], list[tuple[int, float]]]:
    """Return samples in the order of time, by host and display name."""
    sums: dict[tuple[str, str], dict[int, float]] = {}
    for metric, word in resource.metrics.items():
        for samples in quantities.get((resource.probe, metric), ()):
            if samples.subject in resource.subjects_left_out:
                continue
            words = (resource.subject.format(samples.subject), word)
            moments = sums.setdefault((samples.host, " ".join(filter(None, words))), {})
            for time_ns, value in samples.pairs:
                moments[time_ns] = moments.get(time_ns, 0) + value
    return {key: sorted(moments.items()) for key, moments in sums.items()}


def growth(samples: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """Return the growth per second; a reset counter starts anew."""
    grown = []
    for (before_ns, before), (now_ns, now) in itertools.pairwise(samples):
        if now_ns > before_ns and now >= before:
            grown.append((now_ns, (now - before) / (now_ns - before_ns) * SECOND_NS))
    return grown


def thinned(samples: list[tuple[int, float]], points: int) -> list[tuple[int, float]]:
    """Return at most so many samples, each the largest of its stretch, to keep peaks."""
    if len(samples) <= points:
        return samples
    width = -(-len(samples) // points)
    stretches = (samples[start : start + width] for start in range(0, len(samples), width))
    return [max(stretch, key=lambda sample: sample[1]) for stretch in stretches]


def _peak(quantities: Quantities, resource: Resource) -> float | None:
    all_samples = _samples(quantities, resource)
    by_host = grouped_pairs((host, samples) for (host, _), samples in all_samples.items())
    peaks_of_hosts = [
        max(added_up(itertools.chain(*of_host)).values()) for of_host in by_host.values()
    ]
    return sum(peaks_of_hosts) if peaks_of_hosts else None
