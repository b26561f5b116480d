"""Append-only logs of a run folder: one line of JSON with a checksum per entry.

A kill can truncate the last line. This is not damage: the next writer removes it. If any other line
was changed, the log is reported as damaged. Lines of earlier builds have no checksum; they contain
only the keys that those builds wrote.
"""

import json
import os
import re
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Generic, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from loadstone import regular_file
from loadstone.documents.mistake import adapter_of
from loadstone.results.files import durable
from loadstone.results.layout import plain

LINES_BYTES_MAX = 256 * regular_file.MIB

CHECKSUM = "crc32"
"""The last key of a line: the CRC-32 of everything before it."""

_CHECKSUM = re.compile(rb', "crc32": "([0-9a-f]{8})"\}')


Entry = TypeVar("Entry")


@dataclass(frozen=True, kw_only=True)
class Lines(Generic[Entry]):
    """The contents of a log: the entries of its valid lines, and whether all lines are valid."""

    entries: tuple[Entry, ...] = ()
    is_damaged: bool = False


@dataclass(frozen=True, slots=True)
class Log(Generic[Entry]):
    """A log of a run folder, by its name and the type of its entries."""

    name: str
    kind: type[Entry]

    def append(self, folder: Path, entry: Entry) -> None:
        """Append one line and sync it."""
        append_line(folder, self.name, cast(Mapping[str, Any], entry))

    def read(self, folder: Path) -> Lines[Entry]:
        """Read the valid lines, and whether all lines are valid."""
        return read_lines(folder / self.name, adapter_of(self.kind), self.kind.__annotations__)

    def read_plain(self, folder: Path) -> tuple[Entry, ...]:
        """Read the valid lines for display, without control characters."""
        return tuple(map(plain, self.read(folder).entries))

    def is_damaged(self, folder: Path) -> bool:
        """Tell whether the log contains damaged lines."""
        return self.read(folder).is_damaged


def append_line(folder: Path, name: str, entry: Mapping[str, Any]) -> None:
    """Append one line to a log in a folder, and sync it and the log's name."""
    path = folder / name
    line = _checked(json.dumps(entry, ensure_ascii=False, allow_nan=False).encode())
    is_new = not path.exists()
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
    with durable.writing(path), open(durable.open_file(folder, name, flags), "ab+") as stream:
        durable.check_changeable(stream.fileno(), path)
        if not _take_cut_line_away(stream):
            line = b"\n" + line
        stream.write(line)
        stream.flush()
        os.fsync(stream.fileno())
    if is_new:
        durable.sync_name(folder, name)


def read_lines(path: Path, kind: TypeAdapter[Entry], keys: Collection[str]) -> Lines[Entry]:
    """Read a log; `keys` are those that a line without a checksum may have."""
    try:
        lines = regular_file.read(path, LINES_BYTES_MAX).split(b"\n")
    except FileNotFoundError:
        return Lines()
    except OSError:
        return Lines(is_damaged=True)
    if _is_cut(lines[-1]):
        lines.pop()
    read = [_entry(line, kind, keys) for line in lines]
    entries = tuple(entry for entry in read if entry is not None)
    return Lines(entries=entries, is_damaged=len(entries) < len(read))


def _checked(text: bytes) -> bytes:
    return text.removesuffix(b"}") + f', "{CHECKSUM}": "{_sum(text[:-1])}"}}\n'.encode()


def _sum(text: bytes) -> str:
    return f"{zlib.crc32(text):08x}"


def _entry(line: bytes, kind: TypeAdapter[Entry], keys: Collection[str]) -> Entry | None:
    entry = _checked_entry(line, keys)
    try:
        kind.validate_python(entry, strict=True)
    except ValidationError:
        return None
    return cast(Entry, entry)


def _checked_entry(line: bytes, keys: Collection[str]) -> dict[str, Any] | None:
    """Parse a line; None if it was damaged or changed."""
    entry = _object(line)
    if entry is None:
        return None
    if CHECKSUM not in entry:
        return entry if entry.keys() <= set(keys) else None
    end = _CHECKSUM.search(line)
    # The checksum must be the last key, so that a flipped bit cannot create a second one.
    if end is None or end.end() != len(line) or _sum(line[: end.start()]) != end[1].decode():
        return None
    return {key: value for key, value in entry.items() if key != CHECKSUM}


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None


def _is_cut(line: bytes) -> bool:
    """Tell whether a last line without line feed lacks more than the line feed."""
    return _CHECKSUM.search(line) is None and _object(line) is None


def _take_cut_line_away(stream: IO[bytes]) -> bool:
    """Remove a truncated last line; return whether the log then ends with a line feed."""
    size = stream.seek(0, os.SEEK_END)
    begin, tail = size, b""
    while begin and b"\n" not in tail:
        begin = max(0, begin - 4096)
        tail = os.pread(stream.fileno(), size - begin, begin)
    last = tail.rpartition(b"\n")[2]
    if last and not _is_cut(last):
        return False
    if last:
        os.ftruncate(stream.fileno(), size - len(last))
    return True
