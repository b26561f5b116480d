"""Compares the CPU time and the rate of an I/O of loadstone's block driver with its peers.

The peers are fio and elbencho, each where it is on PATH. All work on the same file, from one core:
on a disk by direct I/O ("disk") and by buffered I/O that the page cache holds ("cache"), and in
tmpfs ("memory"). A peer runs in each way that suits the case; CPU time is compared with the
way that needs least, the rate with the one that is fastest. Rounds alternate, so that a slow drift
of the machine hits all alike, and each figure is the median of its rounds; the spread of the ratio
stands beside it. CPU time is the kernel's account of the whole process with its kernel threads for
I/O, without the start-up, which is measured by runs of a single I/O (of each thread).

What they do is not the same. loadstone makes every page anew, to be checkable by itself, and keeps
a histogram of every latency; fio writes one buffer over and over and keeps histograms of its own;
elbencho fills the whole buffer before every write (its default), without sums, and keeps one
histogram of microseconds. In the cases called "same" all three write one buffer over and over.

    python bench/block_vs_peers.py [--rounds 5] [--seconds 2] [--disk DIR] [--peer elbencho]
                                   [--case disk-read-4KiB-16]
"""

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import elbencho

CORE = 1
FILE_BYTES = 512 << 20
# Where loadstone's block driver begins its data; fio leaves out what lies before.
DATA_START = 1 << 20
MARK_BYTES = 4096
CPU_GOAL, RATE_GOAL = 1.0, 0.98
# All programs run on the same core.
ON_CORE = ["taskset", "-c", str(CORE)]


@dataclass(frozen=True)
class Case:
    """The same work for all."""

    place: str
    operation: str
    block: int
    depth: int
    order: str = "uniform"
    is_same: bool = False

    @property
    def name(self) -> str:
        """What the table calls it."""
        size = f"{self.block >> 20}MiB" if self.block >= 1 << 20 else f"{self.block >> 10}KiB"
        same = "-same" if self.is_same else ""
        return f"{self.place}-{self.operation}-{size}-{self.depth}{same}"

    @property
    def is_direct(self) -> bool:
        """Whether the page cache is passed by, which would hide the disk."""
        return self.place == "disk"


CASES = tuple(
    Case(place, operation, block, depth, order)
    for place in ("disk", "cache", "memory")
    for block, order, depths in ((4096, "uniform", (1, 16, 64)), (1 << 20, "sequential", (1, 16)))
    for operation in ("read", "write")
    for depth in depths
) + tuple(
    Case(place, "write", 1 << 20, depth, "sequential", is_same=True)
    for place in ("disk", "cache", "memory")
    for depth in (1, 16)
)

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
print(json.dumps({"cpu_s": cpu_s() - before_s, "ios": summary["requests"],
                  "seconds": (times["end_ns"] - times["start_ns"]) / 1e9,
                  "failed": summary["failed"], "examples": summary["error_examples"],
                  "engine": summary["features"].get("engine")}))
