"""Starts `python -m loadstone` without importing it again: a prepared process forks for each
command.

A command imports for half a second of processor time before it does anything. Here one process for
each process of tests has done that, and forks. A fork is a separate process, with the environment,
the folder and the standard streams of a started command. It runs `loadstone/__main__.py` to its
exit code, and handles signals in the same way. The start itself and the interpreter's shutdown are
tested elsewhere (`test_cli.py`).
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import IO

READ_AT_START = ("LANG", "LC_", "LD_", "PYTHON", "FORCE_COLOR", "TERMINAL_WIDTH")
"""Variables that the interpreter or an import reads at start-up, which a fork would not notice."""

IMPORTED = (
    "jinja2", "numpy", "pyarrow.compute", "pyarrow.parquet", "rich.console", "rich.live",
)  # fmt: skip
"""Modules that commands import on demand."""


def is_as_started(environment: Mapping[str, str]) -> bool:
    """Tell whether a fork behaves in the same way as a start with exactly these variables."""
    return _read_at_start(environment) == _READ_AT_START


def _read_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(READ_AT_START)}


_READ_AT_START = _read_at_start(os.environ)


def start(
    arguments: Sequence[str], environment: Mapping[str, str], out: int = PIPE, err: int = PIPE
) -> "Fork":
    """Start `loadstone` with exactly this environment, and streams as `subprocess` has them."""
    global _parent
    with _LOCK:
        if _parent is None:
            _parent = _Parent()
    return _parent.fork(
        {"words": arguments, "environment": dict(environment), "folder": os.getcwd()}, out, err
    )


class Fork:
    """A forked command, with the parts of `subprocess.Popen` that tests use."""

    def __init__(self, end: socket.socket, out: IO[str] | None, err: IO[str] | None) -> None:
        """`end` receives the number of the process, then its exit code."""
        self._end = end
        self.stdout, self.stderr = out, err
        self.pid = int(end.recv(100))
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout_s: float | None = None) -> int:
        """Wait for the exit code."""
        if self.returncode is None:
            self._end.settimeout(timeout_s)
            try:
                answer = self._end.recv(100)
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired("loadstone", timeout_s or 0) from None
            assert answer, "the process that forks has ended"
            self.returncode = int(answer)
            self._end.close()
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Read both streams to their ends; a process left behind by the command may keep them
        open.
        """
        read = {"out": "", "err": ""}

        def read_all(name: str, stream: IO[str]) -> None:
            with stream:
                read[name] = stream.read()

        readers = [
            threading.Thread(target=read_all, args=(name, stream), daemon=True)
            for name, stream in (("out", self.stdout), ("err", self.stderr))
            if stream is not None and not stream.closed
        ]
        for reader in readers:
            reader.start()
        self.wait(timeout)
        for reader in readers:
            reader.join(timeout)
            if reader.is_alive():
                raise TimeoutError("the command left a process that holds its output")
        return read["out"], read["err"]

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)


class _Parent:
    """The forking process, as used by the tests."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                # A fork has none of the threads that a library has started.
                env={**os.environ, "NO_COLOR": "1", "OPENBLAS_NUM_THREADS": "1"},
                cwd=Path(__file__).parents[2],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        atexit.register(self.end)

    def fork(self, request: Mapping[str, object], out: int, err: int) -> Fork:
        end, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, contextlib.ExitStack() as given:

            def stream_of(wanted: int) -> tuple[int, IO[str] | None]:
                if wanted == PIPE:
                    reading, writing = os.pipe()
                    given.callback(os.close, writing)
                    return writing, os.fdopen(reading, encoding="utf-8")
                if wanted == DEVNULL:
                    wanted = os.open(os.devnull, os.O_WRONLY)
                    given.callback(os.close, wanted)
                return wanted, None

            (out, read_out), (err, read_err) = stream_of(out), stream_of(err)
            socket.send_fds(self._ours, [json.dumps(request).encode()], [out, err, theirs.fileno()])
        return Fork(end, read_out, read_err)

    def end(self) -> None:
        """Stop it by closing its socket."""
        self._ours.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        self._process.kill()
        self._process.wait()


_LOCK = threading.Lock()
_parent: _Parent | None = None


def _import_all() -> None:
    """Import everything that a command may need; engines have processes of their own."""
    import loadstone

    for name in IMPORTED:
        importlib.import_module(name)
    for walk_package in pkgutil.walk_packages(loadstone.__path__, "loadstone."):
        if not walk_package.name.startswith(("loadstone.__main__", "loadstone.engines")):
            with contextlib.suppress(ImportError):
                importlib.import_module(walk_package.name)
    # Existing objects are permanent, so a fork's garbage collection can skip them.
    gc.collect()
    gc.freeze()


def _fork_for_each(requests: socket.socket) -> Mapping[str, object]:
    """Answer requests with a process id and an exit code; returns only in a fork, with its
    request.
    """
    with selectors.DefaultSelector() as waits:
        waits.register(requests, selectors.EVENT_READ)
        while True:
            for key, _ in waits.select():
                if key.data is not None:
                    number, answers = key.data
                    waits.unregister(key.fd)
                    os.close(key.fd)
                    _, status = os.waitpid(number, 0)
                    # The test that sent the request may have ended.
                    with answers, contextlib.suppress(OSError):
                        answers.send(str(os.waitstatus_to_exitcode(status)).encode())
                    continue
                message, given, _, _ = socket.recv_fds(requests, 1 << 20, 3)
                if not message:
                    os._exit(0)
                *streams, answers_fd = given
                number = os.fork()
                if number == 0:
                    for target, stream in enumerate(streams, start=1):
                        os.dup2(stream, target)
                    _close_all_but_standard()
                    request: Mapping[str, object] = json.loads(message)
                    return request
                for stream in streams:
                    os.close(stream)
                answers = socket.socket(fileno=answers_fd)
                answers.send(str(number).encode())
                waits.register(os.pidfd_open(number), selectors.EVENT_READ, (number, answers))


def _close_all_but_standard() -> None:
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            # The listing's own descriptor is closed already.
            with contextlib.suppress(OSError):
                os.close(int(name))


def _become(request: Mapping[str, object]) -> None:
    """Be `python -m loadstone` with a request's words, environment and folder."""
    words, environment, folder = request["words"], request["environment"], request["folder"]
    assert isinstance(words, list)
    assert isinstance(environment, dict)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    os.chdir(str(folder))
    sys.argv[1:] = words
    sys.path[0] = str(folder)
    try:
        runpy.run_module("loadstone", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        _end(end.code)


def _end(code: object) -> None:
    """Exit as the interpreter does, but without freeing each object, which takes longest."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 0 if code is None else 1)


if __name__ == "__main__":
    _import_all()
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        forked = _fork_for_each(requests)
        requests.detach()
    _become(forked)
