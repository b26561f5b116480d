"""Files of old and new releases of other tools, as small as they can be.

Each is written from the definition of its format in the tool's source at that release.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

NOTHING_MOVED = {"io_bytes": 0, "bw": 0, "iops": 0.0, "runtime": 0, "total_ios": 0}
OPTIONS = {
    "rw": "randread", "bs": "4k", "iodepth": "32", "ioengine": "libaio", "direct": "1",
    "filename": "/dev/sdx", "numjobs": "4", "group_reporting": "1",
}  # fmt: skip


def fio_direction(**changes: Any) -> dict[str, Any]:
    """Return 40,000 requests of 4 KiB in 10 s as fio 3 writes them."""
    return {
        "io_bytes": 163_840_000, "io_kbytes": 160_000, "bw_bytes": 16_384_000, "bw": 16_000,
        "iops": 4000.0, "runtime": 10_000, "total_ios": 40_000,
        "clat_ns": {
            "min": 100_000, "max": 9_000_000, "mean": 1_000_000.0, "stddev": 1000.0, "N": 40_000,
            "percentile": {"50.000000": 900_000, "99.000000": 5_000_000},
        },
        **changes,
    }  # fmt: skip


def fio_entry(read: Mapping[str, Any], **facts: Any) -> dict[str, Any]:
    """Return one entry of a job that reads."""
    return {
        "jobname": "rand", "groupid": 0, "error": 0, "read": dict(read),
        "write": dict(NOTHING_MOVED), **facts,
    }  # fmt: skip


def fio_document(entries: Sequence[Mapping[str, Any]], **facts: Any) -> str:
    """Return what fio 3.36 prints of these entries."""
    whole = {"fio version": "fio-3.36", "timestamp_ms": 1_700_000_000_123, **facts}
    return json.dumps({**whole, "jobs": list(entries)}, indent=1) + "\n"


FIO_2_2 = {
    "io_bytes": 160_000, "bw": 16_000, "iops": 4000.0, "runtime": 10_000, "total_ios": 40_000,
    "clat": {
        "min": 100, "max": 9000, "mean": 1000.0, "stddev": 10.0,
        "percentile": {"50.000000": 900, "99.000000": 5000, "0.00": 0},
    },
}  # fmt: skip
"""The same in fio 2.2: KiB and microseconds, and its list of percentiles filled up."""

FIO_2_0_10 = {
    "io_bytes": 160_000, "bw": 16_000, "iops": 4000, "runtime": 10_000,
    "clat": {"min": 100, "max": 9000, "mean": 1000.0, "percentile": {"50.00": 900, "0.00": 0}},
}  # fmt: skip
"""The first JSON of fio: it does not count requests."""


WARP_COLUMNS: Mapping[str, str] = {
    "2019": "idx thread op n_objects bytes file error start first_byte end duration_ns",
    "0.3": "idx thread op client_id n_objects bytes endpoint file error start first_byte end"
    " duration_ns",
    "1.1": "idx thread op client_id n_objects bytes endpoint file error start first_byte end"
    " duration_ns cat",
    "1.5": "idx thread op client_id n_objects bytes endpoint file error start first_byte last_byte"
    " end duration_ns cat",
}
"""The columns of warp's releases, each from the one it is named after on."""


def warp_text(
    release: str,
    command: str = "",
    *,
    requests: int = 200,
    threads: int = 4,
    ms: int = 8,
    errors: int = 0,
) -> str:
    """Return requests of 4 KiB, one each 10 ms; the first ones failed."""
    columns = WARP_COLUMNS[release].split()
    lines = ["\t".join(columns)]
    for number in range(requests):
        begin = f"2026-01-02T03:04:{number // 100:02d}.{number % 100:02d}"
        cells = {
            "idx": str(number), "thread": str(number % threads), "op": "GET", "client_id": "c1",
            "n_objects": "1", "bytes": "4096", "endpoint": "http://s3.example:9000",
            "file": f"k/{number}", "start": f"{begin}0Z", "first_byte": f"{begin}1Z",
            "last_byte": f"{begin}1Z", "end": f"{begin}{ms}Z", "duration_ns": str(ms * 1_000_000),
            "error": '"read: ""503""\nslow down"' if number < errors else "", "cat": "0",
        }  # fmt: skip
        lines.append("\t".join(cells[name] for name in columns))
    return "\n".join([*lines, *([f"# {command}"] if command else [])]) + "\n"


