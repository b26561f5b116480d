"""The process of an engine: it reads tasks as lines of JSON, and answers each with one line.

If an engine dies, only this process ends, and its resources are those of the engine. Tasks come
from standard input, because they contain credentials. Output of engines goes to standard error.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import IO, NoReturn, TypeVar

from loadstone.engines import load_engine
from loadstone.engines.answers import plain_answer
from loadstone.engines.engine import Engine, EngineUse, GoneError, Row, Tables
from loadstone.engines.messages import (
    EngineOpened,
    OpenEngine,
    QueryAnswer,
    Reply,
    RunQuery,
    RunStreams,
    StreamAnswer,
    StreamsEnded,
    TablesWritten,
    TaskFailed,
    WriteTables,
    end_with_parent,
    line_of,
    read_task,
)
from loadstone.engines.traffic import Route, received_by, server_of

MESSAGE_MAX = 2000

_T = TypeVar("_T")


def main() -> None:
    """Serve tasks until the input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    end_with_parent()
    engine: Engine | None = None
    route = Route()
    for line in sys.stdin:
        answer: Reply
        try:
            match read_task(line):
                case OpenEngine() as task:
                    engine = engine or load_engine(task.engine, task.settings)
                    route = _route(task.tables)
                    version = engine.open(
                        task.tables, threads=task.threads, memory_bytes=task.memory_bytes
                    )
                    answer = EngineOpened(version=version)
                case WriteTables() as task:
                    answer = _write(load_engine(task.engine, task.settings), task)
                case RunQuery() as task:
                    assert engine is not None, "a task opens the engine first"
                    answer = _run(engine, task, route)
                case RunStreams() as task:
                    assert engine is not None, "a task opens the engine first"
                    answer = _run_streams(engine, task, route, partial(_say, answers))
        except GoneError as error:
            _end(error)
        except Exception as error:  # engines raise errors of any type
            answer = TaskFailed(failed=_words(error))
        _say(answers, answer)
    if engine is not None:
        engine.close()


def _end(error: GoneError) -> NoReturn:
    """Exit at once, including other threads; the parent reads the reason, and kills the rest."""
    os.write(2, str(error)[:MESSAGE_MAX].encode())
    os._exit(1)


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:MESSAGE_MAX]


