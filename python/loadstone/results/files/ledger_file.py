"""The file of a ledger: frames of the load generator, for all attempts at a trial.

`crates/loadgen/src/ledger.rs` describes a frame. A trial's frames are synced before the seconds
that count the same requests are written, so that after a kill or a power cut a ledger never
contains a request that is missing in the record.
"""

import os
import struct
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from loadstone.results.files import durable

LEDGERS = "ledger"
SUFFIX = ".ledger"

_HEAD = struct.Struct("<B3xIQQQII")
"""Kind, writer, page, two times, size of the content, CRC-32."""
_PAGE, _FILL, _PACKED, _BEGIN, _END = 1, 2, 3, 4, 5


class Frame(NamedTuple):
    """A frame, and the offset of its end."""

    kind: int
    writer: int
    page: int
    from_ns: int
    to_ns: int
    content: bytes
    end: int


def frames_in(stream: bytes) -> Iterator[Frame]:
    """Yield the frames of a ledger up to the first truncated or damaged one."""
    at = 0
    while at + _HEAD.size <= len(stream):
        kind, writer, page, from_ns, to_ns, size, crc = _HEAD.unpack_from(stream, at)
        begin, end = at + _HEAD.size, at + _HEAD.size + size
        if end > len(stream):
            return
        content = stream[begin:end]
        if zlib.crc32(content, zlib.crc32(stream[at : begin - 4])) != crc:
            return
        yield Frame(kind, writer, page, from_ns, to_ns, content, end)
        at = end


def check_frames(stream: bytes) -> None:
    """Raise ValueError unless the stream is a sequence of whole page frames."""
    end = 0
    for frame in frames_in(stream):
        if frame.kind not in (_PAGE, _FILL):
            raise ValueError(f"found a frame of kind {frame.kind}")
        end = frame.end
    if end != len(stream):
        raise ValueError("found a frame that is cut off or damaged")


def _packed(frame: Frame) -> bytes:
    kind, content = frame.kind, frame.content
    if kind == _PAGE and len(smaller := zlib.compress(content)) < len(content):
        kind, content = _PACKED, smaller
    head = _HEAD.pack(kind, frame.writer, frame.page, frame.from_ns, frame.to_ns, len(content), 0)[
        :-4
    ]
    return head + struct.pack("<I", zlib.crc32(content, zlib.crc32(head))) + content


def compacted(stream: bytes) -> bytes:
    """Return a ledger with only the last frame of each page, for each of the trial's attempts."""
    attempts: list[list[Frame]] = []
    pages: dict[tuple[int, int], Frame] = {}
    for frame in frames_in(stream):
        if frame.kind in (_BEGIN, _END):
            attempts.append([*pages.values(), frame])
            pages = {}
            continue
        key = (frame.writer, frame.page)
        first = pages.get(key)
        pages[key] = frame if first is None else frame._replace(from_ns=first.from_ns)
    frames = (frame for attempt in attempts for frame in attempt)
    return b"".join(map(_packed, (*frames, *pages.values())))


class LedgerWriter:
    """Appends the frames of one attempt at a trial."""

    def __init__(self, folder: Path, trial: str) -> None:
        """Start an attempt; frames of earlier attempts stay before it."""
        self._folder = folder
        self._name = f"{LEDGERS}/{trial}{SUFFIX}"
        durable.make_folder_in(folder, LEDGERS)
        with durable.writing(self.path):
            flags = os.O_RDWR | os.O_CREAT
            self._file = os.fdopen(durable.open_file(folder, self._name, flags), "r+b")
            # Frames behind a truncated one would not be found.
            end = max((frame.end for frame in frames_in(self._file.read())), default=0)
            self._file.truncate(end)
            self._file.seek(end)
            self._mark(_BEGIN)
        durable.sync_name(folder, self._name)

    @property
    def path(self) -> Path:
        """The ledger's file."""
        return self._folder / self._name

    def write(self, frames: bytes) -> None:
        """Append frames, which are on disk when this returns."""
        with durable.writing(self.path):
            self._file.write(frames)
            self._file.flush()
            os.fdatasync(self._file.fileno())

    def finish(self, *, is_whole: bool) -> None:
        """Finish the attempt; `is_whole` means that every request was answered."""
        if is_whole:
            self._mark(_END)
        self.close()
        durable.write_file(self._folder, self._name, compacted(self.path.read_bytes()))

    def close(self) -> None:
        """Close the file as it is."""
        self._file.close()

    def _mark(self, kind: int) -> None:
        now_ns = time.time_ns()
        self.write(_packed(Frame(kind, 0, 0, now_ns, now_ns, b"", 0)))