"""


@dataclass(frozen=True)
class Round:
    """What one run of one program cost."""

    cpu_us: float
    per_s: float


def document(case: Case, path: Path, stop: dict[str, int], engine: str) -> str:
    """Return the trial document of a case."""
    settings = {"path": str(path), "direct": case.is_direct, "engine": engine}
    return json.dumps(
        {
            "format": 1,
            "id": "0001",
            "run": "0" * 31 + "1",
            "seed": 1,
            "phase": "bench",
            "target": {"name": "bench", "driver": "block", "settings": settings},
            "dataset": {
                "bucket_prefix": "bench",
                "buckets": 1,
                "objects": 1,
                "object_prefix": "o-",
                "size": {"kind": "fixed", "bytes": FILE_BYTES},
                "duplicate": float(case.is_same),
            },
            "mix": [{"operation": case.operation}],
            "options": {"range_bytes": case.block},
            "keys": {"order": case.order},
            "load": {"kind": "closed", "clients": case.depth},
            "stop": stop,
            "verify": 0.0,
            "cores": 1,
        }
    )


def run_trial(text: str) -> dict[str, float]:
    """Run a trial in a process of its own, on the core that all programs use."""
    ran = subprocess.run(
        [*ON_CORE, sys.executable, "-c", TRIAL_PROGRAM],
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


def run_loadstone(case: Case, path: Path, seconds: float, engine: str) -> Round:
    """Return what one round of loadstone cost."""
    told = run_trial(document(case, path, {"duration_ns": int(seconds * 1e9)}, engine))
    once = run_trial(document(case, path, {"requests": 1}, engine))
    cpu_s = told["cpu_s"] - once["cpu_s"]
    return Round(cpu_s * 1e6 / told["ios"], told["ios"] / told["seconds"])


def fio_engines(case: Case) -> dict[str, list[str]]:
    """Return the ways of fio that are worth comparing with."""
    ring = ["--ioengine=io_uring", f"--iodepth={case.depth}", "--fixedbufs", "--registerfiles"]
    ring += ["--nonvectored=1"]
    batches = [f"--iodepth_batch_submit={max(1, case.depth // 4)}"]
    batches += [f"--iodepth_batch_complete_max={case.depth}"]
    engines = {"io_uring": ring}
    if case.depth == 1:
        engines["psync"] = ["--ioengine=psync"]
    else:
        engines["io_uring-batches"] = ring + batches
    if case.depth > 1 and not case.is_direct:
        engines["psync-threads"] = ["--ioengine=psync", f"--numjobs={case.depth}", "--thread"]
    if case.depth > 1 and case.is_direct:
        engines["libaio"] = ["--ioengine=libaio", f"--iodepth={case.depth}"]
    return engines


def fio(case: Case, path: Path, engine: list[str], end: list[str]) -> tuple[float, int, float]:
    """Run fio; return its CPU seconds, I/Os and I/Os per second."""
    pattern = ("rand" if case.order == "uniform" else "") + case.operation
    command = [*ON_CORE, "fio", "--name=bench", f"--filename={path}"]
    command += [f"--offset={DATA_START}", f"--size={FILE_BYTES}", f"--bs={case.block}"]
    command += [f"--rw={pattern}", f"--direct={int(case.is_direct)}", "--norandommap"]
    command += ["--group_reporting", "--output-format=json", "--invalidate=0", *engine, *end]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if ran.returncode != 0:
        raise SystemExit(f"fio failed in {case.name}:\n{ran.stderr}{ran.stdout}")
    told = json.loads(ran.stdout[ran.stdout.index("{") :])["jobs"][0][case.operation]
    cpu_s = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return cpu_s, told["total_ios"], told["iops"]


def run_fio(case: Case, path: Path, engine: list[str], seconds: float) -> Round:
    """Return what one round of fio cost."""
    cpu_s, ios, per_s = fio(case, path, engine, ["--time_based", f"--runtime={seconds}"])
    once_s, _, _ = fio(case, path, engine, ["--number_ios=1"])
    return Round((cpu_s - once_s) * 1e6 / ios, per_s)


def elbencho_ways(case: Case) -> dict[str, list[str]]:
    """Return the ways of elbencho that are worth comparing with."""
    if case.depth == 1:
        return {"sync": ["--threads=1"]}
    return {
        "libaio": ["--threads=1", f"--iodepth={case.depth}"],
        "threads": [f"--threads={case.depth}"],
    }


def run_elbencho(case: Case, path: Path, way: list[str], seconds: float) -> Round:
    """Return what one round of elbencho cost."""
    threads = int(way[0].removeprefix("--threads="))
    # It shares out its files, laid end to end, among its threads. Named once for each of them, all
    # have the whole file; with a small part of it each, the processor's cache would answer.
    paths = [path] * threads
    options = [f"--{case.operation}", f"--block={case.block}", *way]
    options += ["--direct"] if case.is_direct else []
    options += ["--blockvarpct=0"] if case.is_same else []
    # It looks at the clock as often as it would refresh its screen.
    timed = [f"--timelimit={max(1, round(seconds))}", "--liveint=500", f"--size={FILE_BYTES}"]
    if case.order == "uniform":
        options += ["--rand", "--randalgo=fast"]
        timed += [f"--randamount={1 << 50}"]
        once = [f"--size={FILE_BYTES}", f"--randamount={threads * case.block}"]
    else:
        timed += ["--infloop"]
        once = [f"--size={case.block}"]
    with mark_kept(path):
        cpu_s, (phase,) = elbencho.run([*options, *timed], paths, ON_CORE)
        once_s, _ = elbencho.run([*options, *once], paths, ON_CORE)
    return Round((cpu_s - once_s) * 1e6 / phase.ios, phase.per_s)


@contextmanager
def mark_kept(path: Path) -> Iterator[None]:
    """Put back what elbencho overwrites: loadstone's mark, which fio leaves out."""
    with path.open("r+b", buffering=0) as file:
        mark = file.read(MARK_BYTES)
        yield
        file.seek(0)
        file.write(mark)
        os.fsync(file.fileno())


