"""The process of an engine: takes tasks as lines of JSON, and answers each with one.

An engine that dies takes only this process with it, and what the process used is what the engine
used. Tasks come from standard input, as they hold credentials; engines may print what they like,
which goes to standard error.
"""

import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import IO, NoReturn, TypeVar

from loadstone.engines import load_engine
from loadstone.engines.answers import plain_answer
from loadstone.engines.engine import Engine, EngineUse, GoneError, Row, Tables
from loadstone.engines.process import session
from loadstone.engines.process.ending import end_with_parent
from loadstone.engines.process.messages import (
    EngineOpened,
    OpenEngine,
    QueryAnswer,
    RunQuery,
    RunStreams,
    StreamAnswer,
    StreamsEnded,
    TablesWritten,
    TaskFailed,
    Told,
    WriteTables,
    line_of,
    read_task,
)
from loadstone.engines.process.mounts import server_of
from loadstone.engines.process.traffic import Route, received_by

MESSAGE_MAX = 2000

_T = TypeVar("_T")


def main() -> None:
    """Serve tasks until there are no more."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    end_with_parent()
    engine: Engine | None = None
    route = Route()
    for line in sys.stdin:
        told: Told
        try:
            match read_task(line):
                case OpenEngine() as task:
                    engine = engine or load_engine(task.engine, task.settings)
                    route = _route(task.tables)
                    version = engine.open(
                        task.tables, threads=task.threads, memory_bytes=task.memory_bytes
                    )
                    told = EngineOpened(version=version)
                case WriteTables() as task:
                    told = _write(load_engine(task.engine, task.settings), task)
                case RunQuery() as task:
                    assert engine is not None, "a task opens the engine first"
                    told = _run(engine, task, route)
                case RunStreams() as task:
                    assert engine is not None, "a task opens the engine first"
                    told = _run_streams(engine, task, route, partial(_say, answers))
        except GoneError as error:
            _end(error)
        except Exception as error:  # what an engine raises is its own affair
            told = TaskFailed(failed=_words(error))
        _say(answers, told)
    if engine is not None:
        engine.close()


def _end(error: GoneError) -> NoReturn:
    """End this process at once, its other threads too; its parent reads why, and ends the rest."""
    os.write(2, str(error)[:MESSAGE_MAX].encode())
    os._exit(1)


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:MESSAGE_MAX]


def _say(answers: IO[str], told: Told) -> None:
    answers.write(line_of(told))
    answers.flush()


def _route(tables: Tables) -> Route:
    if tables.bucket is not None:
        return Route(endpoint=tables.bucket.endpoint)
    return Route(server=server_of(tables.directory) if tables.directory else None)


def _write(engine: Engine, task: WriteTables) -> TablesWritten:
    engine.load(task.tables, task.source)
    engine.close()
    return TablesWritten()


def _run(engine: Engine, task: RunQuery, route: Route) -> QueryAnswer:
    def run() -> tuple[list[Row], int]:
        started = time.monotonic_ns()
        rows = engine.run(task.query)
        return rows, time.monotonic_ns() - started

    (rows, time_ns), use = _measured(engine, route, run)
    answer = plain_answer(rows) if task.is_kept else None
    return QueryAnswer(time_ns=time_ns, rows=len(rows), use=use, answer=answer)


def _run_streams(
    engine: Engine, task: RunStreams, route: Route, say: Callable[[Told], None]
) -> StreamsEnded:
    """Run streams beside each other; say each answer at once, and at the end what all used."""
    one_at_a_time = threading.Lock()
    beside = [engine.beside() for _ in task.streams]

    def run(number: int) -> None:
        for query in task.streams[number]:
            rows: list[Row] | None = None
            said = None
            started = time.monotonic_ns()
            try:
                rows = beside[number].run(query.text)
            except GoneError as error:
                _end(error)
            except Exception as error:
                said = _words(error)
            ended = time.monotonic_ns()
            told = StreamAnswer(
                stream=number,
                query=query.name,
                started_ns=started,
                ended_ns=ended,
                rows=None if rows is None else len(rows),
                answer=None if rows is None else plain_answer(rows),
                error=said,
            )
            with one_at_a_time:
                say(told)

    def run_all() -> None:
        threads = [threading.Thread(target=run, args=(number,)) for number in range(len(beside))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    _, use = _measured(engine, route, run_all)
    return StreamsEnded(use=use)


def _measured(engine: Engine, route: Route, work: Callable[[], _T]) -> tuple[_T, EngineUse]:
    """Do work; return what comes of it, and what the engine used meanwhile."""
    before = session.begin(route.server)
    with received_by(engine.has_processes, route) as received:
        done = work()
    use = replace(session.end(before, route.server), received_bytes=received[0])
    if engine.has_processes:
        # They write what they exchange, and not for want of memory alone.
        use = replace(use, spilled_bytes=None)
    told = engine.account()
    return done, use if told is None else replace(told, cores=use.cores)


if __name__ == "__main__":
    main()
