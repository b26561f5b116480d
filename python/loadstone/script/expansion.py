"""Expands actions into requests and their subjects.

Columns are arrays of machine words, so that ten million requests fit into memory; the keys are
numbered by Arrow, which stores each once.
"""

import itertools
import json
import zlib
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from loadstone._loadgen import ACTION_KINDS_MAX
from loadstone.script.mistakes import Mistakes
from loadstone.script.table import ACTIONS, EXPECTATIONS, SPACES, Action

if TYPE_CHECKING:
    Words = array[int]
else:
    # The class itself is not subscriptable before Python 3.14.
    Words = array

OPERATIONS = ("put", "get", "head", "delete", "list")
PUT, GET, HEAD, DELETE, LIST = range(len(OPERATIONS))

ANY, EXISTS, ABSENT, DERIVED = range(4)
"""Expectations of a subject; a derived one follows from the script."""

NO_WRAP, OWNER_WRAP, INBOX = range(3)
"""Who can unwrap the key of an encrypted object: any client, or the user of its place."""

PROFILE = (("keystore", 4096), ("profile/private", 1024), ("profile/public", 1024))
"""Objects of a user's profile, with their sizes in bytes. They are encrypted for the user."""

KEY_BYTES_MAX = 1024
ONE_OPERATION = {"WRITE": PUT, "READ": GET, "HEAD": HEAD, "DELETE": DELETE, "LIST": LIST,
                 "AUDIT": LIST}  # fmt: skip
NONE = -1

_CHUNK = 65_536
_KEY_PARTS = 16


class CountedKind(NamedTuple):
    """Actions are counted by kind, by space, and by type of user."""

    action: str
    space: str | None = None
    user_type: str | None = None


@dataclass(slots=True)
class Requests:
    """The requests of a script, a column each, in the order of the sessions' turns.

    `first_sessions` run before all others one by one, `last_sessions` after them. `rows` are the
    actions' rows in the written script. Unstated times and entries are -1.
    """

    session: Words = field(default_factory=lambda: array("I"))
    row: Words = field(default_factory=lambda: array("I"))
    action: Words = field(default_factory=lambda: array("B"))
    is_last: Words = field(default_factory=lambda: array("B"))
    operation: Words = field(default_factory=lambda: array("B"))
    size: Words = field(default_factory=lambda: array("q"))
    expect: Words = field(default_factory=lambda: array("B"))
    wrap: Words = field(default_factory=lambda: array("B"))
    due_ns: Words = field(default_factory=lambda: array("q"))
    entries: Words = field(default_factory=lambda: array("q"))
    subject: Words = field(default_factory=lambda: array("i"))
    kinds: list[CountedKind] = field(default_factory=list)
    users: list[str] = field(default_factory=list)
    sessions: int = 0
    first_sessions: int = 0
    last_sessions: int = 0
    action_count: int = 0

    def __len__(self) -> int:
        return len(self.session)


@dataclass(slots=True)
class Subjects:
    """Objects and listed prefixes by their number; each of `coded` is `oPLACE/KEY` or `pPLACE/KEY`.

    Places may share a bucket if all objects are in spaces: their keys begin with the user.
    """

    places: Words
    coded: pa.ChunkedArray
    places_named: int
    has_spaces_only: bool
    wraps: Words
    """The recipient of each object's encryption."""
    doubtful: frozenset[str] = frozenset()
    """Keys that wrong rows may have meant; only a refused script has any."""


_COLUMNS = ("session", "row", "action", "is_last", "operation", "size", "expect", "wrap", "due_ns",
            "entries", "subject")  # fmt: skip


class _Keys:
    """Collects keys, and numbers them once all are added.

    Numbering takes three times the memory of the numbered keys, so they are partitioned by
    checksum, and the parts are numbered one after another.
    """

    def __init__(self) -> None:
        self._parts = [_KeyPart() for _ in range(_KEY_PARTS)]
        self._count = 0
        self.places: dict[int, int] = {}

    def add(self, place: int, kind: str, key: str) -> None:
        self.places.setdefault(place, place)
        coded = f"{kind}{place}/{key}"
        self._parts[zlib.crc32(coded.encode()) % _KEY_PARTS].add(self._count, coded)
        self._count += 1

    def number(self) -> tuple[Words, pa.ChunkedArray]:
        """Return the number of each key that was added, and the keys by number."""
        numbers = array("i", bytes(4 * self._count))
        known: list[pa.Array] = []
        base = 0
        for part in self._parts:
            if part.is_empty:
                continue
            places, indices, keys = part.number()
            for place, index in zip(places, indices, strict=True):
                numbers[place] = base + index
            known.append(keys)
            base += len(keys)
        self._parts = []
        return numbers, pa.chunked_array(known, pa.large_utf8())


