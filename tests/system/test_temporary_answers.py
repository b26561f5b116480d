"""Temporary errors outside the measurement are retried and do not fail a run."""

import email.utils
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from loadstone.cli import exit_code
from loadstone.execution.cleaning import what_is_left
from tests.conformance import store_under_test
from tests.conformance.store_under_test import ACCESS_KEY, PASSWORD, PROJECT, SECRET_KEY, USER
from tests.system.command import ERRORS_AS_JSON, CommandResult, loadstone, trials_of
from tests.system.hostile_server import Exchange, Message, Spoiler, hostile
from tests.system.spoilers import error_document, refuse


@pytest.fixture(scope="module")
def store_port() -> Iterator[int]:
    """Run a sound store, in front of which the others stand."""
    with store_under_test.store() as url:
        yield int(url.rsplit(":", 1)[1])


KEYS = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
TEMPAUTH = {"ST_USER": f"{PROJECT}:{USER}", "ST_KEY": PASSWORD}
KEYSTONE = {
    "OS_USERNAME": USER, "OS_PASSWORD": PASSWORD, "OS_PROJECT_NAME": PROJECT,
    "OS_USER_DOMAIN_NAME": "Default", "OS_PROJECT_DOMAIN_NAME": "Default",
}  # fmt: skip
LOAD = ("-t", "2", "-n", "40", "-s", "4KiB", "--object-prefix", "object-")

SOON = ("Retry-After", "1")
slow_down = refuse("503 Slow Down", SOON, body=error_document("SlowDown"))
aborted = refuse("409 Conflict", body=error_document("OperationAborted"))
internal = refuse("500 Internal Server Error", body=error_document("InternalError"))
rate_limited = refuse("498 Rate Limited")
unavailable = refuse("503 Service Unavailable", SOON)


def made_all_the_same(exchange: Exchange) -> bool:
    exchange.true_answer()
    return internal(exchange)


def reset(exchange: Exchange) -> bool:
    exchange.reset()
    return True


def some(matches: Callable[[Message], bool], spoil: Spoiler, *, first: int = 1) -> Spoiler:
    """Spoil the first requests that match."""
    lock, left = threading.Lock(), first

    def choose(exchange: Exchange) -> bool:
        nonlocal left
        if not matches(exchange.request):
            return False
        with lock:
            left -= 1
            is_chosen = left >= 0
        return is_chosen and spoil(exchange)

    return choose


def makes_bucket(request: Message) -> bool:
    path = request.path.removeprefix("/v1/").partition("?")[0].strip("/")
    return request.method == "PUT" and path.count("/") <= (1 if "AUTH_" in path else 0)


def writes_object(request: Message) -> bool:
    return request.method == "PUT" and "/object-" in request.path


def deletes(request: Message) -> bool:
    is_bulk = request.method == "POST" and "delete" in request.path
    return request.method == "DELETE" or is_bulk


def logs_in(request: Message) -> bool:
    return request.path.startswith(("/v3", "/auth/v1.0"))


def bench(
    store_port: int, spoil: Spoiler, run: Path, operations: str, interface: str = "s3"
) -> CommandResult:
    with hostile(store_port, spoil) as server:
        address, keys = {
            "s3": (server.url, KEYS),
            "tempauth": (f"swift+{server.url}/auth/v1.0", TEMPAUTH),
            "keystone": (f"swift+{server.url}/v3", KEYSTONE),
        }[interface]
        return loadstone(
            *ERRORS_AS_JSON, "bench", operations, address, *LOAD, "-o", run, environment=keys
        )


def retries(run: Path) -> dict[str, int]:
    """Return how often requests of a run were sent again, by what came back."""
    counts: dict[str, int] = {}
    for trial in trials_of(run):
        for kind, count in trial["summary"]["retries"].items():
            counts[kind] = counts.get(kind, 0) + count
    return counts


