"""Converts traces to scripts: requests by client, object and time, in sessions with expectations.

Requests are grouped by key, sorted by their starts, and dealt to sessions: by key, so that all
requests for an object stay in order, or by the trace's clients. Objects that are read before they
are written must exist before the script begins.
"""

import hashlib
import hmac
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import NamedTuple

import pyarrow as pa

from loadstone.documents.manifest import ScriptOrigin
from loadstone.errors import InputError
from loadstone.script.expansion import KEY_BYTES_MAX, Words, sort_by
from loadstone.script.table import Action

SHOWN_MAX = 20
ANONYMOUS_DIGITS = 16
NOT_FOUND, FAILED = 404, 400

UNKNOWN_SIZE = "objects of unknown size (give --size)"

_KINDS = ("WRITE", "READ", "HEAD", "DELETE", "LIST")
_WRITE, _READ, _HEAD, _DELETE, _LIST = range(len(_KINDS))
_UNKNOWN, _THERE, _GONE = range(3)
_NOBODY, _MANY = 2**32 - 1, 2**32 - 2
_CHUNK = 65_536


class Traced(NamedTuple):
    """One request of a trace: `line` in its file, and its start relative to an arbitrary origin.

    `key` is the prefix of a LIST. `client` is the requester, `status` the HTTP status, `size` the
    object's size in bytes; each is absent if the trace does not state it.
    """

    line: int
    start_ns: int
    action: str
    place: str
    key: str
    size: int | None = None
    client: str = ""
    status: int | None = None


