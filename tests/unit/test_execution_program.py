"""Programs that a run starts: their end, their output, and the files they leave."""

import errno
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from loadstone.execution.programs import program
from loadstone.execution.programs.program import run_programs


def wait(command: list[str], timeout_s: float = 60, **changes: Any) -> Any:
    usual: dict[str, Any] = {"is_stopped": lambda: False, "tick": lambda passed_s: None}
    (ended,) = run_programs([command], timeout_s=timeout_s, **(usual | changes))
    return ended


def test_a_program_that_takes_too_long_is_ended_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child, ready = tmp_path / "child", tmp_path / "ready"
    script = f"sleep 1000 & echo $! > {child}; trap '' TERM; echo begun; : > {ready}; "
    monotonic = time.monotonic

    def leap() -> float:
        # The time is over as soon as the program has begun, however long that takes here.
        return monotonic() + (1000 if ready.exists() else 0)

    monkeypatch.setattr(program.time, "monotonic", leap)
    ended = wait(["sh", "-c", f"{script} while :; do sleep 1000; done"], timeout_s=1000)
    assert ended.state == "timeout"
    assert not ended.is_good
    assert ended.tail == "begun"
    assert ends(int(child.read_text()))


def test_background_processes_of_a_program_are_neither_awaited_nor_ended(tmp_path: Path) -> None:
    child = tmp_path / "child"
    ended = wait(["sh", "-c", f"sleep 1000 & echo $! > {child}"])
    assert ended.is_good
    number = int(child.read_text())
    assert is_alive(number)
    os.kill(number, signal.SIGKILL)
    assert ends(number)


def test_only_the_last_of_what_a_program_says_is_told_and_all_of_its_output_kept() -> None:
    ended = wait(["sh", "-c", "echo fault >&2; sleep 0.1; seq 1 20000; exit 3"])
    assert (ended.state, ended.exit_code) == ("ended", 3)
    assert ended.output.split()[0] == b"1"
    assert ended.output.split()[-1] == b"20000"
    assert len(ended.tail) <= 4096
    assert "fault" in ended.tail


def test_a_program_that_is_not_there_is_told_by_its_name() -> None:
    ended = wait(["no-such-program"])
    assert ended.state == "not started"
    assert f"no-such-program: {os.strerror(errno.ENOENT)}" in ended.tail


def test_when_somebody_wants_to_stop_all_programs_side_by_side_are_ended() -> None:
    asked = threading.Event()
    threading.Timer(0.2, asked.set).start()
    results = run_programs(
        [["sleep", "1000"], ["sleep", "1000"]],
        timeout_s=1000,
        is_stopped=asked.is_set,
        tick=lambda passed_s: None,
    )
    assert [ended.state for ended in results] == ["stopped", "stopped"]


def is_alive(number: int) -> bool:
    try:
        state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def ends(number: int) -> bool:
    """Wait for the end of a killed process, which takes time on a busy machine."""
    give_up = time.monotonic() + 60
    while is_alive(number) and time.monotonic() < give_up:
        time.sleep(0.02)
    return not is_alive(number)
