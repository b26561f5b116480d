"""Clean-up in buckets that keep versions: all that the run wrote goes where asked, and no more."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from loadstone import _loadgen
from tests.conformance import trials
from tests.conformance.exemptions import needs
from tests.conformance.targets import Place
from tests.conformance.trials import Dataset
from tests.conformance.views import S3View

pytestmark = needs("view")


@pytest.fixture
def client(place: Place) -> Any:
    if not isinstance(place.view, S3View):
        pytest.skip(f"driver {place.driver} deletes no versions")
    return place.view.client


def keep_versions(client: Any, bucket: str) -> None:
    status = {"Status": "Enabled"}
    try:
        client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration=status)
    except ClientError as error:
        pytest.skip(f"this store keeps no versions: {error}")


def versions(client: Any, bucket: str) -> list[tuple[str, str]]:
    listing = client.list_object_versions(Bucket=bucket)
    both = [*listing.get("Versions", []), *listing.get("DeleteMarkers", [])]
    return sorted((version["Key"], version["VersionId"]) for version in both)


def with_versions(place: Place) -> dict[str, Any]:
    settings = {**place.settings, "delete_versions": True}
    return {"target": {"name": "target", "driver": place.driver, "settings": settings}}


def run(place: Place, dataset: Dataset, operation: str, **changes: Any) -> trials.Result:
    return trials.run(trials.document(place, dataset, operation) | changes)


def drop(client: Any, bucket: str) -> None:
    for key, version in versions(client, bucket):
        client.delete_object(Bucket=bucket, Key=key, VersionId=version)


def test_all_versions_of_the_run_go_with_its_buckets(
    place: Place, dataset: Dataset, client: Any
) -> None:
    trials.prepare(place, dataset)
    for bucket in dataset.bucket_names:
        keep_versions(client, bucket)
    for operation in ("put", "delete", "put", "copy"):
        run(place, dataset, operation)
    before = {bucket: len(versions(client, bucket)) for bucket in dataset.bucket_names}
    assert sum(before.values()) >= 5 * dataset.objects

    plain = trials.clean_up(place, dataset).summary
    assert {left["kind"] for left in plain["places_left"]} == {"hidden"}
    assert "--versions" in plain["places_left"][0]["reason"]
    swept = trials.clean_up(place, dataset, **with_versions(place)).summary
    assert (swept["places_left"], set(swept["buckets_deleted"])) == ([], set(dataset.bucket_names))
    assert not set(dataset.bucket_names) & set(place.view.buckets())


def test_versions_of_a_stranger_stay_in_a_foreign_bucket(
    place: Place, dataset: Dataset, client: Any
) -> None:
    bucket, _ = dataset.where(3)
    client.create_bucket(Bucket=bucket)
    keep_versions(client, bucket)
    for body in (b"one", b"two"):
        client.put_object(Bucket=bucket, Key="theirs", Body=body)
    client.put_object(Bucket=bucket, Key="object-x", Body=b"three")
    client.delete_object(Bucket=bucket, Key="object-x")
    before = versions(client, bucket)
    assert len(before) == 4
    settings = {**with_versions(place), "allow_foreign": True}
    trials.prepare(place, dataset, **settings)
    run(place, dataset, "put", **settings)
    run(place, dataset, "delete", **settings)
    assert len(versions(client, bucket)) > 4 + dataset.objects // dataset.buckets
    swept = trials.clean_up(place, dataset, **settings).summary
    assert swept["places_left"] == []
    assert versions(client, bucket) == before
    drop(client, bucket)


def test_a_key_of_the_dataset_that_a_stranger_deleted_is_theirs(
    place: Place, dataset: Dataset, client: Any
) -> None:
    bucket, key = dataset.where(3)
    client.create_bucket(Bucket=bucket)
    keep_versions(client, bucket)
    client.put_object(Bucket=bucket, Key=key, Body=b"precious")
    client.delete_object(Bucket=bucket, Key=key)
    before = versions(client, bucket)
    with pytest.raises(_loadgen.TargetError) as caught:
        trials.prepare(place, dataset, **with_versions(place), allow_foreign=True)
    assert key in str(caught.value)
    assert versions(client, bucket) == before
    drop(client, bucket)


def test_versions_that_are_left_in_a_foreign_bucket_are_told(
    place: Place, dataset: Dataset, client: Any
) -> None:
    bucket, _ = dataset.where(3)
    client.create_bucket(Bucket=bucket)
    keep_versions(client, bucket)
    trials.prepare(place, dataset, allow_foreign=True)
    swept = trials.clean_up(place, dataset, allow_foreign=True).summary
    left_over = [(left["place"], left["kind"]) for left in swept["places_left"]]
    assert left_over == [(bucket, "hidden")]
    # They are still there when somebody asks again, and go when they are asked for.
    again = trials.clean_up(place, dataset, allow_foreign=True).summary
    assert again["places_left"] == swept["places_left"]
    gone = trials.clean_up(place, dataset, **with_versions(place), allow_foreign=True).summary
    assert (gone["places_left"], versions(client, bucket)) == ([], [])
