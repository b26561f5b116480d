"""Compares the CPU time and the rate of a small file of loadstone's file driver with elbencho's.

Both write, stat, read and delete the same number of 4 KiB files in the same number of directories
with the same number of threads on one core: in tmpfs ("memory"), and on a disk by buffered I/O
("disk"), where reads are served from the page cache. Rounds alternate, so that slow drift of the
machine affects both equally. Each figure is the median of its rounds, each ratio the median of the
ratios within the rounds, shown with their spread. CPU time is the kernel's account of the whole
process in one phase, without the start-up, which is measured by phases of a single file for each
thread. Later write-back to the disk is in neither.

Every round has its own files, and all are written before the first is deleted: for some minutes
ext4 skips recently freed inodes, one by one. For the same reason wait as long between two runs on
the same disk.

The programs do different work. loadstone generates every file's bytes with checksums, checks the
length on "head", keeps a histogram in nanoseconds, and distributes files singly, so that its
threads work in all directories; "get" only counts the bytes, as elbencho does, and "get-verified"
verifies them all. elbencho fills its buffer with random numbers before each write (its default),
gives each thread its own directory, and keeps one histogram in microseconds; "get-verified" is its
--verify, on files written for that.

    python bench/file_vs_elbencho.py [--rounds 5] [--files 10000] [--threads 16] [--disk DIR]
                                     [--place memory]
"""

import argparse
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import elbencho
import trials
from ratios import Cost, Table, compare, print_met

FILE_BYTES = 4096
PLACES = ("memory", "disk")


@dataclass(frozen=True)
class Step:
    """One operation on all files, and its name in each program."""

    name: str
    operation: str
    option: str
    verify: float = 1.0
    is_checked_by_elbencho: bool = False
    is_measured: bool = True

    @property
    def programs(self) -> list[str]:
        """The compared programs."""
        return list(PROGRAMS) if self.is_measured else ["elbencho"]


STEPS = (
    Step("put", "put", "--write"),
    Step("head", "head", "--stat"),
    Step("get", "get", "--read", verify=0.0),
    # elbencho can only verify files that it has written with --verify.
    Step("put again", "put", "--write", is_checked_by_elbencho=True, is_measured=False),
    Step("get-verified", "get", "--read", is_checked_by_elbencho=True),
    Step("delete", "delete", "--delfiles"),
)


@dataclass(frozen=True)
class Tree:
    """The files: a number per directory, with one directory per thread."""

    threads: int
    files: int

    @property
    def all_files(self) -> int:
        """The total number of files."""
        return self.threads * self.files

    @property
    def start_up(self) -> "Tree":
        """A tree that keeps every thread busy with one file."""
        return Tree(self.threads, 1)


def document(tree: Tree, step: Step, folder: Path) -> trials.Document:
    """Return the trial document of a step."""
    dataset = {
        "bucket_prefix": "d",
        "buckets": tree.threads,
        "objects": tree.all_files,
        "object_prefix": "f",
        "size": FILE_BYTES,
    }
    settings, stop = {"path": str(folder)}, {"requests": tree.all_files}
    return trials.document(
        "file", settings, dataset, step.operation, tree.threads, stop, verify=step.verify
    )


def run_loadstone(tree: Tree, step: Step, folder: Path) -> tuple[float, float]:
    """Return the CPU seconds of a step and its files per second."""
    trial = trials.run(document(tree, step, folder), with_intervals=False)
    if trial.requests != tree.all_files:
        raise SystemExit(f"loadstone: {step.name} of {trial.requests} files, not {tree.all_files}")
    return trial.cpu_s, trial.requests / trial.seconds("start_ns", "end_ns")


def elbencho_options(tree: Tree) -> list[str]:
    """Return elbencho's options for a tree."""
    return [
        f"--threads={tree.threads}",
        "--dirs=1",
        f"--files={tree.files}",
        f"--size={FILE_BYTES}",
        f"--block={FILE_BYTES}",
    ]


def run_elbencho(tree: Tree, step: Step, folder: Path) -> tuple[float, float]:
    """Return the CPU seconds of a step and its files per second."""
    options = [*elbencho_options(tree), step.option]
    options += ["--verify=1"] if step.is_checked_by_elbencho else []
    cpu_s, (phase,) = elbencho.run(options, [folder])
    if phase.entries != tree.all_files:
        raise SystemExit(f"elbencho: {step.name} of {phase.entries} files, not {tree.all_files}")
    return cpu_s, phase.per_s


