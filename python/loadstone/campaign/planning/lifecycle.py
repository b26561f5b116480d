"""States of datasets: what a trial requires before it starts, and what it leaves behind.

A dataset is absent, has empty buckets, is partly full, full, or full with additional objects. The
planner tracks this state, and inserts `prepare` and `clean-up` trials where it does not suit the
next trial.
"""

from collections.abc import Collection
from enum import Enum
from typing import TYPE_CHECKING

from loadstone.campaign.drivers import Driver, facts_of
from loadstone.campaign.operations import OPERATIONS
from loadstone.documents.mix import (
    COMPARE_AND_SWAP,
    COPY,
    DELETES,
    POST,
    REWRITES,
    WRITES_BLOCKS,
    WRITES_WHOLE,
    operations_of,
)
from loadstone.documents.trial import DatasetDocument, OptionsDocument, Size, TrialDocument

if TYPE_CHECKING:
    from loadstone.campaign.schema.phase import Phase

PREPARE = "prepare"
CLEAN_UP = "clean-up"
FILL = "fill"
AUDIT = "audit"

HISTORIC = frozenset(
    {
        "put", "get", "head", "list", "delete", "put_if_absent", "put_if_match", "delete_if_match",
        COMPARE_AND_SWAP,
    }
)  # fmt: skip
"""Operations whose history can be recorded."""


class State(Enum):
    """How much of a dataset exists."""

    ABSENT = "absent"
    EMPTY = "empty"
    PARTIAL = "partial"
    FULL = "full"
    SURPLUS = "full, and objects beside the dataset's own"


class Need(Enum):
    """The state that a trial requires."""

    ANYTHING = "anything"
    FULL = "all objects"
    FRESH = "no objects"
    ABSENT = "no buckets"
    EMPTY = "empty buckets"

    def is_met_by(self, state: State) -> bool:
        """Tell whether a dataset in this state meets the need."""
        match self:
            case Need.ANYTHING:
                return True
            case Need.FULL:
                return state in (State.FULL, State.SURPLUS)
            case Need.FRESH:
                return state in (State.ABSENT, State.EMPTY)
            case Need.ABSENT:
                return state is State.ABSENT
            case Need.EMPTY:
                return state is State.EMPTY


def dataset_of(document: TrialDocument) -> DatasetDocument:
    """Return a trial's dataset; an empty one for trials of other kinds."""
    return document.get("dataset") or {}


def order_of(document: TrialDocument) -> str:
    """Return the order in which a trial takes its objects."""
    return (document.get("keys") or {}).get("order", "sequential")


def place_of(document: TrialDocument) -> tuple[str, str]:
    """Return the place of a trial's dataset: its target, and the prefix of its buckets."""
    return document["target"]["name"], dataset_of(document).get("bucket_prefix", "")


def need_of(document: TrialDocument, *, is_first: bool) -> Need:
    """Return the state that a trial requires.

    A put that comes first in its case writes new objects, so old ones must not exist; a put after
    other phases on the same objects overwrites them, as the campaign asks. Appends always start
    with absent objects.
    """
    if prepares_script(document):
        return _need_of_script(document["target"]["driver"])
    if document["phase"] in (PREPARE, CLEAN_UP, AUDIT) or not operations_of(document):
        return Need.ANYTHING
    if document.get("script"):
        return _need_of_script(document["target"]["driver"])
    driver = document["target"]["driver"]
    return _need(driver, operations_of(document), order_of(document), is_first=is_first)


def need_of_phase(driver: str, phase: "Phase", *, is_first: bool) -> Need:
    """Return the state that a phase requires, before its document exists."""
    if phase.script is not None:
        return _need_of_script(driver)
    return _need(driver, list(phase.operations), phase.keys.order, is_first=is_first)


def _need_of_script(driver: str) -> Need:
    """Return the state that a script requires: no objects, except those prepared for it."""
    return Need.FRESH if facts_of(driver).keeps else Need.ANYTHING


def _need(driver: str, operations: list[str], order: str, *, is_first: bool) -> Need:
    if not facts_of(driver).keeps:
        return Need.ANYTHING
    if operations == ["create_bucket"]:
        return Need.ABSENT
    if operations == ["delete_bucket"]:
        return Need.EMPTY
    if operations in (["append"], ["put_if_absent"]):
        return Need.FRESH
    writes = WRITES_WHOLE | ({"write"} if order == "sequential" else set())
    if set(operations) <= writes:
        return Need.FRESH if is_first else Need.ANYTHING
    is_of_uploads = any(OPERATIONS[name].is_upload_step for name in operations)
    if is_of_uploads and not any(OPERATIONS[name].needs_objects for name in operations):
        return Need.ANYTHING
    return Need.FULL


def state_after(document: TrialDocument, state: State) -> State:
    """Return the state in which a finished trial leaves a dataset that was in `state`."""
    if not facts_of(document["target"]["driver"]).keeps:
        return State.ABSENT
    if document["phase"] == CLEAN_UP:
        return State.ABSENT
    operations = operations_of(document)
    if not operations:
        return state
    if document.get("script") or document.get("keeps_history"):
        return State.PARTIAL
    if len(operations) > 1:
        return _state_after_mix(operations, state)
    is_whole = state in (State.FULL, State.SURPLUS)
    match operations[0]:
        case operation if operation in WRITES_WHOLE | WRITES_BLOCKS:
            if is_whole:
                return state
            return State.FULL if covers_dataset(document) else State.PARTIAL
        case "copy":
            return State.SURPLUS if is_whole else state
        case operation if operation in DELETES:
            # Objects outside the dataset are not deleted with it, so the buckets are not empty.
            is_empty = state is not State.SURPLUS and covers_dataset(document)
            return State.EMPTY if is_empty else State.PARTIAL
        case "create_bucket":
            return State.EMPTY
        case "create_upload":
            return _with_uploads(state)
        case "delete_bucket":
            return State.ABSENT
    return state


