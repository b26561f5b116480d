"""Actions of each session of a script, read from the log of requests; and their chart."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from loadstone import _loadgen
from loadstone._loadgen import StreamEncoder, Table
from loadstone.analysis.cells.sessions import ACTIONS_MAX, SESSIONS_MAX, read_session_actions
from loadstone.report.pages.chart_data import session_data
from loadstone.results.record import Record, Run
from loadstone.script.compiled import CompiledScript, check, compile_script
from loadstone.script.mistakes import Mistakes
from loadstone.script.table import read_actions
from tests.unit.drawn_charts import charts_of

HEAD = "session,action,user,space,object,size,recipients,expect\n"
PLAIN = """\
10,WRITE,,,a,4096,,
10,READ,,,a,,,
20,WRITE,,,b,4096,,
20,DELETE,,,b,,,
"""
MS = 1_000_000
PUT, GET, DELETE = "put", "get", "delete"


class Logged:
    """A run's folder with one trial of a script, and a log as the load generator writes it."""

    def __init__(self, folder: Path, text: str) -> None:
        source = folder / "script.csv"
        source.write_text(HEAD + text)
        mistakes = Mistakes(source.name)
        checked = check(read_actions(source, mistakes), source.name, mistakes)
        self.folder = folder
        self.script: CompiledScript = compile_script(checked, folder / "scripts")
        with pa.ipc.open_file(self.script.subjects) as subjects:
            keys = subjects.read_all()["key"].to_pylist()
        self.numbers = {key: number for number, key in enumerate(keys)}

    def record(self, rows: Sequence[tuple[str, str, float, float, str]]) -> Record:
        """Write requests, each with operation, key, begin and end in ms, and outcome."""
        columns: dict[str, list[Any]] = {name: [] for name in NAMES}
        for operation, key, sent_ms, ended_ms, outcome in rows:
            row = {
                "agent": "local", "stage": "measure", "iteration": 1,
                "operation": operation, "outcome": outcome,
                "object": self.numbers[key], "bytes": 0, "intended_ns": int(sent_ms * MS),
                "sent_ns": int(sent_ms * MS), "first_byte_ns": 0, "ended_ns": int(ended_ms * MS),
            }  # fmt: skip
            for name, value in row.items():
                columns[name].append(value)
        stream = StreamEncoder(_loadgen.REQUESTS, is_packed=True)
        path = self.folder / "operations" / "0001.arrow.zst"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(stream.begin() + stream.encode(Table(pa.table(columns))) + stream.end())
        measured = self.script.measured
        requests = {"path": f"scripts/{measured.path.name}", "sha256": measured.sha256}
        trial: Any = {
            "id": "0001",
            "case": {"target": "store", "parameters": {"threads": 2}},
            "script": {"requests": requests},
        }
        return Record(trial=trial, summary={}, operations_path=path)


NAMES = (
    "agent", "stage", "iteration", "operation", "outcome", "object", "bytes", "intended_ns",
    "sent_ns", "first_byte_ns", "ended_ns",
)  # fmt: skip


def actions_of(record: Record) -> list[tuple[int, str, float, float, str]]:
    return [
        (
            session_action.session,
            session_action.action,
            session_action.sent_ns / MS,
            session_action.ended_ns / MS,
            session_action.outcome,
        )
        for session_action in read_session_actions(record)
    ]


def test_each_action_is_its_sessions_with_its_times_and_outcome(tmp_path: Path) -> None:
    # As two threads write it: not in the order of the times.
    record = Logged(tmp_path, PLAIN).record(
        [
            (PUT, "b", 1, 5, "ok"),
            (DELETE, "b", 6, 7, "http_503"),
            (PUT, "a", 0, 2, "ok"),
            (GET, "a", 3, 4, "ok"),
        ]
    )
    assert actions_of(record) == [
        (1, "WRITE", 0, 2, "ok"),
        (1, "READ", 3, 4, "ok"),
        (2, "WRITE", 1, 5, "ok"),
        (2, "DELETE", 6, 7, "http_503"),
    ]


SHARED = """\
0,CREATE_USER,ann,,,,,
1,CREATE_USER,bob,,,,,
2,CREATE_USER,eve,,,,,
3,SHARE,ann,,x,4096,bob;eve,
3,LIST,bob,inbox,,,,
4,AUDIT,bob,inbox,,,,
"""


