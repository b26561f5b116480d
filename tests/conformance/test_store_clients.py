"""The embedded store as boto3 sees it, in memory and in a directory."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests
from botocore.exceptions import ClientError

from tests.conformance import store_under_test

DATA = os.urandom(4096)
PART_BYTES = 5 << 20


def status_of(call: Callable[..., Any], /, **arguments: Any) -> tuple[int, str]:
    """Return status and code of a call that has to fail."""
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    response = caught.value.response
    return response["ResponseMetadata"]["HTTPStatusCode"], response["Error"]["Code"]


def read(client: Any, bucket: str, key: str, **options: Any) -> bytes:
    return client.get_object(Bucket=bucket, Key=key, **options)["Body"].read()


def keys(client: Any, bucket: str, **options: Any) -> list[str]:
    page = client.list_objects_v2(Bucket=bucket, **options)
    return [line["Key"] for line in page.get("Contents", [])]


def test_an_object_comes_back_with_its_bytes_metadata_and_headers(client: Any, bucket: str) -> None:
    put = client.put_object(
        Bucket=bucket,
        Key="o",
        Body=DATA,
        Metadata={"k": "v"},
        ContentType="x/y",
        CacheControl="no-store",
    )
    assert put["ETag"].strip('"') == hashlib.md5(DATA).hexdigest()
    answer = client.get_object(Bucket=bucket, Key="o")
    assert answer["Body"].read() == DATA
    assert (answer["Metadata"], answer["ContentType"]) == ({"k": "v"}, "x/y")
    assert answer["CacheControl"] == "no-store"
    assert client.head_object(Bucket=bucket, Key="o")["ContentLength"] == len(DATA)


@pytest.mark.parametrize("key", ["a b/é+&=?%", "x//y/../z", "日本", "~!*'()", "a" * 1024])
def test_keys_of_all_kinds_come_back_and_are_listed(client: Any, bucket: str, key: str) -> None:
    client.put_object(Bucket=bucket, Key=key, Body=DATA)
    assert read(client, bucket, key) == DATA
    assert keys(client, bucket) == [key]
    client.delete_object(Bucket=bucket, Key=key)
    assert keys(client, bucket) == []


@pytest.mark.parametrize("size", [0, 1, 1 << 20, (1 << 20) + 1, 3_333_333])
def test_bodies_of_all_sizes_come_back_whole(client: Any, bucket: str, size: int) -> None:
    body = os.urandom(size)
    client.put_object(Bucket=bucket, Key="o", Body=body)
    assert read(client, bucket, "o") == body


def test_ranges_are_cut_to_the_object(client: Any, bucket: str) -> None:
    client.put_object(Bucket=bucket, Key="o", Body=DATA)
    part = client.get_object(Bucket=bucket, Key="o", Range="bytes=100-199")
    assert part["ResponseMetadata"]["HTTPStatusCode"] == 206
    assert (part["ContentRange"], part["Body"].read()) == ("bytes 100-199/4096", DATA[100:200])
    assert read(client, bucket, "o", Range="bytes=-10") == DATA[-10:]
    assert read(client, bucket, "o", Range="bytes=4000-9999") == DATA[4000:]
    outside = status_of(client.get_object, Bucket=bucket, Key="o", Range="bytes=4096-")
    assert outside == (416, "InvalidRange")


def test_a_missing_object_is_not_found(client: Any, bucket: str) -> None:
    assert status_of(client.get_object, Bucket=bucket, Key="no") == (404, "NoSuchKey")
    assert status_of(client.get_object, Bucket="missing", Key="no") == (404, "NoSuchBucket")
    assert status_of(client.head_object, Bucket=bucket, Key="no")[0] == 404
    assert status_of(client.delete_bucket, Bucket="missing") == (404, "NoSuchBucket")
    client.delete_object(Bucket=bucket, Key="no")


def test_conditions_hold_for_reads_and_writes(client: Any, bucket: str) -> None:
    etag = client.put_object(Bucket=bucket, Key="o", Body=DATA)["ETag"]
    same = {"Bucket": bucket, "Key": "o"}
    assert status_of(client.get_object, **same, IfNoneMatch=etag)[0] == 304
    assert status_of(client.get_object, **same, IfMatch='"other"')[0] == 412
    assert status_of(client.put_object, **same, Body=b"", IfNoneMatch="*")[0] == 412
    assert status_of(client.put_object, **same, Body=b"", IfMatch='"other"')[0] == 412
    client.put_object(**same, Body=b"new", IfMatch=etag)
    client.put_object(Bucket=bucket, Key="new", Body=b"", IfNoneMatch="*")
    assert read(client, bucket, "o") == b"new"


@pytest.mark.parametrize("algorithm", ["CRC32", "SHA1", "SHA256"])
def test_checksums_are_checked_and_given_back(client: Any, bucket: str, algorithm: str) -> None:
    client.put_object(Bucket=bucket, Key="o", Body=DATA, ChecksumAlgorithm=algorithm)
    headers = client.head_object(Bucket=bucket, Key="o", ChecksumMode="ENABLED")
    assert headers[f"Checksum{algorithm}"]
    wrong = {f"Checksum{algorithm}": {"CRC32": "AAAAAA=="}.get(algorithm, "A" * 27 + "=")}
    if algorithm == "SHA256":
        wrong = {"ChecksumSHA256": "A" * 43 + "="}
    refused = status_of(client.put_object, Bucket=bucket, Key="bad", Body=DATA, **wrong)
    assert refused == (400, "BadDigest")
    assert keys(client, bucket) == ["o"]


def test_a_wrong_md5_is_refused(client: Any, bucket: str) -> None:
    wrong = {"ContentMD5": "A" * 22 + "=="}
    assert status_of(client.put_object, Bucket=bucket, Key="o", Body=DATA, **wrong)[0] == 400
    assert keys(client, bucket) == []


@pytest.mark.parametrize("page", [1, 3, 7, 1000])
@pytest.mark.parametrize("call", ["list_objects", "list_objects_v2"])
def test_pages_of_a_listing_join_to_the_whole(
    client: Any, bucket: str, call: str, page: int
) -> None:
    names = [f"l/{number:03}" for number in range(20)] + ["m"]
    for name in names:
        client.put_object(Bucket=bucket, Key=name, Body=b"x")
    pages = client.get_paginator(call).paginate(Bucket=bucket, PaginationConfig={"PageSize": page})
    assert [line["Key"] for part in pages for line in part["Contents"]] == names


def test_listings_fold_at_the_delimiter_and_start_behind_markers(client: Any, bucket: str) -> None:
    for name in ["a", "l/1", "l/2", "m/1", "z"]:
        client.put_object(Bucket=bucket, Key=name, Body=b"x")
    page = client.list_objects_v2(Bucket=bucket, Delimiter="/", MaxKeys=2)
    assert [line["Prefix"] for line in page["CommonPrefixes"]] == ["l/"]
    rest = client.list_objects_v2(
        Bucket=bucket, Delimiter="/", ContinuationToken=page["NextContinuationToken"]
    )
    assert [line["Prefix"] for line in rest["CommonPrefixes"]] == ["m/"]
    assert [line["Key"] for line in rest["Contents"]] == ["z"]
    assert keys(client, bucket, Prefix="l/", StartAfter="l/1") == ["l/2"]


def test_copies_keep_or_replace_metadata(client: Any, bucket: str) -> None:
    client.put_object(Bucket=bucket, Key="o", Body=DATA, Metadata={"k": "v"})
    source = {"Bucket": bucket, "Key": "o"}
    client.copy_object(Bucket=bucket, Key="copy", CopySource=source)
    assert client.head_object(Bucket=bucket, Key="copy")["Metadata"] == {"k": "v"}
    new = {"MetadataDirective": "REPLACE", "Metadata": {"n": "1"}}
    client.copy_object(Bucket=bucket, Key="o", CopySource=source, **new)
    assert client.head_object(Bucket=bucket, Key="o")["Metadata"] == {"n": "1"}
    client.delete_object(Bucket=bucket, Key="o")
    assert read(client, bucket, "copy") == DATA


def test_many_objects_are_deleted_at_once(client: Any, bucket: str) -> None:
    for number in range(5):
        client.put_object(Bucket=bucket, Key=f"{number}", Body=b"x")
    named = [{"Key": f"{number}"} for number in range(4)] + [{"Key": "not there"}]
    deleted = client.delete_objects(Bucket=bucket, Delete={"Objects": named})
    assert len(deleted["Deleted"]) == 5
    assert keys(client, bucket) == ["4"]
    assert status_of(client.delete_bucket, Bucket=bucket) == (409, "BucketNotEmpty")


def upload(client: Any, bucket: str, key: str, parts: list[bytes]) -> dict[str, Any]:
    place = {"Bucket": bucket, "Key": key}
    place["UploadId"] = client.create_multipart_upload(**place, Metadata={"m": "1"})["UploadId"]
    done = [
        {"PartNumber": n, "ETag": client.upload_part(**place, PartNumber=n, Body=part)["ETag"]}
        for n, part in enumerate(parts, 1)
    ]
    assert len(client.list_parts(**place)["Parts"]) == len(parts)
    return client.complete_multipart_upload(**place, MultipartUpload={"Parts": done})


def test_parts_become_one_object(client: Any, bucket: str) -> None:
    parts = [os.urandom(PART_BYTES), os.urandom(123_456)]
    done = upload(client, bucket, "mp", parts)
    assert done["ETag"].strip('"').endswith("-2")
    assert read(client, bucket, "mp") == b"".join(parts)
    seam = f"bytes={PART_BYTES - 5}-{PART_BYTES + 4}"
    assert read(client, bucket, "mp", Range=seam) == parts[0][-5:] + parts[1][:5]
    assert read(client, bucket, "mp", PartNumber=2) == parts[1]
    head = client.head_object(Bucket=bucket, Key="mp", PartNumber=1)
    assert (head["ContentLength"], head["PartsCount"]) == (PART_BYTES, 2)
    assert head["Metadata"] == {"m": "1"}


def test_parts_can_be_copied_from_ranges(client: Any, bucket: str) -> None:
    body = os.urandom(2_000_000)
    client.put_object(Bucket=bucket, Key="o", Body=body)
    place = {"Bucket": bucket, "Key": "mpc"}
    place["UploadId"] = client.create_multipart_upload(**place)["UploadId"]
    copied = client.upload_part_copy(
        **place,
        PartNumber=1,
        CopySource={"Bucket": bucket, "Key": "o"},
        CopySourceRange="bytes=1000-1499999",
    )
    parts = [{"PartNumber": 1, "ETag": copied["CopyPartResult"]["ETag"]}]
    client.complete_multipart_upload(**place, MultipartUpload={"Parts": parts})
    client.delete_object(Bucket=bucket, Key="o")
    assert read(client, bucket, "mpc") == body[1000:1_500_000]


def test_aborted_uploads_leave_nothing(client: Any, bucket: str) -> None:
    place = {"Bucket": bucket, "Key": "ab"}
    place["UploadId"] = client.create_multipart_upload(**place)["UploadId"]
    client.upload_part(**place, PartNumber=1, Body=DATA)
    assert len(client.list_multipart_uploads(Bucket=bucket)["Uploads"]) == 1
    client.abort_multipart_upload(**place)
    assert "Uploads" not in client.list_multipart_uploads(Bucket=bucket)
    late = status_of(client.upload_part, **place, PartNumber=2, Body=DATA)
    assert late == (404, "NoSuchUpload")
    client.delete_bucket(Bucket=bucket)


def test_versions_stay_under_a_delete_marker(client: Any, bucket: str) -> None:
    client.put_object(Bucket=bucket, Key="o", Body=b"0")
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    first = client.put_object(Bucket=bucket, Key="o", Body=b"1")["VersionId"]
    client.put_object(Bucket=bucket, Key="o", Body=b"22")
    assert client.delete_object(Bucket=bucket, Key="o")["DeleteMarker"]
    assert status_of(client.get_object, Bucket=bucket, Key="o") == (404, "NoSuchKey")
    assert read(client, bucket, "o", VersionId=first) == b"1"
    assert read(client, bucket, "o", VersionId="null") == b"0"
    listing = client.list_object_versions(Bucket=bucket)
    assert (len(listing["Versions"]), len(listing["DeleteMarkers"])) == (3, 1)
    pages = client.get_paginator("list_object_versions").paginate(
        Bucket=bucket, PaginationConfig={"PageSize": 1}
    )
    lines = [line for p in pages for line in p.get("Versions", []) + p.get("DeleteMarkers", [])]
    assert len(lines) == 4
    for line in lines:
        client.delete_object(Bucket=bucket, Key="o", VersionId=line["VersionId"])
    client.delete_bucket(Bucket=bucket)


def test_signed_addresses_work_and_unsigned_ones_do_not(client: Any, bucket: str, url: str) -> None:
    client.put_object(Bucket=bucket, Key="o", Body=DATA)
    signed = client.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "o"})
    assert requests.get(signed, timeout=30).content == DATA
    assert (
        requests.get(signed.replace("Expires=3600", "Expires=3601"), timeout=30).status_code == 403
    )
    assert requests.get(f"{url}/{bucket}/o", timeout=30).status_code == 403
    stranger = store_under_test.s3(url, secret_key="wrong")
    assert status_of(stranger.list_buckets) == (403, "SignatureDoesNotMatch")


def test_version_2_of_signatures_is_refused_in_addresses_and_headers(
    client: Any, bucket: str, url: str
) -> None:
    """It signs an address for as long as its maker likes; boto3's default for addresses."""
    client.put_object(Bucket=bucket, Key="o", Body=DATA)
    older = store_under_test.s3(url, signature_version="s3")
    life_s = 10 * 365 * 24 * 60 * 60
    get = {"Bucket": bucket, "Key": "o"}
    signed = older.generate_presigned_url("get_object", Params=get, ExpiresIn=life_s)
    # A signature's name is the same in any spelling, and the range takes another way in.
    for address in (signed, signed.replace("Signature=", "%53ignature=")):
        for headers in ({}, {"Range": "lines=1-2"}):
            answer = requests.get(address, headers=headers, timeout=30)
            assert (answer.status_code, "version 4" in answer.text) == (403, True), answer.text
            assert "<Code>AccessDenied</Code>" in answer.text
    assert status_of(older.get_object, **get) == (403, "AccessDenied")
    assert status_of(older.get_object, **get, Range="lines=1-2") == (403, "AccessDenied")


