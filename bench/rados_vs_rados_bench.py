"""Compares the CPU time and the rate of a request of loadstone's rados driver with rados bench's.

Both are clients of the same cluster, by the same librados: by default one OSD that keeps its data
in memory, on core 0, with both clients on core 1. Rounds alternate, so that a slow drift of the
machine hits both alike; each figure is the median of its rounds, each ratio the median of the
ratios within the rounds, and the spread of the ratios stands beside it. CPU time is the kernel's
account of the whole client process, user and system, with all threads of librados, without the
start-up. For reads that is what a run of a single request takes; for writes a shorter run is taken
off a longer one, for so many buffers of 4 MiB as there are requests in flight cost more when they
are touched for the first time than the rest of the start. Only ratios are told apart from the
machine; loadstone fills every object with bytes of its own and checks every byte that it reads,
rados bench writes the same bytes with a number in front, and compares. In the cases called "same"
loadstone too writes the same bytes again and again (`duplicate: 1`).

    python bench/rados_vs_rados_bench.py [--rounds 5] [--seconds 3] [--case write-4KiB-16]
    python bench/rados_vs_rados_bench.py --conf /etc/ceph/ceph.conf --pool bench
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
CPU_GOAL, RATE_GOAL = 1.0, 0.98
SERVER_CORE, CLIENT_CORE = 0, 1
# How many objects reads choose from, written once by each program.
OBJECTS = {4096: 40_000, 4 << 20: 300}
# How many a round may write: more than it has time for, and none that was there before.
WRITTEN = {4096: 160_000, 4 << 20: 1200}
# How much longer the run is that a short one is taken off.
LONGER = 4

TRIAL_PROGRAM = """
import json, resource, sys
from loadstone import _loadgen
document = sys.stdin.read()
def cpu_s():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
before_s = cpu_s()
summary = json.loads(_loadgen.run_trial(document))
times = summary["iterations"][0]
print(json.dumps({"cpu_s": cpu_s() - before_s, "requests": summary["requests"],
                  "seconds": (times["measure_end_ns"] - times["measure_start_ns"]) / 1e9,
                  "verified": summary["verified_requests"],
                  "failed": summary["failed"], "examples": summary["error_examples"]}))
