"""Every command ends within a number of its own timeouts, whatever its target does.

Nothing here measures loadstone's speed. A command sends a number of requests in sequence, each of
which may take the command's timeout; a busy machine gets a multiple of that.
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

# The address and the credentials of each kind of target.
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

# Sequential requests for a place (inspect, create, mark, list, remove) and those of one phase. A
# clean-up may delete objects one by one, and retry each once.
OF_A_PLACE = 12
OF_A_PHASE = OBJECTS // THREADS
OF_A_CARD = 80
OF_A_CLEAN_UP = 2 * (OBJECTS + BUCKETS * OF_A_PLACE)
# On a busy machine, starting a process may also take some timeouts.
SLACK = 4

# All attempts wait concurrently, in one process.
pytestmark = pytest.mark.xdist_group("liveness")

# Servers that every command is tested with: one closes during a response, one never responds.
HALF_A_HEAD, STALLED = "half a head", "stalled before the answer"
# CPU seconds of one command against one server.
CPU_S = 4


@dataclass(frozen=True)
class End:
    """A command's exit code, and its duration in timeouts; without a code it never ended."""

    code: int | None
    err: str
    took: float


@dataclass
class Attempt:
    """One command against one server, which is sound until `is_hostile` is set."""

    store_port: int
    kind: str
    case: Case
    folder: Path

    def __post_init__(self) -> None:
        self.is_hostile = threading.Event()
        # The request at which the command is to be stopped.
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
        """Run a command with this many sequential requests; `stops` stops it at the awaited
        request.
        """
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
                    # The running load takes an hour, or as long as the server delays it.
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
    """A whole run, hostile from its first request."""
    attempt.is_hostile.set()
    steps = BUCKETS * OF_A_PLACE + 3 * OF_A_PHASE + OF_A_CLEAN_UP
    return attempt.run(steps, "bench", "put,get,delete", url, *LOAD, "-o", attempt.folder)


def clean_up(attempt: Attempt, url: str) -> End:
    """A run whose target turns hostile at the first read, which affects its load and clean-up."""
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
    """A resumed run, whose target has turned hostile meanwhile."""
    steps = 2 * BUCKETS * OF_A_PLACE + 3 * OF_A_PHASE + OF_A_CLEAN_UP
    campaign = write_campaign(attempt, url)
    begin(attempt, exit_code.INTERRUPTED, steps, "run", campaign, stops=True)
    attempt.is_hostile.set()
    return attempt.run(steps + 4, "run", campaign, "-o", attempt.folder, "--resume")


def probe(attempt: Attempt, url: str) -> End:
    """A run whose probes, but not its load, use the hostile server."""
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
    """Two Ctrl-C, the second while the resumed run checks for its places."""
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
    # A command may have finished, or failed, before Ctrl-C.
    **{each: {0, FAILED, LEFT, exit_code.INTERRUPTED} for each in STOPS},
    stop: {FAILED, exit_code.INTERRUPTED},
}  # fmt: skip

Futures = dict[tuple[str, str, str], Future[End]]


@pytest.fixture(scope="module")
def ends(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Futures]:
    """Start all requested commands, some at once, because they mostly wait."""
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
    """Tell whether `make test` runs a case: every server once, some of them with each command.

    A clean-up uses the server during its load, too. The command determines how many requests there
    are, but not how a response is parsed; CI runs the others in rotation.
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
        # A plan sends no requests, so one server suffices.
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
