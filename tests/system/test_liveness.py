"""Every command ends, whatever its target does: within a number of its own time-outs.

Nothing here measures how quick loadstone is. A command makes so many requests one after the other,
and each may take the time-out that it was given; a busy machine gets a multiple of that.
"""

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from loadstone.cli import exit_code
from tests.conformance import targets
from tests.conformance.targets import ACCESS_KEY, PASSWORD, PROJECT, SECRET_KEY, USER
from tests.system.command import NO_STATE, settled, start
from tests.system.endless_answers import ENDLESS, OF_LOG_INS
from tests.system.hostile_server import Exchange, Message, hostile, is_object_read
from tests.system.spoilers import CASES, Case

TIMEOUT_S = 0.5
OBJECTS, THREADS, BUCKETS = 12, 4, 2
LOAD = ["-t", str(THREADS), "-n", str(OBJECTS), "-b", str(BUCKETS), "-s", "4KiB"]
LOAD += ["--object-prefix", "object-", "--timeout", f"{TIMEOUT_S}s"]

# Where each kind of target is reached, and the log-in that it asks for.
LOG_INS = {
    "s3": {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY},
    "swift": {"ST_USER": f"{PROJECT}:{USER}", "ST_KEY": PASSWORD},
    "keystone": {
        "OS_USERNAME": USER, "OS_PASSWORD": PASSWORD, "OS_PROJECT_NAME": PROJECT,
        "OS_USER_DOMAIN_NAME": "Default", "OS_PROJECT_DOMAIN_NAME": "Default",
    },
}  # fmt: skip
ADDRESSES = {"s3": "s3+{}", "swift": "swift+{}/auth/v1.0", "keystone": "swift+{}/v3"}
SERVERS = {"s3": CASES + ENDLESS, "swift": CASES + ENDLESS + OF_LOG_INS}
SERVERS["keystone"] = ENDLESS + OF_LOG_INS

# Requests that follow one another: to look at, make, mark and list a place, and to remove it; and
# those of one phase. Clean-up may take its objects one by one, and ask for each a second time.
OF_A_PLACE = 12
OF_A_PHASE = OBJECTS // THREADS
OF_A_CARD = 80
OF_A_CLEAN_UP = 2 * (OBJECTS + BUCKETS * OF_A_PLACE)
# Starting a process on a machine that does a lot besides takes some time-outs, too.
SLACK = 4

# All of its attempts wait side by side, in one process.
pytestmark = pytest.mark.xdist_group("liveness")

# Servers that every command meets: one that ends a request at once, and one that never answers.
HALF_A_HEAD, STALLED = "half a head", "stalled before the answer"
# What a command against one server costs.
CPU_S = 4


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
    kind: str
    case: Case
    folder: Path

    def __post_init__(self) -> None:
        self.is_hostile = threading.Event()
        # The request that a command is waited for, to be stopped then.
        self.awaits: Callable[[Message], bool] = is_object_read
        self.spares_until_reached = False
        self.was_reached = threading.Event()

    def spoil(self, exchange: Exchange) -> bool:
        if self.awaits(exchange.request):
            self.was_reached.set()
            if self.spares_until_reached:
                self.is_hostile.set()
        return self.is_hostile.is_set() and self.case.spoil(exchange)

    def run(self, steps: int, *arguments: str | Path, stops: bool = False) -> End:
        """Run a command of so many requests in a row; with `stops`, until the awaited request."""
        inherited = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("AWS_", "OS_", "ST_", "CEPH_"))
        }
        began = time.monotonic()
        with tempfile.TemporaryFile() as errors:
            process = start(
                *arguments,
                environment={
                    **inherited, **LOG_INS[self.kind], "NO_COLOR": "1", "XDG_STATE_HOME": NO_STATE,
                },
                out=subprocess.DEVNULL,
                err=errors.fileno(),
            )  # fmt: skip
            try:
                if stops:
                    # What is under way takes an hour, or as long as the server makes it take.
                    deadline = began + SLACK * steps * TIMEOUT_S
                    while process.poll() is None and time.monotonic() < deadline:
                        if self.was_reached.wait(0.05):
                            break
                    began = time.monotonic()
                    process.send_signal(signal.SIGINT)
                code = process.wait(SLACK * steps * TIMEOUT_S)
            except subprocess.TimeoutExpired:
                code = None
                process.kill()
                process.wait()
            errors.seek(0)
            err = errors.read().decode(errors="replace")
        if code is not None:
            code = settled(code, err)
        return End(code, err, (time.monotonic() - began) / TIMEOUT_S)


SOUND_RUNS = 4


def begin(attempt: Attempt, code: int, steps: int, *arguments: str | Path, stops: bool) -> None:
    """Run a command against the sound server, which must end with `code`.

    On a busy machine even a sound server may time out: the run then begins again in a new folder.
    """
    base = attempt.folder
    for number in range(SOUND_RUNS):
        attempt.folder = base.with_name(f"{base.name}-{number}")
        end = attempt.run(steps, *arguments, "-o", attempt.folder, stops=stops)
        if end.code == code or "no answer within the timeout" not in end.err:
            break
    assert end.code == code, end.err


