"""Audits of what no HTTP driver wrote: what another program damages is found, and nothing else."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loadstone.cli import exit_code
from tests.conformance.conftest import marks_of
from tests.conformance.targets import TARGETS, Place
from tests.system.command import loadstone

AUDITED = ("folder", "ceph-pool-replicated")
OBJECTS = 1200
"""More names than are listed, and handed over, at once."""


@pytest.fixture
def store(request: pytest.FixtureRequest) -> Iterator[Place]:
    with request.param.start(request) as place:
        yield place


TARGETS_AUDITED = [
    pytest.param(target, marks=marks_of(target), id=target.name)
    for target in TARGETS
    if target.name in AUDITED
]


def run_campaign(store: Place, folder: Path, audit: Any, **workload: Any) -> tuple[int, Any]:
    """Run a campaign with an audit, keep its data, and return the exit code and the audit."""
    campaign = {
        "name": "audited",
        "targets": {"store": {"driver": store.driver, **store.settings}},
        "load": {"threads": 4},
        "keep_data": True,
        "audit": audit,
        **workload,
    }
    (folder / "campaign.yaml").write_text(json.dumps(campaign))
    command = loadstone("run", folder / "campaign.yaml", "-o", folder / "run")
    return command.code, loadstone("report", folder / "run", "-f", "json").json()["audit"]


@pytest.mark.parametrize("store", TARGETS_AUDITED, indirect=True)
def test_what_another_program_damaged_is_found_by_its_kind(store: Place, tmp_path: Path) -> None:
    dataset = {"objects": OBJECTS, "buckets": 2, "size": "5KiB", "object_prefix": "nested/key-"}
    phases = [{"name": name, "op": "put", "requests": OBJECTS} for name in ("new", "over")]
    code, audit = run_campaign(store, tmp_path, True, dataset=dataset, phases=phases)
    assert not code
    assert (audit["acknowledged"], audit["read_back"], audit["wrong"]) == (OBJECTS, OBJECTS, 0)

    view = store.view
    assert view is not None
    bucket = min(name for name in view.buckets() if "audited" in name)
    keys = sorted(key for key in view.objects(bucket) if key.startswith("nested/key-"))
    content = [view.read(bucket, key) for key in keys[:4]]
    view.delete(bucket, keys[0])
    view.write(bucket, keys[1], content[1][:2000] + b"\0" + content[1][2001:])
    view.write(bucket, keys[2], content[2][:-1])
    view.write(bucket, keys[3], content[0])
    command = loadstone("audit", tmp_path / "run")
    audit = loadstone("report", tmp_path / "run", "-f", "json").json()["audits"][-1]
    kinds = {finding["key"]: finding["kind"] for finding in audit["findings"]}
    damages = ("lost", "corrupt", "short", "mixed")
    assert kinds == dict(zip(keys[:4], damages, strict=True))
    assert command.code == exit_code.FAILED
    loadstone("clean", tmp_path / "run", "--yes")
    assert bucket not in view.buckets()


@pytest.mark.parametrize("store", TARGETS_AUDITED, indirect=True)
def test_a_history_of_a_mix_is_linear(store: Place, tmp_path: Path) -> None:
    mix = {"put": 3, "get": 4, "delete": 1}
    workload = {
        "dataset": {"objects": 20, "size": "4KiB"},
        "phases": [{"mix": mix, "requests": 2000}],
        "expect": {"failures": True},
    }
    _, audit = run_campaign(store, tmp_path, {"history": True}, **workload)
    (history,) = audit["histories"]
    assert history["calls"] > 1900
    assert audit["wrong"] == history["undecided"] == 0
    assert not loadstone("clean", tmp_path / "run", "--yes").code