def _say(answers: IO[str], message: Reply) -> None:
    answers.write(line_of(message))
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
    engine: Engine, task: RunStreams, route: Route, say: Callable[[Reply], None]
) -> StreamsEnded:
    """Run streams concurrently; send each answer at once, and finally the total use."""
    one_at_a_time = threading.Lock()
    beside = [engine.beside() for _ in task.streams]

    def run(number: int) -> None:
        for query in task.streams[number]:
            rows: list[Row] | None = None
            words = None
            started = time.monotonic_ns()
            try:
                rows = beside[number].run(query.text)
            except GoneError as error:
                _end(error)
            except Exception as error:
                words = _words(error)
            ended = time.monotonic_ns()
            answer = StreamAnswer(
                stream=number,
                query=query.name,
                started_ns=started,
                ended_ns=ended,
                rows=None if rows is None else len(rows),
                answer=None if rows is None else plain_answer(rows),
                error=words,
            )
            with one_at_a_time:
                say(answer)

    def run_all() -> None:
        threads = [threading.Thread(target=run, args=(number,)) for number in range(len(beside))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    _, use = _measured(engine, route, run_all)
    return StreamsEnded(use=use)


def _measured(engine: Engine, route: Route, work: Callable[[], _T]) -> tuple[_T, EngineUse]:
    """Run work; return its result, and the resources that the engine used."""
    before = begin(route.server)
    with received_by(engine.has_processes, route) as received:
        done = work()
    use = replace(end(before, route.server), received_bytes=received[0])
    if engine.has_processes:
        # They also write data that they exchange, not only data that exceeds the memory.
        use = replace(use, spilled_bytes=None)
    account = engine.account()
    return done, use if account is None else replace(account, cores=use.cores)


_REREAD = ("workingset_refault_file", "workingset_refault_anon")
"""Kernel counters of pages that were read again shortly after their eviction."""

_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_FORGET_PEAK = "5"
"""Value for clear_refs that resets the peak memory (proc(5))."""


# CPU time, device I/O, and memory of processes.
@dataclass(frozen=True, slots=True)
class Use:
    """Totals up to a point in time."""

    cpu_ns: int
    read_bytes: int
    written_bytes: int
    major_faults: int
    stall_ns: int | None
    reread_bytes: int


def begin(server: int | None) -> Use:
    """Return the use so far, and reset the peaks of memory.

    `server` is a process that reads for this session (`traffic.server_of`): its device reads count.
    """
    processes = list(_processes())
    for number in processes:
        with suppress(OSError), open(f"/proc/{number}/clear_refs", "w") as file:
            file.write(_FORGET_PEAK)
    return _use(processes, server)


def end(before: Use, server: int | None) -> EngineUse:
    """Return the use since `before`, and the number of available processors."""
    processes = list(_processes())
    after = _use(processes, server)
    read_bytes = after.read_bytes - before.read_bytes
    is_known = before.stall_ns is not None and after.stall_ns is not None
    return EngineUse(
        cpu_ns=after.cpu_ns - before.cpu_ns,
        read_bytes=read_bytes,
        reread_bytes=min(after.reread_bytes - before.reread_bytes, read_bytes),
        spilled_bytes=after.written_bytes - before.written_bytes,
        major_faults=after.major_faults - before.major_faults,
        memory_stall_ns=(after.stall_ns or 0) - (before.stall_ns or 0) if is_known else None,
        memory_peak_bytes=sum(map(_peak_bytes, processes)),
        cores=len(os.sched_getaffinity(0)),
    )


def _use(processes: Iterable[str], server: int | None) -> Use:
    cpu_ns = written = faults = 0
    read = _device_bytes(str(server))[0] if server is not None else 0
    for number in processes:
        with suppress(OSError, ValueError, IndexError):
            fields = _text(f"/proc/{number}/stat").rpartition(")")[2].split()
            faults += int(fields[9])
            if int(number) == os.getpid():
                cpu_ns += time.process_time_ns()
            else:
                cpu_ns += (int(fields[11]) + int(fields[12])) * _TICK_NS
        own_read, own_written = _device_bytes(number)
        read, written = read + own_read, written + own_written
    return Use(cpu_ns, read, written, faults, _stall_ns(), _reread_bytes())


def _device_bytes(number: str) -> tuple[int, int]:
    """Return the bytes that a process has read from devices and written to them."""
    with suppress(OSError, ValueError):
        counters = dict(line.split(": ") for line in _text(f"/proc/{number}/io").splitlines())
        return int(counters["read_bytes"]), int(counters["write_bytes"])
    return 0, 0


def _processes() -> Iterator[str]:
    """Yield the ids of this session's processes."""
    session = os.getsid(0)
    for number in os.listdir("/proc"):
        if number.isdigit():
            with suppress(OSError):
                if os.getsid(int(number)) == session:
                    yield number


def _peak_bytes(number: str) -> int:
    with suppress(OSError, ValueError, IndexError):
        return int(_text(f"/proc/{number}/status").partition("VmHWM:")[2].split()[0]) * 1024
    return 0


def _reread_bytes() -> int:
    """Return the bytes that this host read again after evicting them from memory."""
    with suppress(OSError, ValueError):
        counters = dict(line.split(" ") for line in _text("/proc/vmstat").splitlines())
        return sum(int(counters.get(name, 0)) for name in _REREAD) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _stall_ns() -> int | None:
    """Return for how long any work stalled for lack of memory (PSI); None if unavailable."""
    with suppress(OSError, ValueError, IndexError):
        # "some avg10=0.00 avg60=0.00 avg300=0.00 total=207863", in microseconds.
        return int(_text(_pressure_file()).split("total=")[1].split()[0]) * 1000
    return None


@cache
def _pressure_file() -> str:
    """Return the PSI file of this process's control group (version 2), or else the host's."""
    with suppress(OSError):
        for line in _text("/proc/self/cgroup").splitlines():
            pressure = Path("/sys/fs/cgroup") / line.removeprefix("0::/") / "memory.pressure"
            if line.startswith("0::/") and pressure.exists():
                return str(pressure)
    return "/proc/pressure/memory"


def _text(path: str) -> str:
    with open(path) as file:
        return file.read()


if __name__ == "__main__":
    main()
