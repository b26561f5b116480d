"""Conditional requests in a plan: their objects, and combinations that make no sense."""

import pytest

from loadstone.errors import CampaignError
from tests.unit.test_plan import phases, planned

STORE = """\
targets: {s3: {driver: s3, endpoint: "http://h:1", access_key: a, secret_key: {env: B}}}
dataset: {objects: 10, size: 4KiB}
load: {threads: 2}
"""


def test_put_if_absent_begins_without_objects_and_put_if_match_with_all() -> None:
    plan = planned(
        STORE + "phases: [put, put_if_absent, {op: put_if_match, iterations: 2}, get,"
        " delete_if_match]\n"
    )
    assert phases(plan) == [
        "put", "clean-up", "put_if_absent", "put_if_match", "get", "delete_if_match", "clean-up",
    ]  # fmt: skip
    versions = [trial.document["dataset"]["version"] for trial in plan.trials if trial.is_measured]
    # Conditional writes keep the object's version, because they may lose the race.
    assert versions == [1, 2, 2, 2, 2]


def test_a_mix_puts_on_condition_beyond_its_dataset() -> None:
    plan = planned(STORE + "phases: [{mix: {put_if_absent: 2, delete_if_match: 1, get: 1}}]\n")
    assert phases(plan) == ["prepare", "mix", "clean-up"]
    _, mix, clean_up = (trial.document for trial in plan.trials)
    first = 10 + mix["ticket_base"]
    assert clean_up["ownership"]["written"] == [[first, first + (1 << 34)]]


def test_the_clients_of_a_contention_are_swept() -> None:
    phase = "{name: race, contend: {keys: 4}, duration: 5s}"
    sweep = "{phases.race.contend.clients: [2, 8]}"
    plan = planned(STORE + f"phases: [{phase}]\nsweep: {sweep}\n")
    loads = [trial.document["load"] for trial in plan.trials if trial.is_measured]
    assert sorted(load["clients"] for load in loads) == [2, 8]


@pytest.mark.parametrize(
    ("phase", "why"),
    [
        ("{op: put_if_absent, warm_up: 1s}", r"phases\.0\.warm_up: "),
        ("{op: put_if_absent, iterations: 2}", r"phases\.0\.iterations: found 2,"),
        ("{mix: {put_if_absent: 1, delete_if_match: 2}}", r"phases\.0\.mix\.delete_if_match: "),
        ("{mix: {get: 1, delete_if_match: 2}}", r"phases\.0\.mix\.delete_if_match: "),
    ],
)
def test_conditions_that_make_no_sense_are_refused(phase: str, why: str) -> None:
    with pytest.raises(CampaignError, match=why):
        planned(STORE + f"phases: [{phase}]\n")


def test_a_contention_has_its_own_clients_and_the_first_objects() -> None:
    plan = planned(STORE + "phases: [{contend: {keys: 4, clients: 8}, duration: 5s}, get]\n")
    assert phases(plan) == ["prepare", "contend", "get", "clean-up"]
    document = plan.trials[1].document
    assert [share["operation"] for share in document["mix"]] == ["compare_and_swap"]
    assert document["load"] == {"kind": "closed", "clients": 8}
    assert document["options"]["contended_keys"] == 4
    assert document["case"]["parameters"]["threads"] == 8


@pytest.mark.parametrize(
    ("phase", "why"),
    [
        ("{contend: {keys: 11}, duration: 5s}", r"phases\.0\.contend\.keys: found 11,"),
        ("{contend: {keys: 0}, duration: 5s}", r"phases\.0\.contend\.keys: "),
        ("{contend: {keys: 4}}", r"phases\.0\.contend: "),
        ("{contend: {keys: 4}, duration: 5s, load: {threads: 2}}", r"phases\.0\.load: "),
        ("{contend: {keys: 4}, duration: 5s, op: get}", r"phases\.0: .*op and contend"),
        ("{contend: {key: 4}, duration: 5s}", r"phases\.0\.contend\.key: "),
    ],
)
def test_contentions_that_make_no_sense_are_refused(phase: str, why: str) -> None:
    with pytest.raises(CampaignError, match=why):
        planned(STORE + f"phases: [{phase}]\n")


def test_a_driver_without_a_condition_is_named() -> None:
    with pytest.raises(CampaignError, match=r"phases\.0\.op: .*put_if_match"):
        planned(
            "targets: {pool: {driver: rados, pool: p}}\ndataset: {objects: 10, size: 4KiB}\n"
            "load: {threads: 2}\nphases: [put_if_match]\n"
        )
