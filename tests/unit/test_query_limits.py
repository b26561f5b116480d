"""What limited a query: its processors, or what its storage and network do by themselves."""

from pathlib import Path

import pytest

from loadstone.analysis.cells.queries import QueryTimes
from loadstone.analysis.cells.query_bounds import QueryBound, bounds_of_targets
from loadstone.results.record import Run

DISK = QueryBound(resource="storage", name="fio", bytes_per_s=400e6)
WIRE = QueryBound(resource="network", name="iperf3", bytes_per_s=100e6)


def times(cpu_s: float, read_bytes: int | None, *bounds: QueryBound) -> QueryTimes:
    return QueryTimes(
        query="Q01", arm=(("target", "disk"),), by_block={1: 2.0}, cpu_s=cpu_s,
        read_bytes=read_bytes, rows=1, is_compared=True, failures={}, messages=(), threads=2,
        bounds=bounds,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("cpu_s", "read_bytes", "bounds", "limit"),
    [
        (3.9, 799_000_000, (DISK,), "engine CPU"),
        (1.4, 700_000_000, (DISK,), "storage bandwidth"),
        (0.2, 700_000_000, (DISK,), "storage bandwidth"),
        (0.2, 190_000_000, (DISK, WIRE), "network bandwidth"),
        (0.2, 100_000_000, (DISK,), "storage latency"),
        (0.2, 500_000_000, (DISK,), "waits for storage"),
        (0.2, 100_000_000, (), "waits for storage"),
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
    found = times(0.2, 100 << 20, QueryBound(resource="storage", name="fio", bytes_per_s=1 << 30))
    assert found.evidence == "0.1 of 2 processors busy, read 50 MiB/s of 1 GiB/s (fio)"


def probe(path: str, rate: float, **more: object) -> dict[str, object]:
    return {"kind": "mount", "path": path, "direct": True, "read": {"bytes_per_s": rate}, **more}


def test_a_probe_bounds_the_targets_whose_paths_lie_below_its_mount() -> None:
    targets = {"a": {"path": "/data/x"}, "b": {"path": "/database"}, "s3": {}}
    nodes = {
        "n0": {"probes": [probe("/data", 1e6), {"kind": "mount", "path": "/data", "failed": "x"}]},
        "n1": {"probes": [probe("/data/", 3e6), probe("/mnt", 9e9)]},
    }
    run = Run(
        path=Path("r"), manifest={"campaign": {"targets": targets}, "nodes": nodes}, records=()
    )
    found = bounds_of_targets(run)
    assert [one.bytes_per_s for one in found["a"]] == [3e6]
    assert "n1" in found["a"][0].name
    assert (found["b"], found["s3"]) == ((), ())