RADOS_ROWS = """\
  sec Cur ops   started  finished  avg MB/s  cur MB/s last lat(s)  avg lat(s)
    0       0         0         0         0         0           -           0
    1      16       116       100       400       400    0.100000    0.110000
    2      16       216       200       400       400    0.100000    0.110000
"""
_MAINTAINING = "Maintaining 16 concurrent writes of 4194304 bytes for up to 2 seconds or 0 objects"

RADOS_TEXTS: Mapping[str, str] = {
    # Reads of Luminous and Mimic.
    "no-colon": f"""\
hints = 1
{RADOS_ROWS}Total time run:       2.100000
Total reads made:     216
Read size:            4194304
Object size:          4194304
Bandwidth (MB/sec):   411.429
Average IOPS          102
Stddev IOPS:          0
Average Latency(s):   0.110000
Max latency(s):       0.200000
Min latency(s):       0.050000
""",
    # rest-bench, and rados until Firefly.
    "blank-first": f"""\
 {_MAINTAINING}
 Object prefix: benchmark_data_node-a_4242
{RADOS_ROWS} Total time run:         2.100000
Total writes made:      216
Write size:             4194304
Bandwidth (MB/sec):     411.429\x20

Stddev Bandwidth:       83.2429
Average Latency:        0.110000
Max latency:            0.200000
Min latency:            0.050000
""",
    "warning-first": f"""\
2026-01-15T16:08:38.887+0000 7f6c8bf0a100 -1 WARNING: all dangerous features are enabled.
hints = 1
{_MAINTAINING}
{RADOS_ROWS}Total time run:         2.100000
Total writes made:      216
Write size:             4194304
Bandwidth (MB/sec):     411.429
Average Latency(s):     0.110000
Max latency(s):         0.200000
Min latency(s):         0.050000
Clean up completed and total clean up time :0.512
""",
    "json-in-text": f"""\
hints = 1
{_MAINTAINING}
{{"datas": [{{"sec": "1", "cur_ops": 16, "finished": 100}}, {{"sec": "2", "cur_ops": 16,
 "finished": 200}}], "total_time_run": "2.1", "total_writes_made": 216, "write_size": 4194304,
 "bandwidth": "411.429", "average_latency": "0.11", "max_latency:": "0.2",
 "min_latency": "0.05"}}Cleaning up (deleting benchmark objects)
Removed 216 objects
""",
}


def with_clock(text: str) -> str:
    """Return a text of rados bench as `--show-time` prints it."""
    return "".join(f"2026-01-15 16:08:38.887123 {line}\n" for line in text.splitlines())


# Tools whose totals are read


COSBENCH = """\
Stage,Op-Name,Op-Type,Op-Count,Byte-Count,Avg-ResTime,Avg-ProcTime,60%-ResTime,80%-ResTime,90%-ResTime,\
95%-ResTime,99%-ResTime,100%-ResTime,Throughput,Bandwidth,Succ-Ratio,Status,Detailed Status
s1-init,init,init,0,0,N/A,N/A,N/A,N/A,N/A,N/A,N/A,N/A,0,0,N/A,completed,a
s2-prepare,prepare-write,prepare,80,5120000,9.5,9,10,10,20,20,30,30,16,1024000,100%,completed,\
booting @ 2014-07-16 16:53:54,completed @ 2014-07-16 16:54:00
s3-main,read,read,2400,153600000,12.25,11.5,20,20,30,30,40,110,80.01,5120213.33,100%,completed,a,b
s3-main,write,write,594,38016000,31.1,30.2,30,40,50,60,90,200,19.8,1267200,99%,completed,a,b
s4-delay,N/A,N/A,N/A,N/A,N/A,N/A,N/A,N/A,N/A,N/A,N/A,N/A,N/A,N/A,N/A,completed,a
"""

