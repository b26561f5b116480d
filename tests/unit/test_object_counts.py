"""How many objects there must be after trials of which something is not known."""

from typing import Any

import pytest

from loadstone.analysis.judgements.object_counts import Bounds, Place, RequestCounts


def document(*operations: str, **changes: Any) -> Any:
    return {
        "dataset": {"objects": 100, "bucket_prefix": "b-"},
        "mix": [{"operation": operation, "weight": 1.0} for operation in operations],
        "options": {"bulk_keys": 10},
        "keys": {"order": "sequential"},
        "iterations": 1,
        **changes,
    }


def done(good: int, failed: int = 0, good_objects: int = 0) -> RequestCounts:
    return RequestCounts(good=good, failed=failed, good_objects=good_objects)


@pytest.mark.parametrize(
    ("trials", "expected"),
    [
        ([("put", done(100))], (100, 100)),
        ([("put", done(40))], (40, 40)),
        # A put that failed may have been done.
        ([("put", done(90, 10))], (90, 100)),
        ([("put", done(35, 5))], (35, 40)),
        # Round after round over the same objects.
        ([("put", done(250))], (100, 100)),
        ([("put", done(100)), ("get", done(500, 7)), ("put", done(95, 5))], (100, 100)),
        ([("put", done(100)), ("delete", done(100))], (0, 0)),
        ([("put", done(100)), ("delete", done(30))], (70, 70)),
        ([("put_if_absent", done(100))], (100, 100)),
        # A race that is lost says that the object is there.
        ([("put_if_absent", done(60, 40))], (60, 100)),
        ([("put", done(100)), ("put_if_match", done(60, 40))], (100, 100)),
        ([("put", done(100)), ("delete_if_match", done(30))], (70, 70)),
        ([("put", done(90, 10)), ("delete", done(90, 10))], (0, 10)),
        ([("put", done(100)), ("bulk_delete", done(9, 1, 90))], (0, 10)),
        ([("put", done(100)), ("copy", done(98, 2))], (198, 200)),
        ([("put", done(100)), ("post", done(100)), ("list", done(1))], (100, 100)),
    ],
)
def test_bounds_hold_what_may_be_there(
    trials: list[tuple[str, RequestCounts]], expected: tuple[int, int]
) -> None:
    place = Place()
    for operation, requests in trials:
        place.note(document(operation), {operation: requests})
    assert place.is_known
    assert place.expected == Bounds(*expected)


def test_mixes_put_new_objects_and_delete_only_those() -> None:
    place = Place()
    place.note(document("put"), {"put": done(100)})
    mix = {"get": done(500), "put": done(50, 4), "delete": done(20, 3)}
    place.note(document("get", "put", "delete"), mix)
    assert place.expected == Bounds(127, 134)
    on_condition = {"put_if_absent": done(10, 1), "delete_if_match": done(4)}
    place.note(document("put_if_absent", "delete_if_match"), on_condition)
    assert place.expected == Bounds(133, 141)


@pytest.mark.parametrize("keys", [{"order": "uniform"}, {"order": "zipf"}])
def test_by_chance_no_object_is_sure_to_be_put_or_deleted(keys: dict[str, str]) -> None:
    place = Place()
    place.note(document("put", keys=keys), {"put": done(60)})
    assert place.expected == Bounds(0, 60)


@pytest.mark.parametrize(
    "unknown",
    [
        document("put", script={"files": []}),
        document("multipart_put"),
        document("write"),
        document("get", "copy"),
        document("put", dataset={"objects": 50, "bucket_prefix": "b-"}),
    ],
)
def test_unclear_changes_leave_no_expectation(unknown: Any) -> None:
    place = Place()
    place.note(document("put"), {"put": done(100)})
    place.note(unknown, {share["operation"]: done(1) for share in unknown["mix"]})
    assert not place.is_known
