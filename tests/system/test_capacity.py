"""A search for a capacity on the command line: against the embedded store with a known limit."""

import json
from pathlib import Path

import pytest

from loadstone import _loadgen
from loadstone.results.store import read_run
from tests.system import campaigns
from tests.system.command import loadstone

KEYS = {"access_key": "KEY", "secret_key": "secret"}
# 20 ms for each request, and 64 objects of 64 KiB a second: beyond it, requests wait.
FAULTS = {"latency": {"get": {"kind": "fixed", "ms": 20.0}}, "bytes_per_s": 4 << 20}
# A median of a quarter of a second: what a busy host does to single requests does not decide.
CAMPAIGN = """\
name: capacity
targets:
  store: {{driver: s3, endpoint: "http://{address}", access_key: KEY, secret_key: {{env: SECRET}}}}
dataset: {{objects: 64, size: 64KiB}}
phases:
  - op: get
    keys: {{order: uniform}}
    capacity:
      p50: 250ms
      achieved: 90%
      min: 20/s
      max: 200/s
      width: 10%
      coarse_trial: 1s
      trial: 2s
      majority_of: 1
      confirm: 2
      trials_max: 80
"""


@pytest.mark.parametrize(
    "hosts",
    ["", pytest.param("hosts: {launch: local, count: 2}\n", marks=pytest.mark.long(cpu_s=7))],
)
def test_a_search_finds_the_limit_of_a_store(tmp_path: Path, hosts: str) -> None:
    """Two hosts find the one limit that the store has, not two of them."""
    store = _loadgen.Store(json.dumps({**KEYS, "faults": FAULTS}))
    try:
        file = campaigns.write(tmp_path, CAMPAIGN.format(address=store.address) + hosts)
        folder = tmp_path / "run"
        preview = loadstone("run", file, "--dry-run", environment={"SECRET": "secret"})
        assert "80 trials" in preview.out
        whole = loadstone("run", file, "-o", folder, environment={"SECRET": "secret"})
        assert whole.code == 0, whole.err
    finally:
        store.stop()
    assert "Capacity" in whole.out
    document = json.loads(loadstone("report", folder, "-f", "json").out)
    (search,) = document["searches"]
    assert search["confirmed"], search["reason"]
    # More than 64/s may pass: a trial is over before the queue is so long.
    assert 40 <= search["holds_at"] <= 90
    assert search["holds_at"] < search["fails_at"] <= 110
    assert search["latency_ns"] >= 20e6
    assert len(read_run(folder).records) >= len(search["steps"])


OVERRUN = """\
name: overrun
targets:
  store: {{driver: s3, endpoint: "http://{address}", access_key: KEY, secret_key: {{env: SECRET}}}}
dataset: {{objects: 64, size: 64KiB}}
load: {{rate: 150/s}}
phases:
  - {{op: get, duration: 2s, keys: {{order: uniform}}}}
"""


def test_an_open_load_beyond_the_limit_shows_the_rate_of_the_store(tmp_path: Path) -> None:
    store = _loadgen.Store(json.dumps({**KEYS, "faults": FAULTS}))
    try:
        file = campaigns.write(tmp_path, OVERRUN.format(address=store.address))
        whole = loadstone("run", file, "-o", tmp_path / "run", environment={"SECRET": "secret"})
        assert whole.code == 0, whole.err
    finally:
        store.stop()
    (cell,) = json.loads(loadstone("report", tmp_path / "run", "-f", "json").out)["rounds"]
    # The store paces 64 a second; a slow machine serves fewer, and none serves what was asked for.
    assert cell["requests_per_s"] < 90
    assert "OVERLOAD" in cell["labels"]
    assert not any(limit in str(cell) for limit in ("NOT_SATURATED", "REQUESTED_RATE"))
