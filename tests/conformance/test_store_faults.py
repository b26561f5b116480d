"""The embedded store misbehaves as asked, repeatably, and tells the truth about its lies."""

import contextlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import swiftclient
from botocore.exceptions import ClientError

from tests.conformance import store_under_test

DATA = os.urandom(4096)
ASKED_MAX = 100_000


@contextlib.contextmanager
def faulty(**faults: Any) -> Iterator[tuple[str, Any]]:
    """Run a store with these faults; give its URL and a client, a bucket being there."""
    with store_under_test.store(faults=faults) as url:
        client = store_under_test.s3(url)
        client.create_bucket(Bucket="bucket")
        yield url, client


def put_statuses(client: Any, count: int) -> list[int]:
    statuses = []
    for number in range(count):
        try:
            client.put_object(Bucket="bucket", Key=f"{number}", Body=DATA)
            statuses.append(200)
        except ClientError as error:
            statuses.append(error.response["ResponseMetadata"]["HTTPStatusCode"])
    return statuses


def read(client: Any, key: str) -> bytes | None:
    try:
        return client.get_object(Bucket="bucket", Key=key)["Body"].read()
    except ClientError as error:
        assert error.response["Error"]["Code"] == "NoSuchKey"
        return None


def test_errors_come_at_their_rate_and_again_with_the_same_seed() -> None:
    errors = {"put": {"rate": 0.3, "status": 503}}
    with faulty(seed=5, errors=errors) as (_, client):
        first = put_statuses(client, 100)
        assert client.list_objects_v2(Bucket="bucket")["KeyCount"] == first.count(200)
    with faulty(seed=5, errors=errors) as (_, client):
        assert put_statuses(client, 100) == first
    assert 15 <= first.count(503) <= 45
    assert first.count(200) + first.count(503) == 100


def test_a_limit_of_requests_is_kept_in_the_words_of_each_api() -> None:
    # So low that no machine is too slow to go beyond it; asked until both have been seen.
    with faulty(requests_per_s=2) as (url, client):
        answers: set[str] = set()
        for _ in range(ASKED_MAX):
            if len(answers) == 2:
                break
            try:
                client.list_buckets()
                answers.add("listed")
            except ClientError as error:
                answers.add(error.response["Error"]["Code"])
        assert answers == {"listed", "SlowDown"}
        login = {"X-Auth-User": "test:tester", "X-Auth-Key": store_under_test.PASSWORD}
        headers = requests.get(f"{url}/auth/v1.0", headers=login, timeout=30).headers
        token = {"X-Auth-Token": headers["X-Auth-Token"]}
        statuses: set[int] = set()
        for _ in range(ASKED_MAX):
            if len(statuses) == 2:
                break
            answer = requests.head(headers["X-Storage-Url"], headers=token, timeout=30)
            statuses.add(answer.status_code)
        assert statuses == {204, 429}


def test_latency_strikes_the_class_that_is_named() -> None:
    latency = {"get": {"kind": "fixed", "ms": 300}}
    with faulty(latency=latency) as (_, client):
        client.put_object(Bucket="bucket", Key="o", Body=DATA)
        started = time.monotonic()
        assert read(client, "o") == DATA
        assert time.monotonic() - started >= 0.3


def test_a_cap_on_bytes_slows_bodies_down() -> None:
    with faulty(bytes_per_s=1_000_000) as (_, client):
        body = os.urandom(300_000)
        started = time.monotonic()
        client.put_object(Bucket="bucket", Key="o", Body=body)
        assert time.monotonic() - started >= 0.29
        started = time.monotonic()
        assert read(client, "o") == body
        assert time.monotonic() - started >= 0.29


@pytest.mark.parametrize("size", [4096, 3 << 20])
def test_answers_break_off_inside_their_body(size: int) -> None:
    with faulty(truncations={"get": 1.0}) as (_, client):
        client.put_object(Bucket="bucket", Key="o", Body=b"x" * size)
        address = client.generate_presigned_url(
            "get_object", Params={"Bucket": "bucket", "Key": "o"}
        )
        with requests.get(address, stream=True, timeout=30) as answer:
            assert answer.status_code == 200
            assert int(answer.headers["Content-Length"]) == size
            received: list[bytes] = []
            with pytest.raises(requests.exceptions.ChunkedEncodingError):
                received.extend(answer.iter_content(64))
            assert sum(map(len, received)) < size


def test_connections_are_closed_without_an_answer() -> None:
    with faulty(resets={"head": 1.0}) as (url, client):
        client.put_object(Bucket="bucket", Key="o", Body=DATA)
        with pytest.raises(requests.exceptions.ConnectionError):
            requests.head(f"{url}/bucket/o", timeout=30)
        assert read(client, "o") == DATA


