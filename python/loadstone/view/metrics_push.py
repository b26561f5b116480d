"""Pushes metrics of a running run to an OpenTelemetry collector (OTLP over HTTP).

The metrics and names are those for Prometheus, pushed once a second and once more at the end.
Headers and TLS settings come from OpenTelemetry's own environment variables
(OTEL_EXPORTER_OTLP_HEADERS and others), so that no credential is on a command line.
"""

import contextlib
import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client import Metric as Family
from prometheus_client.samples import Sample

from loadstone import __version__
from loadstone.view.live_metrics import RunMetrics

EVERY_S = 1.0
TIMEOUT_S = 2.0
"""A push that takes longer is dropped; the next one includes its counters."""


@contextlib.contextmanager
def pushing_metrics(folder: Path, url: str, say: Callable[[str], None]) -> Iterator[None]:
    """Push the metrics of a run to a URL until the block ends; `say` reports failed pushes."""
    parts = urlsplit(url)
    # Its log would repeat each failed push; the pusher reports the first one.
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL + 1)
    exporter = OTLPMetricExporter(endpoint=url, timeout=TIMEOUT_S)
    pusher = _Pusher(RunMetrics(folder), exporter, say, f"{parts.scheme}://{parts.netloc}")
    thread = threading.Thread(target=pusher.run, name="metrics", daemon=True)
    thread.start()
    try:
        yield
    finally:
        pusher.ended.set()
        thread.join()
        exporter.shutdown()


class _Pusher:
    def __init__(
        self,
        metrics: RunMetrics,
        exporter: OTLPMetricExporter,
        say: Callable[[str], None],
        collector: str,
    ) -> None:
        self.ended = threading.Event()
        self._metrics = metrics
        self._exporter = exporter
        self._say = say
        self._collector = collector
        self._began_ns = time.time_ns()
        self._lost = 0

    def run(self) -> None:
        """Push once a second, and once more after the end."""
        while not self.ended.wait(EVERY_S):
            self._push()
        self._push()
        if self._lost:
            self._say(f"metrics: {self._lost} pushes to {self._collector} were lost")

    def _push(self) -> None:
        data = data_of(self._metrics.collect(), self._began_ns, time.time_ns())
        if self._exporter.export(data, TIMEOUT_S * 1000) is not MetricExportResult.SUCCESS:
            self._lost += 1
            if self._lost == 1:
                self._say(f"metrics: push to {self._collector} failed; the run continues")


def data_of(families: Iterator[Family], began_ns: int, now_ns: int) -> MetricsData:
    """Convert Prometheus families to OpenTelemetry's form; counters start at `began_ns`."""
    metrics = [
        Metric(
            name=family.name,
            description=family.documentation,
            unit="",
            data=_points_of(family, began_ns, now_ns),
        )
        for family in families
        if family.samples
    ]
    scope = InstrumentationScope("loadstone", __version__)
    resource = Resource.create({"service.name": "loadstone", "service.version": __version__})
    return MetricsData(
        resource_metrics=[
            ResourceMetrics(
                resource=resource,
                scope_metrics=[ScopeMetrics(scope=scope, metrics=metrics, schema_url="")],
                schema_url="",
            )
        ]
    )


def _points_of(family: Family, began_ns: int, now_ns: int) -> Sum | Gauge | Histogram:
    if family.type == "histogram":
        return Histogram(
            data_points=list(_histograms(family, began_ns, now_ns)),
            aggregation_temporality=AggregationTemporality.CUMULATIVE,
        )
    points = [
        NumberDataPoint(
            attributes=sample.labels,
            start_time_unix_nano=began_ns,
            time_unix_nano=now_ns,
            value=sample.value,
        )
        for sample in family.samples
    ]
    if family.type != "counter":
        return Gauge(data_points=points)
    return Sum(
        data_points=points,
        aggregation_temporality=AggregationTemporality.CUMULATIVE,
        is_monotonic=True,
    )


def _histograms(family: Family, began_ns: int, now_ns: int) -> Iterator[HistogramDataPoint]:
    series: dict[tuple[tuple[str, str], ...], list[Sample]] = {}
    for sample in family.samples:
        labels = tuple((name, value) for name, value in sample.labels.items() if name != "le")
        series.setdefault(labels, []).append(sample)
    for labels, samples in series.items():
        buckets = [sample for sample in samples if sample.name.endswith("_bucket")]
        (total,) = (sample.value for sample in samples if sample.name.endswith("_sum"))
        below = [0, *(int(bucket.value) for bucket in buckets)]
        yield HistogramDataPoint(
            attributes=dict(labels),
            start_time_unix_nano=began_ns,
            time_unix_nano=now_ns,
            count=below[-1],
            sum=total,
            # Prometheus buckets are cumulative, OpenTelemetry's are not.
            bucket_counts=[above - under for under, above in itertools.pairwise(below)],
            explicit_bounds=[float(bucket.labels["le"]) for bucket in buckets[:-1]],
            # Unknown, which OTLP allows but the type annotations do not.
            min=None,  # type: ignore[arg-type]
            max=None,  # type: ignore[arg-type]
        )
