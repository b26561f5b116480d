"""Runs the compared programs on one core: a trial of loadstone in its own process, or a peer.

The CPU time of both is the kernel's account of the whole process, not of its busiest thread. They
run in turns or concurrently. In the latter case they share the core in the scheduler's slices of
milliseconds, so that other work on the host slows both equally.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

ROOT = Path(__file__).resolve().parent.parent
SERVER_CORE, CLIENT_CORE = 0, 1
ON_SERVER_CORE = ["taskset", "-c", str(SERVER_CORE)]
# The command prefix of every client, loadstone and its peers alike.
ON_CLIENT_CORE = ["taskset", "-c", str(CLIENT_CORE)]
# The keys that documents refer to, for targets that need some.
KEYS = {"BENCH_ACCESS_KEY": "bench", "BENCH_SECRET_KEY": "bench-secret"}

Document = dict[str, Any]
A = TypeVar("A")
B = TypeVar("B")


class Step(NamedTuple):
    """The requests ended by a time, and the CPU time read slightly later."""

    requests: int
    by_s: float
    cpu_s: float
    cpu_at_s: float


@dataclass(frozen=True)
class Trial:
    """The cost of a trial, and its summary."""

    cpu_s: float
    own_mib: float
    summary: Mapping[str, Any]
    # The progress after each second; empty unless it was requested, like the next fields.
    steps: Sequence[Step]
    # The median service time.
    service_p50_us: float
    # Median, p95 and p99 of the lag, and the p99 of each second.
    lag_us: Sequence[float]
    lag_p99_us: Sequence[float]
    not_sent: int

    @property
    def requests(self) -> int:
        """The number of requests."""
        return int(self.summary["requests"])

    @property
    def us(self) -> float:
        """The CPU time of a request in microseconds."""
        return self.cpu_s * 1e6 / self.requests

    def seconds(self, start: str, end: str) -> float:
        """Return the seconds between two of its times."""
        times = self.summary["iterations"][0]
        return float(times[end] - times[start]) / 1e9


def document(
    driver: str,
    settings: Document,
    dataset: Document,
    operation: str,
    clients: int,
    stop: Document,
    **others: Any,
) -> Document:
    """Return the document of a closed-load trial; `dataset` has the number and the size of
    objects.
    """
    names = {"bucket_prefix": "bench", "buckets": 1, "object_prefix": "o-"}
    size = {"kind": "fixed", "bytes": dataset["size"]}
    return {
        "format": 1,
        "id": "0001",
        "run": "0" * 31 + "1",
        "seed": 1,
        "phase": "bench",
        "target": {"name": "bench", "driver": driver, "settings": settings},
        "dataset": names | dataset | {"size": size},
        "mix": [{"operation": operation}],
        "load": {"kind": "closed", "clients": clients},
        "stop": stop,
        "cores": 1,
    } | others


def run(trial: Document, *, with_intervals: bool) -> Trial:
    """Run a trial on the client's core; fail if a request fails.

    `with_intervals` reads them during the trial, which adds to its CPU time.
    """
    ran = subprocess.run(
        [*ON_CLIENT_CORE, sys.executable, __file__, *(["--intervals"] if with_intervals else [])],
        input=json.dumps(trial),
        capture_output=True,
        text=True,
        env=os.environ | KEYS,
        check=False,
    )
    if ran.returncode != 0:
        raise SystemExit(f"loadstone failed:\n{ran.stderr}")
    fields = json.loads(ran.stdout)
    result = Trial(**fields | {"steps": [Step(*step) for step in fields["steps"]]})
    # If the host took the core at the end of an open load, requests due then are not sent.
    failed = result.summary["failed"]
    if failed > result.not_sent:
        raise SystemExit(f"{failed} requests failed: {result.summary['error_examples']}")
    return result


def cpu_of(command: Sequence[str], *, may_fail: bool = False) -> tuple[float, str]:
    """Run a program on the client's core; return its CPU seconds and its output."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen([*ON_CLIENT_CORE, *command], stdout=out, stderr=err)
        try:
            # Per process, because other programs may run and end at the same time.
            _, status, used = os.wait4(process.pid, 0)
        except BaseException:
            process.kill()
            raise
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        output = out.read()
        if process.returncode != 0 and not may_fail:
            raise SystemExit(f"{' '.join(command)} failed:\n{output}{err.read()}")
        return used.ru_utime + used.ru_stime, output


