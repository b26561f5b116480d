"""The process of an engine: its answers, its ends, and the queries lost with it."""

import importlib
import inspect
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from loadstone.engines import ENGINES, EngineEntry
from loadstone.engines.engine import Bucket, EngineUse, ServerAccess, SparkOptions, Tables
from loadstone.engines.messages import (
    CLASS,
    EngineOpened,
    NamedQuery,
    OpenEngine,
    QueryAnswer,
    RunQuery,
    RunStreams,
    Task,
    WriteTables,
    line_of,
    read_task,
)
from loadstone.execution.queries import engine_process
from loadstone.execution.queries.engine_process import (
    EngineError,
    EngineProcess,
    KeptEngines,
    outcome_of,
)
from loadstone.execution.queries.streams import QueryStreams

QUERY = RunQuery(query="SELECT 1", is_kept=True)


def say(name: str, **fields: object) -> str:
    """Return a program that says one thing, whatever it is asked."""
    line = json.dumps({CLASS: name, **fields})
    return f'print("""{line}""", flush=True); input()'


TABLES = Tables(format="parquet", partitions=1, files={"nation": ["nation.parquet"]})
BUCKET = Bucket(name="b", endpoint="http://h", region="r", access_key="a", secret_key="s")


@pytest.mark.parametrize(
    "task",
    [
        QUERY,
        RunStreams(streams=[[NamedQuery(name="Q01", text="SELECT 1")], []]),
        OpenEngine(
            engine="spark", settings=SparkOptions(packages=["a:b:1"], conf={"spark.x": "1"}),
            threads=2, memory_bytes=None, tables=replace(TABLES, bucket=BUCKET),
        ),
        OpenEngine(
            engine="clickhouse_server", settings=ServerAccess(url="http://h", password="p"),
            threads=None, memory_bytes=1, tables=replace(TABLES, database="d"),
        ),
        WriteTables(engine="clickhouse", settings=None, tables=TABLES, source="/made"),
    ],
)  # fmt: skip
def test_a_task_comes_as_it_was_sent(task: Task) -> None:
    assert read_task(line_of(task)) == task


@pytest.mark.parametrize("line", ["", "{}", "[1]", '{"loadstone.class": "Bucket", "name": "b"}'])
def test_an_invalid_task_is_refused(line: str) -> None:
    with pytest.raises((ValueError, TypeError)):
        read_task(line)


class Worker:
    """A program that replaces the engine's process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: str) -> None:
        program = tmp_path / "python"
        program.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{code}'\n")
        program.chmod(0o755)
        monkeypatch.setattr(
            "loadstone.execution.queries.engine_process.sys.executable", str(program)
        )


@pytest.mark.parametrize(
    ("code", "kind", "message"),
    [
        ("import os; input(); os.kill(os.getpid(), 9)", "engine_died", "SIGKILL.*memory"),
        ('import sys; input(); sys.exit("out of luck")', "engine_died", "luck"),
        ("import time; time.sleep(60)", "timeout", "no answer"),
        (say("TaskFailed", failed="Boom: no"), "engine_error", "Boom: no"),
        (say("EngineOpened", version="1"), "engine_died", "EngineOpened.*QueryAnswer"),
        (say("QueryAnswer", time_ns=1, rows=1, use={}), "engine_died", "QueryAnswer.answer: Field"),
        (say("QueryAnswer", time_ns="soon"), "engine_died", "QueryAnswer.time_ns: .* integer"),
        (say("Wings"), "engine_died", "valid answer.*Wings"),
        ("print([], flush=True); input()", "engine_died", "valid answer"),
    ],
)
def test_an_engine_that_gives_no_answer_says_why(
    code: str, kind: str, message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Worker(monkeypatch, tmp_path, code)
    with EngineProcess(lambda: True, ()) as process:
        with pytest.raises(EngineError, match=message) as caught:
            process.ask(QUERY, QueryAnswer, 2_000_000_000)
        assert caught.value.outcome == kind


@pytest.mark.parametrize(
    ("kills", "kind", "message"),
    [
        ([4, 5], "out_of_memory", "a process"),
        ([4, 4], "engine_died", "no process"),
        ([None, None], "engine_died", "ran out"),
    ],
)
def test_kernel_counters_distinguish_kills_for_lack_of_memory(
    kills: list[int | None],
    kind: str,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    Worker(monkeypatch, tmp_path, "import os; input(); os.kill(os.getpid(), 9)")
    monkeypatch.setattr(engine_process, "_memory_kills", lambda: kills.pop(0))
    with EngineProcess(lambda: True, ()) as process:
        with pytest.raises(EngineError, match=message) as caught:
            process.ask(QUERY, QueryAnswer, 10**10)
        assert caught.value.outcome == kind


def test_an_engine_that_gave_up_for_memory_is_known_by_its_words() -> None:
    for message in (
        "OutOfMemoryException: Out of Memory Error: could not allocate block of size 256.0 KiB",
        'Exception: DataFusion error: ResourcesExhausted("Resources exhausted: Failed")',
        "RuntimeError: Code: 241. DB::Exception: (total) memory limit … (MEMORY_LIMIT_EXCEEDED)",
        "Py4JJavaError: … java.lang.OutOfMemoryError: Java heap space",
    ):
        assert outcome_of(message) == "out_of_memory"
    assert outcome_of("BinderException: no column named memory") == "engine_error"


def test_a_stop_ends_the_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Worker(monkeypatch, tmp_path, "import time; time.sleep(60)")
    with EngineProcess(lambda: False, ()) as process:
        with pytest.raises(EngineError) as caught:
            process.ask(QUERY, QueryAnswer, 10**12)
        assert caught.value.outcome == "stopped"


def test_a_kept_engine_serves_the_next_trial_too_unless_it_died(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    code = (
        "import json, os, sys\n"
        "for line in sys.stdin:\n"
        '    task = json.loads(line)["query"]\n'
        '    if task == "die": os._exit(3)\n'
        '    name = "TaskFailed" if task == "fail" else "EngineOpened"\n'
        '    told = {"loadstone.class": name, "failed": "no", "version": str(os.getpid())}\n'
        "    print(json.dumps(told), flush=True)\n"
    )
    Worker(monkeypatch, tmp_path, code)
    engines = KeptEngines()

    def ask(task: str, key: str | None = "spark one", group: str | None = None) -> str:
        with engines.process(lambda: True, (), key=key, group=group) as process:
            asked = RunQuery(query=task, is_kept=True)
            return process.ask(asked, EngineOpened, 10**10).version

    try:
        first = ask("run")
        with pytest.raises(EngineError):
            ask("fail")
        assert ask("run") == first, "a query that failed costs no engine"
        assert ask("run", None) != first
        with pytest.raises(EngineError, match="exit code 3"):
            ask("die")
        second = ask("run")
        assert second != first
        other = ask("run", "spark two")
        assert ask("run") == second
        ask("run", "spark three", "spark ")
        for engine_process in (second, other):
            with pytest.raises(ProcessLookupError):
                os.kill(int(engine_process), 0)
        third = ask("run", "spark three")
    finally:
        engines.close()
    with pytest.raises(ProcessLookupError):
        os.kill(int(third), 0)


STREAMING = """
import json, os, sys, time
for line in sys.stdin:
    streams = json.loads(line)["streams"]
    now = time.monotonic_ns()
    def say(name, **told): print(json.dumps({"loadstone.class": name, **told}), flush=True)
    def end(stream, name, **more):
        ended = time.monotonic_ns()
        say("StreamAnswer", stream=stream, query=name, started_ns=now, ended_ns=ended, **more)
    left = [[query["name"] for query in one] for one in streams]
    while any(left):
        for stream, names in enumerate(left):
            if names and names[0] == "Q21": FATE
            if names: end(stream, names.pop(0), rows=0, answer=[])
    say("StreamsEnded", use={"cpu_ns": 1})
