"""How many instructions a request costs the load generator itself, by callgrind.

Instructions do not depend on how busy or fast a machine is, so a change of the hot loop shows here
where a time would drown in noise.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

INSTRUCTIONS_PER_REQUEST = 826
"""What a closed `get` on the null driver costs: schedule, choice, clock, two histograms.

It was 745 before requests named what they are done to, and before parts of an object and objects
that were never written were told apart; then 811, until the number of an object was reckoned only
where it is logged or put; 796 until a script could judge how a request ended.
"""

TOLERANCE = 0.05
"""Another release of the compiler moves the figure by a few per cent. A change of ours by more, up
or down, is either a mistake or the reason to commit a new figure."""


@pytest.mark.real
def test_a_request_costs_as_many_instructions_as_is_committed(tmp_path: Path) -> None:
    """Take the slope between two counts of requests: start and end of a trial fall out."""
    if shutil.which("valgrind") is None:
        pytest.skip("no valgrind on PATH")
    build = ["cargo", "build", "--release", "--quiet", "-p", "loadstone-loadgen"]
    build += ["--example", "null_trial"]
    subprocess.run(build, cwd=ROOT, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    program = target / "release" / "examples" / "null_trial"
    few, many = 20_000, 60_000
    counted = {requests: _load_thread(program, requests, tmp_path) for requests in (few, many)}
    per_request = (counted[many] - counted[few]) / (many - few)
    assert per_request == pytest.approx(INSTRUCTIONS_PER_REQUEST, rel=TOLERANCE)


def _load_thread(program: Path, requests: int, folder: Path) -> int:
    """Count the instructions of the one load thread, which is the busiest of all."""
    out = folder / f"counts-{requests}"
    command = ["valgrind", "--tool=callgrind", "--separate-threads=yes"]
    command += [f"--callgrind-out-file={out}", str(program), str(requests)]
    subprocess.run(command, check=True, capture_output=True)
    threads = [path.read_text() for path in folder.glob(f"{out.name}-*")]
    totals = [
        int(match[1]) for text in threads if (match := re.search(r"^totals: (\d+)", text, re.M))
    ]
    return max(totals)
