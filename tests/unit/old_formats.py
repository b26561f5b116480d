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
