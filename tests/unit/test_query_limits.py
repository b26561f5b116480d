"""Limits of a query: memory, processors, or the measured storage and network."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from loadstone.analysis.cells.queries import QueryTimes
from loadstone.analysis.cells.query_limits import WAITS, QueryBound, QueryMemory, bounds_of_targets
from loadstone.results.record import Record, Run

DISK = QueryBound(resource="storage", name="fio", bytes_per_s=400e6)
WIRE = QueryBound(resource="network", name="iperf3", bytes_per_s=100e6)
MIB = 1 << 20


def times(cpu_s: float, read_bytes: int | None, *bounds: QueryBound, **more: Any) -> QueryTimes:
    usual: dict[str, Any] = {"by_block": {1: 2.0}, "starts_ns": {}, "failures": {}, "messages": ()}
    return QueryTimes(
        query="Q01", arm=(("target", "disk"),), cpu_s=cpu_s, read_bytes=read_bytes, rows=1,
        is_compared=True, threads=2, bounds=bounds, **(usual | more),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("cpu_s", "read_bytes", "bounds", "limit"),
    [
        (3.9, 799_000_000, (DISK,), "engine CPU"),
        (1.4, 700_000_000, (DISK,), "storage bandwidth"),
        (0.2, 700_000_000, (DISK,), "storage bandwidth"),
        (0.2, 190_000_000, (DISK, WIRE), "network bandwidth"),
        (0.2, 100_000_000, (DISK,), "storage latency"),
        (0.2, 500_000_000, (DISK,), WAITS),
        # It read more than the path was measured to carry, which therefore bounds nothing.
        (0.2, 700_000_000, (DISK, WIRE), "storage bandwidth"),
        (0.2, 100_000_000, (), WAITS),
        (0.2, 0, (DISK,), ""),
        (0.2, None, (DISK,), ""),
        (2.0, 100_000_000, (DISK,), "one CPU"),
    ],
)
def test_a_limit_follows_from_what_was_measured(
    cpu_s: float, read_bytes: int | None, bounds: tuple[QueryBound, ...], limit: str
) -> None:
    assert times(cpu_s, read_bytes, *bounds).limit == limit


def test_evidence_has_both_rates_and_what_measured_the_bound() -> None:
    limited = times(0.2, 100 << 20, QueryBound(resource="storage", name="fio", bytes_per_s=1 << 30))
    for fact in ("0.1 of 2 ", "50 MiB/s of 1 GiB/s", "(fio)"):
        assert fact in limited.evidence


@pytest.mark.parametrize(
    ("cpu_s", "memory", "limit"),
    [
        (0.4, QueryMemory(stalled=0.45, major_faults=1204, peak_bytes=900 * MIB), "memory"),
        # Looking for free pages takes processor time, too.
        (3.8, QueryMemory(stalled=0.45), "memory"),
        (3.8, QueryMemory(stalled=0.05, major_faults=1204), "engine CPU"),
        (0.4, QueryMemory(stalled=0.05, major_faults=1204), WAITS),
        (0.4, QueryMemory(stalled=None), WAITS),
        (1.2, QueryMemory(stalled=0, spilled_bytes=300 * MIB, allowed_bytes=100 * MIB), "memory"),
        (3.8, QueryMemory(stalled=0, spilled_bytes=300 * MIB), "engine CPU"),
        (0.4, QueryMemory(stalled=0, reread_bytes=60 * MIB), "memory"),
        (0.4, QueryMemory(stalled=0, reread_bytes=40 * MIB), WAITS),
        (0.4, QueryMemory(stalled=0, spilled_bytes=8 * MIB), WAITS),
    ],
)
def test_memory_is_named_where_work_stood_still_for_it_or_was_written_out(
    cpu_s: float, memory: QueryMemory, limit: str
) -> None:
    assert times(cpu_s, 100 * MIB, memory=memory).limit == limit


def test_evidence_of_memory_has_what_was_seen() -> None:
    memory = QueryMemory(
        stalled=0.45, major_faults=1204, peak_bytes=900 * MIB, allowed_bytes=1024 * MIB
    )
    evidence = times(0.4, 1, memory=memory).evidence
    for fact in ("45%", "1,204 major faults", "900 MiB", "1 GiB"):
        assert fact in evidence


def test_a_query_that_ran_out_of_memory_is_limited_by_it() -> None:
    limited = times(0, None, by_block={}, failures={"out_of_memory": 2}, messages=("SIGKILL",))
    assert (limited.limit, limited.evidence) == ("memory", "SIGKILL")
    assert times(0, None, by_block={}, failures={"engine_died": 2}, messages=("x",)).limit == ""


@pytest.mark.parametrize(
    ("ping_us", "read_us", "limit"),
    [(400, 500, "network latency"), (200, 500, "storage latency"), (400, None, "storage latency")],
)
def test_latency_is_the_networks_where_a_ping_takes_half_of_a_small_read(
    ping_us: int, read_us: int | None, limit: str
) -> None:
    disk = QueryBound(
        resource="storage", name="fio", bytes_per_s=400e6,
        latency_ns=read_us * 1000 if read_us else None,
    )  # fmt: skip
    wire = QueryBound(resource="network", name="ping", bytes_per_s=900e6, latency_ns=ping_us * 1000)
    limited = times(0.2, 100_000_000, disk, wire)
    assert limited.limit == limit
    assert f"{ping_us} µs" in limited.evidence


def probe(path: str, rate: float, **more: object) -> dict[str, object]:
    return {"kind": "mount", "path": path, "direct": True, "read": {"bytes_per_s": rate}, **more}


def run_of(targets: dict[str, Any], nodes: dict[str, Any], *loads: dict[str, Any]) -> Run:
    records = [
        SimpleNamespace(
            trial={"phase": "load", "target": {"name": load.pop("target")}}, summary=load
        )
        for load in loads
    ]
    manifest = {"campaign": {"targets": targets}, "nodes": nodes}
    return Run(path=Path("r"), manifest=manifest, records=cast("tuple[Record, ...]", records))


def test_a_probe_bounds_the_targets_whose_paths_lie_below_its_mount() -> None:
    targets = {"a": {"path": "/data/x"}, "b": {"path": "/database"}, "s3": {}}
    nodes = {
        "n0": {"probes": [probe("/data", 1e6), {"kind": "mount", "path": "/data", "failed": "x"}]},
        "n1": {"probes": [probe("/data/", 3e6), probe("/mnt", 9e9)]},
    }
    bounds = bounds_of_targets(run_of(targets, nodes))
    assert [bound.bytes_per_s for bound in bounds["a"]] == [3e6]
    assert "n1" in bounds["a"][0].name
    assert (bounds["b"], bounds["s3"]) == ((), ())


def path_to(gbit: float, address: str, ping_ms: float = 0.2) -> dict[str, Any]:
    bandwidth = {"bits_per_s": gbit * 1e9}
    return {"address": address, "bandwidth": bandwidth, "ping": {"avg_ms": ping_ms}}


def test_the_network_to_the_client_bounds_what_other_hosts_serve() -> None:
    """From the node of the target's address where there is one, else from the best one."""
    targets = {
        "disk": {"path": "/data"},
        "cephfs": {"path": "/mnt/ceph"},
        "s3": {"endpoints": ["http://10.0.0.12:7480"]},
        "here": {"endpoints": ["http://127.0.0.1:7480"]},
    }
    one_host, two, me = "10.0.0.11", "10.0.0.12", "10.0.0.9"
    nodes = {
        "one": {"host": "one.a", "paths": {"me": path_to(8, me), "two": path_to(99, two)}},
        "two": {
            "host": "two.a",
            "paths": {"me": path_to(4, me, 0.7), "one": path_to(99, one_host)},
        },
        "me": {"host": None, "paths": {"one": path_to(1, one_host), "two": {"failed": "x"}}},
    }
    bounds = bounds_of_targets(
        run_of(
            targets,
            nodes,
            {"target": "disk", "filesystem": "ext4"},
            {"target": "cephfs", "filesystem": "fuse.ceph-fuse"},
            {"target": "s3", "target_on_own_host": False},
            {"target": "here", "target_on_own_host": True},
        )
    )
    assert bounds["disk"] == bounds["here"] == ()
    [cephfs], [s3] = bounds["cephfs"], bounds["s3"]
    assert (cephfs.resource, cephfs.bytes_per_s, cephfs.latency_ns) == ("network", 1e9, 0.2e6)
    assert (s3.bytes_per_s, s3.latency_ns) == (0.5e9, 0.7e6)
    assert re.search(r"\btwo\b.*\bme\b", s3.name)
