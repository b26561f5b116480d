"""Compares the CPU time and the rate of an I/O of loadstone's block driver with its peers.

The peers are fio and elbencho, each if it is on PATH. All work on the same file, from one core: on
a disk by direct I/O ("disk") and by buffered I/O from the page cache ("cache"), and in tmpfs
("memory"). A peer runs in each mode that suits the case; CPU time is compared with the mode that
needs least, the rate with the fastest one. Rounds alternate, so that slow drift of the machine
affects all equally. Each figure is the median of its rounds, shown with the spread of the ratio.
With `--at-once` two programs share the core, so that short disturbances affect both equally, too:
ratios of CPU time then differ by hundredths between rounds, and there are no rates. CPU time is the
kernel's account of the whole process with its kernel threads for I/O, without the start-up, which
is measured by runs of a single I/O (per thread).

The programs do different work. loadstone generates every page, so that it can be verified by
itself, and keeps a histogram of every latency; fio writes one buffer repeatedly and keeps its own
histograms; elbencho fills the whole buffer before every write (its default), without checksums, and
keeps one histogram in microseconds. In the cases called "same" all three write one buffer
repeatedly.

    python bench/block_vs_peers.py [--rounds 5] [--seconds 2] [--disk DIR] [--peer elbencho]
                                   [--case disk-read-4KiB-16]
"""

import argparse
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import elbencho
import trials
from ratios import Cost, Pair, Row, Table, compare_cpu, compare_rate, print_met

FILE_BYTES = 512 << 20
# The offset of the block driver's data; fio skips the bytes before it.
DATA_START = 1 << 20


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
        """The name in the table."""
        size = f"{self.block >> 20}MiB" if self.block >= 1 << 20 else f"{self.block >> 10}KiB"
        same = "-same" if self.is_same else ""
        return f"{self.place}-{self.operation}-{size}-{self.depth}{same}"

    @property
    def is_direct(self) -> bool:
        """Whether the page cache, which would hide the disk, is bypassed."""
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


def document(case: Case, path: Path, stop: dict[str, int], engine: str) -> trials.Document:
    """Return the trial document of a case."""
    settings = {"path": str(path), "direct": case.is_direct, "engine": engine}
    dataset = {"objects": 1, "size": FILE_BYTES, "duplicate": float(case.is_same)}
    others = {
        "options": {"range_bytes": case.block},
        "keys": {"order": case.order},
        "verify": 0.0,
        # elbencho overwrites the mark; fio skips it.
        "allow_foreign": True,
    }
    return trials.document("block", settings, dataset, case.operation, case.depth, stop, **others)


def run_loadstone(case: Case, path: Path, seconds: float, engine: str) -> Cost:
    """Return the cost of one round of loadstone."""
    stop = {"duration_ns": int(seconds * 1e9)}
    trial = trials.run(document(case, path, stop, engine), with_intervals=False)
    once = trials.run(document(case, path, {"requests": 1}, engine), with_intervals=False)
    cpu_s = trial.cpu_s - once.cpu_s
    per_s = trial.requests / trial.seconds("start_ns", "end_ns")
    return Cost(cpu_s * 1e6 / trial.requests, per_s)


def fio_engines(case: Case) -> dict[str, list[str]]:
    """Return the modes of fio to compare with."""
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
    command = ["fio", "--name=bench", f"--filename={path}"]
    command += [f"--offset={DATA_START}", f"--size={FILE_BYTES}", f"--bs={case.block}"]
    command += [f"--rw={pattern}", f"--direct={int(case.is_direct)}", "--norandommap"]
    command += ["--group_reporting", "--output-format=json", "--invalidate=0", *engine, *end]
    cpu_s, output = trials.cpu_of(command)
    job = json.loads(output[output.index("{") :])["jobs"][0][case.operation]
    return cpu_s, job["total_ios"], job["iops"]


