"""The embedded store's uploads in parts, limits, conditions and refusals, as boto3 sees them."""

import base64
import hashlib
import os
import zlib
from typing import Any

import boto3
import pytest
import requests
from botocore.exceptions import ClientError

from tests.conformance.test_store_clients import DATA, PART_BYTES, keys, status_of


def begin(client: Any, bucket: str, key: str, **options: Any) -> dict[str, Any]:
    place = {"Bucket": bucket, "Key": key}
    place["UploadId"] = client.create_multipart_upload(**place, **options)["UploadId"]
    return place


def crc32(*pieces: bytes) -> str:
    return base64.b64encode(zlib.crc32(b"".join(pieces)).to_bytes(4, "big")).decode()


def test_an_upload_keeps_the_kind_of_checksum_it_was_begun_with(client: Any, bucket: str) -> None:
    bodies = [os.urandom(PART_BYTES), DATA]
    digests = [zlib.crc32(body).to_bytes(4, "big") for body in bodies]
    composite = crc32(*digests)
    # The last client leaves the number of parts away, as minio-go does.
    for kind, shown, announced in (
        ("COMPOSITE", f"{composite}-2", f"{composite}-2"),
        ("FULL_OBJECT", crc32(*bodies), crc32(*bodies)),
        ("COMPOSITE", f"{composite}-2", composite),
    ):
        place = begin(client, bucket, "sums", ChecksumAlgorithm="CRC32", ChecksumType=kind)
        parts = []
        for number, body in enumerate(bodies, 1):
            part = client.upload_part(
                **place, PartNumber=number, Body=body, ChecksumCRC32=crc32(body)
            )
            parts.append(
                {"PartNumber": number, "ETag": part["ETag"], "ChecksumCRC32": part["ChecksumCRC32"]}
            )
        named = {"MultipartUpload": {"Parts": parts}}
        complete = client.complete_multipart_upload
        wrong = [{**parts[0], "ChecksumCRC32": crc32(b"other")}, parts[1]]
        refused = status_of(complete, **place, MultipartUpload={"Parts": wrong})
        assert refused == (400, "InvalidPart")
        refused = status_of(complete, **place, **named, ChecksumCRC32=crc32(b"other"))
        assert refused == (400, "BadDigest")
        refused = status_of(complete, **place, **named, ChecksumSHA256=crc32(b"other"))
        assert refused == (400, "InvalidRequest")
        done = complete(**place, **named, ChecksumCRC32=announced)
        assert (done["ChecksumType"], done["ChecksumCRC32"]) == (kind, shown)
        assert complete(**place, **named)["ETag"] == done["ETag"], "a client that lost the answer"
        assert "ChecksumCRC32" not in client.head_object(Bucket=bucket, Key="sums")
        head = client.head_object(Bucket=bucket, Key="sums", ChecksumMode="ENABLED")
        assert (head["ChecksumType"], head["ChecksumCRC32"]) == (kind, shown)


def test_parts_have_a_least_size_and_the_upload_s_own_checksum(client: Any, bucket: str) -> None:
    place = begin(client, bucket, "small", ChecksumAlgorithm="CRC32")
    sha256 = base64.b64encode(hashlib.sha256(DATA).digest()).decode()
    other = status_of(client.upload_part, **place, PartNumber=1, Body=DATA, ChecksumSHA256=sha256)
    assert other == (400, "InvalidRequest")
    parts = [
        {"PartNumber": n, "ETag": client.upload_part(**place, PartNumber=n, Body=DATA)["ETag"]}
        for n in (1, 2)
    ]
    small = status_of(client.complete_multipart_upload, **place, MultipartUpload={"Parts": parts})
    assert small == (400, "EntityTooSmall")


KEY_OF_CLIENT = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": "k" * 32}


@pytest.mark.parametrize(
    "asked",
    [
        {"ServerSideEncryption": "AES256"},
        KEY_OF_CLIENT,
        {"ObjectLockLegalHoldStatus": "ON"},
        {"GrantRead": "id=somebody"},
        {"ACL": "public-read"},
        {"StorageClass": "GLACIER"},
        {"Tagging": "a=b"},
        {"WebsiteRedirectLocation": "/"},
    ],
    ids=lambda asked: next(iter(asked)),
)
def test_unsupported_features_are_refused(client: Any, bucket: str, asked: dict[str, str]) -> None:
    refused = status_of(client.put_object, Bucket=bucket, Key="o", Body=DATA, **asked)
    assert refused == (501, "NotImplemented")
    assert keys(client, bucket) == []
    assert status_of(client.create_multipart_upload, Bucket=bucket, Key="o", **asked) == refused
    if asked is KEY_OF_CLIENT:
        assert status_of(client.get_object, Bucket=bucket, Key="o", **asked) == refused


