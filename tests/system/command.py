"""Runs `loadstone` as a user does: in its own process, with an environment and a folder."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE
from typing import Any

from loadstone.analysis.rules import find_rule
from loadstone.cli import exit_code
from tests.system import warm_start

# A command that takes longer hangs; none of the tests' commands needs even a minute.
HANGS_AFTER_S = 600

# State kept on the host that runs the tests must not decide their results.
NO_STATE = "/dev/null/state"


Process = subprocess.Popen[str] | warm_start.Fork
"""A running command."""


ERRORS_AS_JSON = ("--errors", "json")
"""Options before a command that print errors as JSON, whose kinds are more stable than wording."""


@dataclass(frozen=True)
class CommandResult:
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """Parse the output as JSON."""
        assert self.out, self.err
        return json.loads(self.out)

    @property
    def errors(self) -> list[dict[str, Any]]:
        """Parse the errors that it printed after `--errors json`."""
        return errors_in(self.err)

    @property
    def kinds(self) -> list[str]:
        """Return the kinds of these errors."""
        return [error["kind"] for error in self.errors]


def errors_in(text: str) -> list[dict[str, Any]]:
    """Return the errors that a command printed as JSON."""
    return [json.loads(line)["error"] for line in text.splitlines() if line.startswith('{"error"')]


def loadstone(
    *arguments: str | Path, environment: Mapping[str, str] | None = None
) -> CommandResult:
    """Run `loadstone` with `arguments` to its end."""
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AWS_", "OS_", "ST_", "CEPH_"))
    }
    process = start(
        *arguments,
        environment={**clean, "NO_COLOR": "1", "XDG_STATE_HOME": NO_STATE, **(environment or {})},
    )
    try:
        out, err = process.communicate(HANGS_AFTER_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    assert process.returncode is not None
    return CommandResult(settled(process.returncode, err), out, err)


def settled(code: int, err: str) -> int:
    """Return the exit code, but 0 for results that are void only because the host was busy."""
    void = [line for line in err.splitlines() if line.startswith("void: ")]
    busy = {find_rule(rule).short for rule in ("STALLED", "LAG")}
    reasons = {reason for line in void for reason in line.rpartition(": ")[2].split("; ")}
    return 0 if code == exit_code.VOID and void and reasons <= busy else code


def start(
    *arguments: str | Path,
    environment: Mapping[str, str] | None = None,
    out: int = PIPE,
    err: int = PIPE,
) -> Process:
    """Start `loadstone`, with exactly this environment or with ours, and let it run."""
    words = list(map(str, arguments))
    given = dict(os.environ if environment is None else environment)
    if warm_start.is_as_started(given):
        return warm_start.start(words, given, out, err)
    return subprocess.Popen(
        [sys.executable, "-m", "loadstone", *words],
        env=given,
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=err,
        text=True,
    )


def trials_of(folder: Path) -> list[dict[str, Any]]:
    """Read the finished trials of a run folder, in order."""
    return [json.loads(path.read_text()) for path in sorted((folder / "trials").glob("*.json"))]


def assert_secret_absent(secret: str, result: CommandResult, folder: Path) -> None:
    """Search for a secret in the whole output and in all written files."""
    assert secret not in result.out + result.err
    for path in folder.rglob("*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes(), f"the secret stands in {path}"
