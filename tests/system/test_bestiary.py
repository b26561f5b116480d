"""`loadstone audit bestiary`: each sequence fails where the store does wrong, and nowhere else."""

import html
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from loadstone.card.bestiary import BESTIARY, try_bestiary
from loadstone.cli import exit_code
from loadstone.cli.commands.load.card import target_of
from loadstone.documents.card import Bestiary
from tests.conformance import store_under_test
from tests.conformance.store_under_test import ACCESS_KEY, SECRET_KEY
from tests.system.command import CommandResult, loadstone
from tests.system.hostile_server import Exchange, hostile
from tests.system.servers.processes import free_ports
from tests.system.test_card import KEYS, buckets, port_of

SERVE = f"{sys.executable} -m loadstone serve"
SERVER_KEYS = {"LOADSTONE_ACCESS_KEY": ACCESS_KEY, "LOADSTONE_SECRET_KEY": SECRET_KEY}
PREFIX = "loadstone-card-"


def bestiary(url: str, *words: str, keys: Mapping[str, str] = KEYS) -> CommandResult:
    return loadstone("audit", "bestiary", url, "-f", "json", *words, environment=keys)


def answers(document: Bestiary) -> dict[str, str]:
    return {row["name"]: row["answer"] for row in document["rows"]}


def failures(document: Bestiary) -> dict[str, str | None]:
    return {row["name"]: row["finding"] for row in document["rows"] if row["answer"] == "failed"}


def test_a_sound_store_that_is_killed_passes_all_that_can_be_tried(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_ports(1)}"
    server = f"{SERVE} --port {port_of(url)} --data {tmp_path / 'data'}"
    page = tmp_path / "bestiary.html"
    words = ("--start", server, "-o", str(page))
    faults = [word for name in ("power-cut", "maintain", "degrade", "restore")
              for word in (f"--{name}", "true")]  # fmt: skip
    finished = bestiary(url, *words, *faults, keys={**KEYS, **SERVER_KEYS})
    assert finished.code == 0, (finished.out, finished.err)
    verdicts = answers(finished.json())
    untried = {name for name, answer in verdicts.items() if answer != "passed"}
    assert untried == {"one-writer-wins-across-endpoints", "short-reads-at-scale"}
    assert not list((tmp_path / "data" / "buckets").iterdir())
    text = html.unescape(page.read_text())
    assert all(row.reference in text for row in BESTIARY)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port_of(url)))


