"""Arms: starts the server of a leg on new data, waits until it is ready, and stops it afterwards.

A leg is the trials of one case of an arm in one block. Each server has its own process group, which
is ended with loadstone even if that is killed. Its processor time, memory and disk use are the sums
over the processes of its session.
"""

import contextlib
import errno
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from loadstone import units
from loadstone.campaign.schema.target import DATA, Arm
from loadstone.documents.target_state import ServerState, TargetState
from loadstone.documents.trial import TrialDocument
from loadstone.errors import LeftBehindError, TargetError
from loadstone.execution import secrets
from loadstone.execution.interrupt import Interrupt
from loadstone.execution.programs.answers import answer_of
from loadstone.execution.programs.program import Guard, Program, run_programs
from loadstone.results.leg_log import LegEntry, append_leg

POLL_S = 0.05
LINES_SHOWN = 5


@dataclass(slots=True)
class _Leg:
    """A running server and the leg it belongs to."""

    name: str
    number: int | None
    arm: Arm
    program: Program
    guard: Guard | None
    directory: Path | None
    identity: tuple[int, int]
    entry: LegEntry


class _Readiness(NamedTuple):
    """The state of the address or the path at which a server or a mount is awaited."""

    is_free: bool
    is_ready: bool
    words: str

    @classmethod
    def of(cls, ready: str) -> "_Readiness":
        """Ask a URL, or look for a mount without touching its file system, which may hang."""
        if ready.startswith("/"):
            parent, name = os.path.split(ready.rstrip("/"))
            path = os.path.join(os.path.realpath(parent), name)
            is_mounted = path in _mounts(path)
            return cls(not is_mounted, is_mounted, "is mounted" if is_mounted else "is not mounted")
        status = answer_of(ready)
        if status is None:
            return cls(True, False, "does not answer")
        return cls(False, status < 500, f"answers HTTP {status}")


