"""Versions as load: what writes, reads, lists and deletes them, and what a clean-up removes."""

from typing import Any

import pytest

from tests.conformance import trials
from tests.conformance.exemptions import needs
from tests.conformance.targets import Place
from tests.conformance.test_versions import drop, keep_versions, versions
from tests.conformance.trials import Dataset
from tests.conformance.views import S3View

pytestmark = needs("view", "versioned_put")


@pytest.fixture
def client(place: Place) -> Any:
    assert isinstance(place.view, S3View)
    client = place.view.client
    client.create_bucket(Bucket="conformance-keeps-versions")
    try:
        keep_versions(client, "conformance-keeps-versions")
    finally:
        client.delete_bucket(Bucket="conformance-keeps-versions")
    return client


def with_versioning(place: Place, state: str = "enabled") -> dict[str, Any]:
    settings = {**place.settings, "versioning": state}
    return {"target": {"name": "target", "driver": place.driver, "settings": settings}}


def mix(*names: str) -> list[dict[str, Any]]:
    return [{"operation": name, "weight": 1.0} for name in names]


def run(place: Place, dataset: Dataset, operation: str, **changes: Any) -> trials.Result:
    result = trials.run(trials.document(place, dataset, operation, **changes))
    assert set(result.outcomes()) == {"ok"}, result.summary["error_examples"]
    return result


def test_each_version_is_read_by_its_id_until_it_is_deleted(
    place: Place, dataset: Dataset, client: Any
) -> None:
    """Two more versions of each object; the oldest goes, and the object stays as it was last."""
    changes = with_versioning(place)
    trials.prepare(place, dataset, **changes)
    run(place, dataset, "versioned_put", iterations=2, **changes)
    read = run(place, dataset, "get_version", iterations=3, **changes)
    assert read.summary["verified_bytes"] == 3 * dataset.bytes
    before = {bucket: len(versions(client, bucket)) for bucket in dataset.bucket_names}
    # The mark of each bucket has a version, too.
    assert sum(before.values()) == 3 * dataset.objects + dataset.buckets
    listed = run(place, dataset, "list_versions", **changes)
    assert listed.total("objects") > 0
    run(place, dataset, "delete_version", **changes)
    after = {bucket: len(versions(client, bucket)) for bucket in dataset.bucket_names}
    assert sum(after.values()) == 2 * dataset.objects + dataset.buckets
    run(place, dataset, "get", **changes)
    run(place, dataset, "delete", **changes)
    swept = trials.clean_up(place, dataset, **changes).summary
    assert (swept["places_left"], set(swept["buckets_deleted"])) == ([], set(dataset.bucket_names))


def test_a_mix_deletes_only_versions_that_it_wrote(
    place: Place, dataset: Dataset, client: Any
) -> None:
    changes = with_versioning(place)
    trials.prepare(place, dataset, **changes)
    names = ("versioned_put", "delete_version", "get_version", "list_versions", "get")
    # One client: while two work on one object, Ceph 16 hides it for a moment, and versitygw answers
    # 500 to a writer and 404 to a reader of a version that stays.
    load = {"kind": "closed", "clients": 1}
    stop = {"requests": 200, "duration_ns": None}
    result = run(place, dataset, "get", mix=mix(*names), stop=stop, load=load, **changes)
    counts = dict.fromkeys(names, 0)
    for row in result.rows:
        counts[row["operation"]] += row["requests"]
    assert all(counts.values())
    left = sum(len(versions(client, bucket)) for bucket in dataset.bucket_names)
    expected = dataset.objects + counts["versioned_put"] - counts["delete_version"]
    assert left == expected + dataset.buckets
    trials.clean_up(place, dataset, **changes)


def test_an_object_without_old_versions_has_none_to_delete(
    place: Place, dataset: Dataset, client: Any
) -> None:
    changes = with_versioning(place)
    trials.prepare(place, dataset, **changes)
    result = trials.run(trials.document(place, dataset, "delete_version", **changes))
    assert result.outcomes() == {"not_found": dataset.objects}
    run(place, dataset, "get", **changes)
    trials.clean_up(place, dataset, **changes)


def test_a_bucket_that_keeps_no_versions_is_found_out(place: Place, dataset: Dataset) -> None:
    trials.prepare(place, dataset)
    result = trials.run(trials.document(place, dataset, "versioned_put"))
    assert result.outcomes() == {"unsupported": dataset.objects}
    trials.clean_up(place, dataset)


def test_a_suspended_bucket_writes_over_the_version_without_an_id(
    place: Place, dataset: Dataset, client: Any
) -> None:
    changes = with_versioning(place, "suspended")
    trials.prepare(place, dataset, **changes)
    run(place, dataset, "versioned_put", **changes)
    left = sum(len(versions(client, bucket)) for bucket in dataset.bucket_names)
    assert left == dataset.objects + dataset.buckets
    swept = trials.clean_up(place, dataset, **changes).summary
    assert (swept["places_left"], set(swept["buckets_deleted"])) == ([], set(dataset.bucket_names))


def test_a_strangers_versions_of_a_key_of_the_dataset_stay(
    place: Place, dataset: Dataset, client: Any
) -> None:
    """They came after the claim, and lie under and over what the run wrote."""
    bucket, key = dataset.where(3)
    client.create_bucket(Bucket=bucket)
    keep_versions(client, bucket)
    changes = {**with_versioning(place), "allow_foreign": True}
    trials.prepare(place, dataset, **changes)
    theirs = client.put_object(Bucket=bucket, Key=key, Body=b"precious")["VersionId"]
    marker = client.delete_object(Bucket=bucket, Key=key)["VersionId"]
    trials.clean_up(place, dataset, **changes)
    assert versions(client, bucket) == sorted([(key, theirs), (key, marker)])
    drop(client, bucket)
