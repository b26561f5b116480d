"""Places for a card's questions, created and removed by the load generator's ownership rules.

A note of them is a file in the user's state folder, so that the next card removes the places of a
killed one. The card that wrote it holds its lock until the places are removed. An unlocked note
belongs to a card that was killed, or that could not remove everything.
"""

import contextlib
import fcntl
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from loadstone import _loadgen
from loadstone.campaign.drivers import addresses_of, facts_of
from loadstone.documents.load_event import LoadEvent
from loadstone.documents.summary import Summary
from loadstone.documents.trial import TargetDocument
from loadstone.results.files import durable
from loadstone.results.layout import state_folder

PREFIX: Final = "loadstone-card-"
FIRST: Final = "0"
"""The key of the dataset's single object, behind its prefix."""
TIMEOUT_NS: Final = 5_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CardPlace:
    """A bucket or container; its objects are below `prefix`."""

    name: str
    prefix: str
    run: str
    target: TargetDocument
    allow_foreign: bool = False
    keeps_versions: bool = False

    @property
    def first_key(self) -> str:
        """The key of the object that `prepare` writes."""
        return self.prefix + FIRST

    def prepare(self, on_event: Callable[[LoadEvent], object]) -> None:
        """Create and mark the place, or claim the prefix in a foreign one; raise as a trial
        does.
        """
        _run(self.document("put"), on_event)

    def remove(self, *, with_versions: bool, is_ours: bool) -> Summary:
        """Remove the mark and the place if it is this card's and empty, or the claim.

        `is_ours` means that this card created it, even if it could not mark it yet.
        """
        document = self.document("clean-up", {"delete_versions": True} if with_versions else {})
        document["ownership"] = {"adopt": [self.name] if is_ours else []}
        return _run(document)

    def document(self, phase: str, settings: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return a trial on one object in the place."""
        is_put = phase == "put"
        target = {**self.target, "settings": {**self.target["settings"], **(settings or {})}}
        return {
            "format": 1,
            "id": "card",
            "run": self.run,
            "seed": 1,
            "phase": phase,
            "measured": False,
            "target": target,
            "dataset": {
                "bucket_prefix": self.name,
                "buckets": 1,
                "objects": 1,
                "object_prefix": self.prefix,
                "size": {"kind": "fixed", "bytes": 16},
            },
            "mix": [{"operation": "put" if is_put else "delete", "weight": 1.0}],
            "load": {"kind": "closed", "clients": 1},
            "stop": {"requests": 1 if is_put else None},
            "timeout_ns": TIMEOUT_NS,
            "allow_foreign": self.allow_foreign,
        }


def _run(
    document: Mapping[str, Any], on_event: Callable[[LoadEvent], object] | None = None
) -> Summary:
    summary: Summary = json.loads(_loadgen.run_trial(json.dumps(document), on_event))
    return summary


FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class Note:
    """The places of one card; the file is locked while it is open."""

    path: Path
    descriptor: int

    def end(self, *, is_all_removed: bool) -> None:
        """Release a note, and delete it if its places were removed."""
        if is_all_removed:
            self.path.unlink(missing_ok=True)
        os.close(self.descriptor)


def write_note(target: TargetDocument, places: Sequence[CardPlace]) -> Note | None:
    """Record places before they are created; None if the state folder is not writable."""
    path = _folder() / f"{places[0].run}.json"
    document = {
        "format": FORMAT,
        "target": _identity(target),
        "places": [
            {
                "name": place.name,
                "prefix": place.prefix,
                "run": place.run,
                "allow_foreign": place.allow_foreign,
                "keeps_versions": place.keeps_versions,
            }
            for place in places
        ],
    }
    try:
        durable.make_folder(path.parent)
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    os.write(descriptor, json.dumps(document).encode())
    os.fsync(descriptor)
    return Note(path, descriptor)


def notes_left(target: TargetDocument) -> Iterator[tuple[Note, list[CardPlace]]]:
    """Yield the places that cards of this target left whose processes have ended."""
    try:
        paths = sorted(_folder().glob("*.json"))
    except OSError:
        return
    for path in paths:
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                places = _places(os.read(descriptor, 1 << 16), target)
            except (OSError, ValueError, LookupError, TypeError):
                places = []
            if places:
                yield Note(path, descriptor), places
            else:
                os.close(descriptor)


def _folder() -> Path:
    return state_folder() / "cards"


def _places(text: bytes, target: TargetDocument) -> list[CardPlace]:
    """Return the places of a note; none if it is for another target, or has another format."""
    document: dict[str, Any] = json.loads(text)
    if (document["format"], document["target"]) != (FORMAT, _identity(target)):
        return []
    return [CardPlace(target=target, **place) for place in document["places"]]


def _identity(target: TargetDocument) -> list[Any]:
    """Return the identity of a target, without its credentials, which may have changed."""
    addresses = addresses_of(facts_of(target["driver"]), dict(target["settings"]))
    return [target["driver"], target["name"], addresses]
