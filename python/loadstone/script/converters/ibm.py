"""IBM's object store traces (SNIA IOTTA): a line per request, with its time in milliseconds.

`TIME OPERATION OBJECT [SIZE [FIRST LAST]]`, as in `1232488 REST.GET.OBJECT 95d363d3fbdc0b03 1168 0
1167`; keys are anonymised, and all in one bucket.
"""

from collections.abc import Iterator
from pathlib import Path

from loadstone.errors import InputError
from loadstone.formats.reading import EDITED, FileLine, log_lines, whole
from loadstone.script.trace import Losses, Traced

MILLISECOND_NS = 1_000_000
ACTIONS = {
    "REST.PUT.OBJECT": "WRITE",
    "REST.GET.OBJECT": "READ",
    "REST.HEAD.OBJECT": "HEAD",
    "REST.DELETE.OBJECT": "DELETE",
}
SHORTEST, LONGEST = 3, 6
"""Minimum and maximum number of words in a line."""


def read(path: Path, losses: Losses) -> Iterator[Traced]:
    """Yield the requests of a trace."""
    for number, line in log_lines(path):
        try:
            request = _request(FileLine(path, number), line.split(), losses)
        except InputError as error:
            losses.malform(error)
            continue
        if request is not None:
            yield request


def _request(place: FileLine, words: list[str], losses: Losses) -> Traced | None:
    if not SHORTEST <= len(words) <= LONGEST or len(words) == LONGEST - 1:
        place.refuse(f"has {len(words)} words, expected TIME OPERATION OBJECT [SIZE [FIRST LAST]]")
    time_ms = whole(place, "time", words[0])
    operation, key = words[1], words[2]
    size = whole(place, "size", words[3]) if len(words) > SHORTEST else None
    if not operation.startswith(("REST.", "BATCH.")):
        place.refuse(f'found operation "{operation}", expected one such as REST.GET.OBJECT', EDITED)
    action = ACTIONS.get(operation)
    if action is None:
        losses.leave_out(f"{operation}: not an action of a script")
        return None
    if len(words) == LONGEST:
        first, last = whole(place, "first", words[4]), whole(place, "last", words[5])
        if action == "READ" and size is not None and last - first + 1 < size:
            losses.leave_out("reads of a range")
            return None
    return Traced(
        line=place.line or 0,
        start_ns=time_ms * MILLISECOND_NS,
        action=action,
        place="",
        key=key,
        size=None if action == "DELETE" else size,
    )