def bench(attempt: Attempt, url: str) -> End:
    """All of a run, hostile from its first request."""
    attempt.is_hostile.set()
    steps = BUCKETS * OF_A_PLACE + 3 * OF_A_PHASE + OF_A_CLEAN_UP
    return attempt.run(steps, "bench", "put,get,delete", url, *LOAD, "-o", attempt.folder)


def clean_up(attempt: Attempt, url: str) -> End:
    """A run whose target turns with the first read: its load and its clean-up meet it."""
    attempt.spares_until_reached = True
    steps = BUCKETS * OF_A_PLACE + 3 * OF_A_PHASE + OF_A_CLEAN_UP
    return attempt.run(steps, "bench", "put,get,delete", url, *LOAD, "-o", attempt.folder)


def clean(attempt: Attempt, url: str) -> End:
    """The removal of data that a sound run kept."""
    steps = BUCKETS * OF_A_PLACE + OF_A_PHASE + OF_A_CLEAN_UP
    begin(attempt, 0, steps, "bench", "put", url, *LOAD, "--keep-data", stops=False)
    attempt.is_hostile.set()
    return attempt.run(steps, "clean", attempt.folder, "--yes")


def stop(attempt: Attempt, url: str) -> End:
    """Ctrl-C while requests are under way that get bad answers, or none."""
    attempt.spares_until_reached = True
    steps = BUCKETS * OF_A_PLACE + OF_A_PHASE + OF_A_CLEAN_UP
    return attempt.run(
        steps, "bench", "get", url, *LOAD, "-d", "1h", "-o", attempt.folder, stops=True
    )


def is_object_write(request: Message) -> bool:
    return request.method == "PUT" and "/object-" in request.path


def is_delete(request: Message) -> bool:
    is_bulk = request.method == "POST" and "delete" in request.path
    return request.method == "DELETE" or is_bulk


def stop_writing(attempt: Attempt, url: str) -> End:
    """Ctrl-C while objects are put."""
    attempt.spares_until_reached, attempt.awaits = True, is_object_write
    steps = BUCKETS * OF_A_PLACE + OF_A_PHASE + OF_A_CLEAN_UP
    return attempt.run(steps, "bench", "put", url, *LOAD, "-o", attempt.folder, stops=True)


def stop_cleaning_up(attempt: Attempt, url: str) -> End:
    """Ctrl-C while a run removes its objects."""
    attempt.spares_until_reached, attempt.awaits = True, is_delete
    steps = BUCKETS * OF_A_PLACE + OF_A_PHASE + OF_A_CLEAN_UP
    return attempt.run(steps, "bench", "put,get", url, *LOAD, "-o", attempt.folder, stops=True)


def stop_clean(attempt: Attempt, url: str) -> End:
    """Ctrl-C while `clean` removes data that a sound run kept."""
    steps = BUCKETS * OF_A_PLACE + OF_A_PHASE + OF_A_CLEAN_UP
    begin(attempt, 0, steps, "bench", "put", url, *LOAD, "--keep-data", stops=False)
    attempt.spares_until_reached, attempt.awaits = True, lambda request: True
    attempt.was_reached.clear()
    return attempt.run(steps, "clean", attempt.folder, "--yes", stops=True)


def card(attempt: Attempt, url: str) -> End:
    """A card, whose questions are bounded by times of their own."""
    attempt.spares_until_reached = True
    return attempt.run(OF_A_CARD, "card", url)


def stop_card(attempt: Attempt, url: str) -> End:
    """Ctrl-C while questions are asked."""
    attempt.spares_until_reached, attempt.awaits = True, lambda request: "/q" in request.path
    return attempt.run(OF_A_CARD, "card", url, stops=True)


def dry_run(attempt: Attempt, url: str) -> End:
    """A plan, which asks nothing of a target."""
    attempt.awaits = lambda request: True
    end = attempt.run(OF_A_PLACE, "bench", "put,get", url, *LOAD, "--dry-run")
    assert not attempt.was_reached.is_set(), "the target was asked"
    return end


def write_campaign(attempt: Attempt, url: str) -> Path:
    """Write a campaign whose reads take a few time-outs."""
    driver, _, address = url.partition("+")
    where = f"endpoints: [{address}]" if driver == "s3" else f"auth_url: {address}"
    campaign = attempt.folder.with_suffix(".yaml")
    campaign.write_text(
        f"name: liveness\ntargets:\n  one: {{driver: {driver}, {where}}}\n"
        f"dataset: {{objects: {OBJECTS}, buckets: {BUCKETS}, size: 4KiB, object_prefix: object-}}\n"
        f"load: {{threads: {THREADS}}}\ntimeout: {int(TIMEOUT_S * 1000)}ms\n"
        f"phases: [put, {{op: get, duration: {int(TIMEOUT_S * 4000)}ms}}]\n"
    )
    return campaign