class ArmServers:
    """The servers of a run's arms: one runs at a time."""

    def __init__(
        self,
        arms: Mapping[str, Arm],
        legs: Mapping[str, int],
        folder: Path,
        run: str,
        interrupt: Interrupt,
        *,
        is_resumed: bool = False,
    ) -> None:
        """`legs` maps trials to leg numbers; a step of a search belongs to the last leg.

        If the run `is_resumed`, directories of killed legs may remain.
        """
        self._arms = arms
        self._legs = legs
        self._folder = folder
        self._run = run
        self._interrupt = interrupt
        self._leg: _Leg | None = None
        self._started = self._left_by_earlier_sessions() if is_resumed else 0
        self.left: list[LeftBehindError] = []
        """Directories of legs that could not be deleted."""

    def enter(self, document: TrialDocument) -> None:
        """Ensure that exactly the server of the trial's leg is running.

        Raises TargetError if it does not start, or is not ready in time.
        """
        if not self._arms:
            return
        name = document["target"]["name"]
        leg = self._leg
        number = self._legs.get(document["id"], leg.number if leg is not None else None)
        if leg is not None and (leg.name, leg.number) == (name, number):
            return
        self.leave()
        if name in self._arms and not self._interrupt.is_asked:
            self._start(name, number, document)

    def look(self, document: TrialDocument) -> TargetState:
        """Return the resources that the trial's server has used since its start."""
        leg = self._leg
        if leg is None or document["target"]["name"] != leg.name:
            return {}
        state = state_of_session(leg.program.pid)
        return {} if state is None else {"server": state}

    def check(self) -> None:
        """Raise TargetError if the server has exited by itself."""
        leg = self._leg
        if leg is not None and not leg.program.is_running and not self._interrupt.is_asked:
            self._end(leg)
            raise self._error(
                leg, f"the server ended by itself: exit code {leg.entry['exit_code']}"
            )

    def leave(self) -> None:
        """Stop the running server, and delete the directory that was made for it."""
        leg = self._leg
        if leg is None:
            return
        state = state_of_session(leg.program.pid)
        if state is not None:
            leg.entry["used"] = state
        if leg.program.is_running and leg.arm.stop:
            self._run_stop(leg)
        if leg.program.is_running:
            leg.program.stop("stopped", grace_s=leg.arm.stop_timeout_ns / 1e9)
        self._end(leg)

    def _run_stop(self, leg: _Leg) -> None:
        timeout_s = leg.arm.stop_timeout_ns / 1e9
        give_up = time.monotonic() + timeout_s
        (ended,) = run_programs(
            [_words(leg.arm.stop, leg.directory)], timeout_s=timeout_s,
            is_stopped=lambda: False,
            environment=self._environment(leg.arm, leg.directory),
        )  # fmt: skip
        if not ended.is_good:
            hidden = secrets.values_in(leg.arm.env, os.environ)
            leg.entry["stop_failed"] = f"{ended.how}: {secrets.hide(ended.tail, hidden)}"
            return
        while leg.program.is_running and time.monotonic() < give_up:
            time.sleep(POLL_S)

    def _start(self, name: str, number: int | None, document: TrialDocument) -> None:
        arm = self._arms[name]
        state = _Readiness.of(arm.ready)
        if not state.is_free:
            raise TargetError(
                f'arm "{name}": {arm.ready} {state.words} before its server is started',
                "stop the server that runs there, or give the arms another port or mount point",
            )
        self._started += 1
        directory, identity = self._make_directory(name, arm)
        program = Program(
            _words(arm.start, directory), environment=self._environment(arm, directory)
        )
        entry: LegEntry = {
            "arm": name, "trial": document["id"], "block": document["block"],
            "command": list(program.command), "data": None if directory is None else str(directory),
            "started_unix_ns": program.started_unix_ns,
        }  # fmt: skip
        guard = Guard(program) if program.pid else None
        self._leg = leg = _Leg(name, number, arm, program, guard, directory, identity, entry)
        began, timeout_s = time.monotonic(), arm.ready_timeout_ns / 1e9
        while not self._interrupt.is_asked:
            if not program.is_running:
                self._end(leg)
                how = leg.entry["exit_code"]
                ended = "could not be started" if how is None else f"ended with exit code {how}"
                raise self._error(leg, f"the server {ended} before it was ready")
            state = _Readiness.of(arm.ready)
            waited_s = time.monotonic() - began
            if state.is_ready:
                entry["ready_after_s"] = round(waited_s, 3)
                return
            if waited_s > timeout_s:
                self.leave()
                limit = units.format_duration(arm.ready_timeout_ns)
                raise self._error(leg, f"{arm.ready} {state.words} after {limit}")
            time.sleep(POLL_S)

    def _make_directory(self, name: str, arm: Arm) -> tuple[Path | None, tuple[int, int]]:
        """Create the leg's directory, which must not exist; None if the arm needs none."""
        if not any(DATA in word for word in (*arm.start, *arm.stop)):
            return None, (0, 0)
        parent = self._folder / "arms" if arm.data is None else Path(arm.data)
        if arm.data is None and parent.is_symlink():
            raise TargetError(
                f'arm "{name}": "{parent}" is a symbolic link',
                "loadstone did not make this link: the folder was changed, or comes"
                " from somebody else",
            )
        path = parent.resolve() / f"{self._lead}{self._started:04d}-{name}"
        try:
            if arm.data is None:
                parent.mkdir(exist_ok=True)
            path.mkdir(mode=0o700)
            return path, _identity(path)
        except OSError as error:
            raise TargetError(
                f'arm "{name}": make "{path}": {error.strerror}',
                "data names a directory that exists and may be written to",
            ) from error

    @property
    def _lead(self) -> str:
        return f"loadstone-{self._run[:12]}-"

    def _left_by_earlier_sessions(self) -> int:
        """Return the highest leg number among this run's remaining directories."""
        parents = {Path(arm.data or self._folder / "arms") for arm in self._arms.values()}
        names = (path.name for parent in parents for path in parent.glob(f"{self._lead}*"))
        numbers = (name.removeprefix(self._lead).partition("-")[0] for name in names)
        return max((int(number) for number in numbers if number.isdecimal()), default=0)

    def _end(self, leg: _Leg) -> None:
        """Reap a server that has ended, log its result, and delete its directory."""
        self._leg = None
        leg.program.kill_left()
        if leg.guard is not None:
            leg.guard.dismiss()
        ended = leg.program.finish()
        leg.entry["state"] = ended.state
        leg.entry["exit_code"] = ended.exit_code
        leg.entry["said"] = secrets.hide(ended.tail, secrets.values_in(leg.arm.env, os.environ))
        leg.entry["ended_unix_ns"] = ended.ended_unix_ns
        append_leg(self._folder, leg.entry)
        if leg.directory is not None:
            try:
                _remove(leg.directory, leg.identity)
            except OSError as error:
                where = f'arm "{leg.name}" left its directory "{leg.directory}"'
                self.left.append(
                    LeftBehindError(
                        f"{where}: {error.strerror}",
                        "unmount what is not its own, and remove the directory",
                    )
                )
            if leg.arm.data is None:
                with contextlib.suppress(OSError):
                    leg.directory.parent.rmdir()

    def _environment(self, arm: Arm, directory: Path | None) -> dict[str, str]:
        variables = {
            name: secrets.resolve(value, os.environ)
            if isinstance(value, dict)
            else _word(value, directory)
            for name, value in arm.env.items()
        }
        return {**secrets.inherited(), **variables}

    def _error(self, leg: _Leg, what: str) -> TargetError:
        lines = [line.strip() for line in leg.entry.get("said", "").splitlines() if line.strip()]
        printed = f"; it printed: {'; '.join(lines[-LINES_SHOWN:])}" if lines else ""
        return TargetError(
            f'arm "{leg.name}": {what}{printed}',
            "run its command by hand; it must stay in the foreground",
        )


