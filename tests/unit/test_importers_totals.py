"""Tools that keep totals of a load: COSBench, hsbench, sai3-bench, IOR, mdtest, MLPerf Storage."""

import json
from pathlib import Path

import pytest

from loadstone import importers
from loadstone.analysis.accounts.account import BYTE_RATE, RATE, Account
from loadstone.cli import main
from loadstone.errors import InputError
from loadstone.formats.imported import Hints
from tests.unit.old_formats import (
    COSBENCH,
    HSBENCH,
    HUMMINGBIRD,
    HUMMINGBIRD_2014,
    IOR_TEXTS,
    MDTEST,
    MDTEST_3_0,
    MLPSTORAGE,
    SAI3_BENCH,
)
from tests.unit.test_importers import NOTHING, findings
from tests.unit.test_importers_versions import imported, only_cell


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_stage_of_cosbench_is_a_trial_of_all_its_operations(tmp_path: Path) -> None:
    cosbench = imported("cosbench", [written(tmp_path, "w1-s3.csv", COSBENCH)])
    assert [(trial.workload, trial.phase, trial.is_measured) for trial in cosbench.trials] == [
        ("w1-s3 s2-prepare", "prepare-write", False),
        ("w1-s3 s3-main", "mixed", True),
    ]
    read, write = findings(cosbench, tmp_path / "run").rounds
    assert (read.operation, read.requests, read.failed_if_stated) == ("get", 2400, 0)
    assert read.duration_s == pytest.approx(30, rel=1e-3)
    assert (write.operation, write.good, write.failed) == ("put", 594, 6)
    assert (read.parameters, read.clients) == ({"size": 64_000}, None)
    assert read.service is not None
    assert (read.service.mean_ns, read.service.max_ns) == (12_250_000, 110_000_000)
    assert (read.service.min_ns, read.service.quantiles["p95"]) == (None, 30_000_000)
    # It writes no zone, so that its dates are no moments.
    assert read.trial_rates[0].started_unix_ns is None


def test_failures_that_cosbench_rounds_away_are_not_stated(tmp_path: Path) -> None:
    many = COSBENCH.replace("2400,153600000", "240000,15360000000").replace(
        "80.01,5120213.33", "8001,512021333"
    )
    (_, trial) = imported("cosbench", [written(tmp_path, "w1.csv", many)]).trials
    assert not trial.counts_failures


def test_failures_that_cosbenchs_ratio_tells_roughly_are_a_note(tmp_path: Path) -> None:
    # 99 % of two decimals: 5,969 to 6,031 of some 600,000 failed.
    many = COSBENCH.replace("594,38016000", "594000,38016000000").replace(
        "19.8,1267200", "19800,1267200000"
    )
    archive = imported("cosbench", [written(tmp_path, "w1.csv", many)])
    assert not archive.trials[1].counts_failures
    assert "unknown" not in {row.outcome for row in archive.trials[1].rows}
    assert "5970 to 6030" in archive.notes[0]


def test_an_operation_of_cosbench_that_always_failed_is_not_left_out(tmp_path: Path) -> None:
    row = "s3-main,write,write,594,38016000,31.1,30.2,30,40,50,60,90,200,19.8,1267200,99%"
    none = "s3-main,write,write,0,0" + ",N/A" * 8 + ",0,0,N/A"
    archive = imported("cosbench", [written(tmp_path, "w1.csv", COSBENCH.replace(row, none))])
    assert not archive.trials[1].counts_failures
    assert archive.trials[1].phase == "mixed"
    assert len(archive.notes) == 1


def test_the_matrix_of_cosbench_says_its_workers(tmp_path: Path) -> None:
    text = COSBENCH.replace("Byte-Count,", "Byte-Count,Worker-Count,", 1).replace(
        "153600000,", "153600000,8,"
    )
    lines = text.splitlines(keepends=True)
    matrix = "".join(line for line in lines if "-Name" in line or "s3-main,read" in line)
    cell = only_cell("cosbench", tmp_path, matrix)
    assert cell.clients == 8


def test_the_totals_of_hsbench_are_trials_and_its_loops_repetitions(tmp_path: Path) -> None:
    hsbench = imported("hsbench", [written(tmp_path, "out.csv", HSBENCH)])
    (cell,) = findings(hsbench, tmp_path / "run").rounds
    assert (cell.operation, cell.good, cell.failed) == ("put", 8200, 3)
    assert [round(trial_rate.requests_per_s) for trial_rate in cell.trial_rates] == [2000, 2100]
    assert cell.bytes == pytest.approx(8200 * 4096, rel=2e-3)
    assert cell.clients is None
    names = ("Loop", "IntervalName", "Seconds", "Mode", "Ops", "Mbps", "Iops", "MinLat", "AvgLat")
    numbers = (0, "TOTAL", 2.0, "GET", 4000, 7.8125, 2000.0, 1.0, 4.0)
    row = {**dict(zip(names, numbers, strict=True)), "NinetyNineLat": 9.0, "MaxLat": 20.0}
    (trial,) = imported("hsbench", [written(tmp_path, "out.json", json.dumps([row]))]).trials
    assert (trial.phase, trial.counts_failures) == ("get", False)
    assert sum(row.bytes for row in trial.rows) == 4000 * 4096
    assert trial.stated["get"].quantiles_ns == {0.99: 9_000_000}


