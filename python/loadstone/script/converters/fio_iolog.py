"""fio's iolog, versions 2 and 3: the I/O of a job to its files, as written by write_iolog.

`[TIME_MS] FILE ACTION [OFFSET LENGTH]`; version 3 has times, version 2 has `wait` in microseconds.
An extent (file and offset) becomes an object, so that its reads and writes stay in order; nothing
is expected of extents that partly overlap.
"""

from collections.abc import Iterator
from pathlib import Path

from loadstone.errors import InputError
from loadstone.formats.reading import FileLine, log_lines, whole
from loadstone.script.trace import Losses, Traced

HEADS = {"fio version 2 iolog": 2, "fio version 3 iolog": 3}
ACTIONS = {"read": "READ", "write": "WRITE", "trim": "DELETE"}
OF_FILES = ("add", "open", "close")
WITHOUT_OBJECT = ("sync", "datasync", "sync_file_range")
MILLISECOND_NS, MICROSECOND_NS = 1_000_000, 1_000


def read(path: Path, losses: Losses) -> Iterator[Traced]:
    """Yield the requests of a log; those of version 2 are due after the preceding waits."""
    lines = log_lines(path)
    number, head = next(lines, (1, ""))
    head = head.strip()
    version = HEADS.get(head)
    if version is None:
        raise InputError(
            f'"{path}", line {number}: found "{head[:80]}", expected one of {", ".join(HEADS)}',
            "fio --write_iolog=FILE writes them; blkparse's binary form is another",
        )
    waited_ns = 0
    for number, line in lines:
        words = line.split()
        place = FileLine(path, number)
        try:
            start_ns = waited_ns
            if version == 3:
                start_ns = whole(place, "time", words.pop(0)) * MILLISECOND_NS
            if version == 2 and len(words) > 2 and words[1] == "wait":
                waited_ns += whole(place, "wait", words[2]) * MICROSECOND_NS
                continue
            request = _request(place, words, start_ns, losses)
        except InputError as error:
            losses.malform(error)
            continue
        if request is not None:
            yield request


def _request(place: FileLine, words: list[str], start_ns: int, losses: Losses) -> Traced | None:
    if len(words) == 2 and words[1] in OF_FILES:
        losses.leave_out(f"{words[1]}: not an action of a script")
        return None
    if len(words) != 4:
        place.refuse(f"has {len(words)} words, expected FILE ACTION OFFSET LENGTH")
    name, action = words[0], words[1]
    offset, length = whole(place, "offset", words[2]), whole(place, "length", words[3])
    if action in WITHOUT_OBJECT:
        losses.leave_out(f"{action}: not an action of a script")
        return None
    if action not in ACTIONS:
        place.refuse(f'found action "{action}", expected one of {", ".join(ACTIONS)}')
    return Traced(
        line=place.line or 0,
        start_ns=start_ns,
        action=ACTIONS[action],
        place="",
        key=f"{name.lstrip('/')}/{offset}",
        size=None if action == "trim" else length,
    )
