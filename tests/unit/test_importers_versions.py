"""Old releases of other tools, and the text that people's files have around their output."""

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from loadstone import importers
from loadstone.analysis.cells.cell import Cell
from loadstone.cli import main
from loadstone.errors import InputError
from loadstone.formats.imported import Hints, Imported
from tests.unit.old_formats import (
    FIO_2_0_10,
    FIO_2_2,
    OPTIONS,
    RADOS_TEXTS,
    WARP_COLUMNS,
    fio_direction,
    fio_document,
    fio_entry,
    iperf_document,
    iperf_start,
    iperf_sum,
    warp_text,
    with_clock,
)
from tests.unit.test_importers import DATA, NOTHING, findings


def imported(form: str, paths: Sequence[Path], hints: Hints = NOTHING) -> Imported:
    run = importers.find(form).read(paths, hints)
    assert isinstance(run, Imported)
    return run


def only_cell(form: str, folder: Path, *texts: str, hints: Hints = NOTHING) -> Cell:
    """Return the one cell of files with these texts."""
    folder.mkdir(exist_ok=True)
    paths = [folder / f"file-{number}" for number, _ in enumerate(texts, start=1)]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    (cell,) = findings(imported(form, paths, hints), folder / "run").rounds
    return cell


# fio


@pytest.mark.parametrize(("port", "clients"), [(8765, 64), (8766, 64)])
def test_jobs_of_fios_servers_count_on_each_of_them(
    tmp_path: Path, port: int, clients: int
) -> None:
    options = {"rw": "randread", "bs": "4k", "iodepth": "8", "numjobs": "4"}
    hosts = [
        {"hostname": "a", "port": 8765},
        {"hostname": "a" if port > 8765 else "b", "port": port},
    ]
    entries = [fio_entry(fio_direction(), **host, **{"job options": options}) for host in hosts]
    cell = only_cell("fio", tmp_path, fio_document(entries))
    assert cell.clients == clients


@pytest.mark.parametrize(
    ("runtime_ms", "kind", "clients", "phase"),
    [
        (40_000, "randread", 32, "randread"),
        # Five jobs, of which four are those of the options.
        (50_000, "randread", None, "read"),
        # These options are of a job that wrote, beside those that read.
        (40_000, "randwrite", None, "read"),
    ],
)
def test_a_sum_of_several_sections_has_no_options_of_one(
    tmp_path: Path, runtime_ms: int, kind: str, clients: int | None, phase: str
) -> None:
    options = {"rw": kind, "bs": "4k", "iodepth": "8", "numjobs": "4"}
    entry = fio_entry(fio_direction(), job_runtime=runtime_ms, **{"job options": options})
    cell = only_cell("fio", tmp_path, fio_document([entry]))
    assert (cell.clients, cell.phase) == (clients, phase)


@pytest.mark.parametrize("are_global", [True, False])
def test_fios_options_are_read_wherever_they_stand(tmp_path: Path, *, are_global: bool) -> None:
    entry = fio_entry(fio_direction(), **({} if are_global else {"job options": OPTIONS}))
    whole = {"global options": OPTIONS} if are_global else {}
    cell = only_cell("fio", tmp_path, fio_document([entry], **whole))
    assert (cell.target, cell.phase, cell.clients) == ("/dev/sdx", "randread", 128)
    assert cell.parameters["ioengine"] == "libaio"
    assert (cell.requests, cell.failed_if_stated) == (40_000, 0)


def test_the_number_of_jobs_of_a_group_is_not_guessed(tmp_path: Path) -> None:
    options = {name: value for name, value in OPTIONS.items() if name != "numjobs"}
    entry = fio_entry(fio_direction(), **{"job options": options})
    cell = only_cell("fio", tmp_path, fio_document([entry]))
    assert cell.clients is None
    assert "threads" not in cell.parameters


def test_jobs_at_the_same_time_are_one_trial(tmp_path: Path) -> None:
    options = {"rw": "randread", "bs": "4k", "iodepth": "8", "numjobs": "4"}
    entries = [fio_entry(fio_direction(), **{"job options": options})] * 4
    cell = only_cell("fio", tmp_path, fio_document(entries))
    assert len(cell.trials) == 1
    assert (cell.requests_per_s, cell.clients) == (pytest.approx(16_000), 32)
    assert cell.service is not None
    assert (cell.service.count, cell.service.max_ns) == (160_000, 9_000_000)
    assert cell.service.quantiles["p99"] is None


