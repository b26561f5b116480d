"""Run folders whose truth is known, written by the formats alone, without a load generator.

`write_rounds` is two systems, two rounds of put, get (three iterations) and delete; `write_sweep`
is one system against threads. Everything comes from fixed seeds: the same folder every time.
"""

import json
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from loadstone._loadgen import Histogram

STARTED_UNIX_NS = 1_767_254_400_000_000_000  # 2026-01-01 08:00:00 UTC
SECOND_NS = 1_000_000_000
RUN_ID = "0123456789abcdef0123456789abcdef"

INTERVALS = pa.schema(
    [
        ("agent", pa.string()),
        ("stage", pa.string()),
        ("iteration", pa.int32()),
        ("operation", pa.string()),
        ("outcome", pa.string()),
        ("second", pa.int64()),
        ("requests", pa.int64()),
        ("objects", pa.int64()),
        ("bytes", pa.int64()),
        ("response", pa.binary()),
        ("service", pa.binary()),
        ("first_byte", pa.binary()),
        ("lag", pa.binary()),
    ]
)

# A column that the first builds did not write; most test runs lack it.
INTERVALS_WITH_PARTS = INTERVALS.append(pa.field("part", pa.binary())).append(
    pa.field("parts_failed", pa.int64())
)

PROBES = pa.schema(
    [
        ("time_unix_ns", pa.int64()),
        ("host", pa.string()),
        ("probe", pa.string()),
        ("subject", pa.string()),
        ("metric", pa.string()),
        ("value", pa.float64()),
    ]
)

HOST = {
    "hostname": "client-1",
    "cpu": {"model": "Example CPU 2.40 GHz", "cores": 16, "sockets": 2},
    "memory_bytes": 128 * 2**30,
    "kernel": "6.1.0",
    "nics": [{"name": "eth0", "speed_mbit_s": 10_000, "mtu": 9000}],
}