@dataclass(slots=True)
class Losses:
    """Requests of a trace that the script leaves out, counted by reason.

    Malformed lines are all reported at the end of the conversion and stop it, unless they may be
    skipped.
    """

    may_skip: bool
    read: int = 0
    malformed: int = 0
    examples: list[str] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)

    def malform(self, error: InputError) -> None:
        """Record a malformed line."""
        self.read += 1
        self.malformed += 1
        if len(self.examples) < SHOWN_MAX:
            self.examples.append(error.message)

    def leave_out(self, why: str) -> None:
        """Record a request that a converter understands but a script cannot express."""
        self.read += 1
        self.left_out[why] += 1

    def drop(self, why: str) -> None:
        """Record a request from a converter that does not become an action."""
        self.left_out[why] += 1

    def stop_if_malformed(self) -> None:
        """Refuse the trace if it has malformed lines that may not be skipped."""
        if not self.malformed or self.may_skip:
            return
        more = self.malformed - len(self.examples)
        lines = [*self.examples, *([f"and {more} more"] if more else [])]
        hint = "--malformed skip leaves such lines out, and counts them"
        raise InputError("\n".join(lines), hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceOptions:
    """How a trace is divided into sessions, and values for what it does not state."""

    sessions_by: str
    """`key` or `client`."""

    sessions: int
    """Number of sessions that the keys are dealt to."""

    size_bytes: int | None
    """The size of objects whose size the trace does not state, in bytes."""

    salt: str | None
    """Salt for anonymising keys; equal keys stay equal."""

    has_times: bool

    copies: int
    """Number of sessions that repeat the sequence of a converted script."""


@dataclass(slots=True)
class Written:
    """Totals of the script so far: `span_ns` is from its first action to its last."""

    actions: int = 0
    span_ns: int = 0
    has_times: bool = False


@dataclass(slots=True)
class _Columns:
    line: Words = field(default_factory=lambda: array("I"))
    start_ns: Words = field(default_factory=lambda: array("q"))
    kind: Words = field(default_factory=lambda: array("B"))
    key: Words = field(default_factory=lambda: array("i"))
    size: Words = field(default_factory=lambda: array("q"))
    client: Words = field(default_factory=lambda: array("I"))
    status: Words = field(default_factory=lambda: array("H"))


def origin_of(
    form: str, files: Sequence[str], options: TraceOptions, losses: Losses, written: Written
) -> ScriptOrigin:
    """Return the description of the trace, for the script's file."""
    return {
        "format": form,
        "files": list(files),
        "rows_read": losses.read,
        "actions": written.actions,
        "span_ns": written.span_ns,
        "left_out": dict(losses.left_out.most_common()),
        "malformed": losses.malformed,
        "malformed_examples": list(losses.examples),
        "sessions_by": options.sessions_by,
        "sessions": options.sessions,
        "size_bytes": options.size_bytes,
        "is_anonymous": options.salt is not None,
        "has_times": options.has_times and written.has_times,
    }


def script_of(
    requests: Iterable[Traced], options: TraceOptions, losses: Losses
) -> Iterator[Action]:
    """Yield the actions of a trace in the order of their starts; `losses` counts omitted
    requests.
    """
    columns, keys, places = _gather(requests, options, losses)
    losses.stop_if_malformed()
    if not len(columns.line):
        why = ", ".join(f"{count} {reason}" for reason, count in losses.left_out.items())
        raise InputError("no request of the trace can become an action of a script", why or None)
    # Most logs are in the order in which requests ended.
    sort_by(columns, [field.name for field in fields(columns)], "start_ns")
    yield from _Actions(columns, keys, places, options, losses).go()


def _gather(
    requests: Iterable[Traced], options: TraceOptions, losses: Losses
) -> tuple[_Columns, pa.Array, list[str]]:
    columns, clients, places = _Columns(), dict[str, int](), dict[str, int]()
    fresh: list[str] = []
    chunks: list[pa.Array] = []
    for request in requests:
        losses.read += 1
        key = request.key if options.salt is None else _anonymous(request.key, options.salt)
        if len(key.encode()) > KEY_BYTES_MAX:
            losses.drop("keys that are too long")
            continue
        place = places.setdefault(request.place, len(places))
        fresh.append(f"{'p' if request.action == 'LIST' else 'o'}{place}/{key}")
        if len(fresh) >= _CHUNK:
            chunks.append(pa.array(fresh, pa.large_utf8()))
            fresh = []
        columns.line.append(request.line)
        columns.start_ns.append(request.start_ns)
        columns.kind.append(_KINDS.index(request.action))
        columns.size.append(-1 if request.size is None else request.size)
        columns.client.append(clients.setdefault(request.client, len(clients)))
        columns.status.append(request.status or 0)
    chunks.append(pa.array(fresh, pa.large_utf8()))
    coded = pa.chunked_array(chunks).dictionary_encode()
    for chunk in coded.chunks:
        columns.key.extend(chunk.indices.to_pylist())
    return columns, coded.chunk(coded.num_chunks - 1).dictionary, list(places)


def _anonymous(key: str, salt: str) -> str:
    """Return a key with each path segment hashed, so that equal segments and prefixes stay
    equal.
    """
    return "/".join(
        hmac.new(salt.encode(), step.encode(), hashlib.sha256).hexdigest()[:ANONYMOUS_DIGITS]
        if step
        else ""
        for step in key.split("/")
    )


class _Actions:
    """Processes a trace in order and tracks the state of each object."""

    def __init__(
        self,
        columns: _Columns,
        keys: pa.Array,
        places: list[str],
        options: TraceOptions,
        losses: Losses,
    ) -> None:
        self.columns, self.keys, self.options, self.losses = columns, keys, options, losses
        self.state = bytearray(len(keys))
        self.size = array("q", [-1]) * len(keys)
        self.is_shared = bytearray(len(keys))
        self._look_ahead()

    def _look_ahead(self) -> None:
        """Find the first known size of each object, and the objects used by several sessions."""
        columns, count = self.columns, len(self.keys)
        toucher, changed = array("I", [_NOBODY]) * count, bytearray(count)
        for at, key in enumerate(columns.key):
            kind = columns.kind[at]
            if self.size[key] < 0 and kind in (_READ, _HEAD, _WRITE):
                self.size[key] = columns.size[at]
            session = self._session(at, key)
            if toucher[key] != session:
                toucher[key] = session if toucher[key] == _NOBODY else _MANY
            changed[key] |= kind in (_WRITE, _DELETE)
        for key in range(count):
            self.is_shared[key] = toucher[key] == _MANY and bool(changed[key])

    def _session(self, at: int, key: int) -> int:
        by_key = self.options.sessions_by == "key"
        return key % self.options.sessions if by_key else self.columns.client[at]

    def go(self) -> Iterator[Action]:
        columns = self.columns
        first_ns = columns.start_ns[0]
        row = 0
        for at, key in enumerate(columns.key):
            expectation = self._judge(at, key)
            if expectation is None:
                continue
            expect, size = expectation
            row += 1
            text: str = self.keys[key].as_py()
            place, _, name = text[1:].partition("/")
            yield Action(
                row=row,
                session=self._session(at, key),
                action=_KINDS[columns.kind[at]],
                object=name,
                place=int(place),
                size=size,
                due_ns=columns.start_ns[at] - first_ns if self.options.has_times else None,
                expect=expect,
            )

    def _judge(self, at: int, key: int) -> tuple[str | None, int | None] | None:
        """Return the expectation and the size of the object; None if the size is not known."""
        columns = self.columns
        kind, status, size = columns.kind[at], columns.status[at], columns.size[at]
        if kind == _LIST:
            return None, None
        if kind == _WRITE:
            size = size if size >= 0 else self._usual(self.size[key])
            if size < 0:
                self.losses.drop(UNKNOWN_SIZE)
                return None
            self.state[key], self.size[key] = _THERE, size
            return None, size
        if self.is_shared[key]:
            return "any", self._stated(size)
        state = self.state[key]
        if kind == _DELETE:
            self.state[key] = _GONE
            return (None if state == _THERE else "any"), None
        if status == NOT_FOUND:
            return ("any" if state == _THERE else "absent"), None
        if status >= FAILED:
            return "any", self._stated(size)
        if state == _GONE:
            return "any", self._stated(size)
        if state == _THERE:
            return None, None
        known = self._usual(self.size[key])
        if known < 0:
            self.losses.drop(UNKNOWN_SIZE)
            return None
        self.state[key], self.size[key] = _THERE, known
        return "exists", known

    def _stated(self, size: int) -> int | None:
        return None if size < 0 else size

    def _usual(self, size: int) -> int:
        if size >= 0:
            return size
        return -1 if self.options.size_bytes is None else self.options.size_bytes
