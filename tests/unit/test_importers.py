"""Files that other tools really wrote: their results, and mistakes that are refused."""

import json
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from loadstone import importers
from loadstone.analysis import Findings, analyse
from loadstone.analysis.accounts.account import RATE, SECONDS, THREAD_RATE, Account
from loadstone.cli import main
from loadstone.cli.application import app
from loadstone.errors import InputError, ResultError
from loadstone.formats.imported import Hints, Imported
from loadstone.formats.node_probes import read_iperf3
from loadstone.importers import network_ceiling
from loadstone.importers.run_folder import write_run
from loadstone.results.store import read_run

DATA = Path(__file__).parent.parent / "data" / "importers"
PUBLISHED = Path(__file__).parent.parent / "data" / "published"
NOTHING = Hints()


def read(form: str, *names: str, hints: Hints = NOTHING) -> Imported:
    imported = importers.find(form).read([DATA / name for name in names], hints)
    assert isinstance(imported, Imported)
    return imported


def findings(imported: Imported, folder: Path) -> Findings:
    write_run(imported, folder)
    return analyse(read_run(folder))


def nectar(operation: str) -> tuple[str, str]:
    return f"bench-{operation}.csv", f"bench-{operation}.stdout.txt"


# Files of tools become a run with their numbers


@pytest.mark.parametrize(
    ("operation", "requests", "seconds", "size"),
    [("put", 400, 13.64757, 4096), ("get", 800, 18.51228, 0), ("delete", 400, 5.60906, 0)],
)
def test_nectar_gives_the_requests_and_the_time_that_nectar_printed(
    tmp_path: Path, operation: str, requests: int, seconds: float, size: int
) -> None:
    findings_of = findings(read("nectar", *nectar(operation)), tmp_path / "run")
    (cell,) = findings_of.rounds
    assert (cell.operation, cell.requests, cell.failed) == (operation, requests, 0)
    # nectar starts its clock a little before the first request.
    assert cell.duration_s == pytest.approx(seconds, abs=0.002)
    assert cell.requests_per_s == pytest.approx(requests / seconds, rel=1e-3)
    assert cell.parameters["threads"] == 16
    assert cell.bytes == requests * size
    assert cell.service is not None
    assert cell.service.count == requests
    assert (cell.first_byte is not None) == (operation == "get")


def test_nectars_own_rate_over_whole_seconds_is_pointed_out() -> None:
    (note,) = read("nectar", *nectar("delete")).notes
    assert "printed 80.0/s" in note
    assert "71.3/s" in note


def test_nectars_mixed_benchmark_is_one_trial_of_all_its_operations(tmp_path: Path) -> None:
    findings_of = findings(read("nectar", *nectar("mixed")), tmp_path / "run")
    counts = {cell.operation: cell.requests for cell in findings_of.rounds}
    assert counts == {"put": 329, "get": 416, "head": 419, "post": 268}
    assert {cell.duration_s for cell in findings_of.rounds} == {findings_of.rounds[0].duration_s}
    # Four workers for each of five kinds of request.
    assert findings_of.rounds[0].parameters["threads"] == 20


def test_without_the_console_the_status_or_a_hint_tells_the_operation() -> None:
    (trial,) = read("nectar", "bench-put.csv").trials
    assert trial.phase == "put"
    assert trial.size_bytes is None
    with pytest.raises(InputError, match="operation"):
        read("nectar", "bench-get.csv")
    hints = Hints(operation="get", size_bytes=4096, threads=16)
    (trial,) = read("nectar", "bench-get.csv", hints=hints).trials
    assert (trial.phase, trial.clients, trial.size_bytes) == ("get", 16, 4096)
    assert sum(row.bytes for row in trial.rows) == 800 * 4096


