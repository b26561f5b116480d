"""Series of the targets' exporters that varied under load.

Most of the hundreds of series are constant. Those for charts are chosen by their values over all
trials; the number of the others is reported.
"""

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from loadstone.analysis.grouping import grouped
from loadstone.analysis.instrument.resources import ResourcePoint, growth, thinned
from loadstone.analysis.measured.rows import Quantities, read_samples
from loadstone.results.record import Record

PREFIX = "prometheus:"
OWN_METRICS = ("up", "series")
"""Metrics of the scraper itself."""

VARIES = 0.05
"""A series with a smaller ratio of standard deviation to mean counts as constant."""

METRICS_MAX = 8
LINES_MAX = 7
SECOND_NS = 1_000_000_000

COUNTER_ENDINGS = ("_total", "_count", "_sum")
LEFT_OUT_ENDINGS = ("_bucket", "_created", "_info")
"""Parts of histograms, times of creation and constant facts."""

UNITS: Mapping[str, tuple[str, float]] = {
    "bytes": ("MiB", 1 / 2**20),
    "seconds": ("s", 1.0),
    "ratio": ("ratio", 1.0),
    "percent": ("%", 1.0),
    "celsius": ("°C", 1.0),
    "hertz": ("Hz", 1.0),
    "volts": ("V", 1.0),
    "joules": ("J", 1.0),
    "watts": ("W", 1.0),
}
"""Displayed units and factors, by the endings of metrics."""

_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

Key = tuple[str, str, str, str]
"""A probe, a metric, a host and labels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExporterLine:
    """One series in one trial, named by the labels that differ."""

    name: str
    host: str
    trial: str
    points: tuple[ResourcePoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExporterMetric:
    """One metric with the series that vary most, and the number of all."""

    probe: str
    metric: str
    unit: str
    hosts: tuple[str, ...]
    series: int
    lines: tuple[ExporterLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExporterSeries:
    """The chosen metrics, and the numbers of others that vary or are constant."""

    metrics: tuple[ExporterMetric, ...] = ()
    others: int = 0
    still: int = 0


@dataclass(slots=True)
class _Spread:
    """Running count, mean and squared deviations of one series."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def add(self, value: float) -> None:
        self.count += 1
        step = value - self.mean
        self.mean += step / self.count
        self.squares += step * (value - self.mean)

    @property
    def deviation(self) -> float:
        return math.sqrt(self.squares / self.count) if self.count else 0.0

    @property
    def varies_by(self) -> float:
        """The standard deviation over the mean, at most 1."""
        scale = max(abs(self.mean), self.deviation)
        return self.deviation / scale if scale else 0.0


@dataclass(slots=True)
class ExporterWatch:
    """Collects the metrics of exporters trial by trial, and chooses those for charts."""

    _spreads: dict[Key, _Spread] = field(default_factory=dict)
    _trials: list[tuple[Record, float]] = field(default_factory=list)

    def look(self, record: Record, quantities: Quantities, offset_s: float) -> None:
        """Add one trial, which began at an offset."""
        series = _samples(quantities)
        if not series:
            return
        self._trials.append((record, offset_s))
        for key, samples in series.items():
            spread = self._spreads.setdefault(key, _Spread())
            for _, value in samples:
                spread.add(value)

    def chosen(self, points: int) -> ExporterSeries:
        """Return the metrics that vary most, with at most so many points per trial and series."""
        metrics = grouped(self._spreads, lambda key: key[:2])
        moving = {
            name: largest
            for name, keys in metrics.items()
            if (largest := max(self._spreads[key].varies_by for key in keys)) >= VARIES
        }
        shown = sorted(moving, key=lambda name: -moving[name])[:METRICS_MAX]
        lines = {name: self._most_moving(metrics[name]) for name in shown}
        read = self._read([key for keys in lines.values() for key in keys], points)
        return ExporterSeries(
            metrics=tuple(
                _metric(name, metrics[name], {key: read.get(key, []) for key in lines[name]})
                for name in sorted(shown)
            ),
            others=len(moving) - len(shown),
            still=len(metrics) - len(moving),
        )

    def _most_moving(self, keys: Sequence[Key]) -> list[Key]:
        most = sorted(keys, key=lambda key: -self._spreads[key].deviation)[:LINES_MAX]
        return [key for key in sorted(most) if self._spreads[key].varies_by > 0]

    def _read(
        self, keys: Sequence[Key], points: int
    ) -> dict[Key, list[tuple[str, tuple[ResourcePoint, ...]]]]:
        """Read the chosen series again, since all series do not fit into memory."""
        read: dict[Key, list[tuple[str, tuple[ResourcePoint, ...]]]] = {}
        wanted = set(keys)
        if not wanted:
            return read
        for record, offset_s in self._trials:
            origin = int(record.summary.get("started_unix_ns") or 0) - int(offset_s * SECOND_NS)
            for key, samples in _samples(read_samples(record.probes)).items():
                if key not in wanted or not samples:
                    continue
                scale = _unit(key[1])[1]
                resource_points = tuple(
                    ResourcePoint(elapsed_s=(time - origin) / SECOND_NS, value=value * scale)
                    for time, value in thinned(samples, points)
                )
                read.setdefault(key, []).append((record.id, resource_points))
        return read


