"""How many instructions a request costs the load generator itself, by callgrind.

Instructions do not depend on how busy or fast a machine is, so a change of the hot loop shows here
where a time would drown in noise. What is counted is the extension as it is installed.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from loadstone import _loadgen

INSTRUCTIONS_PER_REQUEST = 826
"""What a closed `get` on the null driver costs: schedule, choice, clock, two histograms.

It was 745 before requests named what they are done to, and before parts of an object and objects
that were never written were told apart; then 811, until the number of an object was reckoned only
where it is logged or put; 796 until a script could judge how a request ended.
"""

TOLERANCE = 0.05
"""Another release of the compiler moves the figure by a few per cent. A change of ours by more, up
or down, is either a mistake or the reason to commit a new figure."""

TRIAL = {
    "format": 1,
    "id": "0001",
    "run": "00000000000000000000000000000001",
    "seed": 1,
    "phase": "get",
    "target": {"name": "null", "driver": "null", "settings": {}},
    "dataset": {
        "bucket_prefix": "b",
        "buckets": 4,
        "objects": 1000,
        "object_prefix": "o-",
        "size": {"kind": "fixed", "bytes": 4096},
    },
    "mix": [{"operation": "get"}],
    "load": {"kind": "closed", "clients": 16},
    "cores": 1,
}

MAIN_THREAD = 1
"""Python itself, which callgrind counts first."""


@pytest.mark.real
def test_a_request_costs_as_many_instructions_as_is_committed(tmp_path: Path) -> None:
    """Take the slope between two counts of requests: start and end of a trial fall out."""
    if shutil.which("valgrind") is None:
        pytest.skip("no valgrind on PATH")
    few, many = 20_000, 60_000
    counted = {requests: _load_thread(requests, tmp_path) for requests in (few, many)}
    per_request = (counted[many] - counted[few]) / (many - few)
    assert per_request == pytest.approx(INSTRUCTIONS_PER_REQUEST, rel=TOLERANCE)


def _load_thread(requests: int, folder: Path) -> int:
    """Count the instructions of the one load thread, which is the busiest beside Python's own."""
    out = folder / f"counts-{requests}"
    trial = json.dumps(TRIAL | {"stop": {"requests": requests}})
    # The extension alone: under valgrind, every module of Python takes its time.
    program = [sys.executable, "-I", "-S", "-c", _PROGRAM, str(_loadgen.__file__), trial]
    command = ["valgrind", "--tool=callgrind", "--separate-threads=yes"]
    command += [f"--callgrind-out-file={out}", *program]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert json.loads(told)["requests"] == requests
    totals = {
        int(path.name.rpartition("-")[2]): int(match[1])
        for path in folder.glob(f"{out.name}-*")
        if (match := re.search(r"^totals: (\d+)", path.read_text(), re.M))
    }
    return max(total for thread, total in totals.items() if thread != MAIN_THREAD)


_PROGRAM = """
import sys
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location

path, trial = sys.argv[1:]
loader = ExtensionFileLoader("_loadgen", path)
extension = module_from_spec(spec_from_file_location("_loadgen", path, loader=loader))
loader.exec_module(extension)
print(extension.run_trial(trial))
"""
