"""Finds the runs whose kept objects a campaign uses again (`reuse:`, `bench --reuse`)."""

import re
from pathlib import Path
from typing import Any

from loadstone.campaign.reuse import Kept, Reused
from loadstone.campaign.schema import Campaign
from loadstone.errors import InputError, ResultError
from loadstone.execution.cleaning import what_is_left
from loadstone.results.layout import MANIFEST, read_manifest

RUNS = Path("runs")


def reused_by(campaign: Campaign) -> dict[str, Reused]:
    """Return the run that each target names, with what is there of it."""
    return {
        name: find(target.reuse)
        for name, target in campaign.targets.items()
        if target.reuse is not None
    }


def find(name: str) -> Reused:
    """Return a run by its folder, or by its identity if its folder is in runs/."""
    folder = _folder(name)
    manifest = read_manifest(folder)
    plan = manifest["plan"]
    kept = []
    for one in what_is_left(folder):
        dataset = one.clean_up["dataset"]
        versions = [
            document["dataset"]["version"]
            for document in plan
            if document["target"]["name"] == one.target
            and document["dataset"]["bucket_prefix"] == dataset["bucket_prefix"]
        ]
        there = {**dataset, "version": max(versions)}
        kept.append(Kept(dataset=there, round_number=one.clean_up["round"]))
    return Reused(name=name, run=manifest["run"], seed=manifest["seed"], kept=tuple(kept))


def flags_of(name: str) -> dict[str, Any]:
    """Return what a dataset of the run is like, as bench takes it from flags."""
    kept = find(name).kept
    if not kept:
        return {}
    dataset = kept[0].dataset
    flags = {"count": dataset["objects"], "buckets": dataset["buckets"]}
    return flags | ({"size": dataset["size"]["bytes"]} if "bytes" in dataset["size"] else {})


def _folder(name: str) -> Path:
    if not re.fullmatch("[0-9a-f]{32}", name):
        return Path(name)
    for path in sorted(RUNS.glob(f"*/{MANIFEST}")):
        try:
            if read_manifest(path.parent)["run"] == name:
                return path.parent
        except (ResultError, KeyError):
            continue
    raise InputError(f'no run "{name}" in "{RUNS}"', "name the folder of the run instead")
