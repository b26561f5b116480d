"""The file format of scripts: columns, kinds of action, reading and writing.

One row is one action. A file is Parquet, or CSV if its name ends in .csv, with recipients separated
by semicolons.
"""

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
from pydantic import TypeAdapter, ValidationError

from loadstone import regular_file
from loadstone.documents.manifest import ScriptOrigin
from loadstone.errors import InputError
from loadstone.results.output import writing_output
from loadstone.script.mistakes import Mistakes

BATCH_ROWS = 65_536
ORIGIN = "loadstone.origin"
"""The metadata key of a script's origin in a Parquet file."""

COLUMNS = pa.schema(
    [
        pa.field("session", pa.uint32(), nullable=False),
        pa.field("action", pa.utf8(), nullable=False),
        pa.field("user", pa.utf8()),
        pa.field("space", pa.utf8()),
        pa.field("object", pa.utf8()),
        pa.field("place", pa.uint32()),
        pa.field("size", pa.int64()),
        pa.field("recipients", pa.list_(pa.utf8())),
        pa.field("content", pa.uint32()),
        pa.field("due_ns", pa.int64()),
        pa.field("expect", pa.utf8()),
        pa.field("entries", pa.uint32()),
        pa.field("user_type", pa.utf8()),
    ]
)
"""The columns, documented in docs/reference/script.md."""

SPACES = ("private", "inbox")
SIZE_MAX = 2**40 - 1
"""Size of the longest object of a script: the load generator stores sizes in 40 bits."""
EXPECTATIONS = ("any", "exists", "absent")


class Action(NamedTuple):
    """One row; `row` counts from 1. Absent values follow from the script."""

    row: int
    session: int
    action: str
    user: str | None = None
    space: str | None = None
    object: str | None = None
    place: int | None = None
    size: int | None = None
    recipients: Sequence[str] | None = None
    content: int | None = None
    due_ns: int | None = None
    expect: str | None = None
    entries: int | None = None
    user_type: str | None = None

    @property
    def key(self) -> str:
        """The key of its object, or the prefix that it lists."""
        if self.space is None:
            return self.object or ""
        return f"{self.user}/{self.space}/{self.object or ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionKind:
    """One kind of action: its effect, and its required columns."""

    summary: str
    needs: tuple[str, ...]
    is_read: bool = False
    is_change: bool = False


ACTIONS: Mapping[str, ActionKind] = {
    "CREATE_USER": ActionKind(
        summary="makes a user: looks for its profile, and puts a keystore and two profiles",
        needs=("user",),
    ),
    "WRITE": ActionKind(
        summary="puts an object over the existing one", needs=("object", "size"),
        is_change=True,
    ),
    "READ": ActionKind(summary="gets an object whole", needs=("object",), is_read=True),
    "HEAD": ActionKind(summary="asks for an object's headers", needs=("object",), is_read=True),
    "SHARE": ActionKind(
        summary="puts an object into the inbox of each recipient",
        needs=("user", "object", "size", "recipients"),
    ),
    "LIST": ActionKind(summary="lists all keys under a prefix", needs=()),
    "DELETE": ActionKind(
        summary="deletes an object", needs=("object",), is_read=True, is_change=True
    ),
    "AUDIT": ActionKind(summary="lists likewise, after all other sessions", needs=()),
}  # fmt: skip


