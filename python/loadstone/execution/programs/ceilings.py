"""Measures ceilings: runs other programs as planned, and stores and parses their output."""

import base64
import json
import os
import shlex
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from loadstone.campaign.planning.ceiling_plan import PACKAGES, PlannedCeiling, steps_of_osds
from loadstone.campaign.schema.fio_jobs import writes_of_job_file
from loadstone.campaign.schema.hook import Hook
from loadstone.documents.ceiling import CeilingDocument, CeilingMeasurement, CeilingStep, LeftBehind
from loadstone.errors import InputError, LeftBehindError, TargetError
from loadstone.execution import secrets
from loadstone.execution.events import CeilingEnded, CeilingProgress, CeilingStarted, Event
from loadstone.execution.interrupt import Interrupt
from loadstone.execution.programs.program import Ended, Program, run_programs
from loadstone.probes.ceph_answers import read_groups
from loadstone.results.ceiling_record import CeilingWriter
from loadstone.results.files import durable

if TYPE_CHECKING:
    from loadstone.formats.measurement import PrintedMeasurement

Listen = Callable[[Event], None]

# The time that ending a program may take, times the number of clean-up commands.
CLEAN_UP_S = 300.0
SERVER_READY_S = 5.0
# Ceph's number for a shard that currently has no OSD.
NO_OSD = 0x7FFF_FFFF


def check_programs(ceilings: Iterable[PlannedCeiling], hooks: Iterable[Hook] = ()) -> None:
    """Refuse a plan with missing programs or job files, before anything has begun."""
    for planned in ceilings:
        document = planned.document
        for name in planned.programs:
            if shutil.which(name) is None:
                raise _missing(f'ceiling "{document["name"]}"', name)
        if document["job_file"] is not None:
            _check_job_file(document)
    for hook in hooks:
        if shutil.which(hook.command[0]) is None:
            raise _missing(f'hook "{hook.label}"', hook.command[0])
        for value in hook.env.values():
            if isinstance(value, dict):
                secrets.resolve(value, os.environ)


def _missing(what: str, name: str) -> InputError:
    package = PACKAGES.get(os.path.basename(name))
    hint = f"on Debian: apt-get install {package}" if package else "install it, or name its path"
    message = f'{what} needs the program "{name}", which is not on this host'
    return InputError(message, hint, kind="program-absent")


def _check_job_file(document: CeilingDocument) -> None:
    for name in writes_of_job_file(Path(str(document["job_file"]))):
        if name not in document["allow_write"]:
            raise InputError(
                f'ceiling "{document["name"]}": job file "{document["job_file"]}" writes to'
                f' "{name}", which the campaign does not allow',
                f"its data would be lost; to allow that: allow_write: [{name}]",
            )


def _read_job_file(document: CeilingDocument) -> bytes:
    path = str(document["job_file"])
    try:
        return Path(path).read_bytes()
    except OSError as error:
        reason = f'job file "{path}" can no longer be read: {error.strerror}'
        raise TargetError(f'ceiling "{document["name"]}": {reason}') from error


class Interrupted(Exception):  # noqa: N818 - it is not an error
    """The run is to stop; --resume will measure the ceiling again.

    `left_behind` is what could not be removed, with a hint; None if everything was removed.
    """

    def __init__(self, left_behind: LeftBehindError | None = None) -> None:
        super().__init__()
        self.left_behind = left_behind


def run_ceiling(
    document: CeilingDocument, folder: Path, listen: Listen, interrupt: Interrupt
) -> LeftBehindError | None:
    """Measure one ceiling and store its record; return what it left behind, if anything.

    Raises TargetError if a program fails, and Interrupted if it was stopped. In both cases its data
    is cleaned up, and no record is left. A failed clean-up does not invalidate a good measurement:
    it is stored, and its record reports the failure.
    """
    ceiling = _Ceiling(document, folder, listen, interrupt)
    started_ns = time.time_ns()
    listen(CeilingStarted(document=document))
    try:
        measurements = ceiling.measure()
    except BaseException as stop:
        left = _clean_up(document) if ceiling.has_begun else []
        if left and isinstance(stop, Interrupted):
            raise Interrupted(_left_behind(document, left)) from stop
        if left and isinstance(stop, TargetError):
            problem = _left_behind(document, left)
            raise TargetError(f"{stop.message}; {problem.message}", problem.hint) from stop
        raise
    left = _clean_up(document)
    ceiling.writer.finish(measurements, started_ns, time.time_ns(), left)
    listen(CeilingEnded(document=document, measurements=measurements))
    return _left_behind(document, left) if left else None


