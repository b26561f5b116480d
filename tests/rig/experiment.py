"""One injected bottleneck from its set-up to the verdict that a user would read in the report."""

import contextlib
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.rig.bottleneck import Bottleneck
from tests.rig.machine import Host, hosts, processor_times, python

KEYS = {"LOADSTONE_RIG_KEY": "rig", "LOADSTONE_RIG_SECRET": "rig-secret"}
WARM_UP = "1s"
HOG = "while True: pass"
HOGS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What loadstone said of the judged load, and how fast it went.

    `stolen` is the share of the machine's time that its hypervisor took meanwhile: it slows client
    and server alike, and is then a bottleneck that was not injected.
    """

    bottleneck: str
    limit: str
    grade: str | None
    reason: str
    requests_per_s: float
    verdicts: Mapping[str, str]
    stolen: float = 0.0


def inject(bottleneck: Bottleneck, seconds: float, keep: Path | None = None) -> Outcome:
    """Set the bottleneck up, run a campaign against it, and return the verdict of its report."""
    with (
        tempfile.TemporaryDirectory(prefix="rig-run-") as text,
        hosts(bottleneck.client, bottleneck.server) as (client, server),
    ):
        folder = Path(text)
        if bottleneck.is_watched:
            server.start(["iperf3", "-s", "-B", server.address])
        with _server(server, bottleneck, folder) as (port, exporter):
            campaign = _campaign(bottleneck, server.address, port, exporter, seconds)
            (folder / "campaign.yaml").write_text(json.dumps(campaign))
            before = processor_times()
            with _hogs(client, HOGS if bottleneck.hog else 0):
                _loadstone(client, "run", str(folder / "campaign.yaml"), "-o", str(folder / "run"))
            after = processor_times()
        document = json.loads(_loadstone(server, "report", str(folder / "run"), "-f", "json"))
        if keep is not None:
            shutil.copytree(folder / "run", keep / bottleneck.name, dirs_exist_ok=True)
    stolen, whole = (late - early for early, late in zip(before, after, strict=True))
    return _outcome(bottleneck, document, stolen=stolen / whole)


def _loadstone(host: Host, *words: str) -> str:
    process = host.start(python("-m", "loadstone", *words), KEYS)
    said, _ = process.communicate()
    # Failed requests end a run with 1, and some bottlenecks make requests fail.
    if process.returncode not in (0, 1) or (process.returncode and words[0] != "run"):
        raise RuntimeError(f"loadstone {words[0]} ended with {process.returncode}:\n{said}")
    return said


@contextlib.contextmanager
def _server(host: Host, bottleneck: Bottleneck, folder: Path) -> Iterator[tuple[int, int]]:
    configuration = {
        "bind": host.address,
        "access_key": KEYS["LOADSTONE_RIG_KEY"],
        "secret_key": KEYS["LOADSTONE_RIG_SECRET"],
        "threads": 1,
        "faults": dict(bottleneck.faults),
    }
    if bottleneck.on_disk:
        configuration |= {"data": str(folder / "data"), "fsync": True}
    process = host.start(python("-m", "tests.rig.server", json.dumps(configuration)))
    assert process.stdout is not None
    line = process.stdout.readline().split()
    if len(line) != 2:
        raise RuntimeError(f"the store did not start: {line} {process.stdout.read()}")
    yield int(line[0]), int(line[1])


@contextlib.contextmanager
def _hogs(host: Host, count: int) -> Iterator[None]:
    processes = [host.start([sys.executable, "-c", HOG]) for _ in range(count)]
    if count:
        time.sleep(0.5)
    yield
    for process in processes:
        process.kill()
        process.wait()


def _campaign(
    bottleneck: Bottleneck, address: str, port: int, exporter: int, seconds: float
) -> dict[str, Any]:
    phase: dict[str, Any] = {
        "op": bottleneck.operation,
        "duration": f"{seconds}s",
        "warm_up": WARM_UP,
        "keys": {"order": "uniform"},
    }
    campaign: dict[str, Any] = {
        "name": bottleneck.name,
        "targets": {
            "store": {
                "driver": "s3",
                "endpoint": f"http://{address}:{port}",
                "access_key": {"env": "LOADSTONE_RIG_KEY"},
                "secret_key": {"env": "LOADSTONE_RIG_SECRET"},
            }
        },
        "dataset": {"objects": 200, "size": bottleneck.size},
        "load": dict(bottleneck.load) or {"threads": bottleneck.judged},
        "phases": [phase],
        "expect": {"failures": True},
        **bottleneck.workload,
    }
    if bottleneck.is_watched:
        ceiling = {"kind": "network", "host": address, "streams": 4, "duration": "5s"}
        url = f"http://{address}:{exporter}/metrics"
        watched = {"urls": url, "metrics": ["node_*", "container_*"]}
        campaign["ceilings"] = [ceiling]
        campaign["probes"] = {"prometheus": {"name": "server", "every": "1s", **watched}}
    if bottleneck.threads:
        campaign["sweep"] = {"threads": list(bottleneck.threads)}
    return campaign


def _outcome(bottleneck: Bottleneck, document: Mapping[str, Any], *, stolen: float) -> Outcome:
    totals = {
        cell["parameters"].get("threads", cell["parameters"].get("rate")): cell
        for cell in document["rounds"]
    }
    judged = totals[bottleneck.judged]
    verdict = judged["verdict"]
    return Outcome(
        bottleneck=bottleneck.name,
        limit=verdict["limit"],
        grade=verdict["grade"],
        reason=verdict["reason"],
        requests_per_s=judged["requests_per_s"],
        verdicts={
            f"{load:g}": f"{cell['verdict']['limit']} at {cell['requests_per_s']:.0f}/s"
            for load, cell in sorted(totals.items())
        },
        stolen=stolen,
    )
