"""What the operations of a trial's mix do to its data."""

from loadstone.documents.trial import TrialDocument

WRITES_WHOLE = frozenset({"put", "multipart_put", "put_if_absent"})
COMPARE_AND_SWAP = "compare_and_swap"
"""Each of its requests ends with a win, after as many tries as that took."""
REWRITES = frozenset({"put_if_match", COMPARE_AND_SWAP})
"""They write objects again that are there, each in the version that it has."""
WRITES_BLOCKS = frozenset({"write", "append"})


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
    return len(operations) == 1 and operations[0] in WRITES_WHOLE | WRITES_BLOCKS
