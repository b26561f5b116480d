"""warp's .csv.zst: a line per request, with start and end times in nanoseconds."""

from collections.abc import Iterator
from pathlib import Path

from loadstone.errors import InputError
from loadstone.formats import reading
from loadstone.importers.warp import table_of
from loadstone.script.trace import Losses, Traced

ACTIONS = {"PUT": "WRITE", "GET": "READ", "STAT": "HEAD", "DELETE": "DELETE"}


def read(path: Path, losses: Losses) -> Iterator[Traced]:
    """Yield the successful requests of a file."""
    columns, lines = table_of(path)
    for place, line in lines:
        if line.startswith("#"):
            continue
        try:
            rows = reading.read_csv(
                path, [line], columns, delimiter="\t", first_line=place.line or 0
            )
            for _, row in rows:
                action = ACTIONS.get(row["op"])
                if action is None:
                    losses.leave_out(f"{row['op']}: not an action of a script on one object")
                elif row["error"]:
                    losses.leave_out("requests that failed")
                else:
                    yield Traced(
                        line=place.line or 0,
                        start_ns=reading.time_of(place, "start", row["start"]),
                        action=action,
                        place="",
                        key=row["file"],
                        size=reading.whole(place, "bytes", row["bytes"])
                        if action in ("WRITE", "READ")
                        else None,
                        client=f"{row.get('client_id', '')} {row['thread']}",
                        status=200,
                    )
        except InputError as error:
            losses.malform(error)