def resume(attempt: Attempt, url: str) -> End:
    """A run that was stopped goes on against a target that has turned meanwhile."""
    steps = 2 * BUCKETS * OF_A_PLACE + 3 * OF_A_PHASE + OF_A_CLEAN_UP
    campaign = write_campaign(attempt, url)
    begin(attempt, exit_code.INTERRUPTED, steps, "run", campaign, stops=True)
    attempt.is_hostile.set()
    return attempt.run(steps + 4, "run", campaign, "-o", attempt.folder, "--resume")


def probe(attempt: Attempt, url: str) -> End:
    """A run whose probes, not its load, ask the hostile server."""
    steps = OF_A_PLACE
    address = url.partition("+")[2]
    campaign = attempt.folder.with_suffix(".yaml")
    campaign.write_text(
        'name: liveness\ntargets:\n  one: {driver: "null"}\n'
        "probes:\n  prometheus: [{every: 500ms, timeout: 500ms, metrics: ['*'], "
        f"urls: [{address}/metrics]}}]\n"
        f"dataset: {{objects: {OBJECTS}, size: 4KiB}}\nload: {{threads: {THREADS}}}\n"
        f"phases: [{{op: get, duration: {int(TIMEOUT_S * 4000)}ms}}]\n"
    )
    attempt.is_hostile.set()
    return attempt.run(steps + 4, "run", campaign, "-o", attempt.folder)


def stop_resume(attempt: Attempt, url: str) -> End:
    """Ctrl-C, twice: the second time while the resumed run asks whether its places are there."""
    steps = BUCKETS * OF_A_PLACE + OF_A_PHASE + OF_A_CLEAN_UP
    campaign = write_campaign(attempt, url)
    begin(attempt, exit_code.INTERRUPTED, steps, "run", campaign, stops=True)
    attempt.spares_until_reached, attempt.awaits = True, lambda request: True
    attempt.was_reached.clear()
    return attempt.run(steps, "run", campaign, "-o", attempt.folder, "--resume", stops=True)


STOPS = [stop, stop_writing, stop_cleaning_up, stop_clean, stop_resume, stop_card]
COMMANDS: list[Callable[[Attempt, str], End]] = [bench, clean_up, clean, resume, card, *STOPS]
FAILED, LEFT = exit_code.FAILED, exit_code.LEFT
EXIT_CODES = {
    bench: {0, FAILED, LEFT}, clean_up: {0, FAILED, LEFT}, clean: {0, FAILED, LEFT},
    resume: {0, FAILED, LEFT}, card: {0, FAILED, LEFT}, probe: {0, FAILED}, dry_run: {0},
    # A command that had come to its end, or failed, before Ctrl-C did.
    **{each: {0, FAILED, LEFT, exit_code.INTERRUPTED} for each in STOPS},
    stop: {FAILED, exit_code.INTERRUPTED},
}  # fmt: skip

Futures = dict[tuple[str, str, str], Future[End]]


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

        def attempt(
            command: Callable[[Attempt, str], End], kind: str, case: Case, number: int
        ) -> End:
            each = Attempt(port, kind, case, root / str(number))
            with hostile(port, each.spoil) as server:
                return command(each, ADDRESSES[kind].format(server.url))

        yield {
            (params["command"].__name__, params["kind"], params["case"].name): pool.submit(
                attempt, params["command"], params["kind"], params["case"], number
            )
            for number, params in enumerate(wanted)
        }
        pool.shutdown(cancel_futures=True)


def is_short(command: Callable[[Attempt, str], End], kind: str, case: Case) -> bool:
    """Tell what `make test` has: every server once, some of them by each command.

    A clean-up meets the server with its load, too. Who asks decides how often, not how an answer
    is read; the rest has its turn in CI.
    """
    if command is clean_up:
        first = {"s3": CASES + ENDLESS, "swift": OF_LOG_INS, "keystone": ()}[kind]
        return case in first or (kind == "keystone" and case.name == HALF_A_HEAD)
    if command in (probe, resume, card, dry_run, *STOPS[1:]):
        return kind == "s3" and case.name == HALF_A_HEAD
    return kind == "s3" and case.name in (HALF_A_HEAD, STALLED)


@pytest.mark.parametrize(
    ("command", "kind", "case"),
    [
        pytest.param(
            command, kind, case, id=f"{command.__name__}-{kind}-{case.name}",
            marks=() if is_short(command, kind, case) else pytest.mark.long(cpu_s=CPU_S),
        )
        for kind, cases in SERVERS.items()
        for command in (*COMMANDS, dry_run, *([probe] if kind == "s3" else []))
        for case in cases
        # A plan that asks nothing is the same before all of them.
        if command is not dry_run or case.name == "half a head"
    ],
)  # fmt: skip
def test_a_command_ends(
    command: Callable[[Attempt, str], End], kind: str, case: Case, ends: Futures
) -> None:
    end = ends[command.__name__, kind, case.name].result()
    assert end.code is not None, f"still there after {end.took:.0f} time-outs:\n{end.err}"
    assert end.code in EXIT_CODES[command], end.err
    assert "Traceback" not in end.err
    assert "panicked" not in end.err