def _identity(path: Path) -> tuple[int, int]:
    facts = path.lstat()
    return facts.st_dev, facts.st_ino


def _mounts(path: str) -> list[str]:
    """Return the mount points at a path or below it."""
    # Imported late, because only runs with arms need it.
    from loadstone.formats.node_probes import mounts_in

    return mounts_in(Path("/proc/self/mountinfo").read_text(), path)


def _remove(directory: Path, identity: tuple[int, int]) -> None:
    """Delete a directory that was made here; OSError if it was replaced, or contains a mount.

    A mounted disk or foreign folder in it does not belong to the leg.
    """
    mounts = _mounts(str(directory))
    if mounts:
        raise OSError(errno.EBUSY, f'"{mounts[0]}" is mounted')
    if _identity(directory) != identity:
        raise OSError(errno.ESTALE, "it is not the directory that was made")
    shutil.rmtree(directory)


def _words(words: Sequence[str], directory: Path | None) -> tuple[str, ...]:
    return tuple(_word(word, directory) for word in words)


def _word(word: str, directory: Path | None) -> str:
    return word if directory is None else word.replace(DATA, str(directory))


def state_of_session(session: int) -> ServerState | None:
    """Return the resource use of all processes of a session together; None if none is left.

    Usage of an ended process counts with its parent, if that has waited for it.
    """
    state: ServerState = {
        "processes": 0, "cpu_ns": 0, "memory_bytes": 0, "memory_peak_bytes": 0, "read_bytes": 0,
        "written_bytes": 0,
    }  # fmt: skip
    for number in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError, ValueError, IndexError):
            # getsid() per process is cheap; reading the state of all processes takes over 10 ms.
            if os.getsid(int(number)) != session:
                continue
            folder = Path("/proc", number)
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            state["processes"] += 1
            state["cpu_ns"] += _cpu_ns(int(number), fields)
            for line in (folder / "status").read_text().splitlines():
                key, _, value = line.partition(":")
                if key == "VmRSS":
                    state["memory_bytes"] += int(value.split()[0]) * 1024
                elif key == "VmHWM":
                    state["memory_peak_bytes"] += int(value.split()[0]) * 1024
            for line in (folder / "io").read_text().splitlines():
                key, _, value = line.partition(":")
                if key == "read_bytes":
                    state["read_bytes"] += int(value)
                elif key == "write_bytes":
                    state["written_bytes"] += int(value)
    return state if state["processes"] else None


def _cpu_ns(process: int, fields: Sequence[str]) -> int:
    """Return the processor time of a process and of its reaped children, in nanoseconds.

    `fields` are those of its stat file from the state on. They count ticks, usually of 10 ms, which
    is 2 % of a server's use in a short leg; the process's CPU clock has nanoseconds.
    """
    tick_ns = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    # The clock id of clock_getcpuclockid(3), which Python offers for threads only.
    clock = (~process << 3) | 2
    return time.clock_gettime_ns(clock) + sum(map(int, fields[13:15])) * tick_ns