def _samples(quantities: Quantities) -> dict[Key, list[tuple[int, float]]]:
    """Return each series over time; counters as their growth per second."""
    series: dict[Key, list[tuple[int, float]]] = {}
    for (probe, metric), quantity_series in quantities.items():
        if not probe.startswith(PREFIX):
            continue
        if metric in OWN_METRICS or metric.endswith(LEFT_OUT_ENDINGS):
            continue
        for quantity in quantity_series:
            samples = [pair for pair in quantity.pairs if math.isfinite(pair[1])]
            if samples:
                key = (probe, metric, quantity.host, quantity.subject)
                series[key] = growth(samples) if _is_counter(metric) else samples
    return series


def _is_counter(metric: str) -> bool:
    return metric.endswith(COUNTER_ENDINGS)


def _unit(metric: str) -> tuple[str, float]:
    """Return the displayed unit of a metric and its factor, by the metric's name."""
    bare = metric
    for ending in COUNTER_ENDINGS:
        bare = bare.removesuffix(ending)
    word, scale = UNITS.get(bare.rpartition("_")[2], ("", 1.0))
    if not _is_counter(metric):
        return word or "value, as exported", scale
    if not word or metric.endswith("_count"):
        return "per second", 1.0
    return ("seconds per second" if word == "s" else f"{word}/s"), scale


def _metric(
    name: tuple[str, str],
    keys: Sequence[Key],
    read: Mapping[Key, Sequence[tuple[str, tuple[ResourcePoint, ...]]]],
) -> ExporterMetric:
    hosts = tuple(sorted({host for _, _, host, _ in keys}))
    words = _names(list(read), has_hosts=len(hosts) > 1)
    return ExporterMetric(
        probe=name[0].removeprefix(PREFIX),
        metric=name[1],
        unit=_unit(name[1])[0],
        hosts=hosts,
        series=len(keys),
        lines=tuple(
            ExporterLine(name=words[key], host=key[2], trial=trial, points=points)
            for key, trials in read.items()
            for trial, points in trials
        ),
    )


def _names(keys: Iterable[Key], *, has_hosts: bool) -> dict[Key, str]:
    """Name each series by its host and the labels that differ."""
    labels = {key: dict(_LABEL.findall(key[3])) for key in keys}
    values: dict[str, set[str | None]] = {}
    for name in itertools.chain.from_iterable(labels.values()):
        values[name] = {by_label.get(name) for by_label in labels.values()}
    differing = [name for name, label_values in values.items() if len(label_values) > 1]
    return {
        key: " ".join(
            [
                *([key[2]] if has_hosts else []),
                *(f"{n} {by_label[n]}" for n in differing if n in by_label),
            ]
        )
        or key[1]
        for key, by_label in labels.items()
    }
