"""The numbers of objects that mixes put beyond their dataset: no two trials have one in common."""

from collections.abc import Iterable

from loadstone.campaign.planning.lifecycle import dataset_of
from loadstone.documents.mix import DELETES, WRITES_WHOLE, operations_of
from loadstone.documents.trial import TrialDocument

# Objects that a mix of one trial may put, over all its stages; the load generator holds to it.
BEYOND_MAX = 1 << 34
# Numbers of objects have 64 bits, and a half of them is for datasets.
ORDINALS_MAX = (1 << 63) // BEYOND_MAX

# Operations of a mix on objects beyond its dataset.
_BEYOND = WRITES_WHOLE | DELETES


def ordinals_of(document: TrialDocument) -> int:
    """Return how many trials an entry of a plan may become: the steps of a search have numbers too.

    Each of them has numbers of its own for the objects that its mix puts beyond the dataset.
    """
    goal = (document.get("search") or {}).get("goal")
    return 1 if goal is None else 1 + int(goal["trials_max"])


def written_beyond(document: TrialDocument) -> tuple[int, int] | None:
    """Return the numbers of the objects that a trial may put beyond its dataset, end exclusive."""
    operations = operations_of(document)
    if document.get("script") or document.get("keeps_history"):
        # All that it may put has a number in the dataset.
        return None
    if len(operations) < 2 or not _BEYOND & set(operations):
        return None
    first = (dataset_of(document)["objects"] or 0) + _ticket_base(document)
    return first, first + ordinals_of(document) * BEYOND_MAX


def _ticket_base(document: TrialDocument) -> int:
    if "ticket_base" in document:
        return int(document["ticket_base"])
    # Earlier builds took it from the trial's number.
    return int(document["id"]) * BEYOND_MAX if str(document["id"]).isdigit() else 0


def merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return ranges of numbers in order, those that touch each other as one."""
    result: list[tuple[int, int]] = []
    for first, end in sorted(ranges):
        if result and first <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((first, end))
    return result
