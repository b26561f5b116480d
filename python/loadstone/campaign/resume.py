"""Plans the rest of an interrupted run, with repairs of its datasets."""

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from loadstone.campaign.drivers import Driver
from loadstone.campaign.parse import validate
from loadstone.campaign.planning import beyond, lifecycle, trial
from loadstone.campaign.planning.lifecycle import Need, State, dataset_of
from loadstone.campaign.planning.plan import Plan
from loadstone.campaign.planning.trial import PlannedTrial, legs_of
from loadstone.campaign.schema.campaign import Campaign
from loadstone.documents.manifest import ValueChange
from loadstone.documents.mix import writes_dataset
from loadstone.documents.summary import Summary
from loadstone.documents.trial import TrialDocument

_Place = tuple[str, str]

WRITTEN = (State.PARTIAL, State.FULL, State.SURPLUS)


@dataclass(frozen=True, slots=True)
class RunToResume:
    """The state of a dataset after an interruption: its version, and whether it is certain."""

    state: State = State.ABSENT
    version: int = 0
    is_in_doubt: bool = False

    def suits(self, need: Need, version: int) -> bool:
        """Tell whether a trial that needs this state and version can start."""
        is_version_right = need is not Need.FULL or self.version == version
        return not self.is_in_doubt or (need.is_met_by(self.state) and is_version_right)


def resume(
    plan: Plan, finished_ids: Collection[str], started_ids: Collection[str] | None = None
) -> Plan:
    """Return the trials that are still to run, in order.

    A trial that started and did not finish leaves its dataset in an uncertain state: if a later
    trial needs it, a `prepare` or `clean-up` trial is inserted again, with a new number after the
    plan's last; so is the preparation of a script. Without `started_ids`, the first unfinished
    trial of each target is assumed to have started, and so is each one before a finished one.

    The data of a leg was deleted with its server, so it is written again if its trials had written
    any.
    """
    finished = set(finished_ids)
    started = _started(plan, finished) if started_ids is None else set(started_ids)
    # Starts that are planned later continue the numbering, so repairs are numbered separately.
    lead = "r" if plan.later is not None or plan.suites > 1 else ""
    names = (name.removeprefix(lead) for name in (*finished, *_ids(plan)) if name.startswith(lead))
    numbers = (int(name) for name in names if name.isdigit())
    number = max(numbers, default=0)
    past = _past(plan, finished, started)
    written = _written(plan)
    remaining: list[PlannedTrial] = []
    preparations: dict[_Place, TrialDocument] = {}
    legs = legs_of(plan.trials) if plan.arms else {}
    begun = {leg for trial, leg in legs.items() if trial in finished}
    leg: int | None = None
    for entry in plan.trials:
        place, document = _place(entry), entry.document
        is_preparation = lifecycle.prepares_script(document)
        if is_preparation:
            preparations[place] = document
        if entry.id in finished:
            continue
        dataset = past.get(place, RunToResume())
        need = lifecycle.need_of(document, is_first=entry.is_first)
        is_script = bool(document.get("script")) and not is_preparation
        if is_script and remaining and remaining[-1].document is preparations.get(place):
            need = Need.ANYTHING
        if entry.id in legs and legs[entry.id] != leg:
            leg = legs[entry.id]
            if leg in begun and dataset.state in WRITTEN and entry.phase != lifecycle.CLEAN_UP:
                need = Need.FULL
            dataset = RunToResume(is_in_doubt=leg in begun)
        if not dataset.suits(need, _version(document)):
            repairs = _repairs(document, plan.drivers[place[0]], need, written[place])
            if repairs and is_script and place in preparations:
                repairs.append(preparations[place])
            for repair in repairs:
                number += 1
                repaired: TrialDocument = {**repair, "id": f"{lead}{number:04d}"}
                remaining.append(PlannedTrial(document=repaired, suite=entry.suite))
                dataset = _after(repaired, dataset)
        remaining.append(entry)
        past[place] = _after(document, dataset)
    return dataclasses.replace(plan, trials=tuple(remaining))


def _past(
    plan: Plan, finished: Collection[str], started: Collection[str]
) -> dict[_Place, RunToResume]:
    """Return the state of each dataset after the trials that finished or were interrupted."""
    past: dict[_Place, RunToResume] = {}
    skipped: set[_Place] = set()
    for entry in plan.trials:
        place = _place(entry)
        dataset = past.get(place, RunToResume())
        if entry.id not in finished and entry.id not in started:
            skipped.add(place)
            continue
        if place in skipped:
            # It ran without a preparation that the plan has before it.
            dataset = dataclasses.replace(dataset, is_in_doubt=True)
        if entry.id in finished:
            past[place] = _after(entry.document, dataset)
            continue
        state = lifecycle.state_interrupted(entry.document, dataset.state)
        # It is unknown which objects a script had overwritten or deleted.
        is_changed = state is not dataset.state or bool(entry.document.get("script"))
        is_in_doubt = dataset.is_in_doubt or is_changed
        past[place] = RunToResume(state, dataset.version, is_in_doubt)
        skipped.add(place)
    return past


