"""Causes faults of a target by the user's commands, and runs the server that one of them starts."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Final

from loadstone.errors import TargetError
from loadstone.execution import secrets
from loadstone.execution.interrupt import Interrupt
from loadstone.execution.programs.answers import answer_of
from loadstone.execution.programs.program import POLL_S, Ended, Guard, Program, run_programs

COMMAND_S: Final = 120.0
"""The longest time that a command may take, in seconds."""
READY_S: Final = 60.0
"""The longest time until a started server responds, in seconds."""
LINES_SHOWN: Final = 3
KILL, START = "kill", "start"


class FaultCommands:
    """Commands that act on a target, by the name of the action, split into words.

    A start command that stays in the foreground is the server itself: it is started at once if
    nothing responds at `ready`, killed if there is no kill command, and stopped with this process.
    """

    def __init__(
        self, commands: Mapping[str, Sequence[str]], ready: str, interrupt: Interrupt
    ) -> None:
        self._commands = commands
        self._ready = ready
        self._interrupt = interrupt
        self._server: Program | None = None
        self._guard: Guard | None = None

    def __enter__(self) -> "FaultCommands":
        if START in self._commands and answer_of(self._ready) is None:
            self._start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._server is not None:
            self._server.stop("stopped")
            self._end()

    @property
    def actions(self) -> dict[str, Callable[[], None]]:
        """The actions by name; each raises TargetError if it fails."""
        names = dict.fromkeys(self._commands)
        if self._server is not None:
            names[KILL] = None
        return {name: partial(self.run, name) for name in names}

    def words_of(self, name: str) -> list[str]:
        """Return the command of an action, for records."""
        if name in self._commands or self._server is None:
            return list(self._commands.get(name, ()))
        return ["kill", "-s", "KILL", "--", f"-{self._server.pid}"]

    def run(self, name: str) -> None:
        """Run an action; a start returns once the server responds."""
        if name == START:
            self._start()
            return
        if name == KILL and KILL not in self._commands:
            self._kill()
            return
        (ended,) = run_programs(
            [self._commands[name]], timeout_s=COMMAND_S,
            is_stopped=lambda: self._interrupt.is_asked, environment=os.environ,
        )  # fmt: skip
        if not ended.is_good:
            raise _failure(name, ended)

    def _kill(self) -> None:
        if self._server is None:
            raise TargetError(
                "kill: loadstone did not start the server",
                "name the command that kills it: --kill COMMAND",
            )
        self._server.kill_left()
        self._end()

    def _start(self) -> None:
        if self._server is not None:
            # If the fault did not end the server, two would compete for one port.
            self._server.stop("stopped")
            self._end()
        # The command was typed by the user for the user's server, so it gets the full environment.
        program: Program | None = (started := Program(self._commands[START], os.environ))
        if started.pid:
            self._server, self._guard = started, Guard(started)
        give_up = time.monotonic() + READY_S
        while True:
            if program is not None and not program.is_running:
                # It failed, or has started a daemon, as commands of service managers do.
                ended = self._end() if self._server is program else program.finish()
                if not ended.is_good:
                    raise _failure(START, ended)
                program = None
            status = answer_of(self._ready)
            if status is not None and status < 500:
                return
            if time.monotonic() > give_up or self._interrupt.is_asked:
                raise TargetError(
                    f"start: {self._ready} did not answer for {READY_S:.0f} s",
                    "run the command by hand",
                )
            time.sleep(POLL_S)

    def _end(self) -> Ended:
        """Reap the server, which has ended; daemons that it started keep running."""
        assert self._server is not None
        assert self._guard is not None
        self._guard.dismiss()
        ended, self._server, self._guard = self._server.finish(), None, None
        return ended


def _failure(name: str, ended: Ended) -> TargetError:
    # The server had the full environment, and may print its keys when it starts.
    values = [os.environ[name] for name in secrets.KEPT_FROM_PROGRAMS if name in os.environ]
    text = secrets.hide(ended.tail, values)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    printed = f"; it printed: {'; '.join(lines[-LINES_SHOWN:])}" if lines else ""
    return TargetError(f"{name.replace('_', '-')}: {ended.how}{printed}", "run the command by hand")
