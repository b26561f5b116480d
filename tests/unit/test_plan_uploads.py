"""Phases of versions and of upload steps: the objects they need, leave, and allow."""

import pytest

from loadstone.errors import CampaignError
from tests.unit.test_plan import phases, planned
from tests.unit.test_plan_conditions import STORE

STEPS = "create_upload: 1, upload_part: 2, complete_upload: 1"


def test_steps_of_uploads_need_no_objects_and_leave_some_beyond_the_dataset() -> None:
    plan = planned(
        STORE + f"phases: [{{mix: {{{STEPS}}}, part_size: 5MiB, part_order: shuffled,"
        " part_pause: 2s, ended_twice: 0.1, requests: 100}]\n"
    )
    assert phases(plan) == ["mix", "clean-up"]
    mix, clean_up = (trial.document for trial in plan.trials)
    options = mix["options"]
    assert (options["part_order"], options["part_pause_ns"]) == ("shuffled", 2_000_000_000)
    assert options["ended_twice"] == 0.1
    first = 10 + mix["ticket_base"]
    assert clean_up["ownership"]["written"] == [[first, first + (1 << 34)]]


@pytest.mark.parametrize(
    "phase", ["op: create_upload", "mix: {create_upload: 1, upload_part: 2}, requests: 100"]
)
def test_uploads_that_are_only_begun_are_cleaned_up(phase: str) -> None:
    plan = planned(STORE + f"phases: [{{{phase}, name: begun, part_size: 5MiB}}]\n")
    assert phases(plan) == ["begun", "clean-up"]


def test_parts_that_are_copied_need_the_objects() -> None:
    steps = STEPS.replace("upload_part", "upload_part_copy")
    plan = planned(STORE + f"phases: [{{mix: {{{steps}}}, part_size: 5MiB, requests: 100}}]\n")
    assert phases(plan) == ["prepare", "mix", "clean-up"]


def test_steps_by_themselves_make_the_objects_of_the_dataset() -> None:
    plan = planned(
        STORE.replace("4KiB", "18MiB")
        + "phases: [{op: create_upload, part_size: 5MiB}, {op: upload_part, part_size: 5MiB},"
        " complete_upload, get]\n"
    )
    assert phases(plan) == ["create_upload", "upload_part", "complete_upload", "get", "clean-up"]
    documents = [trial.document for trial in plan.trials]
    assert [document["stop"]["requests"] for document in documents[:4]] == [10, 40, 10, 10]
    # A completed object has the version of its parts.
    assert [document["dataset"]["version"] for document in documents[1:4]] == [1, 1, 1]


def test_versions_leave_the_dataset_as_full_as_it_was() -> None:
    plan = planned(
        STORE + "phases: [put, versioned_put, get_version, list_versions, delete_version, get]\n"
    )
    assert phases(plan) == [
        "put", "versioned_put", "get_version", "list_versions", "delete_version", "get", "clean-up",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("phase", "place"),
    [
        ("{op: create_upload, part_size: 5MiB, part_order: shuffled}", r"phases\.0\.part_order: "),
        ("{mix: {upload_part: 1, get: 1}, part_size: 5MiB}", r"phases\.0\.mix\.upload_part: "),
        (f"{{mix: {{{STEPS}}}}}", r"phases\.0\.part_size: "),
        (f"{{mix: {{{STEPS}}}, part_size: 5MiB, ended_twice: 2}}", r"phases\.0\.ended_twice: "),
        ("{mix: {get: 1, put: 1}, part_order: shuffled}", r"phases\.0\.part_order: "),
        ("{mix: {versioned_put: 1, delete_version: 2}}", r"phases\.0\.mix\.delete_version: "),
        # The first iteration would end all uploads.
        ("{op: complete_upload, iterations: 2}", r"phases\.0\.iterations: found 2,"),
        ("{op: abort_upload, iterations: 2}", r"phases\.0\.iterations: found 2,"),
        ("{op: complete_upload, warm_up: 1s}", r"phases\.0\.warm_up: "),
    ],
)
def test_a_phase_that_cannot_be_is_refused(phase: str, place: str) -> None:
    with pytest.raises(CampaignError, match=place):
        planned(STORE + f"phases: [{phase}]\n")
