"""Appends in a plan: their objects, their number, and combinations that make no sense."""

import pytest

from loadstone.errors import CampaignError
from tests.unit.test_plan import phases, planned


def test_appends_begin_with_no_objects_wherever_they_stand() -> None:
    plan = planned(
        "targets: {pool: {driver: rados, pool: p}}\ndataset: {objects: 10, size: 4KiB}\n"
        "load: {threads: 2}\nphases: [{op: append, range: 1KiB}, get, "
        "{op: append, range: 4KiB, name: large}, {op: append, range: 1KiB, requests: 3, name: few},"
        " head]\n"
    )
    assert phases(plan) == [
        "append", "get", "clean-up", "large", "clean-up", "few", "prepare", "head", "clean-up",
    ]  # fmt: skip
    requests = {trial.phase: trial.document["stop"]["requests"] for trial in plan.trials}
    assert (requests["append"], requests["large"], requests["few"]) == (40, 10, 3)
    versions = [trial.document["dataset"]["version"] for trial in plan.trials if trial.is_measured]
    assert versions == [1, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("phase", "why"),
    [
        ("{op: append}", r"phases\.0\.range: found nothing,"),
        ("{op: append, range: 8KiB}", r"phases\.0\.range: found 8 KiB,"),
        ("{op: append, range: 1KiB, iterations: 2}", r"phases\.0\.iterations: found 2,"),
        (
            "{op: append, range: 1KiB, keys: {order: zipf}}",
            r"phases\.0\.keys\.order: found .zipf.,",
        ),
        ("{mix: {append: 1, get: 1}, range: 1KiB}", r"phases\.0\.mix\.append: "),
        (
            "{op: append, range: 1KiB, load: {threads: 11}}",
            r"phases\.0\.op: .* 10 objects .* 11 threads",
        ),
    ],
)
def test_appends_that_make_no_sense_are_refused(phase: str, why: str) -> None:
    with pytest.raises(CampaignError, match=why):
        planned(
            "targets: {pool: {driver: rados, pool: p}}\ndataset: {objects: 10, size: 4KiB}\n"
            f"load: {{threads: 2}}\nphases: [{phase}]\n"
        )