"""


def test_an_engine_that_dies_in_a_query_of_a_stream_fails_those_that_ran_and_no_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Worker(monkeypatch, tmp_path, STREAMING.replace("FATE", "os.kill(os.getpid(), 9)"))
    streams = QueryStreams([["Q01", "Q21", "Q06"], ["Q06", "Q01"], ["Q06"]], 1, 10**10)
    with EngineProcess(lambda: True, ()) as process, pytest.raises(EngineError) as caught:
        streams.ask(process)
    assert not streams.are_over
    streams.lose(caught.value, None)
    with EngineProcess(lambda: True, ()) as process:
        assert streams.ask(process) == EngineUse(cpu_ns=1)
    assert streams.are_over
    outcomes = {(query.stream, query.query): query.outcome for query in streams.ended}
    assert outcomes == {
        (1, "Q01"): "ok", (1, "Q21"): "engine_died", (1, "Q06"): "ok",
        (2, "Q06"): "ok", (2, "Q01"): "engine_died", (3, "Q06"): "ok",
    }  # fmt: skip
    assert "SIGKILL" in str(next(query.message for query in streams.ended if query.query == "Q21"))


def test_a_query_that_takes_too_long_is_told_from_those_that_ended_with_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Stream 1 hangs from the start; stream 2 begins its second query a second later."""
    slow = (
        "\n                for other in left[1:]:"
        "\n                    time.sleep(1); end(1, other.pop(0), rows=0, answer=[])"
    )
    Worker(
        monkeypatch, tmp_path, STREAMING.replace("FATE", slow + "\n                time.sleep(60)")
    )
    streams = QueryStreams([["Q21"], ["Q06", "Q01"]], 1, 2 * 10**9)
    with EngineProcess(lambda: True, ()) as process, pytest.raises(EngineError) as caught:
        streams.ask(process)
    streams.lose(caught.value, None)
    outcomes = {(query.stream, query.query): query.outcome for query in streams.ended}
    assert outcomes == {(1, "Q21"): "timeout", (2, "Q06"): "ok", (2, "Q01"): "engine_died"}


def test_a_failure_while_an_engine_warms_up_fails_every_stream() -> None:
    streams = QueryStreams([["Q01", "Q06"], ["Q06", "Q01"]], 1, 10**10)
    streams.lose(EngineError("engine_died", "gone"), "Q06")
    assert streams.names_left == ["Q01"]
    streams.lose(EngineError("engine_error", "no such file"), None)
    assert streams.are_over
    assert [query.outcome for query in streams.ended] == ["engine_died"] * 2 + ["engine_error"] * 2


@pytest.mark.parametrize("entry", ENGINES.values(), ids=list(ENGINES))
def test_each_engine_is_where_its_row_says(entry: EngineEntry) -> None:
    """The engine's package is imported only when it is opened, so this test needs none."""
    module = importlib.import_module(f"loadstone.engines.{entry.module}")
    assert inspect.isclass(getattr(module, entry.class_name))
    if entry.setup is not None:
        setup = importlib.import_module(f"loadstone.engines.{entry.setup}")
        assert callable(setup.check)