def lies_in(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


@pytest.mark.parametrize("kind", ["lost_write", "corrupt_byte", "torn"])
@pytest.mark.parametrize("storage", ["memory", "directory"])
def test_every_damaged_object_is_in_the_log_and_no_other_is_damaged(
    kind: str, storage: str, tmp_path: Path
) -> None:
    log = tmp_path / "lies.jsonl"
    faults = {"seed": 9, "lies": {kind: 0.3, "log": str(log)}}
    data = str(tmp_path / "data") if storage == "directory" else None
    written: dict[str, bytes] = {}
    damaged = set()
    # With checksums on, boto3 itself would find the damage.
    plain = {"request_checksum_calculation": "when_required"}
    plain["response_checksum_validation"] = "when_required"
    with store_under_test.store(faults=faults, data=data) as url:
        client = store_under_test.s3(url, **plain)
        client.create_bucket(Bucket="bucket")
        for version in range(2):
            for number in range(30):
                written[f"{number}"] = os.urandom(5000)
                client.put_object(Bucket="bucket", Key=f"{number}", Body=written[f"{number}"])
                if read(client, f"{number}") != written[f"{number}"]:
                    damaged.add((f"{number}", version))
    logged = {(lie["key"], lie["number"]) for lie in lies_in(log)}
    assert {lie["kind"] for lie in lies_in(log)} == {kind}
    assert damaged == logged
    assert 6 <= len(logged) <= 30


def test_stale_reads_show_the_version_before() -> None:
    with faulty(seed=2, lies={"stale_read": 0.5}) as (_, client):
        client.put_object(Bucket="bucket", Key="o", Body=b"old")
        assert {read(client, "o") for _ in range(10)} == {b"old"}
        client.put_object(Bucket="bucket", Key="o", Body=b"new")
        assert {read(client, "o") for _ in range(30)} == {b"old", b"new"}


@pytest.mark.parametrize("storage", ["memory", "directory"])
def test_deleted_objects_come_back(storage: str, tmp_path: Path) -> None:
    data = str(tmp_path / "data") if storage == "directory" else None
    faults = {"lies": {"resurrect": 1.0, "resurrect_after_ms": 300}}
    with store_under_test.store(faults=faults, data=data) as url:
        client = store_under_test.s3(url)
        client.create_bucket(Bucket="bucket")
        client.put_object(Bucket="bucket", Key="o", Body=DATA)
        client.delete_object(Bucket="bucket", Key="o")
        deadline = time.monotonic() + 30
        while read(client, "o") != DATA:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def conditional_put(client: Any, body: bytes, **condition: str) -> str | None:
    """Put an object on a condition; give its ETag, or None where the condition did not hold."""
    try:
        answer = client.put_object(Bucket="bucket", Key="o", Body=body, **condition)
        return str(answer["ETag"])
    except ClientError as error:
        assert error.response["Error"]["Code"] == "PreconditionFailed"
        return None


def test_a_condition_is_ignored_whatever_it_says(tmp_path: Path) -> None:
    log = tmp_path / "lies.jsonl"
    with faulty(lies={"condition_ignored": 1.0, "log": str(log)}) as (_, client):
        assert conditional_put(client, b"first", IfNoneMatch="*")
        assert not log.read_text()
        assert conditional_put(client, b"second", IfNoneMatch="*")
        assert conditional_put(client, b"third", IfMatch='"no such"')
        client.delete_object(Bucket="bucket", Key="o", IfMatch='"no such"')
        assert read(client, "o") is None
    assert [lie["kind"] for lie in lies_in(log)] == ["condition_ignored"] * 3


def test_several_win_who_saw_what_the_last_write_replaced(tmp_path: Path) -> None:
    log = tmp_path / "lies.jsonl"
    with faulty(lies={"several_winners": 1.0, "log": str(log)}) as (_, client):
        first = conditional_put(client, b"first", IfNoneMatch="*")
        assert first is not None
        assert conditional_put(client, b"also first", IfNoneMatch="*")
        assert conditional_put(client, b"second", IfMatch=first)
        # Two writes ago is too late.
        assert conditional_put(client, b"third", IfMatch=first) is None
        assert read(client, "o") == b"second"
    assert [lie["kind"] for lie in lies_in(log)] == ["several_winners"] * 2


def test_an_abort_without_effect_leaves_the_upload(tmp_path: Path) -> None:
    log = tmp_path / "lies.jsonl"
    with faulty(lies={"abort_ignored": 1.0, "log": str(log)}) as (_, client):
        upload = client.create_multipart_upload(Bucket="bucket", Key="o")["UploadId"]
        client.abort_multipart_upload(Bucket="bucket", Key="o", UploadId=upload)
        listed = client.list_multipart_uploads(Bucket="bucket")["Uploads"]
        assert [entry["UploadId"] for entry in listed] == [upload]
    assert [lie["kind"] for lie in lies_in(log)] == ["abort_ignored"]


@pytest.mark.parametrize("storage", ["memory", "directory"])
def test_a_version_is_lost_by_the_write_over_it(storage: str, tmp_path: Path) -> None:
    log = tmp_path / "lies.jsonl"
    data = str(tmp_path / "data") if storage == "directory" else None
    faults = {"lies": {"lost_version": 1.0, "log": str(log)}}
    with store_under_test.store(faults=faults, data=data) as url:
        client = store_under_test.s3(url)
        client.create_bucket(Bucket="bucket")
        status = {"Status": "Enabled"}
        client.put_bucket_versioning(Bucket="bucket", VersioningConfiguration=status)
        put = [client.put_object(Bucket="bucket", Key="o", Body=DATA) for _ in range(3)]
        listed = client.list_object_versions(Bucket="bucket")["Versions"]
        assert [entry["VersionId"] for entry in listed] == [put[-1]["VersionId"]]
    assert [lie["kind"] for lie in lies_in(log)] == ["lost_version"] * 2


def test_a_refused_upload_leaves_the_connection_usable() -> None:
    body = os.urandom(5 << 20)
    with faulty(errors={"put": {"rate": 1.0, "status": 500}}) as (url, _):
        client: swiftclient.Connection = store_under_test.swift(url)
        for _ in range(5):
            with pytest.raises(swiftclient.ClientException) as caught:
                client.put_object("bucket", "o", body)
            assert caught.value.http_status == 500
            assert client.head_container("bucket")["x-container-object-count"] == "0"
