"""Objects whose paths are encrypted: names and listings open with another implementation."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidTag

from loadstone import _loadgen
from loadstone.script.table import Action
from loadstone.script.users import Users, make
from tests.conformance import test_scripts, trials
from tests.conformance.envelopes import Keys, opened_path
from tests.conformance.exemptions import needs
from tests.conformance.targets import Place
from tests.conformance.test_scripts import MANY, compiled, prepare_and_read, sweep
from tests.conformance.trials import Dataset
from tests.conformance.views import View

DRIVERS = {row["name"]: row for row in _loadgen.drivers()}
SIV = {"path_encryption": "aes-256-siv"}

pytestmark = needs("view")


@pytest.fixture(autouse=True)
def _can(place: Place) -> None:
    if not DRIVERS[place.driver]["facts"]["encrypts_paths"]:
        pytest.skip(f"driver {place.driver} has no paths to encrypt")


def stored_keys(view: View, bucket: str) -> dict[str, str]:
    """Return the names of a bucket's objects by their keys; names of files have no slash."""
    names = [name for name in view.objects(bucket) if name.startswith("object-")]
    return {name.replace("%2F", "/"): name for name in names}


def encrypted(document: dict[str, Any]) -> dict[str, Any]:
    document["dataset"] |= SIV
    return document


def test_a_dataset_is_found_under_its_sealed_names(place: Place, dataset: Dataset) -> None:
    assert place.view is not None
    can = set(DRIVERS[place.driver]["operations"])
    trials.run(encrypted(trials.document(place, dataset, "put", phase="prepare")))
    key = Keys(dataset.run, seed=7).of_paths()
    paths: set[str] = set()
    for bucket in dataset.bucket_names:
        paths |= {opened_path(name, "object-", key) for name in stored_keys(place.view, bucket)}
    assert paths == {f"object-{number}" for number in range(dataset.objects)}
    for operation in [
        operation for operation in ("get", "head", "list", "copy", "post") if operation in can
    ]:
        result = trials.run(encrypted(trials.document(place, dataset, operation)))
        assert result.outcomes() == {"ok": dataset.objects}, result.summary["error_examples"]
    other = encrypted(trials.document(place, dataset, "get", seed=8))
    absent = trials.run(other).outcomes()
    assert sum(absent.values()) == dataset.objects
    assert absent.keys() <= {"not_found", "http_404"}
    if "bulk_delete" in can:
        deleted = trials.run(encrypted(trials.document(place, dataset, "bulk_delete")))
        assert set(deleted.outcomes()) == {"ok"}, deleted.summary["error_examples"]
    cleaned = encrypted(trials.document(place, dataset, "delete", phase="clean-up", measured=False))
    assert trials.run(cleaned).summary["places_left"] == []
    assert not set(dataset.bucket_names) & set(place.view.buckets())


def document(place: Place, dataset: Dataset, *arguments: Any, **changes: Any) -> dict[str, Any]:
    return encrypted(test_scripts.document(place, dataset, *arguments, **changes))


def test_users_find_what_lies_under_sealed_names(
    place: Place, dataset: Dataset, tmp_path: Path
) -> None:
    assert place.view is not None
    users = 4
    settings = Users(users=users, actions=60, copies=3, size=4096, recipients=(1, 3))
    script = compiled(make(settings, seed=5), tmp_path)
    result = trials.run(document(place, dataset, script, script.measured))
    assert result.outcomes() == {"ok": script.measured.requests}, result.summary["error_examples"]
    keys = Keys(dataset.run, seed=7)
    spaces = {"private": 0, "inbox": 0}
    for bucket in dataset.bucket_names:
        for name in stored_keys(place.view, bucket):
            user, space, *rest = name.removeprefix("object-").split("/")
            if space not in spaces:
                assert "/".join([space, *rest]) in ("keystore", "profile/private", "profile/public")
                continue
            number = int(user.removeprefix("user-"))
            key = keys.of_paths(number if space == "private" else None)
            head = f"object-{user}/{space}/"
            plain = opened_path(name, head, key).removeprefix(head)
            assert plain.startswith("copy-")
            assert not set(plain.split("/")) & set(rest)
            spaces[space] += 1
            with pytest.raises(InvalidTag):
                opened_path(name, head, keys.of_paths(number + 1))
    assert all(spaces.values()), spaces
    trials.run(document(place, dataset, script, None, phase="clean-up", measured=False))
    assert not set(dataset.bucket_names) & set(place.view.buckets())


def rows() -> Iterable[Action]:
    """Yield one session's actions on objects that are there before; its lists are exact."""
    objects = [f"many/{number}" for number in range(MANY)] + ["kept/a", "alone/b"]
    for number, key in enumerate(objects, start=1):
        yield Action(number, 0, "HEAD", object=key, size=4096, expect="exists")
    for number, prefix in enumerate(("many/", "kept/", "alone/"), start=len(objects) + 1):
        yield Action(number, 0, "LIST", object=prefix)


def test_a_name_that_does_not_open_and_one_that_is_lost_are_found(
    place: Place, dataset: Dataset, tmp_path: Path
) -> None:
    assert place.view is not None
    dataset = Dataset(buckets=1, prefix=dataset.prefix, run=dataset.run)
    script = compiled(rows(), tmp_path)
    measured = document(place, dataset, script, script.measured)
    prepare_and_read(document(place, dataset, script, script.prepare, measured=False), measured)

    (bucket,) = dataset.bucket_names
    key = Keys(dataset.run, seed=7).of_paths()
    stored = stored_keys(place.view, bucket)
    names = {opened_path(path, "object-", key): name for path, name in stored.items()}
    place.view.delete(bucket, names["object-many/1"])
    # Another's plain name in one listing; in another, a name of ours that stands there altered.
    slash = "%2F" if "%2F" in names["object-kept/a"] else "/"
    foreign = names["object-kept/a"].rpartition(slash)[0] + f"{slash}foreign"
    place.view.write(bucket, foreign, b"another's")
    sound = names["object-alone/b"]
    altered = sound[:-3] + ("A" if sound[-3] != "A" else "B") + sound[-2:]
    place.view.write(bucket, altered, place.view.read(bucket, sound))
    place.view.delete(bucket, sound)
    result = trials.run(measured)
    outcomes = result.outcomes()
    assert outcomes.pop("ok") == script.measured.requests - 5
    # Two HEADs and a LIST miss what is lost; two LISTs hold names that do not open.
    assert outcomes == {"missing": 3, "corrupt": 2}
    assert "2 names" in result.summary["error_examples"]["corrupt"]

    swept = trials.run(document(place, dataset, script, None, phase="clean-up", measured=False))
    left = [path for path in place.view.objects(bucket) if path.startswith("object-")]
    assert sorted(left) == sorted([foreign, altered]), "nothing else of it is ours, or left"
    assert swept.summary["places_left"]
    for name in left:
        place.view.delete(bucket, name)
    sweep(place, dataset, script)
