"""The noise floor: how far a target that stands twice in a run differs from itself."""

import math
from collections.abc import Mapping, Sequence

from loadstone.analysis.accounts.account import Account, Measurement, grouped
from loadstone.analysis.accounts.in_turns import arms_of


def noise_floors(accounts: Sequence[Account], metric: str) -> dict[object, float]:
    """Return the |ln ratio| by which a target differs from itself, by case; None: the largest."""
    floors: dict[object, float] = {}
    for account in accounts:
        for one, other in account.identical:
            cells = grouped(account.of(metric, one), lambda m: m.case_over_rounds)
            twins = grouped(account.of(metric, other), lambda m: m.case_over_rounds)
            for case in [case for case in cells if case in twins]:
                ratio = arms_of(cells[case], twins[case], is_one_run=bool(account.run)).ratio
                if ratio.low is not None and ratio.high is not None:
                    bound = max(abs(math.log(ratio.low)), abs(math.log(ratio.high)))
                    floors[case] = max(bound, floors.get(case, 0.0))
    if floors:
        floors[None] = max(floors.values())
    return floors


def floor_of(floors: Mapping[object, float], one: Measurement) -> float | None:
    """Return the floor of a measurement's case, else the largest of the run."""
    return floors.get(one.case_over_rounds, floors.get(None))
