"""Appends in a plan: what they find, how many there are, and which make no sense."""

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
        ("{op: append}", "append needs it"),
        ("{op: append, range: 8KiB}", "ranges that fit"),
        ("{op: append, range: 1KiB, iterations: 2}", "append fills each object only once"),
        ("{op: append, range: 1KiB, keys: {order: zipf}}", "append fills each object only once"),
        ("{mix: {append: 1, get: 1}, range: 1KiB}", "append as a phase of its own"),
        ("{op: append, range: 1KiB, load: {threads: 11}}", "one append at a time"),
    ],
)
def test_appends_that_make_no_sense_are_refused(phase: str, why: str) -> None:
    with pytest.raises(CampaignError, match=why):
        planned(
            "targets: {pool: {driver: rados, pool: p}}\ndataset: {objects: 10, size: 4KiB}\n"
            f"load: {{threads: 2}}\nphases: [{phase}]\n"
        )
