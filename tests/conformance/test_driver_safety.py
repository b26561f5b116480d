"""Safety of every driver: wrong bytes are detected, and foreign data is not changed."""

import errno
import json
import urllib.parse
import uuid
from dataclasses import replace

import pytest

from loadstone import _loadgen
from tests.conformance import trials
from tests.conformance.exemptions import has, needs
from tests.conformance.targets import PASSWORD, SECRET_KEY, Place
from tests.conformance.trials import SECOND_NS, Dataset
from tests.conformance.views import S3View, SwiftView
from tests.system.hostile_server import Exchange, hostile


@needs("view")
def test_one_flipped_bit_is_found(place: Place, dataset: Dataset) -> None:
    """The read of the altered object fails as a mismatch; the other reads succeed."""
    trials.prepare(place, dataset)
    bucket, key = dataset.where(3)
    content = bytearray(place.view.read(bucket, key))
    content[2000] ^= 1
    place.view.write(bucket, key, bytes(content))
    _expect_mismatch(trials.run(trials.document(place, dataset, "get")), dataset, "corrupt")


@needs("view")
def test_a_shortened_object_is_found(place: Place, dataset: Dataset) -> None:
    """A read of an object that the target itself reports as shorter fails."""
    trials.prepare(place, dataset)
    bucket, key = dataset.where(3)
    place.view.write(bucket, key, place.view.read(bucket, key)[:-96])
    result = trials.run(trials.document(place, dataset, "get"))
    assert result.outcomes()["ok"] == dataset.objects - 1
    assert result.summary["failed"] == 1


@needs("view")
def test_the_content_of_another_object_is_found(place: Place, dataset: Dataset) -> None:
    """Valid bytes of another object are a mismatch."""
    trials.prepare(place, dataset)
    place.view.write(*dataset.where(3), place.view.read(*dataset.where(4)))
    _expect_mismatch(trials.run(trials.document(place, dataset, "get")), dataset, "misdirected")


@needs("view")
def test_the_content_of_an_earlier_version_is_found(place: Place, dataset: Dataset) -> None:
    """After the dataset is overwritten, the previous content counts as stale."""
    trials.prepare(place, dataset)
    old = place.view.read(*dataset.where(3))
    again = trials.document(place, dataset, "put", phase="prepare")
    again["dataset"]["version"] = 2
    trials.run(again)
    place.view.write(*dataset.where(3), old)
    read = trials.document(place, dataset, "get")
    read["dataset"]["version"] = 2
    _expect_mismatch(trials.run(read), dataset, "stale")


@needs("view")
def test_unverified_reads_are_not_reported_as_verified(place: Place, dataset: Dataset) -> None:
    """A campaign with verify: 0 counts no verified reads."""
    trials.prepare(place, dataset)
    result = trials.run(trials.document(place, dataset, "get", verify=0.0))
    assert result.outcomes() == {"ok": dataset.objects}
    assert result.summary["verified_bytes"] == 0


@needs("view")
def test_a_missing_object_is_a_failure_with_a_kind(place: Place, dataset: Dataset) -> None:
    """A read of a missing object counts as failed, without bytes."""
    trials.prepare(place, dataset)
    place.view.delete(*dataset.where(5))
    result = trials.run(trials.document(place, dataset, "get"))
    outcomes = result.outcomes()
    assert outcomes.pop("ok") == dataset.objects - 1
    assert list(outcomes.values()) == [1]
    assert not {"corrupt", "truncated", "protocol"} & set(outcomes)
    assert result.summary["bytes"] == dataset.bytes - dataset.size_bytes


@needs("view")
def test_a_foreign_bucket_is_refused(place: Place, dataset: Dataset) -> None:
    """Nothing is written to a bucket that loadstone did not create, and the error says so."""
    stranger = dataset.bucket_names[1]
    place.view.make_bucket(stranger)
    place.view.write(stranger, "theirs", b"precious")
    with pytest.raises(_loadgen.TargetError) as caught:
        trials.prepare(place, dataset)
    assert caught.value.kind == "not-ours"
    assert stranger in str(caught.value)
    assert set(place.view.objects(stranger)) == {"theirs"}


