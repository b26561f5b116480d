"""Effects of the operations of a trial's mix on its data."""

from loadstone import _loadgen
from loadstone.documents.trial import TrialDocument


def _with_effect(*effects: str) -> frozenset[str]:
    return frozenset(row["name"] for row in _loadgen.operations() if row["effect"] in effects)


COMPARE_AND_SWAP = "compare_and_swap"
"""Each of its requests ends with a win, after as many tries as that took."""
COPY = "copy"
POST = "post"
WRITES_WHOLE = _with_effect("puts")
REWRITES = _with_effect("rewrites")
"""They write objects again that are there, each in the version that it has."""
WRITES_BLOCKS = _with_effect("writes_block")
DELETES = _with_effect("deletes")
LOCKS = frozenset(row["name"] for row in _loadgen.operations() if row["locks"])
"""They lock objects, or try what a lock forbids."""
CHANGES_NOTHING = _with_effect("none")
CHANGES_OBJECTS = frozenset(row["name"] for row in _loadgen.operations()) - _with_effect(
    "none", "buckets"
)
KEEPS_OBJECTS = _with_effect("none", "buckets", "describes", "rewrites", "prunes")
"""There are as many objects afterwards as before."""


def operations_of(document: TrialDocument) -> list[str]:
    """Return the operations of a trial's mix; trials of other kinds have none."""
    return [share["operation"] for share in document.get("mix") or ()]


def writes_data(document: TrialDocument) -> bool:
    """Tell whether any operation of a trial writes what objects hold."""
    return not {*operations_of(document)}.isdisjoint(WRITES_WHOLE | WRITES_BLOCKS | REWRITES)


def writes_dataset(document: TrialDocument) -> bool:
    """Tell whether a trial writes the dataset's own objects anew, which makes a new version."""
    operations = operations_of(document)
    if document.get("script"):
        # Each of its objects has versions of its own.
        return False
    # Parts carry the object's new version, even if another request completes the upload.
    writes = (WRITES_WHOLE - {"complete_upload"}) | WRITES_BLOCKS | {"upload_part"}
    return len(operations) == 1 and operations[0] in writes