def test_histograms_of_jobs_at_the_same_time_are_merged(tmp_path: Path) -> None:
    times = {**fio_direction()["clat_ns"], "bins": {"900000": 39_000, "9000000": 1000}}
    entries = [fio_entry(fio_direction(clat_ns=times))] * 3
    cell = only_cell("fio", tmp_path, fio_document(entries))
    assert cell.service is not None
    assert cell.service.count == 120_000
    assert cell.service.quantiles["p99"] == pytest.approx(9_000_000, rel=0.01)


def test_jobs_behind_a_stonewall_follow_each_other(tmp_path: Path) -> None:
    entries = [fio_entry(fio_direction(), groupid=number) for number in range(2)]
    path = tmp_path / "fio.json"
    path.write_text(fio_document(entries))
    run = imported("fio", [path])
    assert [trial.block for trial in run.trials] == [1, 2]
    # When the first began, the report's time does not say.
    assert [trial.started_unix_ns for trial in run.trials] == [None, 1_699_999_990_123_000_000]


@pytest.mark.parametrize(("read", "percentile"), [(FIO_2_2, "p99"), (FIO_2_0_10, "p50")])
def test_fio_2_counts_kibibytes_and_microseconds(
    tmp_path: Path, read: dict[str, object], percentile: str
) -> None:
    text = fio_document([fio_entry(read)], timestamp_ms=None, timestamp=1_444_144_664)
    cell = only_cell("fio", tmp_path, text)
    assert cell.bytes == 160_000 * 1024
    assert cell.bytes / cell.requests == 4096
    assert cell.service is not None
    assert (cell.service.quantiles["p50"], cell.service.max_ns) == (900_000, 9_000_000)
    assert cell.service.quantiles[percentile] is not None
    assert cell.clients is None
    assert cell.trial_rates[0].started_unix_ns == 1_444_144_654_000_000_000


def test_fios_histograms_by_group_are_read(tmp_path: Path) -> None:
    """fio 2.2.12 to 2.20: group 450 of 64 to a power of two is 544 to 551 microseconds."""
    bins = {"450": 40_000, "451": 0, "FIO_IO_U_PLAT_BITS": 6, "FIO_IO_U_PLAT_VAL": 64}
    read = {**FIO_2_2, "clat": {**FIO_2_2["clat"], "bins": bins}}  # type: ignore[dict-item]
    cell = only_cell("fio", tmp_path, fio_document([fio_entry(read)]))
    assert cell.service is not None
    # plat_idx_to_val(450): 6 error bits - 1 = 6, base 1 << 12, 2 groups and a half of 64.
    assert cell.service.quantiles["p50"] == pytest.approx((4096 + 2.5 * 64) * 1000, rel=0.01)


def test_bytes_that_do_not_fit_their_rate_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "fio.json"
    path.write_text(fio_document([fio_entry(fio_direction(io_kbytes=None))]))
    with pytest.raises(InputError, match="KiB/s"):
        imported("fio", [path])


def test_text_around_the_json_of_fio_is_skipped(tmp_path: Path) -> None:
    so_far = fio_document([fio_entry(fio_direction(total_ios=20_000, iops=2000.0))])
    whole = fio_document([fio_entry(fio_direction())])
    text = f"\ufefffio: capping iodepth\r\n{so_far}{whole}bye\n"
    assert only_cell("fio", tmp_path, text).requests == 40_000


def test_fios_hosts_are_one_load_and_their_sum_is_none(tmp_path: Path) -> None:
    hosts = [fio_entry(fio_direction(), hostname=name, port=8765) for name in ("a", "b")]
    whole = fio_entry(fio_direction(), jobname="All clients", hostname="b", port=8765)
    document = json.loads(fio_document([]))
    document["client_stats"] = [*hosts, whole]
    document["global options"] = [{"hostname": name, **OPTIONS} for name in ("a", "b")]
    del document["jobs"]
    cell = only_cell("fio", tmp_path, json.dumps(document))
    assert (cell.requests, cell.clients, len(cell.trials)) == (80_000, 256, 1)


def test_requests_that_fio_went_on_after_are_failures(tmp_path: Path) -> None:
    entry = fio_entry(fio_direction(), total_err=400, **{"job options": OPTIONS})
    cell = only_cell("fio", tmp_path, fio_document([entry]))
    assert (cell.requests, cell.failed) == (40_000, 400)
    both = fio_entry(fio_direction(), total_err=400, write=fio_direction())
    path = tmp_path / "both.json"
    path.write_text(fio_document([both]))
    (trial,) = imported("fio", [path]).trials
    assert not trial.counts_failures


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ({"rate_iops": "1000"}, 4000),
        ({"rate": "4m"}, 4 * 4 * 2**20 / 4096),
        ({"rate_iops": "1000,", "rw": "randrw"}, 4000),
        ({"thinktime": "500"}, None),
    ],
)
def test_the_rate_that_fio_was_limited_to_is_carried(
    tmp_path: Path, options: dict[str, str], limit: float | None
) -> None:
    path = tmp_path / "fio.json"
    entry = fio_entry(fio_direction(), **{"job options": {**OPTIONS, **options}})
    path.write_text(fio_document([entry]))
    (trial,) = imported("fio", [path]).trials
    assert (trial.rate_limit_per_s, trial.paced_by) == (
        limit,
        ", ".join(f"{name}={value}" for name, value in options.items() if name != "rw"),
    )