@needs("view")
def test_nothing_is_deleted_from_a_foreign_bucket(place: Place, dataset: Dataset) -> None:
    """This includes objects with names of the dataset, and loads of deletes."""
    stranger, key = dataset.where(1)
    place.view.make_bucket(stranger)
    place.view.write(stranger, key, b"precious")
    with pytest.raises(_loadgen.TargetError) as caught:
        trials.run(trials.document(place, dataset, "delete"))
    assert caught.value.kind == "not-ours"
    assert stranger in str(caught.value)
    assert place.view.read(stranger, key) == b"precious"


@needs("view", "hidden_uploads")
def test_clean_up_aborts_our_unfinished_uploads(place: Place, dataset: Dataset) -> None:
    """Uploads left by a killed trial are aborted; a foreign upload stays."""
    assert isinstance(place.view, S3View)
    trials.prepare(place, dataset)
    bucket, key = dataset.where(3)
    client = place.view.client
    for name in (key, "theirs"):
        client.create_multipart_upload(Bucket=bucket, Key=name)
    place.view.write(bucket, "keeps-the-bucket", b"precious")
    trials.clean_up(place, dataset)
    left = client.list_multipart_uploads(Bucket=bucket).get("Uploads", [])
    assert [upload["Key"] for upload in left] == ["theirs"]


@needs("view", "hidden_uploads")
def test_clean_up_aborts_our_uploads_in_a_foreign_bucket(place: Place, dataset: Dataset) -> None:
    """Once the run has claimed its keys, clean-up aborts all uploads of these keys."""
    assert isinstance(place.view, S3View)
    bucket, key = dataset.where(3)
    client = place.view.client
    place.view.make_bucket(bucket)
    place.view.write(bucket, "theirs", b"precious")
    trials.prepare(place, dataset, allow_foreign=True)
    for name in (key, "theirs"):
        client.create_multipart_upload(Bucket=bucket, Key=name)
    swept = trials.clean_up(place, dataset, allow_foreign=True)
    left = client.list_multipart_uploads(Bucket=bucket).get("Uploads", [])
    assert [upload["Key"] for upload in left] == ["theirs"]
    assert swept.summary["places_left"] == swept.summary["buckets_left"] == []
    assert swept.summary["buckets_foreign"] == [bucket]


@needs("view")
def test_a_foreign_bucket_is_used_only_when_allowed_and_never_deleted(
    place: Place, dataset: Dataset
) -> None:
    """With allow_foreign, objects are written there; clean-up removes ours and keeps theirs."""
    stranger = dataset.bucket_names[1]
    place.view.make_bucket(stranger)
    place.view.write(stranger, "theirs", b"precious")
    written = trials.prepare(place, dataset, allow_foreign=True)
    assert written.outcomes() == {"ok": dataset.objects}
    trials.clean_up(place, dataset, allow_foreign=True)
    assert place.view.read(stranger, "theirs") == b"precious"
    assert set(place.view.objects(stranger)) == {"theirs"}
    assert dataset.bucket_names[0] not in place.view.buckets()