def test_warp_gives_every_request_and_keeps_preparation_apart(tmp_path: Path) -> None:
    imported = read("warp", "warp-get.csv.zst")
    findings_of = findings(imported, tmp_path / "run")
    (cell,) = findings_of.rounds
    assert (cell.operation, cell.requests, cell.failed) == ("get", 6371, 0)
    assert cell.parameters == {"threads": 8, "size": 4096}
    # warp itself prints 1072.12 obj/s over its five middle seconds.
    assert cell.requests_per_s == pytest.approx(1072.12, rel=0.02)
    assert cell.first_byte is not None
    assert [(trial.phase, trial.is_measured) for trial in imported.trials] == [
        ("put", False),
        ("get", True),
    ]
    assert imported.command is not None
    assert imported.command.startswith("warp get")


def test_fio_gives_its_rates_and_with_json_plus_its_latencies(tmp_path: Path) -> None:
    findings_of = findings(read("fio", "fio-read-4m.json"), tmp_path / "plus")
    (cell,) = findings_of.rounds
    assert cell.requests_per_s == pytest.approx(202.378, abs=0.001)
    assert cell.bytes_per_s == pytest.approx(848834869, rel=1e-6)
    assert cell.parameters["size"] == 4 * 2**20
    assert cell.service is not None
    # fio's own p50 is 36 962 304 ns; its groups are 0.8 % wide, ours 0.1 %.
    assert cell.service.quantiles["p50"] == pytest.approx(36_962_304, rel=0.01)
    both = findings(read("fio", "fio-randrw-4k.json"), tmp_path / "plain")
    assert [cell.operation for cell in both.rounds] == ["read", "write"]
    assert both.rounds[1].requests_per_s == pytest.approx(25586.1, abs=0.1)
    # Plain JSON states percentiles and no distribution: they are shown as they are.
    stated = both.rounds[0].service
    assert stated is not None
    assert stated.quantiles["p50"] == 68_096
    assert stated.quantiles["p99_9"] == 4_947_968
    assert stated.quantiles["p75"] is None
    assert (stated.count, stated.max_ns) == (102_541, 225_298_529)
    # It has no seconds, and so no spread of them.
    assert {cell.spread_of_seconds for cell in both.rounds} == {None}


@pytest.mark.parametrize(
    ("name", "operation", "requests", "mebibytes_per_s"),
    [
        ("bluestore-4K-bench-rand.txt", "get", 30257, 23.6338),
        ("bluestore-4K-bench-write.txt", "put", 5424, 4.23457),
        ("bluestore-4M-ecbench-seq.txt", "get", 150, 181.39),
        ("bluestore-4M-ecbench-write.txt", "put", 150, 110.252),
    ],
)
def test_rados_bench_means_mebibytes_by_its_mb(
    tmp_path: Path, name: str, operation: str, requests: int, mebibytes_per_s: float
) -> None:
    findings_of = findings(read("rados-bench", name), tmp_path / "run")
    (cell,) = findings_of.rounds
    assert (cell.operation, cell.requests) == (operation, requests)
    assert cell.bytes_per_s / 2**20 == pytest.approx(mebibytes_per_s, rel=1e-4)
    assert cell.parameters["threads"] == 16
    assert cell.spread_of_seconds is not None


def test_rados_bench_is_read_as_json_too(tmp_path: Path) -> None:
    document = {
        "concurrent_ios": 16,
        "op_size": 4194304,
        "datas": [
            {"sec": "1", "cur_ops": "16", "finished": "19"},
            {"sec": "2", "cur_ops": "16", "finished": "48"},
        ],
        "total_time_run": "2.5",
        "total_writes_made": "60",
        "write_size": "4194304",
        "bandwidth": "96",
    }
    path = tmp_path / "bench.json"
    path.write_text(json.dumps(document))
    imported = importers.find("rados-bench").read([path], NOTHING)
    assert isinstance(imported, Imported)
    assert [(row.second, row.requests) for row in imported.trials[0].rows] == [
        (0, 19),
        (1, 29),
        (2, 12),
    ]


def test_elbencho_gives_the_rates_of_its_last_thread(tmp_path: Path) -> None:
    findings_of = findings(read("elbencho", "elbencho.csv"), tmp_path / "run")
    rates = {cell.operation: cell.requests_per_s for cell in findings_of.rounds}
    assert rates == {"write": pytest.approx(227691), "read": pytest.approx(132836)}
    assert {cell.parameters["threads"] for cell in findings_of.rounds} == {8}
    assert findings_of.rounds[0].bytes == 64 * 2**20


