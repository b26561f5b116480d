"""Datasets kept by another run, which phases read or delete instead of writing their own."""

from dataclasses import dataclass, field
from typing import Any

from loadstone.campaign.planning.lifecycle import dataset_of
from loadstone.campaign.reading.mistakes import KeyMistake
from loadstone.documents.mix import operations_of
from loadstone.documents.trial import DatasetDocument, Origin, TrialDocument

# Operations that only need existing objects, and write none.
REUSING = frozenset(
    {
        "get",
        "range_get",
        "multi_range_get",
        "multipart_get",
        "head",
        "list",
        "read",
        "delete",
        "bulk_delete",
    }
)
_DESCRIBING = (
    "objects", "buckets", "size", "object_prefix", "compressible", "duplicate", "encryption",
    "path_encryption", "shards", "payload",
)  # fmt: skip
# Values of fields that documents of earlier builds lack.
_USUAL = {
    "object_prefix": "bench-", "compressible": 0.0, "duplicate": 0.0, "encryption": None,
    "path_encryption": None, "shards": None, "payload": None,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDataset:
    """A dataset that another run kept: its document and its round."""

    target: str
    driver: str
    workloads: frozenset[str]
    dataset: DatasetDocument
    round_number: int
    is_full: bool
    """Whether all of its objects exist, as far as that run recorded."""

    def describe(self) -> str:
        """Return a short description that distinguishes it from other datasets."""
        size = self.dataset["size"].get("bytes", self.dataset["size"]["kind"])
        others = {key: _described_value(self.dataset, key) for key in _DESCRIBING[3:]}
        differing = [f", {key} {value}" for key, value in others.items() if value != _USUAL[key]]
        return (
            f"{self.dataset['objects']} objects of {size} bytes in {self.dataset['buckets']} "
            f"buckets{''.join(differing)}, round {self.round_number}, target {self.target} "
            f"({self.driver}), workload {', '.join(sorted(self.workloads))}"
            + ("" if self.is_full else ", not all there")
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reused:
    """A run whose objects are reused; `name` is how the campaign spells it."""

    name: str
    run: str
    seed: int
    datasets: tuple[StoredDataset, ...]
    targets: frozenset[str] = field(default_factory=frozenset)
    """All targets of the run; targets with the same name are assumed to be the same."""

    def dataset_for(self, document: TrialDocument) -> DatasetDocument | KeyMistake:
        """Return the kept dataset that fits a trial, or the mistake in the request for it.

        Sizes and payload of its objects depend on the run that wrote them, and are verified
        accordingly.
        """
        path = ("targets", document["case"]["target"], "reuse")
        others = set(operations_of(document)) - REUSING
        if others:
            return KeyMistake(
                path,
                f"{', '.join(sorted(others))} on the objects of another run",
                f"phases of {', '.join(sorted(REUSING))}",
            )
        wanted = _wanted(document)
        fitting = [
            dataset for dataset in self.datasets if self._fits(dataset, wanted, document["run"])
        ]
        # A dataset shared by several workloads is found under each of their names.
        of_workloads = [dataset for dataset in fitting if wanted.workloads & dataset.workloads]
        fitting = of_workloads or fitting
        match fitting:
            case [dataset] if dataset.is_full:
                origin: Origin = {"run": self.run, "seed": self.seed}
                return {**dataset.dataset, "written_by": origin}
            case [dataset]:
                return KeyMistake(
                    path,
                    f"an incomplete dataset of run {self.name}: {dataset.describe()}",
                    "one whose objects were all written, and of which none was deleted",
                )
            case []:
                there = "; ".join(dataset.describe() for dataset in self.datasets)
                return KeyMistake(
                    path,
                    f"no dataset of {wanted.describe()} in run {self.name}",
                    there or "a run that kept its data (keep_data, or bench --keep-data)",
                )
        return KeyMistake(
            path,
            f"{len(fitting)} datasets of run {self.name} that fit",
            "one: " + "; ".join(dataset.describe() for dataset in fitting),
            hint="name the target and the workload as that run did",
        )

    def _fits(self, stored: StoredDataset, wanted: StoredDataset, run: str) -> bool:
        is_there = stored.target == wanted.target or wanted.target not in self.targets
        is_same = all(
            _described_value(stored.dataset, key, self.run)
            == _described_value(wanted.dataset, key, run)
            for key in _DESCRIBING
        )
        is_place = stored.driver == wanted.driver and stored.round_number == wanted.round_number
        return is_there and is_same and is_place


def _described_value(dataset: DatasetDocument, key: str, run: str = "") -> Any:
    value = dataset.get(key, _USUAL.get(key))
    if key == "payload":
        return (dataset.get("payload") or {}).get("sha256")
    # Next to foreign objects, the planner appends part of the run's id to the object prefix.
    is_prefix = key == "object_prefix" and run
    return str(value).removesuffix(f"{run[:8]}-") if is_prefix else value


def _wanted(document: TrialDocument) -> StoredDataset:
    return StoredDataset(
        target=document["case"]["target"],
        driver=document["target"]["driver"],
        workloads=frozenset({document["case"]["workload"]}),
        dataset=dataset_of(document),
        round_number=document["round"],
        is_full=True,
    )
