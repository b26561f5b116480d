"""The server of the rig: the embedded store, and an exporter of what its host does meanwhile.

`python -m tests.rig.server CONFIGURATION` prints the two ports and serves until it is ended.
"""

import http.server
import json
import os
import sys
import threading
import time
from pathlib import Path

from loadstone import _loadgen
from tests.rig import tls

CPU_GROUPS = Path("/sys/fs/cgroup")


def metrics() -> str:
    """Return this host's core, its quota and its card, named as the usual exporters name them.

    What others run on the machine is no program of this host, whose core is its own.
    """
    core = min(os.sched_getaffinity(0))
    busy = used_s()
    times = {"user": busy, "idle": time.monotonic() - busy}
    lines = [
        f'node_cpu_seconds_total{{cpu="{core}",mode="{mode}"}} {seconds}'
        for mode, seconds in times.items()
    ]
    lines += quota()
    for line in Path("/proc/net/dev").read_text().splitlines()[2:]:
        card, _, text = line.partition(":")
        words = text.split()
        for name, column in (("receive", 0), ("transmit", 8)):
            label = f'device="{card.strip()}"'
            lines.append(f"node_network_{name}_bytes_total{{{label}}} {words[column]}")
    return "\n".join(lines) + "\n"


def group(controller: str) -> Path:
    """Return the folder of this process' control group, of either version."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        number, names, path = line.split(":", 2)
        if controller in names.split(","):
            return CPU_GROUPS / controller / path.lstrip("/")
        if number == "0":
            version_2 = CPU_GROUPS / path.lstrip("/")
    return version_2


def used_s() -> float:
    """Return how long the programs of this host have run, in seconds of one core."""
    usage = group("cpuacct") / "cpuacct.usage"
    if usage.exists():
        return int(usage.read_text()) / 1e9
    text = (group("cpu") / "cpu.stat").read_text()
    return int(text.split("usage_usec", 1)[1].split()[0]) / 1e6


def quota() -> list[str]:
    """Return how often this process' control group was held back."""
    lines = []
    for line in (group("cpu") / "cpu.stat").read_text().splitlines():
        key, _, value = line.partition(" ")
        if key in ("nr_periods", "nr_throttled"):
            name = {"nr_periods": "periods", "nr_throttled": "throttled_periods"}[key]
            lines.append(f"container_cpu_cfs_{name}_total {value}")
    return lines


class Exporter(http.server.BaseHTTPRequestHandler):
    """Answers every request with the metrics of this moment."""

    def do_GET(self) -> None:
        body = metrics().encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def main() -> None:
    """Serve until the process is ended."""
    configuration = json.loads(sys.argv[1])
    key = configuration.pop("tls")
    store = _loadgen.Store(json.dumps(configuration))
    address = configuration["bind"]
    port = tls.serve(address, store.port, key) if key else store.port
    exporter = http.server.ThreadingHTTPServer((address, 0), Exporter)
    print(port, exporter.server_address[1], flush=True)
    threading.Thread(target=exporter.serve_forever, daemon=True).start()
    threading.Event().wait()


if __name__ == "__main__":
    main()
