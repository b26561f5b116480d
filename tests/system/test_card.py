"""`loadstone card` on the embedded store, and on stores that hang, deny, lie or lock."""

import html
import itertools
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from loadstone.campaign.planning.plan import make_plan
from loadstone.campaign.quick import campaign_from_flags
from loadstone.card.making import NUMBERED, READY_S
from loadstone.card.questions.conditions import CREATORS
from loadstone.card.table import QUESTIONS
from loadstone.cli import exit_code
from loadstone.execution.interrupt import Interrupt
from loadstone.execution.surroundings import make_cards
from tests.conformance import store_under_test
from tests.conformance.store_under_test import ACCESS_KEY, PASSWORD, PROJECT, SECRET_KEY, USER
from tests.system import campaigns
from tests.system.command import ERRORS_AS_JSON, CommandResult, loadstone, start, trials_of
from tests.system.hostile_server import Exchange, Message, hostile, self_made_authority
from tests.system.spoilers import error_document

KEYS = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
SWIFT_KEYS = {"OS_USERNAME": USER, "OS_PASSWORD": PASSWORD, "OS_PROJECT_NAME": PROJECT}
DENIED = error_document("AccessDenied")


@pytest.fixture
def url() -> Iterator[str]:
    """Run the embedded store."""
    with store_under_test.store() as url:
        yield url


def card(url: str, *words: str, keys: Mapping[str, str] = KEYS) -> CommandResult:
    """Make a card as JSON."""
    return loadstone(*ERRORS_AS_JSON, "card", url, "-f", "json", *words, environment=keys)


def answers(result: CommandResult) -> dict[str, str]:
    """Return the answer to each question, by its name."""
    return {row["name"]: row["answer"] for row in result.json()["rows"]}


def port_of(url: str) -> int:
    """Return the port in a URL."""
    return int(url.rpartition(":")[2])


def spoiled(
    url: str, is_wanted: Callable[[Message], bool], spoil: Callable[[Exchange], None]
) -> dict[str, str]:
    """Make the card of a store that spoils its answers to some requests; return the answers."""

    def spoiler(exchange: Exchange) -> bool:
        if is_wanted(exchange.request):
            spoil(exchange)
            return True
        return False

    with hostile(port_of(url), spoiler) as server:
        finished = card(server.url)
    assert finished.code in (0, exit_code.LEFT), finished.err
    return answers(finished)


def buckets(url: str) -> list[str]:
    """Return the buckets that a store has."""
    return [bucket["Name"] for bucket in store_under_test.s3(url).list_buckets()["Buckets"]]


@pytest.mark.parametrize(
    ("path", "keys", "golden_name"),
    [("", KEYS, "embedded-s3"), ("/v3", SWIFT_KEYS, "embedded-swift")],
)
def test_the_embedded_store_has_its_card_and_nothing_is_left(
    path: str,
    keys: Mapping[str, str],
    golden_name: str,
    url: str,
    golden: Callable[[str, bytes], None],
) -> None:
    finished = card(f"{'swift+' if path else ''}{url}{path}", keys=keys)
    assert finished.code == 0, finished.err
    golden(f"cards/{golden_name}.json", golden_part_of(finished.json()))
    assert buckets(url) == []