class _KeyPart:
    def __init__(self) -> None:
        self._at = array("I")
        self._fresh: list[str] = []
        self._chunks: list[pa.Array] = []

    @property
    def is_empty(self) -> bool:
        return not self._at

    def add(self, at: int, coded: str) -> None:
        self._at.append(at)
        self._fresh.append(coded)
        if len(self._fresh) >= _CHUNK // _KEY_PARTS:
            self._close()

    def _close(self) -> None:
        self._chunks.append(pa.array(self._fresh, pa.large_utf8()))
        self._fresh = []

    def number(self) -> tuple[Words, Words, pa.Array]:
        """Return the positions of its keys, their numbers, and the keys by number."""
        self._close()
        coded = pa.chunked_array(self._chunks, pa.large_utf8()).dictionary_encode()
        self._chunks = []
        indices = array("i")
        for chunk in coded.chunks:
            indices.frombytes(memoryview(chunk.indices.cast(pa.int32()).buffers()[1])[
                4 * chunk.indices.offset : 4 * (chunk.indices.offset + len(chunk))
            ])  # fmt: skip
        at, self._at = self._at, array("I")
        return at, indices, coded.chunk(coded.num_chunks - 1).dictionary


class _Expansion:
    def __init__(self, mistakes: Mistakes) -> None:
        self.requests = Requests()
        self.keys = _Keys()
        self.mistakes = mistakes
        self.created: dict[str, tuple[int, int]] = {}
        self.users: dict[str, int] = {}
        self.sessions: dict[int, int] = {}
        self.kinds: list[int] = []
        self.due_ns: list[int] = []
        self.counted: dict[tuple[str, str | None, str | None], int] = {}
        self.kind = 0
        """The kind of the action that is being expanded."""
        self.types: dict[str, tuple[int, str | None]] = {}
        self.has_times: bool | None = None
        self.has_plain_keys = False
        self.named: dict[str, dict[int, tuple[int, str]]] = {}
        self.doubtful: set[str] = set()
        self.doubtful_users: set[str] = set()

    def add(self, action: Action) -> None:
        kind = ACTIONS.get(action.action)
        if kind is None:
            self.mistakes.add(action.row, "action", f'"{action.action}"', ", ".join(ACTIONS))
            self._doubt(action)
            return
        if action.row in self.mistakes.rows or not self._is_whole(action, kind.needs):
            self._doubt(action)
            return
        if not self._is_counted(action):
            self._doubt(action)
            return
        session = self.sessions.setdefault(action.session, len(self.sessions))
        if session == len(self.kinds):
            self.kinds.append(0)
            self.due_ns.append(0)
        self.kinds[session] |= {"CREATE_USER": 1, "AUDIT": 4}.get(action.action, 2)
        self._check_time(action, session)
        self.requests.action_count += 1
        match action.action:
            case "CREATE_USER":
                self._create_user(action, session)
            case "SHARE":
                self._share(action, session)
            case _:
                self._simple(action, session)
        self.requests.is_last[-1] = 1

    def _is_counted(self, action: Action) -> bool:
        """Number an action's kind; record users of two types, and too many kinds, as mistakes."""
        is_right = True
        if action.user is not None:
            row, known = self.types.setdefault(action.user, (action.row, action.user_type))
            if known != action.user_type:
                actual = "nothing" if action.user_type is None else f'"{action.user_type}"'
                allowed = "nothing" if known is None else f'"{known}"'
                self.mistakes.add(
                    action.row, "user_type", actual, f"{allowed}, as row {row} has it"
                )
                is_right = False
        # A plain tuple is cheaper to create than a named one.
        kind = action.action, action.space, action.user_type
        number = self.counted.get(kind)
        if number is None:
            if len(self.counted) == ACTION_KINDS_MAX:
                self.mistakes.add(
                    action.row, "user_type", f'"{action.user_type}"',
                    f"at most {ACTION_KINDS_MAX} kinds of actions, by their names, spaces and "
                    "user types",
                )  # fmt: skip
                return False
            number = self.counted[kind] = len(self.counted)
        self.kind = number
        return is_right

    def _doubt(self, action: Action) -> None:
        """Record the objects that a wrong row may have meant: nothing is expected of them later."""
        self.doubtful.add(action.key)
        self.doubtful.update(f"{who}/inbox/{action.object}" for who in action.recipients or ())
        if action.action == "CREATE_USER" and action.user:
            self.doubtful_users.add(action.user)

    def _is_whole(self, action: Action, needs: Sequence[str]) -> bool:
        before = self.mistakes.count
        for name in needs:
            value = getattr(action, name)
            if value is None or value == "" or value == []:
                allowed = "a recipient or more" if name == "recipients" else "a value"
                self.mistakes.add(
                    action.row, name, "nothing", f"{allowed}; {action.action} needs it"
                )
        if action.space is not None and action.space not in SPACES:
            self.mistakes.add(action.row, "space", f'"{action.space}"', " or ".join(SPACES))
        if action.space is not None and action.user is None:
            self.mistakes.add(action.row, "user", "nothing", "the user whose space it is")
        if action.user_type is not None and not action.user_type.isprintable():
            self.mistakes.add(
                action.row, "user_type", f"{action.user_type!r}", "a name that can be printed"
            )
        if action.expect is not None and action.expect not in EXPECTATIONS:
            self.mistakes.add(action.row, "expect", f'"{action.expect}"', ", ".join(EXPECTATIONS))
        if action.place is not None and (action.space is not None or action.action in OF_USERS):
            self.mistakes.add(
                action.row, "place", str(action.place), "none: a user's place is the user's number"
            )
        for who in [action.user, *(action.recipients or ())]:
            if who is not None and ("/" in who or ";" in who or not who.isprintable()):
                column = "user" if who == action.user else "recipients"
                self.mistakes.add(action.row, column, f'"{who}"', 'a name without "/" and ";"')
        if action.recipients and len(set(action.recipients)) < len(action.recipients):
            self.mistakes.add(action.row, "recipients", "one of them twice", "each once")
        widest = max(["", *(action.recipients or ())], key=len)
        size = len(action.key.encode()) + (len(widest.encode()) if action.action == "SHARE" else 0)
        if size > KEY_BYTES_MAX:
            allowed = f"keys of at most {KEY_BYTES_MAX} bytes"
            self.mistakes.add(action.row, "object", f"{size} bytes", allowed)
        return self.mistakes.count == before

    def _check_time(self, action: Action, session: int) -> None:
        has_time = action.due_ns is not None
        if self.has_times is None:
            self.has_times = has_time
        if has_time != self.has_times:
            actual = "a time" if has_time else "nothing"
            self.mistakes.add(action.row, "due_ns", actual, "times in all rows, or in none")
        if action.due_ns is not None:
            if action.due_ns < self.due_ns[session]:
                self.mistakes.add(
                    action.row, "due_ns", str(action.due_ns),
                    f"{self.due_ns[session]} or more: an earlier action of the session is due then",
                )  # fmt: skip
            self.due_ns[session] = action.due_ns

    def _create_user(self, action: Action, session: int) -> None:
        assert action.user is not None, "checked"
        if action.user in self.created:
            row = self.created[action.user][0]
            self.mistakes.add(
                action.row, "user", f'"{action.user}", whom row {row} makes', "users once"
            )
            self.doubtful.update(f"{action.user}/{name}" for name, _ in PROFILE)
        self.created.setdefault(action.user, (action.row, session))
        user = self.users.setdefault(action.user, len(self.users))
        self._append(action, session, HEAD, user, f"{action.user}/{PROFILE[-1][0]}", expect=ABSENT)
        for name, size in PROFILE:
            self._append(
                action, session, PUT, user, f"{action.user}/{name}", size=size, wrap=OWNER_WRAP
            )

    def _share(self, action: Action, session: int) -> None:
        for recipient in action.recipients or ():
            user = self._user(action, session, recipient, "recipients")
            self._append(
                action, session, PUT, user, f"{recipient}/inbox/{action.object}",
                size=action.size or 0, wrap=INBOX,
            )  # fmt: skip
        self._user(action, session, action.user or "", "user")

    def _simple(self, action: Action, session: int) -> None:
        operation = ONE_OPERATION[action.action]
        user = 0 if action.user is None else self._user(action, session, action.user, "user")
        if action.space is None:
            self.has_plain_keys = True
        place = user if action.space is not None else action.place or 0
        wrap = {None: NO_WRAP, "private": OWNER_WRAP, "inbox": INBOX}[action.space]
        self._append(
            action, session, operation, place, action.key,
            size=NONE if action.size is None else action.size,
            wrap=wrap if operation in (PUT, GET) else NO_WRAP,
            expect=DERIVED if action.expect is None else EXPECTATIONS.index(action.expect),
        )  # fmt: skip

    def _user(self, action: Action, session: int, name: str, column: str) -> int:
        self.named.setdefault(name, {}).setdefault(session, (action.row, column))
        return self.users.setdefault(name, len(self.users))

    def _check_users(self) -> None:
        """Check that each user is created before use: in the same session, or in an earlier one."""
        for name, uses in self.named.items() if self.created else ():
            made_row, made_in = self.created.get(name, (0, -1))
            for session, (row, column) in uses.items():
                if made_in < 0 and name in self.doubtful_users:
                    continue
                if made_in < 0:
                    self.mistakes.add(row, column, f'"{name}"', "a user that a CREATE_USER makes")
                elif self.kinds[made_in] != 1 and (session != made_in or row < made_row):
                    self.mistakes.add(
                        row, column, f'"{name}", whom row {made_row} makes meanwhile',
                        "users of the same session, or of one that only makes users",
                    )  # fmt: skip

    def _append(
        self, action: Action, session: int, operation: int, place: int, key: str, *,
        size: int = NONE, wrap: int = NO_WRAP, expect: int = DERIVED,
    ) -> None:  # fmt: skip
        requests = self.requests
        requests.session.append(session)
        requests.row.append(action.row)
        requests.action.append(self.kind)
        requests.is_last.append(0)
        requests.operation.append(operation)
        requests.size.append(size)
        requests.expect.append(expect)
        requests.wrap.append(wrap)
        requests.due_ns.append(NONE if action.due_ns is None else action.due_ns)
        requests.entries.append(NONE if action.entries is None else action.entries)
        self.keys.add(place, "p" if operation == LIST else "o", key)

    def finish(self) -> tuple[Requests, Subjects]:
        self._check_users()
        if not self.requests.action_count:
            self.mistakes.stop_if_any()
        requests = self.requests
        requests.kinds = [CountedKind(*kind) for kind in self.counted]
        requests.users = list(self.users)
        requests.sessions = len(self.sessions)
        requests.subject, coded = self.keys.number()
        _order_sessions(requests, self.kinds)
        places = array("I")
        for start in range(0, len(coded), _CHUNK):
            texts = coded.slice(start, _CHUNK).to_pylist()
            places.extend(int(text[1 : text.index("/")]) for text in texts)
        return requests, Subjects(
            places=places, coded=coded, places_named=1 + max(self.keys.places, default=0),
            has_spaces_only=not self.has_plain_keys, wraps=_wraps(requests, len(coded)),
            doubtful=frozenset(self.doubtful),
        )  # fmt: skip