@dataclass(frozen=True)
class Peer:
    """Another program: its ways of doing a case, and how a round of one is run."""

    ways: Callable[[Case], dict[str, list[str]]]
    run: Callable[[Case, Path, list[str], float], Round]


PEERS = {
    "fio": Peer(fio_engines, run_fio),
    "elbencho": Peer(elbencho_ways, run_elbencho),
}


@dataclass(frozen=True)
class Work:
    """A case, where and how often it is measured."""

    case: Case
    path: Path
    rounds: int
    seconds: float


def measure(work: Work, peers: list[str], engine: str) -> list[dict[str, Any]]:
    """Run all in turn and return a row of the table for each peer."""
    case, path, seconds = work.case, work.path, work.seconds
    ways = {peer: PEERS[peer].ways(case) for peer in peers}
    ours: list[Round] = []
    theirs: dict[str, dict[str, list[Round]]] = {
        peer: {name: [] for name in of_peer} for peer, of_peer in ways.items()
    }
    for _ in range(work.rounds):
        ours.append(run_loadstone(case, path, seconds, engine))
        for peer, of_peer in ways.items():
            for name, options in of_peer.items():
                theirs[peer][name].append(PEERS[peer].run(case, path, options, seconds))
    return [compare(case, ours, peer, of_peer) for peer, of_peer in theirs.items()]


def compare(
    case: Case, ours: list[Round], peer: str, theirs: dict[str, list[Round]]
) -> dict[str, Any]:
    """Return a row of the table: us beside the best of a peer's ways."""
    cpu = {name: statistics.median(row.cpu_us for row in rows) for name, rows in theirs.items()}
    rate = {name: statistics.median(row.per_s for row in rows) for name, rows in theirs.items()}
    cheapest, fastest = min(cpu, key=cpu.__getitem__), max(rate, key=rate.__getitem__)
    ratios = [a.cpu_us / b.cpu_us for a, b in zip(ours, theirs[cheapest], strict=True)]
    rates = [a.per_s / b.per_s for a, b in zip(ours, theirs[fastest], strict=True)]
    return {
        "case": case.name,
        "loadstone_us": statistics.median(row.cpu_us for row in ours),
        "peer": peer,
        "peer_us": cpu[cheapest],
        "cheapest": cheapest,
        "cpu_ratio": statistics.median(ratios),
        "cpu_ratio_min": min(ratios),
        "cpu_ratio_max": max(ratios),
        "per_s": statistics.median(row.per_s for row in ours),
        "peer_per_s": rate[fastest],
        "fastest": fastest,
        "rate_ratio": statistics.median(rates),
        "rate_ratio_min": min(rates),
        "rate_ratio_max": max(rates),
        "all": {name: {"us": cpu[name], "per_s": rate[name]} for name in theirs},
    }


HEAD = (
    "| case                      | ours µs  | peer     | its µs   | its cheapest     | ratio "
    "| spread    | ours /s  | its /s   | its fastest      | ratio | spread    |\n"
    "|---------------------------|----------|----------|----------|------------------|-------"
    "|-----------|----------|----------|------------------|-------|-----------|"
)


