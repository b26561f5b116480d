"""Builds trial documents from a phase of a case and a round of its dataset."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from loadstone.campaign import search_step
from loadstone.campaign.drivers import Driver, Drivers, facts_of
from loadstone.campaign.planning import beyond
from loadstone.campaign.planning.case import Case
from loadstone.campaign.planning.existing import dataset_of_list
from loadstone.campaign.planning.kinds import OPERATIONS
from loadstone.campaign.planning.lifecycle import (
    AUDIT,
    CLEAN_UP,
    PREPARE,
    dataset_of,
    is_historic,
    largest_size,
    whole_requests,
)
from loadstone.campaign.planning.placement import content_document
from loadstone.campaign.schema.campaign import Audit, Campaign
from loadstone.campaign.schema.phase import Contend, Phase
from loadstone.campaign.schema.target import resolve_settings
from loadstone.documents.manifest import ObjectListDocument
from loadstone.documents.python_types import Parameters, TargetSettings
from loadstone.documents.trial import (
    DatasetDocument,
    HistoryDocument,
    OnErrorDocument,
    OptionsDocument,
    OwnershipDocument,
    Stop,
    TargetDocument,
    TrialDocument,
)

FORMAT = 1

# Threads that fill a store when the campaign states no number; enough to be quick.
PREPARE_THREADS_OPEN = 64
PAGE_KEYS = 1000
_PART_BYTES = 64 << 20
_BLOCK_BYTES = 1 << 20
# Options that are only read by operations on parts of an object.
_NO_PIECES: OptionsDocument = {"range_bytes": None, "part_bytes": None, "part_concurrency": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTrial:
    """A trial in its place in the plan.

    `pause_before_ns` is a pause that the campaign asks for, unknown to the load generator; `suite`
    is the index of the schedule's start that the trial belongs to; `is_first` means that no earlier
    phase of its case used its dataset.
    """

    document: TrialDocument
    pause_before_ns: int = 0
    suite: int = 0
    is_first: bool = False

    @property
    def id(self) -> str:
        """The trial's name in the run folder."""
        return str(self.document["id"])

    @property
    def phase(self) -> str:
        """The phase's name; the planner itself names prepare and clean-up."""
        return str(self.document["phase"])

    @property
    def is_search(self) -> bool:
        """Whether it stands for a search, whose trials are derived step by step."""
        return search_step.is_search(self.document)

    @property
    def is_measured(self) -> bool:
        """Whether the trial counts in results."""
        return bool(self.document["measured"])


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetInRun:
    """Facts that all trials of one target share in a run."""

    run: str
    seed: int
    driver: Driver
    document: TargetDocument
    allow_foreign: bool
    is_beside_others: bool
    audit: Audit | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One phase of one case on one round's dataset, in one block of the plan."""

    case: Case
    phase: Phase
    round_number: int
    block: int


def measured_document(
    target: TargetInRun, step: Step, objects: ObjectListDocument | None = None
) -> TrialDocument:
    """Return the document of a phase, without the trial's id and the dataset's place.

    `objects` lists its objects, if others wrote them.
    """
    case, phase = step.case, step.phase
    workload, load = case.workload, case.load(phase)
    dataset = _dataset(step, target)
    if objects is not None:
        dataset = {**dataset, **dataset_of_list(objects)}
    options = _options(phase)
    timeout_ns = phase.timeout_ns or workload.timeout_ns
    verify = workload.verify if phase.verify is None else phase.verify
    log_requests = workload.log_requests if phase.log_requests is None else phase.log_requests
    on_error: OnErrorDocument = {
        "action": workload.on_error.action,
        "limit": workload.on_error.limit,
    }
    special: TrialDocument = {}
    if case.intervention is not None:
        base = case.phase_of_base(phase)
        special = {"intervention": {"kind": case.intervention, "of": base}}
    if phase.capacity is not None:
        special = {"search": phase.capacity.document(phase.load or workload.load)}
        # Loads beyond the capacity fail; the search relies on that to locate it.
        on_error = {"action": "continue", "limit": None}
    if case.hosts(phase) is not None:
        special["hosts"] = case.hosts(phase)
    special |= _kept_for_audit(target.audit, phase)
    if load.cpus is not None:
        special["cpus"] = list(load.cpus)
    if load.numa is not None:
        special["numa_nodes"] = list(load.numa)
    return {
        "format": FORMAT,
        "kind": OPERATIONS,
        "id": "",
        "run": target.run,
        "seed": target.seed,
        "phase": phase.label,
        "round": step.round_number,
        "block": step.block,
        "measured": True,
        "case": {
            "target": case.target,
            "workload": workload.name,
            "parameters": case.parameters(phase),
        },
        "target": target.document,
        "dataset": dataset,
        "mix": phase.shares(),
        "options": options,
        "load": case.load_document(phase),
        "rate_limit_per_s": phase.rate_limit_per_s,
        "keys": {"order": phase.keys.order, "theta": phase.keys.theta},
        "stop": _stop(phase, dataset, options),
        "warm_up_ns": phase.warm_up_ns,
        "cool_down_ns": phase.cool_down_ns,
        "iterations": phase.iterations,
        "connections": phase.connections or workload.connections,
        "timeout_ns": timeout_ns,
        "on_error": on_error,
        "verify": verify,
        "allow_foreign": target.allow_foreign,
        "ownership": {"adopt": [], "runs": [], "written": []},
        "ticket_base": 0,
        "cores": load.cores,
        "log_requests": log_requests,
        **special,
    }