def _state_after_mix(operations: list[str], state: State) -> State:
    """Return the state after a mix, which reads the dataset and deletes only its own puts."""
    if not set(operations) & (WRITES_WHOLE | {COPY}):
        return _with_uploads(state) if "create_upload" in operations else state
    return State.SURPLUS if state in (State.FULL, State.SURPLUS) else State.PARTIAL


def _with_uploads(state: State) -> State:
    """Return the state after uploads were begun: they lie in buckets that exist from then on."""
    return State.PARTIAL if state in (State.ABSENT, State.EMPTY) else state


def state_interrupted(document: TrialDocument, state: State) -> State:
    """Return the worst-case state of a dataset after a trial on it was interrupted."""
    after = state_after(document, state)
    changes = set(operations_of(document)) & (
        WRITES_WHOLE | WRITES_BLOCKS | DELETES | {"create_bucket", "delete_bucket"}
    )
    if document["phase"] == CLEAN_UP or (changes and len(operations_of(document)) == 1):
        is_certain = state is after and state is not State.EMPTY
        return state if is_certain else State.PARTIAL
    return after


def is_whole_only(document: TrialDocument) -> bool:
    """Tell whether the plan requires a trial to have completed.

    If part of its work is missing, the trials after it do not find the dataset that they need.
    """
    keeps = facts_of(document["target"]["driver"]).keeps
    return keeps and any(
        state_interrupted(document, state) is not state_after(document, state) for state in State
    )


def prepares_script(document: TrialDocument) -> bool:
    """Tell whether a trial puts the objects that a script expects to exist."""
    return document["phase"] == PREPARE and bool(document.get("script"))


def deletes_all(document: TrialDocument) -> bool:
    """Tell whether a trial only deletes objects of its dataset."""
    operations = operations_of(document)
    return bool(operations) and set(operations) <= DELETES


def is_in_ledger(document: TrialDocument) -> bool:
    """Tell whether a trial keeps a ledger and can be audited."""
    changes = WRITES_WHOLE | DELETES | {COPY, POST}
    return bool(document.get("keeps_ledger")) and not changes.isdisjoint(operations_of(document))


def is_historic(operations: Collection[str]) -> bool:
    """Tell whether a history of these operations is meaningful: they change what they read."""
    changes = not (WRITES_WHOLE | REWRITES | DELETES).isdisjoint(operations)
    is_mixed = len(operations) > 1 or COMPARE_AND_SWAP in operations
    return changes and is_mixed and set(operations) <= HISTORIC


def can_prepare(driver: Driver) -> bool:
    """Tell whether the driver can write the objects of a dataset."""
    return driver.facts.keeps and bool({"put", "write", "multipart_put"} & set(driver.operations))


def can_clean_up(driver: Driver) -> bool:
    """Tell whether the driver can delete the objects of a dataset."""
    return driver.facts.keeps and "delete" in driver.operations


def covers_once(document: TrialDocument) -> bool:
    """Tell whether no object is requested more than once."""
    stop = document["stop"]
    if len(operations_of(document)) > 1:
        # A mix puts objects of its own.
        return True
    return (
        order_of(document) == "sequential"
        and not document.get("warm_up_ns")
        and document.get("iterations", 1) == 1
        and stop["requests"] is not None
        and stop["requests"] <= (dataset_of(document)["objects"] or 0)
    )


def covers_dataset(document: TrialDocument) -> bool:
    """Tell whether every object was requested, whatever the outcome."""
    stop, options = document["stop"], document["options"]
    if order_of(document) != "sequential" or stop["duration_ns"] is not None:
        return False
    operation = operations_of(document)[0]
    return bool(
        stop["requests"] is not None
        and stop["requests"] >= whole_requests(operation, dataset_of(document), options)
    )


def whole_requests(operation: str, dataset: DatasetDocument, options: OptionsDocument) -> int:
    """Return how many requests of an operation cover the whole dataset once."""
    objects, buckets = dataset["objects"] or 0, dataset["buckets"]
    match operation:
        case "create_bucket" | "delete_bucket":
            return buckets
        case "list":
            return _per_bucket(objects, buckets, options["page_keys"])
        case "bulk_delete":
            return _per_bucket(objects, buckets, options["bulk_keys"])
        case "read" | "write" | "append":
            block_bytes = options["range_bytes"] or 1
            return objects * max(1, -(-largest_size(dataset["size"]) // block_bytes))
        case "upload_part" | "upload_part_copy":
            part_bytes = options["part_bytes"] or 1
            return objects * max(1, -(-largest_size(dataset["size"]) // part_bytes))
    return objects


def _per_bucket(objects: int, buckets: int, keys: int) -> int:
    largest_bucket = -(-objects // buckets)
    return buckets * max(1, -(-largest_bucket // keys))


def largest_size(size: Size) -> int:
    """Return the largest object in bytes that a size distribution can produce."""
    match size["kind"]:
        case "fixed":
            return int(size["bytes"])
        case "weighted":
            return int(max(choice[0] for choice in size["choices"]))
    return int(size["max"])