def run_fio(case: Case, path: Path, engine: list[str], seconds: float) -> Cost:
    """Return the cost of one round of fio."""
    cpu_s, ios, per_s = fio(case, path, engine, ["--time_based", f"--runtime={seconds}"])
    once_s, _, _ = fio(case, path, engine, ["--number_ios=1"])
    return Cost((cpu_s - once_s) * 1e6 / ios, per_s)


def elbencho_ways(case: Case) -> dict[str, list[str]]:
    """Return the modes of elbencho to compare with."""
    if case.depth == 1:
        return {"sync": ["--threads=1"]}
    return {
        "libaio": ["--threads=1", f"--iodepth={case.depth}"],
        "threads": [f"--threads={case.depth}"],
    }


def run_elbencho(case: Case, path: Path, way: list[str], seconds: float) -> Cost:
    """Return the cost of one round of elbencho."""
    threads = int(way[0].removeprefix("--threads="))
    # elbencho divides its files among its threads. A file named once per thread gives each the
    # whole file; with a small part each, the processor's cache would serve the reads.
    paths = [path] * threads
    options = [f"--{case.operation}", f"--block={case.block}", *way]
    options += ["--direct"] if case.is_direct else []
    options += ["--blockvarpct=0"] if case.is_same else []
    # It checks the clock as often as it refreshes its screen.
    timed = [f"--timelimit={max(1, round(seconds))}", "--liveint=500", f"--size={FILE_BYTES}"]
    if case.order == "uniform":
        options += ["--rand", "--randalgo=fast"]
        timed += [f"--randamount={1 << 50}"]
        once = [f"--size={FILE_BYTES}", f"--randamount={threads * case.block}"]
    else:
        timed += ["--infloop"]
        once = [f"--size={case.block}"]
    cpu_s, (phase,) = elbencho.run([*options, *timed], paths)
    once_s, _ = elbencho.run([*options, *once], paths)
    return Cost((cpu_s - once_s) * 1e6 / phase.ios, phase.per_s)


@dataclass(frozen=True)
class Peer:
    """Another program: its modes for a case, and a function that runs a round."""

    ways: Callable[[Case], dict[str, list[str]]]
    run: Callable[[Case, Path, list[str], float], Cost]


PEERS = {
    "fio": Peer(fio_engines, run_fio),
    "elbencho": Peer(elbencho_ways, run_elbencho),
}


@dataclass(frozen=True)
class Work:
    """A case, the place and the repetitions of its measurement."""

    case: Case
    path: Path
    rounds: int
    seconds: float
    engine: str
    at_once: bool


def measure(work: Work, peers: list[str]) -> list[Row]:
    """Run all and return a row of the table for each peer."""
    ways = {peer: PEERS[peer].ways(work.case) for peer in peers}
    ours = partial(run_loadstone, work.case, work.path, work.seconds, work.engine)
    theirs = {
        f"{peer} {name}": partial(PEERS[peer].run, work.case, work.path, options, work.seconds)
        for peer, of_peer in ways.items()
        for name, options in of_peer.items()
    }
    rounds_of = trials.in_rounds(ours, theirs, work.rounds, at_once=work.at_once)
    return [
        compare(work.case, peer, {name: rounds_of[f"{peer} {name}"] for name in of_peer})
        for peer, of_peer in ways.items()
    ]


def compare(case: Case, peer: str, rounds: Mapping[str, list[Pair]]) -> Row:
    """Return a row of the table: loadstone against a peer's best modes, by the median ratios."""
    cpu = {name: compare_cpu("peer", of_way) for name, of_way in rounds.items()}
    rate = {name: compare_rate("peer", of_way) for name, of_way in rounds.items()}
    cheapest = max(cpu, key=lambda name: cpu[name]["cpu_ratio"])
    fastest = min(rate, key=lambda name: rate[name]["rate_ratio"])
    return {
        "case": case.name,
        "peer": peer,
        **cpu[cheapest],
        "cheapest": cheapest,
        **rate[fastest],
        "fastest": fastest,
        "all": {name: cpu[name] | rate[name] for name in rounds},
    }


