"""Metrics pushed to a collector equal those that Prometheus would have scraped."""

import contextlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)

from loadstone.campaign.parse import parse_campaign
from loadstone.cli import extras
from loadstone.cli.running import session
from loadstone.errors import InputError, LoadstoneError
from loadstone.view.live_metrics import RunMetrics
from loadstone.view.metrics_push import pushing_metrics
from tests.unit.test_live_metrics import samples
from tests.unit.test_view import write_run

CAMPAIGN = """
name: x
targets: {t: {driver: "null"}}
dataset: {objects: 1, size: 1}
load: {threads: 1}
phases: [put]
"""


class Collector(http.server.ThreadingHTTPServer):
    """Keeps pushed metrics; answers 503 while it `refuses`."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Push)
        self.refuses = False
        self.pushes: list[ExportMetricsServiceRequest] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1/metrics"


class _Push(http.server.BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.pushes.append(ExportMetricsServiceRequest.FromString(body))
        self.send_response(503 if self.server.refuses else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def collecting() -> Iterator[Collector]:
    """Run a collector."""
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as server:
        yield server


def test_the_last_push_has_all_that_would_be_scraped(collector: Collector, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    words: list[str] = []
    with pushing_metrics(run, collector.url, words.append):
        pass
    assert words == []
    (resource,) = collector.pushes[-1].resource_metrics
    metrics = {metric.name: metric for metric in resource.scope_metrics[0].metrics}
    scraped = samples(RunMetrics(run))
    total = sum(value for name, value in scraped.items() if name[0].endswith("requests_total"))
    requests = metrics["loadstone_live_requests"].sum
    assert requests.is_monotonic
    assert sum(point.as_double or point.as_int for point in requests.data_points) == total > 0
    for point in metrics["loadstone_live_request_seconds"].histogram.data_points:
        assert sum(point.bucket_counts) == point.count > 0
        assert len(point.bucket_counts) == len(point.explicit_bounds) + 1
        assert not point.HasField("min")


def test_a_collector_that_refuses_costs_a_note(collector: Collector, tmp_path: Path) -> None:
    collector.refuses = True
    words: list[str] = []
    with pushing_metrics(write_run(tmp_path / "run"), collector.url, words.append):
        pass
    assert len(words) == 2


@pytest.mark.parametrize(
    "url",
    [
        "collector:4318", "ftp://collector/", "http://", "http://me:hunter2@collector:4318/",
        "http://collector/v1/metrics?api_key=hunter2",
    ],
)  # fmt: skip
def test_a_url_that_is_none_or_holds_a_secret_is_refused_before_a_record_has_it(
    url: str, tmp_path: Path
) -> None:
    campaign = parse_campaign(CAMPAIGN)
    folder = tmp_path / "run"
    with pytest.raises(InputError) as caught:
        session.measure(campaign, folder, metrics=session.LiveMetrics(push=url))
    assert "hunter2" not in str(caught.value)
    assert not folder.exists()


def test_a_push_without_its_packages_is_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = {**extras.EXTRAS, "otlp": ("a_package_that_is_not_there",)}
    monkeypatch.setattr(extras, "EXTRAS", absent)
    metrics = session.LiveMetrics(push="http://127.0.0.1:1/v1/metrics")
    with pytest.raises(LoadstoneError) as caught:
        session.measure(parse_campaign(CAMPAIGN), tmp_path / "run", metrics=metrics)
    assert caught.value.hint == extras.install("otlp")
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("address", ["127.0.0.1", "192.0.2.1:0", f"{'x' * 70}.example:0"])
def test_an_address_without_a_listener_is_refused_before_anything_is_made(
    address: str, tmp_path: Path
) -> None:
    metrics = session.LiveMetrics(listen=address)
    with pytest.raises(InputError):
        session.measure(parse_campaign(CAMPAIGN), tmp_path / "run", metrics=metrics)
    assert not any(tmp_path.iterdir())