HUMMINGBIRD = """\
Hbird Bench. Concurrency: 16. Object size in bytes: 4096
object PUT failed: 503 to 3-77/1f (map[])
PUTs: 5000 @ 500.00/s
  Failures: 2
  Mean: 0.03100s (45.3% RSD)
  Median: 0.02900s
  85%: 0.04000s
  90%: 0.04500s
  95%: 0.06000s
  99%: 0.10000s
GETs: 30000 @ 3000.00/s
  Failures: 0
  Mean: 0.00500s (20.0% RSD)
  Median: 0.00480s
  85%: 0.00600s
  90%: 0.00700s
  95%: 0.00800s
  99%: 0.01200s
"""
HUMMINGBIRD_2014 = """\
PUT 5000 objects @ 500.00/s
GET 30000 objects @ 3000.00/s
GET ERROR: 77
Get errors: 3
"""

HSBENCH = """\
Loop,Inteval,Duration(s),Mode,Ops,MB/s,IO/s,Min Latency (ms),Avg Latency(ms),99% Latency(ms),\
Max Latency(ms),Slowdowns
0,TOTAL,0.50,BINIT,1,0.00,2.00,1.00,1.00,1.00,1.00,0
0,0,1.00,PUT,2000,7.81,2000.00,1.00,4.00,9.00,19.00,0
0,TOTAL,2.00,PUT,4000,7.81,2000.00,1.00,4.00,9.00,20.00,3
1,TOTAL,2.00,PUT,4200,8.20,2100.00,1.00,3.80,9.00,21.00,0
"""

SAI3_BENCH = """\
operation\tsize_bucket\tbucket_idx\tmean_us\tp50_us\tp90_us\tp95_us\tp99_us\tmax_us\tavg_bytes\t\
ops_per_sec\tthroughput_mibps\tcount
GET\t1B-8KiB\t1\t400.00\t380.00\t700.00\t800.00\t1500.00\t9000.00\t4096\t500.00\t1.95\t5000
GET\t8KiB-64KiB\t2\t600.00\t580.00\t900.00\t990.00\t1900.00\t8000.00\t16384\t500.00\t7.81\t5000
GET\tALL\t98\t500.00\t480.00\t800.00\t900.00\t1700.00\t9000.00\t10240\t1000.00\t9.77\t10000
PUT\tALL\t99\t900.00\t880.00\t1800.00\t1900.00\t2700.00\t9900.00\t4096\t100.00\t0.39\t1000
"""

IOR_HEAD = """\
IOR-4.0.0: MPI Coordinated Test of Parallel I/O
Began               : Mon Mar  2 10:00:00 2026
Command line        : ior -a POSIX -b 64m -t 1m -i 2

Options:
api                 : POSIX
tasks               : 8
clients per node    : 8

Results:

"""

IOR_TEXTS: Mapping[str, str] = {
    "3.3": f"""{IOR_HEAD}\
access    bw(MiB/s)  IOPS       Latency(s)  block(KiB) xfer(KiB)  open(s)    wr/rd(s)   close(s)   \
total(s)   iter
------    ---------  ----       ----------  ---------- ---------  --------   --------   --------   \
--------   ----
write     1024.00    1025.10    0.007800    65536      1024.00    0.001      0.499      0.0002     \
0.500000   0
write     1023.00    1024.10    0.007900    65536      1024.00    0.001      0.499      0.0002     \
0.500489   1
remove    -          -          -           -          -          -          -          -          \
0.003      1
Max Write: 1024.00 MiB/sec (1073.74 MB/sec)

Summary of all tests:
Operation   Max(MiB)   Min(MiB)  Mean(MiB)
write        1024.00    1023.00    1023.50
""",
    "3.0": f"""{IOR_HEAD}\
access    bw(MiB/s)  block(KiB) xfer(KiB)  open(s)    wr/rd(s)   close(s)   total(s)   iter
write     1024.00    65536      1024.00    0.001      0.499      0.0002     0.500000   0
write     1023.00    65536      1024.00    0.001      0.499      0.0002     0.500489   1
""",
    "csv": """\
access,bw(MiB/s),IOPS,Latency,block(KiB),xfer(KiB),open(s),wr/rd(s),close(s),total(s),numTasks,iter
write,1024.0000,1025.1,0.0078,65536.0000,1024.0000,0.0010,0.4990,0.0002,0.5000,8,0
write,1023.0000,1024.1,0.0079,65536.0000,1024.0000,0.0010,0.4990,0.0002,0.5005,8,1
""",
    "json": json.dumps(
        {
            "Version": "4.0.0",
            "Command line": "ior -O summaryFormat=JSON",
            "tests": [
                {
                    "TestID": 0,
                    "Options": {"api": "POSIX", "tasks": 8},
                    "Results": [
                        [{"access": "write", "bwMiB": 1024.0, "xferKiB": 1024.0, "totalTime": 0.5}],
                        [
                            {"access": "write", "bwMiB": 1023.0, "xferKiB": 1024.0,
                             "totalTime": 0.5005},
                            {"access": "remove", "totalTime": 0.003},
                        ],
                    ],
                }
            ],
        },
        indent=1,
    ),
}  # fmt: skip

