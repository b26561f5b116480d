"""Numbers for objects that mixes put outside their dataset, disjoint between trials."""

from collections.abc import Iterable

from loadstone.campaign.planning.lifecycle import dataset_of
from loadstone.documents.mix import DELETES, WRITES_WHOLE, operations_of
from loadstone.documents.trial import TrialDocument

# Most objects that a mix of one trial may put over all its stages; the load generator enforces it.
BEYOND_MAX = 1 << 34
# Object numbers have 64 bits; one half of them is reserved for datasets.
ORDINALS_MAX = (1 << 63) // BEYOND_MAX

# Operations of a mix that work on objects outside its dataset.
_BEYOND = WRITES_WHOLE | DELETES


def ordinals_of(document: TrialDocument) -> int:
    """Return how many number ranges an entry of a plan needs: one for each trial.

    A search reserves one for each step that it may take.
    """
    goal = (document.get("search") or {}).get("goal")
    return 1 if goal is None else 1 + int(goal["trials_max"])


def written_beyond(document: TrialDocument) -> tuple[int, int] | None:
    """Return the range of object numbers that a trial may put outside its dataset, end
    exclusive.
    """
    operations = operations_of(document)
    if document.get("script") or document.get("keeps_history"):
        # All its objects have a number within the dataset.
        return None
    if len(operations) < 2 or not _BEYOND & set(operations):
        return None
    first = (dataset_of(document)["objects"] or 0) + _ticket_base(document)
    return first, first + ordinals_of(document) * BEYOND_MAX


def _ticket_base(document: TrialDocument) -> int:
    if "ticket_base" in document:
        return int(document["ticket_base"])
    # Earlier builds derived the range from the trial's number.
    return int(document["id"]) * BEYOND_MAX if str(document["id"]).isdigit() else 0


def merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return sorted ranges, with adjacent and overlapping ones merged."""
    result: list[tuple[int, int]] = []
    for first, end in sorted(ranges):
        if result and first <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((first, end))
    return result
