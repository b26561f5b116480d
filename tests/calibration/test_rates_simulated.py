"""Rates on the virtual clock: a store of known capacity comes back, whatever load and window."""

import datetime
from pathlib import Path

import pytest

from loadstone import _loadgen
from loadstone.analysis import Findings, analyse
from loadstone.campaign.parse import parse_campaign
from loadstone.campaign.planning.plan import make_plan
from loadstone.execution import runner
from loadstone.results.store import read_run
from loadstone.results.writer import RunWriter

DRIVERS = _loadgen.drivers(with_tests=True)
CAMPAIGN = """
name: rates
targets: {{model: {{driver: simulated, {law}}}}}
dataset: {{objects: 1000, size: 4KiB}}
load: {{{load}, cores: 1}}
phases: [{{op: get, duration: {length}, warm_up: {warm_up}}}]
"""
LONG = "latency: fixed, mean_ns: 3000000000"
ONE_SERVER = "latency: fixed, mean_ns: 1000000, servers: 1"
CONSTANT = "arrivals: constant, clients_max: 100000"


def measure(folder: Path, *, law: str, load: str, length: str, warm_up: str) -> Findings:
    text = CAMPAIGN.format(law=law, load=load, length=length, warm_up=warm_up)
    plan = make_plan(parse_campaign(text, drivers=DRIVERS, environ={}), DRIVERS)
    manifest = {
        "name": plan.name,
        "run": plan.run,
        "seed": plan.seed,
        "plan": plan.documents(),
        "started": datetime.datetime.now(datetime.UTC).isoformat(),
    }
    with RunWriter.create(folder, manifest) as writer:
        runner.execute(plan, writer, lambda event: None)
    return analyse(read_run(folder))


@pytest.mark.parametrize("warm_up", ["0s", "2s", "6s"])
@pytest.mark.parametrize(
    ("law", "load", "length", "truth"),
    [
        # Few, long requests: the edges of the window cut most of them.
        (LONG, "threads: 4", "5s", 4 / 3),
        (LONG, "threads: 4", "10s", 4 / 3),
        (LONG, "threads: 7", "31s", 7 / 3),
        # Short ones, and a queue before one server.
        ("latency: fixed, mean_ns: 5000000", "threads: 4", "3s", 800),
        (ONE_SERVER, "threads: 64", "5s", 1000),
        # Open loads below the capacity, with short and with long answers.
        (ONE_SERVER, f"rate: 900/s, {CONSTANT}", "5s", 900),
        (LONG, f"rate: 10/s, {CONSTANT}", "20s", 10),
        ("latency: fixed, mean_ns: 100000000", f"rate: 300/s, {CONSTANT}", "10s", 300),
        # And above it: a backlog lies before the window, and another is left behind it.
        (ONE_SERVER, f"rate: 1100/s, {CONSTANT}", "10s", 1000),
        (ONE_SERVER, f"rate: 3000/s, {CONSTANT}", "10s", 1000),
        (f"{LONG}, servers: 24", f"rate: 12/s, {CONSTANT}", "30s", 8),
        # Too few clients for the rate: what was never sent took no time of anybody.
        (
            "latency: fixed, mean_ns: 10000000",
            "rate: 900/s, arrivals: constant, clients_max: 4",
            "10s",
            400,
        ),
    ],
)
def test_a_steady_store_has_its_rate_in_every_window(
    tmp_path: Path, law: str, load: str, length: str, warm_up: str, truth: float
) -> None:
    if "servers: 24" in law and warm_up == "2s":
        pytest.skip("its answers come by 24, and a window from 2 to 32 s holds no whole cycles")
    findings = measure(tmp_path / "run", law=law, load=load, length=length, warm_up=warm_up)
    (cell,) = findings.results
    # Without a warm-up the first request of a client meets an empty queue, and the last is cut.
    clients = cell.clients if warm_up == "0s" and cell.load["kind"] == "closed" else 0
    allowed = max(0.005, 0.5 * (clients or 0) / cell.good)
    assert cell.requests_per_s == pytest.approx(truth, rel=allowed)
    assert not {"LITTLE", "IDLE", "OUTAGE"} & set(cell.labels)
    is_over = load.startswith("rate") and truth < float(load.split()[1].partition("/")[0])
    assert ("OVERLOAD" in cell.labels) == is_over
