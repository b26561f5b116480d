"""Default names of buckets: nothing that another target or another run has made is met by them."""

from pathlib import Path

import pytest

from loadstone.campaign.parse import parse_campaign
from loadstone.campaign.planning.placement import Buckets
from loadstone.campaign.planning.plan import make_plan
from loadstone.errors import CampaignError
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
        assert Buckets(prefix, 100_000).mistake(DRIVERS["s3"].facts.bucket_names) is None


def test_objects_beside_those_of_others_carry_the_run() -> None:
    plan = planned(DATASET + "load: {threads: 1}\nphases: [put]\nallow_foreign: [store]\n")
    names = {trial.document["dataset"]["object_prefix"] for trial in plan.trials}
    assert names == {f"bench-{plan.run[:8]}-"}
    prefixed = DATASET.replace("{", "{object_prefix: mine-, ", 1)
    plan = planned(prefixed + "load: {threads: 1}\nphases: [put]\nallow_foreign: [store]\n")
    assert {trial.document["dataset"]["object_prefix"] for trial in plan.trials} == {"mine-"}


TWO = "dataset: {objects: 10, size: 1, prefix: 'bench-{round}-'}\nload: {threads: 1}\n"


@pytest.mark.parametrize(
    ("settings", "other", "is_shared"),
    [
        ("driver: s3, endpoint: http://s", "driver: s3, endpoint: http://s", True),
        ("driver: s3, endpoint: http://a", "driver: s3, endpoint: http://b", False),
        ("driver: s3, endpoint: [http://a, http://b]", "driver: s3, endpoint: http://B/", True),
        (
            "driver: swift, auth_url: http://a, storage_url: http://s/v1",
            "driver: swift, auth_url: http://b, storage_url: http://S/v1",
            True,
        ),
        ("driver: s3, endpoint: http://s", "driver: swift, auth_url: http://s/v3", False),
        ("driver: file, path: /one", "driver: file, path: /one/../one", True),
        ("driver: file, path: /one", "driver: file, path: /two", False),
        ("driver: 'null'", "driver: 'null'", False),
    ],
)
def test_targets_that_may_be_one_store_share_no_bucket(
    settings: str, other: str, is_shared: bool
) -> None:
    targets = f"targets: {{a: {{{settings}}}, b: {{{other}}}}}\n"
    if is_shared:
        with pytest.raises(CampaignError) as refused:
            planned(targets + TWO + "phases: [put]\n")
        assert "{target}" in str(refused.value.mistakes[0].hint)
    else:
        planned(targets + TWO + "phases: [put]\n")
    planned(targets + TWO.replace("bench-", "{target}-") + "phases: [put]\n")
    planned(targets + TWO + "phases: [get]\nprepare: never\n")


@pytest.mark.parametrize(
    ("swift", "more", "is_shared"),
    [
        ("auth_url: http://S:1/v3", "clean_up: late\n", True),
        ("auth_url: http://S:1/v3", "keep_data: true\n", True),
        ("auth_url: http://k/v3, storage_url: http://s:1/v1", "clean_up: late\n", True),
        ("auth_url: http://s:2/v3", "clean_up: late\n", False),
        # The bucket of the first is gone when the second makes its own.
        ("auth_url: http://S:1/v3", "", False),
    ],
)
def test_one_port_that_may_speak_both_apis_shares_no_bucket_that_stays(
    swift: str, more: str, is_shared: bool
) -> None:
    s3_target = "a: {driver: s3, endpoint: [http://o, http://s:1]}"
    targets = f"targets: {{{s3_target}, b: {{driver: swift, {swift}}}}}\n"
    text = targets + TWO + "phases: [put]\n" + more
    if is_shared:
        with pytest.raises(CampaignError) as refused:
            planned(text)
        assert "{target}" in str(refused.value.mistakes[0].hint)
    else:
        planned(text)
    planned(text.replace("bench-", "{target}-"))


@pytest.mark.parametrize(("length", "is_refused"), [(59, True), (40, False)])
def test_names_of_objects_written_anew_are_checked_too(length: int, is_refused: bool) -> None:
    text = (
        f"dataset: {{objects: 10, size: 1, buckets: 10, prefix: {'b' * length}-}}\n"
        "load: {threads: 1}\nphases: [put]\nblocks: 2\nclean_up: late\n"
    )
    if is_refused:
        with pytest.raises(CampaignError) as refused:
            planned(text)
        assert refused.value.mistakes[0].key == "dataset.prefix"
    else:
        assert planned(text).trials


def test_objects_written_anew_share_no_bucket_with_another_dataset() -> None:
    dataset = "dataset: {{objects: 10, size: {}, buckets: 10, prefix: {}}}"
    workloads = "".join(
        f"  - {{name: {prefix}, {dataset.format(size, prefix)}}}\n"
        for size, prefix in ((1, "bb-"), (2, "bb-g2-"))
    )
    text = f"load: {{threads: 1}}\nphases: [put]\nclean_up: late\nworkloads:\n{workloads}"
    assert planned(text).trials
    with pytest.raises(CampaignError):
        planned(text + "blocks: 2\n")


def test_directories_mean_the_same_wherever_the_run_is_cleaned_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plan = planned("targets: {a: {driver: file, path: data}}\n" + TWO + "phases: [put]\n")
    assert plan.trials[0].document["target"]["settings"]["path"] == str(tmp_path / "data")


@pytest.mark.parametrize("target", ["driver: s3, endpoint: http://s", "driver: rados, pool: p"])
def test_keys_that_a_store_would_refuse_are_refused_when_planning(target: str) -> None:
    (driver,) = {name for name in DRIVERS if f"driver: {name}," in target}
    limit = DRIVERS[driver].facts.limits.key_bytes_max
    assert limit is not None
    rest = "load: {threads: 1}\nphases: [put]\n"
    for spare, is_refused in ((1, False), (0, True)):
        prefix = "k" * (limit - spare)
        dataset = f"{{objects: 10, size: 1, object_prefix: {prefix}}}"
        text = f"targets: {{t: {{{target}}}}}\ndataset: {dataset}\n"
        if is_refused:
            with pytest.raises(CampaignError) as refused:
                planned(text + rest)
            assert refused.value.mistakes[0].key == "dataset.object_prefix"
        else:
            planned(text + rest)