def test_an_action_of_several_requests_is_one_and_users_and_audits_are_not_of_the_session(
    tmp_path: Path,
) -> None:
    logged = Logged(tmp_path, SHARED)
    made = [(PUT, key, 0, 0.5, "ok") for key in logged.numbers if "inbox" not in key]
    listed = "bob/inbox/"
    record = logged.record(
        [
            *made,
            (PUT, "bob/inbox/x", 1, 2, "timeout"),
            (PUT, "eve/inbox/x", 2, 4, "http_500"),
            ("list", listed, 4, 5, "ok"),
            ("list", listed, 8, 9, "extra"),
        ]
    )
    # The first failure is the action's outcome.
    assert actions_of(record) == [(1, "SHARE", 1, 4, "timeout"), (1, "LIST", 4, 5, "ok")]


def test_a_trial_that_was_cut_off_has_the_actions_that_ended(tmp_path: Path) -> None:
    logged = Logged(tmp_path, SHARED)
    record = logged.record([(PUT, "bob/inbox/x", 1, 2, "ok")])
    assert actions_of(record) == []
    record = Logged(tmp_path, PLAIN).record([(PUT, "a", 0, 2, "ok")])
    assert actions_of(record) == [(1, "WRITE", 0, 2, "ok")]


def test_sessions_that_share_an_object_are_left_out(tmp_path: Path) -> None:
    text = "1,READ,,,common,4096,,exists\n2,READ,,,common,4096,,exists\n3,WRITE,,,own,1,,\n"
    record = Logged(tmp_path, text).record(
        [
            (GET, "common", 0, 1, "ok"),
            (GET, "common", 0, 2, "ok"),
            (PUT, "own", 0, 3, "ok"),
        ]
    )
    assert actions_of(record) == [(3, "WRITE", 0, 3, "ok")]


def test_a_session_whose_requests_are_in_another_order_is_left_out(tmp_path: Path) -> None:
    record = Logged(tmp_path, PLAIN).record(
        [
            (PUT, "a", 0, 1, "ok"),
            (DELETE, "a", 1, 2, "ok"),
            (PUT, "b", 0, 3, "ok"),
            (DELETE, "b", 3, 4, "ok"),
        ]
    )
    assert {session for session, *_ in actions_of(record)} == {2}


def test_shown_text_is_bounded(tmp_path: Path) -> None:
    sessions, writes = SESSIONS_MAX + 3, ACTIONS_MAX + 5
    pairs = [(session, at) for session in range(sessions) for at in range(writes)]
    text = "".join(f"{session},WRITE,,,s{session}-{at},1,,\n" for session, at in pairs)
    rows = [(PUT, f"s{session}-{at}", at, at + 0.5, "ok") for session, at in pairs]
    shown = actions_of(Logged(tmp_path, text).record(rows))
    assert len(shown) == SESSIONS_MAX * ACTIONS_MAX
    assert {session for session, *_ in shown} == set(range(1, SESSIONS_MAX + 1))


@pytest.mark.parametrize("spoil", ["changed", "gone", "not logged", "no script"])
def test_without_a_log_and_the_scripts_file_there_is_none(tmp_path: Path, spoil: str) -> None:
    logged = Logged(tmp_path, PLAIN)
    record = logged.record([(PUT, "a", 0, 1, "ok")])
    assert actions_of(record)
    trial: Any = dict(record.trial)
    file = logged.script.measured.path
    match spoil:
        case "changed":
            content = bytearray(file.read_bytes())
            content[len(content) // 2] ^= 1
            file.write_bytes(content)
        case "gone":
            file.unlink()
        case "not logged":
            record = Record(trial=trial, summary={})
        case _:
            del trial["script"]
            record = Record(trial=trial, summary={}, operations_path=record.operations_path)
    assert actions_of(record) == []


def test_the_chart_has_a_lane_for_each_session_and_counts_what_failed(tmp_path: Path) -> None:
    record = Logged(tmp_path, PLAIN).record(
        [
            (PUT, "a", 5, 7, "ok"),
            (GET, "a", 8, 9, "stale"),
            (PUT, "b", 6, 8, "ok"),
            (DELETE, "b", 9, 12, "ok"),
        ]
    )
    data = session_data(Run(path=tmp_path, manifest={}, records=(record,)))
    chart = charts_of({"sessions": data})["sessions"]
    rows = [tuple(row[name] for name in ("lane", "action", "begin", "end", "outcome"))
             for row in chart.rows]  # fmt: skip
    assert rows == [
        ("session 1", "WRITE", 0.0, 0.002, "ok"),
        ("session 1", "READ", 0.003, 0.004, "stale"),
        ("session 2", "WRITE", 0.001, 0.003, "ok"),
        ("session 2", "DELETE", 0.004, 0.007, "ok"),
    ]
    assert "failed" in chart.legend
    assert " 0001 (store, 2 threads)" in chart.caption
    assert "4 actions; 1 of" in chart.caption
