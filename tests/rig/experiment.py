"""One injected bottleneck from its set-up to the verdict that a user would read in the report."""

import contextlib
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.rig.bottleneck import Bottleneck
from tests.rig.machine import Host, foreign_time, hosts, python
from tests.rig.scenario import BEYOND, CLIENT_LIMITS, Outcome

KEYS = {"LOADSTONE_RIG_KEY": "rig", "LOADSTONE_RIG_SECRET": "rig-secret"}
WARM_UP = "1s"
HOG = "while True: pass"
HOGS = 4


FOREIGN_MAX = 0.25
"""Programs of others may take so much of the two cores; beyond it they are what limits."""


def inject(bottleneck: Bottleneck, seconds: float, keep: Path | None = None) -> Outcome:
    """Set the bottleneck up, run a campaign against it, and return the verdict of its report."""
    with (
        tempfile.TemporaryDirectory(prefix="rig-run-") as text,
        hosts(bottleneck.client, bottleneck.server) as (client, server),
    ):
        folder = Path(text)
        if bottleneck.is_watched:
            server.start(["iperf3", "-s", "-B", server.address])
        with _server(server, bottleneck) as (port, exporter):
            campaign = _campaign(bottleneck, server.address, port, exporter, seconds)
            (folder / "campaign.yaml").write_text(json.dumps(campaign))
            before = foreign_time((client, server))
            with _hogs(client, HOGS if bottleneck.hog else 0):
                _loadstone(client, "run", str(folder / "campaign.yaml"), "-o", str(folder / "run"))
            after = foreign_time((client, server))
        document = json.loads(_loadstone(server, "report", str(folder / "run"), "-f", "json"))
        if keep is not None:
            shutil.copytree(folder / "run", keep, dirs_exist_ok=True)
    foreign, whole = (late - early for early, late in zip(before, after, strict=True))
    return _outcome(bottleneck, document, foreign=foreign / whole)


def _loadstone(host: Host, *words: str) -> str:
    process = host.start(python("-m", "loadstone", *words), KEYS)
    said, _ = process.communicate()
    # Failed requests end a run with 1, and some bottlenecks make requests fail.
    if process.returncode not in (0, 1) or (process.returncode and words[0] != "run"):
        raise RuntimeError(f"loadstone {words[0]} ended with {process.returncode}:\n{said}")
    return said


@contextlib.contextmanager
def _server(host: Host, bottleneck: Bottleneck) -> Iterator[tuple[int, int]]:
    configuration = {
        "bind": host.address,
        "access_key": KEYS["LOADSTONE_RIG_KEY"],
        "secret_key": KEYS["LOADSTONE_RIG_SECRET"],
        "threads": 1,
        "faults": dict(bottleneck.faults),
    }
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
        "name": "rig",
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


def _outcome(bottleneck: Bottleneck, document: Mapping[str, Any], *, foreign: float) -> Outcome:
    totals = {
        cell["parameters"].get("threads", cell["parameters"].get("rate")): cell
        for cell in document["rounds"]
    }
    judged = totals[bottleneck.judged]
    verdict = judged["verdict"]
    limit, also = verdict["limit"], verdict.get("also") or []
    return Outcome(
        family=bottleneck.family,
        combination=f"{bottleneck.family}: {bottleneck.summary}"
        + (", watched" if bottleneck.is_watched else ""),
        seed=bottleneck.seed,
        limit=limit,
        also=also,
        next=": ".join(verdict.get("next") or ()),
        grade=verdict["grade"],
        rate_per_s=judged["requests_per_s"],
        right=bottleneck.expected,
        # What else stands beside it is not judged: cores that are shared are busy with much.
        is_right=limit in bottleneck.expected,
        is_blamed=(bottleneck.is_client and limit.startswith(BEYOND))
        or (bottleneck.is_beyond and limit.startswith(CLIENT_LIMITS)),
        is_void=foreign > FOREIGN_MAX,
    )
