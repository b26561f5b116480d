"""One injected bottleneck from its set-up to the verdict that a user would read in the report.

Right before it the same load runs with nothing injected. An injection is what limits only where it
takes most of that rate away: where it does not, the scenario is void, with the reason, and made
again, a few times at most. What the load limits is measured, too: where several times as many
clients bring much more, more clients would help as well as removing what was injected, and either
is right.
"""

import contextlib
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from loadstone.cli import exit_code
from tests.rig.bottleneck import UNLIMITED, Bottleneck
from tests.rig.machine import Host, foreign_time, hosts, python
from tests.rig.scenario import BEYOND, CLIENT_LIMITS, FREE, LOAD_LIMITS, Outcome

KEYS = {"LOADSTONE_RIG_KEY": "rig", "LOADSTONE_RIG_SECRET": "rig-secret"}
WARM_UP = "1s"
HOG = "import os\nos.nice(-5)\nwhile True: pass"
HOGS = 4
"""Programs with 3 times the client's weight each: a scheduler lets a client that often waits for
answers run as soon as they come, whatever else it has to run."""

ATTEMPTS = 3
FACTOR_MIN = 3.0
"""An injection must leave at most the third part of the rate that there was without it."""

CEILING_S, CLIENTS_FREE = 2.0, 16
MORE_CLIENTS = 4


class ProgramError(RuntimeError):
    """A program of a scenario failed."""


def inject(bottleneck: Bottleneck, seconds: float, keep: Path | None = None) -> Outcome:
    """Return the verdict on a bottleneck, of the first attempt that is not void, or the last."""
    for _ in range(ATTEMPTS):
        try:
            outcome = _inject(bottleneck, seconds, _free_rate(bottleneck), keep)
        except ProgramError as error:
            outcome = _void(bottleneck, str(error))
        if not outcome.is_void:
            break
    return outcome


def _void(bottleneck: Bottleneck, why: str) -> Outcome:
    """Return the outcome of a scenario that could not be run."""
    return Outcome(
        family=bottleneck.family, combination=bottleneck.summary, seed=bottleneck.seed,
        limit="", also=(), next="", grade=None, rate_per_s=0.0, right=bottleneck.expected,
        is_right=False, is_blamed=False, why_void=why,
    )  # fmt: skip


def _free_rate(bottleneck: Bottleneck) -> float:
    """Return the requests a second of the same operation where nothing is injected."""
    free = replace(
        bottleneck,
        client=UNLIMITED, server=UNLIMITED, faults={}, tls=None, hog=False, is_watched=False,
        load={}, threads=(), judged=CLIENTS_FREE,
    )  # fmt: skip
    document, _ = _run(free, CEILING_S)
    return max(float(result["requests_per_s"]) for result in document["rounds"])


def _rate_with_more_clients(bottleneck: Bottleneck) -> float:
    """Return the requests a second of several times as many clients, limited as before."""
    more = replace(
        bottleneck, is_watched=False, threads=(), judged=MORE_CLIENTS * bottleneck.judged
    )
    document, _ = _run(more, CEILING_S)
    return max(float(result["requests_per_s"]) for result in document["rounds"])


def _inject(
    bottleneck: Bottleneck, seconds: float, free_per_s: float, keep: Path | None
) -> Outcome:
    """Set the bottleneck up, run a campaign against it, and return the verdict of its report."""
    document, foreign = _run(bottleneck, seconds, keep)
    outcome = _outcome(bottleneck, document, foreign=foreign)
    if bottleneck.threads and outcome.rate_per_s < FREE * _rate_with_more_clients(bottleneck):
        right = (*outcome.right, *sorted(LOAD_LIMITS))
        outcome = replace(outcome, right=right, is_right=outcome.limit in right)
    if outcome.rate_per_s * FACTOR_MIN <= free_per_s:
        return outcome
    why = (
        f"{outcome.rate_per_s:.4g}/s, and {free_per_s:.4g}/s just before with nothing injected,"
        f" while programs of others took {foreign:.0%} of the two cores"
    )
    return replace(outcome, why_void=why)


def _run(
    bottleneck: Bottleneck, seconds: float, keep: Path | None = None
) -> tuple[dict[str, Any], float]:
    """Return the JSON report of a campaign, and the share of the cores that others took."""
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
        # Processes without a quota, because a report needs seconds of a core.
        reader = server if bottleneck.server.cores is None else client
        document = json.loads(_loadstone(reader, "report", str(folder / "run"), "-f", "json"))
        if keep is not None:
            shutil.copytree(folder / "run", keep, dirs_exist_ok=True)
    foreign, whole = (late - early for early, late in zip(before, after, strict=True))
    return document, foreign / whole


def _loadstone(host: Host, *words: str) -> str:
    process = host.start(python("-m", "loadstone", *words), KEYS)
    output, _ = process.communicate()
    # Some bottlenecks make requests fail, or a result void.
    is_run = words[0] == "run" and process.returncode in (exit_code.FAILED, exit_code.VOID)
    if process.returncode and not is_run:
        raise ProgramError(f"loadstone {words[0]} ended with {process.returncode}:\n{output}")
    return output


@contextlib.contextmanager
def _server(host: Host, bottleneck: Bottleneck) -> Iterator[tuple[int, int]]:
    configuration = {
        "bind": host.address,
        "access_key": KEYS["LOADSTONE_RIG_KEY"],
        "secret_key": KEYS["LOADSTONE_RIG_SECRET"],
        "threads": 1,
        "faults": dict(bottleneck.faults),
        "tls": bottleneck.tls,
    }
    process = host.start(python("-m", "tests.rig.server", json.dumps(configuration)))
    assert process.stdout is not None
    line = process.stdout.readline().split()
    if len(line) != 2:
        raise ProgramError(f"the store did not start: {line} {process.stdout.read()}")
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
                "endpoint": f"{'https' if bottleneck.tls else 'http'}://{address}:{port}",
                "access_key": {"env": "LOADSTONE_RIG_KEY"},
                "secret_key": {"env": "LOADSTONE_RIG_SECRET"},
                **({"tls": {"verify": False}} if bottleneck.tls else {}),
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
        # Further named limits are not judged, because shared cores are busy with several of them.
        is_right=limit in bottleneck.expected,
        is_blamed=(bottleneck.is_client and limit.startswith(BEYOND))
        or (bottleneck.is_beyond and limit.startswith(CLIENT_LIMITS)),
        foreign=foreign,
    )
