"""A disk that fills up, at any byte, is an error that loses nothing that had ended."""

import re
import resource
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from loadstone.errors import ResultError
from loadstone.results.store import RunWriter, read_run
from tests.unit.sample_runs import document, interval, manifest

ROOT = Path(__file__).parents[2]

# No file may grow past the limit: to a program that looks like a full disk, for each file apart.
PROGRAM = """
    import os, resource, sys
    sys.path.insert(0, {root!r})
    from loadstone.errors import ResultError
    from tests.unit.sample_runs import *

    writer = RunWriter.create({run!r}, manifest())
    write_trial(writer, 1)
    trial = writer.begin_trial(document(2))
    resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, resource.RLIM_INFINITY))
    try:
        for second in range(40):
            trial.write_intervals(interval(second, payload=os.urandom(2000)))
        trial.finish({{"state": "finished"}})
    except ResultError as error:
        print("refused:", error)
    else:
        print("finished")
"""


def run_with_limit(path: Path, limit: int) -> str:
    program = PROGRAM.format(root=str(ROOT), run=str(path), limit=limit)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.parametrize("limit", [0, 500, 1_200, 5_003, 100_000])
def test_rows_written_before_the_disk_was_full_are_kept(tmp_path: Path, limit: int) -> None:
    output = run_with_limit(tmp_path / "run", limit)
    assert re.match(r'refused: .*write "', output)
    assert "0002" in output
    assert output.partition("hint: ")[2].strip()
    run = read_run(tmp_path / "run")
    assert run.records[0].is_whole
    assert run.records[0].intervals.num_rows == 5
    assert not run.records[1].is_whole
    seconds = run.records[1].intervals["second"]
    assert seconds == list(range(len(seconds)))
    assert len(seconds) == pytest.approx(limit / 5_000, abs=1.5)
    assert not list((tmp_path / "run").rglob("*.tmp"))


def test_a_disk_that_fills_while_parquet_is_written_keeps_the_stream(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "run", manifest()) as writer:
        trial = writer.begin_trial(document(1))
        for second in range(100):
            trial.write_intervals(interval(second))
        saved = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, saved[1]))
        try:
            with pytest.raises(ResultError, match=r'cannot write ".*0001.parquet"'):
                trial.finish({"state": "finished"})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, saved)
        assert writer.finished == frozenset()
    (record,) = read_run(tmp_path / "run").records
    assert record.labels == ("INTERRUPTED",)
    assert record.intervals.num_rows == 100
    assert sorted(path.name for path in (tmp_path / "run/trials").iterdir()) == ["0001.arrows"]
