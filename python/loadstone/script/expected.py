"""Derives the expected responses: versions of requests, sets of lists, and preexisting objects.

A script's sessions run concurrently, so the result is certain only if a single session changes an
object. All other requests must state `any`; otherwise they are mistakes.
"""

import hashlib
from array import array
from collections.abc import Callable
from dataclasses import dataclass

from loadstone.script.expansion import (
    ABSENT,
    ANY,
    DELETE,
    DERIVED,
    EXISTS,
    LIST,
    NONE,
    PUT,
    Requests,
    Subjects,
    Words,
)
from loadstone.script.mistakes import Mistakes

NO_SPACE = 2**32 - 1
_NOBODY, _MANY = 2**32 - 1, 2**32 - 2
_CHUNK = 65_536


@dataclass(slots=True)
class Expected:
    """Expectations of each request, and of the target before the first.

    `spaces` are the listed prefixes that contain objects, by subject. `prepared` are the objects
    that must exist before the script begins. Lists that are not checked have -1 entries.
    """

    version: Words
    entries: Words
    entries_hash: Words
    spaces: Words
    prepared: Words
    prepared_sizes: Words
    objects: Words
    lists_checked: int = 0
    lists: int = 0


def expect(requests: Requests, subjects: Subjects, mistakes: Mistakes) -> Expected:
    """Fill in derived expectations, also in `requests`, and raise every contradiction."""
    walk = _Walk(requests, subjects, mistakes)
    walk.find_prefixes()
    walk.find_neighbours()
    walk.go()
    mistakes.stop_if_any()
    return walk.result


