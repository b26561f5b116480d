"""Audits of what no HTTP driver wrote: what another program damages is found, and nothing else."""

import json
import threading
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
def test_damage_by_another_program_is_found_with_its_kind(store: Place, tmp_path: Path) -> None:
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
    for number, finding in enumerate(audit["findings"]):
        replay = tmp_path / "run" / finding["replay"]
        repeated = loadstone("run", replay, "-o", tmp_path / f"replay-{number}")
        assert not repeated.code, "the replay runs on a sound store"
    loadstone("clean", tmp_path / "run", "--yes")
    assert bucket not in view.buckets()


def test_a_file_of_two_writes_is_torn_and_its_replay_makes_both(tmp_path: Path) -> None:
    folder, saved = tmp_path / "files", tmp_path / "saved"
    folder.mkdir()
    dataset = {"objects": 20, "size": "20KiB", "object_prefix": "key-"}
    campaign = {
        "name": "torn",
        "targets": {"files": {"driver": "file", "path": str(folder)}},
        "load": {"threads": 2},
        "dataset": dataset,
        "phases": [{"name": name, "op": "put"} for name in ("new", "over")],
        "hooks": [{"at": "after_phase", "phases": ["new"], "run": ["cp", "-r", folder, saved]}],
        "keep_data": True,
        "audit": True,
    }
    path, run = tmp_path / "torn.yaml", tmp_path / "run"
    path.write_text(json.dumps(campaign, default=str))
    command = loadstone("run", path, "-o", run, "--allow-commands")
    assert not command.code, command.err
    (key,) = folder.rglob("key-7")
    older = saved / key.relative_to(folder)
    key.write_bytes(key.read_bytes()[:8192] + older.read_bytes()[8192:])
    assert loadstone("audit", run).code == exit_code.FAILED
    audit = loadstone("report", run, "-f", "json").json()["audits"][-1]
    (finding,) = audit["findings"]
    assert (finding["kind"], finding["key"]) == ("torn", "key-7")
    written = [call["version"] for call in finding["calls"] if call["operation"] == "put"]
    assert written == [1, 2]
    assert not loadstone("run", run / finding["replay"], "-o", tmp_path / "replay").code
    script = (run / finding["replay"]).with_suffix(".csv").read_text()
    actions = [line.split(",")[1] for line in script.splitlines()[1:]]
    assert actions[:3] == ["WRITE", "WRITE", "READ"]


def test_a_replay_shows_that_a_file_is_lost_again(tmp_path: Path) -> None:
    folder, run = tmp_path / "files", tmp_path / "run"
    folder.mkdir()
    words = ("put", f"{folder}/", "-n", "20", "-s", "4KiB", "-t", "2", "--audit", "--keep-data")
    assert not loadstone("bench", *words, "--object-prefix", "key-", "-o", run).code
    (key,) = folder.rglob("key-7")
    key.unlink()
    assert loadstone("audit", run).code == exit_code.FAILED
    (finding,) = loadstone("report", run, "-f", "json").json()["audits"][-1]["findings"]
    assert finding["kind"] == "lost"
    is_over = threading.Event()

    def lose() -> None:
        while not is_over.wait(0.001):
            for path in folder.rglob("key-7"):
                path.unlink(missing_ok=True)

    losing = threading.Thread(target=lose)
    losing.start()
    try:
        again = loadstone("run", run / finding["replay"], "-o", tmp_path / "again")
    finally:
        is_over.set()
        losing.join()
    assert again.code == exit_code.FAILED
    assert not loadstone("run", run / finding["replay"], "-o", tmp_path / "sound").code


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
