"""Placement of a load's keys, threads and connections: prefix shards, CPUs, NUMA nodes, sources."""

from typing import Any

import pytest

from loadstone.campaign.parse import parse_campaign
from loadstone.campaign.planning.plan import make_plan
from loadstone.campaign.quick import campaign_from_flags
from loadstone.documents.trial import TrialDocument
from loadstone.errors import CampaignError

CAMPAIGN = """\
name: placed
targets: {{store: {{driver: {driver}}}}}
dataset: {{objects: 1000, size: 4KiB, object_prefix: "{prefix}"}}
load: {{threads: 4, {load}}}
phases: [put, get]
"""
S3 = 's3, endpoint: "http://store:9000"'


def documents(prefix: str = "o-", load: str = "", driver: str = S3) -> list[TrialDocument]:
    text = CAMPAIGN.format(driver=driver, prefix=prefix, load=load)
    return make_plan(parse_campaign(text)).documents()


@pytest.mark.parametrize(
    ("prefix", "head", "shards"),
    [
        ("bench-{shard:02x}/", "bench-", {"digits": 2, "base": 16, "tail": "/"}),
        ("{shard:04d}-", "", {"digits": 4, "base": 10, "tail": "-"}),
        ("bench-{other}", "bench-{other}", None),
    ],
)
def test_a_shard_stands_between_what_all_keys_share_and_their_numbers(
    prefix: str, head: str, shards: dict[str, Any] | None
) -> None:
    for document in documents(prefix):
        dataset = document["dataset"]
        assert (dataset["object_prefix"], dataset.get("shards")) == (head, shards)


@pytest.mark.parametrize(
    "prefix", ["{shard}", "{shard:x}", "{shard:05x}", "{shard:02x}{shard:02x}"]
)
def test_an_invalid_shard_is_refused(prefix: str) -> None:
    with pytest.raises(CampaignError) as caught:
        documents(prefix)
    assert [mistake.key for mistake in caught.value.mistakes] == ["dataset.object_prefix"]


@pytest.mark.parametrize(
    ("load", "key", "numbers"),
    [
        ("cpus: [0, 2]", "cpus", [0, 2]),
        ('cpus: "0-3,8"', "cpus", [0, 1, 2, 3, 8]),
        ("cpus: 1", "cpus", [1]),
        ("numa: [0, 1]", "numa_nodes", [0, 1]),
    ],
)
def test_threads_of_the_measured_load_are_bound(load: str, key: str, numbers: list[int]) -> None:
    put, get, clean_up = documents(load=load)
    assert [put[key], get[key]] == [numbers, numbers]  # type: ignore[literal-required]
    assert key not in clean_up


@pytest.mark.parametrize(
    ("load", "key"),
    [
        ("cpus: [0, 0]", "load.cpus"),
        ("cpus: 3-1", "load.cpus"),
        ("cpus: all", "load.cpus"),
        ("cpus: []", "load.cpus"),
        ("cpus: 0, numa: 0", "load.numa"),
    ],
)
def test_an_invalid_list_of_cpus_is_refused(load: str, key: str) -> None:
    with pytest.raises(CampaignError) as caught:
        documents(load=load)
    assert [mistake.key for mistake in caught.value.mistakes] == [key]


def test_flags_bind_threads_and_spread_keys() -> None:
    campaign = campaign_from_flags(
        "get", "http://h:1", environ={}, cpus="0,1", object_prefix="{shard:02x}-", count=100
    )
    [document, *_] = [
        document for document in make_plan(campaign).documents() if document["measured"]
    ]
    assert document["cpus"] == [0, 1]
    assert document["dataset"]["shards"] == {"digits": 2, "base": 16, "tail": "-"}