def test_conditions_on_missing_objects(client: Any, bucket: str) -> None:
    missing = status_of(client.put_object, Bucket=bucket, Key="no", Body=DATA, IfMatch="*")
    assert missing == (404, "NoSuchKey")
    etag = client.put_object(Bucket=bucket, Key="o", Body=DATA)["ETag"]
    wrong = status_of(client.delete_object, Bucket=bucket, Key="o", IfMatch='"other"')
    assert wrong == (412, "PreconditionFailed")
    named = [{"Key": "o", "ETag": '"other"'}, {"Key": "no", "ETag": '"other"'}]
    deleted = client.delete_objects(Bucket=bucket, Delete={"Objects": named})
    assert [error["Code"] for error in deleted["Errors"]] == ["PreconditionFailed"]
    with pytest.raises(ClientError) as caught:
        client.get_object(Bucket=bucket, Key="o", IfNoneMatch=etag)
    answer = caught.value.response["ResponseMetadata"]
    assert (answer["HTTPStatusCode"], answer["HTTPHeaders"]["etag"]) == (304, etag)


def test_listings_name_an_owner_when_asked_and_no_empty_delimiter(client: Any, bucket: str) -> None:
    client.put_object(Bucket=bucket, Key="o", Body=DATA)
    assert "Owner" not in client.list_objects_v2(Bucket=bucket)["Contents"][0]
    listing = client.list_objects_v2(Bucket=bucket, FetchOwner=True, Delimiter="")
    assert listing["Contents"][0]["Owner"]["ID"] == "loadstone"
    assert "Delimiter" not in listing
    assert client.list_objects(Bucket=bucket)["Contents"][0]["Owner"]["ID"] == "loadstone"


def test_errors_carry_the_request_s_identity_and_codes_that_sdks_know(
    url: str, client: Any, bucket: str
) -> None:
    with pytest.raises(ClientError) as caught:
        client.get_object(Bucket=bucket, Key="no")
    response = caught.value.response
    in_header = response["ResponseMetadata"]["HTTPHeaders"]["x-amz-request-id"]
    assert in_header == response["ResponseMetadata"]["RequestId"]
    stranger = boto3.client(
        "s3",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="unknown",
        aws_secret_access_key="unknown",
    )
    assert status_of(stranger.list_buckets) == (403, "InvalidAccessKeyId")
    for md5 in ("", "short"):
        put = client.generate_presigned_url("put_object", {"Bucket": bucket, "Key": "o"})
        answer = requests.put(put, data=DATA, headers={"Content-MD5": md5})
        assert "<Code>InvalidDigest</Code>" in answer.text
        assert f"<RequestId>{answer.headers['x-amz-request-id']}</RequestId>" in answer.text


@pytest.mark.parametrize("given", ["bytes=9-5", "bytes=a-b", "lines=1-2", "bytes=0-1,5-6"])
def test_a_range_that_is_none_is_taken_no_notice_of(
    url: str, client: Any, bucket: str, given: str
) -> None:
    client.put_object(Bucket=bucket, Key="a b", Body=DATA)
    answer = client.get_object(Bucket=bucket, Key="a b", Range=given)
    assert (answer["ResponseMetadata"]["HTTPStatusCode"], answer["Body"].read()) == (200, DATA)
    signed = client.generate_presigned_url("get_object", {"Bucket": bucket, "Key": "a b"})
    assert requests.get(signed, headers={"Range": given}).content == DATA
    forged = signed[:-1] + ("1" if signed.endswith("0") else "0")
    assert requests.get(forged, headers={"Range": given}).status_code == 403
    assert requests.get(f"{url}/{bucket}/a%20b", headers={"Range": given}).status_code == 403
    refused = status_of(client.get_object, Bucket=bucket, Key="a b", Range=given, **KEY_OF_CLIENT)
    assert refused == (501, "NotImplemented")