OF_USERS = ("CREATE_USER", "SHARE")


def _wraps(requests: Requests, subjects: int) -> Words:
    """Return the recipient of each subject; a space in any row applies to all rows."""
    wraps = array("B", bytes(subjects))
    for subject, wrap in zip(requests.subject, requests.wrap, strict=True):
        if wrap:
            wraps[subject] = wrap
    return wraps


def expand(actions: Iterable[Action], mistakes: Mistakes) -> tuple[Requests, Subjects]:
    """Return the requests of a script; record the mistakes of single rows."""
    expansion = _Expansion(mistakes)
    for action in actions:
        expansion.add(action)
    if not expansion.requests.action_count:
        mistakes.stop_if_any()
        mistakes.add(None, None, "no action", "one or more")
    return expansion.finish()


def _order_sessions(requests: Requests, kinds: Sequence[int]) -> None:
    """Number the sessions in the order of their turns, and sort the requests accordingly."""
    groups = [0 if kind == 1 else 2 if kind == 4 else 1 for kind in kinds]
    order = sorted(range(len(groups)), key=lambda session: groups[session])
    requests.first_sessions, requests.last_sessions = groups.count(0), groups.count(2)
    if requests.last_sessions == len(groups):
        requests.last_sessions = 0
    number = array("I", bytes(4 * len(order)))
    for new, old in enumerate(order):
        number[old] = new
    requests.session = array("I", map(number.__getitem__, requests.session))
    sort_by(requests, _COLUMNS, "session")


_ARROW = {
    "B": pa.uint8(), "H": pa.uint16(), "I": pa.uint32(), "i": pa.int32(), "q": pa.int64(),
    "Q": pa.uint64(),
}  # fmt: skip
"""The Arrow type of each kind of array."""


def arrow_of(column: Words) -> pa.Array:
    """Return a column as an Arrow array, without copying it."""
    return pa.Array.from_buffers(_ARROW[column.typecode], len(column), [None, pa.py_buffer(column)])


def sort_by(columns: object, names: Iterable[str], key: str) -> None:
    """Sort columns, given by their attribute names, by one of them in ascending order."""
    column = getattr(columns, key)
    if all(before <= after for before, after in itertools.pairwise(column)):
        return
    order = pc.sort_indices(arrow_of(column))
    for name in names:
        column = getattr(columns, name)
        taken = arrow_of(column).take(order)
        fresh = array(column.typecode)
        fresh.frombytes(memoryview(taken.buffers()[1])[: len(column) * column.itemsize])
        setattr(columns, name, fresh)


def as_json(names: Iterable[str | None]) -> str:
    """Return names in the JSON format of the metadata."""
    return json.dumps(list(names))
