"""Encryption as a key of a dataset: swept, planned, refused where it cannot be."""

from typing import Any

import pytest

from loadstone.campaign.parse import campaign_of
from loadstone.campaign.planning.plan import make_plan
from loadstone.campaign.quick import campaign_from_flags
from loadstone.campaign.reading.source import Document
from loadstone.errors import CampaignError, Mistake
from tests.unit.campaign_drivers import DRIVERS
from tests.unit.campaign_mistakes import names


def planned(**changes: Any) -> list[dict[str, Any]]:
    data = {
        "name": "sealed",
        "targets": {"t": {"driver": "s3", "endpoint": "http://s"}},
        "dataset": {"objects": 10, "size": "4KiB"},
        "load": {"threads": 1},
        "phases": ["put", "get"],
    }
    document = Document("c.yaml", data | changes)
    campaign = campaign_of(document, (), drivers=DRIVERS, environ={})
    return [trial.document for trial in make_plan(campaign, DRIVERS).trials if trial.is_measured]


def mistakes_with(**changes: Any) -> list[Mistake]:
    with pytest.raises(CampaignError) as caught:
        planned(**changes)
    return caught.value.mistakes


def test_a_sweep_over_ciphers_writes_a_dataset_for_each() -> None:
    documents = planned(sweep={"encryption": ["none", "aes-256-cbc", "aes-256-gcm"]})
    dataset_of = {
        document["case"]["parameters"]["encryption"]: document["dataset"] for document in documents
    }
    assert {name: dataset["encryption"] for name, dataset in dataset_of.items()} == {
        "none": None,
        "aes-256-cbc": "aes-256-cbc",
        "aes-256-gcm": "aes-256-gcm",
    }
    assert len({dataset["bucket_prefix"] for dataset in dataset_of.values()}) == 3


def test_a_dataset_is_not_encrypted_unless_it_says_so() -> None:
    assert {document["dataset"]["encryption"] for document in planned()} == {None}


def test_a_cipher_that_there_is_not_is_refused_with_those_there_are() -> None:
    (mistake,) = mistakes_with(dataset={"objects": 1, "size": 1, "encryption": "rot13"})
    assert (mistake.key, mistake.actual) == ("dataset.encryption", '"rot13"')
    assert names(mistake.allowed, '"none"', '"aes-256-gcm"', '"aes-256-cbc"')


def test_a_driver_that_cannot_encrypt_is_refused_with_those_that_can() -> None:
    dataset = {"objects": 1, "size": 1, "encryption": "aes-256-gcm"}
    (mistake,) = mistakes_with(targets={"t": {"driver": "file", "path": "/x"}}, dataset=dataset)
    assert (mistake.key, mistake.actual) == ("dataset.encryption", "aes-256-gcm")
    assert names(mistake.allowed, "none", "driver file", ": s3, swift")


@pytest.mark.parametrize(
    ("phase", "key"),
    [
        ({"op": "range_get", "range": 1024}, "phases.1.op"),
        ({"op": "multi_range_get", "range": 1024, "range_count": 2}, "phases.1.op"),
        ({"mix": {"get": 1, "range_get": 1}, "range": 1, "requests": 9}, "phases.1.mix.range_get"),
    ],
)
def test_ranges_of_encrypted_objects_are_refused(phase: dict[str, Any], key: str) -> None:
    dataset = {"objects": 10, "size": "64KiB", "encryption": "aes-256-cbc"}
    (mistake,) = mistakes_with(dataset=dataset, phases=["put", phase])
    assert mistake.key == key
    assert names(mistake.actual, "range_get", "aes-256-cbc")
    assert mistake.allowed.startswith("get")


def test_a_flag_of_bench_encrypts() -> None:
    campaign = campaign_from_flags(
        "put,get", "s3+http://s", drivers=DRIVERS, environ={}, encryption="aes-256-gcm"
    )
    trials = make_plan(campaign, DRIVERS).trials
    assert {trial.document["dataset"]["encryption"] for trial in trials} == {"aes-256-gcm"}


def test_a_mistake_in_the_flag_names_the_flag() -> None:
    with pytest.raises(CampaignError, match="--encrypt"):
        campaign_from_flags("put", "s3+http://s", drivers=DRIVERS, environ={}, encryption="des")
