"""Default names of buckets: nothing that another target or another run has made is met by them."""

from loadstone.campaign.bucket_names import Buckets
from loadstone.campaign.parse import parse_campaign
from loadstone.campaign.plan import make_plan
from tests.unit.campaign_drivers import DRIVERS
from tests.unit.test_plan import DATASET, planned


def test_two_ways_to_one_store_and_two_runs_never_meet_by_default() -> None:
    text = (
        "targets: {a: {driver: s3, endpoint: http://s}, b: {driver: swift, auth_url: http://s/v3}}\n"
        + DATASET
        + "load: {threads: 1}\nphases: [put]\n"
    )
    prefixes = [
        {trial.document["dataset"]["bucket_prefix"] for trial in plan.trials}
        for plan in (planned(text), planned(text, "seed=2"))
    ]
    assert len(prefixes[0]) == 2
    campaign = parse_campaign("name: test\n" + text, drivers=DRIVERS, environ={})
    other = make_plan(campaign, DRIVERS, "f" * 32)
    again = {trial.document["dataset"]["bucket_prefix"] for trial in other.trials}
    assert not prefixes[0] & again


def test_long_names_make_default_buckets_that_every_store_allows_and_that_differ() -> None:
    names = ["long-name-of-a-target." * 2 + letter for letter in "ab"]
    targets = ", ".join(f"{name}: {{driver: s3, endpoint: http://s}}" for name in names)
    plan = planned(
        f"name: {'n' * 60}\ntargets: {{{targets}}}\n"
        "dataset: {objects: 100000, size: 1, buckets: 100000}\n"
        "load: {threads: 1}\nphases: [put]\n"
    )
    prefixes = {trial.document["dataset"]["bucket_prefix"] for trial in plan.trials}
    assert len(prefixes) == 2
    for prefix in prefixes:
        assert Buckets(prefix, 100_000).mistake("s3") is None


def test_objects_beside_those_of_others_carry_the_run() -> None:
    plan = planned(DATASET + "load: {threads: 1}\nphases: [put]\nallow_foreign: [store]\n")
    names = {trial.document["dataset"]["object_prefix"] for trial in plan.trials}
    assert names == {f"bench-{plan.run[:8]}-"}
    own = DATASET.replace("{", "{object_prefix: mine-, ", 1)
    plan = planned(own + "load: {threads: 1}\nphases: [put]\nallow_foreign: [store]\n")
    assert {trial.document["dataset"]["object_prefix"] for trial in plan.trials} == {"mine-"}
