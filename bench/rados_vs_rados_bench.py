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
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import trials
from ratios import Cost, Row, Table, compare, print_met

# How many objects reads choose from, written once by each program.
OBJECTS = {4096: 40_000, 4 << 20: 300}
# How many a round may write: more than it has time for, and none that was there before.
WRITTEN = {4096: 160_000, 4 << 20: 1200}
# How much longer the run is that a short one is taken off.
LONGER = 4


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


def document(
    pool: Pool, case: Case, stop: dict[str, int], name: str, operation: str, phase: str = "bench"
) -> trials.Document:
    """Return a trial document on the objects of this name."""
    dataset = {
        "bucket_prefix": f"loadstone-{name}-{case.size}",
        "objects": count_of(case.size, name),
        "size": case.size,
        "duplicate": float(case.is_same),
    }
    others = {
        "phase": phase,
        "options": {"range_bytes": case.size},
        "keys": {"order": "uniform" if case.mode == "rand" else "sequential"},
    }
    settings = {"pool": pool.name, "conf": pool.conf}
    return trials.document("rados", settings, dataset, operation, case.threads, stop, **others)


def count_of(size: int, name: str) -> int:
    """Return how many objects of this name there are at the most."""
    return WRITTEN[size] if name == "written" else OBJECTS[size]


def run_trial(document: trials.Document) -> trials.Trial:
    """Run a trial."""
    return trials.run(document, with_lag=False)


def measured_s(trial: trials.Trial) -> float:
    """Return how long a trial measured."""
    return trial.seconds("measure_start_ns", "measure_end_ns")


def run_loadstone(pool: Pool, case: Case, seconds: float) -> Cost:
    """Return what one round of loadstone cost."""
    if case.mode == "write":
        short, long = (write(pool, case, seconds * times) for times in (1, LONGER))
        return steady(short, long)
    stop = {"duration_ns": int(seconds * 1e9)}
    if case.mode == "seq":
        stop["requests"] = OBJECTS[case.size]
    told = run_trial(document(pool, case, stop, "read", "get"))
    verified = told.summary["verified_requests"]
    if verified != told.requests:
        raise SystemExit(f"only {verified} of {told.requests} reads were verified")
    once = run_trial(document(pool, case, {"requests": 1}, "read", "get"))
    cpu_s = told.cpu_s - once.cpu_s
    return Cost(cpu_s * 1e6 / told.requests, told.requests / measured_s(told))


def write(pool: Pool, case: Case, seconds: float) -> tuple[float, int, float]:
    """Have loadstone write new objects; return its CPU seconds, the requests and how long it took.

    It calls what rados bench does `write`: a block as long as the object, which is not replaced.
    """
    stop = {"duration_ns": int(seconds * 1e9), "requests": WRITTEN[case.size]}
    told = run_trial(document(pool, case, stop, "written", "write"))
    clean_up_loadstone(pool, case.size, "written")
    check_time(case, told.requests)
    return told.cpu_s, told.requests, measured_s(told)


def check_time(case: Case, requests: int) -> None:
    """Refuse a run that came to its last object before its time was over."""
    if requests >= WRITTEN[case.size]:
        raise SystemExit(f"{case.name}: all {requests} objects were written: choose less --seconds")


def steady(short: tuple[float, int, float], long: tuple[float, int, float]) -> Cost:
    """Return what a request costs, and the rate, without what both runs have in common."""
    cpu_s, requests, took_s = (b - a for a, b in zip(short, long, strict=True))
    if requests <= 0 or took_s <= 0:
        raise SystemExit(f"a run {LONGER} times as long made no more requests: {short}, {long}")
    return Cost(cpu_s * 1e6 / requests, requests / took_s)


def rados(pool: Pool, *words: str) -> tuple[float, str]:
    """Run rados; return its CPU seconds and what it printed."""
    command = ["rados", "-c", pool.conf, "-p", pool.name, *words]
    return trials.cpu_of(command, may_fail=words[0] != "bench")


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


def run_rados_bench(pool: Pool, case: Case, seconds: float) -> Cost:
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
    return Cost((cpu_s - once_s) * 1e6 / requests, requests / took_s)


def prepare(pool: Pool, size: int) -> None:
    """Write what both programs will read."""
    case = Case("write", size, 16)
    run_trial(document(pool, case, {"requests": OBJECTS[size]}, "read", "put", "prepare"))
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
    run_trial(document(pool, case, stop, name, "delete", "clean-up"))


def clean_up_rados_bench(pool: Pool, size: int, name: str) -> None:
    """Delete what the last run of rados bench with this name has written."""
    rados(pool, "cleanup", "--run-name", f"loadstone-{name}-{size}")


def measure(pool: Pool, case: Case, rounds: int, seconds: float) -> Row:
    """Run both in turn and return a row of the table."""
    ours, theirs = [], []
    for number in range(rounds):
        # Who goes first changes too.
        for is_ours in (number % 2 == 0, number % 2 != 0):
            if is_ours:
                ours.append(run_loadstone(pool, case, seconds))
            else:
                theirs.append(run_rados_bench(pool, case, seconds))
    return compare(case.name, "rados_bench", ours, theirs)


COLUMNS = (
    ("case              ", "{case:<18}"),
    ("ours µs ", "{loadstone_us:>8.1f}"),
    ("rados µs", "{rados_bench_us:>8.1f}"),
    ("ratio", "{cpu_ratio:>5.2f}"),
    ("spread   ", "{cpu_ratio_min:.2f}-{cpu_ratio_max:.2f}"),
    ("ours /s ", "{loadstone_per_s:>8.0f}"),
    ("rados /s", "{rados_bench_per_s:>8.0f}"),
    ("ratio", "{rate_ratio:>5.2f}"),
    ("spread   ", "{rate_ratio_min:.2f}-{rate_ratio_max:.2f}"),
)


@contextlib.contextmanager
def own_cluster() -> Iterator[str]:
    """Run a cluster of one OSD in memory on a core of its own; give its configuration."""
    command = [*trials.ON_SERVER_CORE, sys.executable, "-m", "tests.system.servers"]
    command += ["ceph", "--osds", "1", "--store", "memstore"]
    process = subprocess.Popen(command, cwd=trials.ROOT, stdout=subprocess.PIPE, text=True)
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
    table = Table(COLUMNS, options.json)
    with own_cluster() if options.conf is None else contextlib.nullcontext(options.conf) as conf:
        pool = Pool(conf, options.pool)
        for size in OBJECTS:
            cases = [case for case in CASES if case.size == size]
            cases = [case for case in cases if not options.case or case.name in options.case]
            if any(case.mode != "write" for case in cases):
                prepare(pool, size)
            for case in cases:
                table.add(measure(pool, case, options.rounds, options.seconds))
            if any(case.mode != "write" for case in cases):
                clean_up_loadstone(pool, size, "read")
                clean_up_rados_bench(pool, size, "read")
    print_met(table.rows, "rados bench")


if __name__ == "__main__":
    main()