MDTEST = """\
-- started at 03/02/2026 10:00:00 --

mdtest-4.0.0 was launched with 8 total task(s) on 1 node(s)
Command line used: mdtest -n 1000 -F

8 tasks, 8000 files

SUMMARY rate (in ops/sec): (of 1 iterations)
   Operation     per Rank: Max    Min           Mean      per Iteration: Max  Min  Mean  Std Dev
   ---------    ---    ---           ----    ---  ---  ----  -------
   File creation    5010.000   4990.000   5000.000      40000.000  40000.000  40000.000  0.000
   File stat    80000.000  80000.000  80000.000  0.000
   File read    0.000      0.000      0.000  0.000
   Tree creation    999.000    999.000    999.000  0.000

SUMMARY time (in ms/op): (of 1 iterations)
   File creation    0.200      0.200      0.200  0.000
-- finished at 03/02/2026 10:00:02 --
"""

MDTEST_3_0 = """\
mdtest-1.9.3 was launched with 8 total task(s) on 1 node(s)
8 tasks, 8000 files/directories

SUMMARY: (of 3 iterations)
   Operation                      Max            Min           Mean        Std Dev
   ---------                      ---            ---           ----        -------
   Directory creation:      41000.000      39000.000      40000.000        816.497
   File removal      :      20500.000      19500.000      20000.000        408.248
"""

MLPSTORAGE = json.dumps(
    {
        "start": "2026-03-02T10:00:00.000000",
        "num_accelerators": 4,
        "num_hosts": 2,
        "metric": {
            "train_throughput_samples_per_second": [100.0, 110.0],
            "train_throughput_mean_samples_per_second": 105.0,
            "train_io_mean_MB_per_second": 210.0,
            "save_checkpoint_io_mean_GB_per_second": 2.0,
        },
    }
)


# iperf3


def iperf_sum(start: int, mebibytes: int, **facts: Any) -> dict[str, Any]:
    """Return the sum of one second."""
    moved = mebibytes * 2**20
    return {
        "start": start, "end": start + 1, "seconds": 1.0, "bytes": moved,
        "bits_per_second": 8.0 * moved, "omitted": False, **facts,
    }  # fmt: skip


def iperf_document(**changes: Any) -> dict[str, Any]:
    """Return a test of two seconds, 100 MiB each, as iperf 3.1 writes it."""
    total = {"bytes": 200 * 2**20, "bits_per_second": 8.0 * 100 * 2**20, "seconds": 2.0}
    return {
        "start": {
            "version": "iperf 3.1",
            "timestamp": {"timesecs": 1_700_000_000},
            "connecting_to": {"host": "store"},
            "test_start": {"protocol": "TCP", "num_streams": 1, "blksize": 131_072, "reverse": 0},
        },
        "intervals": [{"sum": iperf_sum(0, 100)}, {"sum": iperf_sum(1, 100)}],
        "end": {"sum_sent": total, "sum_received": total},
        **changes,
    }


def iperf_start(**settings: Any) -> dict[str, Any]:
    """Return the start of a test with other settings."""
    start = dict(iperf_document()["start"])
    return {**start, "test_start": {**start["test_start"], **settings}}
