"""Files of several rounds, and the JSON of elbencho and of newer warps."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from loadstone import importers
from loadstone.cli import main
from loadstone.errors import InputError
from loadstone.formats.imported import Imported, repetitions
from tests.unit.test_importers import NOTHING, findings

ELBENCHO_JSON = {
    "phase_type": "WRITE",
    "iso_start_date": "2026-03-01T10:00:00.000+0000",
    "config": {
        "path_type": "file", "hosts": "1", "threads": "3", "file_size": "1048576",
        "block_size": "65536", "io_depth": "2", "version": "3.1-10", "command": '"elbencho" "-w"',
    },
    "last_done": {
        "elapsed_time_ms": "4", "iops": "4000", "bytes/s": "262144000", "bytes": "1048576",
        "latency": {"IO": {"min_us": "10", "avg_us": "900", "max_us": "3500"}},
    },
}  # fmt: skip


def test_elbenchos_json_says_the_same_as_its_csv(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    read_too = {**ELBENCHO_JSON, "phase_type": "READ"}
    path.write_text(f"{json.dumps(ELBENCHO_JSON)}\n{json.dumps(read_too)}\n")
    imported = importers.find("elbencho").read([path], NOTHING)
    assert isinstance(imported, Imported)
    found = findings(imported, tmp_path / "run")
    assert [cell.operation for cell in found.totals] == ["write", "read"]
    (cell, _) = found.totals
    assert (cell.requests_per_s, cell.bytes, cell.requests) == (pytest.approx(4000), 2**20, 16)
    assert cell.parameters == {"threads": 6, "size": 65536}
    assert cell.service is not None
    assert (cell.service.mean_ns, cell.service.max_ns) == (900_000, 3_500_000)
    path.write_text(json.dumps(ELBENCHO_JSON)[:-9])
    with pytest.raises(InputError, match="line 1"):
        importers.find("elbencho").read([path], NOTHING)
    path.write_text(json.dumps(ELBENCHO_JSON).replace('"iops": "4000"', '"iops": "9000"'))
    with pytest.raises(InputError, match="edited"):
        importers.find("elbencho").read([path], NOTHING)


def warp_json(**changes: object) -> str:
    operation = {
        "total_requests": 640, "total_objects": 640, "total_errors": 40, "total_bytes": 640 * 8192,
        "concurrency": 4, "start_time": "2026-03-01T10:00:00.25Z",
        "end_time": "2026-03-01T10:00:08.25Z", "throughput": {}, "requests_by_client": {},
    }  # fmt: skip
    document = {
        "v": 2, "commandline": "warp get --duration=8s", "final": True, "warp_version": "1.4.0",
        "total": operation, "by_op_type": {"GET": {**operation, **changes}},
    }  # fmt: skip
    return json.dumps(document)


@pytest.mark.parametrize("is_compressed", [True, False])
def test_warps_newer_json_gives_the_totals_of_each_operation(
    tmp_path: Path, *, is_compressed: bool
) -> None:
    path = tmp_path / "bench.json.zst"
    if is_compressed:
        with pa.CompressedOutputStream(str(path), "zstd") as stream:
            stream.write(warp_json().encode())
    else:
        path.write_text(warp_json())
    imported = importers.find("warp").read([path], NOTHING)
    assert isinstance(imported, Imported)
    (cell,) = findings(imported, tmp_path / "run").totals
    assert (cell.operation, cell.requests, cell.failed) == ("get", 640, 40)
    assert cell.requests_per_s == pytest.approx(600 / 8)
    assert cell.parameters == {"threads": 4, "size": 8192}
    assert cell.spread_of_seconds is None


@pytest.mark.parametrize(
    "changes",
    [{"total_errors": 641}, {"end_time": "2026-03-01T09:00:00Z"}, {"total_requests": "many"}],
)
def test_warps_json_that_contradicts_itself_is_refused(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    path = tmp_path / "bench.json"
    path.write_text(warp_json(**changes))
    with pytest.raises(InputError):
        importers.find("warp").read([path], NOTHING)


def nectar_files(folder: Path, stem: str, threads: int, size: int) -> list[Path]:
    """Write a table of four puts and the console of another load than its neighbours'."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        f"{1_795_228_058_000_000_000 + n * 10**9},b/o-{n},tx{n},201,{500_000_000 + n}\n"
        for n in range(4)
    ]
    head = "completion_time_unix_nano,object_name,transaction_id,status,elapsed_nanoseconds\n"
    table, console = folder / f"{stem}.csv", folder / f"{stem}.txt"
    table.write_text(head + "".join(rows))
    console.write_text(
        f"Bench-PUT of 4 objects, each {size} bytes, distributed, at {threads} concurrency...\n"
        "4.0s total time, 1.0 PUTs per second.\n"
    )
    return [table, console]


def test_each_table_of_nectar_takes_the_console_of_its_own_folder(tmp_path: Path) -> None:
    files = [nectar_files(tmp_path / str(n), "put", threads=n, size=100 * n) for n in (1, 2, 3)]
    # All tables first, then the consoles in another order.
    paths = [pair[0] for pair in files] + [pair[1] for pair in reversed(files)]
    found = importers.find("nectar").read(paths, NOTHING)
    assert isinstance(found, Imported)
    assert [trial.clients for trial in found.trials] == [1, 2, 3]
    assert [trial.size_bytes for trial in found.trials] == [100, 200, 300]
    with pytest.raises(InputError, match="2 console outputs"):
        importers.find("nectar").read(paths[:-1], NOTHING)


def test_rounds_in_files_of_their_own_are_trials_of_one_case(tmp_path: Path) -> None:
    runs = []
    for name in ("a", "b"):
        paths = [p for n in range(1, 7) for p in nectar_files(tmp_path / name, f"put-{n}", 8, 64)]
        imported = importers.find("nectar").read(paths, NOTHING)
        assert isinstance(imported, Imported)
        (cell,) = findings(imported, tmp_path / f"run-{name}").totals
        assert (cell.workload, len(cell.trials)) == ("put", 6)
        runs.append(str(tmp_path / f"run-{name}"))
    assert main(["compare", *runs]) == 0


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["put-1.csv", "put-2.csv"], [("put", 1), ("put", 2)]),
        (["r0.csv", "r1.csv", "r2.csv"], [("r", 1), ("r", 2), ("r", 3)]),
        (["put-4096.csv", "put-65536.csv"], [("put-4096", 1), ("put-65536", 1)]),
        (["put-1.csv"], [("put-1", 1)]),
        (["1/get.csv", "2/get.csv"], [("get", 1), ("get", 2)]),
        (["ceph/get.csv", "swift/get.csv"], [("ceph/get", 1), ("swift/get", 1)]),
    ],
)
def test_only_what_counts_up_is_a_repetition(
    names: list[str], expected: list[tuple[str, int]]
) -> None:
    assert repetitions([Path(name) for name in names]) == expected