def test_a_direction_without_a_limit_has_none(tmp_path: Path) -> None:
    path = tmp_path / "fio.json"
    options = {**OPTIONS, "rate_iops": "1000,", "rw": "randrw"}
    entry = fio_entry(fio_direction(), write=fio_direction(), **{"job options": options})
    path.write_text(fio_document([entry]))
    (trial,) = imported("fio", [path]).trials
    assert (trial.rate_limit_per_s, trial.paced_by) == (None, "rate_iops=1000,")


# warp


@pytest.mark.parametrize("release", WARP_COLUMNS)
@pytest.mark.parametrize("is_compressed", [True, False])
def test_the_columns_of_every_warp_are_known_by_their_names(
    tmp_path: Path, release: str, *, is_compressed: bool
) -> None:
    path = tmp_path / "get.csv.zst"
    if is_compressed:
        with pa.CompressedOutputStream(str(path), "zstd") as stream:
            stream.write(warp_text(release).encode())
    else:
        path.write_text(warp_text(release))
    (cell,) = findings(imported("warp", [path]), tmp_path / "run").rounds
    assert (cell.requests, cell.clients, cell.parameters["size"]) == (200, 4, 4096)
    assert cell.requests_per_s == pytest.approx(100, rel=0.01)
    assert cell.service is not None
    assert cell.service.quantiles["p50"] == pytest.approx(8e6, rel=0.01)


def test_an_error_that_is_quoted_over_lines_is_one(tmp_path: Path) -> None:
    cell = only_cell("warp", tmp_path, warp_text("1.5", errors=3))
    assert (cell.requests, cell.errors) == (200, {"http_503": 3})


def test_clients_of_warp_at_the_same_time_are_one_load(tmp_path: Path) -> None:
    cell = only_cell("warp", tmp_path, warp_text("1.5"), warp_text("1.5"))
    assert (cell.requests, cell.clients, len(cell.trials)) == (400, 8, 1)
    later = warp_text("1.5").replace("T03:", "T04:")
    cell = only_cell("warp", tmp_path / "later", warp_text("1.5"), later)
    assert (cell.clients, len(cell.trials)) == (4, 2)


