"""How many instructions a request costs the load generator itself, by callgrind.

Instructions do not depend on how busy or fast a machine is, so a change of the hot loop shows here
where a time would drown in noise. What is counted is the extension as it is installed.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from loadstone import _loadgen
from tests.conformance import store_under_test
from tests.system import campaigns
from tests.system.command import loadstone, trials_of

INSTRUCTIONS_PER_REQUEST = 826
"""Instructions of a closed-loop `get` on the null driver: schedule, choice, clock, two histograms.

It was 745 before requests named their objects, and before parts of objects and unwritten objects
were distinguished; then 811, until the number of an object was only computed for logged
requests and puts; 796 until scripts could judge the outcome of a request.
"""

TOLERANCE = 0.05
"""Releases of the compiler change the figure by a few per cent. A larger change of loadstone's, up
or down, is either a mistake or requires a new figure."""

TRIAL: Mapping[str, Any] = {
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


@pytest.mark.real
def test_a_scripted_get_costs_at_most_a_tenth_more_than_a_plain_one(tmp_path: Path) -> None:
    """Take the same slope of gets of 4 KiB from the embedded store."""
    if shutil.which("valgrind") is None:
        pytest.skip("no valgrind on PATH")
    few, many = 4000, 12_000
    cost: dict[str, float] = {}
    with store_under_test.store() as url:
        for kind, campaign in (("plain", PLAIN), ("scripted", SCRIPTED)):
            counted = {}
            for requests in (few, many):
                folder = tmp_path / f"{kind}-{requests}"
                folder.mkdir()
                script = folder / "reads.csv"
                _write_script(script, requests)
                text = campaign.format(url=url, requests=requests, script=script)
                file = campaigns.write(folder, text)
                finished = loadstone("run", file, "-o", folder / "run", environment=SECRETS)
                assert finished.code == 0, finished.err
                # The run has cleaned up: its objects are put again.
                puts, gets = (trial["trial"] for trial in trials_of(folder / "run")[:2])
                _extension(puts | {"cores": 1}, folder / "run")
                counted[requests] = _load_thread(requests, folder / "run", gets | {"cores": 1})
            cost[kind] = (counted[many] - counted[few]) / (many - few)
    print(cost)
    assert cost["scripted"] <= 1.1 * cost["plain"]


@pytest.mark.real
def test_a_put_on_condition_costs_little_more_than_a_plain_one(tmp_path: Path) -> None:
    """Take the same slope of puts of 4 KiB; the ETag is asked for once an object.

    It was 37,900 instructions against 31,200 while the header of the condition was signed, which
    took another block of SHA-256, and each answer's ETag was kept; then 32,400 (if absent) and
    34,600 (if it matches, whose answer's ETag is kept for the next) against 31,200, and 33,800
    since ETags are kept without copies.
    """
    if shutil.which("valgrind") is None:
        pytest.skip("no valgrind on PATH")
    few, many = 4000, 12_000
    cost: dict[str, float] = {}
    with store_under_test.store() as url:
        settings = {
            "endpoints": [url],
            "access_key": {"env": "KEY"},
            "secret_key": {"env": "SECRET"},
        }
        target = {"name": "s3", "driver": "s3", "settings": settings}
        for operation in ("put", "put_if_absent", "put_if_match"):
            counted = {}
            for requests in (few, many):
                folder = tmp_path / f"{operation}-{requests}"
                folder.mkdir()
                # Absent objects are new in each trial; a thousand are overwritten again and again.
                objects = many if operation == "put_if_absent" else 1000
                prefix = f"{operation}-{requests}-".replace("_", "-")
                dataset = {**TRIAL["dataset"], "bucket_prefix": prefix, "objects": objects}
                trial = {**TRIAL, "target": target, "dataset": dataset, "phase": operation}
                if operation == "put_if_match":
                    prepare = {"mix": [{"operation": "put"}], "stop": {"requests": objects}}
                    _extension({**trial, **prepare, "phase": "prepare"}, folder)
                trial["mix"] = [{"operation": operation}]
                counted[requests] = _load_thread(requests, folder, trial)
            cost[operation] = (counted[many] - counted[few]) / (many - few)
    print(cost)
    assert cost["put_if_absent"] <= 1.1 * cost["put"]
    assert cost["put_if_match"] <= 1.1 * cost["put"]


@pytest.mark.long
def test_an_audited_request_costs_at_most_a_tenth_more_than_a_verified_one(tmp_path: Path) -> None:
    """Take the same slope of a mix of 4 KiB, whose reads are verified in any case."""
    if shutil.which("valgrind") is None:
        pytest.skip("no valgrind on PATH")
    few, many = 4000, 12_000
    cost: dict[str, float] = {}
    with store_under_test.store() as url:
        for audit in ("false", "true", "{history: true}"):
            counted = {}
            for requests in (few, many):
                folder = tmp_path / f"{len(cost)}-{requests}"
                folder.mkdir()
                text = MIX.format(url=url, requests=requests, audit=audit)
                file = campaigns.write(folder, text)
                finished = loadstone("run", file, "-o", folder / "run", environment=SECRETS)
                assert finished.code == 0, finished.err
                puts, mix = (
                    trial["trial"]
                    for trial in trials_of(folder / "run")
                    if trial["trial"]["measured"]
                )
                _extension(puts | {"cores": 1}, folder / "run")
                counted[requests] = _load_thread(requests, folder / "run", mix | {"cores": 1})
            cost[audit] = (counted[many] - counted[few]) / (many - few)
    print(cost)
    assert max(cost.values()) <= 1.1 * cost["false"]


SECRETS = {"KEY": store_under_test.ACCESS_KEY, "SECRET": store_under_test.SECRET_KEY}
TARGET = """\
name: gets
targets:
  store: {{driver: s3, endpoint: "{url}", access_key: {{env: KEY}}, secret_key: {{env: SECRET}}}}
load: {{threads: 4}}
"""
PLAIN = (
    TARGET
    + """\
dataset: {{objects: 1000, size: 4KiB}}
phases: [{{name: put, op: put, requests: 1000}}, {{name: get, op: get, requests: {requests}}}]
"""
)
MIX = (
    TARGET
    + """\
dataset: {{objects: 1000, size: 4KiB}}
phases:
  - {{name: put, op: put, requests: 1000}}
  - {{name: mix, mix: {{get: 45, put: 15, delete: 10}}, requests: {requests}}}
audit: {audit}
"""
)
SCRIPTED = (
    TARGET
    + """\
dataset: {{buckets: 1}}
phases: [{{name: get, script: {{file: "{script}"}}}}]
"""
)


def _write_script(path: Path, requests: int) -> None:
    """Write reads of 1,000 objects that are there before, by four sessions."""
    rows = (f"{row % 4},READ,o/{row % 1000},4096,exists" for row in range(requests))
    path.write_text("\n".join(["session,action,object,size,expect", *rows]) + "\n")


def _load_thread(requests: int, folder: Path, trial: Mapping[str, Any] = TRIAL) -> int:
    """Count the instructions of the one load thread, which is the busiest beside Python's own."""
    out = folder / f"counts-{requests}"
    grind = ["valgrind", "--tool=callgrind", "--separate-threads=yes"]
    grind += [f"--callgrind-out-file={out}"]
    summary = _extension({**trial, "stop": {"requests": requests}}, folder, grind)
    assert json.loads(summary)["requests"] == requests
    totals = {
        int(path.name.rpartition("-")[2]): int(match[1])
        for path in folder.glob(f"{out.name}-*")
        if (match := re.search(r"^totals: (\d+)", path.read_text(), re.M))
    }
    return max(total for thread, total in totals.items() if thread != MAIN_THREAD)


def _extension(trial: Mapping[str, Any], folder: Path, under: Sequence[str] = ()) -> str:
    """Run a trial by the extension alone: under valgrind, every module of Python takes its time."""
    program = [sys.executable, "-I", "-S", "-c", _PROGRAM, str(_loadgen.__file__)]
    return subprocess.run(
        [*under, *program, json.dumps(trial)],
        check=True,
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, **SECRETS},
    ).stdout


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