"""


@dataclass(frozen=True)
class Case:
    """One line of the table: the same work for both."""

    mode: str
    size: int
    threads: int
    is_same: bool = False

    @property
    def name(self) -> str:
        """What the table calls it."""
        size = f"{self.size >> 20}MiB" if self.size >= 1 << 20 else f"{self.size >> 10}KiB"
        return f"{self.mode}-{size}-{self.threads}{'-same' if self.is_same else ''}"


CASES = tuple(
    Case(mode, size, threads, is_same)
    for size in OBJECTS
    for mode, is_same in (("write", False), ("write", True), ("seq", False), ("rand", False))
    for threads in (1, 4, 16)
)


@dataclass(frozen=True)
class Pool:
    """Where both programs work."""

    conf: str
    name: str
    on_core: tuple[str, ...]


@dataclass(frozen=True)
class Round:
    """What one run of one program cost."""

    cpu_us: float
    per_s: float


def document(
    pool: Pool, case: Case, stop: dict[str, int], name: str, operation: str, phase: str = "bench"
) -> str:
    """Return a trial document on the objects of this name."""
    return json.dumps(
        {
            "format": 1,
            "id": "0001",
            "run": "0" * 31 + "1",
            "seed": 1,
            "phase": phase,
            "target": {
                "name": "bench",
                "driver": "rados",
                "settings": {"pool": pool.name, "conf": pool.conf},
            },
            "dataset": {
                "bucket_prefix": f"loadstone-{name}-{case.size}",
                "buckets": 1,
                "objects": count_of(case.size, name),
                "object_prefix": "o-",
                "size": {"kind": "fixed", "bytes": case.size},
                "duplicate": float(case.is_same),
            },
            "mix": [{"operation": operation}],
            "options": {"range_bytes": case.size},
            "keys": {"order": "uniform" if case.mode == "rand" else "sequential"},
            "load": {"kind": "closed", "clients": case.threads},
            "stop": stop,
            "cores": 1,
        }
    )


def count_of(size: int, name: str) -> int:
    """Return how many objects of this name there are at the most."""
    return WRITTEN[size] if name == "written" else OBJECTS[size]


def run_trial(pool: Pool, text: str) -> dict[str, float]:
    """Run a trial in a process of its own."""
    ran = subprocess.run(
        [*pool.on_core, sys.executable, "-c", TRIAL_PROGRAM],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode != 0:
        raise SystemExit(f"loadstone failed:\n{ran.stderr}")
    told: dict[str, float] = json.loads(ran.stdout)
    if told["failed"]:
        raise SystemExit(f"{told['failed']} requests failed: {told['examples']}")
    return told


def run_loadstone(pool: Pool, case: Case, seconds: float) -> Round:
    """Return what one round of loadstone cost."""
    if case.mode == "write":
        short, long = (write(pool, case, seconds * times) for times in (1, LONGER))
        return steady(short, long)
    stop = {"duration_ns": int(seconds * 1e9)}
    if case.mode == "seq":
        stop["requests"] = OBJECTS[case.size]
    told = run_trial(pool, document(pool, case, stop, "read", "get"))
    if told["verified"] != told["requests"]:
        raise SystemExit(f"only {told['verified']} of {told['requests']} reads were verified")
    once = run_trial(pool, document(pool, case, {"requests": 1}, "read", "get"))
    cpu_s = told["cpu_s"] - once["cpu_s"]
    return Round(cpu_s * 1e6 / told["requests"], told["requests"] / told["seconds"])


def write(pool: Pool, case: Case, seconds: float) -> tuple[float, int, float]:
    """Have loadstone write new objects; return its CPU seconds, the requests and how long it took.

    It calls what rados bench does `write`: a block as long as the object, which is not replaced.
    """
    stop = {"duration_ns": int(seconds * 1e9), "requests": WRITTEN[case.size]}
    told = run_trial(pool, document(pool, case, stop, "written", "write"))
    clean_up_loadstone(pool, case.size, "written")
    check_time(case, int(told["requests"]))
    return told["cpu_s"], int(told["requests"]), told["seconds"]


def check_time(case: Case, requests: int) -> None:
    """Refuse a run that came to its last object before its time was over."""
    if requests >= WRITTEN[case.size]:
        raise SystemExit(f"{case.name}: all {requests} objects were written: choose less --seconds")


def steady(short: tuple[float, int, float], long: tuple[float, int, float]) -> Round:
    """Return what a request costs, and the rate, without what both runs have in common."""
    cpu_s, requests, took_s = (b - a for a, b in zip(short, long, strict=True))
    if requests <= 0 or took_s <= 0:
        raise SystemExit(f"a run {LONGER} times as long made no more requests: {short}, {long}")
    return Round(cpu_s * 1e6 / requests, requests / took_s)


def rados(pool: Pool, *words: str) -> tuple[float, str]:
    """Run rados; return its CPU seconds and what it printed."""
    command = [*pool.on_core, "rados", "-c", pool.conf, "-p", pool.name, *words]
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        said = output.read()
    if process.returncode != 0 and words[0] == "bench":
        raise SystemExit(f"rados {' '.join(words)} failed:\n{said}")
    return used.ru_utime + used.ru_stime, said


def rados_bench(pool: Pool, case: Case, seconds: float, name: str) -> tuple[float, int, float]:
    """Run rados bench; return its CPU seconds, its requests and how long they took."""
    words = ["bench", str(max(1, round(seconds))), case.mode, "-t", str(case.threads)]
    words += ["--run-name", f"loadstone-{name}-{case.size}"]
    if case.mode == "write":
        # Without hints, which would be a second operation in each request.
        words += ["-b", str(case.size), "--no-cleanup", "--no-hints"]
        words += ["--max-objects", str(count_of(case.size, name))]
    cpu_s, said = rados(pool, *words)
    requests = re.search(r"^Total (?:writes|reads) made: +(\d+)", said, re.MULTILINE)
    took = re.search(r"^Total time run: +([\d.]+)", said, re.MULTILINE)
    if requests is None or took is None:
        raise SystemExit(f"rados bench said nothing of use:\n{said}")
    return cpu_s, int(requests[1]), float(took[1])


def run_rados_bench(pool: Pool, case: Case, seconds: float) -> Round:
    """Return what one round of rados bench cost."""
    if case.mode == "write":
        runs = []
        for times in (1, LONGER):
            runs.append(rados_bench(pool, case, seconds * times, "written"))
            clean_up_rados_bench(pool, case.size, "written")
            check_time(case, runs[-1][1])
        return steady(*runs)
    cpu_s, requests, took_s = rados_bench(pool, case, seconds, "read")
    # It connects, opens the pool and asks once.
    once_s, _ = rados(pool, "stat", "no-such-object")
    return Round((cpu_s - once_s) * 1e6 / requests, requests / took_s)


def prepare(pool: Pool, size: int) -> None:
    """Write what both programs will read."""
    case = Case("write", size, 16)
    run_trial(pool, document(pool, case, {"requests": OBJECTS[size]}, "read", "put", "prepare"))
    seconds = 5.0
    while True:
        _, requests, _ = rados_bench(pool, case, seconds, "read")
        if requests >= OBJECTS[size]:
            return
        # It had no time to write them all, and the next run gives them other names.
        clean_up_rados_bench(pool, size, "read")
        seconds *= 2


def clean_up_loadstone(pool: Pool, size: int, name: str) -> None:
    """Delete what loadstone has written."""
    case = Case("write", size, 16)
    stop = {"requests": count_of(size, name)}
    run_trial(pool, document(pool, case, stop, name, "delete", "clean-up"))


def clean_up_rados_bench(pool: Pool, size: int, name: str) -> None:
    """Delete what the last run of rados bench with this name has written."""
    rados(pool, "cleanup", "--run-name", f"loadstone-{name}-{size}")


def measure(pool: Pool, case: Case, rounds: int, seconds: float) -> dict[str, object]:
    """Run both in turn and return a row of the table."""
    ours, theirs = [], []
    for number in range(rounds):
        # Who goes first changes too.
        for is_ours in (number % 2 == 0, number % 2 != 0):
            if is_ours:
                ours.append(run_loadstone(pool, case, seconds))
            else:
                theirs.append(run_rados_bench(pool, case, seconds))
    cpu = [a.cpu_us / b.cpu_us for a, b in zip(ours, theirs, strict=True)]
    rate = [a.per_s / b.per_s for a, b in zip(ours, theirs, strict=True)]
    return {
        "case": case.name,
        "loadstone_us": statistics.median(row.cpu_us for row in ours),
        "rados_bench_us": statistics.median(row.cpu_us for row in theirs),
        "cpu_ratio": statistics.median(cpu),
        "cpu_ratio_min": min(cpu),
        "cpu_ratio_max": max(cpu),
        "loadstone_per_s": statistics.median(row.per_s for row in ours),
        "rados_bench_per_s": statistics.median(row.per_s for row in theirs),
        "rate_ratio": statistics.median(rate),
        "rate_ratio_min": min(rate),
        "rate_ratio_max": max(rate),
    }


def print_row(row: dict[str, object]) -> None:
    """Print a line of the table."""
    print(
        f"| {row['case']:<18} | {row['loadstone_us']:>8.1f} | {row['rados_bench_us']:>8.1f} "
        f"| {row['cpu_ratio']:>5.2f} | {row['cpu_ratio_min']:.2f}-{row['cpu_ratio_max']:.2f} "
        f"| {row['loadstone_per_s']:>8.0f} | {row['rados_bench_per_s']:>8.0f} "
        f"| {row['rate_ratio']:>5.2f} | {row['rate_ratio_min']:.2f}-{row['rate_ratio_max']:.2f} |",
        flush=True,
    )


@contextlib.contextmanager
def own_cluster() -> Iterator[str]:
    """Run a cluster of one OSD in memory on a core of its own; give its configuration."""
    command = ["taskset", "-c", str(SERVER_CORE), sys.executable, "-m", "tests.system.servers"]
    command += ["ceph", "--osds", "1", "--store", "memstore"]
    process = subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        text = ""
        for line in process.stdout:
            if line.startswith("ready"):
                break
            text += line
        if not text:
            raise SystemExit("error: no cluster could be started\nhint: make servers")
        yield json.loads(text)["rados"]["conf"]
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    """Measure every case that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--seconds", type=float, default=2.0, help="of a run; writes need one four times as long"
    )
    parser.add_argument("--conf", help="a cluster of yours; one of its own when absent")
    parser.add_argument("--pool", default="bench")
    parser.add_argument("--case", action="append", help="only this one; may be repeated")
    parser.add_argument("--json", type=Path, help="also write the rows here")
    options = parser.parse_args()
    for program in ("rados", "taskset"):
        if shutil.which(program) is None:
            raise SystemExit(f"error: no {program} on PATH\nhint: apt-get install ceph-common")
    print(
        "| case               | ours µs  | rados µs | ratio | spread    | ours /s  | rados /s "
        "| ratio | spread    |\n"
        "|--------------------|----------|----------|-------|-----------|----------|----------"
        "|-------|-----------|"
    )
    rows = []
    with own_cluster() if options.conf is None else contextlib.nullcontext(options.conf) as conf:
        pool = Pool(conf, options.pool, ("taskset", "-c", str(CLIENT_CORE)))
        for size in OBJECTS:
            cases = [case for case in CASES if case.size == size]
            cases = [case for case in cases if not options.case or case.name in options.case]
            if any(case.mode != "write" for case in cases):
                prepare(pool, size)
            for case in cases:
                row = measure(pool, case, options.rounds, options.seconds)
                rows.append(row)
                print_row(row)
                if options.json:
                    options.json.write_text(json.dumps(rows, indent=1) + "\n")
            if any(case.mode != "write" for case in cases):
                clean_up_loadstone(pool, size, "read")
                clean_up_rados_bench(pool, size, "read")
    met = sum(row["cpu_ratio"] <= CPU_GOAL and row["rate_ratio"] >= RATE_GOAL for row in rows)
    print(f"{met} of {len(rows)} within CPU <= {CPU_GOAL} and rate >= {RATE_GOAL} of rados bench")


if __name__ == "__main__":
    main()
