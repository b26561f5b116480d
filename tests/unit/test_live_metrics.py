"""The metrics of a run while it goes on: exact at its end, and never less than before."""

import contextlib
import json
import re
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from loadstone.errors import InputError
from loadstone.results.files.tables import StreamWriter
from loadstone.results.record import INTERVAL_SCHEMA
from loadstone.view import live_metrics
from loadstone.view.live_metrics import RunMetrics, serving_metrics
from tests.unit.test_view import rows, write_run

DASHBOARD = Path(__file__).parents[2] / "docs/help/grafana-dashboard.json"
WAIT_S = 60.0


def samples(metrics: RunMetrics) -> dict[tuple[str, ...], float]:
    """Return the value of each sample by its name and the values of its labels."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in metrics.collect()
        for sample in family.samples
    }


def requests(metrics: RunMetrics) -> float:
    return sum(
        value for name, value in samples(metrics).items() if name[0].endswith("requests_total")
    )


def test_counters_grow_with_a_trial_and_end_at_its_record(tmp_path: Path) -> None:
    whole = write_run(tmp_path / "whole")
    expected = samples(RunMetrics(whole))
    assert requests(RunMetrics(whole)) > 0

    run = write_run(tmp_path / "run")
    unfinished = sorted(path.stem for path in (run / "trials").glob("*.json"))[-1]
    record, table = (run / "trials" / f"{unfinished}{end}" for end in (".json", ".parquet"))
    contents = record.read_bytes(), table.read_bytes()
    record.unlink(), table.unlink()
    stream = StreamWriter(run, f"trials/{unfinished}.arrows", INTERVAL_SCHEMA)
    metrics = RunMetrics(run)
    begun = requests(metrics)
    assert begun == requests(RunMetrics(whole)) / 2
    stream.write(rows(0, failed=7))
    assert requests(metrics) == begun + 207
    stream.write(rows(1))
    assert requests(metrics) == begun + 407
    stream.close()
    stream.path.unlink()
    record.write_bytes(contents[0]), table.write_bytes(contents[1])
    ended = samples(metrics)
    assert {key: value for key, value in ended.items() if "info" not in key[0]} == {
        key: value for key, value in expected.items() if "info" not in key[0]
    }


def test_a_histogram_is_cumulative_and_counts_what_the_counter_does(tmp_path: Path) -> None:
    text = generate_latest(RunMetrics(write_run(tmp_path / "run"))).decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    series: dict[tuple[str, ...], list[float]] = {}
    for sample in families["loadstone_live_request_seconds"].samples:
        if sample.name.endswith("_bucket"):
            key = tuple(value for name, value in sorted(sample.labels.items()) if name != "le")
            series.setdefault(key, []).append(sample.value)
    assert series
    for counts in series.values():
        assert counts == sorted(counts)
        assert counts[-1] > 0


def test_a_folder_that_cannot_be_read_yields_nothing(tmp_path: Path) -> None:
    assert samples(RunMetrics(tmp_path / "absent")) == {}


@pytest.mark.parametrize("address", ["9400", ":9400", "127.0.0.1", "127.0.0.1:x", "[::1]:99999"])
def test_an_address_needs_a_host_and_a_port(address: str, tmp_path: Path) -> None:
    with pytest.raises(InputError), serving_metrics(tmp_path, address):
        pass


def test_a_port_in_use_is_refused_before_any_load(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError), serving_metrics(tmp_path, f"127.0.0.1:{port}"):
            pass


def test_metrics_are_served_as_prometheus_reads_them(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    with (
        serving_metrics(run, "127.0.0.1:0") as url,
        urllib.request.urlopen(url, timeout=30) as answer,
    ):
        names = {family.name for family in text_string_to_metric_families(answer.read().decode())}
    assert {"loadstone_live_requests", "loadstone_live_trials"} <= names


def test_a_scrapers_headers_print_nothing_on_the_screen_of_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving_metrics(write_run(tmp_path / "run"), "127.0.0.1:0") as url:
        address = ("127.0.0.1", int(url.rpartition(":")[2].partition("/")[0]))
        accept = b"Accept: application/openmetrics-text; version=x"
        for head in (accept, b"x" * 100_000, b"\xff\0: \xff"):
            with socket.create_connection(address, 30) as scraper:
                scraper.sendall(b"GET /metrics HTTP/1.1\r\n" + head + b"\r\n\r\n")
                with contextlib.suppress(ConnectionError):
                    assert scraper.recv(100)
    assert capsys.readouterr() == ("", "")


def test_scrapers_that_never_ask_take_few_threads_and_give_them_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_metrics._MetricsRequest, "timeout", 0.5)
    before = threading.active_count()
    with serving_metrics(write_run(tmp_path / "run"), "127.0.0.1:0") as url:
        address = ("127.0.0.1", int(url.rpartition(":")[2].partition("/")[0]))
        idle = [socket.create_connection(address) for _ in range(100)]
        assert threading.active_count() - before <= live_metrics.SCRAPERS_MAX + 1
        # Each is closed: those in excess at once, the others after their time.
        assert [connection.recv(1) for connection in idle] == [b""] * len(idle)
        with urllib.request.urlopen(url, timeout=30) as answer:
            assert answer.status == 200
        for connection in idle:
            connection.close()


def test_a_scraper_that_drips_bytes_is_closed_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_metrics, "SCRAPE_S", 0.5)
    with serving_metrics(write_run(tmp_path / "run"), "127.0.0.1:0") as url:
        address = ("127.0.0.1", int(url.rpartition(":")[2].partition("/")[0]))
        with socket.create_connection(address) as scraper:
            scraper.settimeout(0.1)
            end = time.monotonic() + WAIT_S
            with contextlib.suppress(ConnectionError):
                while not is_closed(scraper):
                    scraper.sendall(b"x")
                    assert time.monotonic() < end


def is_closed(connection: socket.socket) -> bool:
    """Wait for an answer or the end for as long as the connection's timeout."""
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False