@needs("view", "writers")
def test_foreign_objects_put_after_the_claim_are_kept(place: Place, dataset: Dataset) -> None:
    """Puts of new objects are conditional; our objects may be overwritten and deleted."""
    changes = [("put", 1), ("put", 2)]
    changes += [
        change
        for change in (("multipart_put", 3), ("post", 3), ("write", 2))
        if has(place.driver, change[0])
    ]
    stranger, _ = dataset.where(1)
    place.view.make_bucket(stranger)
    place.view.write(stranger, "theirs", b"precious")
    trials.prepare(place, dataset, allow_foreign=True)
    more = replace(dataset, objects=dataset.objects + 2)
    _, key = more.where(more.objects - 1)
    place.view.write(stranger, key, b"precious")

    def outcomes(operation: str, version: int = 1) -> dict[str, int]:
        trial = trials.document(place, more, operation, allow_foreign=True)
        trial["dataset"]["version"] = version
        trial["options"]["part_bytes"] = place.smallest_part_bytes
        # An object is one block.
        trial["options"]["range_bytes"] = dataset.size_bytes
        return trials.run(trial).outcomes()

    ours = more.objects - 1
    for operation, version in changes:
        assert outcomes(operation, version) == {"ok": ours, "exists": 1}, operation
    assert outcomes("delete") == {"ok": ours, "denied": 1}
    if has(place.driver, "append"):
        assert outcomes("append") == {"ok": ours, "exists": 1}
    assert outcomes("put") == {"ok": ours, "exists": 1}
    swept = trials.clean_up(place, more, allow_foreign=True)
    assert {row["kind"] for row in swept.summary["places_left"]} == {"other_objects"}
    assert set(place.view.objects(stranger)) == {"theirs", key}
    assert place.view.read(stranger, key) == b"precious"


@needs("view", "writers", "copy")
def test_copies_and_segments_do_not_overwrite_foreign_objects(
    place: Place, dataset: Dataset
) -> None:
    """Copies and the segments of Swift are separate objects with derived names."""
    stranger, key = dataset.where(1)
    place.view.make_bucket(stranger)
    place.view.write(stranger, "theirs", b"precious")
    trials.prepare(place, dataset, allow_foreign=True)
    derived = {"copy": f"{key}.copy"}
    if isinstance(place.view, SwiftView):
        derived["multipart_put"] = f"{key}.part-0"
    for name in derived.values():
        place.view.write(stranger, name, b"precious")
    for operation in derived:
        trial = trials.document(place, dataset, operation, allow_foreign=True)
        trial["options"]["part_bytes"] = place.smallest_part_bytes
        outcomes = trials.run(trial).outcomes()
        assert outcomes == {"ok": dataset.objects - 1, "exists": 1}, operation
    trials.clean_up(place, dataset, allow_foreign=True)
    assert set(place.view.objects(stranger)) == {"theirs", *derived.values()}
    for name in derived.values():
        assert place.view.read(stranger, name) == b"precious"


@needs("view", "hidden_uploads")
def test_a_foreign_upload_is_not_aborted(place: Place, dataset: Dataset) -> None:
    """A foreign upload under our keys refuses the claim, although listings of objects lack it."""
    assert isinstance(place.view, S3View)
    stranger, key = dataset.where(3)
    client = place.view.client
    place.view.make_bucket(stranger)
    client.create_multipart_upload(Bucket=stranger, Key=key)
    with pytest.raises(_loadgen.TargetError) as caught:
        trials.prepare(place, dataset, allow_foreign=True)
    assert caught.value.kind == "not-ours"
    assert key in str(caught.value)
    trials.clean_up(place, dataset, allow_foreign=True)
    left = client.list_multipart_uploads(Bucket=stranger).get("Uploads", [])
    assert [upload["Key"] for upload in left] == [key]


@needs("view")
def test_two_targets_of_one_store_do_not_share_buckets(place: Place, dataset: Dataset) -> None:
    """One bucket under two addresses is recognised, because its mark names the target."""
    trials.prepare(place, dataset)
    target = trials.document(place, dataset, "put")["target"] | {"name": "second"}
    with pytest.raises(_loadgen.TargetError) as caught:
        trials.prepare(place, dataset, target=target)
    assert caught.value.kind == "of-another-run"
    swept = trials.clean_up(place, dataset, target=target)
    assert {row["kind"] for row in swept.summary["places_left"]} == {"other_run"}
    assert place.view.objects(dataset.bucket_names[0])


