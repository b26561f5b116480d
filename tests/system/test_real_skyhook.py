"""The observations of Skyhook, scaled down, on a real cluster: one OSD against four."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.system.command import loadstone, trials_of
from tests.system.servers import ceph
from tests.system.servers.ceph_files import Shape
from tests.system.servers.processes import free_ports

pytestmark = pytest.mark.real

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "skyhook-rados.yaml"
OBJECTS, THREADS = 24, [1, 4]
# From these shares of a ceiling on, a result touches it, or passes it: then it was not the limit.
TOUCHED, PASSED = 0.9, 1.05
SURE = "--yes-i-really-mean-it"


def make_pools(cluster: ceph.Cluster) -> None:
    """Make a pool that lies on one OSD and one that lies on all, both without copies."""
    cluster.command("osd", "crush", "rm-device-class", "osd.0")
    cluster.command("osd", "crush", "set-device-class", "alone", "osd.0")
    rule = ["osd", "crush", "rule", "create-replicated"]
    cluster.command(*rule, "one-osd", "default", "osd", "alone")
    cluster.command("osd", "pool", "create", "skyhook-1", "8", "8", "replicated", "one-osd")
    cluster.command("osd", "pool", "create", "skyhook-4", "32", "32", "replicated")
    for pool in ("skyhook-1", "skyhook-4"):
        cluster.command("osd", "pool", "set", pool, "size", "1", SURE)
        cluster.command("osd", "pool", "application", "enable", pool, "loadstone")
    cluster.wait_until_clean()


@pytest.mark.skipif(bool(ceph.missing_programs()), reason="Ceph is not installed here")
@pytest.mark.skipif(shutil.which("iperf3") is None, reason="iperf3 is not installed here")
@pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed here")
def test_the_skyhook_campaign_names_its_bottleneck(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with ceph.running(Shape(osds=4, has_services=False)) as cluster:
        make_pools(cluster)
        device = cluster.directory / "device"
        device.write_bytes(os.urandom(64 << 20))
        fio = "{filename: %s, rw: read, bs: 4m, size: 64m, time_based: true, runtime: 1}"
        changes = {
            "targets.one-osd.conf": cluster.conf,
            "targets.four-osds.conf": cluster.conf,
            "dataset.objects": OBJECTS,
            "phases.seq.duration": "1s",
            "phases.rand.duration": "1s",
            "sweep.threads": THREADS,
            "ceilings.0.host": "127.0.0.1",
            "ceilings.0.port": free_ports(1),
            "ceilings.0.start_server": "true",
            "ceilings.0.duration": "1s",
            "ceilings.0.streams": "[1, 2]",
            "ceilings.1.via": "[]",
            "ceilings.1.options": fio % device,
            "ceilings.2.total_size": "12MiB",
            "ceilings.3.threads": THREADS,
            "ceilings.3.duration": "1s",
            "hooks": "[]",
        }
        words = [f"--set={key}={value}" for key, value in changes.items()]
        finished = loadstone("run", EXAMPLE, "-o", folder, *words)
    assert finished.code == 0, finished.out + finished.err
    measured = [row for row in trials_of(folder) if row["trial"]["measured"]]
    assert len(measured) == 2 * len(THREADS) * 3
    assert not any(row["summary"]["failed"] for row in measured)
    ceilings = ceilings_of(folder)
    assert asked_osds(ceilings) == {"one-osd": [0], "four-osds": [0, 1, 2, 3]}
    report = loadstone("report", folder, "-f", "json").json()
    said_of = {
        (target, bounds): finding
        for finding in report["findings"]
        if finding["rule"] == "bottleneck"
        for target in ("one-osd", "four-osds")
        for bounds in ("write", "read")
        if f"{bounds}s of {target}:" in finding["statement"]
    }
    assert len(said_of) == 4
    for (target, bounds), finding in said_of.items():
        check_sentence(
            finding, best_rate(measured, target, bounds), limits(ceilings, target, bounds)
        )
    shown = loadstone("report", folder, "-f", "markdown").out
    for finding in said_of.values():
        assert finding["statement"].split(";")[0] in shown


def check_sentence(finding: dict[str, Any], best: float, limits: dict[str, float]) -> None:
    """Hold the sentence against the record: the lowest ceiling that the best did not pass."""
    shares = {
        measured["place"].split()[1].strip(","): measured["value"]
        for measured in finding["evidence"]
    }
    # The summary counts what ended just after the measured part too.
    expected = {name: best / limit for name, limit in limits.items()}
    assert shares == pytest.approx(expected, rel=0.05)
    left = {name: share for name, share in shares.items() if share <= PASSED}
    words = finding["statement"]
    if not left:
        assert words.startswith("no ceiling ")
        return
    lowest = max(left.values())
    assert ("bottleneck" in words) == (lowest >= TOUCHED)
    assert ("no ceiling" in words) == (lowest < TOUCHED)
    assert f"is {lowest:.0%} of" in words
    assert ("no limit" in words) == (len(left) < len(shares))


def best_rate(measured: list[dict[str, Any]], target: str, bounds: str) -> float:
    """Return the highest rate of a case, from the accounts of its trials, in bytes a second."""
    operation = {"write": "put", "read": "get"}[bounds]
    rates = []
    for row in measured:
        if row["trial"]["target"]["name"] == target:
            (share,), summary = row["trial"]["mix"], row["summary"]
            if share["operation"] == operation:
                (times,) = summary["iterations"]
                took_ns = times["measure_end_ns"] - times["measure_start_ns"]
                rates.append(summary["bytes"] / took_ns * 1e9)
    assert len(rates) == len(THREADS) * {"write": 1, "read": 2}[bounds]
    return max(rates)


def ceilings_of(folder: Path) -> list[dict[str, Any]]:
    """Read the ceilings of a run folder."""
    paths = sorted((folder / "ceilings").glob("C*.json"))
    return [json.loads(path.read_text()) for path in paths]


def asked_osds(ceilings: list[dict[str, Any]]) -> dict[str, list[int]]:
    """Return which OSDs were measured together for each target: those of its pool."""
    return {
        record["ceiling"]["targets"][0]: record["measurements"][-1]["parameters"]["osds"]
        for record in ceilings
        if record["ceiling"]["kind"] == "osd_bench"
    }


def limits(ceilings: list[dict[str, Any]], target: str, bounds: str) -> dict[str, float]:
    """Return the rate that each ceiling allows a target, by its number."""
    rate_of = {}
    for record in ceilings:
        if target in record["ceiling"]["targets"]:
            rates = [
                measurement["bytes_per_s"]
                for measurement in record["measurements"]
                if measurement["bounds"] == bounds
            ]
            if rates:
                is_together = record["ceiling"]["kind"] == "osd_bench"
                rate_of[record["ceiling"]["id"]] = rates[-1] if is_together else max(rates)
    return rate_of
