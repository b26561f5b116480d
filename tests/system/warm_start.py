"""Starts of `python -m loadstone` that do not import it anew: a process forks for each command.

A command imports for half a second of processor time before it does anything. Here one process for
each process of tests has done that, and forks. What it forks is a process of its own, with the
environment, the folder and the standard streams of a command that was started, and goes through
`loadstone/__main__.py` to its exit code. The start itself and the end of the interpreter are looked
at elsewhere (`test_cli.py`), and whatever has to get a signal is started from nothing.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

READ_AT_START = ("DASK_", "LANG", "LC_", "LD_", "PYTHON", "FORCE_COLOR", "TERMINAL_WIDTH")
"""What an interpreter or an import reads of the environment: a fork of ours would miss a change."""

IMPORTED = (
    "altair", "jinja2", "pyarrow.compute", "pyarrow.parquet", "rich.console", "rich.live",
    "scipy.special", "scipy.stats",
)  # fmt: skip
"""What commands import when they need it."""


def is_as_started(environment: Mapping[str, str]) -> bool:
    """Tell whether a fork behaves as a start with these variables besides would."""
    return not any(name.startswith(READ_AT_START) for name in environment)


def run(
    arguments: Sequence[str], environment: Mapping[str, str], timeout_s: float
) -> tuple[int, str, str]:
    """Run `loadstone` with exactly this environment; return its code, its output, its errors."""
    global _parent
    with _LOCK:
        if _parent is None:
            _parent = _Parent()
        return _parent.run(arguments, environment, timeout_s)


class _Parent:
    """The process that forks, seen from the tests."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                # Of a library's threads no fork has any.
                env={**os.environ, "NO_COLOR": "1", "OPENBLAS_NUM_THREADS": "1"},
                cwd=Path(__file__).parents[2],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._said,
                pass_fds=[theirs.fileno()],
            )
        atexit.register(self.end)

    def run(
        self, arguments: Sequence[str], environment: Mapping[str, str], timeout_s: float
    ) -> tuple[int, str, str]:
        request = {"words": arguments, "environment": dict(environment), "folder": os.getcwd()}
        streams = [os.pipe(), os.pipe()]
        read: list[bytes] = [b"", b""]
        readers = [
            threading.Thread(target=_read, args=(stream[0], read, at), daemon=True)
            for at, stream in enumerate(streams)
        ]
        try:
            given = [writing for _, writing in streams]
            socket.send_fds(self._ours, [json.dumps(request).encode()], given)
        finally:
            for _, writing in streams:
                os.close(writing)
        for reader in readers:
            reader.start()
        code = self._code(timeout_s)
        # As with a pipe to a command: whatever it left behind and still prints is waited for.
        until = time.monotonic() + timeout_s
        for reader in readers:
            reader.join(max(0.0, until - time.monotonic()))
            if reader.is_alive():
                raise TimeoutError(f"{arguments} left a process that holds its output")
        out, err = (part.decode().replace("\r\n", "\n").replace("\r", "\n") for part in read)
        return code, out, err

    def end(self) -> None:
        """End it: it sees that its socket is closed."""
        self._ours.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        self._process.kill()
        self._process.wait()

    def _code(self, timeout_s: float) -> int:
        """Wait for the end of a fork, and end it where it hangs."""
        number = self._answer()
        self._ours.settimeout(timeout_s)
        try:
            return self._answer()
        except TimeoutError:
            os.kill(number, signal.SIGKILL)
            raise
        finally:
            self._ours.settimeout(None)

    def _answer(self) -> int:
        if answer := self._ours.recv(100):
            return int(answer)
        self._said.seek(0)
        said = self._said.read().decode(errors="replace")
        raise AssertionError(f"the process that forks has ended: {said}")


_LOCK = threading.Lock()
_parent: _Parent | None = None


def _read(stream: int, read: list[bytes], at: int) -> None:
    with os.fdopen(stream, "rb") as file:
        read[at] = file.read()


def _import_all() -> None:
    """Import what any command may; engines have processes of their own."""
    import loadstone

    for name in IMPORTED:
        importlib.import_module(name)
    for found in pkgutil.walk_packages(loadstone.__path__, "loadstone."):
        if not found.name.startswith(("loadstone.__main__", "loadstone.engines")):
            with contextlib.suppress(ImportError):
                importlib.import_module(found.name)
    # What is there stays, and is not looked through in each fork.
    gc.collect()
    gc.freeze()


def _fork_for_each(requests: socket.socket) -> Mapping[str, object]:
    """Answer requests with exit codes; only in a fork return what it is to do."""
    while True:
        message, streams, _, _ = socket.recv_fds(requests, 1 << 20, 2)
        if not message:
            os._exit(0)
        number = os.fork()
        if number == 0:
            for target, stream in enumerate(streams, start=1):
                os.dup2(stream, target)
            _close_all_but_standard()
            request: Mapping[str, object] = json.loads(message)
            return request
        for stream in streams:
            os.close(stream)
        requests.send(str(number).encode())
        _, status = os.waitpid(number, 0)
        requests.send(str(os.waitstatus_to_exitcode(status)).encode())


def _close_all_but_standard() -> None:
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            # The listing's own is no more.
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
    """End as the interpreter does, but for giving back each object, which takes longest."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 0 if code is None else 1)


if __name__ == "__main__":
    _import_all()
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        found = _fork_for_each(requests)
        requests.detach()
    _become(found)