@needs("view")
def test_clean_up_leaves_a_strangers_object_in_our_bucket(place: Place, dataset: Dataset) -> None:
    """Our bucket stays, with the foreign object in it."""
    trials.prepare(place, dataset)
    ours = dataset.bucket_names[0]
    place.view.write(ours, "theirs", b"precious")
    trials.clean_up(place, dataset)
    assert place.view.read(ours, "theirs") == b"precious"
    assert not [key for key in place.view.objects(ours) if key.startswith("object-")]


@needs("view", "http")
def test_an_object_put_between_the_last_listing_and_the_removal_stays(
    place: Place, dataset: Dataset
) -> None:
    """A place with a new object is not removed; it stays, and keeps our mark."""
    trials.prepare(place, dataset)
    ours = dataset.bucket_names[0]
    url = urllib.parse.urlsplit(place.settings.get("auth_url") or place.settings["endpoints"][0])

    def put_in_between(exchange: Exchange) -> bool:
        path = urllib.parse.urlsplit(exchange.request.path).path
        if exchange.request.method == "DELETE" and path.rstrip("/").endswith(f"/{ours}"):
            place.view.write(ours, "theirs", b"precious")
        return False

    storage = url.port
    if isinstance(place.view, SwiftView):
        storage = urllib.parse.urlsplit(place.view.client.url).port
    with hostile(storage, put_in_between) as proxy:
        target = {"name": "target", "driver": place.driver}
        target["settings"] = {**place.settings, "endpoints": [proxy.url]}
        swept = trials.clean_up(place, dataset, target=target)
    assert [row["place"] for row in swept.summary["places_left"]] == [ours]
    assert place.view.read(ours, "theirs") == b"precious"
    place.view.delete(ours, "theirs")
    swept = trials.clean_up(place, dataset)
    assert (swept.summary["places_left"], ours in place.view.buckets()) == ([], False)


@needs("view", "claims")
@pytest.mark.parametrize("is_derived", [False, True], ids=["object", "copy"])
def test_a_strangers_object_with_a_key_of_the_dataset_survives_allow_foreign(
    place: Place, dataset: Dataset, is_derived: bool
) -> None:
    """allow_foreign does not permit loadstone to overwrite or delete foreign objects."""
    stranger, key = dataset.where(1)
    key += ".copy" if is_derived and has(place.driver, "copy") else ""
    place.view.make_bucket(stranger)
    place.view.write(stranger, key, b"precious")
    with pytest.raises(_loadgen.TargetError) as caught:
        trials.prepare(place, dataset, allow_foreign=True)
    assert caught.value.kind == "not-ours"
    assert stranger in str(caught.value)
    assert key in str(caught.value)
    trials.clean_up(place, dataset, allow_foreign=True)
    assert place.view.read(stranger, key) == b"precious"


@needs("view", "claims")
def test_a_strangers_object_with_a_number_that_a_mix_may_put_survives_allow_foreign(
    place: Place, dataset: Dataset
) -> None:
    """A mix has no upper bound of numbers, so any key of the prefix refuses the claim."""
    ticket_base = 1 << 34
    beyond = dataset.objects + ticket_base + 7
    stranger, key = dataset.where(beyond)
    place.view.make_bucket(stranger)
    place.view.write(stranger, key, b"precious")
    with pytest.raises(_loadgen.TargetError) as caught:
        trials.prepare(place, dataset, allow_foreign=True)
    assert caught.value.kind == "not-ours"
    assert key in str(caught.value)
    first = dataset.objects + ticket_base
    ownership = {"adopt": [], "runs": [], "written": [[first, first + ticket_base]]}
    trials.clean_up(place, dataset, allow_foreign=True, ownership=ownership)
    assert place.view.read(stranger, key) == b"precious"