CPU_COLUMNS = (
    ("case                     ", "{case:<25}"),
    ("ours µs ", "{loadstone_us:>8.2f}"),
    ("peer    ", "{peer:<8}"),
    ("its µs  ", "{peer_us:>8.2f}"),
    ("its cheapest    ", "{cheapest:<16}"),
    ("ratio", "{cpu_ratio:>5.2f}"),
    ("spread   ", "{cpu_ratio_min:.2f}-{cpu_ratio_max:.2f}"),
)
RATE_COLUMNS = (
    ("ours /s ", "{loadstone_per_s:>8.0f}"),
    ("its /s  ", "{peer_per_s:>8.0f}"),
    ("its fastest     ", "{fastest:<16}"),
    ("ratio", "{rate_ratio:>5.2f}"),
    ("spread   ", "{rate_ratio_min:.2f}-{rate_ratio_max:.2f}"),
)


@contextmanager
def prepared(place: str, folder: Path | None) -> Iterator[Path]:
    """Write the file that a place's cases use."""
    with tempfile.TemporaryDirectory(dir=folder, prefix="loadstone-bench-") as where:
        path = Path(where) / "blocks"
        # Written by buffered I/O where that is measured, which leaves the file in the page cache.
        first = Case(place, "write", 1 << 20, 1, "sequential")
        trials.run(
            document(first, path, {"requests": FILE_BYTES >> 20}, "psync"), with_intervals=False
        )
        os.sync()
        yield path


def installed_peers(wanted: list[str] | None) -> list[str]:
    """Return the installed peers, and print the missing ones."""
    if shutil.which("taskset") is None:
        raise SystemExit("error: no taskset on PATH\nhint: apt-get install util-linux")
    installed = [peer for peer in wanted or PEERS if shutil.which(peer)]
    for peer in wanted or PEERS:
        if peer not in installed:
            print(f"no {peer} on PATH: it is left out")
    if not installed:
        raise SystemExit("error: neither fio nor elbencho on PATH\nhint: apt-get install fio")
    if "elbencho" in installed:
        print(f"elbencho {elbencho.version()}")
    return installed


def main() -> None:
    """Measure every requested case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    trials.add_place_options(parser)
    trials.add_at_once_option(parser)
    parser.add_argument("--engine", default="auto", help="loadstone's engine")
    names = [case.name for case in CASES]
    only = "only this one; may be repeated"
    parser.add_argument("--case", action="append", choices=names, metavar="CASE", help=only)
    parser.add_argument("--peer", action="append", choices=PEERS, help="only this; may be repeated")
    parser.add_argument("--json", type=Path, help="also write the rows here")
    options = parser.parse_args()
    peers = installed_peers(options.peer)
    columns = CPU_COLUMNS if options.at_once else CPU_COLUMNS + RATE_COLUMNS
    table = Table(columns, options.json)
    folders = {"disk": options.disk, "cache": options.disk, "memory": options.memory}
    for place, folder in folders.items():
        cases = [case for case in CASES if case.place == place]
        cases = [case for case in cases if not options.case or case.name in options.case]
        if not cases:
            continue
        # File systems complete direct writes in a kernel thread on the same core. A client with a
        # higher priority would be woken for each write, which costs CPU time.
        is_claimed = options.realtime and place != "disk"
        how = (options.rounds, options.seconds, options.engine, options.at_once)
        with prepared(place, folder) as path, trials.on_core(is_claimed=is_claimed):
            for case in cases:
                for row in measure(Work(case, path, *how), peers):
                    table.add(row)
    for peer in peers:
        rows = [row for row in table.rows if row["peer"] == peer]
        print_met(rows, f"{peer}'s best", at_once=options.at_once)


if __name__ == "__main__":
    main()
