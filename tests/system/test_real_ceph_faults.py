"""OSDs that die under load: it goes on or times out, all is in the record, and nothing hangs."""

import signal
import time
from pathlib import Path

import pytest

from loadstone import _loadgen
from loadstone.results.store import read_run
from tests.conformance import trials
from tests.conformance.trials import SECOND_NS, Dataset
from tests.system import campaigns
from tests.system.ceph_trials import after, lasting, mend, place, service, without
from tests.system.command import start
from tests.system.servers.ceph import Cluster

pytestmark = pytest.mark.real

# The load ends within two seconds of the signal on a machine that has nothing else to do.
END_WITHIN_S = 30.0

CAMPAIGN = """\
name: dying
targets:
  pool: {{driver: rados, pool: bench, conf: "{conf}"}}
dataset: {{objects: 200, size: 64KiB, prefix: "dying-{{run}}"}}
load: {{threads: 8}}
timeout: {timeout}
phases:
  - {{op: put, duration: 10m}}
"""


@pytest.mark.parametrize("pool", ["bench", "ecbench"])
def test_a_pool_that_loses_one_osd_stalls_and_goes_on(ceph_to_break: Cluster, pool: str) -> None:
    where, dataset = place(ceph_to_break, pool), Dataset(objects=64, size_bytes=16384)
    trials.prepare(where, dataset)
    with after(3.0, lambda: ceph_to_break.kill("osd.1")):
        result = lasting(where, dataset, "put", 12)
    try:
        assert result.outcomes().keys() == {"ok"}, result.summary["error_examples"]
        assert result.summary["state"] == "finished"
        # Requests go on to the end, and those that the dead one held have waited for its place.
        assert service(result, 11).count > 0
        before, all_of_it = service(result, 1), service(result)
        assert all_of_it.max > 3 * before.quantile(0.5)
        assert all_of_it.max > 100_000_000, "no request waited for the OSD to be missed"
    finally:
        mend(ceph_to_break, 1)
    read = trials.run(trials.document(where, dataset, "get"))
    assert read.outcomes() == {"ok": dataset.objects}
    trials.clean_up(where, dataset)


def test_a_pool_that_loses_too_many_osds_times_out_and_recovers(ceph_to_break: Cluster) -> None:
    where, dataset = place(ceph_to_break), Dataset(objects=64, size_bytes=65536)
    trials.prepare(where, dataset)
    short = {"timeout_ns": SECOND_NS}
    with without(ceph_to_break, 0, 1):
        for operation in ("get", "head"):
            result = lasting(where, dataset, operation, 3, **short)
            assert result.summary["state"] == "finished"
            assert result.outcomes().keys() == {"timeout"}
            assert result.outcomes()["timeout"] >= 4
            assert "ceph health detail" in result.summary["error_examples"]["timeout"]
            assert service(result).min >= SECOND_NS * 0.9
        listed = lasting(where, dataset, "list", 3, **short)
        assert listed.outcomes().keys() == {"timeout"}
        with pytest.raises(_loadgen.TargetError, match="ceph health detail") as caught:
            trials.prepare(where, Dataset(), **short)
        assert caught.value.kind == "unreachable"
    read = trials.run(trials.document(where, dataset, "get"))
    assert read.outcomes() == {"ok": dataset.objects}
    trials.clean_up(where, dataset)


def test_requests_are_in_flight_beyond_what_librados_allows_by_itself(
    ceph_to_break: Cluster,
) -> None:
    """At its limits of 1024 requests and 100 MiB, librados would block the load thread forever."""
    where, dataset = place(ceph_to_break), Dataset(objects=1500, size_bytes=100_000)
    with without(ceph_to_break, 0, 1):
        load = {"kind": "closed", "clients": 1500}
        stop = {"requests": 1500, "duration_ns": None}
        trial = trials.document(where, dataset, "get", load=load, stop=stop)
        result = trials.run(trial | {"timeout_ns": 2 * SECOND_NS})
    assert result.outcomes() == {"timeout": 1500}


def test_a_run_goes_on_over_a_dead_osd_and_ctrl_c_ends_it(
    ceph_to_break: Cluster, tmp_path: Path
) -> None:
    text = CAMPAIGN.format(conf=ceph_to_break.conf, timeout="60s")
    file = campaigns.write(tmp_path, text)
    process = start("run", file, "-o", tmp_path / "run")
    campaigns.wait_for(process, "%")
    try:
        ceph_to_break.kill("osd.2")
        time.sleep(3)
        process.send_signal(signal.SIGINT)
        _, err = campaigns.end(process)
    finally:
        mend(ceph_to_break, 2)
    assert process.returncode == 130, err
    (record,) = [row for row in read_run(tmp_path / "run").records if row.trial["measured"]]
    assert record.summary["failed"] == 0, record.summary["error_examples"]
    assert record.summary["requests"] > 0


@pytest.mark.parametrize("timeout", ["1s", "10m"])
def test_ctrl_c_ends_a_run_whose_cluster_is_dead(
    ceph_to_break: Cluster, tmp_path: Path, timeout: str
) -> None:
    """Whether its requests have timed out before or none of them would for ten minutes."""
    text = CAMPAIGN.format(conf=ceph_to_break.conf, timeout=timeout)
    file = campaigns.write(tmp_path, text)
    process = start("run", file, "-o", tmp_path / "run")
    campaigns.wait_for(process, "%")
    with without(ceph_to_break, 1, 2):
        time.sleep(3)
        asked_ns = time.time_ns()
        process.send_signal(signal.SIGINT)
        _, err = campaigns.end(process)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    run = read_run(tmp_path / "run")
    assert run.state == "interrupted"
    (record,) = [row for row in run.records if row.trial["measured"]]
    summary = record.summary
    assert summary["state"] == "interrupted"
    assert summary["ended_unix_ns"] - asked_ns < END_WITHIN_S * 1e9
    assert set(summary["error_examples"]) == ({"timeout"} if timeout == "1s" else set())
