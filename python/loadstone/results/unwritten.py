"""The objects of a dataset whose own put failed, handed from trial to trial.

The load generator lists them in a trial's summary, and a later trial of the same dataset gets
them in its document: what is not found there is counted apart, as no further failure.
"""

from collections.abc import Callable, Iterable

from loadstone.campaign.planning.lifecycle import CLEAN_UP, place_of
from loadstone.documents.summary import Summary
from loadstone.documents.trial import OwnershipDocument, TrialDocument
from loadstone.results.documents import RecordDocument


class Unwritten:
    """What each dataset lacks, by its target and its buckets."""

    def __init__(self, records: Callable[[], Iterable[RecordDocument]]) -> None:
        """Begin with what the trials that are finished have left; read once one is to run."""
        self._records: Callable[[], Iterable[RecordDocument]] | None = records
        self._ranges: dict[tuple[str, str], list[list[int]]] = {}

    def told(self, document: TrialDocument) -> TrialDocument:
        """Return a trial's document with the objects that are not there to its knowledge."""
        if self._records is not None:
            records, self._records = self._records, None
            for record in records():
                self.note(record["trial"], record["summary"])
        ranges = self._ranges.get(place_of(document))
        if not ranges:
            return document.copy()
        before: OwnershipDocument = document.get("ownership") or {}
        ownership: OwnershipDocument = {**before, "unwritten": ranges}
        return {**document, "ownership": ownership}

    def note(self, document: TrialDocument, summary: Summary) -> None:
        """Take note of how a trial left its dataset."""
        place = place_of(document)
        if document["phase"] == CLEAN_UP:
            self._ranges.pop(place, None)
        elif "objects_unwritten" in summary:
            self._ranges[place] = summary["objects_unwritten"]
