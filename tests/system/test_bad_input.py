"""Hostile targets and broken documents: counted, named and survived, never a panic or a hang."""

import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from loadstone import _loadgen
from tests.conformance import targets, trials
from tests.conformance.targets import PASSWORD, PROJECT, SECRET_KEY, USER, Place
from tests.conformance.trials import SECOND_NS, Dataset, Result
from tests.system.hostile_server import (
    Exchange,
    every,
    hostile,
    is_object_read,
    self_made_authority,
)
from tests.system.spoilers import CASES, Case

# A trial that has not ended by itself after so long hangs.
HANGS_AFTER_S = 600


@pytest.fixture(scope="module")
def store_port() -> Iterator[int]:
    """Run a sound store, in front of which the hostile servers stand."""
    with pytest.MonkeyPatch.context() as patch, targets.embedded_store() as url:
        patch.setenv(targets.S3_SECRET, SECRET_KEY)
        patch.setenv(targets.SWIFT_SECRET, PASSWORD)
        yield int(url.rsplit(":", 1)[1])


@pytest.fixture(scope="module")
def dataset(store_port: int) -> Dataset:
    """Write the objects that are read through the hostile servers."""
    made = Dataset()
    trials.prepare(s3(f"http://127.0.0.1:{store_port}"), made)
    return made


def s3(url: str, **settings: Any) -> Place:
    """Describe an S3 server at `url`, which takes the embedded store's credentials."""
    place = targets.s3_place(url, targets.ACCESS_KEY, SECRET_KEY)
    return replace(place, settings={**place.settings, **settings})


def reads(place: Place, dataset: Dataset, **changes: Any) -> dict[str, Any]:
    """Write a trial that reads every object once."""
    return trials.document(place, dataset, "get", **changes)


