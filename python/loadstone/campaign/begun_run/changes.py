"""What a campaign says differently from the one that a run began with."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from loadstone.campaign.reading.parse import validate
from loadstone.campaign.schema.campaign import Campaign
from loadstone.documents.manifest import ValueChange

# What these say is read when a run is judged and shown: nothing that is measured depends on them.
RECORDED = frozenset({"description", "expect", "statements", "report"})


@dataclass(frozen=True, slots=True)
class Change:
    """What a key of the campaign said when the run began, and what it says now."""

    before: Any
    after: Any

    def document(self) -> ValueChange:
        """Return it as a manifest keeps it."""
        return {"before": self.before, "after": self.after}


def changes(before: Mapping[str, Any], after: Campaign) -> dict[str, Change]:
    """Return the keys that differ between a campaign as a manifest keeps it and one that was read.

    What one says and the other leaves to its default is no difference.
    """
    then, _ = validate(before)
    one = then.model_dump(mode="json", by_alias=True) if then is not None else dict(before)
    other = after.model_dump(mode="json", by_alias=True)
    keys = [key for key in (*other, *(one.keys() - other.keys())) if one.get(key) != other.get(key)]
    return {key: Change(one.get(key), other.get(key)) for key in keys}
