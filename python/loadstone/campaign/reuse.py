"""Objects that another run kept, for phases that read or delete them instead of writing theirs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from loadstone.campaign.lifecycle import Document
from loadstone.campaign.mistakes import KeyMistake

# What these do to objects needs none but those that are there, and puts nothing beside them.
REUSING = frozenset(
    {"get", "range_get", "multi_range_get", "head", "list", "read", "delete", "bulk_delete"}
)
_TOLD = ("objects", "buckets", "size")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """One dataset that is still there: what the other run's documents said of it, and its round."""

    dataset: Mapping[str, Any]
    round_number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reused:
    """A run whose objects are used again; it was named as `name`."""

    name: str
    run: str
    seed: int
    kept: tuple[Kept, ...]

    def dataset_for(self, document: Document) -> dict[str, Any] | KeyMistake:
        """Return the kept dataset that a trial wants, or what is wrong with that wish.

        Sizes and payload of its objects are functions of the run that wrote them, and are checked
        as such.
        """
        path = ("targets", document["case"]["target"], "reuse")
        others = {share["operation"] for share in document["mix"]} - REUSING
        if others:
            return KeyMistake(
                path=path,
                found=f"{', '.join(sorted(others))} on the objects of another run",
                allowed=f"phases of {', '.join(sorted(REUSING))}",
            )
        wanted = document["dataset"]
        for one in self.kept:
            is_same = all(one.dataset[key] == wanted[key] for key in _TOLD)
            if is_same and one.round_number == document["round"]:
                origin = {"run": self.run, "seed": self.seed}
                return {**one.dataset, "written_by": origin}
        there = "; ".join(_shown(one.dataset, one.round_number) for one in self.kept)
        return KeyMistake(
            path=path,
            found=f"no dataset of {_shown(wanted, document['round'])} in run {self.name}",
            allowed=there or "a run that kept its data (keep_data, or bench --keep-data)",
        )


def _shown(dataset: Mapping[str, Any], round_number: int) -> str:
    size = dataset["size"].get("bytes", dataset["size"]["kind"])
    return (
        f"{dataset['objects']} objects of {size} bytes in {dataset['buckets']} buckets, "
        f"round {round_number}"
    )
