"""What is left of a plan after an interruption, and what has to be made again for it."""

from collections.abc import Collection
from typing import Any

from loadstone.campaign import lifecycle, trial
from loadstone.campaign.drivers import Driver
from loadstone.campaign.lifecycle import Document, Need, State
from loadstone.campaign.plan import Plan
from loadstone.campaign.trial import PlannedTrial

_Place = tuple[str, str]


def resume(
    plan: Plan, finished_ids: Collection[str], started_ids: Collection[str] | None = None
) -> Plan:
    """Return the trials that are still to run, in order.

    A trial that started and did not finish leaves its dataset in doubt: where a later trial needs
    it, a `prepare` or `clean-up` trial is put in again, under a new number at the end of the
    plan's. Without `started_ids`, the first unfinished trial is taken to have started, and so is
    each one that stands before a finished one.
    """
    finished = set(finished_ids)
    started = _started(plan, finished) if started_ids is None else set(started_ids)
    number = max(
        (int(name) for name in (*finished, *(entry.id for entry in plan.trials)) if name.isdigit()),
        default=0,
    )
    states: dict[_Place, State] = {}
    in_doubt: set[_Place] = set()
    remaining: list[PlannedTrial] = []
    for entry in plan.trials:
        place, document = _place(entry), entry.document
        state = states.get(place, State.ABSENT)
        if entry.id in finished:
            states[place] = lifecycle.state_after(document, state)
            continue
        if entry.id in started:
            state = lifecycle.state_interrupted(document, state)
            in_doubt.add(place)
        need = lifecycle.need_of(document, is_first=entry.is_first)
        if place in in_doubt and not need.is_met_by(state):
            for repair in _repairs(document, plan.drivers[place[0]], need):
                number += 1
                repaired = {**repair, "id": f"{number:04d}"}
                remaining.append(PlannedTrial(document=repaired, suite=entry.suite))
                state = lifecycle.state_after(repair, state)
        remaining.append(entry)
        states[place] = lifecycle.state_after(document, state)
    return Plan(
        name=plan.name,
        seed=plan.seed,
        run=plan.run,
        trials=tuple(remaining),
        drivers=plan.drivers,
        replication=plan.replication,
    )


def _started(plan: Plan, finished: Collection[str]) -> set[str]:
    order = [entry.id for entry in plan.trials]
    last = max((index for index, name in enumerate(order) if name in finished), default=-1)
    before = {name for name in order[: last + 1] if name not in finished}
    after = [name for name in order[last + 1 :] if name not in finished][:1]
    return before | set(after)


def _place(entry: PlannedTrial) -> _Place:
    return (entry.document["target"]["name"], entry.document["dataset"]["bucket_prefix"])


def _repairs(document: Document, driver: Driver, need: Need) -> list[dict[str, Any]]:
    """Return the trials that bring a dataset in doubt into the state that a trial needs."""
    load = document["load"]
    threads = load["clients"] if load["kind"] == "closed" else trial.PREPARE_THREADS_OPEN
    repairs: list[dict[str, Any]] = []
    if need is not Need.FULL and lifecycle.can_clean_up(driver):
        repairs.append(trial.clean_up_of(document, threads))
    if need is Need.FULL and lifecycle.can_prepare(driver):
        repairs.append(trial.prepare_of(document, driver, threads))
    if need is Need.EMPTY:
        repairs.append(trial.prepare_buckets_of(document, threads))
    return repairs