class ScriptWriter:
    """Writes actions to a file in batches; `row` is implied by the position."""

    def __init__(self, stream: BinaryIO, *, is_csv: bool) -> None:
        """Use `writing`."""
        self._stream = stream
        self._rows: list[Action] = []
        self._csv = None
        self._parquet = None
        if is_csv:
            self._text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
            self._csv = csv.writer(self._text, lineterminator="\n")
            self._csv.writerow(COLUMNS.names)
        else:
            self._parquet = pa.parquet.ParquetWriter(stream, COLUMNS, compression="zstd")
        self.count = 0

    def describe(self, origin: ScriptOrigin) -> None:
        """Add the origin of the script; CSV cannot store it."""
        if self._parquet is not None:
            self._parquet.add_key_value_metadata({ORIGIN: json.dumps(origin)})

    def add(self, action: Action) -> None:
        """Append one action."""
        self._rows.append(action)
        self.count += 1
        if len(self._rows) >= BATCH_ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._csv is not None:
            self._csv.writerows(
                [";".join(cell) if isinstance(cell, (list, tuple)) else cell for cell in row[1:]]
                for row in self._rows
            )
        elif self._parquet is not None:
            self._parquet.write_batch(batch_of(self._rows))
        self._rows.clear()

    def close(self) -> None:
        """Write the remaining actions."""
        self._flush()
        if self._csv is not None:
            self._text.flush()
            self._text.detach()
        elif self._parquet is not None:
            self._parquet.close()


@contextmanager
def writing(path: Path, *, may_overwrite: bool) -> Iterator[ScriptWriter]:
    """Write a script to a draft, and move it into place when it is complete."""
    with writing_output(path, may_overwrite=may_overwrite) as stream:
        writer = ScriptWriter(stream, is_csv=path.suffix == ".csv")
        try:
            yield writer
        finally:
            writer.close()


def read_origin(path: Path) -> ScriptOrigin | None:
    """Return the origin of a script in Parquet, if it is stated."""
    if path.suffix == ".csv":
        return None
    try:
        regular_file.check(path)
        metadata = pa.parquet.read_metadata(path).metadata or {}
        text = metadata.get(ORIGIN.encode())
        return None if text is None else _ORIGINS.validate_json(text)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f'cannot read "{path}": {error}') from error
    except ValidationError as error:
        raise InputError(
            f'"{path}": its metadata "{ORIGIN}" does not say where a script came from',
            "loadstone script convert writes it; convert the trace again",
        ) from error


_ORIGINS: TypeAdapter[ScriptOrigin] = TypeAdapter(ScriptOrigin)


