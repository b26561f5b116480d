"""Writes that librados sends without a copy: stored as they are, whatever happens to the OSDs."""

import contextlib
import ctypes
import itertools
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from loadstone import _loadgen
from tests.conformance import trials
from tests.conformance.targets import Place
from tests.conformance.trials import SECOND_NS, Dataset, Result
from tests.system.ceph_trials import after, frozen, lasting, mend, place, service
from tests.system.servers.ceph import Cluster

pytestmark = pytest.mark.real

KIB, MIB = 1 << 10, 1 << 20
# What is copied, and what is lent in buffers for the largest.
SIZES = [[4 * KIB, 1.0], [256 * KIB, 1.0], [MIB + 1, 1.0], [4 * MIB, 1.0]]
# Less than an OSD may be silent before it counts as dead.
FROZEN_S = 4.0
CLIENTS = 16
# What may be given away to librados, apart from what is in flight.
GIVEN_AWAY_BYTES_MAX = 1 << 30

# Runs trials where librados is not opened yet, and where what was given away does not count. Tells
# of each its features and what memory is used then, or why it was refused.
PROGRAM = """\
import json, sys
from loadstone import _loadgen
told = []
for document in sys.stdin:
    try:
        summary = json.loads(_loadgen.run_trial(document))
        status = dict(line.split(":", 1) for line in open("/proc/self/status"))
        told.append([summary["features"], int(status["VmRSS"].split()[0]) << 10])
    except _loadgen.TargetError as error:
        told.append(str(error))
print(json.dumps(told))
"""


@pytest.fixture(params=["bench", "ecbench"])
def pools(request: pytest.FixtureRequest, ceph_to_break: Cluster) -> tuple[Place, Place]:
    """Give a pool as it is written to without a copy, and as it is read."""
    pool: str = request.param
    return place(ceph_to_break, pool, zero_copy=True), place(ceph_to_break, pool)


def writes(result: Result) -> dict[str, int]:
    """Return what became of the writes of a trial."""
    return {name: int(count) for name, count in result.summary["features"].items()}


def all_lent(requests: int) -> dict[str, int]:
    """Return what is told when each write was lent, and librados gave each buffer back."""
    others = ("writes_small", "writes_copied", "buffers_given_away")
    return {"writes_lent": requests} | dict.fromkeys(others, 0)


def check(
    where: Place, dataset: Dataset, law: object, *, written: int | None = None, version: int = 1
) -> None:
    """Read all objects, byte by byte; those that were not surely written may be missing."""
    document = trials.document(where, dataset, "get")
    document["dataset"] |= {"size": law, "version": version}
    read = trials.run(document)
    outcomes = read.outcomes()
    assert outcomes.keys() <= {"ok", "not_found"}, read.summary["error_examples"]
    assert outcomes["ok"] >= (dataset.objects if written is None else written)


def fixed(dataset: Dataset) -> dict[str, object]:
    """Return the law of sizes of a dataset."""
    return {"kind": "fixed", "bytes": dataset.size_bytes}


@contextlib.contextmanager
def freezing(cluster: Cluster) -> Iterator[threading.Event]:
    """Freeze all OSDs for a while once the event says that a trial has begun."""
    begun, is_over = threading.Event(), threading.Event()

    def freeze() -> None:
        begun.wait()
        if not is_over.is_set():
            with frozen(cluster):
                time.sleep(FROZEN_S)

    thread = threading.Thread(target=freeze)
    thread.start()
    try:
        yield begun
    finally:
        is_over.set()
        begun.set()
        thread.join()


def put_over_a_freeze(cluster: Cluster, where: Place, dataset: Dataset, **changes: Any) -> Result:
    """Write each object once, with all OSDs frozen meanwhile; the load goes on before and after.

    Objects are written in order and never again, so that nothing makes a wrong one good.
    """
    load = {"kind": "closed", "clients": CLIENTS}
    document = trials.document(where, dataset, "put", load=load, **changes)
    with freezing(cluster) as begun:
        result = trials.run(document, begun=begun)
    rows = [row for row in result.rows if row["outcome"] == "ok" and row["requests"]]
    ends = sorted({row["second"] for row in rows})
    gap = max((b - a for a, b in itertools.pairwise(ends)), default=0)
    assert gap >= FROZEN_S - 1, f"no stall, or nothing behind it: writes ended in seconds {ends}"
    return result


def run_apart(*documents: Mapping[str, Any], **environment: str) -> list[Any]:
    """Run trials in a process of their own, and return what it tells."""
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input="\n".join(map(json.dumps, documents)),
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    told: list[Any] = json.loads(ran.stdout)
    return told


