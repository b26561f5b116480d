"""nectar's -csv: a line per request, with its end time and its duration.

Only bench-mixed writes the method. For other benchmarks the status tells it: 201 is a PUT, 204 a
DELETE; 200 may be a GET or a HEAD, and is left out. Sizes are not in the file.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from loadstone.errors import InputError
from loadstone.formats import reading
from loadstone.formats.reading import FileLine
from loadstone.importers.nectar import OPERATION_OF_STATUS, head_of, rows_of
from loadstone.script.trace import Losses, Traced

ACTIONS = {"put": "WRITE", "get": "READ", "head": "HEAD", "delete": "DELETE"}
_ERROR, _NOT_FOUND = 400, 404


def read(path: Path, losses: Losses) -> Iterator[Traced]:
    """Yield the successful requests of a file."""
    for place, row in rows_of(path, head_of(path)):
        try:
            request = _request(place, row, losses)
        except InputError as error:
            losses.malform(error)
            continue
        if request is not None:
            yield request


def _request(place: FileLine, row: Mapping[str, str], losses: Losses) -> Traced | None:
    status = reading.whole(place, "status", row["status"])
    operation = row["method"].lower() if "method" in row else OPERATION_OF_STATUS.get(row["status"])
    if operation is None:
        missing = "GET or HEAD" if status < _ERROR else "which operation failed"
        losses.leave_out(f"status {status}: the file does not tell {missing}")
        return None
    action = ACTIONS.get(operation)
    if action is None:
        losses.leave_out(f"{operation.upper()}: not an action of a script")
        return None
    if status >= _ERROR and (status != _NOT_FOUND or action == "WRITE"):
        losses.leave_out("requests that failed")
        return None
    end_ns = reading.whole(place, "completion_time_unix_nano", row["completion_time_unix_nano"])
    container, _, key = row["object_name"].partition("/")
    if not key:
        place.refuse(
            f'found "{container}", expected CONTAINER/OBJECT', reading.EDITED, "object_name"
        )
    return Traced(
        line=place.line or 0,
        start_ns=end_ns - reading.whole(place, "elapsed_nanoseconds", row["elapsed_nanoseconds"]),
        action=action,
        place=container,
        key=key,
        status=status,
    )