def expressions(node: Any) -> Iterator[str]:
    match node:
        case dict():
            if "expr" in node:
                yield node["expr"]
            for value in node.values():
                yield from expressions(value)
        case list():
            for value in node:
                yield from expressions(value)


def test_the_dashboard_asks_for_metrics_and_labels_that_there_are(tmp_path: Path) -> None:
    """Prometheus answers a wrong label with nothing, as it does where nothing has failed yet."""
    labels: dict[str, set[str]] = {
        "loadstone_live_cpu_share": {"host"},
        "loadstone_live_left_seconds": set(),
    }
    for family in RunMetrics(write_run(tmp_path / "run")).collect():
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    dashboard = json.loads(DASHBOARD.read_text())
    queries = [target for panel in dashboard["panels"] for target in panel.get("targets", [])]
    asked = set()
    for query in queries:
        expression, legend = query["expr"], query["legendFormat"]
        names = set(re.findall(r"loadstone_\w+", expression))
        grouped = re.findall(r"(?:by|ignoring) \(([^)]*)\)", expression)
        used = {
            *re.findall(r"(\w+)(?:=~|!~|!=|=)\"", expression),
            *(label for labels_ in grouped for label in labels_.split(", ")),
        }
        for name in names:
            assert used <= labels[name], expression
            # A legend can only show labels that the aggregation keeps.
            label_names = set(grouped[0].split(", ")) if " by (" in expression else labels[name]
            assert set(re.findall(r"{{(\w+)}}", legend)) <= label_names, query
        asked |= names
    (target,) = (each for each in dashboard["templating"]["list"] if each["name"] == "target")
    name, label = re.findall(r"label_values\((\w+), (\w+)\)", target["query"]["query"])[0]
    assert label in labels[name]
    assert asked == {name for name in labels if not name.endswith(("_sum", "_count"))}
