"""Compares the CPU time and the rate of a request of loadstone's rados driver with rados bench's.

Both are clients of the same cluster, by the same librados: by default one OSD that keeps its data
in memory, on core 0, with both clients on core 1. Rounds alternate, so that slow drift of the
machine affects both equally. Each figure is the median of its rounds, each ratio the median of the
ratios within the rounds, shown with their spread. With `--at-once` both share the core, so that
short disturbances affect both equally, too, and there are no rates. CPU time is the kernel's
account of the whole client process, user and system, with all threads of librados, without the
start-up. For reads the start-up is a run with a single request. For writes the first two seconds
(with 4 MiB objects, which have hundreds of requests per second, only the first) and the last,
possibly incomplete one are left out, because the first access to one 4 MiB buffer per request in
flight costs more than the rest of the start. Only ratios are independent of the machine. loadstone
fills every object with unique bytes and verifies every byte that it reads; rados bench writes the
same bytes with a number in front, and compares. In the cases called "same" loadstone, too, writes
the same bytes repeatedly (`duplicate: 1`).

    python bench/rados_vs_rados_bench.py [--rounds 5] [--seconds 2] [--case write-4KiB-16]
    python bench/rados_vs_rados_bench.py --conf /etc/ceph/ceph.conf --pool bench
"""

import argparse
import contextlib
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import trials
from ratios import Cost, Row, Table, compare, print_met
from trials import Step

# Number of objects for reads, written once by each program.
OBJECTS = {4096: 40_000, 4 << 20: 300}
# Number of objects that a round may write at most, all new; at this number it ends early.
# Concurrent programs write half of them each: an OSD in memory needs 10 MiB for an object of 4 MiB.
WRITTEN = {4096: 160_000, 4 << 20: 1600}
# Number of these that are written and deleted before the first round: the OSD's first access to
# memory may cost more than the writes, which would burden the program that writes more.
TOUCHED = {4096: 0, 4 << 20: 1600}
# For writes: seconds omitted at the start, minimum seconds of the steady part, and total duration
# for both programs.
START_S, STEADY_S, WRITES_S = {4096: 0.9, 4 << 20: 0.0}, {4096: 1.5, 4 << 20: 0.9}, 3.0


@dataclass(frozen=True)
class Case:
    """One line of the table: the same work for both."""

    mode: str
    size: int
    threads: int
    is_same: bool = False

    @property
    def name(self) -> str:
        """The name in the table."""
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
    """The pool that both programs use."""

    conf: str
    name: str
    # Number of programs that write concurrently.
    writers: int = 1


@dataclass(frozen=True)
class Work:
    """The repetitions and the mode of a case's measurement."""

    rounds: int
    seconds: float
    at_once: bool