def golden_part_of(card: dict[str, Any]) -> bytes:
    """Return the parts of a card that a golden file keeps: those that never vary."""
    rows = [
        f"{row['name']}: {row['answer']}" + (f" ({row['detail']})" if row["detail"] else "")
        for row in card["rows"]
    ]
    document = {"protocol": card["protocol"], "server": card["server"], "rows": rows}
    return (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode()


def test_a_store_that_hangs_on_one_question_answers_the_others(url: str) -> None:
    def is_wanted(request: Message) -> bool:
        return request.header("x-amz-copy-source-if-match") is not None

    answers_given = spoiled(url, is_wanted, lambda exchange: exchange.wait(60))
    undecided = [name for name, answer in answers_given.items() if answer == "undecided"]
    assert undecided == ["copy-if-match"]


def test_a_store_that_hangs_on_one_of_several_reads_answers_the_others(url: str) -> None:
    """Questions that share their requests are each asked alone when those fail."""

    def is_wanted(request: Message) -> bool:
        return request.header("range") == "bytes=-3"

    shown = spoiled(url, is_wanted, lambda exchange: exchange.wait(60))
    assert [name for name, answer in shown.items() if answer == "undecided"] == ["range-suffix"]


def test_a_race_that_does_not_end_leaves_its_question_open_and_the_next_is_asked(url: str) -> None:
    """Writers that win a race are still found out where others are not answered."""
    creators = {winners: Creators(winners) for winners in (0, 2)}
    shown = {}
    for winners, race in creators.items():
        with hostile(port_of(url), race.spoil) as server:
            finished = card(server.url)
        assert finished.code == 0, finished.err
        shown[winners] = {row["name"]: row for row in finished.json()["rows"]}
    names = [name for name, row in shown[0].items() if row["answer"] == "undecided"]
    assert names == ["one-creator-wins"]
    assert f"{CREATORS - 1} of {CREATORS}" in shown[0]["one-creator-wins"]["detail"]
    assert shown[2]["one-creator-wins"]["answer"] == "no"
    assert shown[2]["one-replacer-wins"]["answer"] == "yes"


class Creators:
    """Leave one of the racing creators without an answer, and tell `winners` that they won."""

    def __init__(self, winners: int) -> None:
        self._numbers = itertools.count()
        self._winners = winners

    def spoil(self, exchange: Exchange) -> bool:
        request = exchange.request
        if request.method != "PUT" or "/_creators/" not in request.path:
            return False
        number = next(self._numbers)
        if number == 0:
            exchange.wait(60)
        elif number <= self._winners:
            exchange.send_status("200 OK")
        else:
            return False
        return True


@pytest.mark.parametrize(
    ("header", "name"),
    [("x-amz-checksum-crc32c", "crc32c-checked"), ("content-md5", "md5-checked")],
)
def test_a_store_that_keeps_refused_objects_is_detected(header: str, name: str, url: str) -> None:
    """Only the put with this wrong checksum is blamed for the object that is there."""
    client = store_under_test.s3(url)

    def keep(exchange: Exchange) -> bool:
        request = exchange.request
        is_wanted = request.method == "PUT" and request.header(header) is not None
        if is_wanted and "-reported/" not in request.path:
            bucket, _, key = request.path.removeprefix("/").partition("/")
            client.put_object(Bucket=bucket, Key=key, Body=b"kept")
            exchange.send_status("400 Bad Request", body=error_document("BadDigest"))
            return True
        return False

    with hostile(port_of(url), keep) as server:
        shown = answers(card(server.url))
    wrong = [row.name for row in QUESTIONS["checksums"] if shown[row.name] != "yes"]
    assert wrong == [name]


def test_a_place_that_is_not_made_ready_soon_is_given_up(url: str) -> None:
    """The store has an error for the mark of the second bucket, which is retried for a while."""
    pauses: list[float] = []

    def is_wanted(request: Message) -> bool:
        return request.method == "PUT" and "-versions/.loadstone-mark" in request.path

    def fail(exchange: Exchange) -> None:
        pauses.append(0.25 * 2 ** len(pauses))
        error = error_document("InternalError")
        exchange.send_status("500 Internal Server Error", body=error)

    shown = spoiled(url, is_wanted, fail)
    undecided = [name for name, answer in shown.items() if answer == "undecided"]
    assert undecided == [row.name for row in QUESTIONS["versions"]]
    # Without the limit, the pauses before the last attempt come to 15.75 s.
    assert sum(pauses[:-1]) < 2 * READY_S
    assert buckets(url) == []


def test_a_store_that_denies_one_question_is_asked_the_others(url: str) -> None:
    def is_wanted(request: Message) -> bool:
        return request.method == "PUT" and "versioning" in request.path

    answers_given = spoiled(
        url, is_wanted, lambda exchange: exchange.send_status("403 Forbidden", body=DENIED)
    )
    refused = {ask for ask, answer in answers_given.items() if answer == "refused"}
    assert refused == {row.name for row in QUESTIONS["versions"]}


def test_a_store_that_ignores_conditions_is_detected(url: str) -> None:
    """It says 200 to a delete with another ETag, and deletes."""

    def is_wanted(request: Message) -> bool:
        return request.method == "DELETE" and request.header("if-match") is not None

    def ignore(exchange: Exchange) -> None:
        # The signature covers the condition, so that it cannot be taken out: it is not carried out.
        exchange.send_status("204 No Content")

    answers_given = spoiled(url, is_wanted, ignore)
    assert answers_given["delete-if-match-refuses"] == "no"
    assert answers_given["delete-if-match-deletes"] == "no"


@pytest.mark.parametrize(
    ("lie", "names"),
    [
        ("several_winners", {"one-creator-wins", "one-replacer-wins"}),
        ("condition_ignored", {"put-if-absent-refuses", "put-if-match-refuses"}),
        ("abort_ignored", {"abort-upload"}),
        ("lost_version", {"versions-kept", "versions-listed"}),
    ],
)
def test_each_lie_of_the_embedded_store_is_found_out(lie: str, names: set[str]) -> None:
    with store_under_test.store(faults={"lies": {lie: 1.0}}) as lying:
        shown = answers(card(lying))
    assert {name for name in names if shown[name] == "no"} == names
    assert shown["read-after-put"] == "yes"


def test_a_store_that_compares_etags_without_quotes_is_raced_without_them(url: str) -> None:
    """With quotes every writer would fail, and the card would report a race without a winner."""

    def is_wanted(request: Message) -> bool:
        condition = request.header("if-match") or ""
        return request.method == "PUT" and condition.startswith('"')

    error = error_document("PreconditionFailed")
    shown = spoiled(
        url,
        is_wanted,
        lambda exchange: exchange.send_status("412 Precondition Failed", body=error),
    )
    assert shown["put-if-match-replaces"] == "differs"
    assert shown["put-if-match-refuses"] == "yes"
    assert shown["one-replacer-wins"] == "yes"


def test_a_store_that_lists_late_is_found_out(url: str) -> None:
    """The listings of this store are empty."""
    empty = b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"

    def is_wanted(request: Message) -> bool:
        return request.method == "GET" and "list-type=2" in request.path

    answers_given = spoiled(
        url, is_wanted, lambda exchange: exchange.send_status("200 OK", body=empty)
    )
    assert answers_given["list-after-put"] == "no"
    # All written objects are removed, listed or not.
    assert buckets(url) == []


def test_a_store_that_closes_each_connection_is_found_out(url: str) -> None:
    def close(exchange: Exchange) -> None:
        answer = exchange.true_answer()
        answer.headers.append(("Connection", "close"))
        exchange.send(answer.head() + answer.body)
        exchange.close()

    answers_given = spoiled(url, lambda request: True, close)
    assert answers_given["keep-alive"] == "no"


@pytest.mark.parametrize("allowed", [(), ("GET", "HEAD")], ids=["nothing", "reading"])
def test_a_store_that_denies_all_has_a_card_of_refusals(url: str, allowed: tuple[str, ...]) -> None:
    def deny(exchange: Exchange) -> bool:
        if exchange.request.method in allowed:
            return False
        exchange.send_status("403 Forbidden", body=DENIED)
        return True

    with hostile(port_of(url), deny) as server:
        finished = card(server.url)
    assert finished.code == 0, finished.err
    shown = answers(finished)
    assert shown["read-after-put"] == "refused"
    assert shown["no-redirects"] == ("yes" if allowed else "refused")
    # A question that could not be asked says nothing about the store.
    rows = finished.json()["rows"]
    assert not any(row["means"] for row in rows if row["answer"] == "refused")


def test_rows_of_one_answer_are_one_line_unless_in_full(url: str) -> None:
    def deny(exchange: Exchange) -> bool:
        exchange.send_status("403 Forbidden", body=DENIED)
        return True

    with hostile(port_of(url), deny) as server:
        brief, full, both = (
            loadstone("card", server.url, *words, environment=KEYS).out.splitlines()
            for words in ((), ("--full",), (url,))
        )
    assert len([line for line in full if "  refused  " in line]) > len(QUESTIONS) * 5
    # One line for each subject, and one for its documented answers where there are both.
    assert len(QUESTIONS) <= len([line for line in brief if "  refused  " in line]) < 24
    assert len(both) < 40
    assert brief[-1].startswith(f"{server.url}: ")
    assert both[-1].startswith(f"2: {url}: ")


@pytest.mark.parametrize("keeps_versions", [False, True])
def test_a_bucket_of_others_keeps_what_is_theirs(url: str, keeps_versions: bool) -> None:
    """A delete in a bucket that keeps versions adds a marker: that is a write, too."""
    client = store_under_test.s3(url)
    client.create_bucket(Bucket="theirs")
    if keeps_versions:
        rule = {"Status": "Enabled"}
        client.put_bucket_versioning(Bucket="theirs", VersioningConfiguration=rule)
    client.put_object(Bucket="theirs", Key="loadstone-card", Body=b"theirs")

    def versions() -> list[dict[str, Any]]:
        listed = client.list_object_versions(Bucket="theirs")
        return [*listed["Versions"], *listed.get("DeleteMarkers", [])]

    before = versions()
    refused = card(url, "--bucket", "theirs")
    assert refused.code == exit_code.FAILED
    assert refused.kinds == ["not-ours"]
    assert versions() == before
    finished = card(url, "--bucket", "theirs", "--allow-foreign")
    assert finished.code == 0, finished.err
    assert answers(finished)["read-after-put"] == "yes"
    assert versions() == before
    assert client.list_multipart_uploads(Bucket="theirs").get("Uploads") is None
    assert buckets(url) == ["theirs"]


def test_undeleted_objects_in_a_foreign_bucket_are_reported(url: str) -> None:
    client = store_under_test.s3(url)
    client.create_bucket(Bucket="theirs")

    def keep(exchange: Exchange) -> bool:
        request = exchange.request
        if request.method == "POST" and "?delete" in request.path:
            exchange.send_status("200 OK", body=b"<DeleteResult/>")
            return True
        if request.method == "DELETE" and request.path.startswith("/theirs/"):
            exchange.send_status("204 No Content")
            return True
        return False

    with hostile(port_of(url), keep) as server:
        finished = card(server.url, "--bucket", "theirs", "--allow-foreign")
    assert finished.code == exit_code.LEFT
    assert [line for line in finished.err.splitlines() if '"theirs"' in line]
    assert client.list_objects_v2(Bucket="theirs")["KeyCount"] > 30


def test_a_bucket_that_could_not_be_made_ready_and_stays_is_told(url: str) -> None:
    def spoil(exchange: Exchange) -> bool:
        is_listing = exchange.request.method == "GET" and "list-type=2" in exchange.request.path
        if is_listing:
            exchange.send_status("200 OK", body=b"no listing")
        return is_listing

    with hostile(port_of(url), spoil) as server:
        finished = card(server.url)
    assert finished.code == exit_code.FAILED
    (left,) = buckets(url)
    assert [line for line in finished.err.splitlines() if f'"{left}"' in line]


def test_a_store_that_ignores_prefixes_loses_nothing_of_others(url: str) -> None:
    client = store_under_test.s3(url)
    client.create_bucket(Bucket="theirs")
    client.put_object(Bucket="theirs", Key="precious", Body=b"theirs")
    lie = b"<ListBucketResult><Contents><Key>precious</Key></Contents></ListBucketResult>"

    def spoil(exchange: Exchange) -> bool:
        request = exchange.request
        if request.method == "GET" and "list-type=2" in request.path and "card" in request.path:
            exchange.send_status("200 OK", body=lie)
            return True
        return False

    with hostile(port_of(url), spoil) as server:
        card(server.url, "--bucket", "theirs", "--allow-foreign")
    assert client.get_object(Bucket="theirs", Key="precious")["Body"].read() == b"theirs"


def test_a_bucket_that_locks_objects_is_not_written_into(url: str) -> None:
    store_under_test.s3(url).create_bucket(Bucket="locked")
    rule = b"<ObjectLockConfiguration><Rule><DefaultRetention/></Rule></ObjectLockConfiguration>"
    writes = []

    def spoil(exchange: Exchange) -> bool:
        if exchange.request.method in ("PUT", "POST"):
            writes.append(exchange.request.path)
        if "object-lock" in exchange.request.path:
            exchange.send_status("200 OK", body=rule)
            return True
        return False

    with hostile(port_of(url), spoil) as server:
        finished = card(server.url, "--bucket", "locked", "--allow-foreign")
    assert finished.code == exit_code.FAILED
    assert writes == []


@pytest.mark.parametrize("has_mark", [True, False])
def test_buckets_of_a_killed_card_are_removed_by_the_next_card(
    has_mark: bool, url: str, tmp_path: Path
) -> None:
    """A bucket that has lost the card's mark is not changed."""
    client = store_under_test.s3(url)
    keys = {**KEYS, "XDG_STATE_HOME": str(tmp_path)}
    is_reached, is_killed = threading.Event(), threading.Event()

    def hang(exchange: Exchange) -> bool:
        if is_killed.is_set() or "uploadId" not in exchange.request.path:
            return False
        is_reached.set()
        exchange.wait(60)
        return True

    with hostile(port_of(url), hang) as server:
        process = start("card", server.url, environment={**os.environ, **keys})
        assert is_reached.wait(60)
        process.kill()
        process.wait()
        is_killed.set()
        objects = min(buckets(url), key=len)
        if not has_mark:
            client.delete_object(Bucket=objects, Key=".loadstone-mark")
        before = client.list_objects_v2(Bucket=objects)["Contents"]
        finished = card(server.url, keys=keys)
    assert finished.code == 0, finished.err
    assert buckets(url) == ([] if has_mark else [objects])
    if not has_mark:
        assert client.list_objects_v2(Bucket=objects)["Contents"] == before


def test_a_run_keeps_the_card_of_its_target_and_a_comparison_names_what_differs(
    url: str, tmp_path: Path
) -> None:
    def ignore(exchange: Exchange) -> bool:
        is_wanted = exchange.request.header("x-amz-copy-source-if-match") is not None
        if is_wanted:
            exchange.send_status("200 OK", body=b"<CopyObjectResult/>")
        return is_wanted

    bench = ("bench", "put", "-n", "20", "-t", "2", "--card")
    honest, lax = tmp_path / "honest", tmp_path / "lax"
    assert loadstone(*bench, url, "-o", honest, environment=KEYS).code == 0
    with hostile(port_of(url), ignore) as server:
        assert loadstone(*bench, server.url, "-o", lax, environment=KEYS).code == 0
    assert buckets(url) == []
    cards = [
        loadstone("report", folder, "-f", "json").json()["cards"]["s3"] for folder in (honest, lax)
    ]
    assert [row["name"] for row in cards[0]["rows"]] == [row["name"] for row in cards[1]["rows"]]
    compared = loadstone("compare", honest, lax, "-f", "json", "--insist").json()
    differing = {kind["name"]: (kind["a"], kind["b"]) for kind in compared["kinds"]}
    assert differing["copy-if-match"] == ("yes", "no")


def test_a_run_whose_target_cannot_be_asked_goes_on_without_a_card(
    url: str, tmp_path: Path
) -> None:
    def fail(exchange: Exchange) -> bool:
        is_wanted = "/loadstone-card-" in exchange.request.path
        if is_wanted:
            exchange.send_status("400 Bad Request", body=b"")
        return is_wanted

    bench = ("bench", "put", "-n", "20", "-t", "2", "--card", "-o", tmp_path / "run")
    with hostile(port_of(url), fail) as server:
        finished = loadstone(*bench, server.url, environment=KEYS)
    assert finished.code == exit_code.FAILED
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert list(manifest["cards_failed"]) == ["s3"]
    assert manifest["state"] == "failed"
    assert len(trials_of(tmp_path / "run")) == 2


@pytest.mark.parametrize("are_asked", [True, False])
def test_a_card_that_fails_is_an_error_where_it_was_asked_for(are_asked: bool) -> None:
    flags: dict[str, Any] = {"duration": "5m", "card": are_asked or None}
    plan = make_plan(campaign_from_flags("put", "http://127.0.0.1:1", environ=KEYS, **flags))
    writer = Mock(manifest={})
    problems = make_cards(plan, writer, lambda event: None, Interrupt())
    assert len(problems) == are_asked
    [amended] = writer.amend.call_args.args
    assert list(amended["cards_failed"]) == ["s3"]


def test_ctrl_c_ends_the_card_of_a_run_and_removes_what_it_made(url: str, tmp_path: Path) -> None:
    asked: list[str] = []
    is_stopped = threading.Event()

    def hold(exchange: Exchange) -> bool:
        is_question = (
            exchange.request.method == "GET" and "/loadstone-card-" in exchange.request.path
        )
        if is_question:
            asked.append(exchange.request.path)
            is_stopped.wait(60)
        return False

    words = ("bench", "put", "-n", "20", "--card", "-o", tmp_path / "run")
    with hostile(port_of(url), hold) as server:
        process = start(*words, server.url, environment={**os.environ, **KEYS})
        campaigns.wait_for(process, "card of s3: started")
        while not asked:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        is_stopped.set()
        campaigns.end(process)
    assert process.returncode == 130
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert "cards" not in manifest
    assert len(asked) < len(NUMBERED) / 2
    assert buckets(url) == []


def test_several_stores_stand_side_by_side(url: str, tmp_path: Path) -> None:
    page, document = tmp_path / "cards.html", tmp_path / "cards.json"
    twice = (url, url.replace("127.0.0.1", "localhost"))
    assert loadstone("card", *twice, "-o", page, environment=KEYS).code == 0
    text = html.unescape(page.read_text())
    assert all(
        question.text in text for question in QUESTIONS["parts"] if "S3" in question.protocols
    )
    assert loadstone("card", *twice, "-o", document, environment=KEYS).code == 0
    assert [load["target"] for load in json.loads(document.read_text())] == list(twice)
    table = loadstone("card", *twice, "--full", environment=KEYS).out
    assert all(question.text in table for question in QUESTIONS["connections"])


def test_tls_is_told_and_the_other_questions_are_asked_through_it(url: str) -> None:
    with (
        self_made_authority() as (tls, authority),
        hostile(port_of(url), lambda exchange: False, tls) as server,
    ):
        finished = card(server.url, "--target-set", f"tls.ca_file={authority}")
    assert finished.code == 0, finished.err
    row = next(row for row in finished.json()["rows"] if row["detail"].startswith("TLSv1_3, "))
    assert row["answer"] == "yes"
    shown = answers(finished)
    # The proxy answers requests in one version of HTTP.
    assert shown["http-2"] == "no"
    assert shown["expect-continue"] == "yes"
    assert shown["one-creator-wins"] == "yes"


def test_locks_are_asked_for_on_demand_alone(url: str) -> None:
    """The embedded store makes no bucket that can lock."""
    locking = {row.name for row in QUESTIONS["retention"]}
    assert not locking & answers(card(url)).keys()
    asked = answers(card(url, "--retention"))
    assert {asked[name] for name in locking} == {"no"}
    assert buckets(url) == []


def test_keys_that_are_nowhere_are_an_error(url: str) -> None:
    finished = card(url, keys={"AWS_CONFIG_FILE": "/nonexistent", "HOME": "/nonexistent"})
    assert (finished.code, finished.kinds) == (exit_code.FAILED, ["secret-absent"])


def test_a_target_that_is_not_there_or_no_object_store_is_an_error(tmp_path: Path) -> None:
    absent = card("http://127.0.0.1:1")
    assert (absent.code, absent.kinds) == (exit_code.FAILED, ["unreachable"])
    folder = card(str(tmp_path))
    assert (folder.code, folder.kinds) == (exit_code.FAILED, ["unsupported"])