class _Walk:
    def __init__(self, requests: Requests, subjects: Subjects, mistakes: Mistakes) -> None:
        count, length = len(subjects.coded), len(requests)
        self.requests, self.subjects, self.mistakes = requests, subjects, mistakes
        self.result = Expected(
            version=array("I", bytes(4 * length)),
            entries=array("q", [NONE]) * length,
            entries_hash=array("Q", bytes(8 * length)),
            spaces=array("I", [NO_SPACE]) * count,
            prepared=array("I"),
            prepared_sizes=array("q"),
            objects=array("I"),
        )
        self.there = bytearray(count)
        self.version = array("I", bytes(4 * count))
        self.size = array("q", [NONE]) * count
        self.row = array("I", bytes(4 * count))
        self.toucher = array("I", [_NOBODY]) * count
        self.changer = array("I", [_NOBODY]) * count
        self.entries: dict[int, int] = {}
        self.hashes: dict[int, int] = {}
        self.sets_changer: dict[int, int] = {}
        self.unsure: set[int] | None = None
        self.waits: set[tuple[int, int]] = set()

    def find_prefixes(self) -> None:
        """Find the longest listed prefix that contains each object and each prefix."""
        coded, spaces = self.subjects.coded, self.result.spaces
        is_prefix = bytearray(len(coded))
        for subject, operation in zip(self.requests.subject, self.requests.operation, strict=True):
            is_prefix[subject] = operation == LIST
        listed = {coded[at].as_py()[1:]: at for at in range(len(coded)) if is_prefix[at]}
        self.entries, self.hashes = (
            dict.fromkeys(listed.values(), 0),
            dict.fromkeys(listed.values(), 0),
        )
        if not listed:
            return
        # A prefix that ends within a path segment, "a/b" of "a/bc", is searched among the few of
        # them.
        steps = {name: at for name, at in listed.items() if name.endswith("/")}
        within = sorted((name for name in listed if name not in steps), key=len, reverse=True)
        for start in range(0, len(coded), _CHUNK):
            for at, text in enumerate(coded.slice(start, _CHUNK).to_pylist(), start=start):
                name = text[1:]
                prefix = _longest(name, steps, within, is_prefix=text[0] == "p")
                if prefix is not None:
                    spaces[at] = listed[prefix]

    def find_neighbours(self) -> None:
        """Find which sessions use and change each object, and which objects must exist before."""
        requests = self.requests
        prelude = requests.first_sessions
        audit = requests.sessions - requests.last_sessions
        visited = bytearray(len(self.there))
        for at, subject in enumerate(requests.subject):
            operation, session = requests.operation[at], requests.session[at]
            if operation == LIST:
                continue
            if not visited[subject]:
                visited[subject] = 1
                self.result.objects.append(subject)
                if operation != PUT and requests.expect[at] == EXISTS:
                    self._prepare(at, subject)
            if not prelude <= session < audit:
                continue
            is_change = operation in (PUT, DELETE)
            for who, counts in ((self.toucher, True), (self.changer, is_change)):
                if counts and who[subject] != session:
                    who[subject] = session if who[subject] == _NOBODY else _MANY
            if is_change:
                self._note_changer(subject, session)

    def _note_changer(self, subject: int, session: int) -> None:
        space = self.result.spaces[subject]
        while space != NO_SPACE:
            if self.sets_changer.setdefault(space, session) != session:
                self.sets_changer[space] = _MANY
            space = self.result.spaces[space]

    def _prepare(self, at: int, subject: int) -> None:
        size = self.requests.size[at]
        if size == NONE:
            self.mistakes.add(
                self.requests.row[at], "size", "nothing",
                "the size of an object that exists before the script begins",
            )  # fmt: skip
        self.result.prepared.append(subject)
        self.result.prepared_sizes.append(max(0, size))
        self._come(subject, max(0, size))
        self.version[subject] = 1
        self.row[subject] = self.requests.row[at]

    def _is_shared(self, subject: int) -> bool:
        """Tell whether concurrent sessions use an object that one of them changes."""
        return self.toucher[subject] == _MANY and self.changer[subject] != _NOBODY

    def go(self) -> None:
        """Process all requests in the order of their sessions."""
        requests = self.requests
        steps: dict[int, Callable[[int, int], None]] = {
            PUT: self._put, DELETE: self._delete, LIST: self._list
        }  # fmt: skip
        for at, subject in enumerate(requests.subject):
            steps.get(requests.operation[at], self._read)(at, subject)

    def _put(self, at: int, subject: int) -> None:
        requests = self.requests
        self.version[subject] += 1
        self.result.version[at] = self.version[subject]
        requests.expect[at] = ANY
        size = requests.size[at]
        if self.there[subject]:
            self.size[subject] = size
        else:
            self._come(subject, size)
        self.row[subject] = requests.row[at]

    def _come(self, subject: int, size: int) -> None:
        self.there[subject] = 1
        self.size[subject] = size
        self._count(subject, 1)

    def _count(self, subject: int, change: int) -> None:
        space = self.result.spaces[subject]
        if space == NO_SPACE:
            return
        text = self.subjects.coded[subject].as_py()
        hash_of_key = key_hash(text[text.index("/") + 1 :])
        while space != NO_SPACE:
            self.entries[space] += change
            self.hashes[space] = (self.hashes[space] + change * hash_of_key) % 2**64
            space = self.result.spaces[space]

    def _read(self, at: int, subject: int) -> None:
        requests, expected = self.requests, self.requests.expect[at]
        if expected != ANY and self._is_shared(subject):
            self._refuse_shared(at, subject)
        elif expected == ABSENT and self.there[subject]:
            self._add(at, "expect", '"absent"', f'"exists": row {self.row[subject]} writes it')
        elif expected in (EXISTS, DERIVED) and not self.there[subject]:
            self._refuse_absent(at, subject)
        elif expected in (EXISTS, DERIVED):
            requests.expect[at] = EXISTS
            self.result.version[at] = self.version[subject]
            stated = requests.size[at]
            if stated not in (NONE, self.size[subject]):
                self._add(
                    at, "size", str(stated),
                    f"{self.size[subject]}, as row {self.row[subject]} has it",
                )  # fmt: skip
            requests.size[at] = self.size[subject]
            return
        requests.size[at] = max(0, requests.size[at])

    def _delete(self, at: int, subject: int) -> None:
        self._read(at, subject)
        self.requests.size[at] = 0
        if self.there[subject]:
            self._count(subject, -1)
        self.there[subject] = 0
        self.row[subject] = self.requests.row[at]

    def _list(self, at: int, subject: int) -> None:
        requests, result = self.requests, self.result
        stated, session = requests.entries[at], requests.session[at]
        changer = self.sets_changer.get(subject, _NOBODY)
        is_audit = session >= requests.sessions - requests.last_sessions
        requests.size[at] = 0
        result.lists += 1
        is_any = requests.expect[at] == ANY
        requests.expect[at] = ANY
        if (
            is_any
            or not (is_audit or changer in (_NOBODY, session))
            or (is_audit and self._holds_shared(subject))
        ):
            if stated != NONE:
                self._add(
                    at, "entries", str(stated), "none: other sessions change the set meanwhile"
                )
            return
        result.lists_checked += 1
        result.entries[at] = self.entries[subject]
        result.entries_hash[at] = self.hashes[subject]
        if stated not in (NONE, self.entries[subject]):
            self._add(
                at, "entries", str(stated), f"{self.entries[subject]}, which the script makes"
            )

    def _holds_shared(self, prefix: int) -> bool:
        """Tell whether a prefix contains an object that several sessions change."""
        if self.sets_changer.get(prefix) != _MANY:
            return False
        if self.unsure is None:
            self.unsure = set()
            for subject in self.result.objects:
                space = self.result.spaces[subject] if self._is_shared(subject) else NO_SPACE
                while space != NO_SPACE and space not in self.unsure:
                    self.unsure.add(space)
                    space = self.result.spaces[space]
        return prefix in self.unsure

    def _refuse_absent(self, at: int, subject: int) -> None:
        row, name = self.row[subject], self._key(subject)
        action = self.requests.kinds[self.requests.action[at]].action
        why = f"row {row} deletes" if row else "nothing writes before"
        action_words, allowed = f'{action} of "{name}", which {why}', "objects that are there"
        self._add(
            at, "object", action_words, allowed,
            'state expect "exists" and the size of objects that are there before the script begins,'
            ' "absent" or "any" of those that may not',
        )  # fmt: skip

    def _refuse_shared(self, at: int, subject: int) -> None:
        requests = self.requests
        session, other = requests.session[at], self.changer[subject]
        action = requests.kinds[requests.action[at]].action
        hint = None
        if other not in (_MANY, session):
            self.waits.add((session, other))
            if (other, session) in self.waits:
                hint = "each of two sessions waits for what the other one writes: a cycle"
        action_words = (
            f'{action} of "{self._key(subject)}", which another session changes meanwhile'
        )
        allowed = 'objects of the session\'s own; or expect "any"'
        self._add(at, "object", action_words, allowed, hint)

    def _key(self, subject: int) -> str:
        text: str = self.subjects.coded[subject].as_py()
        return text[text.index("/") + 1 :]

    def _add(
        self, at: int, column: str, actual: str, allowed: str, hint: str | None = None
    ) -> None:
        if self._is_certain(at):
            self.mistakes.add(self.requests.row[at], column, actual, allowed, hint)

    def _is_certain(self, at: int) -> bool:
        """Tell whether no refused row may be about the object, or one under the prefix."""
        doubtful = self.subjects.doubtful
        if not doubtful:
            return True
        key = self._key(self.requests.subject[at])
        if self.requests.operation[at] == LIST:
            return not any(prefix.startswith(key) for prefix in doubtful)
        return key not in doubtful


def _longest(name: str, steps: dict[str, int], within: list[str], *, is_prefix: bool) -> str | None:
    """Return the longest listed prefix of `PLACE/KEY`; a prefix does not contain itself."""
    best = None
    end = len(name) - 1 if is_prefix and name.endswith("/") else len(name)
    while (end := name.rfind("/", 0, end)) >= 0:
        if name[: end + 1] in steps:
            best = name[: end + 1]
            break
    for prefix in within:
        if name.startswith(prefix) and not (is_prefix and prefix == name):
            return prefix if best is None or len(prefix) > len(best) else best
    return best


def key_hash(key: str) -> int:
    """Return a key's contribution to the hash of a set: the first 8 bytes of its SHA-256."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "little")