def print_row(row: dict[str, Any]) -> None:
    """Print a line of the table."""
    print(
        f"| {row['case']:<25} | {row['loadstone_us']:>8.2f} | {row['peer']:<8} "
        f"| {row['peer_us']:>8.2f} | {row['cheapest']:<16} | {row['cpu_ratio']:>5.2f} "
        f"| {row['cpu_ratio_min']:.2f}-{row['cpu_ratio_max']:.2f} "
        f"| {row['per_s']:>8.0f} | {row['peer_per_s']:>8.0f} | {row['fastest']:<16} "
        f"| {row['rate_ratio']:>5.2f} | {row['rate_ratio_min']:.2f}-{row['rate_ratio_max']:.2f} |",
        flush=True,
    )


def print_counts(rows: list[dict[str, Any]]) -> None:
    """Say how many cases reached the goals."""
    for peer in PEERS:
        of_peer = [row for row in rows if row["peer"] == peer]
        met = [
            row
            for row in of_peer
            if row["cpu_ratio"] <= CPU_GOAL and row["rate_ratio"] >= RATE_GOAL
        ]
        if of_peer:
            print(
                f"{len(met)} of {len(of_peer)} within CPU <= {CPU_GOAL} and rate >= {RATE_GOAL} "
                f"of {peer}'s best"
            )


@contextmanager
def prepared(place: str, folder: Path | None) -> Iterator[Path]:
    """Write the file that a place's cases use."""
    with tempfile.TemporaryDirectory(dir=folder, prefix="loadstone-bench-") as where:
        path = Path(where) / "blocks"
        # By buffered I/O where that is measured: it leaves the file in the page cache.
        first = Case(place, "write", 1 << 20, 1, "sequential")
        run_trial(document(first, path, {"requests": FILE_BYTES >> 20}, "psync"))
        os.sync()
        yield path


def found_peers(wanted: list[str] | None) -> list[str]:
    """Return the peers that are here, and say which are not."""
    if shutil.which("taskset") is None:
        raise SystemExit("error: no taskset on PATH\nhint: apt-get install util-linux")
    found = [peer for peer in wanted or PEERS if shutil.which(peer)]
    for peer in wanted or PEERS:
        if peer not in found:
            print(f"no {peer} on PATH: it is left out")
    if not found:
        raise SystemExit("error: neither fio nor elbencho on PATH\nhint: apt-get install fio")
    if "elbencho" in found:
        print(f"elbencho {elbencho.version()}")
    return found


def main() -> None:
    """Measure every case that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument(
        "--disk", type=Path, help="a directory on the disk; a temporary one if absent"
    )
    parser.add_argument("--memory", type=Path, default=Path("/dev/shm"), help="one in memory")
    parser.add_argument("--engine", default="auto", help="loadstone's engine")
    parser.add_argument("--case", action="append", help="only this one; may be repeated")
    parser.add_argument("--peer", action="append", choices=PEERS, help="only this; may be repeated")
    parser.add_argument(
        "--realtime", action="store_true", help="keep other programs off the core (needs root)"
    )
    parser.add_argument("--json", type=Path, help="also write the rows here")
    options = parser.parse_args()
    if options.realtime:
        # In turns: jobs that run one after the other would each claim the whole core.
        ON_CORE.extend(("chrt", "-r", "1"))
    peers = found_peers(options.peer)
    print(HEAD)
    rows: list[dict[str, Any]] = []
    folders = {"disk": options.disk, "cache": options.disk, "memory": options.memory}
    for place, folder in folders.items():
        cases = [case for case in CASES if case.place == place]
        cases = [case for case in cases if not options.case or case.name in options.case]
        if not cases:
            continue
        with prepared(place, folder) as path:
            for case in cases:
                work = Work(case, path, options.rounds, options.seconds)
                for row in measure(work, peers, options.engine):
                    rows.append(row)
                    print_row(row)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    print_counts(rows)


if __name__ == "__main__":
    main()
