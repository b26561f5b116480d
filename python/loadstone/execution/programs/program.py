"""Runs other programs in their own process group, with a time limit, and keeps their output.

Only process groups that were started here are killed. A program that exits by itself may leave
others running, like a hook that starts a daemon.
"""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Literal

from loadstone.execution import secrets

GRACE_S = 2.0
POLL_S = 0.05
DRAIN_S = 1.0
OUTPUT_MAX_BYTES = 64 << 20
TAIL_BYTES = 4096
# Dropped at the cut: part of a secret there could not be recognised and masked.
LOST_BYTES = 24

State = Literal["ended", "timeout", "stopped", "not started"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a program ended. `output` is all its output, up to a limit; `tail` the last part.

    `exit_code` follows the shell's convention: 128 plus the signal's number after a signal.
    """

    command: tuple[str, ...]
    state: State
    exit_code: int | None
    output: bytes
    tail: str
    started_unix_ns: int
    ended_unix_ns: int

    @property
    def is_good(self) -> bool:
        """Whether it exited by itself with exit code 0."""
        return self.state == "ended" and self.exit_code == 0

    @property
    def how(self) -> str:
        """How it ended, in words."""
        return self.state if self.state != "ended" else f"exit code {self.exit_code}"


class _Tail:
    """The last bytes of a stream."""

    def __init__(self) -> None:
        self._bytes = b""
        self._is_cut = False

    def add(self, part: bytes) -> None:
        """Append bytes."""
        self._is_cut |= len(self._bytes) + len(part) > TAIL_BYTES
        self._bytes = (self._bytes + part)[-TAIL_BYTES:]

    def last(self, room: int) -> bytes:
        """Return the last bytes, at most `room`."""
        begin = max(0, len(self._bytes) - room)
        lost = LOST_BYTES if self._is_cut or begin > 0 else 0
        return self._bytes[begin + lost :]


class Program:
    """A running program."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        self.command = tuple(command)
        self.started_unix_ns = time.time_ns()
        self._output: deque[bytes] = deque()
        self._size = 0
        # One per stream, so that much output on one cannot displace the other's.
        self._tails = {True: _Tail(), False: _Tail()}
        self._failed = ""
        self._state: State = "ended"
        self._process: subprocess.Popen[bytes] | None = None
        self._readers: list[threading.Thread] = []
        try:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(environment if environment is not None else secrets.inherited()),
                # Its own session: Ctrl-C must not reach it directly, and its group can be killed.
                start_new_session=True,
            )
        except OSError as error:
            self._state = "not started"
            self._failed = f"{self.command[0]}: {error.strerror or error}"
            return
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        for stream, is_output in ((self._process.stdout, True), (self._process.stderr, False)):
            reader = threading.Thread(
                target=self._read, args=(stream, is_output), name="output", daemon=True
            )
            reader.start()
            self._readers.append(reader)

    @property
    def is_running(self) -> bool:
        """Whether it runs; it is not reaped, so that its process group id stays valid."""
        if self._process is None or self._process.returncode is not None:
            return False
        ended = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        return ended is None

    @property
    def tail(self) -> str:
        """Return the last output: errors as far as they fit, preceded by standard output."""
        errors = self._tails[False].last(TAIL_BYTES)
        output = self._tails[True].last(max(0, TAIL_BYTES - 1 - len(errors)))
        printed = b"\n".join(filter(None, (output.strip(), errors.strip())))
        return printed.decode(errors="replace") or self._failed

    @property
    def pid(self) -> int:
        """Return the id of its process, group and session; 0 if it never started."""
        return self._process.pid if self._process is not None else 0

    def stop(self, why: State, grace_s: float = GRACE_S) -> None:
        """Stop it and all its children: by SIGTERM, and by SIGKILL after the grace period."""
        if self._process is None:
            return
        self._state = why
        self._signal(signal.SIGTERM)
        give_up = time.monotonic() + grace_s
        while self.is_running and time.monotonic() < give_up:
            time.sleep(POLL_S)
        self._signal(signal.SIGKILL)

    def kill_left(self) -> None:
        """Kill processes that it started and left running, before it is reaped."""
        if self._process is not None:
            # It may have ended, but its group id stays valid until it is reaped.
            self._signal(signal.SIGKILL)

    def finish(self) -> Ended:
        """Wait for its end, reap it, and return the result."""
        code = None
        if self._process is not None:
            exit_code = self._process.wait()
            code = exit_code if exit_code >= 0 else 128 - exit_code
            # Remaining child processes may hold the pipes open for ever.
            for reader in self._readers:
                reader.join(DRAIN_S)
        return Ended(
            command=self.command,
            state=self._state,
            exit_code=code,
            output=b"".join(list(self._output)),
            tail=self.tail,
            started_unix_ns=self.started_unix_ns,
            ended_unix_ns=time.time_ns(),
        )

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)

    def _read(self, stream: IO[bytes], is_output: bool) -> None:
        with stream:
            while part := os.read(stream.fileno(), 1 << 16):
                self._tails[is_output].add(part)
                if is_output and self._size < OUTPUT_MAX_BYTES:
                    self._size += len(part)
                    self._output.append(part)


class Guard:
    """Kills a program's process group when this process ends, even by SIGKILL.

    A shell in its own session waits at a pipe whose other end only this process holds; the kernel
    closes it when this process ends.
    """

    def __init__(self, program: Program) -> None:
        script = 'read -r _ || kill -s KILL -- "-$1"'
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", script, "sh", str(program.pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={},
        )

    def dismiss(self) -> None:
        """End the watch before the group is reaped; its id could otherwise name another group."""
        self._shell.communicate(b"\n")


def run_programs(
    commands: Sequence[Sequence[str]],
    *,
    timeout_s: float,
    is_stopped: Callable[[], bool],
    tick: Callable[[float], None] = lambda passed_s: None,
    environment: Mapping[str, str] | None = None,
    is_guarded: bool = False,
) -> list[Ended]:
    """Run programs in parallel until all have ended, and return their results.

    With `is_guarded` they and their children are killed if this process is, before they have ended.

    `tick` is called several times a second with the seconds passed. At the timeout or when a stop
    is requested, the running programs are stopped; if one fails, the others continue.
    """
    began = time.monotonic()
    programs = [Program(command, environment) for command in commands]
    guards = [Guard(program) for program in programs if is_guarded and program.pid]
    try:
        while any(program.is_running for program in programs):
            passed_s = time.monotonic() - began
            tick(passed_s)
            if is_stopped():
                _stop(programs, "stopped")
            elif passed_s >= timeout_s:
                _stop(programs, "timeout")
            else:
                time.sleep(POLL_S)
    except BaseException:
        _stop(programs, "stopped")
        raise
    finally:
        for guard in guards:
            guard.dismiss()
    return [program.finish() for program in programs]


def _stop(programs: Sequence[Program], why: State) -> None:
    for program in programs:
        if program.is_running:
            program.stop(why)