@needs("view", "claims")
def test_clean_up_leaves_similar_keys_that_the_run_cannot_have_written(
    place: Place, dataset: Dataset
) -> None:
    """Numbers beyond the dataset, other buckets and other spellings are foreign."""
    trials.prepare(place, dataset)
    beyond, bucket = dataset.objects, dataset.bucket_names[0]
    theirs = [f"object-{beyond}", "object-1", "object-00", f"object-{beyond}.copy"]
    for key in theirs:
        place.view.write(bucket, key, b"precious")
    result = trials.clean_up(place, dataset)
    assert set(theirs) <= set(place.view.objects(bucket))
    assert result.summary["objects_swept"] == dataset.objects
    left = {row["place"]: row for row in result.summary["places_left"]}
    assert set(left) == {bucket} == set(result.summary["buckets_left"])
    assert left[bucket]["kind"] == "other_objects"
    if place.driver != "rados":
        assert left[bucket]["objects"] == len(theirs)


@needs("view", "claims")
def test_a_bucket_of_another_run_is_refused_and_not_cleaned(place: Place, dataset: Dataset) -> None:
    """Kept data of a run is used or removed only by that run's clean-up, or if it is named."""
    trials.prepare(place, dataset)
    before = {name: place.view.objects(name) for name in dataset.bucket_names}
    other = uuid.uuid4().hex
    for allow_foreign in (False, True):
        with pytest.raises(_loadgen.TargetError) as caught:
            trials.prepare(place, dataset, run=other, allow_foreign=allow_foreign)
        assert caught.value.kind == "of-another-run"
        assert dataset.run in str(caught.value)
    swept = trials.clean_up(place, dataset, run=other, allow_foreign=True)
    assert [row["kind"] for row in swept.summary["places_left"]] == ["other_run"] * 2
    assert {name: place.view.objects(name) for name in dataset.bucket_names} == before
    ownership = {"adopt": [], "runs": [dataset.run], "written": []}
    swept = trials.clean_up(place, dataset, run=other, ownership=ownership)
    assert set(swept.summary["buckets_deleted"]) == set(dataset.bucket_names)


@needs("view", "claims")
def test_places_are_journalled_before_they_are_created(place: Place, dataset: Dataset) -> None:
    """The journal gets all of them in one call; if it fails, nothing has been created."""
    document = json.dumps(trials.document(place, dataset, "put", phase="prepare"))
    before = place.view.buckets()
    with pytest.raises(OSError, match="names: 2") as caught:
        _loadgen.run_trial(document, trials.refuse_the_intent)
    assert caught.value.errno == errno.ENOSPC
    assert place.view.buckets() == before
    assert trials.intents_of(document) == [dataset.bucket_names]
    assert trials.intents_of(document) == []
    trials.clean_up(place, dataset)


@needs("view", "claims", "bare_places")
def test_an_unmarked_bucket_after_a_kill_is_adopted_by_its_run_only(
    place: Place, dataset: Dataset
) -> None:
    """A journalled and empty bucket is marked and used, or removed."""
    for name in dataset.bucket_names:
        place.view.make_bucket(name)
    with pytest.raises(_loadgen.TargetError):
        trials.prepare(place, dataset)
    ownership = {"adopt": dataset.bucket_names, "runs": [], "written": []}
    trials.prepare(place, dataset, ownership=ownership)
    trials.clean_up(place, dataset)
    assert not place.view.buckets() & set(dataset.bucket_names)
    for name in dataset.bucket_names:
        place.view.make_bucket(name)
    trials.clean_up(place, dataset, ownership=ownership)
    assert not place.view.buckets() & set(dataset.bucket_names)


@needs("view")
def test_clean_up_twice_is_not_a_failure(place: Place, dataset: Dataset) -> None:
    """A missing bucket is the goal of a clean-up, not a failure."""
    trials.prepare(place, dataset)
    trials.clean_up(place, dataset)
    again = trials.clean_up(place, dataset)
    assert again.summary["state"] == "finished"
    assert again.summary["failed"] == 0


