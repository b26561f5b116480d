"""Plans loads on objects that others wrote: the object list of a dataset, and permitted operations.

Planning itself reads no files: `make_plan` takes a function that makes and describes the lists
(`loadstone/execution/object_lists.py`).
"""

from collections.abc import Callable, Iterator

from loadstone.campaign.drivers import Drivers
from loadstone.campaign.operations import OPERATIONS
from loadstone.campaign.planning.case import Case
from loadstone.campaign.reading.mistakes import KeyMistake, listed
from loadstone.campaign.schema.campaign import Campaign
from loadstone.campaign.schema.dataset import Existing
from loadstone.documents.manifest import ObjectListDocument
from loadstone.documents.trial import DatasetDocument, TargetDocument
from loadstone.errors import shown

Lists = Callable[[TargetDocument, Existing], ObjectListDocument]

UNKNOWN_BYTES_MAX = 1 << 62
"""Upper bound for the size of an object whose size the list does not state."""


def no_lists(target: TargetDocument, existing: Existing) -> ObjectListDocument:
    """Raise an error: plans with existing objects need a function that makes lists."""
    raise AssertionError(f"make_plan was given no maker of lists, but needs {target} {existing}")


def dataset_of_list(objects: ObjectListDocument) -> DatasetDocument:
    """Return the fields of a dataset's document that follow from its object list."""
    known = objects["objects"] - objects["without_size"]
    most = UNKNOWN_BYTES_MAX if objects["without_size"] else objects["size_bytes_max"]
    return {
        "objects": objects["objects"],
        "size": {
            "kind": "listed",
            "min": objects["size_bytes_min"],
            "max": most,
            "mean": objects["bytes"] / known if known else 0.0,
        },
        "existing": {"path": objects["path"], "sha256": objects["sha256"]},
    }


def existing_mistakes(case: Case, campaign: Campaign, drivers: Drivers) -> Iterator[KeyMistake]:
    """Yield operations and settings that would change objects of others."""
    dataset, path = case.workload.dataset, case.source.path
    if dataset is None or dataset.existing is None:
        return
    driver = drivers.get(campaign.targets[case.target].driver)
    if driver is not None and not driver.facts.reads_existing:
        can = (name for name, other in drivers.items() if other.facts.reads_existing)
        yield KeyMistake(
            path(("dataset", "existing")),
            f'this key with driver {driver.name} (target "{case.target}")',
            f"drivers that can list what others wrote: {listed(can)}",
        )
    if driver is not None and not dataset.existing.bucket and driver.facts.place != "namespace":
        yield KeyMistake(
            path(("dataset", "existing", "bucket")),
            "nothing",
            f"the name of a {driver.facts.place}",
        )
    reading = [name for name, operation in OPERATIONS.items() if operation.reads_existing]
    for index, phase in enumerate(case.workload.phases):
        for operation in phase.operations:
            if operation not in reading:
                key = ("op",) if phase.op is not None else ("mix", operation)
                yield KeyMistake(
                    path(("phases", index, *key)),
                    f"{operation} of objects that others wrote",
                    f"what only reads them: {listed(reading)}",
                )
        for name in ("script", "size"):
            if getattr(phase, name) is not None:
                yield KeyMistake(
                    path(("phases", index, name)),
                    "this key with objects that others wrote",
                    "a dataset of the campaign's own",
                )
    for name, is_there in (
        ("fill", case.workload.fill is not None),
        ("keep_data", campaign.keep_data),
        ("card", campaign.card),
    ):
        if is_there:
            yield KeyMistake(
                path((name,)),
                "this key with objects that others wrote",
                f"none of {name}: nothing is written",
            )
    if campaign.targets[case.target].reuse is not None:
        yield KeyMistake(
            ("targets", case.target, "reuse"),
            f"{shown(campaign.targets[case.target].reuse)} beside dataset.existing",
            "one of them",
        )
