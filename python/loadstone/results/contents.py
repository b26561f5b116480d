"""The contents of each dataset after the trials so far, as later trials must know them.

Requests for objects that were never written are counted apart from failures. A read of an object
that a later put did not reach is right if it returns an older version.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from loadstone.campaign.planning.lifecycle import (
    CLEAN_UP,
    covers_dataset,
    dataset_of,
    place_of,
)
from loadstone.documents.mix import (
    WRITES_BLOCKS,
    WRITES_WHOLE,
    operations_of,
    writes_dataset,
)
from loadstone.documents.summary import Summary
from loadstone.documents.trial import DatasetDocument, OwnershipDocument, TrialDocument
from loadstone.results.documents import RecordDocument

_IN_BLOCKS = WRITES_BLOCKS | {"read"}


@dataclass(slots=True)
class _Contents:
    """The contents of the objects of one dataset."""

    unwritten: list[list[int]] = field(default_factory=list)
    """Ranges of objects that are missing because their put failed."""
    oldest_version: int | None = None
    """The oldest version that an object may have; None before the first write."""
    are_mixed: bool = False
    """Whether blocks of one object may have different versions."""


class Contents:
    """The contents of each dataset, from the summaries of its trials."""

    def __init__(self, records: Callable[[], Iterable[RecordDocument]]) -> None:
        """Use the records of finished trials, which are read before the first trial."""
        self._records: Callable[[], Iterable[RecordDocument]] | None = records
        self._of_places: dict[tuple[str, str], _Contents] = {}

    def completed(self, document: TrialDocument) -> TrialDocument:
        """Return a trial's document with the contents that its reads must expect."""
        if self._records is not None:
            records, self._records = self._records, None
            for record in records():
                self.note(record["trial"], record["summary"])
        contents = self._of_places.get(place_of(document), _Contents())
        document = document.copy()
        if contents.unwritten:
            before: OwnershipDocument = document.get("ownership") or {}
            document["ownership"] = {**before, "unwritten": contents.unwritten}
        if contents.oldest_version is None or not _is_plain(document):
            return document
        document["dataset"] = self.dataset(document)
        if contents.are_mixed and not _IN_BLOCKS.issuperset(operations_of(document)):
            # Only reads of blocks can check an object whose blocks have different versions.
            document["verify"] = 0
        return document

    def dataset(self, document: TrialDocument) -> DatasetDocument:
        """Return a trial's dataset with the oldest version that its objects may have."""
        dataset = dataset_of(document)
        oldest_version = self._of_places.get(place_of(document), _Contents()).oldest_version
        if oldest_version is None or oldest_version >= dataset.get("version", 1):
            return dataset
        return {**dataset, "oldest_version": oldest_version}

    def note(self, document: TrialDocument, summary: Summary) -> None:
        """Add the changes that a trial made, be it finished, stopped or interrupted."""
        place = place_of(document)
        if document["phase"] == CLEAN_UP:
            self._of_places.pop(place, None)
            return
        contents = self._of_places.setdefault(place, _Contents())
        if "objects_unwritten" in summary:
            contents.unwritten = summary["objects_unwritten"]
        operations = operations_of(document)
        if not (writes_dataset(document) or operations == ["complete_upload"]):
            return
        is_whole = (
            WRITES_WHOLE.union(WRITES_BLOCKS).issuperset(operations)
            and covers_dataset(document)
            and summary.get("state") == "finished"
            and not summary.get("failed")
            and not summary.get("lost_races")
        )
        if is_whole or contents.oldest_version is None:
            contents.oldest_version = dataset_of(document).get("version", 1)
            contents.are_mixed = False
        elif WRITES_BLOCKS.issuperset(operations):
            contents.are_mixed = True


def _is_plain(document: TrialDocument) -> bool:
    """Tell whether reads expect the version of the dataset, and not one that a script, a history or
    a ledger states for each object.
    """
    judged = ("script", "keeps_history", "judged", "owed")
    return not any(document.get(key) for key in judged)
