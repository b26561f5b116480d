"""Object locks as load: what locks, what a lock forbids, and what a clean-up removes."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.conformance import store_under_test, trials
from tests.conformance.exemptions import needs
from tests.conformance.targets import Place, s3_place
from tests.conformance.test_store_faults import lies_in
from tests.conformance.test_versions import versions
from tests.conformance.trials import Dataset
from tests.conformance.views import S3View

LOCKED_S = 2
PROBE = "conformance-locks-objects"


def with_locks(place: Place) -> dict[str, Any]:
    settings = {**place.settings, "retention_s": LOCKED_S}
    target = {"name": "target", "driver": place.driver, "settings": settings}
    return {"target": target, "allow_foreign": False}


@pytest.fixture
def client(place: Place) -> Any:
    assert isinstance(place.view, S3View)
    client = place.view.client
    try:
        client.create_bucket(Bucket=PROBE, ObjectLockEnabledForBucket=True)
    except ClientError as error:
        pytest.skip(f"this store locks no objects: {error}")
    try:
        client.get_object_lock_configuration(Bucket=PROBE)
    except ClientError as error:
        pytest.skip(f"this store locks no objects: {error}")
    finally:
        client.delete_bucket(Bucket=PROBE)
    return client


def run(place: Place, dataset: Dataset, operation: str) -> None:
    result = trials.run(trials.document(place, dataset, operation, **with_locks(place)))
    assert result.outcomes() == {"ok": dataset.objects}, result.summary["error_examples"]


def clean_up(place: Place, dataset: Dataset) -> None:
    swept = trials.clean_up(place, dataset, **with_locks(place)).summary
    assert (swept["places_left"], set(swept["buckets_deleted"])) == ([], set(dataset.bucket_names))


@needs("view", "put_retention")
@pytest.mark.parametrize("lock", ["put_retention", "put_legal_hold", None])
def test_locked_objects_are_not_deleted_until_the_clean_up(
    place: Place, dataset: Dataset, client: Any, lock: str | None
) -> None:
    """A delete locks what is not locked; that of a lock's own is refused all the same."""
    trials.prepare(place, dataset, **with_locks(place))
    if lock is not None:
        run(place, dataset, lock)
    bucket, key = dataset.where(3)
    if lock == "put_legal_hold":
        head = client.head_object(Bucket=bucket, Key=key)
        assert head["ObjectLockLegalHoldStatus"] == "ON"
    run(place, dataset, "delete_locked")
    run(place, dataset, "get")
    clean_up(place, dataset)


@needs("view", "put_retention")
def test_a_hold_that_is_lifted_leaves_the_object_free(
    place: Place, dataset: Dataset, client: Any
) -> None:
    trials.prepare(place, dataset, **with_locks(place))
    run(place, dataset, "put_legal_hold")
    run(place, dataset, "lift_legal_hold")
    for bucket in dataset.bucket_names:
        for key, version in versions(client, bucket):
            client.delete_object(Bucket=bucket, Key=key, VersionId=version)
        assert versions(client, bucket) == []
    trials.clean_up(place, dataset, **with_locks(place))


@needs("view", "put_retention")
def test_locks_that_nobody_can_bypass_are_waited_for(
    place: Place, dataset: Dataset, client: Any
) -> None:
    """A retention in compliance mode, as a store's default may be, ends by itself alone."""
    trials.prepare(place, dataset, **with_locks(place))
    end_s = time.time() + LOCKED_S
    end = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(end_s))
    bucket, key = dataset.where(3)
    retention = {"Mode": "COMPLIANCE", "RetainUntilDate": end}
    client.put_object_retention(Bucket=bucket, Key=key, Retention=retention)
    clean_up(place, dataset)


def test_a_store_that_ignores_locks_is_found_out_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "lies.jsonl"
    lies = {"lock_ignored": 0.5, "prefix": "object-", "log": str(log)}
    with store_under_test.store(faults={"seed": 3, "lies": lies}) as url:
        place = s3_place(url, store_under_test.ACCESS_KEY, store_under_test.SECRET_KEY)
        for name, value in place.environment.items():
            monkeypatch.setenv(name, value)
        dataset = Dataset()
        trials.prepare(place, dataset, **with_locks(place))
        result = trials.run(trials.document(place, dataset, "delete_locked", **with_locks(place)))
        kinds = [lie["kind"] for lie in lies_in(log)]
        assert set(kinds) == {"lock_ignored"}
        assert 0 < len(kinds) < dataset.objects
        assert result.outcomes() == {
            "ok": dataset.objects - len(kinds), "lock_ignored": len(kinds),
        }  # fmt: skip
        clean_up(place, dataset)


@pytest.mark.parametrize(
    ("change", "key"),
    [
        (lambda trial: trial["target"]["settings"].pop("retention_s"), "put_retention"),
        (lambda trial: trial["target"]["settings"].update(retention_s=61), "retention_s"),
        (lambda trial: trial["target"]["settings"].update(versioning="suspended"), "retention_s"),
        (lambda trial: trial.update(allow_foreign=True), "retention_s"),
    ],
)
def test_locks_are_made_only_where_they_are_asked_for_and_end(
    change: Callable[[dict[str, Any]], Any], key: str
) -> None:
    place = s3_place("http://127.0.0.1:1", "key", "secret")
    trial = trials.document(place, Dataset(), "put_retention", **with_locks(place))
    change(trial)
    with pytest.raises(ValueError, match=key):
        trials.run(trial)
