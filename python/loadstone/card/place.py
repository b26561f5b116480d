"""A place for a card's questions, created and removed by the load generator's ownership rules."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from loadstone import _loadgen
from loadstone.documents.load_event import LoadEvent
from loadstone.documents.summary import Summary
from loadstone.documents.trial import TargetDocument

PREFIX: Final = "loadstone-card-"
FIRST: Final = "0"
"""The key of the dataset's single object, behind its prefix."""
TIMEOUT_NS: Final = 5_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CardPlace:
    """A bucket or container; its objects are below `prefix`."""

    name: str
    prefix: str
    run: str
    target: TargetDocument
    allow_foreign: bool = False
    keeps_versions: bool = False

    @property
    def first_key(self) -> str:
        """The key of the object that `prepare` writes."""
        return self.prefix + FIRST

    def prepare(self, on_event: Callable[[LoadEvent], object]) -> None:
        """Create and mark the place, or claim the prefix in a foreign one; raise as a trial
        does.
        """
        _run(self.document("put"), on_event)

    def remove(self, *, with_versions: bool, is_ours: bool) -> Summary:
        """Remove the mark and the place if it is this card's and empty, or the claim.

        `is_ours` means that this card created it, even if it could not mark it yet.
        """
        document = self.document("clean-up", {"delete_versions": True} if with_versions else {})
        document["ownership"] = {"adopt": [self.name] if is_ours else []}
        return _run(document)

    def document(self, phase: str, settings: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return a trial on one object in the place."""
        is_put = phase == "put"
        target = {**self.target, "settings": {**self.target["settings"], **(settings or {})}}
        return {
            "format": 1,
            "id": "card",
            "run": self.run,
            "seed": 1,
            "phase": phase,
            "measured": False,
            "target": target,
            "dataset": {
                "bucket_prefix": self.name,
                "buckets": 1,
                "objects": 1,
                "object_prefix": self.prefix,
                "size": {"kind": "fixed", "bytes": 16},
            },
            "mix": [{"operation": "put" if is_put else "delete", "weight": 1.0}],
            "load": {"kind": "closed", "clients": 1},
            "stop": {"requests": 1 if is_put else None},
            "timeout_ns": TIMEOUT_NS,
            "allow_foreign": self.allow_foreign,
        }


def _run(
    document: Mapping[str, Any], on_event: Callable[[LoadEvent], object] | None = None
) -> Summary:
    summary: Summary = json.loads(_loadgen.run_trial(json.dumps(document), on_event))
    return summary