PROGRAMS = {"loadstone": run_loadstone, "elbencho": run_elbencho}


@dataclass(frozen=True)
class Round:
    """A program's directory in one round, and the cost of its steps so far."""

    program: str
    many: Path
    few: Path
    costs: dict[str, Cost]


def prepared(program: str, number: int, tree: Tree, folder: Path) -> Round:
    """Make the directories of a round."""
    name = f"{program}-{number}"
    made = Round(program, folder / name, folder / f"{name}-few", {})
    for of, where in ((tree, made.many), (tree.start_up, made.few)):
        where.mkdir()
        if program == "elbencho":
            elbencho.run([*elbencho_options(of), "--mkdirs"], [where])
    return made


def measure(tree: Tree, folder: Path, rounds: int) -> list[Round]:
    """Run both programs in turn, step by step."""
    # The order of the programs changes, too.
    turns = [
        prepared(program, number, tree, folder)
        for number in range(rounds)
        for program in list(PROGRAMS)[:: 1 if number % 2 == 0 else -1]
    ]
    for step in STEPS:
        for turn in turns:
            if turn.program not in step.programs:
                continue
            run = PROGRAMS[turn.program]
            cpu_s, per_s = run(tree, step, turn.many)
            once_s, _ = run(tree.start_up, step, turn.few)
            turn.costs[step.name] = Cost((cpu_s - once_s) * 1e6 / tree.all_files, per_s)
    return turns


COLUMNS = (
    ("case                ", "{case:<20}"),
    ("ours µs ", "{loadstone_us:>8.2f}"),
    ("its µs  ", "{elbencho_us:>8.2f}"),
    ("ratio", "{cpu_ratio:>5.2f}"),
    ("spread   ", "{cpu_ratio_min:.2f}-{cpu_ratio_max:.2f}"),
    ("ours /s ", "{loadstone_per_s:>8.0f}"),
    ("its /s  ", "{elbencho_per_s:>8.0f}"),
    ("ratio", "{rate_ratio:>5.2f}"),
    ("spread   ", "{rate_ratio_min:.2f}-{rate_ratio_max:.2f}"),
)


@contextmanager
def place_folder(place: str, options: argparse.Namespace) -> Iterator[Path]:
    """Yield a new folder in a place."""
    parent = options.memory if place == "memory" else options.disk
    with (
        tempfile.TemporaryDirectory(dir=parent, prefix="loadstone-bench-") as where,
        tempfile.TemporaryDirectory() as links,
    ):
        # elbencho refuses directories below /dev, but accepts a link to one.
        link = Path(links) / place
        link.symlink_to(where)
        yield link


def main() -> None:
    """Measure both places, or the requested one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--files", type=int, default=10_000, help="in each directory")
    parser.add_argument("--threads", type=int, default=16, help="and directories")
    trials.add_place_options(parser)
    parser.add_argument("--place", action="append", choices=PLACES, help="only this one")
    parser.add_argument("--json", type=Path, help="also write the rows here")
    options = parser.parse_args()
    if shutil.which("taskset") is None:
        raise SystemExit("error: no taskset on PATH\nhint: apt-get install util-linux")
    if shutil.which("elbencho") is None:
        print("no elbencho on PATH: small files are not compared")
        return
    tree = Tree(options.threads, options.files)
    print(f"elbencho {elbencho.version()}, {tree.all_files} files, {tree.threads} threads")
    table = Table(COLUMNS, options.json)
    for place in options.place or PLACES:
        claimed = trials.on_core(is_claimed=options.realtime)
        with place_folder(place, options) as folder, claimed:
            turns = measure(tree, folder, options.rounds)
        for step in STEPS:
            if step.is_measured:
                ours, theirs = (
                    [turn.costs[step.name] for turn in turns if turn.program == program]
                    for program in PROGRAMS
                )
                rounds = list(zip(ours, theirs, strict=True))
                table.add(compare(f"{place}-{step.name}", "elbencho", rounds))
    print_met(table.rows, "elbencho", at_once=False)


if __name__ == "__main__":
    main()
