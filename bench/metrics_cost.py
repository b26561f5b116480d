"""Measures the controller's processor time with and without live metrics.

Runs of one load at a fixed rate go on side by side, so that other work on the host slows all of
them: one without metrics, one that is scraped once a second, one that pushes to a collector. Their
processor time is read after they have begun, and again `--seconds` later.

    python bench/metrics_cost.py [--seconds 60] [--rounds 3]
"""

import argparse
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

KINDS = ("none", "scraped", "pushed")
SETTLE_S = 10
LOAD = ("bench", "put", "null", "--rate", "500", "-d", "1h", "-q")


class Collector(BaseHTTPRequestHandler):
    """Receives pushes and counts them."""

    pushes = 0

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        Collector.pushes += 1
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    shares: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as collector:
        threading.Thread(target=collector.serve_forever, daemon=True).start()
        for _ in range(options.rounds):
            for kind, share in _round(options.seconds, collector.server_address[1]).items():
                shares[kind].append(share)
        collector.shutdown()
    for kind in KINDS:
        more = [mine - none for mine, none in zip(shares[kind], shares["none"], strict=True)]
        print(
            f"{kind}: {statistics.mean(shares[kind]):.2%} of a core; more than without:"
            f" {', '.join(f'{value:+.2%}' for value in more)}"
        )
    print(f"pushes: {Collector.pushes}; load of the machine: {os.getloadavg()[0]:.1f}")


def _round(seconds: float, collector: int) -> dict[str, float]:
    """Return the share of a core that each kind of run takes."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    flags = {
        "none": [],
        "scraped": ["--metrics-listen", f"127.0.0.1:{port}"],
        "pushed": ["--metrics-push", f"http://127.0.0.1:{collector}/v1/metrics"],
    }
    with tempfile.TemporaryDirectory() as folder:
        runs = {
            kind: subprocess.Popen(
                [sys.executable, "-m", "loadstone", *LOAD, "-o", f"{folder}/{kind}", *flags[kind]],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )
            for kind in KINDS
        }  # fmt: skip
        try:
            time.sleep(SETTLE_S)
            before, began = {kind: _cpu_s(run.pid) for kind, run in runs.items()}, time.monotonic()
            scrapes = 0
            while (passed := time.monotonic() - began) < seconds:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
                    assert b"loadstone_live_requests_total" in answer.read()
                scrapes += 1
                time.sleep(max(0.0, began + scrapes - time.monotonic()))
            return {kind: (_cpu_s(run.pid) - before[kind]) / passed for kind, run in runs.items()}
        finally:
            for run in runs.values():
                run.terminate()
                run.wait()


def _cpu_s(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