def test_hsbench_counts_failures_of_objects_alone(tmp_path: Path) -> None:
    """A listing that fails ends its thread, and is no slowdown."""
    file = written(tmp_path, "out.csv", HSBENCH.replace("PUT", "LIST"))
    assert not any(trial.counts_failures for trial in imported("hsbench", [file]).trials)


@pytest.mark.parametrize("older", ["1,7,1.00,PUT,", "1,0,1.00,PUT,", "0,TOTAL,2.00,PUT,"])
def test_rows_that_hsbench_left_of_a_longer_file_are_refused(tmp_path: Path, older: str) -> None:
    rest = "4000,15.6,4000.00,1.00,4.00,9.00,20.00,0\n"
    text = HSBENCH + f"1,TOTAL,2.00,GET,{rest}".replace(",4000.00,", ",2000.00,")
    path = written(tmp_path, "out.csv", text + older + rest)
    with pytest.raises(InputError, match=f"line {text.count(chr(10)) + 1}"):
        imported("hsbench", [path])
    assert len(imported("hsbench", [written(tmp_path, "whole.csv", text)]).trials) == 4


def test_the_blocks_of_hummingbird_bench_are_trials(tmp_path: Path) -> None:
    put, get = imported("hummingbird", [written(tmp_path, "out.txt", HUMMINGBIRD)]).trials
    assert (put.phase, put.clients, put.size_bytes, put.length_ns) == ("put", 16, 4096, 10 * 10**9)
    assert {row.outcome: row.requests for row in put.rows} == {"ok": 4998, "unknown": 2}
    assert sum(row.bytes for row in get.rows) == 30_000 * 4096
    assert get.source["times_s"]["99%"] == 0.012
    assert not get.stated


def test_the_first_hummingbird_bench_says_failures_at_the_end(tmp_path: Path) -> None:
    file = written(tmp_path, "out.txt", HUMMINGBIRD_2014)
    put, get = imported("hummingbird", [file]).trials
    assert (put.clients, put.size_bytes, put.counts_failures) == (None, None, True)
    assert {row.outcome: row.requests for row in get.rows} == {"ok": 29_997, "unknown": 3}
    assert sum(row.bytes for row in put.rows) == 0


def test_sai3_bench_has_a_row_of_all_sizes_and_older_ones_their_classes(tmp_path: Path) -> None:
    sai3_bench = imported("sai3-bench", [written(tmp_path, "results.tsv", SAI3_BENCH)])
    read, write = findings(sai3_bench, tmp_path / "run").rounds
    assert (read.operation, read.requests, read.bytes) == ("get", 10_000, 102_400_000)
    assert (read.duration_s, write.duration_s) == (pytest.approx(10), pytest.approx(10))
    assert read.service is not None
    assert read.service.quantiles["p99"] == 1_700_000
    assert read.failed_if_stated is None
    lines = SAI3_BENCH.splitlines(keepends=True)
    older = "".join(line for line in lines if "\tALL\t" not in line)
    cell = only_cell("sai3-bench", tmp_path / "older", older)
    assert (cell.requests, cell.bytes) == (10_000, 102_400_000)
    assert cell.service is not None
    # Means of classes add up, percentiles do not.
    assert (cell.service.mean_ns, cell.service.quantiles["p50"]) == (500_000, None)


@pytest.mark.parametrize("form", IOR_TEXTS)
def test_the_repetitions_of_ior_are_trials(tmp_path: Path, form: str) -> None:
    ior = imported("ior", [written(tmp_path, f"ior.{form}", IOR_TEXTS[form])])
    (cell,) = findings(ior, tmp_path / "run").rounds
    assert (cell.operation, cell.requests, cell.clients) == ("write", 1024, 8)
    assert (cell.parameters["size"], cell.bytes) == (2**20, 2**30)
    rates = [trial_rate.bytes_per_s / 2**20 for trial_rate in cell.trial_rates]
    assert rates == [pytest.approx(1024, rel=1e-3), pytest.approx(1023, rel=1e-3)]
    assert cell.failed_if_stated is None
    assert cell.service is None


def test_mdtests_rates_are_those_of_an_iteration(tmp_path: Path) -> None:
    mdtest = imported("mdtest", [written(tmp_path, "mdtest.txt", MDTEST)])
    assert (mdtest.tool_version, mdtest.notes) == ("4.0.0", ())
    cells = findings(mdtest, tmp_path / "run").rounds
    assert [(cell.operation, cell.requests, cell.requests_per_s) for cell in cells] == [
        ("create", 8000, pytest.approx(40_000)),
        ("stat", 8000, pytest.approx(80_000)),
    ]
    assert {cell.clients for cell in cells} == {8}


