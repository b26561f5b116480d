"""The journal of the places that a run was about to make, in `intents.jsonl`.

To make a bucket and to mark it are two steps of most stores, and a kill can come between them. What
stands here, on disk before any of it is asked for, is known to be the run's own when it goes on.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from loadstone.documents.trial import OwnershipDocument, TrialDocument
from loadstone.results.files import line_log

INTENTS = "intents.jsonl"

_KEYS = frozenset(("target", "bucket_prefix", "trial", "time", "names", "unmade"))


def note_intent(folder: Path, document: TrialDocument, names: Sequence[str], time: str) -> None:
    """Note that a trial is about to make places, and make the note durable."""
    entry = {**_key(document), "trial": document["id"], "time": time, "names": list(names)}
    line_log.append_line(folder / INTENTS, entry)


def note_unmade(folder: Path, document: TrialDocument, names: Sequence[str], time: str) -> None:
    """Note which of these places the target refused to make, and make the note durable."""
    entry = {**_key(document), "trial": document["id"], "time": time, "unmade": list(names)}
    line_log.append_line(folder / INTENTS, entry)


def intended(folder: Path, trials: Iterable[str]) -> set[str]:
    """Return which of these trials may have made places that they were about to make.

    A damaged line may be of any trial.
    """
    lines = _lines(folder)
    if lines.is_damaged:
        return set(trials)
    left: dict[str, set[str]] = {trial: set() for trial in trials}
    for entry in lines.entries:
        names = left.get(str(entry.get("trial")), set())
        names |= set(entry.get("names") or ())
        names -= set(entry.get("unmade") or ())
    return {trial for trial, names in left.items() if names}


def is_damaged(folder: Path) -> bool:
    """Say whether the journal holds lines that are not as they were written."""
    return _lines(folder).is_damaged


class Intents:
    """What earlier sessions of a run were about to make.

    Also what trials that are finished have made and marked: a clean-up takes the mark away before
    the place, and a kill can come between. Only an empty place without a mark is adopted.
    """

    def __init__(self, folder: Path) -> None:
        """Read the journal."""
        self._entries = [
            entry for entry in _lines(folder).entries if isinstance(entry.get("names"), list)
        ]

    def adopted(self, document: TrialDocument) -> TrialDocument:
        """Return a trial's document with the places that it may take for the run's own."""
        key = _key(document)
        mine = [
            name
            for entry in self._entries
            if all(entry.get(part) == value for part, value in key.items())
            for name in entry["names"]
        ]
        if not mine:
            return document.copy()
        ownership: OwnershipDocument = document.get("ownership") or {}
        adopt = list(dict.fromkeys([*ownership.get("adopt", ()), *mine]))
        return {**document, "ownership": {**ownership, "adopt": adopt}}


def _key(document: TrialDocument) -> dict[str, str]:
    return {
        "target": document["target"]["name"],
        "bucket_prefix": (document.get("dataset") or {}).get("bucket_prefix", ""),
    }


def _lines(folder: Path) -> line_log.Lines:
    return line_log.read_lines(folder / INTENTS, _KEYS)
