"""A real Prometheus scrapes a run, and answers every panel of the dashboard."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.system.command import NO_STATE
from tests.unit.test_live_metrics import DASHBOARD, expressions

PROMETHEUS = shutil.which("prometheus")

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(PROMETHEUS is None, reason="no prometheus here: make servers installs it"),
]

CONFIGURATION = """
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: loadstone
    static_configs: [{{targets: ["{address}"]}}]
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def query(port: int, expression: str) -> list[dict[str, Any]]:
    """Return what an instant query yields; none while Prometheus is not ready."""
    words = urllib.parse.urlencode({"query": expression})
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?{words}") as answer:
            result: list[dict[str, Any]] = json.load(answer)["data"]["result"]
            return result
    except urllib.error.URLError:
        return []


@contextlib.contextmanager
def running(*command: str) -> Iterator["subprocess.Popen[bytes]"]:
    environment = {**os.environ, "XDG_STATE_HOME": NO_STATE}
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


def test_prometheus_answers_the_panels_of_the_dashboard(tmp_path: Path) -> None:
    port, metrics = free_port(), free_port()
    configuration = tmp_path / "prometheus.yml"
    configuration.write_text(CONFIGURATION.format(address=f"127.0.0.1:{metrics}"))
    asked = {
        expression.replace("$target", ".*").replace("$__rate_interval", "30s")
        for expression in expressions(json.loads(DASHBOARD.read_text()))
    }
    failures = {expression for expression in asked if "outcome!~" in expression}
    missing = asked - failures
    with (
        running(
            str(PROMETHEUS), f"--config.file={configuration}",
            f"--storage.tsdb.path={tmp_path / 'db'}", f"--web.listen-address=127.0.0.1:{port}",
        ),
        running(
            sys.executable, "-m", "loadstone", "bench", "put", "null", "--rate", "500", "-d", "10m",
            "--metrics-listen", f"127.0.0.1:{metrics}", "-o", str(tmp_path / "run"),
        ) as load,
    ):  # fmt: skip
        deadline = time.monotonic() + 120
        rate = 0.0
        # Prometheus sees the whole rate when it has scraped for as long as it looks back.
        while (missing or rate < 400) and time.monotonic() < deadline and load.poll() is None:
            time.sleep(1)
            missing = {expression for expression in missing if not query(port, expression)}
            answer = query(port, 'sum(rate(loadstone_live_requests_total{outcome="ok"}[10s]))')
            rate = float(answer[0]["value"][1]) if answer else 0.0
        assert not missing
        assert 400 <= rate < 700
        assert not any(query(port, expression) for expression in failures), "none has failed"