@pytest.mark.parametrize(
    ("spoil", "interface", "kind"),
    [
        pytest.param(some(makes_bucket, slow_down), "s3", "throttled", id="slow down"),
        pytest.param(some(makes_bucket, aborted), "s3", "http_409", id="aborted"),
        pytest.param(some(makes_bucket, made_all_the_same), "s3", "http_500", id="made"),
        pytest.param(some(makes_bucket, made_all_the_same), "tempauth", "http_500", id="made, too"),
        pytest.param(some(makes_bucket, reset, first=2), "s3", "reset", id="reset"),
        pytest.param(some(makes_bucket, rate_limited), "tempauth", "throttled", id="498"),
        pytest.param(some(logs_in, unavailable), "tempauth", "http_503", id="log-in"),
        pytest.param(some(logs_in, unavailable), "keystone", "http_503", id="Keystone"),
        pytest.param(some(deletes, slow_down, first=2), "s3", "throttled", id="clean-up"),
        pytest.param(some(deletes, unavailable, first=2), "tempauth", "http_503", id="sweep"),
    ],
)
def test_set_up_and_clean_up_go_on_after_a_temporary_answer(
    spoil: Spoiler, interface: str, kind: str, store_port: int, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    finished = bench(store_port, spoil, run, "put", interface)
    assert finished.code == 0, finished.err
    assert retries(run).keys() == {kind}
    report = loadstone("report", run, "-f", "json").json()
    (finding,) = (
        finding for finding in report["findings"] if finding["rule"] == "requests-retried"
    )
    assert [evidence["value"] for evidence in finding["evidence"]] == list(retries(run).values())


def test_filling_writes_every_object_of_a_store_that_is_short_of_something(
    store_port: int, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    finished = bench(store_port, some(writes_object, slow_down, first=4), run, "get")
    assert finished.code == 0, finished.err
    prepare, get = (trial["summary"] for trial in trials_of(run)[:2])
    assert prepare["retries"] == {"throttled": 4}
    assert prepare["failed"] == 0
    assert prepare["retries_paused_ns"] >= 4e9
    assert get["retries"] == {}
    assert get["unwritten"] == get["failed"] == 0


def test_a_measured_request_is_sent_once(store_port: int, tmp_path: Path) -> None:
    run = tmp_path / "run"
    finished = bench(store_port, some(writes_object, slow_down, first=4), run, "put")
    assert finished.code == exit_code.FAILED
    put = trials_of(run)[0]["summary"]
    assert (put["requests"], put["failed"], put["retries"]) == (40, 4, {})


def test_a_store_that_stays_unable_is_given_up(store_port: int, tmp_path: Path) -> None:
    run, counted = tmp_path / "run", list[str]()

    def spoil(exchange: Exchange) -> bool:
        counted.append(exchange.request.path)
        return internal(exchange)

    finished = bench(store_port, some(makes_bucket, spoil, first=100), run, "put")
    assert finished.code == exit_code.FAILED
    assert finished.kinds == ["target"]
    assert 2 <= len(counted) <= 10


def test_a_store_that_refuses_to_make_a_bucket_leaves_nothing_to_clean(
    store_port: int, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    denied = refuse("403 Forbidden", body=error_document("AccessDenied"))
    finished = bench(store_port, some(makes_bucket, denied, first=100), run, "put")
    assert finished.code == exit_code.FAILED
    assert what_is_left(run) == []


def test_a_bucket_that_was_made_late_is_cleaned_up(store_port: int, tmp_path: Path) -> None:
    """The creation fails, checks do not find the bucket, and later it exists."""
    run, is_shown, deleted = tmp_path / "run", threading.Event(), list[str]()

    def spoil(exchange: Exchange) -> bool:
        request = exchange.request
        if is_shown.is_set():
            if request.method == "DELETE":
                deleted.append(request.path.partition("?")[0].strip("/"))
            return False
        if makes_bucket(request):
            return made_all_the_same(exchange)
        return refuse("404 Not Found", body=error_document("NoSuchBucket"))(exchange)

    with hostile(store_port, spoil) as server:
        words = ("bench", "put", server.url, *LOAD, "-o", run)
        finished = loadstone(*ERRORS_AS_JSON, *words, environment=KEYS)
        assert finished.code == exit_code.FAILED
        [left] = what_is_left(run)
        is_shown.set()
        assert loadstone("clean", run, "--yes", environment=KEYS).code == 0
    assert left.buckets.first() in deleted


def refusing(code: str, *headers: tuple[str, str]) -> Spoiler:
    """Refuse everything with 403; only answers with a body say why."""

    def spoil(exchange: Exchange) -> bool:
        body = b"" if exchange.request.method == "HEAD" else error_document(code)
        exchange.send_status("403 Forbidden", *headers, body=body)
        return True

    return spoil


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("RequestTimeTooSkewed", "clock"),
        ("ExpiredToken", "secret-absent"),
        ("InvalidAccessKeyId", "unknown-key"),
        ("SignatureDoesNotMatch", "wrong-signature"),
        ("AccessDenied", "denied"),
    ],
)
def test_a_refusal_whose_answer_has_no_body_is_asked_again_for_its_reason(
    code: str, kind: str, store_port: int, tmp_path: Path
) -> None:
    finished = bench(store_port, refusing(code), tmp_path / "run", "put")
    assert finished.code == exit_code.FAILED
    (error,) = finished.errors
    assert error["kind"] == kind
    assert code in error["message"]
    assert error["hint"]


@pytest.mark.parametrize(("ahead_s", "words"), [(3600, "60 min"), (-90, "90 s"), (1e6, "12 days")])
def test_the_clock_difference_is_read_from_the_answer(
    ahead_s: float, words: str, store_port: int, tmp_path: Path
) -> None:
    def spoil(exchange: Exchange) -> bool:
        return refusing("RequestTimeTooSkewed", ("Date", http_date(ahead_s)))(exchange)

    (error,) = bench(store_port, spoil, tmp_path / "run", "put").errors
    assert words in error["hint"] or words.replace("90", "89") in error["hint"]


def http_date(ahead_s: float) -> str:
    return email.utils.formatdate(time.time() + ahead_s, usegmt=True)
