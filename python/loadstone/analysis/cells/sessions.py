"""A few sessions of a script, action by action, from the log of requests.

The log names objects, not sessions. A session is identified by subjects that no concurrent session
touches, and left out if its requests are not in the script's order.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

from loadstone import regular_file
from loadstone.results.record import Record

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyarrow.ipc import RecordBatchFileReader

SESSIONS_MAX = 8
ACTIONS_MAX = 100
"""Maximum number of actions per session, from its first on: more would not be legible on one
line.
"""

CANDIDATES = 64
"""So many sessions are looked at for those that share no object."""

LOG_ROWS_MAX = 2_000_000
"""So much of a log is read; each session's requests are in their order in it."""

Done = tuple[str, int, str, int, int]
"""A request of the log: operation, object, outcome, and when it was sent and ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedAction:
    """An action from the start of its first request to the end of its last one.

    `session` counts concurrent sessions from 1 in the script's order. `outcome` is "ok" or that of
    the first failed request.
    """

    session: int
    action: str
    sent_ns: int
    ended_ns: int
    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    operation: str
    subject: int
    action: str
    is_last: bool


def read_session_actions(record: Record) -> tuple[TimedAction, ...]:
    """Return the first actions of the first identifiable sessions in a trial's log.

    Empty without a script or a log, or if the script's file differs.
    """
    file = (record.trial.get("script") or {}).get("requests")
    if record.operations_path is None or file is None:
        return ()
    path = record.operations_path.parent.parent / "scripts" / Path(file["path"]).name
    if not _is_file(path, file["sha256"]):
        return ()
    import pyarrow as pa
    from pyarrow import ipc

    with pa.memory_map(str(path)) as source, ipc.open_file(source) as script:
        wanted, first = _wanted_of(script)
        owners = _owners(script, wanted, first)
    done = _done_of(record, owners)
    timed = list[TimedAction]()
    shown = 0
    for session, rows in wanted.items():
        actions = _actions(session - first + 1, rows, done.get(session, ()))
        timed += actions
        shown += bool(actions)
        if shown == SESSIONS_MAX:
            break
    return tuple(timed)


def _is_file(path: Path, sha256: str) -> bool:
    try:
        regular_file.check(path)
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest() == sha256
    except OSError:
        return False


def _batches(script: "RecordBatchFileReader", first: int, last: int) -> Iterator["RecordBatch"]:
    """Yield the rows of a range of sessions; scripts are sorted by session."""
    import pyarrow.compute as pc

    for number in range(script.num_record_batches):
        batch = script.get_batch(number)
        sessions = batch["session"]
        if not len(sessions) or sessions[-1].as_py() < first:
            continue
        if sessions[0].as_py() >= last:
            return
        inside = pc.and_(pc.greater_equal(sessions, first), pc.less(sessions, last))
        yield batch.filter(inside)


def _middle(script: "RecordBatchFileReader") -> tuple[int, int]:
    """Return the range of sessions that run concurrently."""
    known = script.schema.metadata or {}
    return int(known[b"first_sessions"]), int(known[b"sessions"]) - int(known[b"last_sessions"])


def _wanted_of(script: "RecordBatchFileReader") -> tuple[dict[int, list[_Wanted]], int]:
    known = script.schema.metadata or {}
    names, operations = json.loads(known[b"actions"]), json.loads(known[b"operations"])
    first, end = _middle(script)
    wanted: dict[int, list[_Wanted]] = {}
    ended: dict[int, int] = {}
    columns = ["session", "action", "is_last", "operation", "subject"]
    for batch in _batches(script, first, min(end, first + CANDIDATES)):
        for session, action, is_last, operation, subject in zip(
            *(batch[name].to_pylist() for name in columns), strict=True
        ):
            if ended.get(session, 0) >= ACTIONS_MAX:
                continue
            ended[session] = ended.get(session, 0) + is_last
            request = _Wanted(
                operation=operations[operation],
                subject=subject,
                action=names[action],
                is_last=is_last,
            )
            wanted.setdefault(session, []).append(request)
    return wanted, first


def _owners(
    script: "RecordBatchFileReader", wanted: Mapping[int, Sequence[_Wanted]], first: int
) -> dict[int, int]:
    """Return the session of each subject that no other session uses."""
    import pyarrow as pa
    import pyarrow.compute as pc

    subjects = pa.array({row.subject for rows in wanted.values() for row in rows}, pa.uint32())
    touching: dict[int, set[int]] = {}
    _, end = _middle(script)
    for batch in _batches(script, first, end):
        mine = batch.select(["session", "subject"])
        mine = mine.filter(pc.is_in(mine["subject"], subjects))
        pairs = pa.Table.from_batches([mine]).group_by(["session", "subject"]).aggregate([])
        for session, subject in zip(
            pairs["session"].to_pylist(), pairs["subject"].to_pylist(), strict=True
        ):
            touching.setdefault(subject, set()).add(session)
    shared = {
        session for sessions in touching.values() if len(sessions) > 1 for session in sessions
    }
    return {
        subject: session
        for subject, sessions in touching.items()
        if len(sessions) == 1 and (session := min(sessions)) in wanted and session not in shared
    }


def _done_of(record: Record, owners: Mapping[int, int]) -> dict[int, list[Done]]:
    """Return the logged requests on subjects of single sessions, in the order sent."""
    import pyarrow as pa
    import pyarrow.compute as pc

    subjects = pa.array(owners, pa.int64())
    done_by_session: dict[int, list[Done]] = {}
    rows = 0
    columns = ["operation", "object", "outcome", "sent_ns", "ended_ns"]
    for table in record.read_requests():
        rows += len(table)
        batch = pa.table(table)
        batch = batch.filter(pc.is_in(batch["object"], subjects))
        for request in zip(*(batch[name].to_pylist() for name in columns), strict=True):
            done_by_session.setdefault(owners[request[1]], []).append(request)
        if rows >= LOG_ROWS_MAX:
            break
    return {session: sorted(done, key=itemgetter(3)) for session, done in done_by_session.items()}


def _actions(session: int, rows: Sequence[_Wanted], done: Sequence[Done]) -> list[TimedAction]:
    """Return a session's logged actions; none if their order differs from the script's.

    Users are created before the session and audited after it, on the same objects.
    """

    def is_same(done: Done, row: _Wanted) -> bool:
        return done[:2] == (row.operation, row.subject)

    begin = next((at for at, request in enumerate(done) if is_same(request, rows[0])), len(done))
    actions = list[TimedAction]()
    under_way = list[Done]()
    for row, request in zip(rows, done[begin:], strict=False):
        if not is_same(request, row):
            return []
        under_way.append(request)
        if row.is_last:
            failed = [each[2] for each in under_way if each[2] != "ok"]
            actions.append(
                TimedAction(
                    session=session,
                    action=row.action,
                    sent_ns=under_way[0][3],
                    ended_ns=request[4],
                    outcome=failed[0] if failed else "ok",
                )
            )
            under_way = []
    return actions
