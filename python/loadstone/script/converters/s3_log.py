"""S3 server access logs: a line per request, as AWS delivers them.

versitygw writes the same fields without quotes, with its own names of operations; nginx writes the
fields in its log_format. Times are whole seconds: requests of one second are spread over it evenly,
in their order.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from loadstone.errors import InputError
from loadstone.formats.imported import SECOND_NS
from loadstone.formats.reading import FileLine, log_lines, whole
from loadstone.script.trace import Losses, Traced

HEAD = "log starts "
"""Marks a log of versitygw: the beginning of its first line."""

_LINE = re.compile(
    r"(?P<owner>\S+) (?P<bucket>\S+) \[(?P<time>[^\]]+)\] (?P<ip>\S+) (?P<requester>\S+) "
    r'(?P<id>\S+) (?P<operation>\S+) (?P<key>.+?) (?P<uri>"[^"]*"|-|/\S*) '
    r"(?P<status>\d{3}|-) (?P<error>\S+) (?P<sent>\d+|-) (?P<size>\d+|-) (?P<took>\d+|-) "
)
_TIME = re.compile(r"(\d\d)/([A-Z][a-z]{2})[a-z]*/(\d{4}):(\d\d):(\d\d):(\d\d) ([+-])(\d\d)(\d\d)")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

ACTIONS = {
    "REST.PUT.OBJECT": "WRITE",
    "REST.POST.UPLOAD": "WRITE",
    "REST.GET.OBJECT": "READ",
    "REST.HEAD.OBJECT": "HEAD",
    "REST.DELETE.OBJECT": "DELETE",
    "BATCH.DELETE.OBJECT": "DELETE",
    "REST.GET.BUCKET": "LIST",
    "s3_PutObject": "WRITE",
    "s3_CompleteMultipartUpload": "WRITE",
    "s3_GetObject": "READ",
    "s3_HeadObject": "HEAD",
    "s3_DeleteObject": "DELETE",
    "s3_ListObjects": "LIST",
    "s3_ListObjectsV2": "LIST",
}
TELLS_NO_SIZE_READ = "s3_"
"""Logs with such operations state sizes of writes only."""

_PARTIAL, _ERROR, _NOT_FOUND = 206, 400, 404
_MARK = ".loadstone-mark"


def read(path: Path, losses: Losses) -> Iterator[Traced]:
    """Yield the requests of a log; those of a second after the next second has begun."""
    second: int | None = None
    waiting: list[Traced] = []
    for number, line in log_lines(path):
        if line.startswith(HEAD):
            continue
        place = FileLine(path, number)
        try:
            request = _request(place, line.rstrip("\r\n") + " ", losses)
        except InputError as error:
            losses.malform(error)
            continue
        if request is None:
            continue
        if second is not None and request.start_ns != second:
            yield from _spread(waiting)
            waiting = []
        second = request.start_ns
        waiting.append(request)
    yield from _spread(waiting)


def _spread(waiting: list[Traced]) -> Iterator[Traced]:
    for place, request in enumerate(waiting):
        yield request._replace(start_ns=request.start_ns + place * SECOND_NS // len(waiting))


def _request(place: FileLine, line: str, losses: Losses) -> Traced | None:
    match = _LINE.match(line)
    if match is None:
        place.refuse("not a line of an S3 access log", "its fields are those of AWS's format")
    start_ns = _time(place, match["time"])
    action = ACTIONS.get(match["operation"])
    if action is None:
        losses.leave_out(f"{match['operation']}: not an action of a script")
        return None
    status = 0 if match["status"] == "-" else int(match["status"])
    if status == _PARTIAL:
        losses.leave_out("reads of a range (206)")
        return None
    if status >= _ERROR and status != _NOT_FOUND:
        losses.leave_out(f"requests that failed ({status} {match['error']})")
        return None
    if action in ("WRITE", "LIST") and status == _NOT_FOUND:
        losses.leave_out(f"requests that failed ({status} {match['error']})")
        return None
    is_terse = match["operation"].startswith(TELLS_NO_SIZE_READ)
    text = match["sent"] if action == "READ" and match["size"] == "-" else match["size"]
    has_size = text != "-" and not (is_terse and action != "WRITE") and status != _NOT_FOUND
    key = _prefix(match["uri"], losses) if action == "LIST" else _key(place, match, is_terse)
    if key is None:
        return None
    if key == _MARK:
        losses.leave_out("loadstone's own marks of buckets")
        return None
    return Traced(
        line=place.line or 0,
        start_ns=start_ns,
        action=action,
        place=match["bucket"],
        key=key,
        size=whole(place, "object size", text) if has_size else None,
        client=f"{match['ip']} {match['requester']}",
        status=status,
    )


def _key(place: FileLine, match: re.Match[str], is_terse: bool) -> str:
    key = match["key"]
    if key == "-":
        place.refuse(f"{match['operation']} without a key", None, "key")
    return key if is_terse else unquote(key)


def _prefix(uri: str, losses: Losses) -> str | None:
    words = uri.strip('"').split(" ")
    query = parse_qs(urlsplit(words[1] if len(words) > 1 else words[0]).query)
    if any(name in query for name in ("continuation-token", "marker", "start-after")):
        losses.leave_out("further pages of a listing: LIST asks for them itself")
        return None
    if query.get("max-keys") == ["0"]:
        losses.leave_out("listings of no key")
        return None
    return query.get("prefix", [""])[0]


def _time(place: FileLine, text: str) -> int:
    seconds = _seconds(text)
    if seconds is None:
        expected = "a time like 06/Feb/2026:00:00:38 +0000"
        place.refuse(f'found "{text}", expected {expected}', None, "time")
    return seconds * SECOND_NS


@lru_cache(maxsize=64)
def _seconds(text: str) -> int | None:
    """Return a time as Unix seconds; months are English in any locale."""
    match = _TIME.fullmatch(text)
    if match is None or match[2] not in _MONTHS:
        return None
    try:
        moment = datetime(
            int(match[3]), 1 + _MONTHS.index(match[2]), int(match[1]),
            int(match[4]), int(match[5]), int(match[6]), tzinfo=UTC,
        )  # fmt: skip
        zone = timezone((1 if match[7] == "+" else -1) * timedelta(
            hours=int(match[8]), minutes=int(match[9])
        ))  # fmt: skip
    except ValueError:
        return None
    return int(moment.replace(tzinfo=zone).timestamp())
