"""Records on this host the places that a card creates, so that the next card removes those of a
killed one.

A note is a file in the user's state folder. The card that wrote it holds its lock until the places
are removed. An unlocked note belongs to a card that was killed, or that could not remove
everything.
"""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from loadstone.campaign.drivers import addresses_of, facts_of
from loadstone.card.place import CardPlace
from loadstone.documents.trial import TargetDocument
from loadstone.results.files import durable
from loadstone.results.layout import state_folder

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
