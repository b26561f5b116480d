"""Compiles scripts for the load generator: Arrow files of requests and of their subjects.

The files are memory-mapped: uncompressed, with batches of equal length, sorted by session. Three
request files share one file of subjects: preparation, measured script, and read-back.
"""

import hashlib
import itertools
import os
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
from typing_extensions import Buffer

from loadstone.errors import ResultError
from loadstone.script.expansion import (
    ANY,
    GET,
    NONE,
    OPERATIONS,
    PUT,
    CountedKind,
    Requests,
    Subjects,
    Words,
    arrow_of,
    as_json,
    expand,
)
from loadstone.script.expected import Expected, expect
from loadstone.script.mistakes import Mistakes
from loadstone.script.table import Action

FORMAT = 2
BATCH_ROWS = 65_536
TEXT_BYTES_MAX = 2**31 - 1
DEALT_SESSIONS = 64
"""Number of sessions among which preparation and read-back are divided."""

REQUESTS = pa.schema(
    [
        pa.field("session", pa.uint32(), nullable=False),
        pa.field("action", pa.uint8(), nullable=False),
        pa.field("is_last", pa.bool_(), nullable=False),
        pa.field("operation", pa.uint8(), nullable=False),
        pa.field("subject", pa.uint32(), nullable=False),
        pa.field("size", pa.uint64(), nullable=False),
        pa.field("version", pa.uint32(), nullable=False),
        pa.field("expect", pa.uint8(), nullable=False),
        pa.field("entries", pa.uint32()),
        pa.field("entries_hash", pa.uint64()),
        pa.field("due_ns", pa.uint64()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """One file of requests, named by its hash, and its description for trial documents."""

    path: Path
    sha256: str
    actions: int
    requests: int
    sessions: int
    shares: Mapping[str, int]
    has_times: bool
    subjects: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledScript:
    """A script's three files; `prepare` is absent if no object must exist before.

    `read_back` reads each object once. Sizes are those of written objects.
    """

    subjects: Path
    subjects_sha256: str
    measured: Compiled
    prepare: Compiled | None
    read_back: Compiled
    places: int
    can_share_buckets: bool
    lists: int
    lists_checked: int
    bytes_put: int
    largest_bytes: int
    smallest_bytes: int
    span_ns: int | None
    """Time of the last scheduled action; None if none is scheduled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A script without mistakes: its requests, their subjects, and the expectations."""

    requests: Requests
    subjects: Subjects
    expected: Expected


def check(actions: Iterable[Action], name: str, mistakes: Mistakes | None = None) -> Checked:
    """Return a script's requests and expectations; raise all of its mistakes at once."""
    mistakes = mistakes or Mistakes(name)
    requests, subjects = expand(actions, mistakes)
    return Checked(
        requests=requests, subjects=subjects, expected=expect(requests, subjects, mistakes)
    )


def compile_script(checked: Checked, folder: Path) -> CompiledScript:
    """Write the files of a script into a folder, named by their hashes, and describe them."""
    requests, subjects, expected = checked.requests, checked.subjects, checked.expected
    try:
        folder.mkdir(parents=True, exist_ok=True)
        subjects_sha = _write_subjects(subjects, expected, folder)
        known = {"subjects_sha256": subjects_sha}
        count = len(subjects.coded)
        measured = _write(_measured(requests, expected), requests, known, folder, count)
        prepare = None
        if expected.prepared:
            puts = _puts(expected)
            prepare = _write_dealt(puts, "PREPARE", known, folder, count)
        read_back = _write_dealt(_gets(expected), "READ_BACK", known, folder, count)
    except OSError as error:
        raise ResultError(f'cannot write the script to "{folder}": {error.strerror}') from error
    sizes = zip(requests.size, requests.operation, strict=True)
    put_sizes = [size for size, operation in sizes if operation == PUT]
    return CompiledScript(
        subjects=folder / f"{subjects_sha}.subjects.arrow",
        subjects_sha256=subjects_sha,
        measured=measured,
        prepare=prepare,
        read_back=read_back,
        places=subjects.places_named,
        can_share_buckets=subjects.has_spaces_only,
        lists=expected.lists,
        lists_checked=expected.lists_checked,
        bytes_put=sum(put_sizes),
        largest_bytes=max((*requests.size, *expected.prepared_sizes), default=0),
        smallest_bytes=min((*put_sizes, *expected.prepared_sizes), default=0),
        span_ns=max(requests.due_ns, default=NONE) if measured.has_times else None,
    )


def _measured(requests: Requests, expected: Expected) -> dict[str, pa.Array]:
    return {
        "session": arrow_of(requests.session),
        "action": arrow_of(requests.action),
        "is_last": arrow_of(requests.is_last).cast(pa.bool_()),
        "operation": arrow_of(requests.operation),
        "subject": arrow_of(requests.subject).cast(pa.uint32()),
        "size": arrow_of(requests.size).cast(pa.uint64()),
        "version": arrow_of(expected.version),
        "expect": arrow_of(requests.expect),
        "entries": _present(expected.entries, pa.uint32()),
        "entries_hash": arrow_of(expected.entries_hash),
        "due_ns": _present(requests.due_ns, pa.uint64()),
    }


def _present(column: Words, kind: pa.DataType) -> pa.Array:
    """Return a column with nulls for unstated values."""
    values = arrow_of(column)
    absent = pa.scalar(None, values.type)
    return pc.if_else(pc.equal(values, NONE), absent, values).cast(kind)


def _puts(expected: Expected) -> dict[str, pa.Array]:
    """Return a put of each object that must exist before the script begins."""
    order = _deal(expected.prepared)
    return {
        "operation": _same(PUT, pa.uint8(), len(order)),
        "subject": arrow_of(array("I", (expected.prepared[index] for index in order))),
        "size": pa.array((expected.prepared_sizes[index] for index in order), pa.uint64()),
        "version": _same(1, pa.uint32(), len(order)),
    }


def _gets(expected: Expected) -> dict[str, pa.Array]:
    """Return a get of every object that the script, or its preparation, may leave."""
    order = _deal(expected.objects)
    return {
        "operation": _same(GET, pa.uint8(), len(order)),
        "subject": arrow_of(array("I", (expected.objects[index] for index in order))),
        "size": _same(0, pa.uint64(), len(order)),
        "version": _same(0, pa.uint32(), len(order)),
    }


def _deal(chosen: Words) -> Words:
    """Return list positions in the order in which they are dealt to sessions."""
    count = max(1, min(DEALT_SESSIONS, len(chosen)))
    return array(
        "I", itertools.chain(*(range(first, len(chosen), count) for first in range(count)))
    )


def _same(value: int, kind: pa.DataType, length: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), length)


def _write_dealt(
    columns: Mapping[str, pa.Array], action: str, known: Mapping[str, str], folder: Path, count: int
) -> Compiled:
    length = len(columns["subject"])
    sessions = min(DEALT_SESSIONS, length)
    dealt = (
        array("I", [session]) * len(range(session, length, sessions)) for session in range(sessions)
    )
    whole = {
        "session": arrow_of(array("I", itertools.chain(*dealt))),
        "action": _same(0, pa.uint8(), length),
        "is_last": _same(True, pa.bool_(), length),
        "expect": _same(ANY, pa.uint8(), length),
        "entries": pa.nulls(length, pa.uint32()),
        "entries_hash": pa.nulls(length, pa.uint64()),
        "due_ns": pa.nulls(length, pa.uint64()),
        **columns,
    }
    requests = Requests(kinds=[CountedKind(action)], sessions=sessions, action_count=length)
    return _write(whole, requests, known, folder, count)


def _write(
    columns: Mapping[str, pa.Array],
    requests: Requests,
    known: Mapping[str, str],
    folder: Path,
    subjects: int,
) -> Compiled:
    length = len(columns["session"])
    metadata = {
        "format": str(FORMAT),
        "actions": as_json(kind.action for kind in requests.kinds),
        "spaces": as_json(kind.space for kind in requests.kinds),
        "user_types": as_json(kind.user_type for kind in requests.kinds),
        "operations": as_json(OPERATIONS),
        "first_sessions": str(requests.first_sessions),
        "last_sessions": str(requests.last_sessions),
        "sessions": str(requests.sessions),
        "rows": str(length),
        "action_count": str(requests.action_count),
        **known,
    }
    schema = REQUESTS.with_metadata(metadata)
    arrays = [columns[name] for name in REQUESTS.names]
    batches = (
        pa.RecordBatch.from_arrays(
            [column.slice(start, BATCH_ROWS) for column in arrays], schema=schema
        )
        for start in range(0, length, BATCH_ROWS)
    )
    sha256 = _write_file(folder, ".arrow", schema, batches)
    counted = {
        value_count["values"].as_py(): value_count["counts"].as_py()
        for value_count in pc.value_counts(columns["operation"])
    }
    return Compiled(
        path=folder / f"{sha256}.arrow",
        sha256=sha256,
        actions=requests.action_count,
        requests=length,
        sessions=requests.sessions,
        shares={name: counted[at] for at, name in enumerate(OPERATIONS) if at in counted},
        has_times=columns["due_ns"].null_count < length,
        subjects=subjects,
    )


def _write_subjects(subjects: Subjects, expected: Expected, folder: Path) -> str:
    text = pa.utf8() if subjects.coded.nbytes < TEXT_BYTES_MAX else pa.large_utf8()
    schema = pa.schema(
        [
            pa.field("place", pa.uint32(), nullable=False),
            pa.field("space", pa.uint32(), nullable=False),
            pa.field("wrap", pa.uint8(), nullable=False),
            pa.field("key", text, nullable=False),
        ],
        metadata={"format": str(FORMAT)},
    )

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, len(subjects.coded), BATCH_ROWS):
            coded = subjects.coded.slice(start, BATCH_ROWS).to_pylist()
            end = start + len(coded)
            yield pa.RecordBatch.from_arrays(
                [
                    arrow_of(subjects.places[start:end]),
                    arrow_of(expected.spaces[start:end]),
                    arrow_of(subjects.wraps[start:end]),
                    pa.array([key[key.index("/") + 1 :] for key in coded], text),
                ],
                schema=schema,
            )

    return _write_file(folder, ".subjects.arrow", schema, batches())


class _Hashing:
    """A file that is hashed while it is written."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self.digest = hashlib.sha256()
        self.closed = False

    def write(self, content: Buffer) -> int:
        self.digest.update(content)
        return self._file.write(content)

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self.closed = True


def _write_file(
    folder: Path, suffix: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> str:
    """Write an Arrow file named by its hash; an existing file of that name is identical."""
    partial = folder / f"partial-{os.getpid()}{suffix}"
    hashing = _Hashing(partial)
    try:
        with pa.ipc.new_file(hashing, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        hashing.close()
        sha256 = hashing.digest.hexdigest()
        partial.replace(folder / f"{sha256}{suffix}")
    finally:
        partial.unlink(missing_ok=True)
    return sha256