def batch_of(actions: Sequence[Action]) -> pa.RecordBatch:
    """Return actions as a batch of a written script."""
    columns: list[Any] = list(zip(*actions, strict=True))[1:] if actions else [()] * len(COLUMNS)
    arrays = [pa.array(cells, field.type) for cells, field in zip(columns, COLUMNS, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=COLUMNS)


def read_actions(path: Path, mistakes: Mistakes) -> Iterator[Action]:
    """Yield the actions of a file; cells of a wrong type are mistakes, and read as absent."""
    try:
        regular_file.check(path)
        if path.suffix == ".csv":
            yield from _read_csv(path, mistakes)
        else:
            yield from _read_parquet(path, mistakes)
    except OSError as error:
        raise InputError(f'cannot read "{path}": {error.strerror or error}') from error


def _read_parquet(path: Path, mistakes: Mistakes) -> Iterator[Action]:
    try:
        with pa.parquet.ParquetFile(path) as file:
            _check_columns(file.schema_arrow.names, mistakes)
            present = [name for name in COLUMNS.names if name in file.schema_arrow.names]
            row = 0
            for batch in file.iter_batches(BATCH_ROWS, columns=present):
                columns = [_column(batch, field, row, mistakes) for field in COLUMNS]
                for cells in zip(*columns, strict=True):
                    row += 1
                    yield Action(row, *cells)
    except pa.ArrowException as error:
        raise InputError(
            f'"{path}" is not a script in Parquet: {error}', "name it .csv if it is a table of text"
        ) from error


def _column(batch: pa.RecordBatch, field: pa.Field, row: int, mistakes: Mistakes) -> Sequence[Any]:
    if field.name not in batch.schema.names:
        return [_MISSING.get(field.name)] * batch.num_rows
    column = batch.column(field.name)
    try:
        values = column.cast(field.type)
        if not _is_within(field.name, values):
            raise pa.ArrowInvalid("a number is out of bounds")
        cells = values.to_pylist()
    except pa.ArrowException:
        cells = [
            _cell(field.name, str(cell), row + place, mistakes) if cell is not None else None
            for place, cell in enumerate(column.to_pylist(), start=1)
        ]
    if not field.nullable and None in cells:
        for place, cell in enumerate(cells, start=1):
            if cell is None:
                mistakes.add(row + place, field.name, "nothing", "a value")
        cells = [_MISSING[field.name] if cell is None else cell for cell in cells]
    return cells


def _is_within(name: str, values: pa.Array) -> bool:
    """Tell whether all numbers of a column are in the allowed range."""
    if name not in _WHOLE:
        return True
    low, high = pc.min_max(values).as_py().values()
    return low is None or (low >= 0 and high <= _WHOLE[name])


_MISSING: Mapping[str, Any] = {"session": 0, "action": ""}


def _read_csv(path: Path, mistakes: Mistakes) -> Iterator[Action]:
    # Bytes that are not UTF-8 become surrogates, which are reported with their place.
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        lines = csv.reader(file, strict=True)
        row = 0
        try:
            head = next(lines, [])
            if any(_is_broken(name) for name in head):
                raise InputError(f'"{path}": its header is not valid UTF-8')
            _check_columns(head, mistakes)
            places = [head.index(name) if name in head else None for name in COLUMNS.names]
            for cells in lines:
                if not cells:
                    continue
                row += 1
                if len(cells) != len(head):
                    mistakes.add(row, None, f"{len(cells)} cells", f"{len(head)}, as in the head")
                    continue
                if not _is_text(cells, head, row, mistakes):
                    continue
                read = [
                    _cell(name, cells[place] if place is not None else "", row, mistakes)
                    for name, place in zip(COLUMNS.names, places, strict=True)
                ]
                yield Action(row, *read)
        except csv.Error as error:
            raise InputError(f'"{path}", row {row + 1}: not a line of CSV: {error}') from error


def _is_broken(cell: str) -> bool:
    return not cell.isascii() and any("\ud800" <= character <= "\udfff" for character in cell)


def _is_text(cells: Sequence[str], names: Sequence[str], row: int, mistakes: Mistakes) -> bool:
    """Record cells that are not valid UTF-8, and tell whether there are none."""
    if "".join(cells).isascii():
        return True
    wrong = [(name, cell) for name, cell in zip(names, cells, strict=True) if _is_broken(cell)]
    for name, cell in wrong:
        raw = cell.encode(errors="surrogateescape")
        mistakes.add(row, name, f"the bytes {raw!r}", "text in UTF-8")
    return not wrong


def _check_columns(names: Sequence[str], mistakes: Mistakes) -> None:
    known = COLUMNS.names
    for name in ("session", "action"):
        if name not in names:
            mistakes.add(None, name, "no such column", "it in every script")
    for name in names:
        if name not in known or names.count(name) > 1:
            what = "it twice" if name in known else "this column"
            mistakes.add(None, name, what, f"columns once each: {', '.join(known)}")
    mistakes.stop_if_any()


_WHOLE: Mapping[str, int] = {
    "session": 2**32 - 1, "place": 2**32 - 1, "size": SIZE_MAX, "content": 2**32 - 1,
    "due_ns": 2**63 - 1, "entries": 2**32 - 1,
}  # fmt: skip


def _cell(name: str, text: str, row: int, mistakes: Mistakes) -> Any:
    """Return the value of a text cell; None if it is empty or wrong."""
    if name in _WHOLE:
        if text == "" and name != "session":
            return None
        try:
            value = int(text)
        except ValueError:
            value = -1
        if not 0 <= value <= _WHOLE[name]:
            actual = f'"{text}"' if text else "nothing"
            mistakes.add(row, name, actual, f"a whole number from 0 to {_WHOLE[name]}")
            return _MISSING.get(name)
        return value
    if name == "recipients":
        return text.split(";") if text else None
    return text if text or name == "action" else None