def run(trial: Mapping[str, Any]) -> Result:
    """Run a trial; one that hangs is stopped and fails its test."""
    control = _loadgen.Control()
    guard = threading.Timer(HANGS_AFTER_S, control.stop)
    guard.start()
    try:
        result = trials.run(trial, control)
    finally:
        guard.cancel()
    assert result.summary["state"] != "interrupted", "the trial did not end by itself"
    assert SECRET_KEY not in json.dumps(result.summary)
    assert PASSWORD not in json.dumps(result.summary)
    return result


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_misbehaviour_is_counted_as_what_it_is(
    case: Case, store_port: int, dataset: Dataset, capfd: pytest.CaptureFixture[str]
) -> None:
    """One answer in four is spoiled: those fail by their kind, the others are good."""
    with hostile(store_port, every(4, case.spoil)) as server:
        result = run(reads(s3(server.url), dataset, timeout_ns=case.timeout_ns))
    outcomes = result.outcomes()
    assert sum(outcomes.values()) == result.summary["requests"] == dataset.objects
    failures = {name: count for name, count in outcomes.items() if name != "ok"}
    assert set(failures) <= case.outcomes, result.summary["error_examples"]
    assert result.summary["failed"] == sum(failures.values())
    if "ok" not in case.outcomes:
        # A kept connection that ends before an answer may have been stale: the request is sent
        # once more, on a new one, and the record says how often that was.
        repeated = result.summary["requests_repeated"]
        assert sum(failures.values()) + repeated == dataset.objects // 4
        assert set(failures) <= set(result.summary["error_examples"])
    output = capfd.readouterr()
    assert "panicked" not in output.err
    assert SECRET_KEY not in output.out + output.err


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_target_that_is_bad_from_the_start_is_survived(
    case: Case, store_port: int, dataset: Dataset
) -> None:
    """Every answer is spoiled, those before the load too: refused clearly, or counted."""
    with hostile(store_port, case.spoil) as server:
        stop = {"requests": 8, "duration_ns": None}
        trial = reads(s3(server.url), dataset, stop=stop, timeout_ns=case.timeout_ns)
        try:
            result = run(trial)
        except _loadgen.TargetError as error:
            assert str(error)
            assert SECRET_KEY not in str(error)
        else:
            assert set(result.outcomes()) <= case.outcomes | {"ok"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_writes_survive_what_reads_survive(case: Case, store_port: int) -> None:
    """A bad answer to a write is a failed write, and never an error of the program's."""

    def spoil(exchange: Exchange) -> bool:
        is_chosen = exchange.request.method == "PUT" and "/object-" in exchange.request.path
        return is_chosen and exchange.number % 3 == 0 and case.spoil(exchange)

    written = Dataset(objects=12)
    trials.prepare(s3(f"http://127.0.0.1:{store_port}"), written)
    with hostile(store_port, spoil) as server:
        place = s3(server.url)
        result = run(trials.document(place, written, "put", timeout_ns=case.timeout_ns))
    assert sum(result.outcomes().values()) == written.objects
    assert result.summary["state"] == "finished"
    trials.clean_up(s3(f"http://127.0.0.1:{store_port}"), written)


def test_a_burst_of_refusals_in_mid_run_leaves_the_rest_good(
    store_port: int, dataset: Dataset
) -> None:
    """A store that says "slow down" for a while and then goes on costs just those requests."""

    def spoil(exchange: Exchange) -> bool:
        if is_object_read(exchange.request) and 40 <= exchange.number < 60:
            exchange.send_status("503 Slow Down")
            return True
        return False

    with hostile(store_port, spoil) as server:
        stop = {"requests": 100, "duration_ns": None}
        result = run(reads(s3(server.url), dataset, stop=stop))
    outcomes = result.outcomes()
    assert set(outcomes) == {"ok", "http_503"}
    assert outcomes["ok"] == 100 - outcomes["http_503"] >= 80


def test_a_target_that_is_not_there_is_refused_or_counted(dataset: Dataset) -> None:
    """The message or the outcome says that nothing listens."""
    with hostile(0, lambda exchange: False) as server:
        url = server.url
    try:
        outcomes = set(run(reads(s3(url), dataset)).outcomes())
    except _loadgen.TargetError as error:
        assert url.removeprefix("http://") in str(error)
    else:
        assert outcomes == {"refused"}


def test_a_target_that_dies_in_mid_run_is_counted(store_port: int, dataset: Dataset) -> None:
    """Data before it stays; later data is refused, and nothing hangs."""

    def spoil(exchange: Exchange) -> bool:
        if is_object_read(exchange.request) and exchange.number > 30:
            exchange.server.is_stopping.set()
            exchange.server.stop_listening()
            exchange.reset()
        return False

    with hostile(store_port, spoil) as server:
        stop = {"requests": 100, "duration_ns": None}
        result = run(reads(s3(server.url), dataset, stop=stop))
    outcomes = result.outcomes()
    assert sum(outcomes.values()) == 100
    assert outcomes["ok"] > 0
    assert outcomes["refused"] > 0
    assert set(outcomes) <= {"ok", "refused", "reset", "closed"}


def test_the_trial_stops_at_the_limit_of_failures(store_port: int, dataset: Dataset) -> None:
    """A broken target does not keep a campaign going that says "stop"."""
    limit = {"action": "stop", "limit": 5}
    with hostile(store_port, every(1, CASES[0].spoil)) as server:
        stop = {"requests": 10_000, "duration_ns": None}
        result = run(reads(s3(server.url), dataset, stop=stop, on_error=limit))
    assert result.summary["state"] == "stopped"
    assert result.summary["reason"]
    assert 5 < result.summary["failed"] < 100


def test_a_host_without_an_address_is_named(dataset: Dataset) -> None:
    """The name that cannot be resolved is in the message, or the outcome is the name service."""
    try:
        outcomes = set(run(reads(s3("http://no-such-host.invalid:80"), dataset)).outcomes())
    except _loadgen.TargetError as error:
        assert "no-such-host.invalid" in str(error)
    else:
        assert outcomes == {"dns"}


@pytest.mark.parametrize("url", ["ftp://127.0.0.1:80", "http://127.0.0.1:99999", "127.0.0.1", ""])
def test_an_endpoint_that_is_none_is_a_mistake_in_the_document(url: str, dataset: Dataset) -> None:
    """It is refused when planning, long before load."""
    with pytest.raises(ValueError, match="endpoint"):
        _loadgen.check(json.dumps(reads(s3(url), dataset)))


def test_an_unknown_authority_is_refused_unless_it_is_named(
    store_port: int, dataset: Dataset
) -> None:
    """TLS is checked by default; the authority's file, or leave not to check, opens the way."""
    with (
        self_made_authority() as (context, authority),
        hostile(store_port, lambda exchange: False, context) as server,
    ):
        try:
            outcomes = set(run(reads(s3(server.url), dataset)).outcomes())
        except _loadgen.TargetError as error:
            assert "certificate" in str(error).lower()
        else:
            assert outcomes == {"tls"}
        for tls in ({"ca_file": str(authority)}, {"verify": False}):
            result = run(reads(s3(server.url, tls=tls), dataset))
            assert result.outcomes() == {"ok": dataset.objects}


def test_tls_where_none_is_spoken_is_an_outcome(store_port: int, dataset: Dataset) -> None:
    """A wrong scheme in a URL is reported as such and does not hang."""
    with hostile(store_port, lambda exchange: False) as server:
        url = server.url.replace("http://", "https://")
        try:
            outcomes = set(run(reads(s3(url), dataset, timeout_ns=SECOND_NS)).outcomes())
        except _loadgen.TargetError as error:
            assert str(error)
        else:
            assert outcomes <= {"tls", "timeout", "closed"}


def test_a_token_that_expires_in_mid_run_is_renewed(store_port: int, dataset: Dataset) -> None:
    """Long runs outlive tokens: a new one is asked for, and no request is lost to it."""
    spoil = ExpiringToken(renews=True)
    with hostile(store_port, spoil) as server:
        stop = {"requests": 100, "duration_ns": None}
        result = run(reads(swift(server.url), dataset, stop=stop))
    assert result.outcomes() == {"ok": 100}
    assert spoil.logins >= 2


def test_a_token_that_cannot_be_renewed_is_an_outcome(store_port: int, dataset: Dataset) -> None:
    """When the identity service refuses, the requests fail by a kind that says so."""
    with hostile(store_port, ExpiringToken(renews=False)) as server:
        stop = {"requests": 100, "duration_ns": None}
        result = run(reads(swift(server.url), dataset, stop=stop))
    outcomes = result.outcomes()
    assert outcomes["ok"] > 0
    assert set(outcomes) <= {"ok", "auth", "http_401"}
    assert sum(outcomes.values()) == 100


class ExpiringToken:
    """Lets a token die after twenty reads."""

    def __init__(self, renews: bool) -> None:
        """Give new tokens, or refuse them."""
        self.renews = renews
        self.logins = 0
        self.reads = 0
        self.first: str | None = None

    def __call__(self, exchange: Exchange) -> bool:
        """Refuse requests with an expired first token."""
        request = exchange.request
        if request.path.startswith("/auth"):
            self.logins += 1
            if self.logins > 1 and not self.renews:
                exchange.send_status("401 Unauthorized")
                return True
            return False
        if not is_object_read(request):
            return False
        self.reads += 1
        token = request.header("x-auth-token")
        self.first = self.first or token
        if token == self.first and self.reads > 20:
            exchange.send_status("401 Unauthorized")
            return True
        return False


def swift(url: str) -> Place:
    """Describe a Swift server with TempAuth behind `url`; its buckets are those of S3."""
    settings = {"auth_url": f"{url}/auth/v1.0", "user": f"{PROJECT}:{USER}"}
    settings |= {"password": {"env": targets.SWIFT_SECRET}, "endpoints": [url]}
    return Place("swift", settings, None)


BROKEN: list[Any] = [
    None,
    True,
    -1,
    0,
    1e308,
    2**64,
    "",
    "\x00",
    "x" * 70_000,
    [],
    {},
    [{}],
    {"": 0},
]


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        yield (*path, key)
        if isinstance(inner, dict | list):
            yield from _paths(inner, (*path, key))


@pytest.mark.parametrize("driver", [row["name"] for row in _loadgen.drivers()])
def test_a_broken_document_is_refused_in_words(driver: str, dataset: Dataset) -> None:
    """Each value of a document in turn is made nonsense: a ValueError, or it did not matter."""
    place = replace(s3("http://127.0.0.1:1"), driver=driver)
    sound = trials.document(place, dataset, "get")
    for path in _paths(sound):
        for nonsense in BROKEN:
            document = json.loads(json.dumps(sound))
            place_of_it = document
            for key in path[:-1]:
                place_of_it = place_of_it[key]
            place_of_it[path[-1]] = nonsense
            try:
                _loadgen.check(json.dumps(document))
            except ValueError as error:
                assert str(error)


@pytest.mark.parametrize("text", ["", "{", "null", "[]", '"x"', "{}", "\ud800", "[" * 100_000])
def test_an_invalid_document_is_refused(text: str) -> None:
    """Invalid JSON, a value that is not an object, and deep nesting are refused."""
    with pytest.raises(ValueError):  # noqa: PT011 - any wording will do
        _loadgen.check(text)
