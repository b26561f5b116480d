"""Operations of S3 that the embedded store lacks: none passes for one that it has."""

import datetime
from typing import Any

import pytest
from botocore import xform_name
from botocore.exceptions import ClientError
from botocore.model import ListShape, MapShape, Shape, StringShape, StructureShape

from tests.conformance.test_store_clients import DATA, keys, read, status_of

HAS = {
    "AbortMultipartUpload",
    "CompleteMultipartUpload",
    "CopyObject",
    "CreateBucket",
    "CreateMultipartUpload",
    "DeleteBucket",
    "DeleteObject",
    "DeleteObjects",
    "GetBucketLocation",
    "GetBucketVersioning",
    "GetObject",
    "GetObjectLockConfiguration",
    "HeadBucket",
    "HeadObject",
    "ListBuckets",
    "ListMultipartUploads",
    "ListObjects",
    "ListObjectsV2",
    "ListObjectVersions",
    "ListParts",
    "PutBucketVersioning",
    "PutObject",
    "PutObjectLegalHold",
    "PutObjectRetention",
    "UploadPart",
    "UploadPartCopy",
}
# It goes to another host, which asked for an object.
ELSEWHERE = {"WriteGetObjectResponse"}


def least(shape: Shape | None) -> Any:
    """Return the least value that a client accepts for a parameter."""
    match shape:
        case StructureShape():
            names = list(shape.required_members)
            if getattr(shape, "is_tagged_union", False):
                names = names or list(shape.members)[:1]
            return {name: least(shape.members[name]) for name in names}
        case ListShape():
            return [least(shape.member)]
        case MapShape():
            return {"a": "b"}
        case StringShape():
            return shape.enum[0] if shape.enum else "x" * max(1, shape.metadata.get("min", 1))
    values = {"boolean": True, "timestamp": datetime.datetime(2030, 1, 1), "blob": b"x"}
    return values.get(shape.type_name, 1) if shape is not None else {}


def test_unsupported_requests_are_refused_and_change_nothing(client: Any, bucket: str) -> None:
    """Newer operations of S3 must not be taken for the PUT or DELETE that they resemble."""
    client.put_object(Bucket=bucket, Key="o", Body=DATA)
    place = {"Bucket": bucket, "Key": "o", "RenameSource": f"{bucket}/o"}
    model = client.meta.service_model
    lacking = set(model.operation_names) - HAS - ELSEWHERE
    assert len(lacking) >= 50
    for name in sorted(lacking):
        wanted = least(model.operation_model(name).input_shape)
        wanted |= {key: value for key, value in place.items() if key in wanted}
        status = status_of(getattr(client, xform_name(name)), **wanted)
        assert status == (501, "NotImplemented"), name
    assert keys(client, bucket) == ["o"]
    assert read(client, bucket, "o") == DATA


@pytest.mark.parametrize("name", ["versionId", "versions", "uploads", "attributes", "delete"])
def test_a_parameter_of_another_operation_is_refused(client: Any, bucket: str, name: str) -> None:
    client.put_object(Bucket=bucket, Key="o", Body=DATA)

    def add(params: dict[str, Any], **_: Any) -> None:
        params["url"] += f"?{name}"

    client.meta.events.register("before-call.s3.PutObject", add)
    try:
        refused = status_of(client.put_object, Bucket=bucket, Key="o", Body=b"")
    finally:
        client.meta.events.unregister("before-call.s3.PutObject", add)
    assert refused == (501, "NotImplemented")
    assert read(client, bucket, "o") == DATA


@pytest.mark.parametrize(
    "announced",
    [{"x-amz-checksum-sha512": "AA=="}, {"x-amz-trailer": "x-amz-checksum-xxhash64"}],
    ids=lambda headers: next(iter(headers)),
)
def test_a_checksum_that_would_not_be_checked_is_refused(
    client: Any, bucket: str, announced: dict[str, str]
) -> None:
    def add(params: dict[str, Any], **_: Any) -> None:
        params["headers"].update(announced)

    client.meta.events.register("before-call.s3.PutObject", add)
    try:
        refused = status_of(client.put_object, Bucket=bucket, Key="o", Body=DATA)
    finally:
        client.meta.events.unregister("before-call.s3.PutObject", add)
    assert refused == (501, "NotImplemented")
    assert keys(client, bucket) == []


@pytest.mark.parametrize("name", ["ab", "foo-.bar", "foo.-bar"])
def test_a_bucket_s_name_is_one_of_a_host_and_errors_have_words(client: Any, name: str) -> None:
    with pytest.raises(ClientError) as caught:
        client.create_bucket(Bucket=name)
    assert caught.value.response["Error"]["Code"] == "InvalidBucketName"
    assert caught.value.response["Error"]["Message"]


def test_an_unmodified_answer_has_no_type(client: Any, bucket: str) -> None:
    etag = client.put_object(Bucket=bucket, Key="o", Body=DATA)["ETag"]
    with pytest.raises(ClientError) as caught:
        client.get_object(Bucket=bucket, Key="o", IfNoneMatch=etag)
    metadata = caught.value.response["ResponseMetadata"]
    assert (metadata["HTTPStatusCode"], metadata["HTTPHeaders"]["etag"]) == (304, etag)
    assert "content-type" not in metadata["HTTPHeaders"]