def test_the_holder_of_an_address_adds_no_header_to_it(client: Any, bucket: str) -> None:
    """Other spellings of its parameters, and a header that claims to sign it, do not help."""
    client.put_object(Bucket=bucket, Key="secret", Body=DATA)
    put = client.generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": "mine"})
    added = {"x-amz-copy-source": f"/{bucket}/secret"}
    claim = {"Authorization": "AWS4-HMAC-SHA256 SignedHeaders=host;x-amz-copy-source"}
    spelled = put.replace("X-Amz-SignedHeaders", "X-Amz-Signed%48eaders")
    assert spelled != put
    for address, headers in ((put, added), (spelled, added), (put, added | claim)):
        answer = requests.put(address, headers=headers, timeout=30)
        assert answer.status_code in (400, 403), answer.text
        assert status_of(client.head_object, Bucket=bucket, Key="mine")[0] == 404
    assert requests.put(put, data=DATA, timeout=30).status_code == 200


def test_signed_chunked_bodies_are_understood(url: str, bucket: str) -> None:
    client = store_under_test.s3(url, request_checksum_calculation="when_required")
    client.put_object(Bucket=bucket, Key="o", Body=DATA)
    assert read(client, bucket, "o") == DATA


def test_objects_in_a_directory_outlive_the_store(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    parts = [os.urandom(PART_BYTES), DATA]
    with store_under_test.store(data=data) as url:
        client = store_under_test.s3(url)
        client.create_bucket(Bucket="kept")
        client.put_object(Bucket="kept", Key="gone", Body=DATA)
        client.put_object(Bucket="kept", Key="o", Body=b"old")
        client.put_object(Bucket="kept", Key="o", Body=DATA, Metadata={"k": "v"})
        client.delete_object(Bucket="kept", Key="gone")
        upload(client, "kept", "mp", parts)
        client.copy_object(Bucket="kept", Key="copy", CopySource={"Bucket": "kept", "Key": "mp"})
        client.delete_object(Bucket="kept", Key="mp")
    with store_under_test.store(data=data) as url:
        client = store_under_test.s3(url)
        assert keys(client, "kept") == ["copy", "o"]
        assert read(client, "kept", "copy") == b"".join(parts)
        assert client.get_object(Bucket="kept", Key="o")["Metadata"] == {"k": "v"}
        client.put_object(Bucket="kept", Key="o", Body=b"new")
        assert read(client, "kept", "o") == b"new"


def test_a_full_store_refuses_and_goes_on_after_deletes() -> None:
    with store_under_test.store(memory_bytes_max=8 << 20) as url:
        client = store_under_test.s3(url)
        client.create_bucket(Bucket="small")
        body = os.urandom(3 << 20)
        client.put_object(Bucket="small", Key="1", Body=body)
        client.put_object(Bucket="small", Key="2", Body=body)
        full = status_of(client.put_object, Bucket="small", Key="3", Body=body)
        assert full == (507, "InsufficientStorage")
        assert keys(client, "small") == ["1", "2"]
        client.delete_object(Bucket="small", Key="1")
        client.put_object(Bucket="small", Key="3", Body=body)
        assert read(client, "small", "3") == body
