"""The legs of a plan: trials that share a server which is started for them."""

from collections.abc import Sequence

from loadstone.campaign.planning.lifecycle import CLEAN_UP
from loadstone.campaign.planning.trial import PlannedTrial


def legs_of(trials: Sequence[PlannedTrial]) -> dict[str, int]:
    """Return for each trial the number of its leg: a case of a target in one block.

    What the planner puts in belongs to the measured trial that needs it: the next one, or of a
    clean-up the one before.
    """
    owners: list[PlannedTrial | None] = [None] * len(trials)
    before: PlannedTrial | None = None
    for place, planned in enumerate(trials):
        before = planned if planned.is_measured else before
        owners[place] = before if planned.is_measured or planned.phase == CLEAN_UP else None
    after: PlannedTrial | None = None
    for place in reversed(range(len(trials))):
        after = trials[place] if trials[place].is_measured else after
        owners[place] = owners[place] or after
    legs: dict[str, int] = {}
    number, last = 0, None
    for planned, owner in zip(trials, owners, strict=True):
        document = (owner or planned).document
        key = (document["target"]["name"], document["block"], str(document["case"]))
        number += key != last
        last = key
        legs[planned.id] = number
    return legs
