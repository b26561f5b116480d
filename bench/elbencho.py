"""Runs elbencho and parses its results for each phase."""

import json
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trials import cpu_of


@dataclass(frozen=True)
class Phase:
    """The results of elbencho for one phase, at its last thread's end."""

    name: str
    entries: int
    ios: int
    per_s: float


def version() -> str:
    """Return elbencho's own version string."""
    command = ["elbencho", "--version"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    line = next(line for line in output.splitlines() if "Version:" in line and "Net" not in line)
    return line.split(":")[1].strip()


def parse_phases(output: str) -> list[Phase]:
    """Return the phases in a file of --jsonfile, which has one line of JSON for each."""
    phases = []
    for line in output.splitlines():
        phase = json.loads(line)
        name, done = phase["phase_type"], phase["last_done"]
        entries, moved = int(done.get("entries", 0)), int(done.get("bytes", 0))
        if not entries and not moved:
            raise SystemExit(f"elbencho did nothing in its phase {name}: {line}")
        # Phases with files are counted in files, a single file in blocks.
        per_s = float(done["entries/s"] if entries else done["iops"])
        phases.append(Phase(name, entries, moved // int(phase["config"]["block_size"]), per_s))
    return phases


def run(options: Sequence[str], paths: Sequence[Path]) -> tuple[float, list[Phase]]:
    """Run elbencho; return the CPU seconds of the whole process, and its phases."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.json"
        command = ["elbencho", *options, "--nolive", "--jsonfile", str(results)]
        cpu_s, _ = cpu_of([*command, *map(str, paths)])
        return cpu_s, parse_phases(results.read_text())
