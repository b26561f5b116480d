"""Finds the runs whose kept objects a campaign uses again (`reuse:`, `bench --reuse`)."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from loadstone.campaign.planning.lifecycle import Need, dataset_of, place_of
from loadstone.campaign.planning.plan import Plan
from loadstone.campaign.planning.reuse import Reused, StoredDataset
from loadstone.campaign.remains import began
from loadstone.campaign.resume import left_as
from loadstone.campaign.schema.campaign import Campaign
from loadstone.documents.mix import operations_of
from loadstone.errors import InputError, ResultError
from loadstone.execution.cleaning import begun, what_is_left
from loadstone.results.contents import Contents
from loadstone.results.layout import MANIFEST, read_manifest
from loadstone.results.writer import RunWriter

RUNS = Path("runs")
Value = TypeVar("Value")
DELETES = frozenset({"delete", "bulk_delete"})


def reused_by(campaign: Campaign, run: str | None = None) -> dict[str, Reused]:
    """Return the run that each target names, with the datasets that it kept.

    Objects that `run` itself has deleted do not prevent resuming it.
    """
    return {
        name: find(target.reuse, run)
        for name, target in campaign.targets.items()
        if target.reuse is not None
    }


def note_deletes(campaign: Campaign, plan: Plan) -> None:
    """Record in reused runs that this run is about to delete their kept objects.

    This precedes the deletes: a run without some of its objects is neither resumed nor reused.
    """
    deleting = {
        planned.document["target"]["name"]
        for planned in plan.trials
        if not DELETES.isdisjoint(operations_of(planned.document))
    }
    names = {campaign.targets[name].reuse for name in deleting & set(campaign.targets)}
    for name in sorted(name for name in names if name is not None):
        with RunWriter.lock(_folder(name)) as writer:
            writer.note_deleting(plan.run)


def find(name: str, run: str | None = None) -> Reused:
    """Return a run by its folder, or by its identity if its folder is in runs/."""
    folder = _folder(name)
    manifest = read_manifest(folder)
    if manifest.get("cleaned"):
        raise InputError(
            f'"loadstone clean" deleted objects of run "{folder}"', "name a run that kept its data"
        )
    if others := [other for other in manifest.get("deleted_by", ()) if other != run]:
        raise InputError(
            f'run {others[0]} deleted objects of run "{folder}"', "name a run that kept its data"
        )
    summaries = begun(folder)
    left = what_is_left(folder)
    places = {(remains.target, dataset_of(remains.clean_up)["bucket_prefix"]) for remains in left}
    plan = [
        document
        for document in manifest["plan"]
        if document["id"] in summaries and place_of(document) in places
    ]
    plan.sort(key=lambda document: began(summaries[document["id"]]))
    states = left_as(plan, summaries)
    contents = Contents(list)
    for document in plan:
        contents.note(document, summaries[document["id"]])
    datasets = []
    for remains in left:
        dataset = dataset_of(remains.clean_up)
        place = (remains.target, dataset["bucket_prefix"])
        state = states[place]
        latest = remains.clean_up.copy()
        latest["dataset"] = {**dataset, "version": max(1, state.version)}
        workloads = {
            document["case"]["workload"]
            for document in manifest["plan"]
            if place_of(document) == place
        }
        datasets.append(
            StoredDataset(
                target=remains.target,
                driver=remains.driver,
                workloads=frozenset(workloads),
                dataset=contents.dataset(latest),
                round_number=remains.clean_up["round"],
                is_full=Need.FULL.is_met_by(state.state) and not state.is_in_doubt,
            )
        )
    return Reused(
        name=name,
        run=manifest["run"],
        seed=manifest["seed"],
        datasets=tuple(datasets),
        targets=frozenset(document["target"]["name"] for document in manifest["plan"]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetFlags:
    """A dataset as flags of bench; None where several datasets differ."""

    count: int | None = None
    size: int | None = None
    buckets: int | None = None
    object_prefix: str | None = None
    encryption: str | None = None
    path_encryption: str | None = None


def flags_of(name: str) -> DatasetFlags:
    """Return the flags that all datasets of the run have in common."""
    reused = find(name)
    datasets = [dataset.dataset for dataset in reused.datasets]
    end = f"{reused.run[:8]}-"
    return DatasetFlags(
        count=_alike(dataset["objects"] for dataset in datasets),
        size=_alike(dataset["size"].get("bytes") for dataset in datasets),
        buckets=_alike(dataset["buckets"] for dataset in datasets),
        object_prefix=_alike(dataset["object_prefix"].removesuffix(end) for dataset in datasets),
        encryption=_alike(dataset.get("encryption") for dataset in datasets),
        path_encryption=_alike(dataset.get("path_encryption") for dataset in datasets),
    )


def _alike(values: Iterable[Value | None]) -> Value | None:
    several = set(values)
    return several.pop() if len(several) == 1 else None


def _folder(name: str) -> Path:
    if not re.fullmatch("[0-9a-f]{32}", name):
        return Path(name)
    for path in sorted(RUNS.glob(f"*/{MANIFEST}")):
        try:
            if read_manifest(path.parent)["run"] == name:
                return path.parent
        except ResultError:
            continue
    raise InputError(f'no run "{name}" in "{RUNS}"', "name the folder of the run instead")
