"""Placement groups whose OSD is lost: the audit reports their objects, and no other."""

import subprocess
from pathlib import Path

import pytest

from loadstone.cli import exit_code
from tests.system.command import loadstone
from tests.system.servers import ceph
from tests.system.servers.ceph_files import Shape
from tests.system.servers.fixtures import need_ceph

pytestmark = [pytest.mark.real, pytest.mark.long(cpu_s=20)]

OSDS, GROUPS, OBJECTS = 3, 16, 300
MARK = ".loadstone-mark"
SURE = "--yes-i-really-mean-it"


def keys_of(cluster: ceph.Cluster, group: str, namespace: str) -> set[str]:
    """List a placement group with Ceph's own program."""
    words = ["-p", "single", "-N", namespace, "--pgid", group, "ls"]
    listed = subprocess.run(
        ["rados", "-c", cluster.conf, *words], capture_output=True, text=True, check=True
    )
    return set(listed.stdout.split())


def namespaces_of(cluster: ceph.Cluster) -> set[str]:
    """List the namespaces of the pool."""
    words = ["rados", "-c", cluster.conf, "-p", "single", "ls", "--all"]
    listed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return {line.partition("\t")[0] for line in listed.splitlines()}


def is_served(cluster: ceph.Cluster) -> bool:
    groups = cluster.command("pg", "ls-by-pool", "single")["pg_stats"]
    return all("active" in group["state"] and "stale" not in group["state"] for group in groups)


def test_the_objects_of_lost_groups_are_lost_and_no_other(tmp_path: Path) -> None:
    """An OSD that keeps the only copy of a third of the groups, in memory, is killed."""
    need_ceph()
    run = tmp_path / "run"
    with ceph.running(Shape(OSDS, "memstore", has_services=False)) as cluster:
        cluster.command("osd", "pool", "create", "single", str(GROUPS), str(GROUPS), "replicated")
        cluster.command("osd", "pool", "set", "single", "size", "1", SURE)
        cluster.command("osd", "pool", "application", "enable", "single", "loadstone")
        cluster.wait_until_clean()
        finished = loadstone(
            "bench", "put", "rados:single", "-n", str(OBJECTS), "-s", "4KiB", "--audit",
            "--keep-data", "-o", run, "--target-set", f"conf={cluster.conf}",
        )  # fmt: skip
        assert finished.code == 0, finished.err
        groups = cluster.command("pg", "ls-by-pool", "single")["pg_stats"]
        (namespace,) = namespaces_of(cluster)
        keys = {group["pgid"]: keys_of(cluster, group["pgid"], namespace) for group in groups}
        osds = {group["pgid"]: group["acting_primary"] for group in groups}
        marked = next(osds[group] for group in keys if MARK in keys[group])
        victim = next(osd for osd in range(OSDS) if osd != marked)
        lost_groups = [group for group in keys if osds[group] == victim]

        cluster.kill(f"osd.{victim}")
        cluster.processes.wait_for(
            "the OSD to be missed", lambda: cluster.command("osd", "stat")["num_up_osds"] < OSDS
        )
        cluster.command("osd", "out", str(victim))
        cluster.command("osd", "lost", str(victim), SURE)
        for group in lost_groups:
            cluster.command("osd", "force-create-pg", group, SURE)
        cluster.processes.wait_for("groups", lambda: is_served(cluster))
        finished = loadstone("audit", run)
    assert finished.code == exit_code.FAILED, finished.err
    findings = loadstone("report", run, "-f", "json").json()["audit"]["findings"]
    expected = set().union(*(keys[group] for group in lost_groups))
    assert 0 < len(expected) < OBJECTS
    assert {finding["key"] for finding in findings} == expected
    assert {finding["kind"] for finding in findings} == {"lost"}
