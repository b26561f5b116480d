"""Background processes on the loopback interface: started, waited for, and ended by pid.

A process is recorded as `run/NAME.pid` with its pid and its start time in the kernel, so that only
processes started here are ever signalled.
"""

import contextlib
import ctypes
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

HOST = "127.0.0.1"

# Below the kernel's ephemeral ports, so that a test with many connections cannot take a free port
# before it is used.
PORTS = range(15000, 32000)

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


class ServerError(Exception):
    """A server could not be installed, started or reached."""


class Processes:
    """The processes of one server, with all their files in one directory."""

    def __init__(self, directory: Path) -> None:
        """Use `directory` for logs (`log/`) and records of pids (`run/`)."""
        self.directory = directory
        self.children: dict[str, subprocess.Popen[bytes]] = {}
        for name in ("run", "log"):
            (directory / name).mkdir(parents=True, exist_ok=True)

    def start(
        self, name: str, command: Sequence[str | Path], environment: Mapping[str, str] | None = None
    ) -> None:
        """Start `command` in its own session; it ends at the latest with this process."""
        with self.log(name).open("ab") as log:
            child = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=self.directory,
                env={**os.environ, **(environment or {})},
                preexec_fn=_end_with_parent,
            )
        self.children[name] = child
        record = f"{child.pid} {start_time(child.pid)}\n"
        (self.directory / "run" / f"{name}.pid").write_text(record)

    def log(self, name: str) -> Path:
        """Return the file with the output of process `name`."""
        return self.directory / "log" / f"{name}.log"

    def wait_for(
        self,
        what: str,
        is_ready: Callable[[], bool],
        limit_s: float = 300,
        progress: Callable[[], object] = lambda: None,
    ) -> None:
        """Wait until `is_ready`; fail if a process ends or `limit_s` pass without progress.

        With progress it may take twice as long.
        """
        end = time.monotonic() + 2 * limit_s
        deadline, progressed = end - limit_s, progress()
        while not is_ready():
            if (now := progress()) != progressed:
                deadline, progressed = min(time.monotonic() + limit_s, end), now
            for name, child in self.children.items():
                if child.poll() is not None:
                    output = _tail(self.log(name))
                    raise ServerError(f'"{name}" ended with code {child.returncode}:\n{output}')
            if time.monotonic() > deadline:
                raise ServerError(f"{what}: not ready after {limit_s:.0f} s, see {self.directory}")
            time.sleep(0.05)

    def run(
        self,
        name: str,
        command: Sequence[str | Path],
        environment: Mapping[str, str] | None = None,
        text: str = "",
    ) -> str:
        """Run `command` to its end with `text` as its input, and return its output."""
        done = subprocess.run(
            [str(part) for part in command],
            input=text,
            capture_output=True,
            text=True,
            cwd=self.directory,
            env={**os.environ, **(environment or {})},
            check=False,
        )
        self.log(name).write_text(done.stdout + done.stderr)
        if done.returncode:
            raise ServerError(f'"{name}" ended with code {done.returncode}:\n{done.stderr[-2000:]}')
        return done.stdout

    def stop(self, *names: str, number: signal.Signals = signal.SIGTERM) -> None:
        """Stop the processes called `names` (default: all), in reverse order of their start."""
        for name in reversed(names or list(self.children)):
            child = self.children.pop(name)
            if child.poll() is None:
                child.send_signal(number)
            try:
                child.wait(timeout=10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            (self.directory / "run" / f"{name}.pid").unlink(missing_ok=True)

    def signal(self, *names: str, number: signal.Signals) -> None:
        """Send a signal to the processes called `names`."""
        for name in names:
            self.children[name].send_signal(number)

    def kill(self) -> None:
        """Kill all processes."""
        for child in self.children.values():
            child.kill()
        self.stop()


def start_time(pid: int) -> str | None:
    """Return the start time of `pid` in kernel ticks; None if there is no such process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] == "Z" else fields[19]


def stop_recorded(directory: Path) -> int:
    """Kill the recorded processes below `directory` that still run; return their number."""
    ended = 0
    for record in sorted((directory / "run").glob("*.pid")):
        pid, started = record.read_text().split()
        if start_time(int(pid)) == started:
            os.kill(int(pid), signal.SIGTERM)
            deadline = time.monotonic() + 10
            while start_time(int(pid)) == started and time.monotonic() < deadline:
                time.sleep(0.02)
            if start_time(int(pid)) == started:
                os.kill(int(pid), signal.SIGKILL)
            ended += 1
        record.unlink()
    return ended


def free_ports(count: int) -> int:
    """Return the first of `count` consecutive free ports."""
    chance = random.SystemRandom()
    for _ in range(1000):
        first = chance.randrange(PORTS.start, PORTS.stop - count)
        if all(_is_free(port) for port in range(first, first + count)):
            return first
    raise ServerError(f"found no {count} free ports in a row on {HOST}")


def answers(url: str) -> bool:
    """Tell whether `url` returns anything but a server error."""
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except urllib.error.HTTPError as error:
        return error.code < 500
    except OSError:
        return False


@contextlib.contextmanager
def scratch_directory(
    name: str, room_bytes: int = 1 << 30, *, with_direct: bool = False
) -> Iterator[Path]:
    """Create a directory for a server's data and delete it at the end.

    It is in memory, so that tests do not wait for a disk, if there is enough space, support for
    extended attributes and, `with_direct`, direct I/O.
    """
    place = "/dev/shm"
    suits = (
        os.path.isdir(place)
        and shutil.disk_usage(place).free >= room_bytes
        and _holds_attributes(place)
        and (_opens_directly(place) or not with_direct)
    )
    directory = Path(tempfile.mkdtemp(prefix=f"ls-{name}-", dir=place if suits else None))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _holds_attributes(place: str) -> bool:
    try:
        with tempfile.NamedTemporaryFile(dir=place) as probe:
            os.setxattr(probe.name, "user.loadstone", b"x" * 512)
    except OSError:
        return False
    return True


def _opens_directly(place: str) -> bool:
    try:
        with tempfile.NamedTemporaryFile(dir=place) as probe:
            os.close(os.open(probe.name, os.O_RDWR | os.O_DIRECT))
    except OSError:
        return False
    return True


def _end_with_parent() -> None:
    # Runs in the child before the command: a killed test run must not leave servers behind.
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def _tail(path: Path) -> str:
    return path.read_text(errors="replace")[-2000:] if path.exists() else ""


if sys.platform != "linux":
    raise ServerError("the real servers are started on Linux only")
