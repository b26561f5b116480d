"""Files of several rounds, and the JSON of elbencho and of newer warps."""

import json
import re
from pathlib import Path

import pyarrow as pa
import pytest

from loadstone import importers
from loadstone.analysis import analyse
from loadstone.analysis.standards.standard import declare
from loadstone.cli import main
from loadstone.errors import InputError
from loadstone.formats.imported import Imported, workloads_of
from loadstone.report.opening import sentences_of
from loadstone.results.store import read_run
from tests.unit.test_importers import DATA, NOTHING, findings

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
    findings_of = findings(imported, tmp_path / "run")
    assert [cell.operation for cell in findings_of.rounds] == ["write", "read"]
    (cell, _) = findings_of.rounds
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


@pytest.mark.parametrize("is_absent", [True, False])
def test_fios_total_latency_is_taken_where_it_alone_is_distributed(
    tmp_path: Path, *, is_absent: bool
) -> None:
    """With lat_percentiles=1, percentiles are part of the total latency."""
    document = json.loads((DATA / "fio-read-4m.json").read_text())
    read_too = document["jobs"][0]["read"]
    completion = read_too["clat_ns"]
    completion.pop("bins", None)
    percentiles = completion.pop("percentile")
    read_too["lat_ns"] |= {"percentile": percentiles}
    if is_absent:
        completion |= {"N": 0, "mean": 0.0, "min": 0, "max": 0}
    path = tmp_path / "lat.json"
    path.write_text(json.dumps(document))
    imported = importers.find("fio").read([path], NOTHING)
    assert isinstance(imported, Imported)
    (cell,) = findings(imported, tmp_path / "run").rounds
    assert cell.service is not None
    assert cell.service.max_ns == read_too["lat_ns"]["max"]
    assert cell.service.quantiles["p50"] == percentiles["50.000000"]
    assert len(imported.notes) == 1


def read_json(path: Path, *documents: object) -> Imported:
    path.write_text("".join(f"{json.dumps(document)}\n" for document in documents))
    imported = importers.find("elbencho").read([path], NOTHING)
    assert isinstance(imported, Imported)
    return imported


@pytest.mark.parametrize("phase", ["RWMIX50", "MIX-T1", "RWMIX50+s"])
def test_elbenchos_mix_has_its_reads_too(tmp_path: Path, phase: str) -> None:
    done: dict[str, object] = dict(ELBENCHO_JSON["last_done"])  # type: ignore[call-overload]
    done["rwmix_read"] = {"iops": "2000", "bytes": "524288"}
    times = {"min_us": "5", "avg_us": "70", "max_us": "800"}
    done["latency"] = {"IO": {"min_us": "9", "avg_us": "90", "max_us": "950", "rwmix_read": times}}
    mix = {**ELBENCHO_JSON, "phase_type": phase, "last_done": done}
    cells = findings(read_json(tmp_path / "mix.json", mix), tmp_path / "run").rounds
    assert [(cell.operation, cell.requests) for cell in cells] == [("write", 16), ("read", 8)]
    assert [cell.requests_per_s for cell in cells] == [pytest.approx(4000), pytest.approx(2000)]
    means = [cell.service.mean_ns for cell in cells if cell.service is not None]
    assert means == [90_000, 70_000]


def test_elbencho_states_the_times_of_entries(tmp_path: Path) -> None:
    stat = {
        **ELBENCHO_JSON,
        "phase_type": "STAT",
        "last_done": {
            "elapsed_time_ms": "50", "entries/s": "12000", "entries": "600",
            "latency": {"entries": {"min_us": "20", "avg_us": "240", "max_us": "7000"}},
        },
    }  # fmt: skip
    (cell,) = findings(read_json(tmp_path / "stat.json", stat), tmp_path / "run").rounds
    assert (cell.operation, cell.requests) == ("head", 600)
    assert cell.service is not None
    assert (cell.service.mean_ns, cell.service.max_ns) == (240_000, 7_000_000)


def test_mebibytes_that_elbencho_cut_off_are_not_taken_for_edited(tmp_path: Path) -> None:
    """1.9 MiB of 4 KiB at 500 blocks a second: the table says 1 MiB in 972 ms."""
    head = "ISO date,operation,threads,block size,time ms [last],IOPS [last],MiB [last],version"
    path = tmp_path / "slow.csv"

    def read(time_ms: int) -> Imported:
        row = f"2026-03-01T10:00:00.000+0000,READ,1,4096,{time_ms},500,1,3.1-10"
        path.write_text(f"{head}\n{row}\n")
        imported = importers.find("elbencho").read([path], NOTHING)
        assert isinstance(imported, Imported)
        return imported

    (cell,) = findings(read(972), tmp_path / "run").rounds
    assert cell.requests == 486
    assert cell.requests_per_s == pytest.approx(500)
    # Two mebibytes would be said to be two.
    with pytest.raises(InputError, match="edited"):
        read(1100)


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
    (cell,) = findings(imported, tmp_path / "run").rounds
    assert (cell.operation, cell.requests, cell.failed) == ("get", 640, 40)
    assert cell.requests_per_s == pytest.approx(600 / 8)
    assert cell.parameters == {"threads": 4, "size": 8192}
    assert cell.spread_of_seconds is None


