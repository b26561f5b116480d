"""Only the right dataset of another run is reused, and only if it is complete."""

from dataclasses import replace
from typing import Any

import pytest

from loadstone.campaign.parse import parse_campaign
from loadstone.campaign.planning.plan import Plan, make_plan
from loadstone.campaign.planning.reuse import Reused, StoredDataset
from loadstone.campaign.reading.mistakes import KeyMistake
from loadstone.campaign.resume import left_as
from loadstone.errors import CampaignError
from tests.unit.campaign_drivers import DRIVERS
from tests.unit.test_plan import planned

TEXT = """\
targets: {store: {driver: s3, endpoint: http://s}}
dataset: {objects: 100, size: 4KiB, buckets: 10}
load: {threads: 1}
phases: [get]
prepare: never
"""
WANTED = planned(TEXT).trials[0].document


def stored(**changes: Any) -> StoredDataset:
    original = StoredDataset(
        target="store",
        driver="s3",
        workloads=frozenset({WANTED["case"]["workload"]}),
        dataset={**WANTED["dataset"], "bucket_prefix": "there-", "version": 3},
        round_number=1,
        is_full=True,
    )
    dataset = {**original.dataset, **changes.pop("dataset", {})}
    return replace(original, **changes, dataset=dataset)


def reused(*datasets: StoredDataset) -> Reused:
    targets = frozenset(stored_dataset.target for stored_dataset in datasets)
    return Reused(name="kept", run="f" * 32, seed=1, datasets=datasets, targets=targets)


def test_the_dataset_of_the_same_target_and_workload_is_taken() -> None:
    other = stored(target="other", dataset={"bucket_prefix": "wrong-"})
    elsewhere = stored(workloads=frozenset({"else"}), dataset={"bucket_prefix": "wrong-"})
    dataset = reused(other, elsewhere, stored()).dataset_for(WANTED)
    assert isinstance(dataset, dict)
    assert (dataset["bucket_prefix"], dataset["version"]) == ("there-", 3)
    # A run that had no target of this name has one dataset that can be meant.
    assert isinstance(reused(other).dataset_for(WANTED), dict)


@pytest.mark.parametrize(
    "changes",
    [
        {"driver": "swift"},
        {"round_number": 2},
        {"is_full": False},
        *({"dataset": changed} for changed in (
            {"object_prefix": "mine-"}, {"encryption": "aes-gcm"}, {"compressible": 0.5},
            {"duplicate": 0.5}, {"buckets": 2},
        )),
    ],
)  # fmt: skip
def test_a_dataset_that_differs_or_is_not_whole_is_refused(changes: dict[str, Any]) -> None:
    assert isinstance(reused(stored(**changes)).dataset_for(WANTED), KeyMistake)


def test_ambiguous_datasets_are_all_named_and_none_is_used() -> None:
    two = [stored(target=name, dataset={"bucket_prefix": f"{name}-"}) for name in "ab"]
    refusal = reused(*two).dataset_for(WANTED)
    assert isinstance(refusal, KeyMistake)
    assert all(f"target {stored_dataset.target} " in refusal.allowed for stored_dataset in two)


def test_objects_beside_those_of_others_are_found_again() -> None:
    run = "f" * 32
    beside = stored(dataset={"object_prefix": f"bench-{run[:8]}-"})
    dataset = reused(beside).dataset_for(WANTED)
    assert isinstance(dataset, dict)
    assert dataset["object_prefix"] == f"bench-{run[:8]}-"


def plan_on_reused(phases: str) -> Plan:
    campaign = parse_campaign(
        "name: test\n" + TEXT.replace("[get]", phases).replace("prepare: never\n", ""),
        drivers=DRIVERS,
        environ={},
    )
    return make_plan(campaign, DRIVERS, "0" * 32, {"store": reused(stored())})


def test_later_phases_do_not_read_kept_objects_that_a_phase_deletes() -> None:
    assert len(plan_on_reused("[get, delete]").trials) == 2
    with pytest.raises(CampaignError):
        plan_on_reused("[delete, get]")


def test_remaining_datasets_follow_from_the_trials_of_a_run() -> None:
    plan = planned(TEXT.replace("[get]", "[put, get, delete]").replace("prepare: never\n", ""))
    put, get, delete, *_ = plan.documents()
    place, done = ("store", put["dataset"]["bucket_prefix"]), {"state": "finished", "failed": 0}

    def state(*ended: tuple[Any, Any]) -> str:
        summaries = {document["id"]: summary for document, summary in ended}
        return left_as([document for document, _ in ended], summaries)[place].state.name

    assert state((put, done), (get, {})) == "FULL"
    assert state((put, {})) == "PARTIAL"
    assert state((put, {**done, "failed": 1})) == "PARTIAL"
    assert state((put, done), (delete, done)) == "EMPTY"
    assert state((put, done), (delete, {})) == "PARTIAL"