def left_as(
    documents: Iterable[TrialDocument], summaries: Mapping[str, Summary]
) -> dict[_Place, RunToResume]:
    """Return the state of each dataset after trials, which must be in the order of their start.

    A trial without a summary did not finish. Objects whose request failed do not exist.
    """
    states: dict[_Place, RunToResume] = {}
    for document in documents:
        place = lifecycle.place_of(document)
        before, summary = states.get(place, RunToResume()), summaries[document["id"]]
        after = _after(document, before)
        if summary.get("state") != "finished" or summary.get("failed"):
            state = lifecycle.state_interrupted(document, before.state)
            after = RunToResume(
                state, after.version, before.is_in_doubt or state is not before.state
            )
        states[place] = after
    return states


def _after(document: TrialDocument, dataset: RunToResume) -> RunToResume:
    version = dataset.version
    if writes_dataset(document):
        version = _version(document)
    return RunToResume(lifecycle.state_after(document, dataset.state), version, dataset.is_in_doubt)


def _started(plan: Plan, finished: Collection[str]) -> set[str]:
    """Return unfinished trials that may have started; a target's trials run in order."""
    started: set[str] = set()
    for target in plan.drivers:
        order = [entry.id for entry in plan.trials if _place(entry)[0] == target]
        last = max((index for index, name in enumerate(order) if name in finished), default=-1)
        started |= {name for name in order[: last + 1] if name not in finished}
        started |= set(order[last + 1 : last + 2])
    return started


def _ids(plan: Plan) -> list[str]:
    return [entry.id for entry in plan.trials]


def _place(entry: PlannedTrial) -> _Place:
    return lifecycle.place_of(entry.document)


def _version(document: TrialDocument) -> int:
    """Return the version of the dataset that a trial uses; 0 without a dataset."""
    return dataset_of(document).get("version", 0)


def _written(plan: Plan) -> dict[_Place, list[tuple[int, int]]]:
    """Return the numbers that mixes may have put outside each dataset, run or not."""
    written: dict[_Place, list[tuple[int, int]]] = {}
    for entry in plan.trials:
        beyond_dataset = beyond.written_beyond(entry.document)
        written.setdefault(_place(entry), []).extend([beyond_dataset] if beyond_dataset else [])
    return written


def _repairs(
    document: TrialDocument, driver: Driver, need: Need, written: list[tuple[int, int]]
) -> list[TrialDocument]:
    """Return the trials that bring a dataset in an uncertain state into the state that a trial
    needs.
    """
    if dataset_of(document).get("written_by"):
        # Objects kept by another run are neither rewritten nor deleted.
        return []
    load = document["load"]
    threads = load["clients"] if load["kind"] == "closed" else trial.PREPARE_THREADS_OPEN
    repairs: list[TrialDocument] = []
    if need is not Need.FULL and lifecycle.can_clean_up(driver):
        repairs.append(trial.clean_up_of(document, threads, written))
    if need is Need.FULL and lifecycle.can_prepare(driver):
        repairs.append(trial.prepare_of(document, driver, threads))
    if need is Need.EMPTY:
        repairs.append(trial.prepare_buckets_of(document, threads))
    return repairs


# These keys affect only judging and reporting; no measurement depends on them.
RECORDED = frozenset({"description", "expect", "statements", "report"})


@dataclass(frozen=True, slots=True)
class Change:
    """Values of a campaign key when the run began, and now."""

    before: Any
    after: Any

    def document(self) -> ValueChange:
        """Return it as a manifest keeps it."""
        return {"before": self.before, "after": self.after}


def changes(before: Mapping[str, Any], after: Campaign) -> dict[str, Change]:
    """Return the keys that differ between a manifest's campaign and the current one.

    An absent key equals its default.
    """
    then, _ = validate(before)
    recorded = then.model_dump(mode="json", by_alias=True) if then is not None else dict(before)
    other = after.model_dump(mode="json", by_alias=True)
    keys = [
        key
        for key in (*other, *(recorded.keys() - other.keys()))
        if recorded.get(key) != other.get(key)
    ]
    return {key: Change(recorded.get(key), other.get(key)) for key in keys}