def stretch(requests: int, mean: float, fastest: float, slowest: float) -> dict[str, object]:
    return {
        "start_time": "2026-03-01T10:00:00Z",
        "end_time": "2026-03-01T10:00:10Z",
        "single_sized_requests": {
            "requests": requests, "dur_avg_millis": mean, "fastest_millis": fastest,
            "slowest_millis": slowest, "dur_median_millis": mean, "dur_90_millis": slowest,
            "dur_99_millis": slowest, "merged_entries": 1,
        },
    }  # fmt: skip


@pytest.mark.parametrize(
    ("clients", "errors", "expected"),
    [
        # One stretch states its percentiles, several only what adds up.
        ({"": [stretch(640, 4.0, 1.5, 31.0)]}, 0, (4e6, 31e6, 4e6)),
        (
            {"a": [stretch(480, 4.0, 1.5, 31.0)], "b": [stretch(160, 8.0, 2, 9)]},
            0,
            (5e6, 31e6, None),
        ),
        # Failed requests would be among them, and so would be what the stretches lack.
        ({"": [stretch(640, 4.0, 1.5, 31.0)]}, 40, None),
        ({"": [stretch(600, 4.0, 1.5, 31.0)]}, 0, None),
        ({"": [{"single_sized_requests": {"skipped": True}}]}, 0, None),
        ({"": None}, 0, None),
    ],
)
def test_warps_json_states_the_times_that_add_up(
    tmp_path: Path,
    clients: dict[str, object],
    errors: int,
    expected: tuple[float, float, float | None] | None,
) -> None:
    path = tmp_path / "bench.json"
    path.write_text(warp_json(requests_by_client=clients, total_errors=errors))
    imported = importers.find("warp").read([path], NOTHING)
    assert isinstance(imported, Imported)
    (cell,) = findings(imported, tmp_path / "run").rounds
    times = cell.service
    stated = times and (times.mean_ns, times.max_ns, times.quantiles["p50"])
    assert stated == expected


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
    begin_s = 1_795_228_058 + 60 * sum(map(int, re.findall(r"\d+", stem)))
    rows = [f"{(begin_s + n) * 10**9},b/o-{n},tx{n},201,{500_000_000 + n}\n" for n in range(4)]
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
    imported = importers.find("nectar").read(paths, NOTHING)
    assert isinstance(imported, Imported)
    assert [trial.clients for trial in imported.trials] == [1, 2, 3]
    assert [trial.size_bytes for trial in imported.trials] == [100, 200, 300]
    # Notes about a table name its folder if several tables have its name.
    assert [note.partition(":")[0] for note in imported.notes] == [str(pair[0]) for pair in files]
    with pytest.raises(InputError, match="2 console outputs"):
        importers.find("nectar").read(paths[:-1], NOTHING)


def test_rounds_in_files_of_their_own_are_trials_of_one_case(tmp_path: Path) -> None:
    runs = []
    for name in ("a", "b"):
        paths = [p for n in range(1, 7) for p in nectar_files(tmp_path / name, f"put-{n}", 8, 64)]
        imported = importers.find("nectar").read(paths, NOTHING)
        assert isinstance(imported, Imported)
        (cell,) = findings(imported, tmp_path / f"run-{name}").rounds
        assert (cell.workload, len(cell.trials)) == ("put", 6)
        assert imported.name == "put"
        runs.append(str(tmp_path / f"run-{name}"))
    assert main(["compare", *runs]) == 0
    run = read_run(runs[0])
    run_findings = analyse(run)
    assert "interleaved" not in sentences_of(run, run_findings)[0]
    of_order = [
        rule for rule in declare(run, run_findings) if rule.title == "Targets are interleaved"
    ]
    assert [rule.status for rule in of_order] == ["not applicable"]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["put-1.csv", "put-2.csv"], ["put", "put"]),
        (["r0.csv.zst", "r1.csv.zst", "r2.csv.zst"], ["r", "r", "r"]),
        (["put-4096.csv", "put-65536.csv"], ["put-4096", "put-65536"]),
        (["put-1.csv"], ["put-1"]),
        (["fio-3.36.json"], ["fio-3.36"]),
        (["1/get.csv", "2/get.csv"], ["get", "get"]),
        (["ceph/get.csv", "swift/get.csv"], ["ceph/get", "swift/get"]),
    ],
)
def test_only_what_counts_up_is_a_repetition(names: list[str], expected: list[str]) -> None:
    assert workloads_of([Path(name) for name in names]) == expected