class _Ceiling:
    """A ceiling during its measurement."""

    def __init__(
        self, document: CeilingDocument, folder: Path, listen: Listen, interrupt: Interrupt
    ) -> None:
        self.writer = CeilingWriter(folder, document)
        self.has_begun = False
        """Whether there may be something of ours to remove."""
        self._document = document
        self._listen = listen
        self._interrupt = interrupt

    def measure(self) -> list[CeilingMeasurement]:
        """Run the steps in order, and return their measurements."""
        measurements: list[CeilingMeasurement] = []
        steps = self._steps()
        for number, step in enumerate(steps):
            # A directory that could not be created must not be removed.
            self.has_begun |= step["format"] is not None
            ended = self._run_step(step, number, len(steps))
            self.has_begun |= all(program.is_good for program in ended)
            paths = [self.writer.write_output(program.output) for program in ended]
            self._check(step, ended)
            if step["format"] is not None:
                measurements += self._measurements(step, ended, paths)
        if self._document["job_file"] is not None:
            self.writer.write_output(_read_job_file(self._document))
        return measurements

    def _steps(self) -> Sequence[CeilingStep]:
        """Return the steps; those for each OSD of a pool require a query for its OSDs first."""
        steps = self._document["steps"]
        if self._document["query"] is None:
            return steps
        query: CeilingStep = {
            "name": "the pool's OSDs",
            "commands": [self._document["query"]],
            "format": "pgs",
            "timeout_ns": 30 * 10**9,
        }
        ended = self._run(query, lambda passed_s: None)
        self.writer.write_output(ended[0].output)
        self._check(query, ended)
        try:
            groups = read_groups(ended[0].output)
        except ValueError as error:
            raise self._failed(query, f"no list of placement groups came back: {error}") from error
        osds = sorted({osd for group in groups for osd in group["acting"]} - {NO_OSD})
        if not osds:
            raise self._failed(query, "no OSD holds a placement group of the pool")
        return steps_of_osds(steps[0], osds)

    def _run_step(self, step: CeilingStep, number: int, count: int) -> list[Ended]:
        expected_s = (step["expected_ns"] or 0) / 1e9

        def tick(passed_s: float) -> None:
            share = min(1.0, passed_s / expected_s) if expected_s else 0.0
            self._listen(
                CeilingProgress(
                    document=self._document, step=str(step["name"]), elapsed_s=passed_s,
                    progress=(number + share) / count,
                )
            )  # fmt: skip

        if self._document["server"] is None:
            return self._run(step, tick)
        # One server per measurement: it ends with its client, or if none connects.
        server = Program([*self._document["server"], "-1", "--idle-timeout", "30", "--forceflush"])
        try:
            self._wait_for(server)
            return self._run(step, tick)
        finally:
            if server.is_running:
                server.stop("stopped")
            server.finish()

    def _run(self, step: CeilingStep, tick: Callable[[float], None]) -> list[Ended]:
        # A preparing step takes no time; killing it halfway would leave unclear whether there is
        # something to remove.
        is_measurement = step["format"] is not None
        return run_programs(
            step["commands"],
            timeout_s=step["timeout_ns"] / 1e9,
            is_stopped=lambda: is_measurement and self._interrupt.is_asked,
            tick=tick,
        )

    def _wait_for(self, server: Program) -> None:
        give_up = time.monotonic() + SERVER_READY_S
        while "listening" not in server.tail:
            if not server.is_running or time.monotonic() > give_up:
                name, printed = self._document["name"], server.tail or "no output"
                raise TargetError(f'ceiling "{name}": the server did not start: {printed}')
            time.sleep(0.02)

    def _check(self, step: CeilingStep, ended: Sequence[Ended]) -> None:
        if self._interrupt.is_asked:
            raise Interrupted
        for program in ended:
            if program.state == "timeout":
                limit_s = step["timeout_ns"] / 1e9
                raise self._failed(step, f"not finished after {limit_s:g} s: {_last(program)}")
            if not program.is_good:
                code = "" if program.exit_code is None else f"exit code {program.exit_code}: "
                raise self._failed(step, f"{code}{_last(program)}")

    def _failed(self, step: CeilingStep, why: str) -> TargetError:
        command = " ".join(step["commands"][0])
        return TargetError(
            f'ceiling "{self._document["name"]}", {step["name"]}: {why}',
            f"the command was: {command}",
        )

    def _measurements(
        self, step: CeilingStep, ended: Sequence[Ended], paths: Sequence[Path]
    ) -> list[CeilingMeasurement]:
        # Most runs have no ceiling whose output must be parsed.
        from loadstone.formats.measurement import read_measurements

        try:
            printed = read_measurements(str(step["format"]), [_readable(path) for path in paths])
        except InputError as error:
            raise self._failed(step, error.message) from error
        is_one = len(printed) == 1
        return [
            {
                "name": step["name"] if is_one else f"{step['name']}, {measurement.bounds}",
                "bounds": measurement.bounds,
                "parameters": dict(step["parameters"]),
                **_numbers(measurement),
                "commands": step["commands"],
                "outputs": [path.name for path in paths],
                "started_unix_ns": min(program.started_unix_ns for program in ended),
                "ended_unix_ns": max(program.ended_unix_ns for program in ended),
            }
            for measurement in printed
        ]