def histogram(mean_ns, count, seed, sigma=0.35):
    """An encoded histogram of so many log-normal times, whose mean is as good as exact."""
    chance = random.Random(seed)
    times = Histogram()
    # A hundred draws stand for all: the shape is what matters, and the file stays quick to make.
    draws = [chance.lognormvariate(0, sigma) for _ in range(min(count, 100))]
    counts = [count // len(draws) + (index < count % len(draws)) for index in range(len(draws))]
    scale = mean_ns * count / sum(d * n for d, n in zip(draws, counts, strict=True))
    for draw, times_seen in zip(draws, counts, strict=True):
        times.record(int(draw * scale), times_seen)
    return times.encode()


def trial(number, target, operation, **changes):
    """A trial document."""
    clients = changes.pop("clients", 250)
    size = changes.pop("size", 4096)
    document = {
        "format": 1,
        "id": f"{number:04d}",
        "run": RUN_ID,
        "seed": 1,
        "phase": operation,
        "round": 1,
        "block": 1,
        "measured": True,
        "case": {
            "target": target,
            "workload": "hummingbird-4k",
            "parameters": {"threads": clients, "size": size},
        },
        "target": {
            "name": target,
            "driver": "s3",
            "settings": {
                "endpoints": [f"http://{target}.example:7480"],
                "access_key": {"env": "AWS_ACCESS_KEY_ID"},
                "secret_key": {"env": "AWS_SECRET_ACCESS_KEY"},
            },
        },
        "dataset": {
            "bucket_prefix": "bench-ec-kb-1-",
            "buckets": 100,
            "objects": 100_000,
            "object_prefix": "bench-",
            "size": {"kind": "fixed", "bytes": size},
            "compressible": 0.0,
            "duplicate": 0.0,
            "version": 1,
        },
        "mix": [{"operation": operation, "weight": 1.0}],
        "options": {},
        "load": {"kind": "closed", "clients": clients},
        "rate_limit_per_s": None,
        "keys": {"order": "sequential", "theta": None},
        "stop": {"requests": 100_000, "duration_ns": None},
        "warm_up_ns": 0,
        "cool_down_ns": 0,
        "iterations": 1,
        "connections": "keep_alive",
        "timeout_ns": 60 * SECOND_NS,
        "on_error": {"action": "continue", "limit": None},
        "verify": 1.0,
        "allow_foreign": False,
        "cores": None,
        "log_requests": False,
    }
    return document | changes


def trial_rows(document, rate, seconds, *, failed_per_s=0, kind="throttled", wobble=0.05):
    """The interval rows of a trial: each iteration runs so many seconds at about this rate.

    The rates of the seconds swing around `rate`, and their mean is exactly `rate`.
    """
    chance = random.Random(int(document["id"].replace("-", "")) * 7919)
    clients = (document.get("load") or {}).get("clients", 1)
    mean_ns = clients / (rate + failed_per_s * 2) * SECOND_NS
    size = document["dataset"]["size"]["bytes"]
    operation = document["mix"][0]["operation"]
    payload = size if operation in ("put", "get") else 0
    rows = []
    for iteration in range(1, document["iterations"] + 1):
        halves = [round(chance.uniform(-wobble, wobble) * rate) for _ in range(seconds // 2)]
        # Every swing up has its swing down, so that the mean is exact and no second stands out.
        swings = halves + [0] * (seconds % 2) + [-swing for swing in reversed(halves)]
        for index, swing in enumerate(swings):
            second = (iteration - 1) * seconds + index
            good = rate + swing
            early = histogram(mean_ns / 2, good, seed=second + 1)
            encoded = histogram(
                mean_ns, good, seed=int(document["id"].replace("-", "")) * 1000 + second
            )
            row = {
                "agent": "client-1",
                "stage": "measure",
                "iteration": iteration,
                "operation": operation,
                "outcome": "ok",
                "second": second,
                "requests": good,
                "objects": good,
                "bytes": good * payload,
                "response": encoded,
                "service": encoded,
                "first_byte": early if operation == "get" else None,
                "lag": None,
            }
            rows.append(row)
            if failed_per_s:
                slow = histogram(2 * mean_ns, failed_per_s, seed=second)
                rows.append(
                    row
                    | {"outcome": kind, "requests": failed_per_s, "objects": 0, "bytes": 0}
                    | {"response": slow, "service": slow, "first_byte": None}
                )
    return rows


def summary(document, rows, seconds, started_unix_ns, **changes):
    """The summary that goes with the rows."""
    requests = sum(row["requests"] for row in rows)
    length_ns = seconds * SECOND_NS
    starts = [index * length_ns for index in range(document["iterations"])]
    return {
        "state": "finished",
        "reason": None,
        "started_unix_ns": started_unix_ns,
        "started_monotonic_ns": 5_000_000_000,
        "ended_unix_ns": started_unix_ns + document["iterations"] * length_ns,
        "iterations": [
            {
                "iteration": index + 1,
                "start_ns": start,
                "measure_start_ns": start,
                "measure_end_ns": start + length_ns,
                "first_done_ns": start + length_ns - SECOND_NS // 4,
                "end_ns": start + length_ns,
            }
            for index, start in enumerate(starts)
        ],
        "requests": requests,
        "failed": sum(row["requests"] for row in rows if row["outcome"] != "ok"),
        "bytes": sum(row["bytes"] for row in rows),
        "verified_bytes": 0,
        "verified_requests": 0,
        "mismatches": {},
        "connections_opened": (document.get("load") or {}).get("clients", 1),
        "bytes_sent": 0,
        "bytes_received": 0,
        "cores": 2,
        "clients": (document.get("load") or {}).get("clients", 1),
        # Ten microseconds of a processor for each request, on two threads.
        "thread_cpu_ns": [requests * 5_000, requests * 5_000],
        "thread_run_delay_ns": [0, 0],
        "lag": None,
        "hiccup": None,
        "clock": {"source": "tsc", "read_ns": 27, "step_ns": 23},
        "features": {"io_uring": False},
        "clients_requests_min": 1,
        "clients_requests_max": 1,
        "error_examples": {"throttled": "SlowDown: please reduce your request rate"},
        "buckets_created": [],
        "buckets_deleted": [],
    } | changes


def probe_rows(started_unix_ns, seconds, *, busy=0.42):
    """Probes of a host: two cores, growing memory, sockets, and a network counter."""
    rows = []

    def add(second, probe, subject, metric, value):
        time = started_unix_ns + second * SECOND_NS
        rows.append((time, "client-1", probe, subject, metric, float(value)))

    spent_ns = {"0": 0.0, "1": 0.0}
    for second in range(seconds + 1):
        swing = 0.04 * ((second * 7) % 5 - 2) / 2
        for core, share in (("0", busy + swing), ("1", busy / 2 - swing)):
            add(second, "cpu", core, "user_ns", spent_ns[core] * 0.75)
            add(second, "cpu", core, "system_ns", spent_ns[core] * 0.25)
            add(second, "cpu", core, "idle_ns", second * SECOND_NS - spent_ns[core])
            spent_ns[core] += share * SECOND_NS
        add(second, "cpu", "all", "user_ns", sum(spent_ns.values()))
        add(second, "process", "", "rss_bytes", 80 * 2**20 + second * 2**16)
        add(second, "sockets", "tcp", "in_use", 260)
        add(second, "sockets", "tcp", "time_wait", second)
        add(second, "network", "eth0", "received_bytes", second * 50_000_000)
        add(second, "network", "eth0", "sent_bytes", second * 2_000_000)
        add(second, "network", "lo", "received_bytes", 0)
    columns = zip(*rows, strict=True)
    return pa.table([list(column) for column in columns], schema=PROBES)


class Folder:
    """A run folder that trials are added to, one after another, five minutes of pause between."""

    def __init__(self, path, name, seconds):
        self.path = Path(path)
        self.name = name
        self.seconds = seconds
        self.plan = []
        self.now_ns = STARTED_UNIX_NS
        for part in ("trials", "probes"):
            (self.path / part).mkdir(parents=True, exist_ok=True)

    def add(self, document, rate, *, busy=0.42, changes=None, **rows_changes):
        """Write one trial at about this rate, with its probes."""
        rows = trial_rows(document, rate, self.seconds, **rows_changes)
        probes = probe_rows(self.now_ns, self.seconds * document["iterations"], busy=busy)
        self.write(document, rows, probes=probes, changes=changes)

    def write(self, document, rows, *, probes=None, labels=(), changes=None):
        """Write one trial from its very rows."""
        has_parts = any("part" in row for row in rows)
        schema = INTERVALS_WITH_PARTS if has_parts else INTERVALS
        table = pa.Table.from_pylist(rows, schema=schema)
        pq.write_table(table, self.path / "trials" / f"{document['id']}.parquet")
        if probes is not None:
            pq.write_table(probes, self.path / "probes" / f"{document['id']}.parquet")
        entry = {
            "trial": document,
            "summary": summary(document, rows, self.seconds, self.now_ns, **(changes or {})),
            "record_format": 1,
            "labels": list(labels),
            "absent_probes": {"pressure": "this kernel has no /proc/pressure"},
        }
        text = json.dumps(entry, indent=1)
        (self.path / "trials" / f"{document['id']}.json").write_text(text)
        self.plan.append(document)
        self.now_ns += (self.seconds * document["iterations"] + 300) * SECOND_NS

    def skip(self, document):
        """Plan a trial that never runs."""
        self.plan.append(document)

    def close(self, *, campaign, campaign_file, state="finished", **others):
        """Write the manifest, which makes the folder a run; `others` are keys of it."""
        manifest = {
            "format": 1,
            "loadstone": "0.1.0",
            "state": state,
            "name": self.name,
            "seed": 1,
            "run": RUN_ID,
            "campaign": campaign,
            "campaign_file": campaign_file,
            "plan": self.plan,
            "host": HOST,
            "started": "2026-01-01T08:00:00Z",
            "ended": "2026-01-01T10:00:00Z",
            "versions": {"loadstone": "0.1.0", "python": "3.11.9"},
            **others,
        }
        (self.path / "manifest.json").write_text(json.dumps(manifest, indent=1))
        return self.path


ROUNDS = {
    ("hummingbird", "put"): (497, 219),
    ("hummingbird", "get"): (1716, 2072),
    ("hummingbird", "delete"): (718, 738),
    ("ceph", "put"): (140, 136),
    ("ceph", "get"): (323, 283),
    ("ceph", "delete"): (121, 94),
}
"""Good requests per second of each system, operation and round: the truth of `write_rounds`."""


def write_rounds(path, seconds=20):
    """Two systems, two rounds; the gets of ceph's second round fail now and then."""
    folder = Folder(path, "hummingbird-4k", seconds)
    number = 0
    for target in ("hummingbird", "ceph"):
        for operation in ("put", "get", "delete"):
            for index, rate in enumerate(ROUNDS[target, operation]):
                number += 1
                iterations = 3 if operation == "get" else 1
                document = trial(number, target, operation, round=index + 1, iterations=iterations)
                fails = (target, operation, index) == ("ceph", "get", 1)
                folder.add(document, rate, failed_per_s=3 if fails else 0)
    return folder.close(
        campaign={"name": "hummingbird-4k", "targets": {"hummingbird": {}, "ceph": {}}},
        campaign_file=(
            "name: hummingbird-4k\nseed: 1\ntargets:\n"
            "  hummingbird: {driver: s3, endpoint: http://hummingbird.example:7480}\n"
            "  ceph: {driver: s3, endpoint: http://ceph.example:7480}\nrounds: 2\n"
        ),
    )


SWEEP = {1: 52, 4: 187, 8: 358, 12: 424, 16: 430, 20: 428}
"""Good gets per second against threads: the truth of `write_sweep`."""


def write_sweep(path, seconds=20, blocks=2, skipped=24):
    """One system read with more and more threads, in blocks; the last point is never reached."""
    folder = Folder(path, "download-4k", seconds)
    number = 0
    for block in range(1, blocks + 1):
        for threads, rate in SWEEP.items():
            number += 1
            document = trial(number, "huawei", "get", clients=threads, size=10_000_000, block=block)
            document["case"]["workload"] = "download"
            folder.add(document, rate + (block - 1) * 2, wobble=0.1)
    document = trial(number + 1, "huawei", "get", clients=skipped, size=10_000_000)
    document["case"]["workload"] = "download"
    folder.skip(document)
    return folder.close(
        campaign={"name": "download-4k", "sweep": {"threads": [*SWEEP, skipped]}},
        campaign_file="name: download-4k\nsweep: {threads: [1, 4, 8, 12, 16, 20, 24]}\n",
        state="interrupted",
    )
