"""Data left by a run is judged place by place, also for earlier builds and other tools."""

from typing import Any

import pytest

from loadstone.campaign.planning import beyond
from loadstone.campaign.remains import (
    REMADE,
    is_removed,
    remains,
    unknown_drivers,
    with_remade,
)
from loadstone.cli.commands.load.clean import account, left_behind
from tests.unit.campaign_drivers import DRIVERS
from tests.unit.test_plan import planned

TEXT = "dataset: {objects: 10, size: 1, buckets: 2}\nload: {threads: 1}\nphases: [put]\n"
DONE = {"state": "finished", "failed": 0, "requests": 10, "objects_swept": 0}
GONE = {**DONE, "buckets_deleted": ["a", "b"], "buckets_left": [], "places_left": []}


def left(kind: str, **more: Any) -> dict[str, Any]:
    place = {"place": "a", "kind": kind, "reason": "why", "objects": None, "has_more": False}
    return {**GONE, "buckets_deleted": ["b"], "buckets_left": ["a"], "places_left": [place | more]}


@pytest.mark.parametrize(
    ("summary", "is_gone"),
    [
        (GONE, True),
        # Ours are gone from a foreign place, which stays: neither deleted nor left.
        ({**GONE, "buckets_deleted": []}, True),
        (left("other_run"), True),
        (left("other_objects"), False),
        (left("foreign"), False),
        (left("error"), False),
        # A request failed, and its bucket went all the same.
        ({**GONE, "failed": 1}, True),
        ({**GONE, "failed": 1, "buckets_deleted": ["b"]}, False),
        # A place that never existed is not deleted, but counts as gone.
        ({**GONE, "failed": 1, "buckets_deleted": ["b"], "buckets_absent": ["a"]}, True),
        ({**GONE, "state": "interrupted"}, False),
        ({key: GONE[key] for key in GONE if key != "places_left"} | {"buckets_left": ["a"]}, False),
    ],
)
def test_removed_places_are_counted(summary: dict[str, Any], is_gone: bool) -> None:
    plan = planned(TEXT).documents()
    put, clean_up = plan
    begun = {put["id"]: {"started_unix_ns": 1}, clean_up["id"]: {**summary, "started_unix_ns": 2}}
    assert (remains(plan, begun, DRIVERS) == []) is is_gone
    assert is_removed(summary, clean_up) is is_gone


def test_a_place_left_by_a_clean_up_is_reported_with_the_reason() -> None:
    plan = planned(TEXT).documents()
    put, clean_up = plan
    for kind in ("hidden", "other_objects"):
        summary = {**left(kind), "started_unix_ns": 2}
        begun = {put["id"]: {"started_unix_ns": 1}, clean_up["id"]: summary}
        (left_dataset,) = remains(plan, begun, DRIVERS)
        assert (left_dataset.reasons, left_dataset.has_versions) == (("why",), kind == "hidden")
    (left_dataset,) = remains(plan, {put["id"]: {}}, DRIVERS)
    assert (left_dataset.reasons, left_dataset.has_versions) == ((), False)


def test_a_place_of_ours_that_others_have_made_again_is_left_and_said_to_be_theirs() -> None:
    put, clean_up = planned(TEXT).documents()
    for summary in ({**GONE, "buckets_deleted": [], "buckets_foreign": ["a"]}, left("foreign")):
        for created, later, is_told in (
            (["a"], [], True),
            (["b"], [], False),
            (["a"], ["a"], False),
        ):
            begun = {
                put["id"]: {
                    "started_unix_ns": 1, "buckets_created": created, "buckets_foreign": later,
                },
                clean_up["id"]: {**summary, "started_unix_ns": 2},
            }  # fmt: skip
            datasets = remains([put, clean_up], begun, DRIVERS)
            assert any(dataset.reasons == (REMADE,) for dataset in datasets) is is_told
            by_hand = with_remade(summary, frozenset(created) - frozenset(later))
            assert is_removed(by_hand, clean_up) is (not datasets)


def test_places_that_were_not_there_count_as_gone() -> None:
    text = account({**GONE, "buckets_deleted": ["b"], "buckets_absent": ["a"]})
    assert "10 objects" in text
    assert "2 buckets" in text


def test_leftovers_are_reported_with_kind_reason_and_count() -> None:
    (line,) = left_behind(left("other_objects", objects=1000, has_more=True))
    assert all(part in line for part in ('"a"', "other_objects", "why", "1,000 objects"))
    (line,) = left_behind({**GONE, "failed": 1})
    assert line == "1 request failed"
    text = account(left("error", objects=1))
    assert "10 objects" in text
    assert "1 bucket " in text


def test_plans_of_earlier_builds_and_of_other_tools_are_read() -> None:
    plan = planned(TEXT.replace("[put]", "[put, {mix: {get: 1, put: 1}, requests: 4}]")).documents()
    for document in plan:
        del document["ownership"], document["ticket_base"]
    begun: dict[str, Any] = {document["id"]: {} for document in plan}
    (left_dataset,) = remains(plan, begun, DRIVERS)
    mix = next(document for document in plan if len(document["mix"]) == 2)
    first = 10 + int(mix["id"]) * beyond.BEYOND_MAX
    assert left_dataset.clean_up["ownership"]["written"] == [[first, first + beyond.BEYOND_MAX]]
    foreign = {**plan[0], "target": {"name": "x", "driver": "warp"}, "dataset": None}
    assert remains([foreign], begun, DRIVERS) == []
    assert unknown_drivers([foreign, *plan], DRIVERS) == ["warp"]
