"""Runs a query engine in a separate process, which gets tasks line by line and can be killed."""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import TypeAdapter, ValidationError

from loadstone.campaign.planning.kinds import OUT_OF_MEMORY
from loadstone.documents.mistake import first_mistake
from loadstone.engines.messages import CLASS, Answered, Reply, Task, TaskFailed, line_of
from loadstone.errors import LoadstoneError
from loadstone.execution import secrets

TICK_S = 0.2
SAID_MAX = 500
_Kind = TypeVar("_Kind")

_SAID_OF_MEMORY = (
    "OutOfMemory",  # DuckDB, Java
    "MEMORY_LIMIT_EXCEEDED",  # ClickHouse
    "Resources exhausted",  # DataFusion
    "MemoryError",
    "Cannot allocate memory",
    "ArrowMemoryError",
)
"""Parts of engines' error messages when memory runs out."""


class EngineError(LoadstoneError):
    """An engine gave no answer; `outcome` is its outcome in records."""

    def __init__(self, outcome: str, message: str) -> None:
        super().__init__(message)
        self.outcome = outcome


def outcome_of(message: str) -> str:
    """Return the outcome of a failed query, from the engine's error message."""
    return OUT_OF_MEMORY if any(sign in message for sign in _SAID_OF_MEMORY) else "engine_error"


_REPLIES = {kind.__name__: TypeAdapter[Any](kind) for kind in get_args(Reply)}


def read_reply(line: str) -> Reply:
    """Parse a reply of an engine's process; ValueError if it is not valid."""
    try:
        body = json.loads(line)
        name = body.pop(CLASS)
        message: Reply = _REPLIES[name].validate_python(body)
    except ValidationError as error:
        raise ValueError(first_mistake(error, name)) from error
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"not a valid answer: {line[:100].strip()}") from error
    return message


class KeptEngines:
    """Processes of engines that start slowly, reused by later trials."""

    def __init__(self) -> None:
        """Start with no processes."""
        self._processes: dict[str, EngineProcess] = {}

    @contextlib.contextmanager
    def process(
        self,
        tick: Callable[[], bool],
        hidden: Sequence[str],
        *,
        key: str | None,
        group: str | None = None,
    ) -> Iterator["EngineProcess"]:
        """Yield the process of a key, started if necessary; without a key, a new process for this
        use.

        Only one process of a group is kept: several would compete for the processors.
        """
        if key is None:
            with EngineProcess(tick, hidden) as fresh:
                yield fresh
            return
        for name in [
            name for name in self._processes if name != key and group and name.startswith(group)
        ]:
            self._let_go(name)
        if key not in self._processes:
            self._processes[key] = EngineProcess(tick, hidden).__enter__()
        process = self._processes[key]
        process.listen_to(tick, hidden)
        try:
            yield process
        except EngineError as error:
            # A process that only failed a query still works.
            if error.outcome != "engine_error":
                self._let_go(key)
            raise
        except BaseException:
            self._let_go(key)
            raise

    def _let_go(self, key: str) -> None:
        self._processes.pop(key).__exit__()

    def close(self) -> None:
        """Stop all processes."""
        for key in list(self._processes):
            self._let_go(key)