def test_mdtest_prints_the_mean_of_several_iterations(tmp_path: Path) -> None:
    mdtest = imported("mdtest", [written(tmp_path, "mdtest.txt", MDTEST_3_0)])
    assert [trial.phase for trial in mdtest.trials] == ["create", "delete"]
    assert mdtest.trials[0].source["min"] == 39_000
    assert len(mdtest.notes) == 1


def test_files_that_mdtests_time_limit_left_are_those_of_the_quickest_task(tmp_path: Path) -> None:
    limit = "Continue stonewall hit min: 90 max: 100 avg: 95.0 \n"
    stopped = MDTEST.replace("8 tasks, 8000 files\n", f"8 tasks, 8000 files\n{limit}")
    trial, _ = imported("mdtest", [written(tmp_path, "mdtest.txt", stopped)]).trials
    assert sum(row.requests for row in trial.rows) == 800
    assert trial.length_ns == 800 / 40_000 * 10**9
    several = stopped.replace("(of 1 iterations)", "(of 2 iterations)").replace(limit, limit * 2)
    with pytest.raises(InputError, match="-W"):
        imported("mdtest", [written(tmp_path, "several.txt", several)])


def test_epochs_of_mlperf_storage_are_repetitions(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, "summary.json", MLPSTORAGE)
    account = importers.find("mlpstorage").read([path], NOTHING)
    assert isinstance(account, Account)
    assert [(measurement.repetition, measurement.value) for measurement in account.of(RATE)] == [
        (1, 100),
        (2, 110),
    ]
    moved = {measurement.operation: measurement.value for measurement in account.of(BYTE_RATE)}
    assert moved == {"train": 210 * 2**20, "save_checkpoint": 2 * 2**30}
    assert main(["import", "mlpstorage", str(path)]) == 0
    head, *rows = (line.split("\t") for line in capfd.readouterr().out.splitlines())
    # It has neither threads nor sizes, and no row of none.
    assert head[1:4] == ["accelerators", "hosts", "Trials"]
    assert [row[:5] for row in rows] == [
        ["train", "4", "2", "2", "105/s"],
        ["train", "4", "2", "1", "210 MiB/s"],
        ["save_checkpoint", "4", "2", "1", "2 GiB/s"],
    ]


@pytest.mark.parametrize(
    ("form", "text", "old", "new", "words"),
    [
        ("cosbench", COSBENCH, "5120213.33", "9120213.33", "Bandwidth"),
        ("cosbench", COSBENCH, "Op-Count", "Count", "Op-Count"),
        ("cosbench", COSBENCH, ",99%,", ",199%,", "Succ-Ratio"),
        ("hsbench", HSBENCH, "4000,7.81,2000.00", "4000,7.81,2900.00", "IO/s"),
        ("hsbench", HSBENCH, "Mode", "Modus", "Mode"),
        ("hummingbird", HUMMINGBIRD, "Failures: 2", "Failures: 9000", "9000"),
        ("hummingbird", HUMMINGBIRD, "500.00/s", "0.00/s", "rate"),
        ("hummingbird", HUMMINGBIRD, "GETs", "PUTs", "second"),
        ("hummingbird", "a\nb\n", "a", "c", "hummingbird"),
        ("sai3-bench", SAI3_BENCH, "9.77", "19.77", "throughput_mibps"),
        ("sai3-bench", SAI3_BENCH, "ops_per_sec", "rate", "ops_per_sec"),
        ("ior", IOR_TEXTS["3.3"], "access ", "excess ", "IOR"),
        ("mdtest", MDTEST, "SUMMARY rate", "SUMMARY", "summary"),
        ("mdtest", MDTEST, "40000.000  0.000", "90000.000  0.000", "mean"),
        ("mlpstorage", MLPSTORAGE, "105.0", "205.0", "mean"),
    ],
)
def test_totals_that_were_edited_or_are_of_others_are_refused(
    tmp_path: Path, form: str, text: str, old: str, new: str, words: str
) -> None:
    assert old in text
    path = written(tmp_path, "file", text.replace(old, new))
    with pytest.raises(InputError, match=words):
        importers.find(form).read([path], NOTHING)


def test_rollbacks_of_rados_bench_are_refused_as_such(tmp_path: Path) -> None:
    text = Path("tests/fuzz/corpus/rados-bench/rollback").read_text()
    for file in (
        written(tmp_path, "text", text),
        written(tmp_path, "json", '{"datas": [], "total_rollbacks_made": 216}'),
    ):
        with pytest.raises(InputError, match="rollbacks"):
            importers.find("rados-bench").read([file], NOTHING)


def test_callers_may_state_values_missing_from_totals(tmp_path: Path) -> None:
    hints = Hints(threads=16, size_bytes=4096, target="rgw")
    (trial, *_) = imported("hsbench", [written(tmp_path, "o.csv", HSBENCH)], hints).trials
    assert (trial.clients, trial.size_bytes, trial.target) == (16, 4096, "rgw")