def document(
    pool: Pool, case: Case, stop: dict[str, int], name: str, operation: str, phase: str = "bench"
) -> trials.Document:
    """Return a trial document on the objects of this name."""
    dataset = {
        "bucket_prefix": f"loadstone-{name}-{case.size}",
        "objects": count_of(pool, case.size, name),
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


def count_of(pool: Pool, size: int, name: str) -> int:
    """Return the maximum number of objects with this name."""
    counts = {"read": OBJECTS[size], "written": WRITTEN[size] // pool.writers}
    return counts.get(name, TOUCHED[size])


def run_trial(document: trials.Document) -> trials.Trial:
    """Run a trial."""
    return trials.run(document, with_intervals=False)


def measured_s(trial: trials.Trial) -> float:
    """Return the measured duration of a trial in seconds."""
    return trial.seconds("measure_start_ns", "measure_end_ns")


def run_loadstone(pool: Pool, case: Case, seconds: float) -> Cost:
    """Return the cost of one round of loadstone."""
    if case.mode == "write":
        return write(pool, case, seconds + WRITES_S)
    stop = {"duration_ns": int(seconds * 1e9)}
    if case.mode == "seq":
        stop["requests"] = OBJECTS[case.size]
    result = run_trial(document(pool, case, stop, "read", "get"))
    verified = result.summary["verified_requests"]
    if verified != result.requests:
        raise SystemExit(f"only {verified} of {result.requests} reads were verified")
    once = run_trial(document(pool, case, {"requests": 1}, "read", "get"))
    cpu_s = result.cpu_s - once.cpu_s
    return Cost(cpu_s * 1e6 / result.requests, result.requests / measured_s(result))


def write(pool: Pool, case: Case, seconds: float) -> Cost:
    """Write new objects by loadstone.

    Its operation `write` corresponds to rados bench's: a block as long as the object, which is not
    replaced.
    """
    stop = {"duration_ns": int(seconds * 1e9), "requests": count_of(pool, case.size, "written")}
    result = trials.run(document(pool, case, stop, "written", "write"), with_intervals=True)
    clean_up_loadstone(pool, case.size, "written", result.requests)
    return steady(case, result.steps)


def steady(case: Case, steps: Sequence[Step]) -> Cost:
    """Return the cost of a request, and the rate, between the start and the last step.

    The last step is excluded: its threads have ended, and with them the kernel's account of their
    CPU time. CPU time is read slightly later than the requests, so it is interpolated by its own
    times.
    """
    after = [step for step in steps[:-1] if step.by_s >= steps[0].by_s + START_S[case.size]]
    if not after or after[-1].by_s - after[0].by_s < STEADY_S[case.size]:
        raise SystemExit(f"{case.name}: it told of too little: choose more --seconds: {steps}")
    requests, by_s, cpu_s, cpu_at_s = (b - a for a, b in zip(after[0], after[-1], strict=True))
    if requests <= 0 or cpu_s <= 0:
        raise SystemExit(f"{case.name}: no more requests, or less CPU time than before: {steps}")
    per_s = requests / by_s
    return Cost(cpu_s / cpu_at_s * 1e6 / per_s, per_s)


def rados(pool: Pool, *words: str) -> tuple[float, str]:
    """Run rados; return its CPU seconds and its output."""
    command = ["rados", "-c", pool.conf, "-p", pool.name, *words]
    return trials.cpu_of(command, may_fail=words[0] != "bench")


def bench_words(pool: Pool, case: Case, seconds: float, name: str) -> list[str]:
    """Return rados bench's arguments for a case."""
    words = ["bench", str(max(1, round(seconds))), case.mode, "-t", str(case.threads)]
    words += ["--run-name", f"loadstone-{name}-{case.size}"]
    if case.mode == "write":
        # Without hints, which would add a second operation to each request.
        words += ["-b", str(case.size), "--no-cleanup", "--no-hints"]
        words += ["--max-objects", str(count_of(pool, case.size, name))]
    return words


def rados_bench(pool: Pool, case: Case, seconds: float, name: str) -> tuple[float, int, float]:
    """Run rados bench; return its CPU seconds, its requests and their duration."""
    cpu_s, output = rados(pool, *bench_words(pool, case, seconds, name))
    requests = re.search(r"^Total (?:writes|reads) made: +(\d+)", output, re.MULTILINE)
    took = re.search(r"^Total time run: +([\d.]+)", output, re.MULTILINE)
    if requests is None or took is None:
        raise SystemExit(f"rados bench said nothing of use:\n{output}")
    return cpu_s, int(requests[1]), float(took[1])


def rados_bench_steps(pool: Pool, case: Case, seconds: float) -> list[Step]:
    """Run rados bench, and read its CPU time at each second that it reports."""
    command = [*trials.ON_CLIENT_CORE, "stdbuf", "-oL", "rados", "-c", pool.conf, "-p", pool.name]
    command += bench_words(pool, case, seconds, "written")
    steps = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as bench:
        assert bench.stdout is not None
        for line in bench.stdout:
            # Second, requests in flight, begun, ended, and rates.
            match = re.match(r" +(\d+) +\d+ +\d+ +(\d+) ", line)
            if match and match[1] != "0":
                now_s = time.monotonic()
                steps.append(Step(int(match[2]), now_s, cpu_of_threads(bench.pid), now_s))
    if bench.returncode != 0 or not steps:
        raise SystemExit(f"rados bench failed with {bench.returncode}")
    if steps[-1].requests < count_of(pool, case.size, "written") and len(steps) < round(seconds):
        # It reached its last object between two seconds, and reported that only in its totals.
        steps.append(steps[-1])
    return steps


def cpu_of_threads(process: int) -> float:
    """Return the CPU seconds of all current threads of a process."""
    total_ns = 0
    for thread in Path(f"/proc/{process}/task").iterdir():
        # A thread may end meanwhile.
        with contextlib.suppress(OSError):
            total_ns += int((thread / "schedstat").read_text().split()[0])
    return total_ns / 1e9


def run_rados_bench(pool: Pool, case: Case, seconds: float) -> Cost:
    """Return the cost of one round of rados bench."""
    if case.mode == "write":
        steps = rados_bench_steps(pool, case, seconds + WRITES_S)
        clean_up_rados_bench(pool, case.size, "written")
        return steady(case, steps)
    cpu_s, requests, took_s = rados_bench(pool, case, seconds, "read")
    # It connects, opens the pool and asks once.
    once_s, _ = rados(pool, "stat", "no-such-object")
    return Cost((cpu_s - once_s) * 1e6 / requests, requests / took_s)


def touch_memory(pool: Pool, size: int) -> None:
    """Have the OSD touch the memory that the rounds will need."""
    case, requests = Case("write", size, 16), TOUCHED[size]
    if requests:
        run_trial(document(pool, case, {"requests": requests}, "touched", "write"))
        clean_up_loadstone(pool, size, "touched", requests)


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


def clean_up_loadstone(pool: Pool, size: int, name: str, requests: int) -> None:
    """Delete what loadstone has written with so many requests."""
    case = Case("write", size, 16)
    stop = {"requests": requests}
    run_trial(document(pool, case, stop, name, "delete", "clean-up"))


def clean_up_rados_bench(pool: Pool, size: int, name: str) -> None:
    """Delete what the last run of rados bench with this name has written."""
    rados(pool, "cleanup", "--run-name", f"loadstone-{name}-{size}")


def measure(pool: Pool, case: Case, work: Work) -> Row:
    """Run both and return a row of the table."""
    peer = "rados_bench"
    ours = partial(run_loadstone, pool, case, work.seconds)
    theirs = {peer: partial(run_rados_bench, pool, case, work.seconds)}
    rounds_of = trials.in_rounds(ours, theirs, work.rounds, at_once=work.at_once)
    return compare(case.name, peer, rounds_of[peer])


CPU_COLUMNS = (
    ("case              ", "{case:<18}"),
    ("ours µs ", "{loadstone_us:>8.1f}"),
    ("rados µs", "{rados_bench_us:>8.1f}"),
    ("ratio", "{cpu_ratio:>5.2f}"),
    ("spread   ", "{cpu_ratio_min:.2f}-{cpu_ratio_max:.2f}"),
)
RATE_COLUMNS = (
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
        "--seconds", type=float, default=2.0, help="of a run; writes take three more"
    )
    parser.add_argument("--conf", help="a cluster of yours; one of its own when absent")
    parser.add_argument("--pool", default="bench")
    trials.add_at_once_option(parser)
    names = [case.name for case in CASES]
    only = "only this one; may be repeated"
    parser.add_argument("--case", action="append", choices=names, metavar="CASE", help=only)
    parser.add_argument("--json", type=Path, help="also write the rows here")
    options = parser.parse_args()
    for program in ("rados", "taskset"):
        if shutil.which(program) is None:
            raise SystemExit(f"error: no {program} on PATH\nhint: apt-get install ceph-common")
    work = Work(options.rounds, options.seconds, options.at_once)
    table = Table(CPU_COLUMNS if work.at_once else CPU_COLUMNS + RATE_COLUMNS, options.json)
    with own_cluster() if options.conf is None else contextlib.nullcontext(options.conf) as conf:
        writers = 2 if work.at_once else 1
        pool = Pool(conf, options.pool, writers)
        for size in OBJECTS:
            cases = [case for case in CASES if case.size == size]
            cases = [case for case in cases if not options.case or case.name in options.case]
            writes = [case for case in cases if case.mode == "write"]
            reads = [case for case in cases if case.mode != "write"]
            if writes and options.conf is None:
                touch_memory(pool, size)
            for case in writes:
                table.add(measure(pool, case, work))
            # After the writes: an OSD in memory has no room for all objects of both.
            if reads:
                prepare(pool, size)
            for case in reads:
                table.add(measure(pool, case, work))
            if reads:
                clean_up_loadstone(pool, size, "read", OBJECTS[size])
                clean_up_rados_bench(pool, size, "read")
    print_met(table.rows, "rados bench", at_once=work.at_once)


if __name__ == "__main__":
    main()
