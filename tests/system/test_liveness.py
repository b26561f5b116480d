"""Every command ends, whatever its target does: within a number of its own time-outs.

Nothing here measures how quick loadstone is. A command makes so many requests one after the other,
and each may take the time-out that it was given; a busy machine gets a multiple of that.
"""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conformance import targets
from tests.conformance.targets import ACCESS_KEY, SECRET_KEY
from tests.system.command import NO_STATE
from tests.system.hostile_server import Exchange, hostile, is_object_read
from tests.system.spoilers import CASES, Case

TIMEOUT_S = 0.5
OBJECTS, THREADS, BUCKETS = 12, 4, 2
LOAD = ["-t", str(THREADS), "-n", str(OBJECTS), "-b", str(BUCKETS), "-s", "4KiB"]
LOAD += ["--object-prefix", "object-", "--timeout", f"{TIMEOUT_S}s"]

# Requests that follow one another: to look at, make, mark and list a place, and to remove it; and
# those of one phase. Clean-up may take its objects one by one, and ask for each a second time.
OF_A_PLACE = 12
OF_A_PHASE = OBJECTS // THREADS
OF_A_CLEAN_UP = 2 * (OBJECTS + BUCKETS * OF_A_PLACE)
# Starting a process on a machine that does a lot besides takes some time-outs, too.
SLACK = 4

# These take time; all others end a request at once. `make test-long` has every server.
SLOW = {
    "stalled before the answer", "stalled inside the body", "a byte at a time", "endless headers",
    "length that no memory holds", "interim answers",
}  # fmt: skip


@dataclass(frozen=True)
class End:
    """How a command ended, and after how many of its time-outs; without a code it never did."""

    code: int | None
    err: str
    took: float


@dataclass
class Attempt:
    """One command against one hostile server, which is a sound one until `is_hostile` is set."""

    store_port: int
    case: Case
    folder: Path

    def __post_init__(self) -> None:
        self.is_hostile = threading.Event()
        self.spares_until_read = False
        self.was_read = threading.Event()

    def spoil(self, exchange: Exchange) -> bool:
        if is_object_read(exchange.request):
            self.was_read.set()
            if self.spares_until_read:
                self.is_hostile.set()
        return self.is_hostile.is_set() and self.case.spoil(exchange)

    def run(self, steps: int, *arguments: str | Path, stops: bool = False) -> End:
        """Run a command of so many requests in a row; with `stops`, until the first read."""
        kept = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("AWS_", "OS_", "ST_", "CEPH_"))
        }
        secrets = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
        began = time.monotonic()
        with tempfile.TemporaryFile() as said:
            process = subprocess.Popen(
                [sys.executable, "-m", "loadstone", *map(str, arguments)],
                env={**kept, **secrets, "NO_COLOR": "1", "XDG_STATE_HOME": NO_STATE},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
            )
            try:
                if stops:
                    # An hour of load begins; whether it does is not what is looked at here.
                    self.was_read.wait(SLACK * steps * TIMEOUT_S)
                    began = time.monotonic()
                    process.send_signal(signal.SIGINT)
                code = process.wait(SLACK * steps * TIMEOUT_S)
            except subprocess.TimeoutExpired:
                code = None
                process.kill()
                process.wait()
            said.seek(0)
            err = said.read().decode(errors="replace")
        return End(code, err, (time.monotonic() - began) / TIMEOUT_S)


def bench(attempt: Attempt, url: str) -> End:
    """All of a run, hostile from its first request."""
    attempt.is_hostile.set()
    steps = BUCKETS * OF_A_PLACE + 3 * OF_A_PHASE + OF_A_CLEAN_UP
    return attempt.run(steps, "bench", "put,get,delete", url, *LOAD, "-o", attempt.folder)


def clean_up(attempt: Attempt, url: str) -> End:
    """A run whose target turns with the first read: its load and its clean-up meet it."""
    attempt.spares_until_read = True
    steps = BUCKETS * OF_A_PLACE + 3 * OF_A_PHASE + OF_A_CLEAN_UP
    return attempt.run(steps, "bench", "put,get,delete", url, *LOAD, "-o", attempt.folder)


def clean(attempt: Attempt, url: str) -> End:
    """The removal of what a sound run had kept."""
    steps = BUCKETS * OF_A_PLACE + OF_A_PHASE + OF_A_CLEAN_UP
    kept = attempt.run(steps, "bench", "put", url, *LOAD, "--keep-data", "-o", attempt.folder)
    assert kept.code == 0, kept.err
    attempt.is_hostile.set()
    return attempt.run(steps, "clean", attempt.folder, "--yes")


def stop(attempt: Attempt, url: str) -> End:
    """Ctrl-C while requests are under way that get bad answers, or none."""
    attempt.spares_until_read = True
    steps = BUCKETS * OF_A_PLACE + OF_A_PHASE + OF_A_CLEAN_UP
    return attempt.run(
        steps, "bench", "get", url, *LOAD, "-d", "1h", "-o", attempt.folder, stops=True
    )


COMMANDS: list[Callable[[Attempt, str], End]] = [bench, clean_up, clean, stop]
EXIT_CODES = {bench: {0, 1}, clean_up: {0, 1}, clean: {0, 1}, stop: {1, 130}}

Futures = dict[tuple[str, str], Future[End]]


@pytest.fixture(scope="module")
def ends(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Futures]:
    """Start all that is asked for, some at once: most of it waits."""
    wanted = [
        item.callspec.params
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.originalname == test_a_command_ends.__name__
    ]
    root = tmp_path_factory.mktemp("liveness")
    with targets.embedded_store() as url, ThreadPoolExecutor(4) as pool:
        port = int(url.rsplit(":", 1)[1])

        def attempt(command: Callable[[Attempt, str], End], case: Case, number: int) -> End:
            one = Attempt(port, case, root / str(number))
            with hostile(port, one.spoil) as server:
                return command(one, f"s3+{server.url}")

        yield {
            (params["command"].__name__, params["case"].name): pool.submit(
                attempt, params["command"], params["case"], number
            )
            for number, params in enumerate(wanted)
        }
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize(
    ("command", "case"),
    [
        pytest.param(
            command, case, id=f"{command.__name__}-{case.name}",
            marks=() if command is clean_up or case.name in SLOW else pytest.mark.long,
        )
        for command in COMMANDS
        for case in CASES
    ],
)  # fmt: skip
def test_a_command_ends(command: Callable[[Attempt, str], End], case: Case, ends: Futures) -> None:
    end = ends[command.__name__, case.name].result()
    assert end.code is not None, f"still there after {end.took:.0f} time-outs:\n{end.err}"
    assert end.code in EXIT_CODES[command], end.err
    assert "Traceback" not in end.err
    assert "panicked" not in end.err