def test_a_stopped_trial_ends_soon_and_keeps_its_rows(place: Place, dataset: Dataset) -> None:
    """A trial of ten minutes that is stopped early is marked, and its rows are complete."""
    trials.prepare(place, dataset)
    stop = {"requests": None, "duration_ns": 600 * SECOND_NS}
    document = trials.document(place, dataset, place.read, stop=stop)
    result = trials.run(document, stops_once_begun=True)
    assert result.summary["state"] == "interrupted"
    assert result.summary["requests"] == sum(row["requests"] for row in result.rows) > 0
    trials.clean_up(place, dataset)


def test_an_operation_that_the_driver_lacks_is_refused(place: Place, dataset: Dataset) -> None:
    """The check names the operation and the driver before any load starts."""
    can = {row["name"]: set(row["operations"]) for row in _loadgen.drivers()}[place.driver]
    for lacking in {row["name"] for row in _loadgen.operations()} - can:
        with pytest.raises(ValueError, match=lacking):
            _loadgen.check(json.dumps(trials.document(place, dataset, lacking)))


def test_connections_can_be_opened_for_each_request(place: Place, dataset: Dataset) -> None:
    """The record shows that no connection was used twice, if the driver has connections."""
    trials.prepare(place, dataset)
    trial = trials.run(trials.document(place, dataset, place.read))
    fresh = trials.run(trials.document(place, dataset, place.read, connections="per_request"))
    if trial.summary["connections_opened"] == 0:
        assert fresh.summary["connections_opened"] == 0
    else:
        assert trial.summary["connections_opened"] < dataset.objects
        assert fresh.summary["connections_opened"] >= dataset.objects
    trials.clean_up(place, dataset)


@needs("view", "secrets")
def test_no_secret_is_printed(
    place: Place, dataset: Dataset, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture
) -> None:
    """Summaries, errors and outputs contain neither the right secret nor a wrong one."""
    texts = [json.dumps(trials.prepare(place, dataset).summary)]
    texts.append(json.dumps(trials.clean_up(place, dataset).summary))
    for name in place.environment:
        monkeypatch.setenv(name, "a-wrong-secret-never-to-be-printed")
    try:
        texts.append(json.dumps(trials.prepare(place, dataset).summary))
    except _loadgen.TargetError as error:
        texts.append(str(error))
    captured = capfd.readouterr()
    text = "\n".join([*texts, captured.out, captured.err])
    secrets = [*place.environment.values(), SECRET_KEY, PASSWORD]
    assert not [secret for secret in [*secrets, "a-wrong-secret"] if secret in text]


@needs("secrets")
def test_a_wrong_secret_is_refused_clearly(
    place: Place, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No load starts with credentials that the target refuses."""
    for name in place.environment:
        monkeypatch.setenv(name, "a-wrong-secret")
    with pytest.raises(_loadgen.TargetError) as caught:
        trials.prepare(place, dataset)
    assert caught.value.kind == ("wrong-signature" if place.driver == "s3" else "denied")


@needs("secrets")
def test_a_missing_secret_is_named(
    place: Place, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names the environment variable, so that the user knows what to set."""
    for name in place.environment:
        monkeypatch.delenv(name)
    with pytest.raises(_loadgen.TargetError) as caught:
        trials.prepare(place, dataset)
    assert caught.value.kind == "secret-absent"
    assert any(name in str(caught.value) for name in place.environment)


@needs("view")
def test_objects_of_another_run_are_recognised(place: Place, dataset: Dataset) -> None:
    """Valid objects of an earlier run with the same names are a mismatch."""
    trials.prepare(place, dataset)
    result = trials.run(trials.document(place, dataset, "get", run=32 * "0"))
    assert result.outcomes() == {"foreign": dataset.objects}


def _expect_mismatch(result: trials.Result, dataset: Dataset, kind: str) -> None:
    assert result.outcomes() == {"ok": dataset.objects - 1, kind: 1}
    assert result.summary["mismatches"][kind] == 1
    assert result.summary["failed"] == 1