@pytest.mark.parametrize("duplicate", [0.0, 1.0])
def test_what_is_lent_is_stored_as_it_is(pools: tuple[Place, Place], duplicate: float) -> None:
    lent, where = pools
    dataset = Dataset(objects=40, duplicate=duplicate)
    law = {"kind": "weighted", "choices": SIZES}
    for phase in ("prepare", "put"):
        document = trials.document(lent, dataset, "put", phase=phase)
        document["dataset"]["size"] = law
        # What stands there already would not tell whether it was written again.
        document["dataset"]["version"] = 1 if phase == "prepare" else 2
        result = trials.run(document)
        assert result.outcomes() == {"ok": dataset.objects}, result.summary["error_examples"]
        told = writes(result)
        assert told["writes_lent"] > told["writes_small"] > 0
        assert told["writes_lent"] + told["writes_small"] == dataset.objects
        assert told["writes_copied"] == told["buffers_given_away"] == 0
        check(where, dataset, law, version=document["dataset"]["version"])
    trials.clean_up(where, dataset)


@pytest.mark.parametrize("operation", ["write", "append"])
def test_blocks_are_lent_too(ceph_to_break: Cluster, operation: str) -> None:
    lent, where = place(ceph_to_break, zero_copy=True), place(ceph_to_break)
    dataset = Dataset(objects=6, size_bytes=2 * MIB)
    blocks = 2 * MIB // (512 * KIB) * dataset.objects
    document = trials.document(lent, dataset, operation)
    document["options"]["range_bytes"] = 512 * KIB
    document["stop"]["requests"] = blocks
    result = trials.run(document)
    assert result.outcomes() == {"ok": blocks}, result.summary["error_examples"]
    assert writes(result) == all_lent(blocks)
    check(where, dataset, fixed(dataset))
    trials.clean_up(where, dataset)


def test_nothing_is_told_where_nothing_could_be_lent(ceph_to_break: Cluster) -> None:
    lent, dataset = place(ceph_to_break, zero_copy=True), Dataset(size_bytes=4 * KIB)
    result = trials.prepare(lent, dataset)
    assert result.summary["features"] == {}
    trials.clean_up(lent, dataset)


def test_writes_that_go_to_another_osd_are_stored_as_they_are(
    pools: tuple[Place, Place], ceph_to_break: Cluster
) -> None:
    """Buffers are filled again while connections to the dead one may still know them.

    Each object is written once, so that nothing makes a wrong one good.
    """
    (lent, where), cluster = pools, ceph_to_break
    dataset = Dataset(objects=600, size_bytes=MIB)
    load = {"kind": "open", "rate_per_s": 40.0, "arrivals": "constant", "clients_max": CLIENTS}
    with after(3.0, lambda: cluster.kill("osd.1")):
        result = lasting(lent, dataset, "put", 12, load=load)
    try:
        ended = result.outcomes()
        # What was due while nothing was answered may have found no client until the end.
        assert ended.keys() <= {"ok", "not_sent"}, result.summary["error_examples"]
        assert cluster.command("osd", "stat")["num_up_osds"] == cluster.shape.osds - 1
        assert service(result, 2).count > 0
        assert service(result, 10).count > 0
    finally:
        mend(cluster, 1)
    check(where, dataset, fixed(dataset), written=ended["ok"])
    assert writes(result) == all_lent(ended["ok"])
    trials.clean_up(where, dataset)


def test_a_trial_that_is_stopped_leaves_to_librados_what_is_in_flight(
    pools: tuple[Place, Place], ceph_to_break: Cluster
) -> None:
    lent, where = pools
    lent = Place("rados", {**lent.settings, "instances": 2}, lent.view)
    dataset = Dataset(objects=800, size_bytes=MIB)
    control, begun, has_ended = _loadgen.Control(), threading.Event(), threading.Event()

    def stop_in_a_freeze() -> None:
        begun.wait()
        with frozen(ceph_to_break):
            time.sleep(1)
            control.stop()
            has_ended.wait(FROZEN_S)

    thread = threading.Thread(target=stop_in_a_freeze)
    thread.start()
    load = {"kind": "closed", "clients": CLIENTS}
    try:
        document = trials.document(lent, dataset, "put", load=load)
        result = trials.run(document, control, begun=begun)
    finally:
        begun.set()
        has_ended.set()
        thread.join()
    told = writes(result)
    assert told["buffers_given_away"] == CLIENTS, "not all clients had a write in flight"
    assert told["writes_copied"] == 0
    # The clients of the next trial make buffers of their own while librados sends the old ones.
    second = Dataset(objects=100, size_bytes=MIB)
    assert trials.prepare(lent, second).outcomes() == {"ok": second.objects}
    check(where, dataset, fixed(dataset), written=result.outcomes()["ok"])
    check(where, second, fixed(second))
    for written in (dataset, second):
        trials.clean_up(where, written)


