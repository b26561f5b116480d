"""A place of the card's own, made and removed by the load generator's rules of ownership."""

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
"""What the dataset calls its one object, behind its prefix."""
TIMEOUT_NS: Final = 5_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CardPlace:
    """A bucket or container; what is written in it lies below `prefix`."""

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
        """Make and mark it, or claim the prefix in another's; raise as a trial does."""
        _run(self.document("put"), on_event)

    def remove(self, *, with_versions: bool, is_ours: bool) -> Summary:
        """Remove the mark and the place if it is ours and empty, or the claim.

        `is_ours` says that it was made by this card, which may not have come to mark it.
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
