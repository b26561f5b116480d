"""The measured steps of a plan in order, each with its dataset's next need."""

import itertools
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from loadstone.campaign.parameters import SWEPT_LOADS
from loadstone.campaign.planning import filling, lifecycle, placement
from loadstone.campaign.planning.case import Case
from loadstone.campaign.planning.lifecycle import Need
from loadstone.campaign.planning.placement import DatasetKey
from loadstone.campaign.planning.trial import Step
from loadstone.campaign.schema.campaign import Campaign


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredStep:
    """A measured step before it is planned."""

    step: Step
    key: DatasetKey
    suite: int
    is_first: bool
    pause_after_ns: int
    next_need: Need | None


def stops_of(campaign: Campaign, cases: Sequence[Case], run: str, suite: int) -> list[MeasuredStep]:
    """Return the measured steps of one start in order."""
    stops: list[MeasuredStep] = []
    is_same = campaign.schedule is not None and campaign.schedule.order == "same"
    for number in range(campaign.blocks):
        block = suite * campaign.blocks + number + 1
        order = list(cases)
        if campaign.order == "random":
            seed = number + 1 if is_same else block
            _shuffle(order, random.Random(f"{campaign.seed}/{seed}"))
        # The sort is stable, so cases of the same level keep their random order.
        order.sort(key=lambda case: filling.level_of(case).order)
        for case in order:
            stops += _of_case(campaign, case, block, suite, run)
    return stops


def _shuffle(order: list[Case], chance: random.Random) -> None:
    """Shuffle the cases of a block so that drift of the target affects all of them equally.

    Three or more loads of one sweep never rise or fall monotonically, because carry-over from one
    trial to the next would look like an effect of the load.
    """
    chance.shuffle(order)
    sweeps: dict[str, list[int]] = {}
    for place, case in enumerate(order):
        sweeps.setdefault(_sweep_of(case), []).append(place)
    for places in sweeps.values():
        members = [order[place] for place in places]
        while len(members) > 2 and _is_monotonic([_load_of(case) for case in members]):
            chance.shuffle(members)
        for place, case in zip(places, members, strict=True):
            order[place] = case


def _sweep_of(case: Case) -> str:
    rest = {key: value for key, value in case.swept.items() if key not in SWEPT_LOADS}
    return json.dumps(
        [case.target, case.workload.name, case.intervention, rest], sort_keys=True, default=str
    )


def _load_of(case: Case) -> tuple[float, ...]:
    return tuple(case.swept.get(key) or 0.0 for key in SWEPT_LOADS)


def _is_monotonic(loads: Sequence[tuple[float, ...]]) -> bool:
    steps = list(itertools.pairwise(loads))
    return all(low < high for low, high in steps) or all(low > high for low, high in steps)


def _of_case(
    campaign: Campaign, case: Case, block: int, suite: int, run: str
) -> list[MeasuredStep]:
    stops: list[MeasuredStep] = []
    touched: set[DatasetKey] = set()
    workload = case.workload
    for phase in workload.phases:
        for round_number in range(1, workload.rounds + 1):
            key = placement.dataset_key(case, phase, round_number, campaign.name, run)
            is_last = round_number == workload.rounds
            stops.append(
                MeasuredStep(
                    step=Step(case=case, phase=phase, round_number=round_number, block=block),
                    key=key,
                    suite=suite,
                    is_first=key not in touched,
                    pause_after_ns=phase.pause_after_ns if is_last else workload.round_pause_ns,
                    next_need=None,
                )
            )
            touched.add(key)
    return stops


def with_next_needs(
    stops: Sequence[MeasuredStep], campaign: Campaign, coming: dict[DatasetKey, Need]
) -> list[MeasuredStep]:
    """Return the steps, each with its dataset's next need; `coming` holds the needs after them."""
    result: list[MeasuredStep] = []
    legs: dict[DatasetKey, tuple[Case, int]] = {}
    for stop in reversed(stops):
        target, leg = stop.step.case.target, (stop.step.case, stop.step.block)
        driver = campaign.targets[target].driver
        # The data of an arm's server is deleted after the leg.
        is_over = target in campaign.arms and legs.get(stop.key) != leg
        result.append(replace(stop, next_need=None if is_over else coming.get(stop.key)))
        legs[stop.key] = leg
        coming[stop.key] = lifecycle.need_of_phase(driver, stop.step.phase, is_first=stop.is_first)
    return result[::-1]
