"""Scripts of users' actions: what a target holds is found as expected, and what it lost is not."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from loadstone import _loadgen
from loadstone.script.compiled import Compiled, CompiledScript, check, compile_script
from loadstone.script.table import Action
from loadstone.script.users import Users, make
from tests.conformance import trials
from tests.conformance.exemptions import needs
from tests.conformance.targets import Place
from tests.conformance.trials import Dataset

SIZE = 4096
NEEDED = {"put", "get", "head", "delete", "list"}
DRIVERS = {row["name"]: set(row["operations"]) for row in _loadgen.drivers()}
# Several pages of the documents' 100 keys, and a rest.
MANY = 230


@pytest.fixture(autouse=True)
def _can(place: Place) -> None:
    if lacks := NEEDED - DRIVERS[place.driver]:
        pytest.skip(f"driver {place.driver} lacks {sorted(lacks)}")


def compiled(actions: Iterable[Action], folder: Path) -> CompiledScript:
    return compile_script(check(actions, "a test's"), folder)


def document(
    place: Place, dataset: Dataset, script: CompiledScript, file: Compiled | None, **changes: Any
) -> dict[str, Any]:
    """Write a trial that follows a script's file, or one that cleans up after it."""
    document = trials.document(place, dataset, "delete", **{"phase": "script", **changes})
    document["dataset"] |= {
        "objects": script.measured.subjects,
        "size": {"kind": "fixed", "bytes": script.largest_bytes},
    }
    document["script"] = {
        "subjects": {"path": str(script.subjects), "sha256": script.subjects_sha256},
        "requests": None,
    }
    if file is not None:
        document["mix"] = [{"operation": name, "weight": n} for name, n in file.shares.items()]
        document["script"]["requests"] = {"path": str(file.path), "sha256": file.sha256}
        document["stop"]["requests"] = file.requests
    return document


def prepare_and_read(prepare: dict[str, Any], measured: dict[str, Any]) -> None:
    """Run what puts a script's objects, and the script: nothing of a sound target fails."""
    for trial in (prepare, measured):
        result = trials.run(trial)
        expected = {"ok": trial["stop"]["requests"]}
        assert result.outcomes() == expected, result.summary["error_examples"]


def sweep(place: Place, dataset: Dataset, script: CompiledScript) -> None:
    """Clean up, and see that nothing is left."""
    swept = trials.run(
        document(place, dataset, script, None, phase="clean-up", measured=False)
    ).summary
    assert swept["places_left"] == [], swept
    if place.view is not None:
        assert not set(dataset.bucket_names) & set(place.view.buckets())


def test_users_find_all_that_they_wrote(place: Place, dataset: Dataset, tmp_path: Path) -> None:
    settings = Users(users=4, actions=60, copies=3, size=SIZE, recipients=(1, 3))
    script = compiled(make(settings, seed=5), tmp_path)
    # Nothing is expected of a target that keeps nothing.
    verify = 1.0 if place.view is not None else 0.0
    result = trials.run(document(place, dataset, script, script.measured, verify=verify))
    assert result.outcomes() == {"ok": script.measured.requests}, result.summary["error_examples"]
    sweep(place, dataset, script)


def rows() -> Iterable[Action]:
    """Yield one session's actions on objects that are there before; its lists are exact."""
    objects = [f"many/{number}" for number in range(MANY)] + ["kept/a", "kept/b"]
    for number, key in enumerate(objects, start=1):
        yield Action(number, 0, "HEAD", object=key, size=SIZE, expect="exists")
    wanted = ("READ many/0", "READ many/1", "READ kept/a", "LIST many/", "LIST kept/")
    for number, text in enumerate(wanted, start=len(objects) + 1):
        action, key = text.split()
        yield Action(number, 0, action, object=key)


@needs("view")
def test_changes_by_others_are_found(place: Place, dataset: Dataset, tmp_path: Path) -> None:
    assert place.view is not None
    dataset = Dataset(buckets=1, prefix=dataset.prefix, run=dataset.run)
    script = compiled(rows(), tmp_path)
    assert script.prepare is not None
    measured = document(place, dataset, script, script.measured)
    prepare_and_read(document(place, dataset, script, script.prepare, measured=False), measured)

    (bucket,) = dataset.bucket_names
    name = {key.replace("%2F", "/"): key for key in place.view.objects(bucket)}
    lost, changed = name["object-many/1"], name["object-kept/a"]
    added = changed.removesuffix("a") + "foreign"
    place.view.delete(bucket, lost)
    place.view.write(bucket, changed, bytes(SIZE))
    place.view.write(bucket, added, b"another's")
    outcomes = trials.run(measured).outcomes()
    # A HEAD, a READ and the LIST miss the lost object; the LIST finds the added one.
    assert outcomes.pop("ok") == script.measured.requests - 5
    assert outcomes == {"missing": 3, "corrupt": 1, "extra": 1}

    swept = trials.run(document(place, dataset, script, None, phase="clean-up", measured=False))
    assert place.view.objects(bucket).keys() >= {added}, "we delete what we wrote, nothing else"
    assert swept.summary["places_left"], "the bucket is still there"
    place.view.delete(bucket, added)
    sweep(place, dataset, script)
