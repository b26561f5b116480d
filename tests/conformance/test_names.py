"""Names that XML cannot carry: S3 takes such keys, so what a run wrote under them goes again."""

import re
from collections.abc import Mapping
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.conformance import trials
from tests.conformance.exemptions import needs
from tests.conformance.targets import Place
from tests.conformance.trials import Dataset
from tests.conformance.views import S3View

pytestmark = needs("view")

PREFIX = "a\x01 +%41\x0b-"


@pytest.fixture
def client(place: Place, dataset: Dataset) -> Any:
    if not isinstance(place.view, S3View):
        pytest.skip(f"driver {place.driver} reads no XML")
    client, bucket, key = place.view.client, f"{dataset.prefix}probe", f"{PREFIX}probe"
    client.create_bucket(Bucket=bucket)
    client.put_object(Bucket=bucket, Key=key, Body=b"")
    listed = [entry["Key"] for entry in client.list_objects_v2(Bucket=bucket)["Contents"]]
    client.delete_object(Bucket=bucket, Key=key)
    client.delete_bucket(Bucket=bucket)
    # Some ignore encoding-type=url, and list what XML cannot carry with another character.
    assert listed in ([key], [re.sub("[\x01\x0b]", "\ufffd", key)])
    return client


def document(place: Place, dataset: Dataset, operation: str, **changes: Any) -> Mapping[str, Any]:
    trial = trials.document(place, dataset, operation, **changes)
    trial["dataset"]["object_prefix"] = PREFIX
    return trial


@pytest.mark.parametrize("deletes_versions", [False, True])
def test_keys_with_control_characters_are_swept(
    place: Place, dataset: Dataset, client: Any, deletes_versions: bool
) -> None:
    settings = {**place.settings, "delete_versions": True} if deletes_versions else place.settings
    target = {"name": "target", "driver": place.driver, "settings": settings}

    def run(operation: str, **changes: Any) -> trials.Result:
        trial = document(place, dataset, operation, target=target, **changes)
        return trials.run(trial)

    run("put", phase="prepare", measured=False)
    for operation in ("get", "put", "list"):
        result = run(operation)
        assert result.outcomes() == {"ok": dataset.objects}, result.summary["error_examples"]
    bucket = dataset.bucket_names[0]
    try:
        client.create_multipart_upload(Bucket=bucket, Key=f"{PREFIX}0")
    except ClientError as error:
        # Swift and Ceph fail over their own answer, in which the key would be.
        assert error.response["ResponseMetadata"]["HTTPStatusCode"] == 500
    swept = run("delete", phase="clean-up", measured=False).summary
    assert swept["places_left"] == [], swept
    assert set(swept["buckets_deleted"]) == set(dataset.bucket_names)
    assert not set(dataset.bucket_names) & set(place.view.buckets() if place.view else [])