@pytest.mark.parametrize(
    ("name", "operation", "bits_per_s", "threads"),
    [
        ("iperf3-1stream.json", "send", 11876733895, 1),
        ("iperf3-4streams-reverse.json", "receive", 5519731455, 4),
    ],
)
def test_iperf3_gives_the_bytes_of_each_second(
    tmp_path: Path, name: str, operation: str, bits_per_s: float, threads: int
) -> None:
    findings_of = findings(read("iperf3", name), tmp_path / "run")
    (cell,) = findings_of.rounds
    assert cell.operation == operation
    assert 8 * cell.bytes_per_s == pytest.approx(bits_per_s, rel=1e-3)
    assert cell.parameters["threads"] == threads


def test_iperf3_is_the_ceiling_of_a_path() -> None:
    ceiling = network_ceiling.read_ceiling(DATA / "iperf3-1stream.json")
    assert ceiling.resource == "network"
    assert 8 * ceiling.bytes_per_s == pytest.approx(11866446738)
    assert ceiling.low is not None
    assert ceiling.high is not None
    assert ceiling.low < ceiling.bytes_per_s < ceiling.high


def test_a_path_with_burst_credit_is_as_fast_as_its_last_seconds(tmp_path: Path) -> None:
    document = json.loads((DATA / "iperf3-1stream.json").read_text())
    burst = [15.4e6, 5.7e6, 4.9e6]
    document["intervals"] = [
        {"sum": {**document["intervals"][0]["sum"], "bits_per_second": 8 * rate}} for rate in burst
    ]
    document["end"]["sum_received"]["bits_per_second"] = 8 * sum(burst) / 3
    (tmp_path / "burst.json").write_text(json.dumps(document))
    ceiling = network_ceiling.read_ceiling(tmp_path / "burst.json")
    assert ceiling.bytes_per_s == pytest.approx(4.9e6)
    assert not ceiling.is_steady
    assert read_iperf3(json.dumps(document))["bits_per_s"] == pytest.approx(8 * 4.9e6)


def account(form: str, *paths: Path, hints: Hints = NOTHING) -> Account:
    imported = importers.find(form).read(list(paths), hints)
    assert isinstance(imported, Account)
    return imported


def test_a_datasafe_log_gives_its_percentiles_and_rates() -> None:
    datasafe = account("datasafe", PUBLISHED / "datasafe-log.txt")
    rates = {
        (measurement.operation, measurement.size_bytes): measurement.text
        for measurement in datasafe.of(RATE)
    }
    assert len(rates) == 18
    assert rates["write", 102_400] == "42.39896054161253"
    assert rates["read", 10_485_760] == "6.102306403813942"
    assert len(datasafe.of(THREAD_RATE)) == 18
    # Users are made by one thread alone, before the others begin.
    users = [
        measurement.value
        for measurement in datasafe.of(RATE)
        if measurement.operation == "create_user"
    ]
    assert users == pytest.approx([2.0807324, 2.6322717, 2.3832221])
    (p99,) = [
        measurement
        for measurement in datasafe.of("service_ns_p99")
        if measurement.text == "552.8199999999999"
    ]
    assert p99.value == pytest.approx(552.82e6)


def test_details_of_queries_give_every_time_and_averages_the_same_table(
    capfd: pytest.CaptureFixture[str],
) -> None:
    paths = [PUBLISHED / f"theflash-{system}-raw.md" for system in ("ssd", "ceph")]
    tpch = account("tpch", *paths)
    assert len(tpch.of(SECONDS)) == 429
    assert main(["import", "tpch", *map(str, paths)]) == 0
    printed = re.sub(r"[-\w]*(ssd|ceph)-raw", "", capfd.readouterr().out).replace(" ", "")
    published = (PUBLISHED / "theflash-table.md").read_text().replace(" ", "")
    assert printed.splitlines()[2:] == published.splitlines()[2:]


