"""Memory that is short by a known amount is named as the limit, and memory that is not is none."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from loadstone.analysis.cells.query_limits import QueryMemory, QueryUse, limit_of
from loadstone.engines.tables import generate
from loadstone.errors import InputError
from loadstone.execution.host.memory_group import limited
from tests.system import campaigns
from tests.system.command import loadstone

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("memory")]

MIB = 1 << 20

# Reads the pages of a mapped file in an order of chance, again and again, as an engine reads what
# it needs more than once.
READS = """
import json, mmap, os, random, sys, time
from dataclasses import asdict
from pathlib import Path
from loadstone.engines import worker
from loadstone.execution.host.memory_group import limited
file, limit = Path(sys.argv[1]), int(sys.argv[2])
descriptor = os.open(file, os.O_RDONLY)
os.fdatasync(descriptor)
os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
with limited(limit, f"memory-{os.getpid()}", file.parent / "run"):
    with mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as pages:
        pages.madvise(mmap.MADV_RANDOM)
        order = list(range(0, len(pages), 4096))
        for at in order:
            pages[at]
        random.Random(1).shuffle(order)
        before, started = worker.begin(None), time.monotonic_ns()
        for _ in range(2):
            for at in order:
                pages[at]
        told = worker.end(before, None)
print(json.dumps({**asdict(told), "time_ns": time.monotonic_ns() - started}))
"""


@pytest.fixture(autouse=True)
def _groups(tmp_path: Path) -> None:
    try:
        with limited(64 * MIB, "memory-probe", tmp_path / "run"):
            pass
    except InputError as error:
        pytest.skip(f"{error.message}")


def read_within(file: Path, limit: int) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", READS, file, str(limit)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def limit_named(result: dict[str, Any]) -> str:
    seconds = result["time_ns"] / 1e9
    memory = QueryMemory(
        stalled=result["memory_stall_ns"] / result["time_ns"],
        major_faults=result["major_faults"],
        peak_bytes=result["memory_peak_bytes"],
        reread_bytes=result["reread_bytes"],
    )
    use = QueryUse(
        cpu_s=result["cpu_ns"] / 1e9, read_bytes=result["read_bytes"], threads=2,
        failures={}, messages=(), bounds=(), memory=memory,
    )  # fmt: skip
    return limit_of(use, seconds)[0]


def test_pages_that_do_not_fit_are_memory_and_pages_that_do_are_not(tmp_path: Path) -> None:
    file = tmp_path / "pages"
    file.write_bytes(bytes(24 * MIB))
    short, ample = read_within(file, 18 * MIB), read_within(file, 256 * MIB)
    assert short["major_faults"] > 1000
    assert ample["major_faults"] < 100
    assert limit_named(short) == "memory"
    assert limit_named(ample) != "memory"


def test_an_engine_that_the_kernel_ends_for_its_memory_is_said_to_be_short_of_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "data").mkdir()
    # Their generator needs more memory than the query.
    generate(tmp_path / "made", "tpch", 0.3, 1, lambda: True)
    file = campaigns.write(
        tmp_path,
        f"name: memory\ntargets: {{disk: {{driver: file, path: {tmp_path / 'data'}}}}}\n"
        "queries: {scale: 0.3, engine: datafusion, only: [6, 18], loops: 1, order: rounds, "
        f"answers: null, data: {tmp_path / 'made'}}}\nlimits: {{memory: 140MiB}}\n",
    )
    finished = loadstone("run", file, "-o", tmp_path / "run")
    document = loadstone("report", tmp_path / "run", "-f", "json").json()
    [arm] = document["queries"]["arms"]
    outcomes = {query["query"]: (query["failures"], query["limit"]) for query in arm["queries"]}
    assert outcomes["Q18"] == ({"out_of_memory": 1}, "memory"), finished.err
    assert outcomes["Q06"][0] == {}
