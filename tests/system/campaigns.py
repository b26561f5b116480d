"""Campaigns that need no server: the null driver answers at once."""

from pathlib import Path

from loadstone.cli import exit_code
from tests.system.command import HANGS_AFTER_S, Process

WENT_WELL = (0, exit_code.VOID)
"""Exit codes of a load with all requests good; on a busy machine late ones make it void."""

# Eight trials of a fifth of a second on two null targets.
QUICK = """\
name: quick
targets:
  one: {driver: "null"}
  two: {driver: "null"}
dataset: {objects: 1000, size: 4KiB, buckets: 4}
load: {threads: 1}
rounds: 2
phases:
  - {op: put, duration: 200ms}
  - {op: get, duration: 200ms}
"""

# A rate that leaves the machine to other work while tests wait for it.
LONG = QUICK.replace("200ms", "10m").replace("threads: 1", "rate: 100/s, clients_max: 20")


def write(folder: Path, text: str) -> Path:
    """Write a campaign file."""
    path = folder / "campaign.yaml"
    path.write_text(text)
    return path


def wait_for(process: Process, *texts: str) -> str:
    """Read the output of a command until it has one of these texts; return it all."""
    assert process.stderr is not None
    output = ""
    while not any(text in output for text in texts):
        line = process.stderr.readline()
        assert line, f"none of {texts} was ever said, but: {output}"
        output += line
    return output


def end(process: Process) -> tuple[str, str]:
    """Wait for the end; return the output up to it."""
    return process.communicate(timeout=HANGS_AFTER_S)