def _last(ended: Ended) -> str:
    """Return a program's error message; iperf3 prints it inside its JSON."""
    try:
        error = json.loads(ended.output).get("error")
    except (ValueError, AttributeError):
        error = None
    lines = [line.strip() for line in ended.tail.splitlines() if line.strip()]
    words = str(error or "; ".join(lines[-3:]) or "no output")
    return secrets.hide(words, ())


def _readable(path: Path) -> Path:
    """Return a file with the JSON alone: some programs print messages before and after it."""
    content = path.read_bytes()
    begin, end = content.find(b"{"), content.rfind(b"}")
    if begin < 0 or content[begin : end + 1] == content.strip():
        return path
    alone = path.with_suffix(".json.txt")
    durable.write_file(alone.parent, alone.name, content[begin : end + 1])
    return alone


def _numbers(measurement: "PrintedMeasurement") -> CeilingMeasurement:
    service = (
        None if measurement.service is None else base64.b64encode(measurement.service).decode()
    )
    return {
        "bytes_per_s": measurement.bytes_per_s,
        "bytes_per_s_min": measurement.low,
        "bytes_per_s_max": measurement.high,
        "bytes_per_second": list(measurement.seconds),
        "requests_per_s": measurement.requests_per_s,
        "service": service,
        "tool": measurement.tool,
        "tool_version": measurement.tool_version,
    }


def _clean_up(document: CeilingDocument) -> list[LeftBehind]:
    """Remove what the ceiling has created, also after a failure or Ctrl-C.

    Returns the failed commands with reasons: what they should have removed may still exist.
    """
    left: list[LeftBehind] = []
    for command in document["clean_up"]:
        (ended,) = run_programs([command], timeout_s=CLEAN_UP_S, is_stopped=lambda: False)
        if not ended.is_good:
            is_late = ended.state == "timeout"
            why = f"not finished after {CLEAN_UP_S:g} s: " if is_late else ""
            left.append({"command": list(command), "why": f"{why}{_last(ended)}"})
    return left


def _left_behind(document: CeilingDocument, left: Sequence[LeftBehind]) -> LeftBehindError:
    reasons = "; ".join(dict.fromkeys(entry["why"] for entry in left))
    commands = "; ".join(shlex.join(entry["command"]) for entry in left)
    return LeftBehindError(
        f'ceiling "{document["name"]}" left behind its data, because its clean-up failed:'
        f" {reasons}",
        f"remove it with: {commands}",
    )