def test_a_stall_is_sat_out(pools: tuple[Place, Place], ceph_to_break: Cluster) -> None:
    lent, where = pools
    dataset = Dataset(objects=800, size_bytes=MIB)
    result = put_over_a_freeze(ceph_to_break, lent, dataset)
    assert result.outcomes() == {"ok": dataset.objects}, result.summary["error_examples"]
    assert service(result).max > (FROZEN_S - 1) * SECOND_NS
    check(where, dataset, fixed(dataset))
    assert writes(result) == all_lent(dataset.objects)
    trials.clean_up(where, dataset)


@pytest.mark.parametrize("who", ["loadstone", "librados"])
def test_writes_that_are_given_up_in_a_stall_store_nothing_else(
    pools: tuple[Place, Place], ceph_to_break: Cluster, who: str
) -> None:
    """What librados still sends when the OSDs go on is what was made for that object."""
    lent, where = pools
    dataset = Dataset(objects=800, size_bytes=MIB)
    # Marks the namespace: for that a second can be too short, soon after another stall.
    trials.prepare(lent, Dataset(objects=1, size_bytes=MIB, prefix=dataset.prefix, run=dataset.run))
    changes: dict[str, Any] = {"timeout_ns": SECOND_NS}
    if who == "librados":
        settings = {**lent.settings, "options": {"rados_osd_op_timeout": "1"}}
        lent, changes = Place("rados", settings, lent.view), {}
    result = put_over_a_freeze(ceph_to_break, lent, dataset, **changes)
    ended = result.outcomes()
    assert ended.keys() == {"ok", "timeout"}, result.summary["error_examples"]
    assert ended["timeout"] >= CLIENTS, "not all clients had a write in flight"
    check(where, dataset, fixed(dataset), written=ended["ok"])
    lost = ended["timeout"]
    assert writes(result) == all_lent(dataset.objects) | {"buffers_given_away": lost}
    trials.clean_up(where, dataset)


def test_what_is_given_away_has_an_end(ceph_to_break: Cluster) -> None:
    """A cluster that is slow for hours does not take all memory; writes are copied at last."""
    lent, dataset = place(ceph_to_break, zero_copy=True), Dataset(objects=24, size_bytes=80 * MIB)
    # The buckets are there then. Their names are those of the large objects.
    small = Dataset(objects=2, prefix=dataset.prefix, run=dataset.run)
    trials.prepare(lent, small)
    document = trials.document(lent, dataset, "put", timeout_ns=SECOND_NS // 4)
    (features, resident_bytes), refused = run_apart(document, document)
    told = {name: int(count) for name, count in features.items()}
    kept, clients = told["buffers_given_away"] * dataset.size_bytes, 4
    assert resident_bytes >= kept, "what librados may still send is not there any more"
    assert kept > GIVEN_AWAY_BYTES_MAX * 0.9, "the writes were to take longer than they may"
    assert kept <= GIVEN_AWAY_BYTES_MAX + clients * dataset.size_bytes
    assert told["writes_copied"] > 0
    assert told["writes_lent"] + told["writes_copied"] == dataset.objects
    assert "left 1 GiB of this process to librados" in refused
    trials.clean_up(lent, dataset)


def test_a_release_that_nobody_looked_into_is_refused(ceph_to_break: Cluster) -> None:
    document = trials.document(place(ceph_to_break, zero_copy=True), Dataset(), "put")
    copied = trials.document(place(ceph_to_break), Dataset(), "put")
    refused, told = run_apart(document, copied, ceph_debug_version_for_testing="17.2.7-test")
    assert 'write to pool "bench" with zero_copy' in refused
    assert "it is of Ceph 17.2.7-test" in refused
    assert told[0] == {}


def test_a_librados_that_lacks_a_function_is_refused(
    ceph_to_break: Cluster, tmp_path: Path
) -> None:
    ctypes.CDLL("librados.so.2")
    maps = Path("/proc/self/maps").read_text().splitlines()
    path = next(line.split()[-1] for line in maps if "/librados.so.2" in line)
    content = Path(path).read_bytes()
    name, other = b"2_05IoCtx10aio_appendERKNSt", b"2_05IoCtx10aio_bppendERKNSt"
    assert name in content
    (tmp_path / "librados.so.2").write_bytes(content.replace(name, other))
    document = trials.document(place(ceph_to_break, zero_copy=True), Dataset(), "put")
    (refused,) = run_apart(document, LD_LIBRARY_PATH=str(tmp_path))
    assert "it has no _ZN8librados7v14_2_05IoCtx10aio_append" in refused