def test_a_load_that_was_limited_to_a_rate_is_limited_by_that(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    limits = {}
    for name, command in {"limited": "warp get --rps-limit=100", "not": ""}.items():
        path = tmp_path / name
        path.write_text(warp_text("1.5", command, requests=2000, threads=16, ms=2))
        run = str(tmp_path / f"run-{name}")
        assert main(["import", "warp", str(path), "-o", run]) == 0
        capfd.readouterr()
        assert main(["report", run, "-f", "json"]) == 0
        (cell,) = json.loads(capfd.readouterr().out)["rounds"]
        limits[name] = cell["verdict"]["limit"], "IDLE" in cell["labels"]
    # Nobody looked at the client's processors, so that they are named in neither.
    assert limits == {"limited": ("REQUESTED_RATE", False), "not": ("UNDETERMINED", True)}


# rados bench


@pytest.mark.parametrize("name", RADOS_TEXTS)
@pytest.mark.parametrize("has_clock", [True, False])
def test_every_text_of_rados_bench_is_read(tmp_path: Path, name: str, *, has_clock: bool) -> None:
    text = RADOS_TEXTS[name]
    is_json = name == "json-in-text"
    cell = only_cell(
        "rados-bench", tmp_path, with_clock(text) if has_clock and not is_json else text
    )
    is_read = name == "no-colon"
    assert (cell.operation, cell.requests, cell.clients) == ("get" if is_read else "put", 216, 16)
    assert cell.bytes_per_s / 2**20 == pytest.approx(411.429, rel=1e-4)
    assert cell.service is not None
    assert (cell.service.mean_ns, cell.service.max_ns) == (pytest.approx(0.11e9), 200_000_000)
    assert cell.trial_rates[0].started_unix_ns is None
    # Wrong data in reads is missing in its output.
    assert cell.failed_if_stated == (None if is_read else 0)


def test_files_without_a_clock_are_parts_when_the_caller_says_so(tmp_path: Path) -> None:
    text = RADOS_TEXTS["warning-first"]
    cell = only_cell("rados-bench", tmp_path, text, text, hints=Hints(are_parts=True))
    assert (cell.requests, cell.clients, len(cell.trials)) == (432, 32, 1)
    cell = only_cell("rados-bench", tmp_path / "repeated", text, text)
    assert (cell.requests, cell.clients, len(cell.trials)) == (432, 16, 2)


# elbencho

ELBENCHO_1_4 = (
    "ISO date,path type,hosts,threads,file size,block size,IO depth,operation,time ms [first],"
    "time ms [last],IOPS [first],IOPS [last],MiB [first],MiB [last]"
)
ELBENCHO_ROW = "2020-11-21T03:41:48+0000,file,1,2,8388608,4096,4,READ,9,10,200000,204800,7,8"


def test_elbenchos_older_tables_are_read(tmp_path: Path) -> None:
    """Without version, command and milliseconds; and the date is that of the end."""
    cell = only_cell("elbencho", tmp_path, f"{ELBENCHO_1_4}\n{ELBENCHO_ROW}\n\n")
    assert (cell.requests, cell.clients, cell.bytes) == (2048, 8, 8 * 2**20)
    assert cell.failed_if_stated is None
    assert cell.trial_rates[0].started_unix_ns == 1_605_930_107_990_000_000


def test_the_blocks_of_a_slow_phase_of_elbencho_are_counted(tmp_path: Path) -> None:
    """Two blocks in five seconds are none a second, as whole numbers."""
    head = "operation,time ms [last],IOPS [last],MiB [last],block size"
    cell = only_cell("elbencho", tmp_path, f"{head}\nWRITE,5000,0,2048,{2**30}\n")
    assert (cell.requests, cell.bytes) == (2, 2**31)


def test_the_reads_of_a_mix_of_elbencho_2_0_are_known_by_their_rate(tmp_path: Path) -> None:
    path = tmp_path / "mix.csv"
    row = ELBENCHO_ROW.replace("READ", "RWMIX30")
    path.write_text(f"{ELBENCHO_1_4},rwmix read IOPS [last]\n{row},1000\n")
    cells = findings(imported("elbencho", [path]), tmp_path / "run").rounds
    assert [(cell.operation, cell.requests) for cell in cells] == [("write", 2048), ("read", 10)]


def test_an_elbencho_table_may_have_a_head_for_each_benchmark(tmp_path: Path) -> None:
    newer = f"{ELBENCHO_1_4},version,command"
    row = f'{ELBENCHO_ROW},3.1-10,"elbencho" "-r" "--limitread" "100m"'
    path = tmp_path / "all.csv"
    path.write_text(f"{ELBENCHO_1_4}\n{ELBENCHO_ROW}\n{newer}\n{row}\n")
    first, second = imported("elbencho", [path]).trials
    assert (first.rate_limit_per_s, first.counts_failures) == (None, False)
    # 100 MiB/s for each of two threads, in blocks of 4 KiB.
    assert (second.rate_limit_per_s, second.counts_failures) == (51_200, True)
    assert second.started_unix_ns == 1_605_930_108_000_000_000


def test_values_missing_from_elbencho_are_not_stated(tmp_path: Path) -> None:
    head = "operation,time ms [last],IOPS [last],MiB [last],block size"
    cell = only_cell("elbencho", tmp_path, f"{head}\nREAD,10,204800,8,4096\n")
    assert (cell.requests, cell.clients) == (2048, None)
    assert cell.trial_rates[0].started_unix_ns is None


def test_an_unstated_value_is_null_in_json_and_blank_on_screen(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path, run = tmp_path / "old.csv", str(tmp_path / "run")
    path.write_text(
        "operation,time ms [last],IOPS [last],MiB [last],block size\nREAD,10,204800,8,4096\n"
    )
    assert main(["import", "elbencho", str(path), "-o", run]) == 0
    for form in ("terminal", "markdown", "html", "csv"):
        assert main(["report", run, "-f", form, "-o", str(tmp_path / f"report.{form}")]) == 0
    capfd.readouterr()
    assert main(["report", run, "-f", "json"]) == 0
    document = json.loads(capfd.readouterr().out)
    (cell,) = document["rounds"]
    assert cell["load"]["clients"] is None
    assert cell["failed_requests"] is None
    assert document["run"]["started"] is None


# iperf3


def test_files_of_iperf3_at_the_same_time_are_one_load(tmp_path: Path) -> None:
    text = json.dumps(iperf_document())
    cell = only_cell("iperf3", tmp_path, text, text)
    assert (cell.bytes_per_s, cell.clients, len(cell.trials)) == (200 * 2**20, 2, 1)
    assert cell.failed_if_stated is None
    later = text.replace("1700000000", "1700000060")
    cell = only_cell("iperf3", tmp_path / "later", text, later)
    assert (cell.clients, len(cell.trials)) == (1, 2)
    assert cell.bytes_per_s == pytest.approx(100 * 2**20)


def test_a_servers_file_has_a_test_after_the_other(tmp_path: Path) -> None:
    intervals = [{"sum": iperf_sum(second, 100, sender=False)} for second in range(2)]
    texts = []
    for begun in (1_700_000_000, 1_700_000_060):
        document = iperf_document(intervals=intervals)
        document["start"]["timestamp"]["timesecs"] = begun
        texts.append(json.dumps(document, indent=1))
    path = tmp_path / "server.json"
    path.write_text("\n".join(texts))
    run = imported("iperf3", [path])
    # The server receives what its client sends.
    assert [(trial.phase, trial.block) for trial in run.trials] == [
        ("receive", 1),
        ("receive", 2),
    ]


def test_the_events_of_a_stream_are_one_test(tmp_path: Path) -> None:
    document = iperf_document()
    events = [("start", document["start"])]
    events += [("interval", interval) for interval in document["intervals"]]
    events += [("end", document["end"])]
    text = "".join(f"{json.dumps({'event': name, 'data': data})}\n" for name, data in events)
    assert only_cell("iperf3", tmp_path, text).bytes == 200 * 2**20


def test_both_directions_at_once_are_a_mix(tmp_path: Path) -> None:
    intervals = [
        {
            "sum": iperf_sum(second, 100, sender=True),
            "sum_bidir_reverse": iperf_sum(second, 50, sender=False),
        }
        for second in range(2)
    ]
    path = tmp_path / "both.json"
    # Until 3.12 at least, the settings do not name --bidir.
    for name, start in (("stated", iperf_start(bidir=1)), ("unstated", iperf_start())):
        path.write_text(json.dumps(iperf_document(start=start, intervals=intervals)))
        cells = findings(imported("iperf3", [path]), tmp_path / name).rounds
        assert [(cell.operation, cell.bytes_per_s / 2**20) for cell in cells] == [
            ("send", 100),
            ("receive", 50),
        ]
    streams = [{"sender": True}, {"sender": False}]
    for start, interval in (
        (iperf_start(bidir=1), {"sum": iperf_sum(0, 100)}),
        (iperf_start(), {"streams": streams, "sum": iperf_sum(0, 100)}),
    ):
        path.write_text(json.dumps(iperf_document(start=start, intervals=[interval])))
        with pytest.raises(InputError, match="one name"):
            imported("iperf3", [path])


def test_the_rate_limit_of_udp_is_kept(tmp_path: Path) -> None:
    """Until 3.12 UDP has one sum: of the sent data."""
    limit = 8 * 100 * 2**20
    start = iperf_start(protocol="UDP", blksize=1024, target_bitrate=limit)
    end = {"sum": {**iperf_document()["end"]["sum_sent"], "lost_packets": 7}}
    cell = only_cell("iperf3", tmp_path, json.dumps(iperf_document(start=start, end=end)))
    assert cell.requests == 204_800
    (trial,) = imported("iperf3", [tmp_path / "file-1"]).trials
    assert trial.rate_limit_per_s == pytest.approx(102_400)
    assert trial.source["sum"]["lost_packets"] == 7


# nectar


def test_nectars_columns_are_known_by_their_names(tmp_path: Path) -> None:
    head = "status,completion_time_unix_nano,elapsed_nanoseconds,object_name,more"
    rows = "".join(f"201,{n + 1}000000000,5000000,o{n},x\n" for n in range(20, 30))
    cell = only_cell("nectar", tmp_path, f"\ufeff{head}\n{rows}")
    assert (cell.operation, cell.requests, cell.clients) == ("put", 10, None)
    assert cell.failed_if_stated == 0


@pytest.mark.parametrize(("has_console", "failed"), [(True, 0), (False, None)])
def test_without_its_console_nectars_failed_reads_are_not_stated(
    tmp_path: Path, *, has_console: bool, failed: int | None
) -> None:
    names = ["bench-get.csv", *(["bench-get.stdout.txt"] if has_console else [])]
    run = imported("nectar", [DATA / name for name in names], Hints(operation="get"))
    (cell,) = findings(run, tmp_path / "run").rounds
    assert cell.failed_if_stated == failed
