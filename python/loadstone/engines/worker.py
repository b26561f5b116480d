"""The process of an engine: takes tasks as lines of JSON, and answers each with one.

An engine that dies takes only this process with it, and what the process used is what the engine
used. Tasks come from standard input, as they hold credentials; engines may print what they like,
which goes to standard error.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import IO, Any, NoReturn

from loadstone.engines import load_engine, session
from loadstone.engines.answers import plain_answer
from loadstone.engines.ending import end_with_parent
from loadstone.engines.engine import Bucket, Engine, GoneError, Tables
from loadstone.engines.mounts import server_of
from loadstone.engines.traffic import Route, received_by

MESSAGE_MAX = 2000


def main() -> None:
    """Serve tasks until there are no more."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    end_with_parent()
    engine: Engine | None = None
    route = Route()
    for line in sys.stdin:
        task = json.loads(line)
        try:
            if task["do"] == "open":
                engine = engine or load_engine(task["engine"], task["settings"])
                tables = _tables(task)
                route = _route(tables)
                told = {"version": engine.open(tables, **task["limits"])}
            elif task["do"] == "load":
                engine = load_engine(task["engine"], task["settings"])
                told = _load(engine, _tables(task), task["source"])
            elif task["do"] == "streams":
                assert engine is not None, "a task opens the engine first"
                told = _run_streams(engine, task["streams"], route, partial(_say, answers))
            else:
                assert engine is not None, "a task opens the engine first"
                told = _run(engine, task["query"], route, is_kept=task["is_kept"])
        except GoneError as error:
            _end(error)
        except Exception as error:  # what an engine raises is its own affair
            told = {"failed": f"{type(error).__name__}: {error}"[:MESSAGE_MAX]}
        _say(answers, told)
    if engine is not None:
        engine.close()


def _end(error: GoneError) -> NoReturn:
    """End this process at once, its other threads too; its parent reads why, and ends the rest."""
    os.write(2, str(error)[:MESSAGE_MAX].encode())
    os._exit(1)


def _say(answers: IO[str], told: dict[str, Any]) -> None:
    answers.write(json.dumps(told) + "\n")
    answers.flush()


def _tables(task: dict[str, Any]) -> Tables:
    told = dict(task["tables"])
    bucket = told.pop("bucket", None)
    return Tables(**told, bucket=Bucket(**bucket) if bucket else None)


def _route(tables: Tables) -> Route:
    if tables.bucket is not None:
        return Route(endpoint=tables.bucket.endpoint)
    return Route(server=server_of(tables.directory) if tables.directory else None)


def _load(engine: Engine, tables: Tables, source: str) -> dict[str, Any]:
    started = time.monotonic_ns()
    engine.load(tables, source)
    engine.close()
    return {"time_ns": time.monotonic_ns() - started}


def _run(engine: Engine, query: str, route: Route, *, is_kept: bool) -> dict[str, Any]:
    with _measured(engine, route) as measured:
        started = time.monotonic_ns()
        rows = engine.run(query)
        time_ns = time.monotonic_ns() - started
    told = {"time_ns": time_ns, "rows": len(rows), **measured}
    return {**told, "answer": plain_answer(rows)} if is_kept else told


def _run_streams(
    engine: Engine,
    streams: Sequence[Sequence[tuple[str, str]]],
    route: Route,
    say: Callable[[dict[str, Any]], None],
) -> dict[str, Any]:
    """Run streams beside each other; say each answer at once, and at the end what all used."""
    one_at_a_time = threading.Lock()
    beside = [engine.beside() for _ in streams]

    def run(number: int) -> None:
        for name, query in streams[number]:
            told: dict[str, Any] = {"stream": number, "query": name}
            started = time.monotonic_ns()
            try:
                rows = beside[number].run(query)
            except GoneError as error:
                _end(error)
            except Exception as error:
                ended = time.monotonic_ns()
                told["error"] = f"{type(error).__name__}: {error}"[:MESSAGE_MAX]
            else:
                ended = time.monotonic_ns()
                told |= {"rows": len(rows), "answer": plain_answer(rows)}
            with one_at_a_time:
                say({**told, "started_ns": started, "ended_ns": ended})

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(streams))]
    with _measured(engine, route) as measured:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return measured


@contextmanager
def _measured(engine: Engine, route: Route) -> Iterator[dict[str, Any]]:
    """Give what the engine used meanwhile, once it is over."""
    measured: dict[str, Any] = {}
    before = session.begin(route.server)
    with received_by(engine.has_processes, route) as received:
        yield measured
    measured |= session.end(before, route.server)
    measured |= {"received_bytes": received[0], "cores": len(os.sched_getaffinity(0))}
    if engine.has_processes:
        # They write what they exchange, and not for want of memory alone.
        measured["spilled_bytes"] = None
    told = engine.account()
    if told:
        # It works elsewhere: what this host's memory did says nothing of it.
        measured |= {**dict.fromkeys(session.OF_MEMORY), **told}


if __name__ == "__main__":
    main()