def in_rounds(
    ours: Callable[[], A], theirs: Mapping[str, Callable[[], B]], rounds: int, *, at_once: bool
) -> dict[str, list[tuple[A, B]]]:
    """Run rounds of loadstone and of each peer; return the pairs of results by the peer's name.

    With `at_once` each peer shares the core with a run of loadstone. Otherwise all take turns, and
    one run of loadstone is paired with all peers; the order changes from round to round.
    """
    pairs_of: dict[str, list[tuple[A, B]]] = {name: [] for name in theirs}
    for number in range(rounds):
        if at_once:
            pairs = {name: _at_once(ours, other) for name, other in theirs.items()}
        elif number % 2 == 0:
            result = ours()
            pairs = {name: (result, other()) for name, other in theirs.items()}
        else:
            others = {name: other() for name, other in theirs.items()}
            result = ours()
            pairs = {name: (result, other) for name, other in others.items()}
        for name, pair in pairs.items():
            pairs_of[name].append(pair)
    return pairs_of


def _at_once(ours: Callable[[], A], theirs: Callable[[], B]) -> tuple[A, B]:
    with ThreadPoolExecutor(max_workers=1) as other:
        running = other.submit(theirs)
        return ours(), running.result()


def add_at_once_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that makes `in_rounds` run two programs concurrently."""
    parser.add_argument(
        "--at-once",
        action="store_true",
        help="have two programs share the core at the same time, instead of taking turns",
    )


def example(name: str) -> str:
    """Return the path of a built example of the load generator."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return str(target / "release" / "examples" / name)


def add_place_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of benchmarks on files."""
    parser.add_argument(
        "--disk", type=Path, help="a directory on the disk; a temporary one if absent"
    )
    parser.add_argument("--memory", type=Path, default=Path("/dev/shm"), help="one in memory")
    parser.add_argument(
        "--realtime",
        action="store_true",
        help="keep other programs off the core (needs root); direct I/O on a disk goes without",
    )


@contextmanager
def on_core(*, is_claimed: bool) -> Iterator[None]:
    """Keep other programs off the client's core while a client runs, if it `is_claimed`."""
    # In turns: jobs that run one after the other would each claim the whole core.
    claim = ["chrt", "-r", "1"] if is_claimed else []
    before = list(ON_CLIENT_CORE)
    ON_CLIENT_CORE.extend(claim)
    try:
        yield
    finally:
        ON_CLIENT_CORE[:] = before


def _run_here(text: str, with_intervals: bool) -> Document:
    """Run a trial in this process and return the fields of a `Trial`."""
    from loadstone import _loadgen

    service, lag, not_sent = _loadgen.Histogram(), _loadgen.Histogram(), 0
    lag_of_seconds: dict[int, _loadgen.Histogram] = {}
    steps: list[Step] = []
    on_event = None
    if with_intervals:

        def on_event(event: Any) -> None:
            nonlocal not_sent
            if event["kind"] != "figures" or event["rows"] is None:
                return
            now = _own_cpu_s(), time.monotonic()
            rows, live = event["rows"].to_pylist(), event["live"]
            steps.append(Step(live["requests"], max(row["second"] for row in rows) + 1, *now))
            for row in rows:
                service.add(row["service"])
                not_sent += row["requests"] * (row["outcome"] == "not_sent")
                if row["lag"]:
                    lag.add(row["lag"])
                    second = lag_of_seconds.setdefault(row["second"], _loadgen.Histogram())
                    second.add(row["lag"])

    before_mib, before_s = _own_mib(), _own_cpu_s()
    summary = json.loads(_loadgen.run_trial(text, on_event))
    return {
        "cpu_s": _own_cpu_s() - before_s,
        "own_mib": _own_mib() - before_mib,
        "summary": summary,
        "steps": steps,
        "service_p50_us": service.quantile(0.5) / 1000 if service.count else 0.0,
        "lag_us": [lag.quantile(p) / 1000 for p in (0.5, 0.95, 0.99)] if lag.count else [],
        "lag_p99_us": [of_second.quantile(0.99) / 1000 for of_second in lag_of_seconds.values()],
        "not_sent": not_sent,
    }


def _own_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _own_mib() -> float:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024


if __name__ == "__main__":
    print(json.dumps(_run_here(sys.stdin.read(), with_intervals="--intervals" in sys.argv)))