class EngineProcess:
    """An engine's process, used as a context manager."""

    def __init__(self, tick: Callable[[], bool], hidden: Sequence[str]) -> None:
        """`tick` is called while waiting for an answer; if it returns False, the process is
        stopped.

        `hidden` are secrets that are removed from the engine's output.
        """
        self._tick = tick
        self._hidden = hidden
        self._answers: queue.Queue[str] = queue.Queue()
        self._kills: int | None = None

    def __enter__(self) -> "EngineProcess":
        """Start the process, without secrets in its environment and in its own session."""
        self._errors = tempfile.TemporaryFile()
        # An engine's temporary files are removed with its process, however it ends.
        self._scratch = tempfile.TemporaryDirectory(prefix="loadstone-engine-")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "loadstone.engines.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**secrets.inherited(), "TMPDIR": self._scratch.name},
            start_new_session=True,
            text=True,
        )
        threading.Thread(target=self._listen, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the process and everything that it started."""
        self._end()
        self._errors.close()
        with contextlib.suppress(OSError):
            self._scratch.cleanup()

    def listen_to(self, tick: Callable[[], bool], hidden: Sequence[str]) -> None:
        """Use the callback and secrets of another trial from now on."""
        self._tick = tick
        self._hidden = hidden

    def ask(self, task: Task, kind: type[_Kind], timeout_ns: int) -> _Kind:
        """Return the answer to a task; raise EngineError if there is none, or if it is a
        failure.
        """
        self.begin(task)
        message = self.answer(timeout_ns)
        if not isinstance(message, kind):
            raise self.end_for(f"answered {type(message).__name__}, expected {kind.__name__}")
        return message

    def begin(self, task: Task) -> None:
        """Start a task that has several answers."""
        assert self._process.stdin is not None, "it has a pipe"
        self._kills = _memory_kills()
        try:
            self._process.stdin.write(line_of(task))
            self._process.stdin.flush()
        except OSError:
            raise self._died() from None

    def answer(self, timeout_ns: int) -> Answered:
        """Return the next answer; raise EngineError if there is none, or if it is a failure."""
        try:
            answered = read_reply(self._awaited(timeout_ns))
        except ValueError as error:
            raise self.end_for(str(error)) from error
        if isinstance(answered, TaskFailed):
            message = secrets.hide(answered.failed, self._hidden)
            raise EngineError(outcome_of(message), message)
        return answered

    def end_for(self, what: str) -> EngineError:
        """Kill the process because of an error, and return the error."""
        self._end()
        words = secrets.hide(what[:SAID_MAX], self._hidden)
        return EngineError("engine_died", f"the engine's process was ended: {words}")

    def _awaited(self, timeout_ns: int) -> str:
        deadline = time.monotonic_ns() + timeout_ns
        while True:
            try:
                line = self._answers.get(timeout=TICK_S)
            except queue.Empty:
                if not self._tick():
                    self._end()
                    raise EngineError("stopped", "the run was stopped") from None
                if time.monotonic_ns() > deadline:
                    self._end()
                    raise EngineError(
                        "timeout", f"no answer within {timeout_ns / 1e9:g} s"
                    ) from None
                continue
            if not line:
                raise self._died()
            return line

    def _died(self) -> EngineError:
        if self._process.returncode is None:
            # The pipe closes just before the process exits: wait for its own exit code before
            # killing it.
            os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        self._end()
        code = self._process.returncode
        kind, how = "engine_died", f"exit code {code}"
        if code < 0:
            how = signal.Signals(-code).name
        if code == -signal.SIGKILL:
            kills = _memory_kills()
            if kills is None or self._kills is None:
                how += ", as of a process that ran out of memory"
            elif kills > self._kills:
                kind, how = (
                    OUT_OF_MEMORY,
                    f"{how}, and the kernel killed a process for lack of memory",
                )
            else:
                how += ", and the kernel killed no process for lack of memory"
        self._errors.seek(0)
        printed = self._errors.read().decode(errors="replace").strip()[-SAID_MAX:]
        tail = secrets.hide(f": {printed}" if printed else "", self._hidden)
        return EngineError(kind, f"the engine's process ended ({how}){tail}")

    def _listen(self) -> None:
        assert self._process.stdout is not None, "it has a pipe"
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put("")

    def _end(self) -> None:
        # Programs that it started, such as a Java machine, are in its session and are killed with
        # it. The id of an ended process stays reserved until `wait`.
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()


def _memory_kills() -> int | None:
    """Return how many processes the kernel has killed for lack of memory; None if unknown."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            name, _, value = line.partition(" ")
            if name == "oom_kill":
                return int(value)
    return None