def test_a_log_of_queries_leaves_out_those_that_failed(tmp_path: Path) -> None:
    path = tmp_path / "ssd.log"
    path.write_text(
        "## Running tpch query #1, class Q1\nelapsed: Double = 10.5\n"
        "## Running tpch query #2, class Q2\nException\n"
        "## Running tpch query #1, class Q1\nelapsed: Double = 11.5\n"
    )
    tpch = account("tpch", path)
    assert [
        (measurement.parameters["query"], measurement.value) for measurement in tpch.measurements
    ] == [
        ("Q01", 10.5),
        ("Q01", 11.5),
    ]
    assert [measurement.repetition for measurement in tpch.measurements] == [1, 2]


def test_the_command_line_makes_a_run_folder_that_can_be_reported(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    names = [str(DATA / name) for name in nectar("put")]
    assert main(["import", "nectar", *names, "-o", str(folder), "--target", "swift"]) == 0
    assert "400 requests" in capfd.readouterr().out
    assert main(["report", str(folder), "-f", "json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert document["iterations"][0]["target"] == "swift"
    assert "IMPORTED" in document["iterations"][0]["labels"]
    with pytest.raises(ResultError) as caught:
        app(args=["import", "nectar", *names, "-o", str(folder)], standalone_mode=False)
    assert caught.value.kind == "run-exists"


def test_a_file_stands_wherever_a_run_does(capfd: pytest.CaptureFixture[str]) -> None:
    name = f"elbencho:{DATA / 'elbencho.csv'}"
    assert main(["compare", name, name, "-f", "json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert [comparison["ratio"] for comparison in document["comparisons"]] == [1.0, 1.0]
    assert main(["analyse", f"datasafe:{PUBLISHED / 'datasafe-log.txt'}"]) == 0
    assert "rate-from-latency" in capfd.readouterr().out


# Truncated, foreign and edited files are refused, with the place


Change = Callable[[str], str]


def cut(share: float) -> Change:
    return lambda text: text[: int(len(text) * share)]


def swap(old: str, new: str) -> Change:
    def change(text: str) -> str:
        assert old in text
        return text.replace(old, new, 1)

    return change


def without_line(number: int) -> Change:
    def change(text: str) -> str:
        lines = text.splitlines(keepends=True)
        return "".join(lines[: number - 1] + lines[number:])

    return change


@pytest.mark.parametrize(
    ("form", "names", "change", "words"),
    [
        ("nectar", nectar("put"), cut(0.5), ["line ", "cut off"]),
        ("nectar", nectar("put"), without_line(17), ["ends after 399", "printed 400", "cut off"]),
        ("nectar", nectar("put"), swap(",201,", ",2x1,"), ["line 2", '"status"', '"2x1"']),
        (
            "nectar",
            nectar("put"),
            swap(",229934319", ",-5"),
            ["line 2", "elapsed_nanoseconds", "-5"],
        ),
        ("nectar", nectar("put"), swap("status,", "state,"), ["line 1", '"status"']),
        ("nectar", nectar("put"), swap("bench3/bench-7,", ""), ["line 2", "has 4 fields"]),
        ("nectar", ("bench-put.csvot.csv",), swap("0", "0"), ["-csvot file"]),
        ("nectar", ("elbencho.csv",), swap("ISO", "ISO"), ["nectar"]),
        ("fio", ("fio-read-4m.json",), cut(0.5), ["line ", "not valid JSON", "cut off"]),
        ("fio", ("iperf3-1stream.json",), swap("start", "start"), ['has no "fio version"']),
        (
            "fio",
            ("fio-read-4m.json",),
            swap('"iops" : 202.378003', '"iops" : 302.378003'),
            ["throughput-test-job", "302.378", "edited"],
        ),
        ("fio", ("fio-read-4m.json",), swap('"36438016" : 182', '"36438016" : 12'), ["latencies"]),
        ("fio", ("fio-read-4m.json",), swap('"error" : 0', '"error" : 5'), ["ended with error 5"]),
        ("iperf3", ("iperf3-1stream.json",), cut(0.7), ["not valid JSON"]),
        ("iperf3", ("fio-read-4m.json",), swap("fio", "fio"), ['has no "intervals"']),
        (
            "iperf3",
            ("iperf3-1stream.json",),
            swap(
                '"sum":\t{\n\t\t\t\t"start":\t0,\n\t\t\t\t"end":\t1.005568,\n\t\t\t\t"seconds":\t1.0055680274963379,\n\t\t\t\t"bytes":\t1256980480',
                '"sum":\t{\n\t\t\t\t"start":\t0,\n\t\t\t\t"end":\t1.005568,\n\t\t\t\t"seconds":\t1.0055680274963379,\n\t\t\t\t"bytes":\t2256980480',
            ),
            ["interval 1", "edited"],
        ),
        ("rados-bench", ("bluestore-4M-ecbench-write.txt",), cut(0.5), ["line 9", "cut off"]),
        (
            "rados-bench",
            ("bluestore-4M-ecbench-write.txt",),
            lambda text: text[: text.index("Bandwidth")],
            ['ends without "Bandwidth (MB/sec)"', "cut off"],
        ),
        (
            "rados-bench",
            ("bluestore-4M-ecbench-write.txt",),
            swap("Total writes made:      150", "Total writes made:      180"),
            ["line 15", "does not fit", "edited"],
        ),
        (
            "rados-bench",
            ("bluestore-4M-ecbench-write.txt",),
            swap("    3      16        92        76", "    3      16        92        16"),
            ["line 8", "goes back"],
        ),
        (
            "rados-bench",
            ("elbencho.csv",),
            swap("ISO", "ISO"),
            ["line 1", "not the output of rados bench"],
        ),
        ("elbencho", ("elbencho.csv",), cut(0.9), ["line 3", "cut off"]),
        ("elbencho", ("elbencho.csv",), swap("227691", "327691"), ["line 2", "IOPS [last]"]),
        ("elbencho", ("elbencho.csv",), swap(",71,", ",x,"), ["line 2", "time ms [last]", '"x"']),
        ("elbencho", nectar("put")[:1], swap("bench", "bench"), ["line 1", "has no column"]),
    ],
)
def test_a_file_that_is_not_what_the_tool_wrote_is_refused_with_its_place(
    tmp_path: Path, form: str, names: Sequence[str], change: Change, words: Sequence[str]
) -> None:
    paths = [tmp_path / name for name in names]
    for path in paths:
        shutil.copy(DATA / path.name, path)
    text = paths[0].read_text()
    paths[0].write_text(change(text))
    with pytest.raises(InputError) as caught:
        importers.find(form).read(paths, NOTHING)
    whole = str(caught.value)
    assert names[0] in whole
    for word in words:
        assert word in whole


def rewritten(tmp_path: Path, change: Change) -> Path:
    """Return warp's file with its text changed, compressed again."""
    with pa.CompressedInputStream(pa.OSFile(str(DATA / "warp-get.csv.zst")), "zstd") as stream:
        text = stream.read().decode()
    path = tmp_path / "changed.csv.zst"
    with pa.CompressedOutputStream(str(path), "zstd") as stream:
        stream.write(change(text).encode())
    return path


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (without_line(40), ["line 40", '"idx"', "expected 38"]),
        (swap("\t20118660\t", "\t80118660\t0118660\t"), ["line 3", "has 16 fields"]),
        (swap("\t20118660\t", "\t920118660\t"), ["line 3", "duration_ns", "edited"]),
        (swap("03:41:03.083107057Z", "yesterday"), ["line 3", '"start"', "yesterday"]),
        (swap("thread\t", "threads\t"), ["line 1", '"thread"']),
        (cut(0.3), ["in the middle of a line"]),
    ],
)
def test_a_warp_file_that_was_changed_is_refused(
    tmp_path: Path, change: Change, words: Sequence[str]
) -> None:
    path = rewritten(tmp_path, change)
    with pytest.raises(InputError) as caught:
        importers.find("warp").read([path], NOTHING)
    for word in words:
        assert word in str(caught.value)


def test_a_warp_file_that_was_cut_off_or_is_no_zstd_is_refused(tmp_path: Path) -> None:
    short = tmp_path / "short.csv.zst"
    short.write_bytes((DATA / "warp-get.csv.zst").read_bytes()[:50_000])
    with pytest.raises(InputError, match=r"short\.csv\.zst"):
        importers.find("warp").read([short], NOTHING)
    with pytest.raises(InputError, match=r"bench-put\.csv"):
        read("warp", "bench-put.csv")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (swap("90=79.0", "90=7.0"), ["line 2", "do not rise"]),
        (
            swap("throughputPerThread=21.1", "throughputPerThread=x"),
            ["line 2", "throughputPerThread"],
        ),
        (without_line(1), ["line 1", "before the name of any load"]),
        (swap(", throughputPerThread=4.598540145985401)", ""), ["line 3", "cut off"]),
        (lambda text: "nothing\n", ["has no statistics"]),
    ],
)
def test_a_datasafe_log_that_was_changed_is_refused(
    tmp_path: Path, change: Change, words: Sequence[str]
) -> None:
    assert_refused("datasafe", "datasafe-log.txt", tmp_path, change, words)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (swap("avg:  23.8", "avg:  29.8"), ["line 4", "29.8"]),
        (swap("14.8, 9.8", "14.8, 9,8x"), ["line 3", '"8x"']),
        (swap("9.7, 11.0]", "9.7, 11."), ["line 3", "no end"]),
        (lambda text: "elapsed: Double = 3\n", ["line 1", "without the query"]),
        (lambda text: "", ["has no times"]),
    ],
)
def test_times_of_queries_that_were_changed_are_refused(
    tmp_path: Path, change: Change, words: Sequence[str]
) -> None:
    assert_refused("tpch", "theflash-ssd-raw.md", tmp_path, change, words)


