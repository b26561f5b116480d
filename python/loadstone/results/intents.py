"""The journal of places that a run was about to create, and of their volumes: `intents.jsonl`.

In most stores, creating a bucket and marking it are two steps, and a kill can come between them.
Places in the journal, which is on disk before they are requested, belong to the run when it is
resumed.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from typing_extensions import TypedDict

from loadstone.campaign.planning.lifecycle import place_of
from loadstone.documents.trial import OwnershipDocument, TrialDocument
from loadstone.results.line_log import Log

INTENTS = "intents.jsonl"


class IntentEntry(TypedDict, total=False):
    """One line: places that a trial is about to create (`names`), those of them that it did not
    create (`unmade`), or the device or file system of its places (`volume`).
    """

    target: str
    bucket_prefix: str
    trial: str
    time: str
    names: list[str]
    unmade: list[str]
    volume: str


_LOG = Log(INTENTS, IntentEntry)
is_damaged = _LOG.is_damaged


def note_intent(folder: Path, document: TrialDocument, names: Sequence[str], time: str) -> None:
    """Record durably that a trial is about to create places."""
    _LOG.append(folder, {**_entry(document, time), "names": list(names)})


def note_unmade(folder: Path, document: TrialDocument, names: Sequence[str], time: str) -> None:
    """Record durably which places were certainly not created."""
    _LOG.append(folder, {**_entry(document, time), "unmade": list(names)})


def note_volume(folder: Path, document: TrialDocument, volume: str, time: str) -> None:
    """Record durably the device or file system of a trial's places."""
    _LOG.append(folder, {**_entry(document, time), "volume": volume})


def intended(folder: Path, trials: Iterable[str]) -> set[str]:
    """Return the trials that may have created places; all of them if a line is damaged."""
    lines = _LOG.read(folder)
    if lines.is_damaged:
        return set(trials)
    of_trials: dict[str, list[IntentEntry]] = {trial: [] for trial in trials}
    for entry in lines.entries:
        of_trials.get(entry.get("trial", ""), []).append(entry)
    return {trial for trial, entries in of_trials.items() if _may_be_made(entries)}


class Intents:
    """The intents of earlier sessions of a run.

    Those of finished trials count too, because a clean-up removes the mark before the place, and a
    kill can come between. Only an empty place without a mark is adopted.
    """

    def __init__(self, folder: Path) -> None:
        """Read the journal."""
        self._entries = _LOG.read(folder).entries
        self._volumes: dict[tuple[str, str], list[str]] = {}
        for entry in self._entries:
            if "volume" in entry:
                place = (entry.get("target", ""), entry.get("bucket_prefix", ""))
                self._volumes.setdefault(place, []).append(entry["volume"])

    def take_volume(self, document: TrialDocument, volume: str) -> None:
        """Add the device or file system of the places of a trial of this session."""
        self._volumes.setdefault(place_of(document), []).append(volume)

    def adopted(self, document: TrialDocument) -> TrialDocument:
        """Return a trial's document with the places that it may adopt, and the run's volumes."""
        place = place_of(document)
        mine = _may_be_made(
            entry
            for entry in self._entries
            if (entry.get("target"), entry.get("bucket_prefix")) == place
        )
        volumes = self._volumes_of(document)
        if not (mine or volumes):
            return document.copy()
        before: OwnershipDocument = document.get("ownership") or {}
        ownership: OwnershipDocument = {**before}
        if mine:
            ownership["adopt"] = list(dict.fromkeys([*before.get("adopt", ()), *mine]))
        if volumes:
            ownership["volumes"] = list(dict.fromkeys(volumes))
        return {**document, "ownership": ownership}

    def _volumes_of(self, document: TrialDocument) -> list[str]:
        place = place_of(document)
        if not document.get("allow_foreign"):
            return self._volumes.get(place, [])
        # The device that may be overwritten is the one that the first of the target's trials
        # claimed, whatever round or case this one is of.
        return [
            volume
            for (target, _), volumes in self._volumes.items()
            if target == place[0]
            for volume in volumes
        ]


def _may_be_made(entries: Iterable[IntentEntry]) -> list[str]:
    """Return the places that were requested more often than refused.

    A request of one session may still be carried out after a later one was refused.
    """
    times: dict[str, int] = {}
    for entry in entries:
        for name in entry.get("names", ()):
            times[name] = times.get(name, 0) + 1
        for name in entry.get("unmade", ()):
            times[name] = times.get(name, 0) - 1
    return [name for name, count in times.items() if count > 0]


def _entry(document: TrialDocument, time: str) -> IntentEntry:
    target, prefix = place_of(document)
    return {"target": target, "bucket_prefix": prefix, "trial": document["id"], "time": time}