LIES: dict[str, dict[str, str]] = {
    "several_winners": {"one-writer-wins": "two_winners"},
    "condition_ignored": {
        "one-writer-wins": "two_winners", "condition-on-what-is-absent": "condition_ignored",
    },
    "abort_ignored": {"part-beside-abort": "abort_without_effect"},
    "lost_version": {"versions-written-at-once": "version_lost"},
    "torn": {
        "one-writer-wins": "corrupt", "part-again-while-completing": "corrupt",
        "completed-while-suspended": "corrupt", "read-after-completion": "corrupt",
        "slow-part-of-the-same-number": "corrupt", "versions-written-at-once": "version_lost",
        "overwrite-beside-reads": "torn", "completions-at-once": "mixed",
    },
    "lost_write": {
        "completed-while-suspended": "lost", "read-after-completion": "lost",
        "part-again-while-completing": "lost", "slow-part-of-the-same-number": "lost",
        "completions-at-once": "lost", "versions-written-at-once": "version_lost",
        "churn-with-versions": "lost", "overwrite-beside-reads": "lost",
        "one-writer-wins": "two_winners",
    },
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_the_sequences_that_a_lie_concerns_fail_and_no_other(lie: str) -> None:
    lies = {lie: 1.0, "prefix": PREFIX}
    with store_under_test.store(faults={"seed": 3, "lies": lies}) as url:
        finished = bestiary(url)
        assert buckets(url) == []
    assert finished.code == exit_code.FAILED, finished.err
    assert failures(finished.json()) == LIES[lie]


def test_two_addresses_of_one_store_are_raced_through_both() -> None:
    for lies, answer in (({}, "passed"), ({"several_winners": 1.0, "prefix": PREFIX}, "failed")):
        with store_under_test.store(faults={"seed": 3, "lies": lies}) as url:
            both = ["--target-set", f"endpoints=[{url}, {url.replace('127.0.0.1', 'localhost')}]"]
            verdicts = answers(bestiary(url, *both).json())
        assert verdicts["one-writer-wins-across-endpoints"] == answer


def test_an_object_that_reappears_after_a_delete_fails() -> None:
    """It is read, or listed, though its delete was acknowledged."""

    def spoil(exchange: Exchange) -> bool:
        request = exchange.request
        is_cut = request.path.endswith("/cut-put-over-a-marker/k") and request.method == "GET"
        if is_cut:
            exchange.send_status("200 OK", body=b"first")
        is_listing = "-versions?" in request.path and "max-keys=1&" in request.path
        if is_listing:
            folder = request.path.partition("prefix=")[2].partition("&")[0]
            key = f"<Contents><Key>{folder}0</Key></Contents>".encode()
            exchange.send_status("200 OK", body=LISTING % key)
        return is_cut or is_listing

    with store_under_test.store() as url, hostile(port_of(url), spoil) as server:
        finished = bestiary(server.url)
    assert failures(finished.json()) == {
        "cut-put-over-a-marker": "resurrected", "deleted-from-before-versions": "ghost",
    }  # fmt: skip


LISTING = b"<ListBucketResult><EncodingType>url</EncodingType>%b</ListBucketResult>"


def test_objects_lost_or_restored_by_faults_and_maintenance_fail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    with store_under_test.store() as url:
        client = store_under_test.s3(url)

        def each() -> list[dict[str, str]]:
            bucket = min(buckets(url), key=len)
            listed = client.list_objects_v2(Bucket=bucket).get("Contents", [])
            return [{"Bucket": bucket, "Key": entry["Key"]} for entry in listed]

        def lose() -> None:
            for address in each():
                if "mark" not in address["Key"] and not address["Key"].endswith("/0"):
                    client.delete_object(**address)

        def spoil() -> None:
            for address in each():
                if "while-degraded/" in address["Key"]:
                    client.put_object(**address, Body=b"a")
            bucket = min(buckets(url), key=len)
            prefix = bucket if bucket.startswith(PREFIX) else ""
            client.put_object(Bucket=bucket, Key=f"{prefix}/deleted-while-degraded/k000", Body=b"")

        nothing: dict[str, Any] = dict.fromkeys(("kill", "power_cut", "start", "degrade"), int)
        left: list[str] = []
        document = try_bestiary(
            target_of(url, {}, None), {**nothing, "maintain": lose, "restore": spoil},
            say_left=left.append, say_freed=left.append,
        )  # fmt: skip
        assert (left, buckets(url)) == ([], [])
    assert failures(document) == {
        "killed-while-completing": "lost", "power-cut-after-puts": "lost",
        "copied-onto-itself": "lost", "conditions-while-degraded": "corrupt",
        "completed-while-degraded": "short", "deleted-while-degraded": "ghost",
    }  # fmt: skip


def rows(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Try these sequences alone."""
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    chosen = [row for row in BESTIARY if row.name in names]
    monkeypatch.setattr("loadstone.card.bestiary.BESTIARY", chosen)


@pytest.mark.parametrize(
    ("status", "answer"), [("503 Slow Down", "undecided"), ("404 Not Found", "failed")]
)
def test_a_read_that_fails_after_a_race_has_no_wrong_bytes(
    status: str, answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoil(exchange: Exchange) -> bool:
        request = exchange.request
        is_read = request.method == "GET" and "/one-writer-wins/k" in request.path
        if is_read:
            exchange.send_status(status)
        return is_read

    rows(monkeypatch, "one-writer-wins")
    with store_under_test.store() as url, hostile(port_of(url), spoil) as server:
        document = try_bestiary(
            target_of(server.url, {}, None), {}, say_left=print, say_freed=print
        )
    assert answers(document) == {"one-writer-wins": answer}
    assert failures(document) == ({"one-writer-wins": "lost"} if answer == "failed" else {})


def test_a_power_cut_that_takes_the_bucket_leaves_the_others_theirs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows(monkeypatch, "power-cut-after-puts", "copied-onto-itself")
    with store_under_test.store() as url:
        client = store_under_test.s3(url)

        def cut() -> None:
            for bucket in buckets(url):
                for entry in client.list_objects_v2(Bucket=bucket).get("Contents", []):
                    client.delete_object(Bucket=bucket, Key=entry["Key"])
                client.delete_bucket(Bucket=bucket)

        left: list[str] = []
        document = try_bestiary(
            target_of(url, {}, None), {"power_cut": cut, "start": int, "maintain": int},
            say_left=left.append, say_freed=left.append,
        )  # fmt: skip
    assert answers(document) == {"power-cut-after-puts": "failed", "copied-onto-itself": "passed"}
    assert left == []


def test_a_store_in_memory_that_is_killed_has_lost_what_it_acknowledged() -> None:
    url = f"http://127.0.0.1:{free_ports(1)}"
    server = f"{SERVE} --port {port_of(url)}"
    finished = bestiary(url, "--start", server, keys={**KEYS, **SERVER_KEYS})
    assert finished.code == exit_code.FAILED
    assert failures(finished.json()) == {"killed-while-completing": "lost"}


def test_a_store_that_answers_nothing_more_leaves_its_sequence_undecided() -> None:
    def hang(exchange: Exchange) -> bool:
        is_wanted = "/completions-at-once/" in exchange.request.path
        if is_wanted:
            exchange.send_status("503 Slow Down")
        return is_wanted

    with store_under_test.store() as url, hostile(port_of(url), hang) as server:
        finished = bestiary(server.url)
    assert finished.code == exit_code.UNDECIDED
    undecided = [name for name, answer in answers(finished.json()).items() if answer == "undecided"]
    assert undecided == ["completions-at-once"]


def test_a_target_of_another_kind_and_a_command_that_fails_are_errors(tmp_path: Path) -> None:
    finished = loadstone("--errors", "json", "audit", "bestiary", tmp_path)
    assert (finished.code, finished.kinds) == (exit_code.FAILED, ["unsupported"])
    url = f"http://127.0.0.1:{free_ports(1)}"
    finished = loadstone("--errors", "json", "audit", "bestiary", url, "--start", "false")
    assert (finished.code, finished.kinds) == (exit_code.FAILED, ["target"])