def assert_refused(
    importer: str, published: str, folder: Path, change: Change, words: Sequence[str]
) -> None:
    path = folder / "changed.txt"
    path.write_text(change((PUBLISHED / published).read_text()))
    with pytest.raises(InputError) as caught:
        importers.find(importer).read([path], NOTHING)
    for word in (path.name, *words):
        assert word in str(caught.value)


@pytest.mark.parametrize("form", [name for name in importers.IMPORTERS if name != "warp"])
def test_missing_and_binary_files_are_refused(tmp_path: Path, form: str) -> None:
    binary = tmp_path / "binary"
    binary.write_bytes(bytes(range(256)) * 4)
    for path in (tmp_path / "missing", binary):
        with pytest.raises(InputError, match=path.name):
            importers.find(form).read([path], NOTHING)


def test_an_unknown_format_is_refused_with_the_known_ones(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert main(["import", "bonnie", "x"]) == 1
    message = capfd.readouterr().err
    assert '"bonnie"' in message
    assert "nectar, warp" in message


def test_nectars_missing_reads_are_labelled_and_counted(tmp_path: Path) -> None:
    for name in nectar("get"):
        shutil.copy(DATA / name, tmp_path / name)
    table = tmp_path / "bench-get.csv"
    table.write_text(without_line(100)(table.read_text()))
    imported = importers.find("nectar").read([tmp_path / name for name in nectar("get")], NOTHING)
    assert isinstance(imported, Imported)
    assert imported.trials[0].labels == ("INCOMPLETE",)
    assert any("1 requests" in note for note in imported.notes)


def test_consoles_are_matched_by_name_or_by_place(tmp_path: Path) -> None:
    for operation in ("put", "get"):
        shutil.copy(DATA / f"bench-{operation}.csv", tmp_path / f"{operation}.csv")
        shutil.copy(DATA / f"bench-{operation}.stdout.txt", tmp_path / f"console-{operation}")
    paths = [tmp_path / name for name in ("put.csv", "get.csv", "console-put", "console-get")]
    imported = importers.find("nectar").read(paths, NOTHING)
    assert isinstance(imported, Imported)
    assert [trial.phase for trial in imported.trials] == ["put", "get"]
    with pytest.raises(InputError, match="matched"):
        importers.find("nectar").read(paths[:3], NOTHING)
