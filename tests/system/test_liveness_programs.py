"""Commands that run programs instead of sending requests end, whatever these print or do."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.system.command import HANGS_AFTER_S, NO_STATE, loadstone, start, trials_of

DEEP = "[" * 100_000
PROGRAMS = {
    "never ends": "sleep 3600",
    "does not heed a signal": "trap '' TERM INT; sleep 3600 & wait; sleep 3600",
    "prints without end": "yes",
    "prints no JSON": "echo 'Traceback'; exit 0",
    "another kind of JSON": "echo '[[1]]'",
    "nested too deep": f"printf '%s' '{DEEP}'",
    "values of other kinds": 'echo \'{"health": 7, "pgmap": [1], "stats": "x", "nodes": {}}\'',
    "steers the terminal": "printf '\\033]0;x\\007\\033[2J' >&2; exit 3",
    "is not there": None,
}
CAMPAIGN = """
name: liveness
targets: {one: {driver: "null"}}
probes: {ceph: [{via: [PROGRAM], timeout: 500ms}]}
dataset: {objects: 12, size: 4KiB}
load: {threads: 2}
phases: [{op: get, duration: DURATION}]
"""


def campaign(folder: Path, program: str | None, duration: str) -> Path:
    script = folder / "program"
    if program is not None:
        script.write_text(f"#!/bin/sh\n{program}\n")
        script.chmod(0o755)
    file = folder / "campaign.yaml"
    file.write_text(CAMPAIGN.replace("PROGRAM", str(script)).replace("DURATION", duration))
    return file


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_run_ends_whatever_answers_for_ceph(name: str, tmp_path: Path) -> None:
    """Missing answers are absent from the record; the trial is otherwise unaffected."""
    file = campaign(tmp_path, PROGRAMS[name], "500ms")
    finished = loadstone("run", file, "-o", tmp_path / "run", "--allow-commands")
    assert "Traceback" not in finished.err
    assert "\x1b" not in finished.err
    assert finished.code in (0, 1), finished.err
    if finished.code == 1:
        assert "program" in finished.err, "it says what it could not start"
        return
    (record,) = trials_of(tmp_path / "run")
    assert record["summary"]["requests"] > 0


def stopped(*arguments: str | Path, after: Path | None = None, seconds: float = 0) -> int:
    """Send Ctrl-C once a file is there, or after some seconds; return how the command ended."""
    process = start(
        *arguments,
        environment={**os.environ, "NO_COLOR": "1", "XDG_STATE_HOME": NO_STATE},
        out=subprocess.DEVNULL,
        err=subprocess.DEVNULL,
    )
    while after is not None and not after.exists() and process.poll() is None:
        time.sleep(0.02)
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    return process.wait(HANGS_AFTER_S)


def test_ctrl_c_while_a_program_never_answers_ends_the_run(tmp_path: Path) -> None:
    flag = tmp_path / "asked"
    file = campaign(tmp_path, f"touch {flag}; trap '' TERM INT; sleep 3600", "1h")
    file.write_text(file.read_text().replace("timeout: 500ms", "timeout: 1h"))
    run = tmp_path / "run"
    assert stopped("run", file, "-o", run, "--allow-commands", after=flag) == 130


def test_ctrl_c_that_a_command_handled_during_an_import_is_no_death_by_a_signal(
    tmp_path: Path,
) -> None:
    program = """
from loadstone import __main__, cli

def command(arguments):
    try:
        exec("raise KeyboardInterrupt")
    except KeyboardInterrupt:
        return 130

cli.command_for = lambda arguments: command
__main__.main()
"""
    (tmp_path / "program.py").write_text(program)
    # CPython kills itself for a module, and not for a file.
    words = [sys.executable, "-m", "program"]
    assert subprocess.run(words, cwd=tmp_path, check=False).returncode == 130


def test_ctrl_c_ends_a_calibration(tmp_path: Path) -> None:
    """The servers end as well, and no incomplete measurement is kept."""
    state = tmp_path / "state"
    process = subprocess.Popen(
        [sys.executable, "-m", "loadstone", "calibrate", "s3", "-d", "1h"],
        env={**os.environ, "NO_COLOR": "1", "XDG_STATE_HOME": str(state)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    with process.stderr as lines:
        # It has said how long it takes: its loads are next.
        assert any(re.search(r" \d+ s; ", line) for line in lines)
        process.send_signal(signal.SIGINT)
        assert process.wait(HANGS_AFTER_S) == 130
    assert not list(state.rglob("*.json"))
    left = subprocess.run(
        ["ps", "-o", "pid=", "-s", str(process.pid)], capture_output=True, check=False
    )
    assert not left.stdout.split()