def _kept_for_audit(audit: Audit | None, phase: Phase) -> TrialDocument:
    """Return the fields for an audit: a history of its calls, or a ledger of its writes."""
    if audit is None:
        return {}
    if phase.script is not None:
        return {"keeps_history": True, "verify": 1.0} if audit.history else {}
    if audit.history and phase.capacity is None and is_historic(phase.operations):
        history: TrialDocument = {"keeps_history": True, "verify": 1.0}
        if phase.keys.order == "sequential" and phase.contend is None:
            # In sequence, calls would hardly ever overlap at an object, and never from different
            # hosts.
            history["keys"] = {"order": "uniform", "theta": None}
        return history
    return {"keeps_ledger": True}


def prepare_of(document: TrialDocument, driver: Driver, threads: int) -> TrialDocument:
    """Return an unmeasured trial that writes every object of a measured trial's dataset."""
    largest_bytes = largest_size(dataset_of(document)["size"])
    options: OptionsDocument = {**document["options"], **_NO_PIECES}
    limits = driver.facts.limits
    limit = limits.put_bytes_max
    if limit is not None and largest_bytes > limit and "multipart_put" in driver.operations:
        operation = "multipart_put"
        parts_max = limits.parts_max or largest_bytes
        options["part_bytes"] = max(_PART_BYTES, -(-largest_bytes // parts_max))
    elif "put" in driver.operations:
        operation = "put"
    else:
        operation = "write"
        options["range_bytes"] = min(_BLOCK_BYTES, max(1, largest_bytes))
    requests = whole_requests(operation, dataset_of(document), options)
    prepare = unmeasured(document, PREPARE, operation, requests, threads)
    # Only the campaign may accept objects that are missing after a failed prepare.
    return {**prepare, "options": options, "on_error": document["on_error"]}


def prepare_buckets_of(document: TrialDocument, threads: int) -> TrialDocument:
    """Return an unmeasured trial that creates the buckets of a measured trial, empty."""
    buckets = dataset_of(document)["buckets"]
    return unmeasured(document, PREPARE, "create_bucket", buckets, threads)


def clean_up_of(
    document: TrialDocument, threads: int, written: Iterable[tuple[int, int]]
) -> TrialDocument:
    """Return an unmeasured trial that deletes a measured trial's dataset and its buckets.

    `written` holds ranges of the objects that mixes may have put beyond the dataset.
    """
    # It deletes all objects in the buckets, so it has no fixed number of requests.
    clean_up = unmeasured(document, CLEAN_UP, "delete", threads, threads)
    clean_up.pop("keeps_ledger", None)
    # Plans of earlier builds lack the ownership.
    before: OwnershipDocument = document.get("ownership") or {"adopt": [], "runs": []}
    ownership: OwnershipDocument = {
        **before,
        "written": [list(numbers) for numbers in beyond.merged(written)],
    }
    stop: Stop = {"requests": None, "duration_ns": None}
    clean_up = {**clean_up, "ownership": ownership, "stop": stop}
    script = document.get("script")
    if script:
        # It takes the objects by their keys, not from the script's requests.
        clean_up["script"] = {**script, "requests": None, "speed": None}
    return clean_up


def audit_of(document: TrialDocument, threads: int, sample: int | None) -> TrialDocument:
    """Return an unmeasured trial that compares a measured trial's dataset with its ledgers."""
    objects = dataset_of(document)["objects"] or 1
    audit = unmeasured(document, AUDIT, "get", objects, threads)
    audit.pop("keeps_ledger", None)
    return {
        **audit,
        # All buckets are listed page by page before objects are read.
        "mix": [{"operation": name, "weight": 1.0} for name in ("get", "list")],
        "options": {
            **audit["options"],
            **OptionsDocument(page_keys=PAGE_KEYS, prefix=None, delimiter=None),
        },
        "verify": 1.0,
        # The ledgers are known only after the trials have run.
        "owed": {"ledgers": [], "is_absent_before": True, "sample": sample},
    }


def read_back_of(document: TrialDocument, threads: int, model: str) -> TrialDocument:
    """Return an unmeasured trial that reads each object once after a trial with a history.

    Its reads are the last calls of that history, which is judged afterwards.
    """
    objects = dataset_of(document)["objects"] or 1
    read_back = unmeasured(document, AUDIT, "get", objects, threads)
    # The files are known only after the trial has run.
    judged: HistoryDocument = {"model": model, "files": [], "version": None}
    return {**read_back, "keeps_history": True, "judged": judged}


def prepare_threads(cases: Sequence[Case]) -> dict[str, int]:
    """Return the threads that write and delete each workload's data: its own maximum."""
    threads: dict[str, int] = {}
    for case in cases:
        name = case.workload.name
        for phase in case.workload.phases:
            if case.load(phase).threads is not None:
                clients = case.load_document(phase)["clients"]
                threads[name] = max(threads.get(name, 0), clients)
        threads.setdefault(name, 0)
    return {name: most or PREPARE_THREADS_OPEN for name, most in threads.items()}


def unmeasured(
    document: TrialDocument, phase: str, operation: str, requests: int, threads: int
) -> TrialDocument:
    """Return a trial that the planner inserts, on the dataset of a measured one."""
    clients = min(threads, max(1, requests))
    case = document["case"]
    document = document.copy()
    document.pop("search", None)
    document.pop("keeps_history", None)
    document.pop("intervention", None)
    document.pop("cpus", None)
    document.pop("numa_nodes", None)
    # Cases may share the dataset, so a parameter that one of them varies does not apply.
    parameters: Parameters = {"threads": clients}
    if "size" in case["parameters"]:
        parameters["size"] = case["parameters"]["size"]
    return {
        **document,
        "phase": phase,
        "measured": False,
        "case": {**case, "parameters": parameters},
        "mix": [{"operation": operation, "weight": 1.0}],
        "options": {**document["options"], **_NO_PIECES},
        "load": {"kind": "closed", "clients": clients},
        "rate_limit_per_s": None,
        "keys": {"order": "sequential", "theta": None},
        "stop": {"requests": requests, "duration_ns": None},
        "warm_up_ns": 0,
        "cool_down_ns": 0,
        "iterations": 1,
        "connections": "keep_alive",
        "on_error": {"action": "continue", "limit": None},
        "verify": 0.0,
        "cores": None,
        "ticket_base": 0,
        "log_requests": False,
    }


def _dataset(step: Step, target: TargetInRun) -> DatasetDocument:
    dataset = step.case.dataset(step.phase)
    content = content_document(dataset)
    is_ours = dataset.existing is None
    if is_ours and target.is_beside_others and "object_prefix" not in dataset.model_fields_set:
        # Foreign objects might have the same names without this prefix.
        content["object_prefix"] += f"{target.run[:8]}-"
    return {"bucket_prefix": "", **content, "version": 1}


def _options(phase: Phase) -> OptionsDocument:
    return {
        "range_bytes": phase.range_bytes,
        "range_count": phase.range_count or 1,
        "part_bytes": phase.part_bytes,
        "part_concurrency": phase.part_concurrency,
        "page_keys": phase.page_keys,
        "prefix": phase.prefix,
        "delimiter": phase.delimiter,
        "bulk_keys": phase.bulk_keys,
        "contended_keys": (phase.contend or Contend()).keys,
        **_upload_options(phase),
    }


def _upload_options(phase: Phase) -> OptionsDocument:
    if not phase.has_upload_steps:
        return {}
    return {
        "part_order": phase.part_order,
        "part_pause_ns": phase.part_pause_ns,
        "ended_twice": phase.ended_twice,
    }


def _stop(phase: Phase, dataset: DatasetDocument, options: OptionsDocument) -> Stop:
    if phase.script is not None:
        # The number of requests is known once the script's files exist.
        return {"requests": None, "duration_ns": phase.duration_ns}
    if phase.capacity is not None:
        return {"requests": None, "duration_ns": phase.capacity.trial_ns}
    requests = phase.requests
    whole = whole_requests(phase.op or "mix", dataset, options)
    if requests is None and phase.duration_ns is None:
        requests = whole
    if phase.only_once is not None:
        # All objects are then deleted or full, so the trial ends there even before its duration.
        requests = whole if requests is None else min(requests, whole)
    return {"requests": requests, "duration_ns": phase.duration_ns}


def targets_in_run(campaign: Campaign, drivers: Drivers, run: str) -> dict[str, TargetInRun]:
    """Return the facts that all trials of a target share, by target name."""
    return {
        name: TargetInRun(
            run=run,
            seed=campaign.seed,
            driver=drivers[target.driver],
            document={
                "name": name,
                "driver": target.driver,
                "settings": cast(
                    TargetSettings,
                    _from_anywhere(target.driver, resolve_settings(target, drivers)[0]),
                ),
                **({"facts": target.facts} if target.facts else {}),
            },
            allow_foreign=name in campaign.allow_foreign,
            # Without prepare, the objects exist already under their own names.
            is_beside_others=name in campaign.allow_foreign and campaign.prepare != "never",
            audit=campaign.audit if drivers[target.driver].facts.keeps else None,
        )
        for name, target in campaign.targets.items()
    }


def _from_anywhere(driver: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings with absolute paths, so that the run can be resumed from another
    directory.
    """
    address = facts_of(driver).address
    paths = [name for name in address.settings if name in settings and address.kind == "path"]
    return {**settings, **{name: os.path.abspath(settings[name]) for name in paths}}


def legs_of(trials: Sequence[PlannedTrial]) -> dict[str, int]:
    """Return each trial's leg number; a leg is a case of a target in one block.

    Inserted trials belong to the leg of the measured trial that needs them: the next one, or for a
    clean-up the previous one.
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
